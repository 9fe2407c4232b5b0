/* SPDX-License-Identifier: Apache-2.0
 *
 * test_exposition.c - Prometheus text 0.0.4 and OpenMetrics 1.0 as their
 * specifications write them, and what is wrong in each way.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "probe/scrape/exposition.h"

#define SEEN_MAX 64

struct seen {
	char series[256], help[256], unit[32];
	enum exposition_type type;
	enum exposition_role role;
	double value;
};

static struct seen seen[SEEN_MAX];
static size_t n_seen;

static void copy(char *to, size_t cap, struct exposition_str s)
{
	snprintf(to, cap, "%.*s", (int)s.len, s.p);
}

static void take(void *arg, const struct exposition_sample *s)
{
	struct seen *x = &seen[n_seen++];

	(void)arg;
	assert_true(n_seen < SEEN_MAX);
	copy(x->series, sizeof(x->series), s->series);
	copy(x->help, sizeof(x->help), s->help);
	copy(x->unit, sizeof(x->unit), s->unit);
	x->type = s->type;
	x->role = s->role;
	x->value = s->value;
}

static struct exposition_summary read_text(const char *text, bool openmetrics)
{
	struct exposition_summary out;

	n_seen = 0;
	exposition_read(text, strlen(text), openmetrics, take, NULL, &out);
	assert_int_equal(out.samples, n_seen);
	return out;
}

static void is(size_t i, const char *series, enum exposition_type type, enum exposition_role role,
	       double value)
{
	assert_true(i < n_seen);
	assert_string_equal(seen[i].series, series);
	assert_int_equal(seen[i].type, type);
	assert_int_equal(seen[i].role, role);
	if (isnan(value))
		assert_true(isnan(seen[i].value));
	else
		assert_true(seen[i].value == value); /* to the last bit */
}

/* The example of the format's description. */
static void test_classic(void **state)
{
	struct exposition_summary out = read_text(
		"# HELP http_requests_total The total number of HTTP requests.\n"
		"# TYPE http_requests_total counter\n"
		"http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000\n"
		"http_requests_total{method=\"post\",code=\"400\"}    3 1395066363000\n"
		"\n"
		"# Escaping in label values:\n"
		"msdos_file_access_time_seconds{path=\"C:\\\\DIR\\\\FILE.TXT\",error=\"Cannot "
		"find file:\\n\\\"FILE.TXT\\\"\"} 1.458255915e9\n"
		"\n"
		"# Minimalistic line:\n"
		"metric_without_timestamp_and_labels 12.47\n"
		"\n"
		"# A weird metric from before the epoch:\n"
		"something_weird{problem=\"division by zero\"} +Inf -3982045\n"
		"\n"
		"# A histogram, which has a pretty complex representation in the text format:\n"
		"# HELP http_request_duration_seconds A histogram of the request duration.\n"
		"# TYPE http_request_duration_seconds histogram\n"
		"http_request_duration_seconds_bucket{le=\"0.05\"} 24054\n"
		"http_request_duration_seconds_bucket{le=\"+Inf\"} 144320\n"
		"http_request_duration_seconds_sum 53423\n"
		"http_request_duration_seconds_count 144320\n"
		"\n"
		"# Finally a summary, which has a complex representation, too:\n"
		"# HELP rpc_duration_seconds A summary of the RPC duration in seconds.\n"
		"# TYPE rpc_duration_seconds summary\n"
		"rpc_duration_seconds{quantile=\"0.01\"} 3102\n"
		"rpc_duration_seconds_sum 1.7560473e+07\n"
		"rpc_duration_seconds_count 2693\n",
		false);

	(void)state;
	assert_int_equal(out.wrong, 0);
	assert_int_equal(n_seen, 12);
	is(0, "http_requests_total{method=\"post\",code=\"200\"}", EXPOSITION_COUNTER,
	   EXPOSITION_VALUE, 1027);
	assert_string_equal(seen[0].help, "The total number of HTTP requests.");
	is(1, "http_requests_total{method=\"post\",code=\"400\"}", EXPOSITION_COUNTER,
	   EXPOSITION_VALUE, 3);
	assert_int_equal(seen[2].type, EXPOSITION_UNTYPED);
	assert_true(seen[2].value == 1458255915);
	is(3, "metric_without_timestamp_and_labels", EXPOSITION_UNTYPED, EXPOSITION_VALUE, 12.47);
	is(4, "something_weird{problem=\"division by zero\"}", EXPOSITION_UNTYPED, EXPOSITION_VALUE,
	   (double)INFINITY);
	is(5, "http_request_duration_seconds_bucket{le=\"0.05\"}", EXPOSITION_HISTOGRAM,
	   EXPOSITION_BUCKET, 24054);
	is(7, "http_request_duration_seconds_sum", EXPOSITION_HISTOGRAM, EXPOSITION_SUM, 53423);
	is(8, "http_request_duration_seconds_count", EXPOSITION_HISTOGRAM, EXPOSITION_COUNT,
	   144320);
	is(9, "rpc_duration_seconds{quantile=\"0.01\"}", EXPOSITION_SUMMARY, EXPOSITION_QUANTILE,
	   3102);
	is(10, "rpc_duration_seconds_sum", EXPOSITION_SUMMARY, EXPOSITION_SUM, 17560473);
	is(11, "rpc_duration_seconds_count", EXPOSITION_SUMMARY, EXPOSITION_COUNT, 2693);
}

