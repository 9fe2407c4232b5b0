/* SPDX-License-Identifier: Apache-2.0
 *
 * critical_queue.c - how much each stream had to do when work was launched and when it began, and
 * the waits of the host that the trace does not show.
 */
#include "analyse/critical_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/room.h"

/* ---- queues -------------------------------------------------------------------------- */

struct change {
	int64_t ts;
	uint32_t row, turn;
	int32_t stream;
	int delta;
};

static int by_stream(const void *pa, const void *pb)
{
	const struct change *a = pa, *b = pb;

	if (a->stream != b->stream)
		return a->stream < b->stream ? -1 : 1;
	if (a->ts != b->ts)
		return a->ts < b->ts ? -1 : 1;
	return a->turn < b->turn ? -1 : a->turn > b->turn;
}

bool critical_is_launch(struct critical_graph *g, uint32_t row)
{
	const struct view_row *r = &g->v->rows[row];

	if (!critical_on_host(g, row) || r->pair == VIEW_NO_ROW)
		return false;
	return !g->is_hta || critical_name_of(g, r->name) & CRITICAL_NAME_LAUNCH;
}

struct changes {
	struct change *items;
	size_t n, cap;
};

static int change(struct changes *c, const struct view_row *r, uint32_t row, int32_t stream,
		  int delta)
{
	if (room_for(&c->items, c->n, &c->cap, sizeof(*c->items)) < 0)
		return -ENOMEM;
	/* At one time the launches come first, each kind in the order of the rows. */
	c->items[c->n] = (struct change){r->ts, row, (uint32_t)c->n, stream, delta};
	c->n++;
	return 0;
}

/* A launch adds the work that it launched to the queue of that work's stream. */
static int add_launch(struct critical_graph *g, struct changes *c, uint32_t launch, bool *launched)
{
	struct view *v = g->v;
	struct view_link all = view_linked(v, v->rows[launch].correlation);
	int r = 0;

	for (size_t k = 0; k < all.n && r == 0; k++) {
		uint32_t work = all.rows[k];

		if (critical_on_host(g, work) || !v->rows[work].is_gpu)
			continue;
		launched[work] = true;
		r = change(c, &v->rows[launch], launch, v->rows[work].stream, 1);
	}
	return r;
}

static void follow(struct critical_graph *g, struct changes *c)
{
	int32_t length = 0;

	if (c->n)
		qsort(c->items, c->n, sizeof(*c->items), by_stream);
	for (size_t i = 0; i < c->n; i++) {
		if (!i || c->items[i].stream != c->items[i - 1].stream)
			length = 0;
		length += c->items[i].delta;
		g->queue[c->items[i].row] = length;
	}
}

/* Launches add, the start of work takes away. */
int critical_queues(struct critical_graph *g)
{
	struct changes c = {0};
	bool *launched = calloc(g->v->n + 1, sizeof(*launched));
	int r = launched ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < g->v->n && r == 0; i++) {
		if (critical_is_launch(g, i))
			r = add_launch(g, &c, i, launched);
	}
	for (uint32_t i = 0; i < g->v->n && r == 0; i++) {
		if (launched[i])
			r = change(&c, &g->v->rows[i], i, g->v->rows[i].stream, -1);
	}
	if (r == 0)
		follow(g, &c);
	free(c.items);
	free(launched);
	return r;
}

/* ---- waits that were not recorded ----------------------------------------------------- */

struct work {
	int64_t end, launched;
	uint32_t row, launch;
};

static int by_end(const void *pa, const void *pb)
{
	const struct work *a = pa, *b = pb;

	return a->end < b->end ? -1 : a->end > b->end;
}

/* The last work that ended while the call blocked and was launched before it (or by it: a
 * copy returns with its own work, or does not block at all). */
static uint32_t waited_for(const struct critical_graph *g, uint32_t call, const struct work *w,
			   size_t n)
{
	const struct view_row *c = &g->v->rows[call];
	bool is_copy = strstr(trace_text(g->v->trace, c->name, NULL), "Memcpy") != NULL;
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (w[mid].end <= c->end)
			low = mid + 1;
		else
			high = mid;
	}
	while (low-- > 0 && w[low].end > c->ts) {
		if (w[low].launch == call || (!is_copy && w[low].launched <= c->ts))
			return w[low].row;
	}
	return UINT32_MAX;
}

/* Recorded waits: the calls that they belong to. */
static void recorded_waits(struct critical_graph *g)
{
	uint32_t wait = trace_find(g->v->trace, "Stream Wait Event");

	for (uint32_t i = 0; i < g->v->n; i++) {
		uint32_t call;

		if (g->v->rows[i].cat != TRACE_CAT_CUDA_SYNC || g->v->rows[i].name == wait)
			continue;
		call = critical_partner(g, i);
		if (call != VIEW_NO_ROW)
			g->waited[call] = i;
	}
}

int critical_waits(struct critical_graph *g)
{
	struct work *w;
	size_t n = 0;

	if (g->is_hta)
		return 0;
	if (g->c->sync_rows) {
		recorded_waits(g);
		return 0;
	}
	w = calloc(g->v->n + 1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->v->n; i++) {
		const struct view_row *r = &g->v->rows[i];

		if (g->in[i] && r->is_gpu && r->pair != VIEW_NO_ROW)
			w[n++] = (struct work){r->end, g->v->rows[r->pair].ts, i, r->pair};
	}
	qsort(w, n, sizeof(*w), by_end);
	for (uint32_t i = 0; i < g->v->n; i++) {
		if (!g->in[i] || !critical_on_host(g, i) ||
		    !(critical_name_of(g, g->v->rows[i].name) & CRITICAL_NAME_WAITS))
			continue;
		g->waited[i] = waited_for(g, i, w, n);
		g->c->inferred += g->waited[i] != UINT32_MAX;
	}
	free(w);
	return 0;
}
