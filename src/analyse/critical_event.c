/* SPDX-License-Identifier: Apache-2.0
 *
 * critical_event.c - events of streams: the launch before each cudaEventRecord on its stream,
 * and the launch after each cudaStreamWaitEvent, by its thread, on the stream that waits.
 */
#include "analyse/critical_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/room.h"

/* A launch, or a call that records or awaits an event, on a stream. */
struct mark {
	int64_t ts;
	uint32_t row;
	int32_t stream;
	uint32_t place; /* the stream's process (records), or the caller's thread (waits) */
	bool is_launch;
};

struct marks {
	struct critical_graph *g;
	bool by_thread;
	struct mark *items;
	size_t n, cap;
};

static int by_stream(const void *pa, const void *pb)
{
	const struct mark *a = pa, *b = pb;

	if (a->place != b->place)
		return a->place < b->place ? -1 : 1;
	if (a->stream != b->stream)
		return a->stream < b->stream ? -1 : 1;
	if (a->ts != b->ts)
		return a->ts < b->ts ? -1 : 1;
	if (a->is_launch != b->is_launch)
		return a->is_launch ? -1 : 1;
	return a->row < b->row ? -1 : a->row > b->row;
}

static bool same_stream(const struct mark *a, const struct mark *b)
{
	return a->place == b->place && a->stream == b->stream;
}

static int by_key(const void *pa, const void *pb)
{
	const struct critical_event *a = pa, *b = pb;

	return a->key < b->key ? -1 : a->key > b->key;
}

/* on: a row of the device's side, whose process counts for records. */
static int mark(struct marks *m, uint32_t row, int32_t stream, uint32_t on, bool launches)
{
	const struct view *v = m->g->v;
	uint16_t track = v->rows[row].track;
	uint32_t place = m->by_thread ? track : trace_track(v->trace, v->rows[on].track)->pid_text;

	if (room_for(&m->items, m->n, &m->cap, sizeof(*m->items)) < 0)
		return -ENOMEM;
	m->items[m->n++] = (struct mark){v->rows[row].ts, row, stream, place, launches};
	return 0;
}

static int mark_launches(struct marks *m)
{
	const struct view *v = m->g->v;
	int r = 0;

	for (uint32_t i = 0; i < v->n && r == 0; i++) {
		uint32_t work = v->rows[i].pair;

		if (critical_is_launch(m->g, i) && !critical_on_host(m->g, work))
			r = mark(m, i, v->rows[work].stream, work, true);
	}
	return r;
}

/* cudaEventRecord calls on the streams that later waits name. */
static int mark_records(struct marks *m)
{
	struct view *v = m->g->v;
	uint32_t name = trace_find(v->trace, "cudaEventRecord");
	int64_t last = TRACE_NONE;
	int r = 0;

	for (uint32_t i = 0; name && i < v->n && r == 0; i++) {
		const struct trace_args *a = trace_args(v->trace, v->rows[i].args);
		int32_t stream = a->wait_on_stream;
		struct view_link all;

		if (stream < 0 || a->wait_on_record < 0 || a->wait_on_record == last)
			continue;
		last = a->wait_on_record;
		all = view_linked(v, last);
		for (size_t k = 0; k < all.n && r == 0; k++) {
			if (v->rows[all.rows[k]].name == name)
				r = mark(m, all.rows[k], stream, i, false);
		}
	}
	return r;
}

static int mark_waits(struct marks *m)
{
	const struct view *v = m->g->v;
	uint32_t name = trace_find(v->trace, "cudaStreamWaitEvent");
	int r = 0;

	for (uint32_t i = 0; name && i < v->n && r == 0; i++) {
		uint32_t sync;

		if (v->rows[i].name != name)
			continue;
		sync = m->g->is_hta ? v->rows[i].pair : critical_linked(m->g, i, true);
		if (sync != VIEW_NO_ROW)
			r = mark(m, i, critical_stream(m->g, sync), sync, false);
	}
	return r;
}

static int note(struct critical_events *ev, int64_t key, uint32_t launch)
{
	if (room_for(&ev->items, ev->n, &ev->cap, sizeof(*ev->items)) < 0)
		return -ENOMEM;
	ev->items[ev->n++] = (struct critical_event){key, launch};
	return 0;
}

static int sort_marks(struct marks *m, int r)
{
	if (r == 0 && m->n)
		qsort(m->items, m->n, sizeof(*m->items), by_stream);
	return r;
}

static void sort_events(struct critical_events *ev)
{
	if (ev->n)
		qsort(ev->items, ev->n, sizeof(*ev->items), by_key);
}

int critical_records(struct critical_graph *g, struct critical_events *ev)
{
	struct marks m = {.g = g};
	uint32_t launch = UINT32_MAX;
	int r = mark_launches(&m);

	r = sort_marks(&m, r == 0 ? mark_records(&m) : r);
	for (size_t i = 0; i < m.n && r == 0; i++) {
		if (!i || !same_stream(&m.items[i], &m.items[i - 1]))
			launch = UINT32_MAX;
		if (m.items[i].is_launch)
			launch = m.items[i].row;
		else
			r = note(ev, g->v->rows[m.items[i].row].correlation, launch);
	}
	sort_events(ev);
	free(m.items);
	return r;
}

int critical_awaits(struct critical_graph *g, struct critical_events *ev)
{
	struct marks m = {.g = g, .by_thread = true};
	uint32_t launch = UINT32_MAX;
	int r = mark_launches(&m);

	r = sort_marks(&m, r == 0 ? mark_waits(&m) : r);
	for (size_t i = m.n; i-- > 0 && r == 0;) {
		if (i + 1 == m.n || !same_stream(&m.items[i], &m.items[i + 1]))
			launch = UINT32_MAX;
		if (m.items[i].is_launch)
			launch = m.items[i].row;
		else
			r = note(ev, m.items[i].row, launch);
	}
	sort_events(ev);
	free(m.items);
	return r;
}

uint32_t critical_event_launch(const struct critical_events *ev, int64_t key)
{
	struct critical_event want = {.key = key};
	const struct critical_event *found = NULL;

	if (ev->n)
		found = bsearch(&want, ev->items, ev->n, sizeof(want), by_key);
	return found ? found->launch : UINT32_MAX;
}
