/* SPDX-License-Identifier: Apache-2.0
 *
 * critical_device.c - the devices' part of the graph: what each piece of work waited for,
 * its launch, the work before it on its stream, or work of another stream by an event.
 */
#include "analyse/critical_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/room.h"

struct turn {
	int64_t at;
	uint32_t index, row;
};

static int by_turn(const void *pa, const void *pb)
{
	const struct turn *a = pa, *b = pb;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

struct stream {
	int32_t number, device; /* device: exact only */
	uint32_t end, before;   /* ends of the last work and of that before it; UINT32_MAX */
};

struct device {
	struct critical_graph *g;
	struct critical_events records, waits;
	struct stream *streams; /* in order of their first work */
	size_t n_streams, cap_streams;
	uint32_t *after; /* row -> work of another stream that it waits for; UINT32_MAX */
	uint32_t context_sync, stream_sync, event_sync, stream_wait;
};

static int32_t device_number(const struct critical_graph *g, const struct view_row *r)
{
	return g->is_hta ? 0 : trace_args(g->v->trace, r->args)->device;
}

static struct stream *stream_of(struct device *d, const struct view_row *r)
{
	int32_t device = device_number(d->g, r);

	for (size_t i = 0; i < d->n_streams; i++) {
		if (d->streams[i].number == r->stream && d->streams[i].device == device)
			return &d->streams[i];
	}
	return NULL;
}

static int add_sync(struct critical_graph *g, uint32_t from, uint32_t call)
{
	const struct view_row *a, *b;

	if (!critical_has_nodes(g, call))
		return 0;
	a = &g->v->rows[g->nodes[from].row];
	b = &g->v->rows[call];
	if (g->is_hta && !critical_on_host(g, call) && a->stream == b->stream) {
		g->c->ok = false;
		g->c->why = "a wait between two pieces of work on one stream";
	}
	return critical_add(g, from, g->end[call], CRITICAL_SYNC, true, UINT32_MAX);
}

/* The work before the event that a wait names; UINT32_MAX. */
static uint32_t work_before(const struct device *d, const struct view_row *sync)
{
	int64_t record = trace_args(d->g->v->trace, sync->args)->wait_on_record;
	uint32_t launch = UINT32_MAX;

	if (record >= 0)
		launch = critical_event_launch(&d->records, record);
	return launch != UINT32_MAX ? critical_partner(d->g, launch) : UINT32_MAX;
}

static int wait_for_event(struct device *d, uint32_t row)
{
	const struct view_row *s = &d->g->v->rows[row];
	uint32_t from = work_before(d, s), call = critical_partner(d->g, row);
	uint32_t launch, to;

	if (from == UINT32_MAX || call == UINT32_MAX)
		return 0;
	if (s->name == d->event_sync)
		return critical_has_nodes(d->g, from) ? add_sync(d->g, d->g->end[from], call) : 0;
	launch = critical_event_launch(&d->waits, call);
	to = launch != UINT32_MAX ? critical_partner(d->g, launch) : UINT32_MAX;
	if (to != UINT32_MAX)
		d->after[to] = from;
	return 0;
}

static int wait_for_streams(struct device *d, uint32_t row)
{
	const struct view_row *s = &d->g->v->rows[row];
	uint32_t call = critical_partner(d->g, row);
	int r = 0;

	for (size_t i = 0; i < d->n_streams && r == 0 && call != UINT32_MAX; i++) {
		if (s->name == d->context_sync ||
		    d->streams[i].number == critical_stream(d->g, row))
			r = add_sync(d->g, d->streams[i].end, call);
	}
	return r;
}

/* What decides when work starts. */
struct start {
	uint32_t row, node;
	const struct stream *s; /* NULL: first on its stream */
	uint32_t launch;        /* row; UINT32_MAX */
	int64_t called;         /* when it was launched; INT64_MIN */
	int64_t held;           /* end of the work that an event made it wait for; INT64_MIN */
	bool is_free;           /* its stream had nothing else to do when it was launched */
};

/* hta: from its launch, or from the work before it, or from nothing. */
static int link_hta(struct critical_graph *g, const struct start *w)
{
	const struct stream *s = w->s;
	int64_t before = s ? g->nodes[s->end].ts : INT64_MIN;

	if (w->is_free && critical_has_nodes(g, w->launch) && (!s || before < w->called) &&
	    w->held < w->called)
		return critical_add(g, g->start[w->launch], w->node, CRITICAL_LAUNCH, true,
				    UINT32_MAX);
	if (s && w->held < before && g->nodes[w->node].ts - before < CRITICAL_GAP_MAX)
		return critical_add(g, s->end, w->node, CRITICAL_KERNEL_KERNEL, true,
				    g->nodes[s->end].row);
	g->c->cut += w->held == INT64_MIN;
	return 0;
}

/* Work of another stream of the device that ended while this could have run already: an event
 * that the trace does not show made this wait for it. */
static uint32_t other_before(const struct device *d, const struct start *w, int64_t from)
{
	const struct critical_graph *g = d->g;
	const struct critical_node *nodes = g->nodes;
	int32_t device = device_number(g, &g->v->rows[w->row]);
	uint32_t best = UINT32_MAX;

	for (size_t i = 0; i < d->n_streams; i++) {
		const struct stream *s = &d->streams[i];
		uint32_t ends[2] = {s->end, s->before};

		for (int k = 0; k < 2 && s != w->s && s->device == device; k++) {
			if (ends[k] == UINT32_MAX || nodes[ends[k]].ts <= from ||
			    nodes[ends[k]].ts > nodes[w->node].ts)
				continue;
			if (best == UINT32_MAX || nodes[ends[k]].ts > nodes[best].ts)
				best = ends[k];
			break;
		}
	}
	return best;
}

/* When the last of what is known to have held this up was over; INT64_MIN: nothing is. */
static int64_t ready_at(const struct critical_graph *g, const struct start *w)
{
	int64_t at = w->called > w->held ? w->called : w->held;

	if (w->s && g->nodes[w->s->end].ts > at)
		at = g->nodes[w->s->end].ts;
	return at;
}

/* exact: did it start when it did because it was launched then? */
static bool by_launch(const struct critical_graph *g, const struct start *w)
{
	if (!critical_has_nodes(g, w->launch) || w->called < ready_at(g, w))
		return false;
	return w->s || w->held != INT64_MIN || w->is_free;
}

/* exact: whichever came last of launch, work before it, and work of another stream; without
 * any of them the launch is a link without weight (it waited for work before the window). */
static int link_exact(struct device *d, const struct start *w)
{
	struct critical_graph *g = d->g;
	int64_t ready = ready_at(g, w);
	bool launched = by_launch(g, w);
	uint32_t other = UINT32_MAX;
	int r = 0;

	if (ready != INT64_MIN && g->nodes[w->node].ts - ready >= CRITICAL_GAP_WAIT)
		other = other_before(d, w, ready);
	if (other != UINT32_MAX) {
		launched = false;
		g->c->inferred++;
		r = critical_add(g, other, w->node, CRITICAL_SYNC, true, UINT32_MAX);
	} else if (!launched && w->s && w->held < g->nodes[w->s->end].ts) {
		r = critical_add(g, w->s->end, w->node, CRITICAL_KERNEL_KERNEL, true,
				 g->nodes[w->s->end].row);
	} else if (!launched && !w->s && w->held == INT64_MIN) {
		g->c->cut++;
	}
	if (r == 0 && critical_has_nodes(g, w->launch))
		r = critical_add(g, g->start[w->launch], w->node, CRITICAL_LAUNCH, launched,
				 UINT32_MAX);
	return r;
}

static int link_start(struct device *d, uint32_t row, const struct stream *s)
{
	struct critical_graph *g = d->g;
	const struct view_row *r = &g->v->rows[row];
	uint32_t before = d->after[row];
	struct start w = {.row = row,
			  .node = g->start[row],
			  .s = s,
			  .launch = critical_partner(g, row),
			  .called = INT64_MIN,
			  .held = INT64_MIN};
	int e = 0;

	if (w.launch != UINT32_MAX) {
		w.called = g->v->rows[w.launch].ts;
		w.is_free = g->queue[w.launch] == 1 && g->queue[row] == 0;
	}
	d->after[row] = UINT32_MAX;
	if (before != UINT32_MAX && critical_has_nodes(g, before)) {
		w.held = g->nodes[g->end[before]].ts;
		e = critical_add(g, g->end[before], w.node, CRITICAL_SYNC, true, UINT32_MAX);
		if (g->v->rows[before].stream == r->stream && g->is_hta) {
			g->c->ok = false;
			g->c->why = "a wait between two pieces of work on one stream";
		}
	}
	if (e < 0)
		return e;
	return g->is_hta ? link_hta(g, &w) : link_exact(d, &w);
}

static int add_work(struct device *d, uint32_t row)
{
	struct critical_graph *g = d->g;
	const struct view_row *r = &g->v->rows[row];
	struct stream *s;
	int e;

	if (!critical_has_nodes(g, row))
		return 0;
	e = critical_add(g, g->start[row], g->end[row], CRITICAL_OPERATOR, true, row);
	s = stream_of(d, r);
	if (e == 0)
		e = link_start(d, row, s);
	if (e < 0)
		return e;
	if (!s) {
		if (room_for(&d->streams, d->n_streams, &d->cap_streams, sizeof(*s)) < 0)
			return -ENOMEM;
		s = &d->streams[d->n_streams++];
		*s = (struct stream){r->stream, device_number(g, r), UINT32_MAX, UINT32_MAX};
	}
	s->before = s->end;
	s->end = g->end[row];
	return 0;
}

/* Rows of devices and waits, waits by their end. */
static int take_turns(struct device *d, struct turn **ret, size_t *ret_n)
{
	const struct critical_graph *g = d->g;
	struct turn *turns = NULL;
	size_t n = 0, cap = 0;

	for (uint32_t i = 0; i < g->v->n; i++) {
		const struct view_row *r = &g->v->rows[i];
		bool is_sync = r->cat == TRACE_CAT_CUDA_SYNC;

		if (!g->in[i] ||
		    (critical_on_host(g, i) &&
		     (!r->name || (r->name != d->event_sync && r->name != d->context_sync))))
			continue;
		if (g->is_hta && r->partner == UINT32_MAX)
			continue;
		if (room_for(&turns, n, &cap, sizeof(*turns)) < 0) {
			free(turns);
			return -ENOMEM;
		}
		turns[n++] = (struct turn){is_sync ? r->end : r->ts, r->index, i};
	}
	if (n)
		qsort(turns, n, sizeof(*turns), by_turn);
	*ret = turns;
	*ret_n = n;
	return 0;
}

static int run_turns(struct device *d, const struct turn *turns, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		const struct view_row *row = &d->g->v->rows[turns[i].row];

		if (row->cat != TRACE_CAT_CUDA_SYNC)
			r = add_work(d, turns[i].row);
		else if (row->name == d->stream_wait || row->name == d->event_sync)
			r = wait_for_event(d, turns[i].row);
		else
			r = wait_for_streams(d, turns[i].row);
	}
	return r;
}

