/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c - see queue.h. Both rules make a list of changes (+1 at a call, -1 at the start of
 * work), sort it by stream and time, and add up.
 */
#include "analyse/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/calls.h"
#include "analyse/room.h"
#include "base/bigmem.h"

struct change {
	int64_t ts;   /* ns */
	uint32_t row; /* of the view */
	uint32_t work;
	int32_t key;  /* stream or track */
	int32_t step; /* 1, -1 */
};

struct builder {
	struct view *v;
	uint8_t *calls;
	struct change *changes;
	size_t n, cap;
};

static int add_change(struct builder *b, uint32_t row, uint32_t work, int64_t ts, int step)
{
	const struct view_row *w = &b->v->rows[work];
	int rc = room_for(&b->changes, b->n, &b->cap, sizeof(*b->changes));

	if (rc)
		return rc;
	b->changes[b->n++] =
		(struct change){.key = b->v->rule == VIEW_EXACT ? (int32_t)w->track : w->stream,
				.ts = ts,
				.row = row,
				.work = work,
				.step = step};
	return 0;
}

static bool is_counted(const struct builder *b, const struct view_row *r)
{
	if (b->v->rule != VIEW_EXACT)
		return b->calls[r->name] & CALLS_HTA_QUEUE && r->partner &&
		       r->partner != VIEW_NO_ROW;
	return !r->is_gpu && r->correlation > 0 &&
	       b->calls[r->name] & (CALLS_LAUNCH | CALLS_MEMORY);
}

/* hta: calls in the order of the table, each with all its work; behind them the work of
 * these correlations: the order in which HTA puts them before it sorts. */
static int changes_hta(struct builder *b)
{
	struct view *v = b->v;
	const struct view_row *r;
	struct view_link link;
	bool counted;
	uint32_t id;
	size_t i, k;
	int rc = 0;

	for (i = 0; i < v->n && !rc; i++) {
		id = v->table[i];
		if (!is_counted(b, &v->rows[id]))
			continue;
		link = view_linked(v, v->rows[id].correlation);
		for (k = 0; k < link.n && !rc; k++)
			if (v->rows[link.rows[k]].is_gpu)
				rc = add_change(b, id, link.rows[k], v->rows[id].ts, 1);
	}
	for (i = 0; i < v->n && !rc; i++) {
		id = v->table[i];
		r = &v->rows[id];
		if (!r->is_gpu)
			continue;
		link = view_linked(v, r->correlation);
		for (k = 0, counted = false; k < link.n && !counted; k++)
			counted = is_counted(b, &v->rows[link.rows[k]]);
		if (counted)
			rc = add_change(b, id, id, r->ts, -1);
	}
	return rc;
}

static int changes_exact(struct builder *b)
{
	struct view *v = b->v;
	const struct view_row *r, *call;
	size_t i;
	int rc = 0;

	for (i = 0; i < v->n && !rc; i++) {
		r = &v->rows[i];
		if (!r->is_gpu || r->pair == VIEW_NO_ROW)
			continue;
		call = &v->rows[r->pair];
		if (!is_counted(b, call))
			continue;
		rc = add_change(b, r->pair, (uint32_t)i, call->ts, 1);
		if (!rc)
			rc = add_change(b, (uint32_t)i, (uint32_t)i,
					r->ts > call->ts ? r->ts : call->ts, -1);
	}
	return rc;
}

/* changes in the order of keys (their ids), then by stream or track; frees nothing. */
static int rearrange(struct builder *b, struct view_key *keys)
{
	struct change *sorted = bigmem_alloc((b->n + 1) * sizeof(*sorted));
	size_t i;

	if (!sorted)
		return -ENOMEM;
	for (i = 0; i < b->n; i++)
		keys[i].key = view_key_of(b->changes[keys[i].id].key);
	view_sort(keys, keys + b->n, b->n);
	for (i = 0; i < b->n; i++)
		sorted[i] = b->changes[keys[i].id];
	free(b->changes);
	b->changes = sorted;
	b->cap = b->n + 1;
	return 0;
}

/* At one time launches count before starts: nothing starts that was not launched. */
static void order_exact(const struct builder *b, struct view_key *keys)
{
	size_t i, n = 0;
	int step;

	for (step = 1; step >= -1; step -= 2)
		for (i = 0; i < b->n; i++)
			if (b->changes[i].step == step)
				keys[n++] = (struct view_key){view_key_of(b->changes[i].ts),
							      (uint32_t)i};
	view_sort(keys, keys + n, n);
}

