/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_newer.c - what is newer than a cursor, in worlds that change at random: every
 * point, event and definition exactly once, whatever is committed, folded, dropped or killed.
 */
#include "storetest.h"

#include "base/mem.h"
#include "store/read_priv.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SERIES 12u

static uint64_t rng_state;

static uint32_t rng(uint32_t n)
{
	return (uint32_t)storetest_random(&rng_state, n);
}

/* What a reader was told so far, and what it will have been told if the call goes well. */
struct told {
	struct storetest_points points[SERIES + 1];
	uint64_t lost[SERIES + 1], older[SERIES + 1], end[SERIES + 1]; /* end: of the next point */
	size_t since[SERIES + 1]; /* where points begin of which none is left out */
	unsigned n_series, n_events, n_attrs, n_processes;
	char last_attr[16];
	int fail_after; /* calls until a function fails; -1: never */
};

static int told_fail(struct told *t)
{
	return t->fail_after >= 0 && t->fail_after-- == 0 ? 77 : 0;
}

static int told_process(void *arg, const struct store_process *p)
{
	struct told *t = arg;

	assert_string_equal(p->role, "trainer");
	t->n_processes++;
	return told_fail(t);
}

static int told_series(void *arg, const struct store_series *s)
{
	struct told *t = arg;

	assert_int_equal(s->id, ++t->n_series);
	return told_fail(t);
}

static int told_point(void *arg, const struct store_series *s, const struct store_point *p)
{
	struct told *t = arg;
	struct storetest_points *to;
	char name[16];

	assert_true(s->id >= 1 && s->id <= t->n_series);
	snprintf(name, sizeof(name), "s%u", s->id);
	assert_string_equal(s->name, name);
	assert_int_equal(s->rank, 1);
	assert_true((s->kind == SINK_HISTOGRAM) == (p->hist != NULL));
	to = &t->points[s->id];
	to->v = xgrow(to->v, to->n, &to->cap, sizeof(*to->v));
	to->v[to->n] = *p;
	to->v[to->n++].hist = NULL;
	assert_true(s->count <= t->end[s->id]);
	t->end[s->id]++;
	return told_fail(t);
}

static int told_lost(void *arg, const struct store_series *s, uint64_t n)
{
	struct told *t = arg;

	t->lost[s->id] += n;
	t->end[s->id] += n;
	return 0;
}

static int told_older(void *arg, const struct store_series *s, uint64_t n)
{
	struct told *t = arg;

	assert_int_equal(s->kind, SINK_GAUGE);
	t->older[s->id] += n;
	t->since[s->id] = t->points[s->id].n;
	t->end[s->id] += n;
	return told_fail(t);
}

static int told_event(void *arg, const struct store_event *e)
{
	struct told *t = arg;

	assert_int_equal(e->time_ns, ++t->n_events);
	return told_fail(t);
}

static int told_attr(void *arg, unsigned host, uint32_t process, const char *key, const char *value)
{
	struct told *t = arg;

	assert_int_equal(host, 0);
	assert_int_equal(process, 1);
	assert_string_equal(key, "key");
	snprintf(t->last_attr, sizeof(t->last_attr), "%s", value);
	t->n_attrs++;
	return 0;
}

static const struct store_newer told_ops = {.process = told_process,
					    .series = told_series,
					    .point = told_point,
					    .lost = told_lost,
					    .event = told_event,
					    .attr = told_attr};
/* For who wants no more of a gauge than its newest point. */
static const struct store_newer told_newest_ops = {.process = told_process,
						   .series = told_series,
						   .point = told_point,
						   .lost = told_lost,
						   .event = told_event,
						   .attr = told_attr,
						   .older = told_older};

static void told_done(struct told *t)
{
	size_t i;

	for (i = 0; i <= SERIES; i++)
		free(t->points[i].v);
}

/* ---- a world that changes at random -------------------------------------------------- */

struct world {
	char *dir;
	struct store *s;
	uint32_t n_series;
	int64_t time, step;
	unsigned n_events, n_attrs;
	uint64_t pushed[SERIES + 1];
	struct store_reader *r;
	struct store_cursor *c;
	struct told told;
	bool drops, newest;
};

static enum sink_kind world_kind(uint32_t id)
{
	return id % 5 == 4 ? SINK_HISTOGRAM : id % 5 == 3 ? SINK_SPAN : SINK_GAUGE;
}

static void world_define(struct world *w)
{
	char name[16];

	if (w->n_series == SERIES)
		return;
	snprintf(name, sizeof(name), "s%u", w->n_series + 1);
	assert_int_equal(storetest_series(w->s, 1, name, world_kind(w->n_series + 1)),
			 w->n_series + 1);
	w->n_series++;
}