static void test_openmetrics(void **state)
{
	struct exposition_summary out = read_text(
		"# TYPE acme_http_router_request_seconds summary\n"
		"# UNIT acme_http_router_request_seconds seconds\n"
		"# HELP acme_http_router_request_seconds Latency though all of ACME's HTTP "
		"request router.\n"
		"acme_http_router_request_seconds_sum{path=\"/api/v1\",method=\"GET\"} 9036.32\n"
		"acme_http_router_request_seconds_count{path=\"/api/v1\",method=\"GET\"} 807283.0\n"
		"acme_http_router_request_seconds_created{path=\"/api/v1\",method=\"GET\"} "
		"1605281325.0\n"
		"# TYPE foo counter\n"
		"foo_total{a=\"b\"} 17.0 1520879607.789 # {trace_id=\"KOO5S4vxi0o\"} 0.67\n"
		"foo_created 1520872607.123\n"
		"# TYPE bar gaugehistogram\n"
		"bar_bucket{le=\"1.0\"} 3 # {} 1\n"
		"bar_gcount 4\n"
		"bar_gsum 2\n"
		"# TYPE build info\n"
		"build_info{version=\"1\"} 1\n"
		"# TYPE state stateset\n"
		"state{state=\"on\"} 1\n"
		"# EOF\n",
		true);

	(void)state;
	assert_int_equal(out.wrong, 0);
	assert_int_equal(n_seen, 10);
	assert_string_equal(seen[0].unit, "seconds");
	is(2, "acme_http_router_request_seconds_created{path=\"/api/v1\",method=\"GET\"}",
	   EXPOSITION_SUMMARY, EXPOSITION_CREATED, 1605281325);
	is(3, "foo_total{a=\"b\"}", EXPOSITION_COUNTER, EXPOSITION_VALUE, 17);
	is(4, "foo_created", EXPOSITION_COUNTER, EXPOSITION_CREATED, 1520872607.123);
	is(5, "bar_bucket{le=\"1.0\"}", EXPOSITION_GAUGE_HISTOGRAM, EXPOSITION_BUCKET, 3);
	is(6, "bar_gcount", EXPOSITION_GAUGE_HISTOGRAM, EXPOSITION_COUNT, 4);
	is(7, "bar_gsum", EXPOSITION_GAUGE_HISTOGRAM, EXPOSITION_SUM, 2);
	is(8, "build_info{version=\"1\"}", EXPOSITION_INFO, EXPOSITION_VALUE, 1);
	is(9, "state{state=\"on\"}", EXPOSITION_STATE_SET, EXPOSITION_VALUE, 1);
}

static void test_numbers(void **state)
{
	static const struct {
		const char *text;
		double value;
	} good[] = {
		{"0", 0},
		{"-0.5", -0.5},
		{"1e-8", 1e-8},
		{"123456789012345", 123456789012345.0},
		{"12345678901234567890", 12345678901234567890.0},
		{"1.7976931348623157e308", 1.7976931348623157e308},
		{"NaN", (double)NAN},
		{"nan", (double)NAN},
		{"+Inf", (double)INFINITY},
		{"-Inf", (double)-INFINITY},
		{"Inf", (double)INFINITY},
		{".5", 0.5},
	};
	static const char *const bad[] = {"",    "x",      "0x10", "1_000", "1,5",  "1e",
					  "--1", "nan(3)", "NaN1", "+NaN",  "1.2.3"};
	char line[128];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(line, sizeof(line), "m %s\n", good[i].text);
		assert_int_equal(read_text(line, false).wrong, 0);
		is(0, "m", EXPOSITION_UNTYPED, EXPOSITION_VALUE, good[i].value);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(line, sizeof(line), "m %s\n", bad[i]);
		assert_int_equal(read_text(line, false).wrong, 1);
		assert_int_equal(n_seen, 0);
	}
}

