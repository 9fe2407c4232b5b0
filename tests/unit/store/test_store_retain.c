/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_retain.c - retention: which raw points go, by age and by size, what
 * readers see then, and that a file is sound after every slice.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "storetest.h"

#define SECOND 1000000000LL
#define CHUNK CHUNK_POINTS_MAX

/* Slices until nothing is due; the file is sound after each. */
static void retain(struct store *s, const char *dir, const struct store_limits *l)
{
	struct err e = {0};
	int r;

	s->retain.age_ns = s->retain.size_ns = s->retain.pack = 0;
	do {
		r = store_retain(s, l, &e);
		if (r < 0)
			fail_msg("store_retain: %s", e.text);
		if (dir)
			storetest_check(dir);
	} while (r);
}

/* Values that do not compress: the low bits of a generator. */
static double noise(uint64_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9u;
	return (double)(x >> 11) / 9007199254740992.0;
}

/* Points [from, to) of a series, one each second from `start` on. */
static void push(struct store *s, uint32_t id, int64_t start, uint64_t from, uint64_t to)
{
	uint64_t i;

	for (i = from; i < to; i++)
		storetest_push(s, id, start + (int64_t)i * SECOND, (int64_t)i, noise(i * 64 + id));
	storetest_commit(s);
}

static struct store_bucket total(const char *dir, uint32_t id)
{
	const struct store_ref ref = {0, id};
	struct store_reader *r = NULL;
	struct store_bucket b;
	struct err e = {0};

	assert_int_equal(store_reader_open(dir, &e, &r), 0);
	if (store_reader_total(r, &ref, true, &e, &b) < 0)
		fail_msg("store_reader_total: %s", e.text);
	store_reader_close(r);
	return b;
}

static int note_lost(void *arg, const struct store_series *s)
{
	uint64_t(*lost)[2] = arg;

	lost[s->id][0] = s->count;
	lost[s->id][1] = s->lost;
	return 0;
}

static void count_lost(const char *dir, uint64_t (*lost)[2])
{
	struct store_reader *r = NULL;
	struct err e = {0};

	assert_int_equal(store_reader_open(dir, &e, &r), 0);
	assert_int_equal(store_reader_series(r, note_lost, lost, &e), 0);
	store_reader_close(r);
}

/* What is left of a series are its points from `first` on. */
static void assert_left(const char *dir, uint32_t id, int64_t start, uint64_t first, uint64_t n)
{
	struct storetest_points got = storetest_read_dir(dir, id);
	size_t i;

	assert_int_equal(got.n, n - first);
	for (i = 0; i < got.n; i++) {
		assert_int_equal(got.v[i].step, first + i);
		assert_int_equal(got.v[i].time_ns, start + (int64_t)(first + i) * SECOND);
		assert_true(got.v[i].value == noise((first + i) * 64 + id));
	}
	free(got.v);
}

/* Two series of the same times, one that began later, and one of a few points. Of
 * the first two, chunks that ended more than 1.5 chunks ago go. */
static void old_points_go(void **state)
{
	const struct store_limits l = {.keep_raw_ns = (CHUNK + CHUNK / 2) * SECOND};
	struct store *s = storetest_open(*state);
	uint32_t p = storetest_process(s, 1), id[4], i;
	int64_t start = store_utc_ns() - 4 * CHUNK * SECOND - 1000 * SECOND;
	uint64_t lost[5][2] = {0}, pushed = 4 * CHUNK + 1000;
	struct store_bucket before, after;
	struct store_retained done;
	int64_t packs, axes;

	for (i = 0; i < 4; i++)
		id[i] = storetest_series(s, p, (char[]){(char)('a' + i), 0}, SINK_GAUGE);
	push(s, id[3], start, 0, 100);
	for (i = 0; i < 4 * CHUNK; i += 2048) {
		push(s, id[0], start, i, i + 2048);
		push(s, id[1], start, i, i + 2048);
	}
	push(s, id[0], start, 4 * CHUNK, pushed);
	push(s, id[1], start, 4 * CHUNK, pushed);
	push(s, id[2], start, 3 * CHUNK, pushed);
	storetest_fold(s);
	packs = storetest_sql(*state, "SELECT count(*) FROM pack");
	axes = storetest_sql(*state, "SELECT count(*) FROM axis");
	before = total(*state, id[0]);
	retain(s, *state, &l);
	store_retained(s, &done);
	/* Chunks 0, 1 and 2 ended 3, 2 and 1 chunks and 1000 s ago. */
	assert_int_equal(done.chunks, 4);
	assert_int_equal(done.points, 4 * CHUNK);
	for (i = 0; i < 2; i++)
		assert_left(*state, id[i], start, 2 * CHUNK, pushed);
	assert_left(*state, id[2], start, 3 * CHUNK, pushed);
	assert_left(*state, id[3], start, 0, 100);
	count_lost(*state, lost);
	assert_int_equal(lost[id[0]][0], pushed);
	assert_int_equal(lost[id[0]][1], 2 * CHUNK);
	assert_int_equal(lost[id[2]][1], 0);
	assert_int_equal(lost[id[3]][1], 0);
	after = total(*state, id[0]);
	assert_int_equal(after.count, pushed);
	assert_true(after.min == before.min && after.max == before.max && after.sum == before.sum);
	assert_true(storetest_sql(*state, "SELECT count(*) FROM pack") < packs);
	assert_true(storetest_sql(*state, "SELECT count(*) FROM axis") <= axes - 2);
	storetest_close(s);
	storetest_check(*state);
	assert_left(*state, id[0], start, 2 * CHUNK, pushed);
}

