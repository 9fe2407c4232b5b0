/* SPDX-License-Identifier: Apache-2.0
 *
 * test_querybin.c - the binary form of a query, read by a decoder that was written from
 * docs/http.md alone, of a run whose values are formulas (../export/known_run.h).
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

#include "../export/known_run.h"
#include "base/file.h"
#include "base/mem.h"
#include "server/chart.h"

#define STEPS 1000
#define FIRST_MS (1767323045000.0 + 1000.0) /* t(0) */

static char root[] = "/tmp/lapse-querybin-XXXXXX";

/* ---- the decoder ------------------------------------------------------------------------ */

struct part {
	char *head;
	uint32_t n, n_columns;
	const double *columns;
};

static uint32_t u32(const char *p)
{
	const unsigned char *b = (const unsigned char *)p;

	return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static size_t decode(const struct buf *b, struct part *parts, size_t cap)
{
	const char *p = b->data, *end = b->data + b->len;
	uint32_t n, len, i;

	assert_memory_equal(p, "LPC1", 4);
	n = u32(p + 4);
	assert_true(n <= cap);
	p += 8;
	for (i = 0; i < n; i++) {
		assert_true(end - p >= 8);
		len = u32(p);
		assert_int_equal(u32(p + 4), 0);
		assert_int_equal(len % 8, 0);
		parts[i].head = xstrndup(p + 8, len);
		p += 8 + len;
		parts[i].n = u32(p);
		parts[i].n_columns = u32(p + 4);
		p += 8;
		assert_int_equal((p - b->data) % 8, 0);
		parts[i].columns = (const double *)(const void *)p;
		p += (size_t)parts[i].n * parts[i].n_columns * 8;
		assert_true(p <= end);
	}
	assert_ptr_equal(p, end);
	return n;
}

/* The column of this name, by its place in the head's list. */
static const double *column(const struct part *p, const char *name)
{
	char *quoted = xasprintf("\"%s\"", name);
	const char *at = strstr(p->head, "\"columns\":["), *end, *found;
	size_t k = 0;

	assert_non_null(at);
	end = strchr(at, ']');
	found = strstr(at + strlen("\"columns\":["), quoted);
	if (!found || found > end)
		fail_msg("no column %s in %s", name, p->head);
	for (; at < found; at++)
		k += *at == ',';
	free(quoted);
	return p->columns + k * p->n;
}

/* ---- questions -------------------------------------------------------------------------- */

struct answer {
	struct runview v;
	struct querydata q;
	struct ask ask;
	struct buf out;
	struct part parts[16];
	size_t n;
};

static void open_run(struct answer *a)
{
	char *dir = xasprintf("%s/known", root);
	struct err e = {0};

	memset(a, 0, sizeof(*a));
	if (runview_open_dir(&a->v, dir, &e) < 0)
		fail_msg("%s", e.text);
	free(dir);
	querydata_init(&a->q, &a->v);
	buf_init(&a->out, 64u << 20);
}

static void ask(struct answer *a, const struct ask_text *t, const char *pattern)
{
	struct err e = {0};

	assert_int_equal(ask_parse(t, a->v.run.start_ns, &a->ask, &e), 0);
	a->q.ask.range = a->ask.range;
	a->q.ask.axis = a->ask.axis == ASK_STEP ? STORE_BY_STEP : STORE_BY_TIME;
	if (querydata_choose(&a->q, pattern, &e) < 0)
		fail_msg("%s", e.text);
}

static void read_chart(struct answer *a, bool extra)
{
	const char *const unmatched[] = {"nothing*"};
	struct chart c = {.q = &a->q,
			  .ask = &a->ask,
			  .place = extra,
			  .segment = extra,
			  .unmatched = unmatched,
			  .n_unmatched = 1};
	struct err e = {0};

	if (querydata_ask(&a->q, false, &e) < 0 || chart_prepare(&c, &e) < 0)
		fail_msg("%s", e.text);
	chart_binary(&a->out, &c);
	assert_int_equal(a->out.error, 0);
	chart_done(&c);
	a->n = decode(&a->out, a->parts, 16);
}

static void done(struct answer *a)
{
	size_t i;

	for (i = 0; i < a->n; i++)
		free(a->parts[i].head);
	buf_done(&a->out);
	querydata_done(&a->q);
	runview_close(&a->v);
}

static bool equal(double a, double b)
{
	return a >= b && a <= b;
}

/* ---- tests ------------------------------------------------------------------------------ */

/* Points one by one, by steps: of those that were done twice the second ones. */
static void test_raw_by_step(void **state)
{
	const struct ask_text t = {.axis = "step"};
	struct answer a;
	const double *x, *y;
	unsigned i, k;

	(void)state;
	open_run(&a);
	a.q.ask.points = 4096;
	ask(&a, &t, "loss{rank=0}");
	read_chart(&a, false);
	assert_int_equal(a.n, 2);
	assert_int_equal(a.parts[0].n, 0);
	assert_non_null(strstr(a.parts[0].head, "\"axis\":\"step\""));
	assert_non_null(strstr(a.parts[0].head, "\"unmatched\":[\"nothing*\"]"));
	assert_non_null(strstr(a.parts[1].head, "\"raw\":true"));
	assert_int_equal(a.parts[1].n, 900);
	assert_int_equal(a.parts[1].n_columns, 2);
	x = column(&a.parts[1], "x");
	y = column(&a.parts[1], "y");
	for (i = 0; i < 900; i++) {
		k = i < 500 ? i : i + 100;
		assert_true(equal(x[i], i));
		assert_true(equal(y[i], 1.0 / (1 + k)));
	}
	done(&a);
}

/* Buckets: what a bucket says follows from its count and the time of its last point. */
static void test_buckets_by_time(void **state)
{
	const struct ask_text t = {.attempts = "all"};
	const double *x, *min, *mean, *max, *last, *count, *nan, *time, *step, *segment;
	struct answer a;
	const struct part *p = &a.parts[1];
	double total = 0, sum, first;
	unsigned i, k, j;

	(void)state;
	open_run(&a);
	a.q.ask.points = 64;
	ask(&a, &t, "loss{rank=0}");
	read_chart(&a, true);
	assert_int_equal(p->n_columns, 10);
	assert_in_range(p->n, 32, 64);
	x = column(p, "x");
	min = column(p, "min");
	mean = column(p, "mean");
	max = column(p, "max");
	last = column(p, "last");
	count = column(p, "count");
	nan = column(p, "nan");
	time = column(p, "time");
	step = column(p, "step");
	segment = column(p, "segment");
	for (i = 0; i < p->n; i++) {
		k = (unsigned)lround((time[i] - FIRST_MS) / 10);
		first = k - count[i] + 1;
		assert_true(equal(first, total));
		assert_true(equal(last[i], 1.0 / (1 + k)) && equal(min[i], last[i]));
		assert_true(equal(max[i], 1.0 / (1 + first)));
		assert_true(equal(nan[i], 0));
		assert_true(fabs(x[i] - (FIRST_MS + 5 * (k + first))) < 1e-3);
		if (first < 600 && k >= 600)
			assert_true(equal(step[i], fmax(599, k - 100)));
		else
			assert_true(equal(step[i], k < 600 ? k : k - 100));
		assert_true(equal(segment[i], first < 600 ? 0 : 1));
		for (sum = 0, j = (unsigned)first; j <= k; j++)
			sum += 1.0 / (1 + j);
		assert_true(fabs(mean[i] - sum / count[i]) < 1e-12);
		total += count[i];
	}
	assert_true(equal(total, STEPS));
	done(&a);
}

static void test_relative_range(void **state)
{
	const struct ask_text t = {.axis = "relative", .from = "1100", .to = "1199.999999"};
	struct answer a;
	const double *x, *y;
	unsigned i;

	(void)state;
	open_run(&a);
	a.q.ask.points = 100;
	ask(&a, &t, "loss{rank=1}");
	read_chart(&a, false);
	assert_int_equal(a.parts[1].n, 10);
	x = column(&a.parts[1], "x");
	y = column(&a.parts[1], "y");
	for (i = 0; i < 10; i++) {
		assert_true(equal(x[i], 1100 + 10 * i));
		assert_true(equal(y[i], 2.0 / (11 + i)));
	}
	done(&a);
}

/* Five observations a point: -1, three from 1 to 1.0625, one in [4, 4.25) that is 4. The
 * middle one is the second of three: half way into its bin. */
static void test_percentiles_of_histograms(void **state)
{
	const struct ask_text t = {.attempts = "all"};
	const double *p50, *p95, *p99;
	struct answer a;
	unsigned i;

	(void)state;
	open_run(&a);
	a.q.ask.points = 10;
	ask(&a, &t, "grad");
	read_chart(&a, false);
	assert_non_null(strstr(a.parts[1].head, "\"raw\":false"));
	p50 = column(&a.parts[1], "p50");
	p95 = column(&a.parts[1], "p95");
	p99 = column(&a.parts[1], "p99");
	assert_true(a.parts[1].n >= 5);
	for (i = 0; i < a.parts[1].n; i++) {
		assert_true(p50[i] >= 1 && p50[i] <= 1.0625);
		assert_true(equal(p95[i], 4) && equal(p99[i], 4));
		/* Of histograms the last value is not known. */
		assert_true(isnan(column(&a.parts[1], "last")[i]));
		assert_true(equal(fmod(column(&a.parts[1], "count")[i], 5), 0));
	}
	done(&a);
	open_run(&a);
	a.q.ask.points = 4096;
	ask(&a, &t, "grad");
	read_chart(&a, false);
	assert_int_equal(a.parts[1].n, STEPS / 20);
	assert_int_equal(a.parts[1].n_columns, 5);
	for (i = 0; i < a.parts[1].n; i++)
		assert_true(equal(column(&a.parts[1], "p50")[i], 1.03125));
	done(&a);
}

/* Both ranks in one group; rank 1 has no resumed part but as many points. */
static void test_groups(void **state)
{
	const struct ask_text t = {.axis = "step"};
	const double *x, *min, *max, *series, *min_of, *max_of, *last;
	const struct part *p;
	struct answer a;
	unsigned i, k;

	(void)state;
	open_run(&a);
	a.q.ask.points = 2000;
	ask(&a, &t, "loss");
	querydata_group(&a.q, "");
	read_chart(&a, false);
	p = &a.parts[1];
	assert_int_equal(a.n, 2);
	assert_non_null(strstr(p->head, "\"group\":\"loss\""));
	assert_non_null(strstr(a.parts[0].head, "\"members\":[{"));
	assert_int_equal(p->n, STEPS);
	x = column(p, "x");
	min = column(p, "min");
	max = column(p, "max");
	series = column(p, "series");
	min_of = column(p, "min_of");
	max_of = column(p, "max_of");
	last = column(p, "last");
	for (i = 0; i < p->n; i++) {
		k = i < 500 ? i : i + 100;
		assert_true(equal(x[i], i));
		assert_true(equal(series[i], i < 900 ? 2 : 1));
		assert_true(equal(max[i], 2.0 / (1 + i)));
		assert_true(equal(max_of[i], 1));
		if (i >= 900) {
			assert_true(equal(last[i], 2.0 / (1 + i)));
			continue;
		}
		assert_true(equal(last[i], (1.0 / (1 + k) + 2.0 / (1 + i)) / 2));
		assert_true(equal(min[i], 1.0 / (1 + k)));
		assert_true(equal(min_of[i], 0));
	}
	done(&a);
}

/* A group of each rank: each has the values of its own members only. */
static void test_groups_apart(void **state)
{
	const struct ask_text t = {.axis = "step"};
	const double *zero, *one, *nan;
	struct answer a;
	unsigned i;

	(void)state;
	open_run(&a);
	a.q.ask.points = 2000;
	ask(&a, &t, "loss");
	querydata_group(&a.q, "rank");
	read_chart(&a, false);
	assert_int_equal(a.n, 3);
	assert_int_equal(a.parts[1].n, STEPS - 100);
	assert_int_equal(a.parts[2].n, STEPS);
	zero = column(&a.parts[1], "last");
	one = column(&a.parts[2], "last");
	nan = column(&a.parts[1], "nan");
	for (i = 0; i < STEPS; i++)
		assert_true(equal(one[i], 2.0 / (1 + i)));
	for (i = 0; i < STEPS - 100; i++) {
		assert_true(equal(zero[i], 1.0 / (1 + (i < 500 ? i : i + 100))));
		assert_true(equal(nan[i], 0));
	}
	done(&a);
}

static void test_grid_has_empty_buckets(void **state)
{
	const struct ask_text t = {.attempts = "all"};
	const double *count, *mean;
	struct answer a;
	double total = 0;
	unsigned i, empty = 0;

	(void)state;
	open_run(&a);
	a.q.ask.points = 3000;
	a.q.ask.aligned = a.q.ask.no_raw = true;
	ask(&a, &t, "val");
	read_chart(&a, false);
	assert_null(strstr(a.parts[0].head, "\"grid\":null"));
	count = column(&a.parts[1], "count");
	mean = column(&a.parts[1], "mean");
	for (i = 0; i < a.parts[1].n; i++) {
		total += count[i];
		empty += equal(count[i], 0);
		assert_true(isnan(mean[i]) == equal(count[i], 0));
	}
	assert_true(equal(total, STEPS / 10));
	assert_true(empty > 0);
	done(&a);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(root))
		return -1;
	known_run_make(root, STEPS, 0, STEPS);
	return 0;
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
		cmocka_unit_test(test_raw_by_step),
		cmocka_unit_test(test_buckets_by_time),
		cmocka_unit_test(test_relative_range),
		cmocka_unit_test(test_percentiles_of_histograms),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_groups_apart),
		cmocka_unit_test(test_grid_has_empty_buckets),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