/* Each is one wrong line between two good ones. */
static void test_wrong_lines(void **state)
{
	static const struct {
		const char *line, *why;
	} wrong[] = {
		{"1m 2", "line 2: no metric's name"},
		{"a-b 2", "line 2: a character that no metric's name has"},
		{"a{ 2", "line 2: a label that is not name=\"value\""},
		{"a{b} 2", "line 2: a label that is not name=\"value\""},
		{"a{b=\"c} 2", "line 2: a label that is not name=\"value\""},
		{"a{b=\"c\\\"} 2", "line 2: a label that is not name=\"value\""},
		{"a{b:c=\"d\"} 2", "line 2: a label that is not name=\"value\""},
		{"a{b=\"c\" d=\"e\"} 2", "line 2: neither , nor } behind a label"},
		{"a{b=\"c\",", "line 2: labels that do not end"},
		{"a", "line 2: no number behind the name"},
		{"a{b=\"c\"} 1 2 3", "line 2: something behind the number"},
		{"a 1 x", "line 2: something behind the number"},
		{"a 1 # {t=\"1\"} 2", "line 2: something behind the number"},
		{"# TYPE a b", "line 2: # TYPE names no type"},
		{"# TYPE 1 counter", "line 2: no metric's name behind HELP, TYPE or UNIT"},
		{"<html>", "line 2: no metric's name"},
	};
	struct exposition_summary out;
	char text[256];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(text, sizeof(text), "x 1\n%s\ny 2\n", wrong[i].line);
		out = read_text(text, false);
		assert_int_equal(out.wrong, 1);
		assert_string_equal(out.why, wrong[i].why);
		assert_int_equal(n_seen, 2);
	}
}

/* A number that was cut in its middle is another number. */
static void test_cut_short(void **state)
{
	struct exposition_summary out;

	(void)state;
	out = read_text("a 1\nb 1234", false);
	assert_int_equal(n_seen, 1);
	assert_string_equal(out.why, "line 2: it ends within a line: cut short");
	out = read_text("a 1\nb 2\n", true);
	assert_int_equal(n_seen, 2);
	assert_string_equal(out.why, "line 3: no \"# EOF\" at the end: cut short");
	assert_int_equal(read_text("a 1\n# EOF", true).wrong, 0);
	assert_int_equal(read_text("", false).wrong, 0);
	/* What follows the end is not read. */
	out = read_text("a 1\n# EOF\nb 2\n", true);
	assert_int_equal(n_seen, 1);
}

static void test_blanks(void **state)
{
	struct exposition_summary out;

	(void)state;
	out = read_text("  a  { b = \"c\" , d=\"e\" , }  3  17  \r\n\t\r\n#\n# HELP a\n"
			"#TYPE a gauge\na{}\t4\n",
			false);
	assert_int_equal(out.wrong, 0);
	assert_int_equal(n_seen, 2);
	assert_true(seen[0].value == 3 && seen[1].value == 4);
	assert_int_equal(seen[1].type, EXPOSITION_GAUGE);
}

/* A TYPE holds for its own metric only. */
static void test_families(void **state)
{
	(void)state;
	assert_int_equal(read_text("# TYPE a counter\na 1\nab 2\nb 3\n# HELP b x\nb 4\na 5\n"
				   "# TYPE c gauge\nc_sum 1\n",
				   false)
				 .wrong,
			 0);
	is(0, "a", EXPOSITION_COUNTER, EXPOSITION_VALUE, 1);
	is(1, "ab", EXPOSITION_UNTYPED, EXPOSITION_VALUE, 2);
	is(2, "b", EXPOSITION_UNTYPED, EXPOSITION_VALUE, 3);
	is(3, "b", EXPOSITION_UNTYPED, EXPOSITION_VALUE, 4);
	assert_string_equal(seen[3].help, "x");
	is(4, "a", EXPOSITION_UNTYPED, EXPOSITION_VALUE, 5);
	is(5, "c_sum", EXPOSITION_UNTYPED, EXPOSITION_VALUE, 1);
}

static void test_labels(void **state)
{
	static const char text[] = "a=\"1\\\\2\\\"3\\n4\\t\", b=\"\" ,c=\"}{,\"";
	struct exposition_str rest = {text, sizeof(text) - 1}, key, value;
	char out[32];

	(void)state;
	assert_true(exposition_label(&rest, &key, &value));
	assert_int_equal(exposition_unescape(value, out, sizeof(out)), 9);
	assert_string_equal(out, "1\\2\"3\n4\\t");
	assert_int_equal(exposition_unescape(value, out, 4), 9);
	assert_string_equal(out, "1\\2");
	assert_true(exposition_label(&rest, &key, &value));
	assert_int_equal(key.p[0], 'b');
	assert_int_equal(value.len, 0);
	assert_true(exposition_label(&rest, &key, &value));
	assert_int_equal(value.len, 3);
	assert_false(exposition_label(&rest, &key, &value));
}

static void test_many_labels(void **state)
{
	char text[2048] = "a{";
	size_t i;

	(void)state;
	for (i = 0; i < EXPOSITION_LABELS_MAX; i++)
		sprintf(text + strlen(text), "l%zu=\"v\",", i);
	strcpy(text + strlen(text), "} 1\n");
	assert_int_equal(read_text(text, false).wrong, 0);
	strcpy(text + strlen(text) - 4, "m=\"v\"} 1\n");
	assert_int_equal(read_text(text, false).wrong, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_classic),     cmocka_unit_test(test_openmetrics),
		cmocka_unit_test(test_numbers),     cmocka_unit_test(test_wrong_lines),
		cmocka_unit_test(test_cut_short),   cmocka_unit_test(test_blanks),
		cmocka_unit_test(test_families),    cmocka_unit_test(test_labels),
		cmocka_unit_test(test_many_labels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
