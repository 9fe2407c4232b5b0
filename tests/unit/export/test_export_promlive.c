/* SPDX-License-Identifier: Apache-2.0
 *
 * test_export_promlive.c - the last values of several runs in one text: each metric once,
 * types that disagree, long gauges, what is new at the second look, and what OpenMetrics wants
 * otherwise.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "export/promlive.h"
#include "known_run.h"

static char root[] = "/tmp/lapse-promlive-XXXXXX";

/* A run's host with one series of n equal values. */
static void make_host(const char *id, const char *host, const char *name, enum sink_kind kind,
		      size_t n, double value)
{
	char *dir = xasprintf("%s/%s", root, id);
	const struct store_options o = {.dir = dir, .host = host};
	struct run_start run = {.start_ns = KNOWN_START};
	struct sink_process p = {.uid = {1}, .role = "trainer", .program = "p", .rank = 0};
	struct sink_series s = {.name = name,
				.labels = "",
				.unit = "",
				.help = "",
				.kind = kind,
				.source = "record"};
	struct sink_sample v = {.time_ns = KNOWN_START, .step = 1, .value = value};
	struct store *store;
	struct sink *sink;
	struct err e = {0};
	size_t i;

	snprintf(run.id, sizeof(run.id), "%s", id);
	assert_int_equal(store_open(&o, &e, &store), 0);
	assert_int_equal(store_start(store, &run, &e), 0);
	sink = store_sink(store);
	sink->ops->process(sink, &p, &s.process);
	sink->ops->series(sink, &s, &v.series);
	for (i = 0; i < n; i++, v.time_ns++)
		sink->ops->samples(sink, &v, 1);
	assert_int_equal(sink->ops->commit(sink), 0);
	assert_int_equal(store_close(store, &e), 0);
	free(dir);
}

/* A run of one series of one value. */
static void make(const char *id, const char *name, enum sink_kind kind, double value)
{
	make_host(id, "h", name, kind, 1, value);
}

static int look_until(struct promlive *p, const char *id, int64_t deadline_ns)
{
	char *dir = xasprintf("%s/%s", root, id);
	struct store_reader *r = NULL;
	struct store_run run;
	struct err e = {0};
	int more;

	if (store_reader_open(dir, &e, &r) < 0 || store_reader_run(r, &run, &e) < 0)
		fail_msg("%s", e.text);
	more = promlive_read(p, r, &run, deadline_ns, &e);
	if (more < 0)
		fail_msg("%s", e.text);
	store_reader_close(r);
	free(dir);
	return more;
}

static int look(struct promlive *p, const char *id)
{
	return look_until(p, id, INT64_MAX);
}

static struct promlive *read_run(const char *id)
{
	struct promlive *p = promlive_new();

	assert_int_equal(look(p, id), 0);
	return p;
}

static char *text_of(struct promlive **runs, size_t n, bool is_open)
{
	struct buf b;
	char *text;

	buf_init(&b, 16u << 20);
	promlive_write(runs, n, is_open, &b);
	text = xstrdup(buf_str(&b));
	buf_done(&b);
	return text;
}

static unsigned count(const char *text, const char *part)
{
	unsigned n = 0;

	for (text = strstr(text, part); text; text = strstr(text + 1, part))
		n++;
	return n;
}

static void has(const char *text, const char *part, unsigned times)
{
	if (count(text, part) != times)
		fail_msg("%u times, not %u: %s\nin:\n%s", count(text, part), times, part, text);
}

#define RANK0(run, project) "{run=\"" run "\"" project ",host=\"h\",role=\"trainer\",rank=\"0\"}"

