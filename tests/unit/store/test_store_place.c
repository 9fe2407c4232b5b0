/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_place.c - live files in a private folder: what readers see of them,
 * copies, the way home, and that nothing that was committed is lost when the writer
 * is killed at any step on the way.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "store/folder.h"
#include "storetest.h"

/* ---- a death at each call that changes a file's name or writes it down ------------------- */

static long place_calls, place_die_at; /* 0: never */

static void place_call(void)
{
	if (++place_calls == place_die_at)
		_exit(77);
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __real_unlinkat(int fd, const char *path, int flags);
int __wrap_unlinkat(int fd, const char *path, int flags);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __real_rmdir(const char *path);
int __wrap_rmdir(const char *path);

int __wrap_rename(const char *from, const char *to)
{
	place_call();
	return __real_rename(from, to);
}

int __wrap_unlink(const char *path)
{
	place_call();
	return __real_unlink(path);
}

int __wrap_unlinkat(int fd, const char *path, int flags)
{
	place_call();
	return __real_unlinkat(fd, path, flags);
}

int __wrap_fsync(int fd)
{
	place_call();
	return __real_fsync(fd);
}

int __wrap_mkdir(const char *path, mode_t mode)
{
	place_call();
	return __real_mkdir(path, mode);
}

int __wrap_rmdir(const char *path)
{
	place_call();
	return __real_rmdir(path);
}

/* ---- a run's folder and a private one ---------------------------------------------------------
 */

struct places {
	char *base, *run, *local;
};

static int setup(void **state)
{
	struct places *p = xcalloc(1, sizeof(*p));

	p->base = storetest_dir();
	p->run = storetest_path(p->base, "run");
	p->local = storetest_path(p->base, "local");
	assert_int_equal(mkdir(p->run, 0700), 0);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct places *p = *state;

	chmod(p->run, 0700);
	storetest_remove(p->base);
	free(p->run);
	free(p->local);
	free(p);
	return 0;
}

static int try_open(const struct places *p, struct err *e, struct store **ret)
{
	const struct store_options o = {.dir = p->run,
					.host = "h",
					.live = STORE_LIVE_LOCAL,
					.local_dir = p->local,
					.copy_every_ns = INT64_MAX / 2};

	return store_open(&o, e, ret);
}

static struct store *open_live(const struct places *p)
{
	struct store *s = NULL;
	struct err e = {0};

	if (try_open(p, &e, &s) < 0)
		fail_msg("%s", e.text);
	return s;
}

static void push(struct store *s, int64_t from, int64_t n)
{
	uint32_t series = storetest_series(s, storetest_process(s, 1), "x", SINK_GAUGE);
	int64_t i;

	for (i = from; i < from + n; i++)
		storetest_push(s, series, i, i, (double)i);
	storetest_commit(s);
}

static size_t entries(const char *dir)
{
	return place_is(dir, "") ? storetest_count(dir, "") - 2 : 0;
}

/* Points 0, 1, 2, ... of the only series; warning: what the reader says, or NULL. */
static size_t count(const char *dir, char **ret_warning)
{
	struct store_reader *r = NULL;
	struct storetest_points v;
	struct err e = {0};
	size_t i, n;

	if (store_reader_open(dir, &e, &r) < 0)
		fail_msg("%s", e.text);
	v = storetest_read(r, 1, NULL);
	n = v.n;
	for (i = 0; i < n; i++)
		assert_int_equal(v.v[i].step, i);
	if (ret_warning)
		*ret_warning = xstrndup(store_reader_warning(r), strlen(store_reader_warning(r)));
	else
		assert_string_equal(store_reader_warning(r), "");
	free(v.v);
	store_reader_close(r);
	return n;
}

struct finished {
	unsigned moved, kept;
	char why[600];
};

static int on_finished(void *arg, const char *dir, const char *file, const char *kept,
		       const char *why)
{
	struct finished *f = arg;

	assert_int_equal(dir[0], '/');
	assert_string_equal(file, "h.db");
	f->moved += !kept;
	f->kept += kept != NULL;
	snprintf(f->why, sizeof(f->why), "%s", why);
	return 0;
}

static struct finished finish(const struct places *p)
{
	struct finished f = {0};
	const struct store_leftovers to = {on_finished, &f};

	assert_int_equal(store_finish_leftovers(p->local, &to), 0);
	return f;
}

/* ---- tests --------------------------------------------------------------------------------------
 */

static void test_life(void **state)
{
	struct places *p = *state;
	struct store_reader *r = NULL;
	struct storetest_points v;
	struct err e = {0};
	struct store *s;

	s = open_live(p);
	assert_true(s->wal);
	push(s, 0, 10);
	/* A reader of this host follows the pointer; nothing is in the run's folder yet. */
	assert_int_equal(storetest_count(p->run, "h.db"), 1); /* the lock */
	assert_int_equal(storetest_count(p->run, "h.live"), 1);
	assert_int_equal(count(p->run, NULL), 10);
	assert_int_equal(store_reader_open(p->run, &e, &r), 0);
	push(s, 10, 10);
	assert_int_equal(finish(p).moved, 0); /* it is being written */
	storetest_close(s);
	/* A reader that was there goes on with what has come home. */
	v = storetest_read(r, 1, NULL);
	assert_int_equal(v.n, 20);
	free(v.v);
	store_reader_close(r);
	assert_int_equal(entries(p->run), 1);
	assert_int_equal(entries(p->local), 0);
	assert_int_equal(count(p->run, NULL), 20);
	storetest_check(p->run);
	assert_int_equal(storetest_sql(p->run, "PRAGMA page_size"), 1024);
	/* And again: what is at home is taken along. */
	s = open_live(p);
	push(s, 20, 5);
	assert_int_equal(count(p->run, NULL), 25);
	storetest_close(s);
	assert_int_equal(count(p->run, NULL), 25);
	assert_int_equal(entries(p->run), 1);
}

/* Another host sees the run's folder but not the private one. */
static void test_other_host(void **state)
{
	struct places *p = *state;
	char *hidden = storetest_path(p->base, "hidden"), *warning, *place;
	struct store_reader *r = NULL;
	struct store *s = open_live(p);
	struct err e = {0};

	push(s, 0, 10);
	place = xstrndup(s->place.folder, strlen(s->place.folder));
	assert_int_equal(__real_rename(p->local, hidden), 0);
	assert_int_equal(store_reader_open(p->run, &e, &r), -ENOENT);
	assert_non_null(strstr(e.text, "live on h since"));
	assert_non_null(strstr(e.text, "nothing has been copied here yet"));
	assert_int_equal(__real_rename(hidden, p->local), 0);
	assert_int_equal(place_copy(&s->place, s->path, &e), 0);
	push(s, 10, 10);
	assert_int_equal(__real_rename(p->local, hidden), 0);
	assert_int_equal(count(p->run, &warning), 10);
	assert_non_null(strstr(warning, "live on h since"));
	assert_non_null(strstr(warning, "this is the copy of"));
	free(warning);
	storetest_check(p->run); /* a copy is whole */
	assert_int_equal(__real_rename(hidden, p->local), 0);
	assert_int_equal(count(p->run, NULL), 20);
	storetest_close(s);
	assert_int_equal(count(p->run, NULL), 20);
	free(place);
	free(hidden);
}

static void wait_for(const char *path)
{
	struct stat st;
	int i;

	for (i = 0; i < 3000 && stat(path, &st) < 0; i++)
		usleep(10000);
	assert_int_equal(stat(path, &st), 0);
}

/* The thread copies by itself, while commits go on. */
static void test_copies(void **state)
{
	struct places *p = *state;
	const struct store_options o = {.dir = p->run,
					.host = "h",
					.live = STORE_LIVE_LOCAL,
					.local_dir = p->local,
					.copy_every_ns = 20000000};
	char *home = storetest_path(p->run, "h.db");
	struct err e = {0};
	struct store *s;
	int64_t i;

	assert_int_equal(store_open(&o, &e, &s), 0);
	for (i = 0; i < 200; i++)
		push(s, i * 100, 100);
	wait_for(home);
	for (; i < 300; i++)
		push(s, i * 100, 100);
	storetest_check(p->run);
	storetest_close(s);
	assert_int_equal(count(p->run, NULL), 30000);
	free(home);
}

static void test_no_private_folder(void **state)
{
	struct places *p = *state;
	struct store *s;

	/* Not ours alone: the file is written in place, and says why that is slow. */
	assert_int_equal(mkdir(p->local, 0755), 0);
	assert_int_equal(chmod(p->local, 0755), 0);
	s = open_live(p);
	assert_string_equal(s->path, s->home);
	push(s, 0, 3);
	storetest_close(s);
	assert_int_equal(entries(p->run), 1);
	assert_int_equal(storetest_sql(p->run, "SELECT count(*) FROM event WHERE kind ="
					       " 'store-slow' AND text LIKE '%mode 0700%'"),
			 1);
}

/* The run's folder cannot be written at the end, or is gone. */
static void test_kept(void **state)
{
	struct places *p = *state;
	char *away = storetest_path(p->base, "away"), *path;
	struct store *s = open_live(p);
	struct err e = {0};
	struct finished f;

	push(s, 0, 10);
	path = xstrndup(s->path, strlen(s->path));
	assert_int_equal(__real_rename(p->run, away), 0);
	assert_true(store_close(s, &e) < 0);
	assert_non_null(strstr(e.text, path));
	f = finish(p);
	assert_int_equal(f.kept, 1);
	assert_non_null(strstr(f.why, p->run));
	assert_int_equal(__real_rename(away, p->run), 0);
	assert_int_equal(count(p->run, NULL), 10);
	f = finish(p);
	assert_int_equal(f.moved, 1);
	assert_int_equal(count(p->run, NULL), 10);
	assert_int_equal(entries(p->run), 1);
	assert_int_equal(entries(p->local), 0);
	free(path);
	free(away);
}

/* The pointer is gone: the live file belongs to nothing, but is kept. */
static void test_stray(void **state)
{
	struct places *p = *state;
	char *pointer = storetest_path(p->run, "h.live");
	struct finished f;
	struct store *s;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		push(open_live(p), 0, 10);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(__real_unlink(pointer), 0);
	f = finish(p);
	assert_int_equal(f.kept, 1);
	assert_non_null(strstr(f.why, "no part in it any more"));
	s = open_live(p);
	push(s, 0, 4);
	storetest_close(s);
	assert_int_equal(count(p->run, NULL), 4);
	assert_int_equal(finish(p).kept, 1);
	free(pointer);
}

/* The live file was lost with its host: the copy is gone on with, and that is told. */
static void test_lost(void **state)
{
	struct places *p = *state;
	char *hidden = storetest_path(p->base, "hidden");
	struct err e = {0};
	struct store *s;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		s = open_live(p);
		push(s, 0, 10);
		if (place_copy(&s->place, s->path, &e) < 0)
			_exit(1);
		push(s, 10, 10);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(__real_rename(p->local, hidden), 0);
	s = open_live(p);
	push(s, 10, 1);
	storetest_close(s);
	assert_int_equal(count(p->run, NULL), 11);
	assert_int_equal(
		storetest_sql(p->run, "SELECT count(*) FROM event WHERE kind = 'store-live-lost'"),
		1);
	free(hidden);
}

/* A corrupt live file: it is set aside in the run's folder, its copy gone on with. */
static void test_corrupt(void **state)
{
	struct places *p = *state;
	struct err e = {0};
	struct store *s = open_live(p);
	int fd;

	push(s, 0, 10);
	assert_int_equal(place_copy(&s->place, s->path, &e), 0);
	push(s, 10, 10);
	fd = open(s->path, O_WRONLY);
	assert_int_equal(pwrite(fd, "nonsense nonsense", 16, 0), 16);
	assert_int_equal(store_check_header(s, &e), -EUCLEAN);
	close(fd);
	assert_int_equal(store_close(s, NULL), -EUCLEAN);
	s = open_live(p);
	push(s, 10, 1);
	storetest_close(s);
	assert_int_equal(count(p->run, NULL), 11);
	assert_true(storetest_count(p->run, "h.db.corrupt-") > 0);
	assert_int_equal(entries(p->local), 0);
}

/* Removing a run removes what is left of it in private folders. */
static void test_removed(void **state)
{
	struct places *p = *state;
	struct err e = {0};
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		push(open_live(p), 0, 10);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(entries(p->local), 1);
	if (folder_remove(p->run, true, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(entries(p->local), 0);
	assert_int_equal(mkdir(p->run, 0700), 0);
}

/* ---- killed at every step
 * ------------------------------------------------------------------------ */

/* What the child has done, as the test knows it. */
struct progress {
	int64_t committed;
	long calls;
};

static void live(const struct places *p, struct progress *done, long die_at)
{
	struct store *s;
	struct err e = {0};
	int i;

	place_calls = 0;
	place_die_at = die_at;
	for (i = 0; i < 2; i++) {
		s = open_live(p);
		push(s, done->committed, 50);
		done->committed += 50;
		if (place_copy(&s->place, s->path, &e) < 0)
			_exit(1);
		push(s, done->committed, 50);
		done->committed += 50;
		if (store_close(s, &e) < 0)
			_exit(2);
	}
	done->calls = place_calls;
	_exit(0);
}

static void clear(const struct places *p)
{
	char *cmd = xasprintf("rm -rf '%s' '%s'", p->run, p->local);

	assert_int_equal(system(cmd), 0);
	assert_int_equal(mkdir(p->run, 0700), 0);
	free(cmd);
}

static void check_killed(const struct places *p, const struct progress *done, long at, bool again)
{
	char *home = storetest_path(p->run, "h.db");
	struct finished f;
	size_t n;

	if (again) { /* the next writer on this host */
		storetest_close(open_live(p));
	} else {
		f = finish(p);
		assert_int_equal(f.kept, 0);
	}
	if (done->committed || place_is(home, "")) {
		n = done->committed ? count(p->run, NULL) : 0;
		/* The one that was going on may have come through. */
		if (n != (size_t)done->committed && n != (size_t)done->committed + 50)
			fail_msg("killed at %ld: %zu of %lld points", at, n,
				 (long long)done->committed);
		storetest_check(p->run);
	}
	finish(p); /* rests of a writer that came to nothing */
	assert_int_equal(entries(p->local), 0);
	assert_int_equal(storetest_count(p->run, "h.live"), 0);
	assert_int_equal(storetest_count(p->run, "h.db.corrupt"), 0);
	free(home);
}

static void test_killed(void **state)
{
	struct places *p = *state;
	struct progress *done = mmap(NULL, sizeof(*done), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long at, calls = 1;
	int status;
	pid_t pid;

	for (at = 0; at <= calls; at++) {
		*done = (struct progress){0};
		pid = fork();
		if (pid == 0)
			live(p, done, at);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (at == 0) {
			assert_int_equal(status, 0);
			calls = done->calls;
			assert_true(calls > 30);
		} else if (status != 77 << 8) {
			fail_msg("killed at %ld: status 0x%x", at, status);
		}
		check_killed(p, done, at, at & 1);
		clear(p);
	}
	munmap(done, sizeof(*done));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_life, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_host, setup, teardown),
		cmocka_unit_test_setup_teardown(test_copies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_private_folder, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stray, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(test_corrupt, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
	};

	return cmocka_run_group_tests_name("store-place", tests, NULL, NULL);
}