static void world_push(struct world *w, uint32_t id, unsigned n)
{
	const struct sink_bin bin = {0x3ff0, 2};
	struct sink_hist h = {
		.series = id, .count = 2, .sum = 3, .min = 1, .max = 2, .bins = &bin, .n_bins = 1};
	unsigned i;

	for (i = 0; i < n; i++) {
		int64_t step = rng(10) ? w->step : SINK_STEP_NONE;

		w->time += 1 + rng(100);
		if (rng(5) == 0)
			w->step++;
		if (rng(2000) == 0)
			w->step -= w->step > 20 ? 20 : w->step;
		h.time_ns = w->time;
		h.step = step;
		if (world_kind(id) == SINK_HISTOGRAM)
			assert_int_equal(store_sink(w->s)->ops->hist(store_sink(w->s), &h), 0);
		else
			storetest_push(w->s, id, w->time - (rng(50) ? 0 : 90), step,
				       rng(9) ? rng(1000) : NAN);
		w->pushed[id]++;
	}
}

static void world_commit(struct world *w)
{
	const struct sink *k = store_sink(w->s);
	struct sink_event e = {.process = 1, .kind = "note", .text = "", .attrs = ""};
	char value[16];
	uint32_t id;

	if (rng(4) == 0)
		world_define(w);
	for (id = 1; id <= w->n_series; id++)
		if (rng(3))
			world_push(w, id, rng(20) ? 1 + rng(4) : rng(12000));
	if (rng(3) == 0) {
		e.time_ns = ++w->n_events;
		assert_int_equal(k->ops->event((struct sink *)k, &e), 0);
	}
	if (rng(9) == 0) {
		snprintf(value, sizeof(value), "%u", ++w->n_attrs);
		assert_int_equal(k->ops->attr((struct sink *)k, 1, "key", value), 0);
	}
	storetest_commit(w->s);
}

/* Retention: the oldest chunks of a series, but not the last. */
static void world_drop(struct world *w)
{
	char sql[200];
	uint32_t id = 1 + rng(SERIES);

	snprintf(sql, sizeof(sql),
		 "DELETE FROM chunk WHERE series = %u AND ordinal < (SELECT max(ordinal)"
		 " FROM chunk WHERE series = %u) - %u",
		 id, id, rng(2));
	storetest_sql(w->dir, sql);
}

/* As if the reader had been killed: only the cursor's bytes remain. */
static void world_restart(struct world *w)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	assert_int_equal(store_cursor_save(w->c, &b), 0);
	store_cursor_free(w->c);
	w->c = NULL;
	assert_int_equal(store_cursor_load(b.data, b.len, &w->c), 0);
	buf_done(&b);
	store_reader_close(w->r);
	w->r = NULL;
}

/* A call that may fail, after which nothing may have changed. */
static int world_read(struct world *w, uint64_t max)
{
	struct told t = w->told;
	struct err e = {0};
	size_t i;
	int r;

	if (!w->r)
		assert_int_equal(store_reader_open(w->dir, &e, &w->r), 0);
	t.fail_after = rng(4) ? -1 : (int)rng(300);
	for (i = 0; i <= SERIES; i++) {
		t.points[i].cap = t.points[i].n;
		t.points[i].v = xcalloc(t.points[i].n + 1, sizeof(*t.points[i].v));
		if (t.points[i].n)
			memcpy(t.points[i].v, w->told.points[i].v,
			       t.points[i].n * sizeof(*t.points[i].v));
	}
	r = store_reader_newer(w->r, w->c, w->newest ? &told_newest_ops : &told_ops, &t, max, &e);
	if (r < 0)
		fail_msg("store_reader_newer: %s", e.text);
	if (r != 77) {
		told_done(&w->told);
		w->told = t;
		/* 0 says that this was all. */
		for (i = 1; r == 0 && i <= w->n_series; i++)
			assert_int_equal(t.points[i].n + t.lost[i] + t.older[i], w->pushed[i]);
		/* What is older is told only together with what is not. */
		for (i = 1; !w->drops && i <= w->n_series; i++)
			assert_true(!t.older[i] || t.points[i].n);
		return r;
	}
	told_done(&t);
	return 1;
}

