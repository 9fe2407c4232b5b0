/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_crash.c - a writer killed at any instant, a full file system, a
 * file deleted or damaged underneath, a second writer.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "storetest.h"

#define SAMPLES 50 /* in each commit of the writer that is killed */

/* Commit for ever: sample k of all has value k; after commit c the lane is at
 * position c. After each commit one byte goes to fd. */
static void write_forever(const char *dir, int fd, bool no_wal)
{
	const struct store_options o = {.dir = dir, .host = "h", .no_wal = no_wal};
	struct sink_position pos = {.ring = {5}};
	struct sink_process p = {.uid = {5}, .role = "trainer", .program = "x"};
	struct sink_series d = {.name = "a", .kind = SINK_GAUGE};
	struct store *s = NULL;
	struct err e = {0};
	struct sink *k;
	uint32_t id = 0;
	uint64_t n, i;

	if (store_open(&o, &e, &s) < 0)
		_exit(1);
	k = store_sink(s);
	if (k->ops->process(k, &p, &d.process) < 0 || k->ops->series(k, &d, &id) < 0)
		_exit(2);
	if (k->ops->resume(k, pos.ring, 0, &pos) < 0)
		pos.pos = 0;
	for (n = pos.pos * SAMPLES;;) {
		for (i = 0; i < SAMPLES; i++, n++) {
			const struct sink_sample v = {(int64_t)n, (int64_t)n, (double)n, id, 0};

			k->ops->samples(k, &v, 1);
		}
		pos.pos++;
		k->ops->position(k, &pos);
		if (k->ops->commit(k) < 0)
			_exit(3);
		if (write(fd, "x", 1) != 1)
			_exit(4);
		if (pos.pos % 7 == 0 && fold_batch(s, FOLD_BYTES, pos.pos % 5 == 0, &e) < 0)
			_exit(5);
	}
}

static uint64_t position_now(const char *dir)
{
	const uint8_t ring[16] = {5};
	struct store *s = storetest_open(dir);
	struct sink_position pos = {0};

	store_sink(s)->ops->resume(store_sink(s), ring, 0, &pos);
	storetest_close(s);
	return pos.pos;
}

/* Kill a writer after at least some commits; everything whose commit returned
 * must be there, in whole commits, and positions and samples must agree. */
static void kill_and_look(const char *dir, unsigned round, bool no_wal, uint64_t *commits)
{
	struct timespec t = {.tv_nsec = 1000 * (long)(round * 977 % 9000)};
	struct storetest_points got;
	uint64_t acknowledged = 0, i;
	int fds[2], status;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(fds[0]);
		write_forever(dir, fds[1], no_wal);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	acknowledged = 1;
	nanosleep(&t, NULL);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	while (read(fds[0], &byte, 1) == 1)
		acknowledged++;
	close(fds[0]);

	got = storetest_read_dir(dir, 1);
	assert_int_equal(got.n % SAMPLES, 0);
	assert_true(got.n >= (*commits + acknowledged) * SAMPLES);
	for (i = 0; i < got.n; i++)
		assert_true(got.v[i].value == (double)i);
	if (round % 3 == 0) /* else the next writer finds it as it was left */
		assert_int_equal(position_now(dir), got.n / SAMPLES);
	*commits = got.n / SAMPLES;
	free(got.v);
}

static void test_kill(void **state)
{
	uint64_t commits = 0;
	unsigned round;

	for (round = 0; round < 40; round++)
		kill_and_look(*state, round, false, &commits);
	assert_true(commits >= 40);
	assert_int_equal(position_now(*state), commits);
	assert_int_equal(storetest_count(*state, "h.db"), 1); /* no lock, no log is left */
}

static void test_kill_without_wal(void **state)
{
	uint64_t commits = 0;
	unsigned round;

	for (round = 0; round < 10; round++)
		kill_and_look(*state, round, true, &commits);
	assert_int_equal(position_now(*state), commits);
	assert_int_equal(storetest_sql(*state, "SELECT journal_mode = 'wal' FROM"
					       " pragma_journal_mode"),
			 0);
}

/* Fold for ever, all kinds of it, what was committed before: 12 series of which one
 * is long; a byte to fd when a fold begins. Of FOLD_DIRECT samples a commit or more,
 * the commit is one. */
