/* SPDX-License-Identifier: Apache-2.0
 *
 * Points of a set: made once, values, reasons, counters, events, facts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "probe/probe.h"
#include "wire/sink.h"

static const struct probe_metric gauge = {"a/gauge", "1", "", "", SINK_GAUGE, 1, "k"};
static const struct probe_metric counter = {"a/counter", "By", "", "", SINK_COUNTER, 1, NULL};

struct taken {
	int values, events, facts;
	double last, sum;
	int64_t boot_ns;
	char labels[64], kinds[4096], fact[128];
};

static void take_value(void *arg, uint32_t point, const struct probe_metric *m, const char *labels,
		       int64_t boot_ns, double value)
{
	struct taken *t = arg;

	(void)point;
	assert_non_null(m);
	t->values++;
	t->last = value;
	t->sum += value;
	t->boot_ns = boot_ns;
	snprintf(t->labels, sizeof(t->labels), "%s", labels);
}

static void take_event(void *arg, int64_t boot_ns, int severity, const char *kind, const char *text,
		       const char *attrs)
{
	struct taken *t = arg;
	size_t n = strlen(t->kinds);

	(void)boot_ns;
	(void)severity;
	(void)attrs;
	t->events++;
	snprintf(t->kinds + n, sizeof(t->kinds) - n, "%s:%s;", kind, text);
}

static void take_fact(void *arg, const char *key, const char *value)
{
	struct taken *t = arg;

	t->facts++;
	snprintf(t->fact, sizeof(t->fact), "%s=%s", key, value);
}

static struct taken take(struct probe_set *s)
{
	struct taken t = {0};
	struct probe_taker taker = {take_value, take_event, take_fact, &t};

	probe_set_take(s, &taker);
	return t;
}

static void begin(struct probe_set *s, int64_t second)
{
	struct probe_now now = {second * 1000000000, second * 1000000000 + 5};

	probe_set_begin(s, &now);
}

static void test_point(void **state)
{
	struct probe_set *s = probe_set_new();
	char labels[PROBE_LABELS_MAX + 1];
	struct probe_view v;
	double value;
	uint32_t a;

	(void)state;
	a = probe_point(s, &gauge, "k=\"1\"");
	assert_int_equal(probe_point(s, &gauge, "k=\"1\""), a);
	assert_int_not_equal(probe_point(s, &gauge, "k=\"2\""), a);
	assert_int_not_equal(probe_point(s, &counter, "k=\"1\""), a);
	memset(labels, 'x', PROBE_LABELS_MAX);
	labels[PROBE_LABELS_MAX] = '\0';
	assert_int_equal(probe_point(s, &gauge, labels), PROBE_NONE);
	assert_int_equal(probe_value(s, "a/gauge", "k=\"1\"", &value), -ENODATA);
	assert_int_equal(probe_value(s, "a/gauge", "k=\"9\"", &value), -ENOENT);
	begin(s, 1);
	probe_put(s, a, 2.5);
	probe_put(s, PROBE_NONE, 1);
	probe_set_end(s);
	assert_int_equal(probe_value(s, "a/gauge", "k=\"1\"", &value), 0);
	assert_true(value == 2.5);
	assert_int_equal(take(s).values, 1);
	assert_int_equal(take(s).values, 0);
	probe_absent(s, a, "gone");
	probe_point_at(s, a, &v);
	assert_false(v.known);
	assert_string_equal(v.why, "gone");
	probe_set_free(s);
}

static void test_full(void **state)
{
	struct probe_set *s = probe_set_new();
	struct taken t;
	char labels[32];
	uint32_t i;

	(void)state;
	for (i = 0; i < PROBE_POINTS_MAX + 10; i++) {
		snprintf(labels, sizeof(labels), "k=\"%u\"", i);
		assert_int_equal(probe_point(s, &gauge, labels),
				 i < PROBE_POINTS_MAX ? i : PROBE_NONE);
	}
	t = take(s);
	assert_int_equal(t.events, 1);
	assert_non_null(strstr(t.kinds, "probe-full"));
	probe_set_free(s);
}

static void test_label(void **state)
{
	char labels[32] = "";

	(void)state;
	assert_int_equal(probe_label(labels, sizeof(labels), "a", "x\"\\\n"), 0);
	assert_string_equal(labels, "a=\"x\\\"\\\\\\n\"");
	assert_int_equal(probe_label(labels, sizeof(labels), "b", "y"), 0);
	assert_string_equal(labels, "a=\"x\\\"\\\\\\n\",b=\"y\"");
	assert_int_equal(probe_label(labels, sizeof(labels), "c", "much too long for it"),
			 -ENAMETOOLONG);
	assert_string_equal(labels, "a=\"x\\\"\\\\\\n\",b=\"y\"");
}

/* What a counter adds: raw readings of one of so many bits. */
static struct taken count(unsigned bits, const uint64_t *raw, size_t n)
{
	struct probe_set *s = probe_set_new();
	uint32_t p = probe_point(s, &counter, "");
	struct taken t;
	size_t i;