int critical_device(struct critical_graph *g)
{
	struct trace *t = g->v->trace;
	struct device d = {.g = g,
			   .context_sync = trace_find(t, "Context Sync"),
			   .stream_sync = trace_find(t, "Stream Sync"),
			   .event_sync = trace_find(t, "Event Sync"),
			   .stream_wait = trace_find(t, "Stream Wait Event")};
	struct turn *turns = NULL;
	size_t n = 0;
	int r = critical_queues(g);

	d.after = malloc((g->v->n + 1) * sizeof(*d.after));
	if (!d.after)
		r = -ENOMEM;
	else
		memset(d.after, 0xff, (g->v->n + 1) * sizeof(*d.after));
	if (r == 0)
		r = critical_records(g, &d.records);
	if (r == 0)
		r = critical_awaits(g, &d.waits);
	if (r == 0)
		r = take_turns(&d, &turns, &n);
	if (r == 0)
		r = run_turns(&d, turns, n);
	for (uint32_t i = 0; i < g->v->n && r == 0; i++) {
		if (g->waited[i] != UINT32_MAX && critical_has_nodes(g, g->waited[i]))
			r = add_sync(g, g->end[g->waited[i]], i);
	}
	free(turns);
	free(d.after);
	free(d.streams);
	free(d.records.items);
	free(d.waits.items);
	return r;
}
