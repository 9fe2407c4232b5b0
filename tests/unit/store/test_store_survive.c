/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_survive.c - failures of the disk and of malloc(), and deaths, at each
 * place in turn of what moves, migrates, folds and repairs files: what was
 * acknowledged is there afterwards.
 */
#include <errno.h>
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
#include "failtest.h"
#include "storetest.h"

#define POINTS_V1 12000 /* of series 1 in tests/data/store-v1/live/node1.db */

struct life {
	char *base, *run, *local, *home;
	int64_t committed; /* points 0, 1, ... */
	bool going;        /* one more commit may have come through */
};
static struct life *life; /* shared with children */

static int setup(void **state)
{
	(void)state;
	life = mmap(NULL, sizeof(*life), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(life != MAP_FAILED);
	life->base = storetest_dir();
	life->run = storetest_path(life->base, "run");
	life->local = storetest_path(life->base, "local");
	life->home = storetest_path(life->run, "h.db");
	assert_int_equal(mkdir(life->run, 0700), 0);
	return 0;
}

static int setup_disk(void **state)
{
	shim_install();
	return setup(state);
}

static int setup_memory(void **state)
{
	memory_on = true;
	return setup(state);
}

static int teardown(void **state)
{
	(void)state;
	failure_arm(0);
	failure_dies = memory_on = false;
	if (sqlite3_vfs_find("shim"))
		shim_remove();
	storetest_remove(life->base);
	free(life->run);
	free(life->local);
	free(life->home);
	munmap(life, sizeof(*life));
	return 0;
}

/* To the next place: ever fewer of the later ones, with LAPSE_TEST_ALL=1 all. */
static long next_place(long at)
{
	return at + (getenv("LAPSE_TEST_ALL") ? 1 : 1 + at / 12);
}

static void clear(void)
{
	char *cmd = xasprintf("rm -rf '%s' '%s'", life->run, life->local);

	assert_int_equal(system(cmd), 0);
	assert_int_equal(mkdir(life->run, 0700), 0);
	free(cmd);
	life->committed = 0;
	life->going = false;
}

/* ---- work
 * ---------------------------------------------------------------------------------------- */

static int open_as(enum store_live live, struct err *e, struct store **ret)
{
	const struct store_options o = {.dir = life->run,
					.host = "h",
					.live = live,
					.local_dir = life->local,
					.copy_every_ns = INT64_MAX / 2};

	return store_open(&o, e, ret);
}

static int push(struct store *s, int64_t n)
{
	struct sink *k = store_sink(s);
	struct sink_process p = {.uid = {1}, .role = "r", .program = "p"};
	struct sink_series d = {1, "x", "", "", "", SINK_GAUGE, "t"};
	uint32_t process, series;
	int64_t i;
	int r = k->ops->process(k, &p, &process);

	if (r == 0)
		r = k->ops->series(k, &d, &series);
	for (i = life->committed; r == 0 && i < life->committed + n; i++) {
		struct sink_sample v = {.time_ns = i, .step = i, .value = (double)i, .series = 1};

		r = k->ops->samples(k, &v, 1);
	}
	if (r < 0) {
		k->ops->rollback(k);
		return r;
	}
	life->going = true;
	r = k->ops->commit(k);
	life->committed += r == 0 ? n : 0;
	life->going = false;
	return r;
}

static int told(int r, const struct err *e)
{
	if (r >= 0)
		return 0;
	if (r == -EUCLEAN || !e->text[0])
		fail_msg("%d: %s", r, e->text);
	return 1;
}

/* A run: commits, folds of both kinds, a copy home, the end. Errors that were told. */
static int live_once(enum store_live live)
{
	struct store *s = NULL;
	struct err e = {0};
	int errors, c;

	errors = told(open_as(live, &e, &s), &e);
	if (errors)
		return errors;
	for (c = 0; c < 4; c++) {
		errors += told(push(s, 3000), store_error(s));
		err_clear(&e);
		if (c != 1 && s->tail_rows)
			errors += told(fold_batch(s, FOLD_BYTES, c == 2, &e), &e);
		err_clear(&e);
		if (c == 1 && s->place.folder)
			errors += told(place_copy(&s->place, s->path, &e), &e);
		err_clear(&e);
	}
	return errors + told(store_close(s, &e), &e);
}

static int on_left(void *arg, const char *dir, const char *file, const char *kept, const char *why)
{
	(void)arg;
	(void)dir;
	(void)file;
	if (kept)
		fail_msg("%s", why);
	return 0;
}

/* All is at home, whole, and no more; then a writer goes on with it. */
static void check_life(long at)
{
	const struct store_leftovers to = {.found = on_left};
	struct storetest_points v;
	struct store *s = NULL;
	struct err e = {0};
	int64_t before = life->committed;
	size_t i;

	store_finish_leftovers(life->local, &to);
	if (open_as(STORE_LIVE_IN_PLACE, &e, &s) < 0)
		fail_msg("at %ld: %s", at, e.text);
	assert_int_equal(push(s, 0), 0);
	storetest_close(s);
	storetest_check(life->run);
	assert_int_equal(storetest_count(life->run, "h.db.corrupt-"), 0);
	assert_int_equal(storetest_count(life->run, "h.live"), 0);
	if (before == 0)
		return;
	v = storetest_read_dir(life->run, 1);
	if ((int64_t)v.n != before && !(life->going && (int64_t)v.n == before + 3000))
		fail_msg("at %ld: %zu of %lld points", at, v.n, (long long)before);
	for (i = 0; i < v.n; i++)
		assert_true(v.v[i].step == (int64_t)i && v.v[i].value == (double)i);
	free(v.v);
}

/* ---- moving and folding
 * --------------------------------------------------------------------------- */

static long fail_everywhere(enum store_live live)
{
	bool hit = true;
	int errors;
	long at;

	for (at = 1; hit; at = next_place(at)) {
		failure_arm(at);
		errors = live_once(live);
		hit = failure_was_hit();
		failure_arm(0);
		if (!hit && errors)
			fail_msg("%d errors without a failure, at %ld", errors, at);
		check_life(at);
		clear();
	}
	return at;
}

static void test_moving_fails(void **state)
{
	(void)state;
	assert_true(fail_everywhere(STORE_LIVE_LOCAL) > 150);
}

static void test_memory_for_moving_fails(void **state)
{
	(void)state;
	assert_true(fail_everywhere(STORE_LIVE_LOCAL) > 300);
}

/* Status of a child that does the work and dies at `at`. */
static int die_at(void (*work)(void), long at)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		failure_dies = true;
		failure_arm(at);
		work();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static long die_everywhere(void (*work)(void), void (*check)(long at))
{
	int status = FAILURE_DEATH << 8;
	long at;

	for (at = 1; status; at = next_place(at)) {
		status = die_at(work, at);
		if (status && status != FAILURE_DEATH << 8)
			fail_msg("at %ld: status 0x%x", at, status);
		check(at);
		clear();
	}
	return at;
}

static void live_local(void)
{
	live_once(STORE_LIVE_LOCAL);
	live_once(STORE_LIVE_LOCAL);
}

static void live_in_place(void)
{
	live_once(STORE_LIVE_IN_PLACE);
	live_once(STORE_LIVE_IN_PLACE);
}

static void test_killed_while_moving(void **state)
{
	(void)state;
	assert_true(die_everywhere(live_local, check_life) > 150);
}

static void test_killed_while_folding(void **state)
{
	(void)state;
	assert_true(die_everywhere(live_in_place, check_life) > 150);
}

/* ---- migration
 * -------------------------------------------------------------------------------------- */

static void put_old(void)
{
	char *cmd = xasprintf("cp '%s/store-v1/live/node1.db' '%s' && chmod 600 '%s'", TEST_DATA,
			      life->home, life->home);

	assert_int_equal(system(cmd), 0);
	free(cmd);
}

static void migrate(void)
{
	struct store *s = NULL;
	struct err e = {0};

	if (open_as(STORE_LIVE_IN_PLACE, &e, &s) < 0 || store_close(s, &e) < 0)
		_exit(1);
}

static void check_migrated(long at)
{
	struct storetest_points v = storetest_read_dir(life->run, 1);

	if (v.n != POINTS_V1)
		fail_msg("at %ld: %zu points", at, v.n);
	free(v.v);
	storetest_close(storetest_open(life->run));
	storetest_check(life->run);
	v = storetest_read_dir(life->run, 1);
	assert_int_equal(v.n, POINTS_V1);
	free(v.v);
	clear();
	put_old();
}

static void test_killed_while_migrating(void **state)
{
	int status = FAILURE_DEATH << 8;
	long at;

	(void)state;
	put_old();
	for (at = 1; status; at = next_place(at)) {
		status = die_at(migrate, at);
		if (status && status != FAILURE_DEATH << 8)
			fail_msg("at %ld: status 0x%x", at, status);
		check_migrated(at);
	}
	assert_true(at > 100);
}

/* ---- repair
 * ------------------------------------------------------------------------------------------- */

/* A file with a pack that is damaged; points that are left. */
static void make_damaged(void)
{
	int i;

	for (i = 0; i < 2; i++)
		assert_int_equal(live_once(STORE_LIVE_IN_PLACE), 0);
	storetest_sql(life->run, "UPDATE pack SET blob = zeroblob(length(blob)) WHERE id = 1");
}

static int repair(struct err *e)
{
	const struct store_checker c = {0};
	struct store_repaired n;
	int r = store_repair(life->run, "h.db", &c, e, &n);

	if (r == 0)
		free(n.kept);
	return r;
}

static void repair_or_die(void)
{
	struct err e = {0};

	if (repair(&e) < 0)
		_exit(1);
}

/* Old or new, there is a file, and in the end it can be repaired. */
static void check_repaired(long at)
{
	struct storetest_points v;
	struct err e = {0};
	size_t i;
	int r;

	if (storetest_count(life->run, "h.db") == 0)
		fail_msg("at %ld: nothing is left", at);
	if (store_check(life->home, NULL) < 0) {
		r = repair(&e);
		if (r < 0)
			fail_msg("at %ld: %s", at, e.text);
	}
	storetest_check(life->run);
	v = storetest_read_dir(life->run, 1);
	assert_true(v.n > 3000);
	for (i = 1; i < v.n; i++)
		assert_true(v.v[i].step > v.v[i - 1].step);
	free(v.v);
	assert_int_equal(storetest_count(life->run, ".h.db"), 0);
}

static void test_killed_while_repairing(void **state)
{
	int status = FAILURE_DEATH << 8;
	long at;

	(void)state;
	for (at = 1; status; at = next_place(at)) {
		make_damaged();
		status = die_at(repair_or_die, at);
		if (status && status != FAILURE_DEATH << 8)
			fail_msg("at %ld: status 0x%x", at, status);
		check_repaired(at);
		clear();
	}
	assert_true(at > 100);
}

static long fail_repairing(void)
{
	bool hit = true;
	long at;
	int r;

	for (at = 1; hit; at = next_place(at)) {
		struct err e = {0};

		make_damaged();
		failure_arm(at);
		r = repair(&e);
		hit = failure_was_hit();
		failure_arm(0);
		if (r < 0 && (!hit || !e.text[0]))
			fail_msg("at %ld: %d %s", at, r, e.text);
		check_repaired(at);
		clear();
	}
	return at;
}

static void test_repairing_fails(void **state)
{
	(void)state;
	assert_true(fail_repairing() > 100);
}

static void test_memory_for_repairing_fails(void **state)
{
	(void)state;
	assert_true(fail_repairing() > 200);
}

#define DISK(test) cmocka_unit_test_setup_teardown(test, setup_disk, teardown)
#define MEMORY(test) cmocka_unit_test_setup_teardown(test, setup_memory, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DISK(test_moving_fails),           MEMORY(test_memory_for_moving_fails),
		DISK(test_killed_while_moving),    DISK(test_killed_while_folding),
		DISK(test_killed_while_migrating), DISK(test_killed_while_repairing),
		DISK(test_repairing_fails),        MEMORY(test_memory_for_repairing_fails),
	};

	/* Hundreds of databases: where there is no disk to wait for. */
	if (access("/dev/shm", W_OK) == 0)
		setenv("TMPDIR", "/dev/shm", 1);
	memory_install();
	return cmocka_run_group_tests_name("store-survive", tests, NULL, NULL);
}