/* The last chunk of a series stays however old it is. */
static void last_chunk_stays(void **state)
{
	const struct store_limits l = {.keep_raw_ns = 1};
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);

	push(s, id, 0, 0, 2 * CHUNK);
	storetest_fold(s);
	retain(s, *state, &l);
	assert_left(*state, id, 0, CHUNK, 2 * CHUNK);
	push(s, id, 0, 2 * CHUNK, 3 * CHUNK);
	storetest_fold(s);
	retain(s, *state, &l);
	assert_left(*state, id, 0, 2 * CHUNK, 3 * CHUNK);
	storetest_close(s);
	storetest_check(*state);
}

/* Of a file that is too large the oldest go, over all series, and it is cut. */
static void large_file_shrinks(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t p = storetest_process(s, 1), id[3], i, k;
	struct store_limits l = {0};
	uint64_t lost[4][2] = {0};
	int64_t size;

	for (k = 0; k < 3; k++)
		id[k] = storetest_series(s, p, (char[]){(char)('a' + k), 0}, SINK_GAUGE);
	/* The third has all its points in the first half of the time. */
	for (i = 0; i < 16 * CHUNK; i += CHUNK) {
		push(s, id[0], 0, i, i + CHUNK);
		push(s, id[1], 0, i, i + CHUNK);
		if (i < 8 * CHUNK)
			push(s, id[2], 0, i, i + CHUNK);
		storetest_fold(s);
	}
	size = storetest_sql(*state, "PRAGMA page_count") * 1024;
	assert_true(size > 40 * CHUNK * 6); /* 53 random bits a value */
	l.max_bytes = (uint64_t)size / 2;
	retain(s, *state, &l);
	size = storetest_sql(*state, "PRAGMA page_count") * 1024;
	assert_true(size <= (int64_t)l.max_bytes);
	assert_true(size > (int64_t)l.max_bytes / 2); /* not more than need be */
	count_lost(*state, lost);
	assert_int_equal(lost[1][1], lost[2][1]);
	assert_true(lost[1][1] > 6 * CHUNK && lost[1][1] < 12 * CHUNK);
	/* All the third's, but its last chunk, ended before the others' eighth. */
	assert_int_equal(lost[3][1], lost[1][1] < 7 * CHUNK ? lost[1][1] : 7 * CHUNK);
	assert_left(*state, id[0], 0, lost[1][1], 16 * CHUNK);
	assert_left(*state, id[2], 0, lost[3][1], 8 * CHUNK);
	/* What cannot be reached is not tried without end. */
	l.max_bytes = 4096;
	retain(s, *state, &l);
	assert_left(*state, id[0], 0, 15 * CHUNK, 16 * CHUNK);
	assert_int_equal(store_retain(s, &l, NULL), 0);
	storetest_close(s);
	storetest_check(*state);
}

static void no_limits_no_work(void **state)
{
	const struct store_limits none = {0};
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);

	push(s, id, 0, 0, 2 * CHUNK);
	storetest_fold(s);
	assert_int_equal(store_retain(s, &none, NULL), 0);
	assert_left(*state, id, 0, 0, 2 * CHUNK);
	storetest_close(s);
}

struct meanwhile {
	struct store *s;
	const char *dir;
	uint64_t n, next;
};

