/* SPDX-License-Identifier: Apache-2.0
 *
 * idle.c - see idle.h. exact: a gap is what lies between the latest end so far and the next
 * start, and gaps below 0 are none. hta: between two rows that follow each other, which may
 * be below 0, and the first row counts as "other" with no gap.
 */
#include "analyse/idle.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/numeric.h"
#include "analyse/streams.h"

const char *const idle_names[IDLE_KINDS] = {"host_wait", "kernel_wait", "other"};

/* Gaps of one stream, us, by kind. */
struct gaps {
	double *list[IDLE_KINDS];
	size_t n[IDLE_KINDS];
	struct numeric_run run[IDLE_KINDS];
	int64_t sum[IDLE_KINDS]; /* exact: ns */
	bool is_there[IDLE_KINDS];
};

static bool is_work(const struct view *v, const struct view_row *r)
{
	if (v->rule == VIEW_EXACT)
		return r->is_gpu;
	return r->is_gpu && (r->cat == TRACE_CAT_KERNEL || r->cat == TRACE_CAT_GPU_MEMCPY ||
			     r->cat == TRACE_CAT_GPU_MEMSET || r->cat == TRACE_CAT_MTIA_CCP_EVENTS);
}

static int64_t key_of(const struct view *v, const struct view_row *r)
{
	return v->rule == VIEW_EXACT ? (int64_t)r->track : (int64_t)r->stream;
}

static void add_gap(struct gaps *g, enum idle_kind kind, double us, int64_t ns)
{
	g->list[kind][g->n[kind]++] = us;
	numeric_add(&g->run[kind], us);
	g->sum[kind] += ns;
	g->is_there[kind] = true;
}

static void walk_exact(const struct view *v, const uint32_t *ids, size_t n, int64_t delay,
		       struct gaps *g)
{
	const struct view_row *r, *launch;
	enum idle_kind kind;
	int64_t end = v->rows[ids[0]].end;
	size_t i;

	for (i = 1; i < n; i++) {
		r = &v->rows[ids[i]];
		launch = r->pair == VIEW_NO_ROW ? NULL : &v->rows[r->pair];
		if (r->ts > end) {
			kind = IDLE_OTHER;
			if (launch && launch->ts > end)
				kind = IDLE_HOST_WAIT;
			else if (r->ts - end < delay)
				kind = IDLE_KERNEL_WAIT;
			add_gap(g, kind, view_us(r->ts - end), r->ts - end);
		}
		end = r->end > end ? r->end : end;
	}
}

static void walk_hta(const struct view *v, const uint32_t *ids, size_t n, int64_t delay,
		     struct gaps *g)
{
	double end, gap, ts, limit = view_us(delay);
	const struct view_row *r;
	size_t i;

	g->is_there[IDLE_OTHER] = true;
	for (i = 1, end = view_end_us(v, &v->rows[ids[0]]); i < n; i++) {
		r = &v->rows[ids[i]];
		ts = view_ts_us(v, r);
		gap = ts - end;
		if (r->pair != VIEW_NO_ROW && view_ts_us(v, &v->rows[r->pair]) > end)
			add_gap(g, IDLE_HOST_WAIT, gap, 0);
		else if (gap < limit)
			add_gap(g, IDLE_KERNEL_WAIT, gap, 0);
		else
			add_gap(g, IDLE_OTHER, gap, 0);
		end = view_end_us(v, r);
	}
	/* The first row is "other" with a gap that counts nothing: is_there says so if others
	 * are not; a first row alone has no gap of any kind. */
}

static void finish(const struct view *v, struct gaps *g, struct idle_stream *ret)
{
	struct idle_kind_time *t;
	double total = 0;
	int k;

	for (k = 0; k < IDLE_KINDS; k++)
		total += g->run[k].sum;
	for (k = 0; k < IDLE_KINDS; k++) {
		t = &ret->kinds[k];
		t->is_there = g->is_there[k] || v->rule == VIEW_EXACT;
		t->time = v->rule == VIEW_EXACT ? g->sum[k] : llround(g->run[k].sum * 1000);
		t->time_us = v->rule == VIEW_EXACT ? view_us(g->sum[k]) : g->run[k].sum;
		t->ratio = v->rule == VIEW_EXACT && total <= 0 ? 0 : g->run[k].sum / total;
		numeric_describe(g->list[k], g->n[k], &t->gaps);
	}
}

