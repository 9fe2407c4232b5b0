/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_merged.c - axes that rows share, and merged rows: bytes worked out by hand from
 * docs/schema.md, and values that come back by their axis.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "store/codec.h"
#include "store/summary.h"
#include "storetest.h"

static const struct blob_id tail_id = {"x.db", "tail", 7, 0};

/* ---- axes --------------------------------------------------------------------------- */

#define ROWS 100

static struct points_view rows_view(const int64_t *time, const double *value, size_t n)
{
	static int64_t step[CHUNK_POINTS_MAX + 10], thread[CHUNK_POINTS_MAX + 10];

	return (struct points_view){n, time, step, thread, value};
}

static void test_axis_match(void **state)
{
	static int64_t time[CHUNK_POINTS_MAX + 10], some[CHUNK_POINTS_MAX + 10];
	struct presence *p = xcalloc(1, sizeof(*p));
	struct points_view v = rows_view(time, NULL, ROWS);
	struct axis a;
	size_t i;

	(void)state;
	axis_init(&a);
	for (i = 0; i < CHUNK_POINTS_MAX + 10; i++)
		time[i] = (int64_t)(10 * i);
	assert_int_equal(axis_set(&a, &v), 0);
	assert_int_equal(axis_match(&a, &v, p), ROWS);
	assert_int_equal(p->n, 0); /* all */
	/* Every second row, from the second on: just dense enough. */
	for (i = 0; i < ROWS / 2; i++)
		some[i] = time[2 * i + 1];
	v = rows_view(some, NULL, ROWS / 2);
	assert_int_equal(axis_match(&a, &v, p), ROWS / 2);
	assert_int_equal(p->n, ROWS);
	assert_true(p->runs[0] == 0 && p->runs[1] == 1 && p->runs[ROWS - 1] == 1);
	v.n--;
	assert_int_equal(axis_match(&a, &v, p), 0);
	/* A row in the middle is missing; one is not the axis's. */
	for (i = 0; i < ROWS - 1; i++)
		some[i] = time[i < 40 ? i : i + 1];
	v = rows_view(some, NULL, ROWS - 1);
	assert_int_equal(axis_match(&a, &v, p), ROWS - 1);
	assert_true(p->n == 2 && p->runs[0] == 40 && p->runs[1] == 1);
	some[50]++;
	assert_int_equal(axis_match(&a, &v, p), 0);
	/* Longer than an axis that may still grow; than one that is full. */
	v = rows_view(time, NULL, ROWS + 5);
	assert_int_equal(axis_match(&a, &v, p), 0);
	v = rows_view(time, NULL, CHUNK_POINTS_MAX);
	assert_int_equal(axis_set(&a, &v), 0);
	v = rows_view(time, NULL, CHUNK_POINTS_MAX + 5);
	assert_int_equal(axis_match(&a, &v, p), CHUNK_POINTS_MAX);
	assert_int_equal(p->n, 0);
	v = rows_view(time + 8, NULL, CHUNK_POINTS_MAX);
	assert_int_equal(axis_match(&a, &v, p), CHUNK_POINTS_MAX - 8);
	assert_true(p->n == 2 && p->runs[0] == 0 && p->runs[1] == 8);
	axis_done(&a);
	free(p);
}

static void test_values_on_an_axis(void **state)
{
	int64_t time[ROWS], some[ROWS];
	double value[ROWS];
	struct presence *p = xcalloc(1, sizeof(*p));
	struct points_view v = rows_view(time, value, ROWS);
	struct points out;
	struct axis a, again;
	struct column_codec c;
	struct buf b;
	size_t i, n;

	(void)state;
	axis_init(&a);
	axis_init(&again);
	points_init(&out);
	column_codec_init(&c);
	buf_init(&b, 1 << 20);
	for (i = 0; i < ROWS; i++) {
		time[i] = (int64_t)(i * i);
		value[i] = storetest_double(0x7ff0000000000000u + i);
	}
	assert_int_equal(axis_set(&a, &v), 0);
	assert_int_equal(axis_encode(&c, &b, &a), 0);
	assert_null(axis_decode(&c, (unsigned char *)b.data, b.len, ROWS, &again));
	assert_memory_equal(again.time, time, sizeof(time));
	assert_true(again.n == ROWS && again.step[3] == 0 && again.thread[7] == 0);
	for (i = 0; i < b.len; i++)
		assert_non_null(axis_decode(&c, (unsigned char *)b.data, i, ROWS, &again));
	for (n = ROWS; n >= ROWS / 2; n -= 25) {
		for (i = 0; i < n; i++)
			some[i] = time[i + (i > 20 ? ROWS - n : 0)];
		v = rows_view(some, value, n);
		assert_int_equal(axis_match(&a, &v, p), n);
		buf_reset(&b);
		assert_int_equal(values_encode(&c, &b, p, value, n), 0);
		out.n = 0;
		assert_null(values_points(&c, (unsigned char *)b.data, b.len, n, &a, &out));
		assert_int_equal(out.n, n);
		assert_memory_equal(out.time, some, n * 8);
		assert_memory_equal(out.value, value, n * 8);
		assert_non_null(values_points(&c, (unsigned char *)b.data, b.len, n - 1, &a, &out));
		for (i = 0; i < b.len; i++)
			assert_non_null(values_points(&c, (unsigned char *)b.data, i, n, &a, &out));
	}
	axis_done(&a);
	axis_done(&again);
	points_done(&out);
	column_codec_done(&c);
	buf_done(&b);
	free(p);
}