static void world_compare(struct world *w)
{
	uint32_t id;
	size_t i;

	assert_int_equal(w->told.n_series, w->n_series);
	assert_int_equal(w->told.n_events, w->n_events);
	assert_true(w->told.n_attrs <= w->n_attrs);
	if (w->n_attrs)
		assert_int_equal(atoi(w->told.last_attr), w->n_attrs);
	for (id = 1; id <= w->n_series; id++) {
		struct storetest_points *got = &w->told.points[id];
		struct storetest_points all = storetest_read_dir(w->dir, id);

		assert_int_equal(got->n + w->told.lost[id] + w->told.older[id], w->pushed[id]);
		assert_int_equal(w->told.end[id], w->pushed[id]);
		if (!w->drops)
			assert_int_equal(got->n + w->told.older[id], all.n);
		assert_true(got->n > w->told.since[id] || w->pushed[id] == 0);
		/* What is still stored is the end of what was given. */
		for (i = 1; i <= all.n && i <= got->n - w->told.since[id]; i++) {
			const struct store_point *a = &all.v[all.n - i], *b = &got->v[got->n - i];

			assert_int_equal(a->time_ns, b->time_ns);
			assert_int_equal(a->step, b->step);
			assert_memory_equal(&a->value, &b->value, 8);
			assert_int_equal(a->thread, b->thread);
			assert_int_equal(a->segment, b->segment);
		}
		free(all.v);
	}
}

/* Who skips comes to where one stands who has read all. */
static void world_skip(struct world *w)
{
	struct store_cursor *c = store_cursor_new();
	struct store_reader *r = NULL;
	struct buf read, skipped;
	struct err e = {0};

	buf_init(&read, 1 << 20);
	buf_init(&skipped, 1 << 20);
	assert_int_equal(store_reader_open(w->dir, &e, &r), 0);
	assert_int_equal(store_reader_skip(r, c, &e), 0);
	assert_int_equal(store_cursor_save(w->c, &read), 0);
	assert_int_equal(store_cursor_save(c, &skipped), 0);
	assert_int_equal(read.len, skipped.len);
	assert_memory_equal(read.data, skipped.data, read.len);
	buf_done(&read);
	buf_done(&skipped);
	store_reader_close(r);
	store_cursor_free(c);
}

static void world_turn(struct world *w)
{
	switch (rng(12)) {
	case 0:
		storetest_merge(w->s);
		break;
	case 1:
		storetest_fold(w->s);
		break;
	case 2:
		world_restart(w);
		break;
	case 3:
		if (w->drops)
			world_drop(w);
		break;
	case 4:
		storetest_close(w->s);
		w->s = storetest_open(w->dir);
		break;
	case 5:
	case 6:
	case 7:
		world_read(w, rng(2) ? 0 : 1 + rng(3000));
		break;
	default:
		world_commit(w);
	}
}

/* Points that it was not told of because they were older. */
static uint64_t world_run(uint64_t seed, unsigned turns, bool drops, bool newest)
{
	struct world w = {.dir = storetest_dir(),
			  .time = 1000,
			  .step = 100,
			  .drops = drops,
			  .newest = newest};
	uint64_t older = 0;
	unsigned i;

	rng_state = seed;
	w.s = storetest_open(w.dir);
	w.c = store_cursor_new();
	storetest_process(w.s, 1);
	storetest_commit(w.s);
	for (i = 0; i < turns; i++)
		world_turn(&w);
	while (world_read(&w, rng(2) ? 0 : 5000))
		;
	world_compare(&w);
	world_skip(&w);
	storetest_close(w.s);
	world_restart(&w);
	while (world_read(&w, 0))
		;
	world_compare(&w);
	world_skip(&w);
	for (i = 1; i <= SERIES; i++)
		older += w.told.older[i];
	told_done(&w.told);
	store_cursor_free(w.c);
	store_reader_close(w.r);
	storetest_remove(w.dir);
	return older;
}

static void random_worlds(void **state)
{
	unsigned seed;

	(void)state;
	for (seed = 1; seed <= 25; seed++)
		assert_int_equal(world_run(seed, 120, false, false), 0);
}

static void random_worlds_with_retention(void **state)
{
	unsigned seed;

	(void)state;
	for (seed = 1; seed <= 15; seed++)
		assert_int_equal(world_run(seed * 1000, 120, true, false), 0);
}

/* The newest point of a gauge is always told, and all of the other kinds. */
static void random_worlds_of_newest_points(void **state)
{
	uint64_t older = 0;
	unsigned seed;

	(void)state;
	for (seed = 1; seed <= 10; seed++)
		older += world_run(seed * 77, 120, seed % 2, true);
	assert_true(older > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_worlds),
		cmocka_unit_test(random_worlds_with_retention),
		cmocka_unit_test(random_worlds_of_newest_points),
	};

	return cmocka_run_group_tests_name("store_newer", tests, NULL, NULL);
}
