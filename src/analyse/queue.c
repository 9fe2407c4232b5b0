/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c - see queue.h. Both rules make a list of changes (+1 at a call, -1 at the start of
 * work), order it by time, and add up stream by stream.
 */
#include "analyse/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/calls.h"
#include "analyse/room.h"
#include "base/bigmem.h"

#define AHEAD 16 /* places that are fetched before they are looked at */

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
	uint64_t *worked = calloc(v->n / 64 + 1, sizeof(*worked)); /* a bit each */
	struct view_link link;
	uint32_t id, work;
	size_t i, k;
	int rc = worked ? 0 : -ENOMEM;

	for (i = 0; i < v->n && !rc; i++) {
		if (i + AHEAD < v->n)
			__builtin_prefetch(&v->rows[v->table[i + AHEAD]]);
		id = v->table[i];
		if (!is_counted(b, &v->rows[id]))
			continue;
		link = view_linked(v, v->rows[id].correlation);
		for (k = 0; k < link.n && !rc; k++) {
			work = link.rows[k];
			if (!v->rows[work].is_gpu)
				continue;
			worked[work / 64] |= 1ull << work % 64;
			rc = add_change(b, id, work, v->rows[id].ts, 1);
		}
	}
	for (i = 0; i < v->n && !rc; i++) {
		id = v->table[i];
		if (worked[id / 64] >> id % 64 & 1)
			rc = add_change(b, id, id, v->rows[id].ts, -1);
	}
	free(worked);
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

/* At one time launches count before starts: nothing starts that was not launched. */
static int order_exact(const struct builder *b, uint32_t *order)
{
	struct view_key *keys = bigmem_alloc((2 * b->n + 1) * sizeof(*keys));
	size_t i, n = 0;
	int step;

	if (!keys)
		return -ENOMEM;
	for (step = 1; step >= -1; step -= 2)
		for (i = 0; i < b->n; i++)
			if (b->changes[i].step == step)
				keys[n++] = (struct view_key){view_key_of(b->changes[i].ts),
							      (uint32_t)i};
	view_sort(keys, keys + n, n);
	for (i = 0; i < n; i++)
		order[i] = keys[i].id;
	free(keys);
	return 0;
}

/* All streams are sorted by time together, then parted. */
static int order_hta(const struct builder *b, uint32_t *order)
{
	struct numeric_key *times = bigmem_alloc((b->n + 1) * sizeof(*times));
	size_t i;

	if (!times)
		return -ENOMEM;
	for (i = 0; i < b->n; i++)
		times[i] = (struct numeric_key){view_since_us(b->v, b->changes[i].ts), (uint32_t)i};
	numeric_order(times, b->n);
	for (i = 0; i < b->n; i++)
		order[i] = times[i].id;
	free(times);
	return 0;
}

/* ---- streams -------------------------------------------------------------------------- */

/* The streams or tracks that there are, rising: few. */
struct parts {
	int32_t *keys;
	struct queue_stream *streams;
	size_t n, cap;
	size_t last; /* of find_part() */
};

/* The place of the first key that is not below this one. */
static size_t find_part(struct parts *p, int32_t key)
{
	size_t low = 0, high = p->n, middle;

	if (p->last < p->n && p->keys[p->last] == key)
		return p->last;
	while (low < high) {
		middle = low + (high - low) / 2;
		if (p->keys[middle] < key)
			low = middle + 1;
		else
			high = middle;
	}
	p->last = low;
	return low;
}

static int add_part(struct parts *p, size_t at, int32_t key)
{
	size_t cap = p->cap;
	int rc = room_for(&p->keys, p->n, &cap, sizeof(*p->keys));

	if (!rc)
		rc = room_for(&p->streams, p->n, &p->cap, sizeof(*p->streams));
	if (rc)
		return rc;
	memmove(p->keys + at + 1, p->keys + at, (p->n - at) * sizeof(*p->keys));
	memmove(p->streams + at + 1, p->streams + at, (p->n - at) * sizeof(*p->streams));
	p->keys[at] = key;
	p->streams[at] = (struct queue_stream){.n = 0};
	p->n++;
	return 0;
}

/* Each stream with the place of its first point. */
static int part(const struct builder *b, struct parts *p)
{
	size_t i, at, first = 0;
	int rc = 0;

	for (i = 0; i < b->n && !rc; i++) {
		at = find_part(p, b->changes[i].key);
		if (at == p->n || p->keys[at] != b->changes[i].key)
			rc = add_part(p, at, b->changes[i].key);
		if (!rc)
			p->streams[at].n++;
	}
	for (i = 0; i < p->n; i++) {
		p->streams[i].first = first;
		first += p->streams[i].n;
		p->streams[i].n = 0;
	}
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

/* Points of changes in this order, each behind those of its stream. */
static void add_points(const struct builder *b, const uint32_t *order, struct parts *p,
		       struct queue_point *points)
{
	const struct change *c;
	struct queue_stream *s;
	int32_t length;
	size_t i;

	for (i = 0; i < b->n; i++) {
		if (i + AHEAD < b->n)
			__builtin_prefetch(&b->changes[order[i + AHEAD]]);
		c = &b->changes[order[i]];
		s = &p->streams[find_part(p, c->key)];
		if (!s->n) {
			s->stream = b->v->rows[c->work].stream;
			s->track = b->v->rows[c->work].track;
		}
		length = s->n ? points[s->first + s->n - 1].length : 0;
		points[s->first + s->n++] = (struct queue_point){c->ts, length + c->step, c->row};
	}
}

static int add_up(struct builder *b, int32_t full, struct queue *q)
{
	uint32_t *order = bigmem_alloc((b->n + 1) * sizeof(*order));
	struct parts p = {.n = 0};
	size_t i;
	int rc = order ? 0 : -ENOMEM;

	if (!rc)
		rc = b->v->rule == VIEW_EXACT ? order_exact(b, order) : order_hta(b, order);
	if (!rc)
		rc = part(b, &p);
	q->points = rc ? NULL : bigmem_alloc((b->n + 1) * sizeof(*q->points));
	q->streams = p.streams;
	q->n = p.n;
	if (!rc && !q->points)
		rc = -ENOMEM;
	if (!rc)
		add_points(b, order, &p, q->points);
	free(order);
	free(p.keys);
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
