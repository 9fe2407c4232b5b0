/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_codec.c - the blobs: bytes worked out by hand from docs/schema.md, round
 * trips of awkward numbers, and damaged bytes.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "store/codec.h"
#include "store/summary.h"
#include "storetest.h"

static const struct blob_id tail_id = {"x.db", "tail", 7, 0};

static void test_crc(void **state)
{
	unsigned char zeros[32] = {0}, ones[32], up[100];
	size_t i;

	(void)state;
	memset(ones, 0xff, sizeof(ones));
	/* RFC 3720, appendix B.4, and the usual check value. */
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283u);
	assert_int_equal(crc32c(0, zeros, 32), 0x8a9136aau);
	assert_int_equal(crc32c(0, ones, 32), 0x62a8ab43u);
	assert_int_equal(crc32c_portable(0, "123456789", 9), 0xe3069283u);
	assert_int_equal(crc32c_portable(0, zeros, 32), 0x8a9136aau);
	for (i = 0; i < sizeof(up); i++)
		up[i] = (unsigned char)(i * 37);
	for (i = 0; i <= sizeof(up); i++) {
		assert_int_equal(crc32c(0, up, i), crc32c_portable(0, up, i));
		assert_int_equal(crc32c(crc32c(0, up, i), up + i, sizeof(up) - i),
				 crc32c(0, up, sizeof(up)));
	}
}

/* Two samples of series 3 at 100 and 110 ns, steps 5 and 6, thread 9. */
static void test_tail_bytes(void **state)
{
	static const unsigned char want[] = {
		0xc8, 0x01,                         /* base time 100, zigzag 200 */
		0x0a,                               /* base step 5 */
		0x00,                               /* no positions */
		0x01,                               /* one block */
		0x03, 0x02,                         /* series 3, two points */
		0x15,                               /* strides, raw values */
		0x00, 0x14,                         /* time: base + 0, stride 10 */
		0x00, 0x02,                         /* step: base + 0, stride 1 */
		0x12, 0x00,                         /* thread 9, stride 0 */
		0,    0,    0, 0, 0, 0, 0xf0, 0x3f, /* 1.0 */
		0,    0,    0, 0, 0, 0, 0x00, 0xc0, /* -2.0 */
		0x00,                               /* no histograms */
	};
	int64_t time[] = {100, 110}, step[] = {5, 6}, thread[] = {9, 9};
	double value[] = {1, -2};
	struct points p = {2, 2, time, step, thread, value};
	const uint32_t series = 3, length = 2;
	struct hists none = {0};
	const struct tail_in in = {
		.points = &p, .series = &series, .lengths = &length, .n_blocks = 1, .hists = &none};
	struct buf b;

	(void)state;
	buf_init(&b, 1000);
	assert_int_equal(tail_encode(&b, &in), 0);
	assert_int_equal(b.len, sizeof(want));
	assert_memory_equal(b.data, want, sizeof(want));
	buf_done(&b);
}

static void test_envelope_bytes(void **state)
{
	/* Format 6, no flags, 2 points, body "ab"; the checksum is that of the
	 * header with zeros in its place, the key 4, 1, and the body. */
	unsigned char plain[16 + 16 + 2] = {6, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0,   4,
					    0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'a', 'b'};
	const struct blob_id id = {"x.db", "chunk", 4, 1};
	struct blob_codec c;
	struct blob got;
	struct buf body;
	uint32_t crc;

	(void)state;
	blob_codec_init(&c);
	buf_init(&body, 100);
	buf_puts(&body, "ab");
	assert_int_equal(blob_seal(&c, &id, BLOB_VALUES, 2, &body), 0);
	assert_int_equal(c.out.len, 18);
	crc = crc32c(0, plain, sizeof(plain));
	memcpy(plain + 4, &crc, 4);
	assert_memory_equal(c.out.data, plain, 16);
	assert_memory_equal(c.out.data + 16, "ab", 2);
	assert_int_equal(blob_open(&c, &id, c.out.data, 18, NULL, &got), 0);
	assert_int_equal(got.count, 2);
	assert_int_equal(got.format, BLOB_VALUES);
	assert_memory_equal(got.body, "ab", 2);
	buf_done(&body);
	blob_codec_done(&c);
}