static void fold_forever(const char *dir, int fd, int64_t samples)
{
	struct store *s = storetest_open(dir);
	struct err e = {0};
	uint32_t p = storetest_process(s, 7), id[12], k;
	char name[8];
	int64_t n, i;

	for (k = 0; k < 12; k++) {
		snprintf(name, sizeof(name), "f%u", k);
		id[k] = storetest_series(s, p, name, SINK_GAUGE);
	}
	for (n = 0;; n++) {
		for (i = n * samples; i < (n + 1) * samples; i++)
			storetest_push(s, id[i % 5 ? 0 : i % 12], i, i, (double)i);
		storetest_commit(s);
		if (write(fd, "x", 1) != 1)
			_exit(4);
		if (fold_batch(s, FOLD_BYTES_MAX, n % 4 == 3, &e) < 0)
			_exit(5);
	}
}

/* Killed in a fold: the commits before it are there, all of them, once, and a check
 * finds nothing half done. */
static void test_kill_in_a_fold(void **state)
{
	struct storetest_points got;
	int64_t commits;
	int fds[2], round, k;
	size_t sum, i, samples;
	char *dir, byte;
	pid_t pid;

	for (round = 0; round < 25; round++) {
		dir = xasprintf("%s/%d", (char *)*state, round);
		samples = round % 2 ? FOLD_DIRECT + 8000 : FOLD_DIRECT / 2;
		assert_int_equal(pipe(fds), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			close(fds[0]);
			fold_forever(dir, fds[1], (int64_t)samples);
		}
		close(fds[1]);
		for (commits = 0; commits < 1 + round % 5; commits++)
			assert_int_equal(read(fds[0], &byte, 1), 1);
		usleep((useconds_t)(round * 613 % 12000));
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		while (read(fds[0], &byte, 1) == 1)
			commits++;
		close(fds[0]);
		storetest_check(dir);
		for (sum = 0, k = 1; k <= 12; k++) {
			got = storetest_read_dir(dir, (uint32_t)k);
			for (i = 1; i < got.n; i++)
				assert_true(got.v[i].value > got.v[i - 1].value &&
					    got.v[i].value == (double)got.v[i].time_ns);
			sum += got.n;
			free(got.v);
		}
		assert_true(sum % samples == 0 && (int64_t)(sum / samples) >= commits);
		storetest_close(storetest_open(dir));
		storetest_check(dir);
		free(dir);
	}
}

/* A reader of another process: whole commits, in order, never fewer than before. */
static void test_read_while_written(void **state)
{
	struct store_reader *r = NULL;
	struct storetest_points got;
	struct err e = {0};
	size_t before = 0, i;
	int fds[2], round;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(fds[0]);
		write_forever(*state, fds[1], false);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	if (store_reader_open(*state, &e, &r) < 0)
		fail_msg("%s", e.text);
	for (round = 0; round < 50; round++) {
		got = storetest_read(r, 1, NULL);
		assert_true(got.n >= before && got.n % SAMPLES == 0 && got.n > 0);
		for (i = 0; i < got.n; i++)
			assert_true(got.v[i].value == (double)i);
		before = got.n;
		free(got.v);
		assert_int_equal(read(fds[0], &byte, 1), 1); /* and a commit later */
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	store_reader_close(r);
	close(fds[0]);
	assert_true(before > SAMPLES);
}

static void test_second_writer(void **state)
{
	const struct store_options o = {.dir = *state, .host = "h"};
	struct store *a = storetest_open(*state), *b = NULL;
	struct err e = {0};

	assert_int_equal(store_open(&o, &e, &b), -EBUSY);
	assert_non_null(strstr(e.text, "another process"));
	storetest_close(a);
	a = storetest_open(*state);
	storetest_close(a);
}

static void test_modes(void **state)
{
	char *dir = storetest_path(*state, "new/er"), *path;
	struct store *s = storetest_open(dir);
	struct stat st;
	size_t i;

	storetest_process(s, 1);
	storetest_commit(s);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	for (i = 0; i < 4; i++) {
		static const char *const names[] = {"h.db", "h.db-wal", "h.db-shm", "h.db.lock"};

		path = storetest_path(dir, names[i]);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0600);
		free(path);
	}
	storetest_close(s);
	assert_int_equal(storetest_sql(dir, "SELECT auto_vacuum FROM pragma_auto_vacuum"), 2);
	free(dir);
}

static void test_deleted_file(void **state)
{
	struct store *s = storetest_open(*state), *again;
	char *path = storetest_path(*state, "h.db");
	struct err e = {0};

	storetest_process(s, 1);
	storetest_commit(s);
	assert_true(store_is_alive(s));
	unlink(path);
	assert_false(store_is_alive(s));
	close(open(path, O_CREAT | O_WRONLY, 0600)); /* replaced is not alive either */
	assert_false(store_is_alive(s));
	assert_int_equal(store_close(s, &e), -ESTALE);
	unlink(path);
	again = storetest_open(*state);
	storetest_process(again, 1);
	storetest_commit(again);
	storetest_close(again);
	assert_int_equal(storetest_count(*state, "h.db"), 1);
	free(path);
}

