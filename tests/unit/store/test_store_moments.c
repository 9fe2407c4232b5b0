/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_moments.c - axes that follow from each other as one row: its bytes as
 * docs/schema.md has them, hostile ones, and what a store makes of a loop's spans.
 */
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
#define START 1700000000000000000LL
#define LOOP_SERIES 8u
#define LOOP_STEPS 3000u

static uint64_t draw(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* ---- bytes ------------------------------------------------------------------------ */

/* A column of integers, raw: docs/columns.md. */
static size_t put_raw(unsigned char *p, const int64_t *v, size_t n)
{
	size_t i, k;

	*p++ = 1;
	for (i = 0; i < n; i++)
		for (k = 0; k < 8; k++)
			*p++ = (unsigned char)((uint64_t)v[i] >> (8 * k));
	return 1 + 8 * n;
}

/* Three rows. Times 100, 200, 300; what is 5 after the same row of that; what is 1, 2, 3
 * after the row before; what is 7 before the row after. */
static size_t put_moments(unsigned char *p)
{
	static const int64_t steps[] = {1, 2, 3}, threads[] = {9, 9, 9}, times[] = {100, 200, 300};
	static const int64_t same[] = {5, 5, 5}, before[] = {1, 2, 3}, after[] = {-7, -7, -7};
	static const unsigned char heads[] = {4, 0, 0, 25, 1, 0, 25, 1, 1, 25, 2, 2, 25};
	unsigned char *from = p;

	*p++ = 25;
	p += put_raw(p, steps, 3);
	*p++ = 25;
	p += put_raw(p, threads, 3);
	memcpy(p, heads, sizeof(heads));
	p += sizeof(heads);
	p += put_raw(p, times, 3);
	p += put_raw(p, same, 3);
	p += put_raw(p, before, 3);
	p += put_raw(p, after, 3);
	return (size_t)(p - from);
}

static void test_bytes(void **state)
{
	static const int64_t want[4][3] = {
		{100, 200, 300}, {105, 205, 305}, {101, 102, 203}, {198, 298, 298}};
	unsigned char body[300], values[] = {0, 3, 99};
	size_t len = put_moments(body), i;
	struct points_view v;
	struct column_codec c;
	struct points out;
	const int64_t *t;
	struct axis a;

	(void)state;
	column_codec_init(&c);
	axis_init(&a);
	points_init(&out);
	assert_null(moments_decode(&c, body, len, 3, &a));
	assert_int_equal(moments_count(&a), 4);
	assert_true(a.n == 3 && a.step[2] == 3 && a.thread[1] == 9);
	for (i = 4; i-- > 0;) {
		assert_null(moments_time(&c, &a, i, &t));
		assert_memory_equal(t, want[i], sizeof(want[i]));
	}
	assert_non_null(moments_time(&c, &a, 4, &t));
	/* From column 0 to column 2. */
	assert_null(moments_view(&c, values, 2, 3, &a, &out, &v));
	assert_true(v.n == 3 && v.time[1] == 200 && v.value[0] == 1 && v.value[1] == -98 &&
		    v.value[2] == -97);
	assert_null(moments_points(&c, values, 2, 3, &a, &out));
	assert_true(out.n == 3 && out.time[2] == 300 && out.step[2] == 3 && out.thread[0] == 9 &&
		    out.value[1] == -98);
	/* Not all rows; something behind; columns that are not there; nothing at all. */
	assert_non_null(moments_view(&c, values, 2, 2, &a, &out, &v));
	assert_non_null(moments_points(&c, values, 3, 3, &a, &out));
	values[1] = 5;
	assert_non_null(moments_points(&c, values, 2, 3, &a, &out));
	values[0] = 4;
	values[1] = 1;
	assert_non_null(moments_points(&c, values, 2, 3, &a, &out));
	assert_non_null(moments_points(&c, values, 1, 3, &a, &out));
	assert_non_null(moments_points(&c, values, 0, 3, &a, &out));
	axis_done(&a);
	points_done(&out);
	column_codec_done(&c);
}

static void test_claims(void **state)
{
	/* Byte of the body, what it becomes: no columns, too many, a source that is itself
	 * or comes later, a shift that is none, one of nothing, lengths. */
	static const unsigned char claims[][2] = {
		{52, 0},  {52, 17}, {56, 2}, {56, 4}, {57, 3},  {54, 1},
		{55, 24}, {55, 26}, {0, 24}, {0, 99}, {26, 24}, {26, 27},
	};
	unsigned char body[300], bad[300], *exact;
	size_t len = put_moments(body), i, k;
	struct column_codec c;
	const int64_t *t;
	struct axis a;

	(void)state;
	column_codec_init(&c);
	axis_init(&a);
	assert_int_equal(body[52], 4); /* the offsets above */
	for (i = 0; i < ARRAY_LEN(claims); i++) {
		memcpy(bad, body, len);
		bad[claims[i][0]] = claims[i][1];
		if (!moments_decode(&c, bad, len, 3, &a))
			fail_msg("claim %zu is believed", i);
		assert_int_equal(a.n, 0);
	}
	assert_non_null(moments_decode(&c, body, len, 0, &a));
	assert_non_null(moments_decode(&c, body, len, CHUNK_POINTS_MAX + 1, &a));
	for (i = 0; i < len; i++) {
		exact = malloc(i + 1); /* reading behind it is seen by valgrind and ASan */
		memcpy(exact, body, i);
		assert_non_null(moments_decode(&c, exact, i, 3, &a));
		free(exact);
	}
	for (i = 0; i < 8 * len; i++) {
		memcpy(bad, body, len);
		bad[i / 8] ^= (unsigned char)(1 << i % 8);
		if (moments_decode(&c, bad, len, 3, &a))
			continue;
		for (k = 0; k < moments_count(&a); k++)
			if (!moments_time(&c, &a, k, &t))
				assert_non_null(t);
	}
	axis_done(&a);
	column_codec_done(&c);
}

/* Any numbers, any sources: the columns come back, in any order. */
static void moments_any(uint64_t *seed, struct column_codec *c, int64_t *v)
{
	size_t n = 1 + draw(seed) % (draw(seed) % 4 ? 200 : CHUNK_POINTS_MAX), i, k;
	struct moments_in in = {.rows = n, .n = 1 + draw(seed) % MOMENTS_MAX};
	struct buf shared, b;
	const int64_t *t;
	struct axis a;

	axis_init(&a);
	buf_init(&shared, 1 << 20);
	buf_init(&b, 16 << 20);
	for (i = 0; i < in.n; i++) {
		int64_t *to = v + i * CHUNK_POINTS_MAX;
		unsigned shape = draw(seed) % 4, bits = draw(seed) % 64;

		for (k = 0; k < n; k++)
			to[k] = shape == 0   ? (int64_t)(draw(seed) >> bits)
				: shape == 1 ? (int64_t)(START + (int64_t)k * SECOND)
				: shape == 2 ? draw(seed) % 2 ? INT64_MAX : INT64_MIN
					     : (int64_t)(draw(seed) << bits);
		in.times[i] = to;
		in.from[i].from = (unsigned)(draw(seed) % (i + 1));
		in.from[i].shift = in.from[i].from ? (int)(draw(seed) % 3) - 1 : 0;
	}
	assert_int_equal(column_put_ints(c, &shared, v, n), 0);
	in.steps = in.threads = (struct moments_bytes){(unsigned char *)shared.data, shared.len};
	if (!in.from[0].from && draw(seed) % 2)
		in.own[0] = in.steps;
	assert_int_equal(moments_encode(c, &b, &in), 0);
	assert_null(moments_decode(c, (unsigned char *)b.data, b.len, n, &a));
	assert_memory_equal(a.step, v, n * 8);
	assert_memory_equal(a.thread, v, n * 8);
	assert_int_equal(moments_count(&a), in.n);
	for (i = 0; i < 2 * in.n; i++) {
		k = draw(seed) % in.n;
		assert_null(moments_time(c, &a, k, &t));
		assert_memory_equal(t, in.times[k], n * 8);
	}
	axis_done(&a);
	buf_done(&b);
	buf_done(&shared);
}

static void test_any(void **state)
{
	int64_t *v = xcalloc(MOMENTS_MAX * CHUNK_POINTS_MAX, sizeof(*v));
	struct column_codec c;
	uint64_t seed = 88172645463325252u;
	int i;

	(void)state;
	column_codec_init(&c);
	for (i = 0; i < 200; i++)
		moments_any(&seed, &c, v);
	column_codec_done(&c);
	free(v);
}

/* All three columns of an axis are noise. */
static void test_axis_of_noise(void **state)
{
	int64_t *v = xcalloc(3 * CHUNK_POINTS_MAX, sizeof(*v));
	const struct points_view p = {CHUNK_POINTS_MAX, v, v + CHUNK_POINTS_MAX,
				      v + 2 * CHUNK_POINTS_MAX, NULL};
	uint64_t seed = 7;
	struct column_codec c;
	struct axis a;
	struct buf b;
	size_t i;

	(void)state;
	for (i = 0; i < 3 * CHUNK_POINTS_MAX; i++)
		v[i] = (int64_t)draw(&seed);
	column_codec_init(&c);
	axis_init(&a);
	buf_init(&b, 1 << 20);
	assert_int_equal(axis_set(&a, &p), 0);
	assert_int_equal(axis_encode(&c, &b, &a), 0);
	memset(a.time, 0, CHUNK_POINTS_MAX * 8);
	assert_null(axis_decode(&c, (unsigned char *)b.data, b.len, CHUNK_POINTS_MAX, &a));
	assert_memory_equal(a.time, p.time, CHUNK_POINTS_MAX * 8);
	assert_memory_equal(a.step, p.step, CHUNK_POINTS_MAX * 8);
	assert_memory_equal(a.thread, p.thread, CHUNK_POINTS_MAX * 8);
	axis_done(&a);
	buf_done(&b);
	column_codec_done(&c);
	free(v);
}

/* ---- a loop --------------------------------------------------------------------------- */

struct loop {
	uint32_t id[LOOP_SERIES];
	struct store_point *v[LOOP_SERIES]; /* what was pushed */
	size_t n[LOOP_SERIES];
	uint64_t seed;
	int64_t now;
};

static const struct {
	const char *name;
	enum sink_kind kind;
} loop_series[LOOP_SERIES] = {
	{"step", SINK_SPAN}, {"data", SINK_SPAN},  {"forward", SINK_SPAN},
	{"sync", SINK_SPAN}, {"loss", SINK_GAUGE}, {"samples", SINK_COUNTER},
	{"odd", SINK_SPAN},  {"free", SINK_SPAN},
};

static void loop_begin(struct loop *l, struct store *s)
{
	uint32_t p = storetest_process(s, 1), i;

	*l = (struct loop){.seed = 4711, .now = START};
	for (i = 0; i < LOOP_SERIES; i++) {
		l->id[i] = storetest_series(s, p, loop_series[i].name, loop_series[i].kind);
		l->v[i] = xcalloc(LOOP_STEPS * 10, sizeof(*l->v[i]));
	}
}

static void loop_done(struct loop *l)
{
	size_t i;

	for (i = 0; i < LOOP_SERIES; i++)
		free(l->v[i]);
}

static void loop_push(struct loop *l, struct store *s, unsigned i, int64_t time, int64_t step,
		      double value)
{
	storetest_push(s, l->id[i], time, step, value);
	l->v[i][l->n[i]++] = (struct store_point){.time_ns = time, .step = step, .value = value};
}

/* A phase: some microseconds after now, about so long. */
static void loop_phase(struct loop *l, struct store *s, unsigned i, int64_t step, int64_t ns)
{
	int64_t start = l->now + 50 + (int64_t)(draw(&l->seed) % 20);
	int64_t took = ns + (int64_t)(draw(&l->seed) % (uint64_t)ns);

	l->now = start + took;
	loop_push(l, s, i, start, step, (double)took);
}

/* "odd" has durations that are no whole numbers, "free" no steps. */
static void loop_step(struct loop *l, struct store *s, int64_t step)
{
	static const double odd[] = {0.5, 1e300, -3, 9007199254740994.0, -0.0, 17};
	int64_t begin = l->now + 600 + (int64_t)(draw(&l->seed) % 100);

	l->now = begin;
	loop_phase(l, s, 1, step, 10000);
	loop_phase(l, s, 2, step, 3000000);
	loop_phase(l, s, 3, step, 1000000);
	loop_push(l, s, 6, l->now + 5, step, odd[step % 6]);
	loop_phase(l, s, 7, SINK_STEP_NONE, 100);
	loop_push(l, s, 4, l->now + 90 + (int64_t)(draw(&l->seed) % 30), step,
		  (double)draw(&l->seed) / 1e10);
	l->now += 400 + (int64_t)(draw(&l->seed) % 100);
	loop_push(l, s, 0, begin, step, (double)(l->now - begin));
	loop_push(l, s, 5, l->now, step, 32);
}

/* From the end: retention may have taken what was before. */
static void loop_compare(const struct loop *l, const char *dir)
{
	size_t i, k;

	for (i = 0; i < LOOP_SERIES; i++) {
		struct storetest_points got = storetest_read_dir(dir, l->id[i]);
		const struct store_point *want = l->v[i] + l->n[i] - got.n;

		assert_true(got.n > 0 && got.n <= l->n[i]);
		for (k = 0; k < got.n; k++) {
			assert_int_equal(got.v[k].time_ns, want[k].time_ns);
			assert_int_equal(got.v[k].step, want[k].step);
			assert_memory_equal(&got.v[k].value, &want[k].value, 8);
		}
		free(got.v);
	}
}

static void loop_run(struct loop *l, struct store *s, size_t n, int64_t first)
{
	size_t i;

	for (i = 0; i < n; i++) {
		loop_step(l, s, first + (int64_t)i);
		if (i % 512 == 511)
			storetest_commit(s);
	}
	storetest_commit(s);
}

/* Bytes of axes and chunks whose envelope says this format. */
static int64_t count_format(const char *dir, const char *what, unsigned format)
{
	char sql[300];

	snprintf(sql, sizeof(sql),
		 strcmp(what, "axis") == 0
			 ? "SELECT count(*) FROM axis WHERE hex(substr(blob, 1, 1)) = '%02X'"
			 : "SELECT count(*) FROM chunk JOIN pack ON pack = pack.id"
			   " WHERE hex(substr(blob, at + 1, 1)) = '%02X'",
		 format);
	return storetest_sql(dir, sql);
}

/* One row has the times of what has steps; what has none, and durations that would not
 * come back, are as they were. Raw, the seven columns that are told by others would
 * take 20 bits each and more: all axes are far less. */
static void test_loop(void **state)
{
	struct store *s = storetest_open(*state);
	struct loop l;

	loop_begin(&l, s);
	loop_run(&l, s, LOOP_STEPS, 0);
	storetest_fold(s);
	storetest_close(s);
	storetest_check(*state);
	loop_compare(&l, *state);
	assert_int_equal(count_format(*state, "axis", 8), 1);
	assert_int_equal(count_format(*state, "axis", 5), 1);
	assert_int_equal(count_format(*state, "chunk", 9), LOOP_SERIES - 1);
	assert_int_equal(count_format(*state, "chunk", 6), 1);
	/* The four series of spans hold no values but "odd" and "free". */
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM chunk WHERE len <= 20"), 4);
	assert_true(storetest_sql(*state, "SELECT sum(length(blob)) FROM axis") < LOOP_STEPS * 15);
	loop_done(&l);
}

/* Full chunks leave the merged row in the middle of a run; steps that go back cut
 * chunks, which then have axes of their own. */
static void test_long_loop(void **state)
{
	struct store *s = storetest_open(*state);
	struct loop l;

	loop_begin(&l, s);
	loop_run(&l, s, 2 * LOOP_STEPS, 0);
	storetest_merge(s);
	loop_run(&l, s, 2 * LOOP_STEPS, 2 * LOOP_STEPS);
	storetest_merge(s);
	storetest_check(*state);
	loop_compare(&l, *state);
	assert_int_equal(count_format(*state, "axis", 8), 1);
	loop_run(&l, s, LOOP_STEPS, LOOP_STEPS);
	storetest_fold(s);
	storetest_close(s);
	storetest_check(*state);
	loop_compare(&l, *state);
	loop_done(&l);
}

#define WIDE 40u /* series at two moments of a loop, in turn */

/* More than one fold has in memory at once: what is sealed first has the times, and what
 * comes later refers to them. */
static void test_wide_loop(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t p = storetest_process(s, 1), id[WIDE], k;
	int64_t *times = xcalloc(2 * LOOP_STEPS, sizeof(*times)), i;
	double *values = xcalloc(WIDE * LOOP_STEPS, sizeof(*values));
	uint64_t seed = 5;
	char name[8];

	for (k = 0; k < WIDE; k++) {
		snprintf(name, sizeof(name), "w%u", k);
		id[k] = storetest_series(s, p, name, SINK_GAUGE);
	}
	for (i = 0; i < LOOP_STEPS; i++) {
		times[2 * i] = START + i * 5000000 + (int64_t)(draw(&seed) % 1000000);
		times[2 * i + 1] = times[2 * i] + 100 + (int64_t)(draw(&seed) % 8);
		for (k = 0; k < WIDE; k++) {
			values[k * LOOP_STEPS + i] = (double)draw(&seed) / 3;
			storetest_push(s, id[k], times[2 * i + k % 2], i,
				       values[k * LOOP_STEPS + i]);
		}
		if (i % 100 == 99)
			storetest_commit(s);
	}
	storetest_commit(s);
	storetest_fold(s);
	storetest_close(s);
	storetest_check(*state);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM chunk"), WIDE);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM axis"), 1);
	assert_int_equal(count_format(*state, "axis", 8), 1);
	for (k = 0; k < WIDE; k++) {
		struct storetest_points got = storetest_read_dir(*state, id[k]);

		assert_int_equal(got.n, LOOP_STEPS);
		for (i = 0; i < LOOP_STEPS; i++) {
			assert_int_equal(got.v[i].time_ns, times[2 * i + k % 2]);
			assert_true(got.v[i].value == values[k * LOOP_STEPS + i]);
		}
		free(got.v);
	}
	free(times);
	free(values);
}