static void test_envelope_damage(void **state)
{
	const struct blob_id other = {"x.db", "tail", 8, 0};
	struct blob_codec c;
	struct err e = {0};
	struct blob got;
	struct buf body;
	char *copy;
	size_t i, n;

	(void)state;
	blob_codec_init(&c);
	buf_init(&body, 100000);
	for (i = 0; i < 5000; i++)
		buf_puts(&body, "lapse");
	assert_int_equal(blob_seal(&c, &tail_id, BLOB_TAIL, 1, &body), 0);
	n = c.out.len;
	assert_true(n < 1000); /* it was compressed */
	copy = xcalloc(n, 1);
	memcpy(copy, c.out.data, n);
	assert_int_equal(blob_open(&c, &tail_id, copy, n, &e, &got), 0);
	assert_int_equal(got.len, 25000);
	assert_memory_equal(got.body, body.data, 25000);
	assert_int_equal(blob_open(&c, &other, copy, n, &e, &got), -EUCLEAN);
	assert_non_null(strstr(e.text, "x.db: table tail, seq 8"));
	for (i = 0; i < n; i++) {
		copy[i] ^= 0x10;
		assert_int_equal(blob_open(&c, &tail_id, copy, n, NULL, &got), -EUCLEAN);
		assert_int_equal(blob_open(&c, &tail_id, copy, i, NULL, &got), -EUCLEAN);
		copy[i] ^= 0x10;
	}
	free(copy);
	buf_done(&body);
	blob_codec_done(&c);
}

/* Encode, decode, compare bit for bit. */
static void round_trip(const struct points *in, const uint32_t *lengths, size_t n_blocks)
{
	uint32_t series[16];
	struct hists none = {0};
	struct tail_in t = {.points = in,
			    .series = series,
			    .lengths = lengths,
			    .n_blocks = n_blocks,
			    .hists = &none};
	struct blob blob = {.format = BLOB_TAIL, .count = (uint32_t)in->n};
	struct tail_block block;
	struct points out;
	struct tail_walk w;
	struct buf b;
	size_t i;

	for (i = 0; i < n_blocks; i++)
		series[i] = (uint32_t)(i * 3 + 1);
	buf_init(&b, 1 << 20);
	points_init(&out);
	assert_int_equal(tail_encode(&b, &t), 0);
	blob.body = (unsigned char *)b.data;
	blob.len = b.len;
	assert_int_equal(tail_begin(&w, &tail_id, &blob, NULL), 0);
	for (i = 0; i < n_blocks; i++) {
		assert_int_equal(tail_block(&w, &block), 1);
		assert_int_equal(block.series, series[i]);
		assert_int_equal(block.n, lengths[i]);
		assert_int_equal(tail_points(&w, &block, &out), 0);
	}
	assert_int_equal(tail_block(&w, &block), 0);
	assert_int_equal(out.n, in->n);
	assert_memory_equal(out.time, in->time, in->n * 8);
	assert_memory_equal(out.step, in->step, in->n * 8);
	assert_memory_equal(out.thread, in->thread, in->n * 8);
	assert_memory_equal(out.value, in->value, in->n * 8);
	points_done(&out);
	buf_done(&b);
}