static void test_deleted_folder(void **state)
{
	char *dir = storetest_path(*state, "run"), *moved = storetest_path(*state, "moved");
	struct store *s = storetest_open(dir), *other;
	struct storetest_points got;
	struct err e = {0};
	uint32_t id;

	storetest_process(s, 1);
	storetest_commit(s);
	assert_int_equal(rename(dir, moved), 0);
	other = storetest_open(dir); /* somebody begins the run's folder again */
	id = storetest_series(other, storetest_process(other, 1), "a", SINK_GAUGE);
	storetest_push(other, id, 1, 1, 1);
	storetest_commit(other);
	assert_int_equal(store_close(s, &e), -ESTALE);
	got = storetest_read_dir(dir, id); /* closing did not touch the new files */
	assert_int_equal(got.n, 1);
	free(got.v);
	storetest_push(other, id, 2, 2, 2);
	storetest_commit(other);
	storetest_close(other);
	got = storetest_read_dir(dir, id);
	assert_int_equal(got.n, 2);
	free(got.v);
	free(dir);
	free(moved);
}

/* A file system of 1 MiB that fills up, and is given room again. */
static void test_full_file_system(void **state)
{
	char *dir = storetest_path(*state, "small");
	struct storetest_points got;
	struct store *s;
	uint32_t id;
	uint64_t n = 0, lost = 0;
	int i, r;

	assert_int_equal(mkdir(dir, 0700), 0);
	if (mount("tmpfs", dir, "tmpfs", 0, "size=1m") < 0) {
		free(dir);
		skip();
	}
	s = storetest_open(dir);
	id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	storetest_commit(s);
	for (i = 0; i < 200; i++) {
		int k;

		for (k = 0; k < 1000; k++)
			storetest_push(s, id, (int64_t)(n * 1000 + (uint64_t)k), 1,
				       (double)n + rand() / (double)RAND_MAX);
		r = store_sink(s)->ops->commit(store_sink(s));
		assert_true(r == 0 || r == -ENOSPC);
		n += r == 0;
		lost += r != 0;
		store_fold(s, true, NULL);
	}
	assert_true(n > 2 && lost > 2);
	assert_int_equal(mount("tmpfs", dir, "tmpfs", MS_REMOUNT, "size=16m"), 0);
	storetest_push(s, id, 1, 1, -5);
	storetest_commit(s);
	storetest_close(s);
	got = storetest_read_dir(dir, id);
	assert_int_equal(got.n, n * 1000 + 1);
	free(got.v);
	umount(dir);
	free(dir);
}

/* ---- damage ---------------------------------------------------------------------- */

static void make_some(const char *dir)
{
	struct store *s = storetest_open(dir);
	uint32_t p = storetest_process(s, 1), id = storetest_series(s, p, "a", SINK_GAUGE);
	uint32_t hist = storetest_series(s, p, "h", SINK_HISTOGRAM);
	const struct sink_bin bin = {5, 5};
	const struct sink_hist h = {.series = hist, .count = 5, .bins = &bin, .n_bins = 1};
	const struct sink_position pos = {.ring = {5}, .pos = 3};
	int i;

	for (i = 0; i < 3000; i++) {
		storetest_push(s, id, i * 1000 + rand() % 100, i, (double)rand());
		if (i % 1000 == 0) {
			store_sink(s)->ops->hist(store_sink(s), &h);
			store_sink(s)->ops->position(store_sink(s), &pos);
			storetest_commit(s);
			if (i < 2000)
				storetest_fold(s);
			else
				storetest_merge(s);
		}
	}
	storetest_commit(s); /* and something in the tail, plain and merged */
	db_exec(s->db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL);
	s->corrupt = true; /* leave it as a crash would */
	store_close(s, NULL);
}

static void damage(const char *path, const unsigned char *bytes, size_t n, unsigned round)
{
	unsigned char *copy = xcalloc(n, 1);
	unsigned k, seed = round * 2654435761u;
	FILE *f;

	memcpy(copy, bytes, n);
	for (k = 0; k < 1 + round % 40; k++) {
		seed = seed * 1664525u + 1013904223u;
		copy[seed % n] ^= (unsigned char)(1 + (seed >> 24) % 255);
	}
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(copy, 1, round % 5 == 4 ? n / 2 : n, f),
			 n / (round % 5 == 4 ? 2 : 1));
	fclose(f);
	free(copy);
}