/* Chunks of some series go, those of others stay: a row of moments stays as long as one
 * needs it, and no longer. */
static void test_retention(void **state)
{
	const struct store_limits limits = {.keep_raw_ns = SECOND};
	struct store *s = storetest_open(*state);
	struct err e = {0};
	struct loop l;
	int r;

	loop_begin(&l, s);
	loop_run(&l, s, LOOP_STEPS, 0);
	storetest_fold(s);
	assert_int_equal(count_format(*state, "axis", 8), 1);
	/* "loss" and "data" go on: only their first chunks may go. */
	for (r = 0; r < 100; r++) {
		loop_push(&l, s, 4, l.now + r, LOOP_STEPS + r, 1);
		loop_push(&l, s, 1, l.now + r, LOOP_STEPS + r, 1);
	}
	storetest_commit(s);
	storetest_fold(s);
	do {
		r = store_retain(s, &limits, &e);
		assert_true(r >= 0);
		storetest_check(*state);
	} while (r);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM chunk"), LOOP_SERIES);
	assert_int_equal(count_format(*state, "axis", 8), 1);
	loop_compare(&l, *state);
	/* Now the others: nothing needs the first row. */
	loop_run(&l, s, 100, LOOP_STEPS + 200);
	storetest_fold(s);
	s->retain.age_ns = s->retain.size_ns = s->retain.pack = 0;
	do {
		r = store_retain(s, &limits, &e);
		assert_true(r >= 0);
		storetest_check(*state);
	} while (r);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM chunk"), LOOP_SERIES);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM axis WHERE id NOT IN"
					       " (SELECT axis FROM chunk)"),
			 0);
	storetest_close(s);
	storetest_check(*state);
	loop_compare(&l, *state);
	loop_done(&l);
}