/* ---- merged rows --------------------------------------------------------------------- */

/* Two axes, series 3 on both, series 9 on the first, histograms of 4. The bytes
 * of the directory are those of docs/schema.md. */
static void test_merged_bytes(void **state)
{
	static const unsigned char want[] = {
		5,                     /* first commit */
		2,   10,  2,   20,  1, /* axes: rows, bytes */
		3,   3,   0,   10,  2,   0,   1,   20,  1,   6,
		0,   9,   1,      /* series, axis, n, bytes */
		1,   4,   7,   3, /* histograms: series, n, bytes */
		'A', 'a', 'B', '1', '2', '3', '4', 'x', 'y', 'z',
	};
	const struct merged_axis axes[] = {{10, (const unsigned char *)"Aa", 2},
					   {20, (const unsigned char *)"B", 1}};
	const struct merged_entry entries[] = {
		{3, 0, 10, false, (const unsigned char *)"12", 2},
		{3, 1, 20, false, (const unsigned char *)"3", 1},
		{9, 0, 9, false, (const unsigned char *)"4", 1},
		{4, 0, 7, true, (const unsigned char *)"xyz", 3},
	};
	struct blob blob = {.format = BLOB_MERGED, .count = 46};
	struct merged_entry x;
	struct err e = {0};
	struct merged m;
	struct buf b;
	unsigned bit;
	size_t i;

	(void)state;
	buf_init(&b, 1000);
	assert_int_equal(merged_encode(&b, 5, axes, 2, entries, 4), 0);
	assert_int_equal(b.len, sizeof(want));
	assert_memory_equal(b.data, want, sizeof(want));
	blob.body = (unsigned char *)b.data;
	blob.len = b.len;
	assert_int_equal(merged_begin(&m, &tail_id, &blob, &e), 0);
	assert_int_equal(m.first, 5);
	for (i = 0; i < 4; i++) {
		assert_int_equal(merged_next(&m, &x), 1);
		assert_true(x.series == entries[i].series && x.axis == entries[i].axis &&
			    x.n == entries[i].n && x.is_hist == entries[i].is_hist);
		assert_int_equal(x.len, entries[i].len);
		assert_memory_equal(x.p, entries[i].p, x.len);
	}
	assert_int_equal(merged_next(&m, &x), 0);
	merged_done(&m);
	blob.count = 45;
	assert_int_equal(merged_begin(&m, &tail_id, &blob, &e), -EUCLEAN);
	blob.count = 46;
	for (i = 0; i < b.len; i++) {
		blob.len = i;
		assert_int_equal(merged_begin(&m, &tail_id, &blob, NULL), -EUCLEAN);
	}
	blob.len = b.len;
	for (i = 0; i < b.len; i++)
		for (bit = 0; bit < 8; bit++) {
			b.data[i] = (char)(b.data[i] ^ (1 << bit));
			if (merged_begin(&m, &tail_id, &blob, NULL) == 0) {
				while (merged_next(&m, &x) > 0)
					assert_true(x.p + x.len <= blob.body + blob.len);
				merged_done(&m);
			}
			b.data[i] = (char)(b.data[i] ^ (1 << bit));
		}
	buf_done(&b);
}

static void test_segments(void **state)
{
	static const struct {
		int64_t time, step;
		uint32_t want;
	} points[] = {
		{10, SINK_STEP_NONE, 0},
		{11, 5, 0},
		{12, 5, 0}, /* several samples of one step */
		{13, 7, 0},
		{14, SINK_STEP_NONE, 0},
		{12, 6, 0}, /* another lane, drained later */
		{15, 7, 0},
		{20, 6, 1}, /* the step went back while time went on */
		{21, 7, 1},
		{21, 6, 2}, /* at the same time: time did not go back */
		{30, SINK_STEP_NONE, 2},
		{31, -4, 3},
		{32, 100, 3},
	};
	struct segment s = {.step = SINK_STEP_NONE};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(points); i++) {
		uint32_t before = s.no;
		bool is_new = segment_next(&s, points[i].time, points[i].step);

		assert_int_equal(s.no, points[i].want);
		assert_int_equal(is_new, s.no != before);
	}
	/* Steps that fall for ever make at most SEGMENTS_MAX segments. */
	for (i = 0; i < SEGMENTS_MAX + 10; i++)
		segment_next(&s, 100 + (int64_t)i, 50 - (int64_t)i);
	assert_int_equal(s.no, SEGMENTS_MAX - 1);
	assert_int_equal(segment_span_end(5, 10), 15);
	assert_int_equal(segment_span_end(5, NAN), 5);
	assert_int_equal(segment_span_end(5, 1e30), INT64_MAX);
	assert_int_equal(segment_span_end(5, -3), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_axis_match),
		cmocka_unit_test(test_values_on_an_axis),
		cmocka_unit_test(test_merged_bytes),
		cmocka_unit_test(test_segments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