/* Places of rows in rising order, which is that of time. */
static int by_time(uint32_t *ids, size_t n)
{
	uint32_t least = UINT32_MAX, most = 0, at;
	uint64_t *bits;
	size_t i, k = 0;

	for (i = 0; i < n; i++) {
		least = ids[i] < least ? ids[i] : least;
		most = ids[i] > most ? ids[i] : most;
	}
	bits = calloc((most - least) / 64 + 1, sizeof(*bits));
	if (!bits)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		bits[(ids[i] - least) / 64] |= 1ull << (ids[i] - least) % 64;
	for (at = 0; at <= (most - least) / 64; at++)
		for (; bits[at]; bits[at] &= bits[at] - 1)
			ids[k++] = least + at * 64 + (uint32_t)__builtin_ctzll(bits[at]);
	free(bits);
	return 0;
}

/* By ts in HTA's order of equal times: that counts for what each gap is between. */
static int order_hta(const struct view *v, uint32_t *ids, size_t n)
{
	struct numeric_key *k = malloc((n + 1) * sizeof(*k));
	uint32_t *timed = malloc((n + 1) * sizeof(*timed));
	bool rises = true;
	size_t i;
	int rc = k && timed ? 0 : -ENOMEM;

	if (!rc) {
		memcpy(timed, ids, n * sizeof(*timed));
		rc = by_time(timed, n);
	}
	for (i = 0; !rc && i < n; i++) {
		k[i] = (struct numeric_key){view_ts_us(v, &v->rows[timed[i]]), timed[i]};
		rises = rises && (!i || k[i - 1].key < k[i].key);
	}
	for (i = 0; !rc && !rises && i < n; i++)
		k[i] = (struct numeric_key){view_ts_us(v, &v->rows[ids[i]]), ids[i]};
	if (!rc && !rises)
		numeric_order(k, n);
	for (i = 0; !rc && i < n; i++)
		ids[i] = k[i].id;
	free(k);
	free(timed);
	return rc;
}

static int do_stream(const struct view *v, uint32_t *ids, size_t n, int64_t delay,
		     struct idle_stream *ret)
{
	struct gaps g = {.n = {0}};
	int k, rc = 0;

	for (k = 0; k < IDLE_KINDS; k++) {
		g.list[k] = malloc((n + 1) * sizeof(double));
		rc = g.list[k] ? rc : -ENOMEM;
	}
	if (!rc && v->rule == VIEW_EXACT) {
		walk_exact(v, ids, n, delay, &g);
	} else if (!rc) {
		rc = order_hta(v, ids, n);
		if (!rc)
			walk_hta(v, ids, n, delay, &g);
	}
	if (!rc) {
		ret->stream = v->rows[ids[0]].stream;
		ret->track = v->rows[ids[0]].track;
		ret->rows = n;
		finish(v, &g, ret);
	}
	for (k = 0; k < IDLE_KINDS; k++)
		free(g.list[k]);
	return rc;
}

int idle_new(const struct view *v, int64_t delay, struct idle *ret)
{
	struct idle x = {0};
	struct streams s;
	size_t i;
	int rc = streams_new(v, true, is_work, key_of, &s);

	if (rc)
		return rc;
	x.streams = calloc(s.n + 1, sizeof(*x.streams));
	rc = !s.n ? -ENODATA : x.streams ? 0 : -ENOMEM;
	for (i = 0; i < s.n && !rc; i++)
		rc = do_stream(v, s.ids + s.list[i].first, s.list[i].n, delay, &x.streams[x.n++]);
	streams_done(&s);
	if (rc)
		idle_done(&x);
	else
		*ret = x;
	return rc;
}

void idle_done(struct idle *i)
{
	free(i->streams);
	memset(i, 0, sizeof(*i));
}