static void test_awkward_points(void **state)
{
	int64_t time[] = {INT64_MAX, INT64_MIN + 1, 0, -1, 5, 5, 7, 5, 5, 7};
	int64_t step[] = {SINK_STEP_NONE,
			  INT64_MAX,
			  INT64_MIN + 1,
			  SINK_STEP_NONE,
			  0,
			  SINK_STEP_NONE,
			  SINK_STEP_NONE,
			  3,
			  3,
			  3};
	int64_t thread[] = {0, UINT32_MAX, 1, 1, 1, 1, 1, 1, 1, 1};
	double value[] = {storetest_double(0x7ff8000000000123u),
			  storetest_double(0xfff0000000000001u),
			  INFINITY,
			  -INFINITY,
			  -0.0,
			  0.0,
			  5e-324,
			  1.5,
			  1.5,
			  1.5};
	struct points p = {10, 10, time, step, thread, value};

	(void)state;
	round_trip(&p, (const uint32_t[]){10}, 1);
	round_trip(&p, (const uint32_t[]){4, 3, 3}, 3); /* the last two share times */
	round_trip(&p, (const uint32_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 10);
	round_trip(&p, (const uint32_t[]){2, 2, 2, 2, 2}, 5);
}

static void test_shared_columns_are_small(void **state)
{
	/* A probe's round: 10 series, one time, no step: 11 bytes a sample. */
	int64_t time[10], step[10], thread[10] = {0};
	uint32_t series[10], lengths[10];
	double value[10];
	struct points p = {10, 10, time, step, thread, value};
	struct hists none = {0};
	const struct tail_in in = {
		.points = &p, .series = series, .lengths = lengths, .n_blocks = 10, .hists = &none};
	struct buf b;
	size_t i;

	(void)state;
	for (i = 0; i < 10; i++) {
		time[i] = 1700000000000000000;
		step[i] = SINK_STEP_NONE;
		series[i] = (uint32_t)i + 1;
		lengths[i] = 1;
		value[i] = (double)i;
	}
	buf_init(&b, 1000);
	assert_int_equal(tail_encode(&b, &in), 0);
	assert_true(b.len <= 10 * 11 + 20);
	buf_done(&b);
}

static void test_hists(void **state)
{
	const struct sink_bin bins[] = {{0, 1}, {0x3ff0, UINT64_MAX}, {65535, 3}};
	const struct hists_row rows[] = {
		{.series = 2,
		 .n_bins = 3,
		 .time = 50,
		 .step = SINK_STEP_NONE,
		 .count = 9,
		 .nan = 1,
		 .sum = -3.5,
		 .min = -1,
		 .max = 8},
		{.series = 2, .n_bins = 0, .time = 40, .step = 4, .nan = 2, .min = NAN, .max = NAN},
		{.series = 2,
		 .n_bins = 1,
		 .time = 60,
		 .step = 5,
		 .count = 1,
		 .sum = 1,
		 .min = 1,
		 .max = 1},
	};
	struct points_base base = {50, 0};
	struct hists in, out;
	struct buf b;
	struct cur c;
	size_t i, k;

	(void)state;
	hists_init(&in);
	hists_init(&out);
	buf_init(&b, 1000);
	for (i = 0; i < 3; i++)
		assert_int_equal(hists_add(&in, &rows[i], i == 2 ? bins + 1 : bins), 0);
	hists_encode(&b, &in, NULL, 0, 3, &base);
	for (k = 0; k < b.len; k++) { /* cut short anywhere: an error */
		c = (struct cur){.p = (unsigned char *)b.data, .end = (unsigned char *)b.data + k};
		hists_reset(&out);
		assert_non_null(hists_decode(&c, 3, &base, &out));
	}
	c = (struct cur){.p = (unsigned char *)b.data, .end = (unsigned char *)b.data + b.len};
	hists_reset(&out);
	assert_null(hists_decode(&c, 3, &base, &out));
	assert_ptr_equal(c.p, c.end);
	assert_int_equal(out.n, 3);
	for (i = 0; i < 3; i++) {
		assert_int_equal(out.rows[i].time, rows[i].time);
		assert_int_equal(out.rows[i].step, rows[i].step);
		assert_int_equal(out.rows[i].count, rows[i].count);
		assert_int_equal(out.rows[i].nan, rows[i].nan);
		assert_memory_equal(&out.rows[i].sum, &rows[i].sum, 24);
		assert_int_equal(out.rows[i].n_bins, rows[i].n_bins);
	}
	for (i = 0; i < 3; i++) {
		assert_int_equal(out.bins[i].key, bins[i].key);
		assert_int_equal(out.bins[i].count, bins[i].count);
	}
	assert_int_equal(out.bins[out.rows[2].bins].key, 0x3ff0);
	hists_done(&in);
	hists_done(&out);
	buf_done(&b);
}

static int walk_all(const unsigned char *body, size_t len, uint32_t count, struct err *e)
{
	struct blob blob = {.format = BLOB_TAIL, .count = count, .body = body, .len = len};
	struct sink_position pos;
	struct tail_block block;
	struct points p;
	struct hists h;
	struct tail_walk w;
	int r;

	points_init(&p);
	hists_init(&h);
	r = tail_begin(&w, &tail_id, &blob, e);
	while (r == 0 && (r = tail_position(&w, &pos)) > 0)
		r = 0;
	while (r == 0 && (r = tail_block(&w, &block)) > 0)
		r = block.is_hist ? tail_hists(&w, &block, &h) : tail_points(&w, &block, &p);
	points_done(&p);
	hists_done(&h);
	return r;
}

static void test_tail_damage(void **state)
{
	int64_t time[] = {1, 20, 21, 1, 20, 21}, step[] = {1, 2, 9, 1, 2, 9}, thread[6] = {0};
	double value[] = {1, 2, 3, 4, 5, 6};
	struct points p = {6, 6, time, step, thread, value};
	const uint32_t series[] = {1, 2}, lengths[] = {3, 3}, order[] = {0, 1};
	const struct sink_bin bin = {7, 8};
	const struct hists_row row = {.series = 5, .n_bins = 1, .count = 8};
	const struct sink_position pos = {.ring = {1}, .lane = 2, .pos = 300};
	struct hists h;
	struct tail_in in = {.positions = &pos,
			     .n_positions = 1,
			     .points = &p,
			     .series = series,
			     .lengths = lengths,
			     .n_blocks = 2,
			     .hists = &h,
			     .hist_order = order};
	struct err e = {0};
	struct buf b;
	unsigned bit;
	size_t i;

	(void)state;
	hists_init(&h);
	hists_add(&h, &row, &bin);
	hists_add(&h, &row, &bin);
	buf_init(&b, 1000);
	assert_int_equal(tail_encode(&b, &in), 0);
	assert_int_equal(walk_all((unsigned char *)b.data, b.len, 8, NULL), 0);
	assert_int_equal(walk_all((unsigned char *)b.data, b.len, 9, NULL), -EUCLEAN);
	assert_int_equal(walk_all((unsigned char *)b.data, b.len, 7, NULL), -EUCLEAN);
	for (i = 0; i < b.len; i++) {
		unsigned char *copy = xcalloc(i + 1, 1); /* exact, so that tools see overruns */

		memcpy(copy, b.data, i);
		assert_int_equal(walk_all(copy, i, 8, NULL), -EUCLEAN);
		free(copy);
	}
	for (i = 0; i < b.len; i++) {
		for (bit = 0; bit < 8; bit++) {
			b.data[i] = (char)(b.data[i] ^ (1 << bit));
			walk_all((unsigned char *)b.data, b.len, 8, NULL); /* no crash */
			b.data[i] = (char)(b.data[i] ^ (1 << bit));
		}
	}
	buf_putc(&b, 0);
	assert_int_equal(walk_all((unsigned char *)b.data, b.len, 8, &e), -EUCLEAN);
	assert_non_null(strstr(e.text, "table tail, seq 7, byte "));
	hists_done(&h);
	buf_done(&b);
}

/* Bytes that claim far more than they hold. */
static void test_tail_claims(void **state)
{
	static const struct {
		unsigned char body[24];
		size_t len;
		uint32_t count;
	} bad[] = {
		{{0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, 7, 0},       /* positions */
		{{0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, 8, 0},    /* blocks */
		{{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, 9, 0}, /* histograms */
		{{0, 0, 0, 1, 1, 0x80, 0x80, 0x80, 0x01, 0x55, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		 21,
		 0xffffffff}, /* too many points */
		{{0, 0, 0, 1, 1, 0xe8, 0x07, 0x15, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7},
		 21,
		 1000},
		{{0, 0, 0, 1, 1, 1, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		 18,
		 1}, /* same as what? */
		{{0, 0, 0, 1, 0, 1, 0x15, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0},
		 22,
		 1}, /* series 0 */
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(walk_all(bad[i].body, bad[i].len, bad[i].count, NULL), -EUCLEAN);
}

static void test_summary(void **state)
{
	int64_t time[] = {10, 5, 30, 20}, step[] = {SINK_STEP_NONE, 2, 3, 3}, thread[4] = {0};
	double value[] = {3, NAN, -1, 3};
	const struct points_view v = {4, time, step, thread, value};
	struct summary s;

	(void)state;
	summary_points(&s, &v, 6);
	assert_true(s.n == 4 && s.time_min == 5 && s.time_max == 30 && s.step_min == 2 &&
		    s.step_max == 3 && s.nan == 1 && s.observed == 3);
	assert_true(s.sum == 5 && s.min == -1 && s.max == 3 && s.first == 3 && s.last == 3);
	assert_true(s.min_at == 2 && s.max_at == 0 && s.segment_min == 6 && s.segment_max == 6);
}

static void test_summary_join(void **state)
{
	int64_t time[] = {10, 5, 30, 20}, step[] = {SINK_STEP_NONE, 2, 3, 3}, thread[4] = {0};
	double value[] = {3, NAN, -1, 3};
	const struct points_view v = {4, time, step, thread, value};
	const struct points_view one = {1, time, step, thread, value + 1};
	struct summary s, empty, all = {0};

	(void)state;
	summary_points(&s, &v, 6);
	summary_points(&empty, &one, 7);
	assert_true(isnan(empty.min) && isnan(empty.max) && isnan(empty.first) && empty.sum == 0);
	assert_true(empty.min_at == -1 && empty.step_max == SINK_STEP_NONE && empty.nan == 1);
	summary_join(&all, &empty);
	summary_join(&all, &s);
	summary_join(&all, &empty);
	assert_true(all.n == 6 && all.nan == 3 && all.observed == 3 && all.sum == 5);
	assert_true(all.min_at == 3 && all.max_at == 1 && isnan(all.first) && isnan(all.last));
	assert_true(all.segment_min == 6 && all.segment_max == 7 && all.step_min == 2);
}

static void test_summary_pages(void **state)
{
	struct summary in[SUMMARY_PAGE], out[SUMMARY_PAGE];
	struct column_codec c;
	unsigned char *copy;
	struct buf b;
	size_t i, n;

	(void)state;
	column_codec_init(&c);
	buf_init(&b, 1 << 20);
	for (i = 0; i < SUMMARY_PAGE; i++)
		in[i] = (struct summary){.n = i + 1,
					 .nan = i % 3,
					 .observed = i + 1 - i % 3,
					 .sum = (double)i / 7,
					 .min = i % 5 ? -1.5 : NAN,
					 .max = (double)i,
					 .first = storetest_double(0x7ff8000000000000u + i),
					 .last = -0.0,
					 .min_at = i % 5 ? 0 : -1,
					 .max_at = (int64_t)i,
					 .time_min = INT64_MIN + (int64_t)i,
					 .time_max = INT64_MAX - (int64_t)i,
					 .step_min = i % 2 ? SINK_STEP_NONE : -5,
					 .step_max = i % 2 ? SINK_STEP_NONE : INT64_MAX,
					 .segment_min = (uint32_t)i,
					 .segment_max = SEGMENTS_MAX - 1};
	for (n = 1; n <= SUMMARY_PAGE; n += 63) {
		buf_reset(&b);
		assert_int_equal(summary_encode(&c, &b, in, n), 0);
		memset(out, 0xaa, sizeof(out));
		assert_null(summary_decode(&c, (unsigned char *)b.data, b.len, n, out));
		for (i = 0; i < n; i++) {
			assert_memory_equal(&out[i], &in[i], offsetof(struct summary, segment_max));
			assert_int_equal(out[i].segment_max, in[i].segment_max);
		}
		for (i = 0; i < b.len; i++) { /* cut short anywhere: an error */
			copy = xcalloc(i + 1, 1);
			memcpy(copy, b.data, i);
			assert_non_null(summary_decode(&c, copy, i, n, out));
			free(copy);
		}
	}
	in[0].segment_max = SEGMENTS_MAX;
	buf_reset(&b);
	assert_int_equal(summary_encode(&c, &b, in, 1), 0);
	assert_non_null(summary_decode(&c, (unsigned char *)b.data, b.len, 1, out));
	in[0].segment_max = 0;
	in[0].min_at = 1;
	buf_reset(&b);
	assert_int_equal(summary_encode(&c, &b, in, 1), 0);
	assert_non_null(summary_decode(&c, (unsigned char *)b.data, b.len, 1, out));
	column_codec_done(&c);
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crc),
		cmocka_unit_test(test_tail_bytes),
		cmocka_unit_test(test_envelope_bytes),
		cmocka_unit_test(test_envelope_damage),
		cmocka_unit_test(test_awkward_points),
		cmocka_unit_test(test_shared_columns_are_small),
		cmocka_unit_test(test_hists),
		cmocka_unit_test(test_tail_damage),
		cmocka_unit_test(test_tail_claims),
		cmocka_unit_test(test_summary),
		cmocka_unit_test(test_summary_join),
		cmocka_unit_test(test_summary_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