static int ignore_point(void *arg, const struct store_point *p)
{
	(void)arg;
	(void)p;
	return 0;
}

static void read_all(const char *dir)
{
	struct store_reader *r = NULL;

	if (store_reader_open(dir, NULL, &r) < 0)
		return;
	store_reader_points(r, 0, 1, NULL, ignore_point, NULL, NULL);
	store_reader_points(r, 0, 2, NULL, ignore_point, NULL, NULL);
	store_reader_close(r);
}

/* Any damage: the store opens (with the file set aside, or as it is), goes on,
 * or says -EUCLEAN; the next open after that sets the file aside. */
static void test_damaged_file(void **state)
{
	char *path = storetest_path(*state, "h.db"), *mark = storetest_path(*state, "h.db.bad");
	const struct store_options o = {.dir = *state, .host = "h"};
	unsigned char *bytes;
	struct stat st;
	unsigned round, fine = 0;
	FILE *f;

	make_some(*state);
	unlink(mark);
	assert_int_equal(stat(path, &st), 0);
	bytes = xcalloc((size_t)st.st_size, 1);
	f = fopen(path, "r");
	assert_int_equal(fread(bytes, 1, (size_t)st.st_size, f), st.st_size);
	fclose(f);
	for (round = 0; round < 100; round++) {
		struct store *s = NULL;
		struct err e = {0};
		uint32_t id;
		int r;

		damage(path, bytes, (size_t)st.st_size, round);
		store_check(path, NULL);
		read_all(*state);
		r = store_open(&o, &e, &s);
		if (r != 0 && r != -EPROTO) /* the version may be what was hit */
			fail_msg("round %u: %d %s", round, r, e.text);
		if (r == 0) {
			id = storetest_series(s, storetest_process(s, 1), "new", SINK_GAUGE);
			storetest_push(s, id, 1, 1, 1);
			r = store_sink(s)->ops->commit(store_sink(s));
			assert_true(r == 0 || r == -EUCLEAN);
			r = store_close(s, &e);
			assert_true(r == 0 || r == -EUCLEAN);
			if (r == -EUCLEAN) {
				s = storetest_open(*state); /* sets it aside */
				storetest_close(s);
			} else {
				fine++;
			}
		}
		unlink(path);
		assert_int_equal(access(mark, F_OK), -1);
	}
	assert_true(fine > 0); /* some damage hits what nobody reads */
	assert_true(storetest_count(*state, "h.db.corrupt-") > 0);
	free(bytes);
	free(path);
	free(mark);
}

static void test_set_aside_is_told(void **state)
{
	char *path = storetest_path(*state, "h.db");
	struct store *s;
	FILE *f;

	make_some(*state);
	f = fopen(path, "r+");
	fwrite("not a database of SQLite", 1, 24, f);
	fclose(f);
	s = storetest_open(*state);
	storetest_close(s);
	assert_true(storetest_count(*state, "h.db.corrupt-") > 0);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM event WHERE process=0 AND"
					       " severity=2 AND kind='store-corrupt'"),
			 1);
	free(path);
}

/* Damage that only a fold meets: the handle says so, the next one sets aside. */
static void test_damage_met_while_writing(void **state)
{
	const struct store_options o = {.dir = *state, .host = "h"};
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	struct err e = {0};

	storetest_push(s, id, 1, 1, 1);
	storetest_commit(s);
	storetest_close(s);
	storetest_sql(*state, "UPDATE summary SET blob = zeroblob(40)");
	s = storetest_open(*state); /* opening does not read summaries */
	storetest_push(s, id, 2, 2, 2);
	storetest_commit(s);
	assert_int_equal(store_fold(s, true, &e), -EUCLEAN);
	assert_non_null(strstr(e.text, "table summary, id 1168231104512"));
	storetest_push(s, id, 3, 3, 3);
	assert_int_equal(store_sink(s)->ops->commit(store_sink(s)), -EUCLEAN);
	err_clear(&e);
	assert_int_equal(store_close(s, &e), -EUCLEAN);
	err_clear(&e);
	assert_int_equal(store_open(&o, &e, &s), 0);
	assert_true(storetest_count(*state, "h.db.corrupt-") > 0);
	storetest_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_kill, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_kill_without_wal, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_kill_in_a_fold, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_read_while_written, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_second_writer, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_modes, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_deleted_file, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_deleted_folder, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_full_file_system, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_damaged_file, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_set_aside_is_told, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_damage_met_while_writing, storetest_setup,
						storetest_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