/* The second point that is read: all goes that may. */
static int retain_meanwhile(void *arg, const struct store_point *p)
{
	const struct store_limits l = {.keep_raw_ns = 1};
	struct meanwhile *m = arg;

	if (m->n++ == 1)
		retain(m->s, NULL, &l);
	assert_true((uint64_t)p->step >= m->next);
	m->next = (uint64_t)p->step + 1;
	assert_true(p->value == noise((uint64_t)p->step * 64 + 1));
	return 0;
}

/* A walk whose chunks go while it is on its way sees those that are left. */
static void reader_meets_retention(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	struct meanwhile m = {.s = s, .dir = *state};
	struct store_reader *r = NULL;
	struct err e = {0};
	uint32_t i;

	for (i = 0; i < 5 * CHUNK; i += CHUNK) {
		push(s, id, 0, i, i + CHUNK);
		storetest_fold(s);
	}
	assert_int_equal(store_reader_open(*state, &e, &r), 0);
	if (store_reader_points(r, 0, id, NULL, retain_meanwhile, &m, &e) < 0)
		fail_msg("store_reader_points: %s", e.text);
	assert_int_equal(m.n, 2 * CHUNK);
	assert_int_equal(m.next, 5 * CHUNK);
	store_reader_close(r);
	storetest_close(s);
}

static uint64_t random_state;

static uint64_t rng(uint64_t n)
{
	return storetest_random(&random_state, n);
}

/* Commits, folds and slices in any order: what is left is the end of what was
 * pushed, all that is younger than the limit is there. */
static void random_slices(void **state)
{
	struct store *s = storetest_open(*state);
	int64_t start = store_utc_ns() - 40 * CHUNK * SECOND;
	uint64_t n[6] = {0}, lost[7][2], most = 0;
	uint32_t p = storetest_process(s, 1), k, i;
	struct store_limits l = {0};
	struct err e = {0};

	random_state = 7;
	for (k = 1; k <= 5; k++)
		storetest_series(s, p, (char[]){(char)('a' + k), 0}, SINK_GAUGE);
	for (i = 0; i < 400; i++) {
		switch (rng(6)) {
		case 0:
			storetest_merge(s);
			break;
		case 1:
			if (rng(4) == 0)
				storetest_fold(s);
			break;
		case 2:
		case 3:
			if (rng(30) == 0)
				l.keep_raw_ns = (int64_t)(10 + rng(30)) * CHUNK * SECOND;
			if (rng(30) == 0)
				l.max_bytes = 200000 + rng(1000000);
			if (rng(3) == 0)
				s->retain.age_ns = s->retain.size_ns = s->retain.pack = 0;
			if (store_retain(s, &l, &e) < 0)
				fail_msg("store_retain: %s", e.text);
			break;
		default:
			k = 1 + (uint32_t)rng(5);
			most = 1 + rng(3000);
			push(s, k, start, n[k], n[k] + most);
			n[k] += most;
		}
		if (i % 40 == 39)
			storetest_check(*state);
	}
	l = (struct store_limits){.keep_raw_ns = 10 * CHUNK * SECOND};
	retain(s, NULL, &l);
	storetest_check(*state);
	memset(lost, 0, sizeof(lost));
	count_lost(*state, lost);
	for (k = 1; k <= 5; k++) {
		assert_int_equal(lost[k][0], n[k]);
		assert_left(*state, k, start, lost[k][1], n[k]);
		assert_int_equal(total(*state, k).count, n[k]);
	}
	storetest_close(s);
	storetest_check(*state);
}

static void span_finds_moments(void **state)
{
	struct retain_span s = {0};
	int64_t t;

	(void)state;
	for (t = 1000; t < 2000; t++) /* 10 bytes each second */
		retain_span_add(&s, t * SECOND, 10);
	/* 5,000 bytes end before second 1500; a bucket is at most 2 s wide then. */
	t = retain_span_before(&s, 5000);
	assert_true(t > 1499 * SECOND && t < 1502 * SECOND);
	retain_span_add(&s, 10 * SECOND, 7);
	t = retain_span_before(&s, 7);
	assert_true(t > 10 * SECOND && t < 15 * SECOND);
	t = retain_span_before(&s, 1e18);
	assert_true(t > 1999 * SECOND);
	retain_span_add(&s, INT64_MAX, 1);
	retain_span_add(&s, INT64_MIN, 1);
	assert_true(retain_span_before(&s, 1e18) > (int64_t)1 << 61);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(old_points_go, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(last_chunk_stays, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(large_file_shrinks, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(no_limits_no_work, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(reader_meets_retention, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(random_slices, storetest_setup, storetest_teardown),
		cmocka_unit_test(span_finds_moments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