	for (i = 0; i < n; i++) {
		begin(s, (int64_t)i);
		probe_count(s, p, raw[i], bits, 2);
		probe_set_end(s);
	}
	t = take(s);
	probe_set_free(s);
	return t;
}

static void test_count(void **state)
{
	static const uint64_t up[] = {1000, 1010, 1010, 1020};
	static const uint64_t wrapped[] = {UINT32_MAX - 9, 10};
	static const uint64_t again[] = {1000, 5, 7};
	static const uint64_t wide[] = {UINT64_C(1) << 40, 3};
	struct taken t;

	(void)state;
	t = count(0, up, 4);
	assert_int_equal(t.values, 3);
	assert_true(t.sum == 40);
	/* 10 up to the top and 10 from it: 20, at 32 bits. */
	t = count(32, wrapped, 2);
	assert_int_equal(t.values, 1);
	assert_true(t.sum == 40);
	assert_int_equal(count(0, wrapped, 2).values, 0);
	/* 1000 to 5 would be nearly the whole range of 32 bits: it began anew. */
	t = count(32, again, 3);
	assert_int_equal(t.values, 1);
	assert_true(t.sum == 4);
	/* A value that does not fit the bits has not wrapped. */
	assert_int_equal(count(32, wide, 2).values, 0);
}

static void test_events(void **state)
{
	struct probe_set *s = probe_set_new();
	struct taken t;
	char text[32];
	int i;

	(void)state;
	for (i = 0; i < PROBE_EVENTS_MAX + 3; i++) {
		snprintf(text, sizeof(text), "%d", i);
		probe_event(s, 2, "e", text, "");
	}
	t = take(s);
	/* The newest are kept, and one says how many are not. */
	assert_int_equal(t.events, PROBE_EVENTS_MAX + 1);
	assert_null(strstr(t.kinds, "e:2;"));
	assert_non_null(strstr(t.kinds, "e:3;"));
	assert_non_null(strstr(t.kinds, "probe-lost:0 figures and 3 events"));
	assert_int_equal(take(s).events, 0);
	probe_set_free(s);
}

static void test_facts(void **state)
{
	struct probe_set *s = probe_set_new();
	struct taken t;

	(void)state;
	probe_fact(s, "gpu/0/name", "H100");
	probe_fact(s, "gpu/0/name", "H100");
	t = take(s);
	assert_int_equal(t.facts, 1);
	assert_string_equal(t.fact, "gpu/0/name=H100");
	probe_fact(s, "gpu/0/name", "H100");
	assert_int_equal(take(s).facts, 0);
	probe_fact(s, "gpu/0/name", "H200");
	assert_int_equal(take(s).facts, 1);
	probe_set_free(s);
}

static void test_nobody_takes(void **state)
{
	struct probe_set *s = probe_set_new();
	uint32_t p = probe_point(s, &gauge, "");
	struct taken t;
	int i;

	(void)state;
	for (i = 0; i < 4 * PROBE_POINTS_MAX + 5; i++) {
		begin(s, i);
		probe_put(s, p, i);
		probe_set_end(s);
	}
	t = take(s);
	assert_int_equal(t.values, 4 * PROBE_POINTS_MAX);
	assert_non_null(strstr(t.kinds, "probe-lost:5 figures"));
	probe_set_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_point),        cmocka_unit_test(test_full),
		cmocka_unit_test(test_label),        cmocka_unit_test(test_count),
		cmocka_unit_test(test_events),       cmocka_unit_test(test_facts),
		cmocka_unit_test(test_nobody_takes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
