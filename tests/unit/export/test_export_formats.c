/* SPDX-License-Identifier: Apache-2.0
 *
 * test_export_formats.c - bytes and lines: protobuf, TFRecord, events,
 * histograms, Prometheus' names and buckets, against vectors worked out by hand.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "export/prometheus_priv.h"
#include "export/protobuf.h"
#include "export/tensorboard_priv.h"
#include "export/tfrecord.h"

#define CHECK_BYTES(b, ...)                                                                        \
	do {                                                                                       \
		static const unsigned char wanted[] = {__VA_ARGS__};                               \
		assert_int_equal((b)->len, sizeof(wanted));                                        \
		assert_memory_equal((b)->data, wanted, sizeof(wanted));                            \
	} while (0)

/* 150 is 96 01 and "testing" 07 74 65...: the examples of protobuf's own page. */
static void test_protobuf(void **state)
{
	struct buf b;
	size_t outer;

	(void)state;
	buf_init(&b, 1 << 20);
	protobuf_int(&b, 1, 150);
	CHECK_BYTES(&b, 0x08, 0x96, 0x01);
	buf_reset(&b);
	protobuf_str(&b, 2, "testing");
	CHECK_BYTES(&b, 0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67);
	buf_reset(&b);
	outer = protobuf_begin(&b, 3);
	protobuf_int(&b, 1, 150);
	protobuf_end(&b, outer);
	CHECK_BYTES(&b, 0x1a, 0x03, 0x08, 0x96, 0x01);
	buf_reset(&b);
	protobuf_float(&b, 2, 1.5f);
	protobuf_double(&b, 1, 1.0);
	CHECK_BYTES(&b, 0x15, 0, 0, 0xc0, 0x3f, 0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f);
	buf_reset(&b);
	protobuf_int(&b, 2, -1);
	CHECK_BYTES(&b, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
	buf_done(&b);
}

/* A message of 200 bytes: its length takes two bytes, c8 01, and moves it. */
static void test_protobuf_long(void **state)
{
	char text[198];
	struct buf b;
	size_t outer;

	(void)state;
	memset(text, 'x', sizeof(text));
	buf_init(&b, 1 << 20);
	outer = protobuf_begin(&b, 1);
	buf_append(&b, text, sizeof(text));
	buf_append(&b, "yz", 2);
	protobuf_end(&b, outer);
	assert_int_equal(b.len, 203);
	assert_memory_equal(b.data, "\x0a\xc8\x01xxx", 6);
	assert_memory_equal(b.data + 200, "xyz", 3);
	buf_done(&b);
}

/* CRC-32C of "123456789" is e3069283: rotated by 15, plus a282ead8, c78ab0e5. And
 * a vector made with TensorFlow's own writer. */
static void test_tfrecord(void **state)
{
	struct buf b;

	(void)state;
	assert_int_equal(tfrecord_crc("123456789", 9), 0xc78ab0e5);
	assert_int_equal(tfrecord_crc("\x1a\x11"
				      "CRC test, one two",
				      19),
			 0x5794d08a);
	buf_init(&b, 1 << 20);
	tfrecord_append(&b, "abc", 3);
	assert_int_equal(b.len, 3 + TFRECORD_OVERHEAD);
	assert_memory_equal(b.data, "\3\0\0\0\0\0\0\0", 8);
	assert_memory_equal(b.data + 12, "abc", 3);
	buf_done(&b);
}

/* wall_time 2.5, step 3, summary { value { tag "a" simple_value 1.5 } }. */
static void test_event_scalar(void **state)
{
	struct tbevent_value v = {.tag = "a", .kind = TBEVENT_SCALAR, .scalar = 1.5};
	struct buf out, scratch;

	(void)state;
	buf_init(&out, 1 << 20);
	buf_init(&scratch, 1 << 20);
	tbevent_append(&out, &scratch, 2500000000, 3, &v, 1);
	CHECK_BYTES(&scratch, 0x09, 0, 0, 0, 0, 0, 0, 0x04, 0x40, 0x10, 0x03, 0x2a, 0x0a, 0x0a,
		    0x08, 0x0a, 0x01, 'a', 0x15, 0, 0, 0xc0, 0x3f);
	/* With metadata: plugin "scalars", class 1. */
	v.first = true;
	tbevent_append(&out, &scratch, 2500000000, 3, &v, 1);
	assert_non_null(
		memmem(scratch.data, scratch.len, "\x4a\x0d\x0a\x09\x0a\x07scalars\x20\x01", 15));
	buf_done(&out);
	buf_done(&scratch);
}

/* Bins -1.0625..-1, 1..1.0625 and 4..4.25: buckets end at -1, 1 (empty), 1.0625,
 * 4 (empty), 4.25. Squares: 1 (in [-1, 4]) + 3 * 1.03125^2 + 4 * 4: 20.19... */
static void test_histogram(void **state)
{
	static const struct sink_bin bins[] = {{0x3ff0, 3}, {0x4010, 1}, {0xbff0, 1}};
	static const double limits[] = {-1, 1, 1.0625, 4, 4.25}, counts[] = {1, 0, 3, 0, 1};
	struct sink_hist p = {
		.count = 5, .sum = 6.5, .min = -1, .max = 4, .bins = bins, .n_bins = 3};
	struct tbhist h = {0};
	struct buf b, wanted;

	(void)state;
	buf_init(&b, 1 << 20);
	buf_init(&wanted, 1 << 20);
	tbhist_reset(&h);
	tbhist_add(&h, &p);
	tbhist_proto(&h, &b);
	protobuf_double(&wanted, 1, -1);
	protobuf_double(&wanted, 2, 4);
	protobuf_double(&wanted, 3, 5);
	protobuf_double(&wanted, 4, 6.5);
	protobuf_double(&wanted, 5, 1 + 16 + 3 * 1.03125 * 1.03125);
	protobuf_doubles(&wanted, 6, limits, 5);
	protobuf_doubles(&wanted, 7, counts, 5);
	assert_int_equal(b.len, wanted.len);
	assert_memory_equal(b.data, wanted.data, b.len);
	/* Twice the same: twice the counts. */
	tbhist_add(&h, &p);
	assert_int_equal(h.n, 3);
	assert_int_equal(h.bins[1].count, 6);
	tbhist_done(&h);
	buf_done(&b);
	buf_done(&wanted);
}

static void check_name(const char *series, const char *unit, enum sink_kind kind,
		       const char *wanted, double wanted_scale)
{
	struct store_series s = {.name = series, .unit = unit, .kind = kind};
	double scale = 0;
	char *name = prometheus_name(&s, &scale);

	assert_string_equal(name, wanted);
	assert_float_equal(scale, wanted_scale, 0);
	free(name);
}

static void test_prometheus_names(void **state)
{
	(void)state;
	check_name("cpu/busy", "1", SINK_GAUGE, "lapse_cpu_busy", 1);
	check_name("memory/used", "By", SINK_GAUGE, "lapse_memory_used_bytes", 1);
	check_name("data time", "ms", SINK_GAUGE, "lapse_data_time_seconds", 1e-3);
	check_name("tokens", "1", SINK_COUNTER, "lapse_tokens_total", 1);
	check_name("gpu/energy", "mJ", SINK_COUNTER, "lapse_gpu_energy_joules_total", 1e-3);
	check_name("cpu/count", "1", SINK_GAUGE, "lapse_cpu_count_value", 1);
	check_name("lapse/step/samples", "1", SINK_COUNTER, "lapse_step_samples_total", 1);
	check_name("latency", "ms", SINK_HISTOGRAM, "lapse_latency", 1);
	check_name("latency", "s", SINK_HISTOGRAM, "lapse_latency_seconds", 1);
	check_name("wait_seconds", "s", SINK_GAUGE, "lapse_wait_seconds", 1);
	check_name("\xc3\xa4", "", SINK_GAUGE, "lapse___", 1);
}

static void test_prometheus_text(void **state)
{
	struct prometheus_entry e = {.name = (char *)"m",
				     .labels = (char *)"k=\"v\"",
				     .help = (char *)"a\\b\nc",
				     .kind = PROMETHEUS_GAUGE,
				     .value = -INFINITY};
	struct buf b;

	(void)state;
	buf_init(&b, 1 << 20);
	prometheus_lines(&b, &e, true);
	assert_string_equal(buf_str(&b), "# HELP m a\\\\b\\nc\n# TYPE m gauge\nm{k=\"v\"} -Inf\n");
	buf_reset(&b);
	prometheus_label(&b, "a\"b\\c\nd\xff");
	assert_string_equal(buf_str(&b), "a\\\"b\\\\c\\nd\xef\xbf\xbd");
	buf_done(&b);
}

/* 1 ms is at most 1 ms; 1.1 ms is in the bucket up to 2.5 ms; 2000 s in none. */
static void test_prometheus_durations(void **state)
{
	struct prometheus_entry e = {.name = (char *)"s",
				     .labels = (char *)"k=\"v\"",
				     .help = (char *)"h",
				     .kind = PROMETHEUS_SPAN};
	struct buf b;

	(void)state;
	buf_init(&b, 1 << 20);
	prometheus_observe(&e, 1e-3);
	prometheus_observe(&e, 1.1e-3);
	prometheus_observe(&e, 2000);
	prometheus_observe(&e, NAN);
	prometheus_lines(&b, &e, false);
	assert_non_null(strstr(buf_str(&b), "s_bucket{k=\"v\",le=\"0.0005\"} 0\n"));
	assert_non_null(strstr(buf_str(&b), "s_bucket{k=\"v\",le=\"0.001\"} 1\n"));
	assert_non_null(strstr(buf_str(&b), "s_bucket{k=\"v\",le=\"0.0025\"} 2\n"));
	assert_non_null(strstr(buf_str(&b), "s_bucket{k=\"v\",le=\"1000\"} 2\n"));
	assert_non_null(strstr(buf_str(&b), "s_bucket{k=\"v\",le=\"+Inf\"} 3\n"));
	assert_non_null(strstr(buf_str(&b), "s_count{k=\"v\"} 3\n"));
	free(e.below);
	buf_done(&b);
}

/* Bins: -1 (at most -1), 0 (at most 0), 1..1.0625 (at most 4). */
static void test_prometheus_histogram(void **state)
{
	static const struct sink_bin bins[] = {{0, 2}, {0x3ff0, 3}, {0xbff0, 1}};
	struct sink_hist h = {.count = 6, .sum = 2, .min = -1, .max = 1, .bins = bins, .n_bins = 3};
	struct prometheus_entry e = {.name = (char *)"g",
				     .labels = (char *)"k=\"v\"",
				     .help = (char *)"h",
				     .kind = PROMETHEUS_HIST};
	struct buf b;

	(void)state;
	buf_init(&b, 1 << 20);
	prometheus_observe_hist(&e, &h);
	prometheus_lines(&b, &e, false);
	assert_non_null(strstr(buf_str(&b), "g_bucket{k=\"v\",le=\"-4\"} 0\n"));
	assert_non_null(strstr(buf_str(&b), "g_bucket{k=\"v\",le=\"-1\"} 1\n"));
	assert_non_null(strstr(buf_str(&b), "g_bucket{k=\"v\",le=\"0\"} 3\n"));
	assert_non_null(strstr(buf_str(&b), "g_bucket{k=\"v\",le=\"1\"} 3\n"));
	assert_non_null(strstr(buf_str(&b), "g_bucket{k=\"v\",le=\"4\"} 6\n"));
	assert_non_null(strstr(buf_str(&b), "g_sum{k=\"v\"} 2\n"));
	free(e.below);
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_protobuf),
		cmocka_unit_test(test_protobuf_long),
		cmocka_unit_test(test_tfrecord),
		cmocka_unit_test(test_event_scalar),
		cmocka_unit_test(test_histogram),
		cmocka_unit_test(test_prometheus_names),
		cmocka_unit_test(test_prometheus_text),
		cmocka_unit_test(test_prometheus_durations),
		cmocka_unit_test(test_prometheus_histogram),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