/* The known run grows between two looks. */
static void test_what_is_new(void **state)
{
	static const char labels[] = "run=\"known\",project=\"tests\",host=\"node0\","
				     "role=\"trainer\",rank=\"0\"";
	struct promlive *p;
	char *text, *line;

	(void)state;
	known_run_make(root, 1000, 0, 500);
	p = read_run("known");
	text = text_of(&p, 1, false);
	line = xasprintf("\nlapse_tokens_total{%s} %d\n", labels, 128 * 500);
	has(text, line, 1);
	free(line);
	free(text);
	known_run_make(root, 1000, 500, 1000);
	assert_int_equal(look(p, "known"), 0);
	text = text_of(&p, 1, false);
	line = xasprintf("\nlapse_tokens_total{%s} %d\n", labels, 128 * 1000);
	has(text, line, 1);
	free(line);
	line = xasprintf("\nlapse_loss{%s} 0.001\n", labels);
	has(text, line, 1);
	free(line);
	has(text, "\nlapse_scrape_behind{run=\"known\",project=\"tests\"} 0\n", 1);
	/* Two spans of 2 and 3 ms a step. */
	line = xasprintf("\nlapse_span_seconds_bucket{%s,span=\"forward\",le=\"0.0025\"} 1000\n",
			 labels);
	has(text, line, 1);
	free(line);
	free(text);
	promlive_free(p);
}

static void test_each_metric_once(void **state)
{
	struct promlive *runs[3];
	char *text;

	(void)state;
	make("a", "speed", SINK_GAUGE, 1.5);
	make("b", "speed", SINK_GAUGE, 2.5);
	runs[0] = read_run("b");
	runs[1] = read_run("a");
	runs[2] = read_run("known");
	text = text_of(runs, 3, false);
	has(text, "# TYPE lapse_speed gauge\n", 1);
	has(text, "lapse_speed" RANK0("a", "") " 1.5\nlapse_speed" RANK0("b", "") " 2.5\n", 1);
	has(text, "# TYPE lapse_run_info gauge\n", 1);
	has(text, "\nlapse_run_info{", 3);
	has(text, "# TYPE lapse_records_total counter\n", 1);
	has(text, "# EOF", 0);
	free(text);
	promlive_free(runs[0]);
	promlive_free(runs[1]);
	promlive_free(runs[2]);
}

/* A gauge and a span of one name are two metrics; a gauge x and a counter x have two names
 * in one format and one in the other. */
static void test_types_that_disagree(void **state)
{
	struct promlive *runs[2];
	char *text;

	(void)state;
	make("c", "thing", SINK_GAUGE, 1);
	make("d", "thing", SINK_COUNTER, 7);
	runs[0] = read_run("c");
	runs[1] = read_run("d");
	text = text_of(runs, 2, false);
	has(text, "\nlapse_thing{", 1);
	has(text, "\nlapse_thing_total{", 1);
	free(text);
	text = text_of(runs, 2, true);
	has(text, "# TYPE lapse_thing gauge\n", 1);
	has(text, "\nlapse_thing_total{", 0);
	free(text);
	promlive_free(runs[0]);
	promlive_free(runs[1]);
}

/* Gauges of several chunks (of 8,192 points), whose last points alone are read; the second
 * one's name is that of spans, so none of its points is in a metric. */
static void make_long(const char *id, size_t n)
{
	char *dir = xasprintf("%s/%s", root, id);
	const struct store_options o = {.dir = dir, .host = "h"};
	struct run_start run = {.start_ns = KNOWN_START};
	struct sink_process p = {.uid = {1}, .role = "trainer", .program = "p", .rank = 0};
	struct sink_series s = {.labels = "", .unit = "s", .help = "", .source = "record"};
	struct sink_sample span, v[2];
	struct store *store;
	struct sink *sink;
	struct err e = {0};
	size_t i, k;

	snprintf(run.id, sizeof(run.id), "%s", id);
	assert_int_equal(store_open(&o, &e, &store), 0);
	assert_int_equal(store_start(store, &run, &e), 0);
	sink = store_sink(store);
	sink->ops->process(sink, &p, &s.process);
	s.name = "forward";
	s.kind = SINK_SPAN;
	span = (struct sink_sample){.time_ns = KNOWN_START, .step = 0, .value = 2e6};
	sink->ops->series(sink, &s, &span.series);
	sink->ops->samples(sink, &span, 1);
	for (k = 0; k < 2; k++) {
		s.name = k ? "span" : "loss";
		s.unit = k ? "s" : "";
		s.kind = SINK_GAUGE;
		sink->ops->series(sink, &s, &v[k].series);
	}
	for (i = 0; i < n; i++) {
		for (k = 0; k < 2; k++) {
			v[k].time_ns = KNOWN_START + (int64_t)i;
			v[k].step = (int64_t)i;
			v[k].value = (double)i;
		}
		sink->ops->samples(sink, v, 2);
	}
	assert_int_equal(sink->ops->commit(sink), 0);
	assert_int_equal(store_close(store, &e), 0);
	free(dir);
}