/* Everything that can be odd at once, the same steps in all series. */
static void test_hostile_streams(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t p = storetest_process(s, 1), id[20];
	uint64_t seed = 99, want[20][200][2];
	char name[8];
	int64_t begin;
	size_t i, k, round;

	for (i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "s%zu", i);
		id[i] = storetest_series(s, p, name, i % 3 ? SINK_SPAN : SINK_GAUGE);
	}
	for (k = 0; k < 200; k++) {
		begin = START + (int64_t)(k * 1000000 + draw(&seed) % 500000);
		for (i = 0; i < 20; i++) {
			unsigned shape = (unsigned)(i / 4);
			int64_t time = shape == 0   ? (int64_t)draw(&seed)
				       : shape == 1 ? draw(&seed) % 2 ? INT64_MAX : INT64_MIN + 1
						    : begin + (int64_t)(i * 1000 + draw(&seed) % 8);
			uint64_t bits = draw(&seed);
			double value = (double)(int64_t)(draw(&seed) >> (draw(&seed) % 64));

			if (shape == 3)
				memcpy(&value, &bits, 8);
			storetest_push(s, id[i], time, (int64_t)k, value);
			want[i][k][0] = (uint64_t)time;
			memcpy(&want[i][k][1], &value, 8);
		}
	}
	storetest_commit(s);
	storetest_fold(s);
	storetest_close(s);
	storetest_check(*state);
	for (i = 0, round = 0; i < 20; i++) {
		struct storetest_points got = storetest_read_dir(*state, id[i]);

		assert_int_equal(got.n, 200);
		for (k = 0; k < got.n; k++) {
			assert_int_equal(got.v[k].time_ns, want[i][k][0]);
			assert_memory_equal(&got.v[k].value, &want[i][k][1], 8);
			round++;
		}
		free(got.v);
	}
	assert_int_equal(round, 4000);
	assert_true(count_format(*state, "axis", 8) >= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_claims),
		cmocka_unit_test(test_any),
		cmocka_unit_test(test_axis_of_noise),
		cmocka_unit_test_setup_teardown(test_loop, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_long_loop, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_wide_loop, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_retention, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_hostile_streams, storetest_setup,
						storetest_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
