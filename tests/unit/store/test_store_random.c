/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_random.c - streams as awkward as can be, folded at any moment in any
 * way, closed and opened: what is read is what was pushed, bit for bit and in
 * order, in the segments that the rule says; and a check finds nothing.
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
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "storetest.h"

#define SERIES 24
#define ROUNDS 60

struct random {
	uint64_t state;
};

static uint64_t random_u64(struct random *r)
{
	uint64_t x = r->state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t random_below(struct random *r, uint64_t n)
{
	return random_u64(r) % n;
}

/* What was pushed to a series, with the segment it belongs to. */
struct pushed {
	struct sink_sample v;
	uint64_t observed; /* of a histogram point */
	uint32_t segment;
};

struct stream {
	enum sink_kind kind;
	uint32_t id; /* 0: not defined yet */
	struct pushed *all;
	size_t n, cap, committed;
	struct segment at, at_committed;
	int64_t step;
};

struct world {
	struct random r;
	const char *dir;
	struct store *s;
	struct stream streams[SERIES];
	int64_t clock;
	uint32_t process;
};

/* ---- awkward points ------------------------------------------------------------------- */

static double odd_value(struct random *r, size_t series)
{
	static const uint64_t odd[] = {0x7ff8000000000000, 0x7ff8dead00000001, 0xfff0000000000001,
				       0x7ff0000000000000, 0xfff0000000000000, 0x8000000000000000,
				       0x0000000000000001, 0x800fffffffffffff, 0x7fefffffffffffff};
	uint64_t bits;
	double v;

	switch (series % 6) {
	case 0:
		return (double)(random_below(r, 1000)) * 0.001;
	case 1:
		return (float)random_below(r, 1u << 24) / 3.0f;
	case 2:
		return 7; /* constant */
	case 3:
		bits = random_below(r, 4) ? odd[random_below(r, ARRAY_LEN(odd))] : random_u64(r);
		break;
	case 4:
		return (double)(int64_t)random_u64(r);
	default:
		bits = random_u64(r);
	}
	memcpy(&v, &bits, 8);
	return v;
}

/* Forward, now and then back, the same, far away, or at an end. */
static int64_t odd_time(struct world *w, int64_t round)
{
	switch (random_below(&w->r, 400)) {
	case 0:
		return round - (int64_t)random_below(&w->r, 1u << 30);
	case 1:
		return round + (int64_t)random_below(&w->r, 1u << 30);
	case 2:
		return random_below(&w->r, 50) ? round : INT64_MAX;
	case 3:
		return random_below(&w->r, 50) ? round : INT64_MIN;
	default:
		return round;
	}
}

static int64_t odd_step(struct world *w, struct stream *s)
{
	uint64_t what = random_below(&w->r, 3000);

	if (what < 300)
		return SINK_STEP_NONE;
	if (what == 300)
		s->step -= (int64_t)random_below(&w->r, 5000); /* resumed */
	else if (what > 1000)
		s->step += 1;
	return s->step;
}

static void note(struct stream *s, const struct sink_sample *v, uint64_t observed)
{
	int64_t time = v->time_ns;

	if (s->kind == SINK_SPAN)
		time = segment_span_end(time, v->value);
	segment_next(&s->at, time, v->step);
	s->all = xgrow(s->all, s->n, &s->cap, sizeof(*s->all));
	s->all[s->n++] = (struct pushed){*v, observed, s->at.no};
}

static void push_hist(struct world *w, struct stream *s, int64_t time)
{
	struct sink_bin bins[40];
	struct sink_hist h = {.series = s->id, .time_ns = time, .step = odd_step(w, s)};
	struct sink_sample v = {.time_ns = time, .step = h.step};
	size_t i, n = random_below(&w->r, ARRAY_LEN(bins));

	for (i = 0; i < n; i++)
		bins[i] = (struct sink_bin){(uint16_t)(i * 1000 + random_below(&w->r, 900)),
					    1 + random_below(&w->r, 1000)};
	h.bins = bins;
	h.n_bins = n;
	h.count = 1 + random_below(&w->r, 1u << 20);
	h.nan = random_below(&w->r, 3);
	h.sum = odd_value(&w->r, s->id);
	h.min = odd_value(&w->r, s->id);
	h.max = odd_value(&w->r, s->id);
	v.value = h.sum / (double)h.count;
	assert_int_equal(store_sink(w->s)->ops->hist(store_sink(w->s), &h), 0);
	note(s, &v, h.count + h.nan);
}

static void push(struct world *w, size_t k, int64_t time)
{
	struct stream *s = &w->streams[k];
	struct sink_sample v;

	if (s->kind == SINK_HISTOGRAM) {
		push_hist(w, s, time);
		return;
	}
	v = (struct sink_sample){.time_ns = time,
				 .step = k % 5 == 4 ? SINK_STEP_NONE : odd_step(w, s),
				 .value = odd_value(&w->r, k),
				 .series = s->id,
				 .thread = k % 7 == 6 ? (uint32_t)random_below(&w->r, 3) : 1};
	assert_int_equal(store_sink(w->s)->ops->samples(store_sink(w->s), &v, 1), 0);
	note(s, &v, 0);
}

static void define(struct world *w, size_t k)
{
	char name[16];

	snprintf(name, sizeof(name), "s%zu", k);
	w->streams[k].id = storetest_series(w->s, w->process, name, w->streams[k].kind);
}

/* Some seconds of recording: rounds that all series are in but for a few, and
 * bursts of one series. */
static void record(struct world *w)
{
	size_t i, k, n = 1 + random_below(&w->r, 400);
	int64_t time;

	for (i = 0; i < n; i++) {
		w->clock += 1000 + (int64_t)random_below(&w->r, 50);
		time = odd_time(w, w->clock);
		for (k = 0; k < SERIES; k++) {
			if (!w->streams[k].id && random_below(&w->r, 2000) == 0)
				define(w, k);
			if (w->streams[k].id && random_below(&w->r, 64) >= k % 4)
				push(w, k, k % 8 == 7 ? odd_time(w, w->clock) : time);
		}
	}
	if (random_below(&w->r, 4) == 0) {
		k = random_below(&w->r, SERIES);
		for (i = random_below(&w->r, 30000); w->streams[k].id && i > 0; i--)
			push(w, k, w->clock += (int64_t)random_below(&w->r, 3));
	}
}

static void commit(struct world *w)
{
	size_t k;

	if (random_below(&w->r, 10) == 0) { /* all of it is forgotten */
		store_sink(w->s)->ops->rollback(store_sink(w->s));
		for (k = 0; k < SERIES; k++) {
			w->streams[k].n = w->streams[k].committed;
			w->streams[k].at = w->streams[k].at_committed;
		}
		return;
	}
	storetest_commit(w->s);
	for (k = 0; k < SERIES; k++) {
		w->streams[k].committed = w->streams[k].n;
		w->streams[k].at_committed = w->streams[k].at;
	}
}

/* ---- what is read ----------------------------------------------------------------------- */

static void compare(struct world *w, size_t k)
{
	struct stream *s = &w->streams[k];
	struct storetest_points got;
	size_t i;

	if (!s->id || !s->committed)
		return;
	got = storetest_read_dir(w->dir, s->id);
	assert_int_equal(got.n, s->committed);
	for (i = 0; i < got.n; i++) {
		const struct sink_sample *v = &s->all[i].v;

		if (got.v[i].time_ns != v->time_ns || got.v[i].step != v->step ||
		    got.v[i].segment != s->all[i].segment ||
		    (s->kind != SINK_HISTOGRAM && got.v[i].thread != v->thread) ||
		    memcmp(&got.v[i].value, &v->value, 8) != 0)
			fail_msg("series %zu, point %zu of %zu", k, i, got.n);
	}
	free(got.v);
}

static int count_series(void *arg, const struct store_series *s)
{
	struct world *w = arg;
	size_t k;

	for (k = 0; k < SERIES; k++)
		if (w->streams[k].id == s->id)
			assert_int_equal(s->count, w->streams[k].committed);
	return 0;
}

static void compare_all(struct world *w)
{
	struct store_reader *r = NULL;
	struct err e = {0};
	size_t k;

	storetest_check(w->dir);
	for (k = 0; k < SERIES; k++)
		compare(w, k);
	assert_int_equal(store_reader_open(w->dir, &e, &r), 0);
	assert_int_equal(store_reader_series(r, count_series, w, &e), 0);
	store_reader_close(r);
}

static void fold(struct world *w)
{
	struct err e = {0};
	char *mark;
	int r = 0;

	switch (random_below(&w->r, 12)) {
	case 0:
		storetest_fold(w->s);
		break;
	case 1:
	case 2:
		storetest_merge(w->s);
		break;
	case 3:
	case 4:
	case 5:
		if (w->s->tail_rows) /* as much as comes with one row */
			r = fold_batch(w->s, 1, false, &e);
		break;
	case 6:
		storetest_commit(w->s); /* definitions, if the rest was rolled back */
		storetest_close(w->s);
		w->s = storetest_open(w->dir);
		break;
	case 7:
		storetest_commit(w->s);
		w->s->corrupt = true; /* leave it as a crash would */
		store_close(w->s, NULL);
		mark = storetest_path(w->dir, "h.db.bad");
		unlink(mark);
		free(mark);
		w->s = storetest_open(w->dir);
		break;
	default:
		break;
	}
	if (r < 0)
		fail_msg("fold: %s", e.text);
}

static void run(const char *dir, uint64_t seed)
{
	struct world *w = xcalloc(1, sizeof(*w));
	size_t round, k;

	w->r.state = seed;
	w->dir = dir;
	w->clock = 1700000000000000000;
	w->s = storetest_open(dir);
	w->process = storetest_process(w->s, 1);
	for (k = 0; k < SERIES; k++) {
		w->streams[k].kind = k == 5    ? SINK_SPAN
				     : k == 9  ? SINK_HISTOGRAM
				     : k == 17 ? SINK_HISTOGRAM
				     : k % 3   ? SINK_GAUGE
					       : SINK_COUNTER;
		w->streams[k].at.step = w->streams[k].at_committed.step = SINK_STEP_NONE;
		if (k % 4 != 3)
			define(w, k);
	}
	storetest_commit(w->s);
	for (round = 0; round < ROUNDS; round++) {
		record(w);
		commit(w);
		fold(w);
		if (round % 8 == 7)
			compare_all(w);
	}
	storetest_close(w->s);
	compare_all(w);
	assert_int_equal(storetest_sql(dir, "SELECT count(*) FROM tail"), 0);
	for (k = 0; k < SERIES; k++)
		free(w->streams[k].all);
	free(w);
}

static void test_streams(void **state)
{
	const char *text = getenv("LAPSE_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 10) : 1, n = text ? 1 : 4;
	char *dir;

	for (; n > 0; n--, seed++) {
		print_message("# seed %llu\n", (unsigned long long)seed);
		dir = xasprintf("%s/%llu", (char *)*state, (unsigned long long)seed);
		run(dir, seed);
		free(dir);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_streams, storetest_setup, storetest_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