static void test_long_gauges(void **state)
{
	struct promlive *p;
	char *text;

	(void)state;
	make_long("long", 20000);
	p = read_run("long");
	text = text_of(&p, 1, false);
	has(text, "\nlapse_loss" RANK0("long", "") " 19999\n", 1);
	has(text, "\nlapse_span_seconds{", 0);
	has(text, "\nlapse_span_seconds_count{", 1);
	has(text, "\nlapse_export_left_out_points{run=\"long\"} 20000\n", 1);
	free(text);
	promlive_free(p);
}

/* The time is over before the second host's turn: its gauge has no value yet. */
static void test_in_parts(void **state)
{
	struct promlive *p = promlive_new();
	char *text;

	(void)state;
	make_host("parts", "a", "tokens", SINK_COUNTER, 300000, 1);
	make_host("parts", "b", "loss", SINK_GAUGE, 20000, 7);
	assert_int_equal(look_until(p, "parts", 0), 1);
	text = text_of(&p, 1, false);
	has(text, "\nlapse_loss{", 0);
	has(text, "\nlapse_tokens_total{", 1);
	free(text);
	assert_int_equal(look(p, "parts"), 0);
	text = text_of(&p, 1, false);
	has(text, "\nlapse_loss{run=\"parts\",host=\"b\",role=\"trainer\",rank=\"0\"} 7\n", 1);
	has(text,
	    "\nlapse_tokens_total{run=\"parts\",host=\"a\",role=\"trainer\",rank=\"0\"} 300000\n",
	    1);
	free(text);
	promlive_free(p);
}

static void test_open_metrics(void **state)
{
	struct promlive *p = read_run("known");
	char *text = text_of(&p, 1, true);
	size_t len = strlen(text);

	(void)state;
	assert_string_equal(text + len - 6, "# EOF\n");
	has(text, "# EOF", 1);
	/* Families are named without the ending of their samples. */
	has(text, "# TYPE lapse_tokens counter\n", 1);
	has(text, "# TYPE lapse_run info\n", 1);
	has(text, "\nlapse_run_info{", 1);
	/* Limits are floats as Go writes them. */
	has(text, "span=\"forward\",le=\"1.0\"} 2000\n", 1);
	has(text, "span=\"forward\",le=\"0.0025\"} 1000\n", 1);
	has(text, ",le=\"1.048576e+06\"} 250\n", 1);
	has(text, ",le=\"-1.048576e+06\"} 0\n", 1);
	has(text, "span=\"forward\",le=\"+Inf\"} 2000\n", 1);
	/* Of a histogram with negative values there is no sum. */
	has(text, "\nlapse_span_seconds_sum{", 1);
	has(text, "\nlapse_grad_sum{", 0);
	has(text, "\nlapse_grad_count{", 0);
	free(text);
	text = text_of(&p, 1, false);
	has(text, "\nlapse_grad_sum{", 1);
	has(text, ",le=\"1048576\"} 250\n", 1);
	free(text);
	promlive_free(p);
}

static int setup(void **state)
{
	(void)state;
	return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
	char *command = xasprintf("rm -rf '%s'", root);
	int r = system(command);

	(void)state;
	free(command);
	return r;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_new),
		cmocka_unit_test(test_each_metric_once),
		cmocka_unit_test(test_types_that_disagree),
		cmocka_unit_test(test_long_gauges),
		cmocka_unit_test(test_in_parts),
		cmocka_unit_test(test_open_metrics),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