/* All streams are sorted by time together, then parted. */
static int order_hta(const struct builder *b, struct view_key *keys)
{
	struct numeric_key *times = bigmem_alloc((b->n + 1) * sizeof(*times));
	size_t i;

	if (!times)
		return -ENOMEM;
	for (i = 0; i < b->n; i++)
		times[i] = (struct numeric_key){view_since_us(b->v, b->changes[i].ts), (uint32_t)i};
	numeric_order(times, b->n);
	for (i = 0; i < b->n; i++)
		keys[i].id = times[i].id;
	free(times);
	return 0;
}

static int sort_changes(struct builder *b)
{
	struct view_key *keys = bigmem_alloc((2 * b->n + 1) * sizeof(*keys));
	int rc = keys ? 0 : -ENOMEM;

	if (!rc && b->v->rule == VIEW_EXACT)
		order_exact(b, keys);
	else if (!rc)
		rc = order_hta(b, keys);
	if (!rc)
		rc = rearrange(b, keys);
	free(keys);
	return rc;
}

static int describe(const struct queue *q, struct queue_stream *s)
{
	double *x = bigmem_alloc((s->n + 1) * sizeof(*x));
	size_t i;

	if (!x)
		return -ENOMEM;
	for (i = 0; i < s->n; i++)
		x[i] = q->points[s->first + i].length;
	numeric_describe(x, s->n, &s->lengths);
	free(x);
	return 0;
}

static void weigh(const struct view *v, const struct queue *q, struct queue_stream *s, int32_t full)
{
	const struct queue_point *p = q->points + s->first;
	int64_t all = 0, stood, span;
	double sum = 0;
	size_t i;

	for (i = 0; i + 1 < s->n; i++) {
		stood = p[i + 1].ts - p[i].ts;
		all += stood;
		sum += (double)stood * p[i].length;
		s->full += p[i].length >= full ? stood : 0;
	}
	span = v->rule == VIEW_EXACT ? v->last - v->first : v->last_ts - v->first;
	s->mean_by_time = all ? sum / (double)all : 0;
	s->full_share = span ? (double)s->full / (double)span : 0;
}

/* Points of sorted changes. */
static int add_up(struct builder *b, int32_t full, struct queue *q)
{
	struct queue_stream *s = NULL;
	const struct change *c;
	size_t i, n = 0;
	int32_t length = 0;
	int rc = 0;

	q->points = bigmem_alloc((b->n + 1) * sizeof(*q->points));
	for (i = 0; i < b->n; i++)
		n += !i || b->changes[i].key != b->changes[i - 1].key;
	q->streams = calloc(n + 1, sizeof(*q->streams));
	if (!q->points || !q->streams)
		return -ENOMEM;
	for (i = n = 0; i < b->n; i++) {
		c = &b->changes[i];
		if (!i || c->key != c[-1].key) {
			s = &q->streams[q->n++];
			s->first = n;
			s->stream = b->v->rows[c->work].stream;
			s->track = b->v->rows[c->work].track;
			length = 0;
		}
		length += c->step;
		q->points[n++] = (struct queue_point){c->ts, length, c->row};
		s->n = n - s->first;
	}
	for (i = 0; i < q->n && !rc; i++) {
		rc = describe(q, &q->streams[i]);
		weigh(b->v, q, &q->streams[i], full);
	}
	return rc;
}

int queue_new(const struct view *v, int32_t full, struct queue *ret)
{
	/* view_linked() keeps its index in the view. */
	struct builder b = {.v = (struct view *)v, .calls = calls_names(v->trace)};
	struct queue q = {0};
	int rc;

	/* Mostly a change for each row at most; what is not touched takes no memory. */
	b.changes = bigmem_alloc((v->n + 1) * sizeof(*b.changes));
	b.cap = v->n + 1;
	if (!b.calls || !b.changes)
		rc = -ENOMEM;
	else
		rc = v->rule == VIEW_EXACT ? changes_exact(&b) : changes_hta(&b);
	if (!rc && !b.n)
		rc = -ENODATA;
	if (!rc)
		rc = sort_changes(&b);
	if (!rc)
		rc = add_up(&b, full, &q);
	free(b.calls);
	free(b.changes);
	if (rc)
		queue_done(&q);
	else
		*ret = q;
	return rc;
}

void queue_done(struct queue *q)
{
	free(q->points);
	free(q->streams);
	memset(q, 0, sizeof(*q));
}
