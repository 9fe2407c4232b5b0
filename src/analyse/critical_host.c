/* SPDX-License-Identifier: Apache-2.0
 *
 * critical_host.c - the host's part of the graph: two nodes a call, chained as the calls of
 * each thread nest, and the lock that some calls of the CUDA runtime share.
 */
#include "analyse/critical_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/nest.h"

static bool makes_nodes(struct critical_graph *g, uint32_t row)
{
	const struct view_row *r = &g->v->rows[row];

	if (!g->in[row])
		return false;
	if (r->cat == TRACE_CAT_CPU_OP || r->cat == TRACE_CAT_CUDA_RUNTIME ||
	    r->cat == TRACE_CAT_CUDA_DRIVER)
		return true;
	if (g->is_hta) /* any device row with a correlation, its partner or none */
		return r->stream != TRACE_NONE && r->partner != UINT32_MAX;
	return (r->is_gpu && critical_partner(g, row) != UINT32_MAX) ||
	       critical_name_of(g, r->name) & CRITICAL_NAME_DATA_LOADING;
}

struct key {
	int64_t ts;
	uint32_t index, row;
	bool is_start;
};

static int by_key(const void *pa, const void *pb)
{
	const struct key *a = pa, *b = pb;

	if (a->ts != b->ts)
		return a->ts < b->ts ? -1 : 1;
	if (a->index != b->index)
		return a->index < b->index ? -1 : 1;
	if (a->is_start != b->is_start)
		return a->is_start ? -1 : 1;
	return a->row < b->row ? -1 : a->row > b->row;
}

static int make_nodes(struct critical_graph *g)
{
	struct key *keys;
	size_t n = 0;

	for (uint32_t i = 0; i < g->v->n; i++)
		n += makes_nodes(g, i) ? 2 : 0;
	keys = calloc(n + 1, sizeof(*keys));
	g->nodes = calloc(n + 1, sizeof(*g->nodes));
	if (!keys || !g->nodes || n > UINT32_MAX) {
		free(keys);
		return -ENOMEM;
	}
	n = 0;
	for (uint32_t i = 0; i < g->v->n; i++) {
		const struct view_row *r = &g->v->rows[i];

		if (!makes_nodes(g, i))
			continue;
		keys[n++] = (struct key){r->ts, r->index, i, true};
		keys[n++] = (struct key){r->end, r->index, i, false};
	}
	qsort(keys, n, sizeof(*keys), by_key);
	for (uint32_t k = 0; k < n; k++) {
		uint32_t *of = keys[k].is_start ? g->start : g->end;

		g->nodes[k] = (struct critical_node){keys[k].ts, keys[k].row, keys[k].is_start};
		of[keys[k].row] = k;
	}
	free(keys);
	g->n_nodes = (uint32_t)n;
	g->c->nodes = n;
	return 0;
}

static bool is_lock(struct critical_graph *g, uint32_t node)
{
	return critical_name_of(g, g->v->rows[g->nodes[node].row].name) & CRITICAL_NAME_LOCK;
}

/* Calls that overlap had to wait for each other: who returned first had the lock first. */
static int chain_lock(struct critical_graph *g)
{
	uint32_t *open = malloc(((size_t)g->n_nodes + 1) * sizeof(*open));
	uint32_t n_open = 0, last = UINT32_MAX;
	int r = open ? 0 : -ENOMEM;

	for (uint32_t k = 0; k < g->n_nodes && r == 0; k++) {
		if (!is_lock(g, k))
			continue;
		if (g->nodes[k].is_start) {
			open[n_open++] = k;
			last = k;
			continue;
		}
		while (n_open && r == 0) {
			uint32_t from = open[--n_open], row = g->nodes[k].row;
			bool is_own = g->nodes[from].row == row;

			r = critical_add(g, from, k,
					 is_own ? CRITICAL_OPERATOR : CRITICAL_DEPENDENCY, true,
					 row);
		}
		if (r == 0 && last != UINT32_MAX && !g->nodes[last].is_start)
			r = critical_add(g, last, k, CRITICAL_DEPENDENCY, true, UINT32_MAX);
		last = k;
	}
	free(open);
	return r;
}

/* ---- calls ---------------------------------------------------------------------------- */

struct walk {
	struct critical_graph *g;
	const struct nest *t;
	uint32_t last;   /* node; UINT32_MAX */
	uint32_t parent; /* row that holds it; UINT32_MAX */
	uint32_t depth;
};

static bool shares_lock(struct critical_graph *g, uint32_t a, uint32_t b)
{
	return is_lock(g, a) && is_lock(g, b) && (g->nodes[a].is_start || !g->nodes[b].is_start);
}

/* Whose time lies between two nodes of one thread. */
static uint32_t owner(const struct walk *w, uint32_t to)
{
	const struct critical_node *a = &w->g->nodes[w->last], *b = &w->g->nodes[to];

	if (a->is_start)
		return a->row;
	return b->is_start ? w->parent : b->row;
}

static uint32_t row_above(const struct walk *w, uint32_t k)
{
	int32_t p = w->t->parent[k];

	return p < 0 ? UINT32_MAX : w->t->row[p];
}

static bool is_zero(struct critical_graph *g, uint32_t row)
{
	if (critical_name_of(g, g->v->rows[row].name) & CRITICAL_NAME_BLOCKING)
		return true;
	return g->waited[row] != UINT32_MAX;
}

static int enter(struct walk *w, uint32_t k)
{
	uint32_t to = w->g->start[w->t->row[k]];
	int r = 0;

	if (w->last != UINT32_MAX && !shares_lock(w->g, w->last, to))
		r = critical_add(w->g, w->last, to,
				 w->depth ? CRITICAL_OPERATOR : CRITICAL_DEPENDENCY, true,
				 owner(w, to));
	w->last = to;
	w->parent = row_above(w, k);
	w->depth++;
	return r;
}

static int leave(struct walk *w, uint32_t k)
{
	uint32_t row = w->t->row[k], to = w->g->end[row];
	int r = 0;

	if (w->last != UINT32_MAX && !shares_lock(w->g, w->last, to))
		r = critical_add(w->g, w->last, to, CRITICAL_OPERATOR, !is_zero(w->g, row),
				 owner(w, to));
	w->last = to;
	w->parent = row_above(w, k);
	w->depth--;
	return r;
}

static int walk_thread(struct critical_graph *g, const struct nest *t, const struct nest_thread *th)
{
	struct walk w = {g, t, UINT32_MAX, UINT32_MAX, 0};
	int32_t open = -1;
	int r = 0;

	for (uint32_t k = th->first; k <= th->end && r == 0; k++) {
		int32_t to = k < th->end ? t->parent[k] : -1;

		while (open >= 0 && open != to && r == 0) {
			if (critical_has_nodes(g, t->row[open]))
				r = leave(&w, (uint32_t)open);
			open = t->parent[open];
		}
		if (k == th->end || r < 0)
			break;
		if (critical_has_nodes(g, t->row[k]))
			r = enter(&w, k);
		open = (int32_t)k;
	}
	return r;
}

/* ---- threads ---------------------------------------------------------------------------- */

struct threads {
	struct critical_graph *g;
	bool *is_device; /* by track: has rows of streams in the window */
	uint16_t *join;
};

static bool of_host(void *arg, uint32_t row, const struct view_row *r)
{
	const struct threads *th = arg;

	return th->g->in[row] && critical_on_host(th->g, row) && !th->is_device[th->join[r->track]];
}

/* The only thread number whose operators' names have that word; TRACE_NONE. */
static int64_t only_thread(struct critical_graph *g, enum critical_name word)
{
	int64_t found = TRACE_NONE;

	for (uint32_t i = 0; i < g->v->n; i++) {
		const struct view_row *r = &g->v->rows[i];
		int64_t tid;

		if (!g->in[i] ||
		    (r->cat != TRACE_CAT_CPU_OP && r->cat != TRACE_CAT_USER_ANNOTATION))
			continue;
		if (!(critical_name_of(g, r->name) & word))
			continue;
		tid = trace_track(g->v->trace, r->track)->tid;
		if (found != TRACE_NONE && tid != found)
			return TRACE_NONE;
		found = tid;
	}
	return found;
}

/* The thread of the backward pass continues that of the forward pass. */
static void join_threads(struct critical_graph *g, uint16_t *join, uint32_t n)
{
	int64_t forward = only_thread(g, CRITICAL_NAME_FORWARD);
	int64_t backward = only_thread(g, CRITICAL_NAME_AUTOGRAD);

	for (uint32_t i = 0; i < n; i++)
		join[i] = (uint16_t)i;
	if (forward <= 0 || backward <= 0 || forward == backward)
		return;
	for (uint32_t i = 0; i < n; i++) {
		const struct trace_track *b = trace_track(g->v->trace, (uint16_t)i);

		for (uint32_t k = 0; k < n && b->tid == backward; k++) {
			const struct trace_track *f = trace_track(g->v->trace, (uint16_t)k);

			if (f->tid == forward && f->pid_text == b->pid_text)
				join[i] = (uint16_t)k;
		}
	}
}

int critical_host(struct critical_graph *g)
{
	uint32_t n = trace_tracks(g->v->trace);
	struct threads th = {g, calloc((size_t)n + 1, sizeof(bool)),
			     calloc((size_t)n + 1, sizeof(uint16_t))};
	struct nest_options o = {.order = g->is_hta ? NEST_HTA_STACK : NEST_EXACT,
				 .want = of_host,
				 .arg = &th,
				 .join = th.join};
	struct nest *t = NULL;
	int r = th.is_device && th.join ? make_nodes(g) : -ENOMEM;

	if (r == 0)
		r = chain_lock(g);
	if (r == 0) {
		join_threads(g, th.join, n);
		for (uint32_t i = 0; i < g->v->n; i++) {
			if (g->in[i] && !critical_on_host(g, i))
				th.is_device[th.join[g->v->rows[i].track]] = true;
		}
		r = nest_new(g->v, &o, &t);
	}
	for (size_t i = 0; r == 0 && i < t->n_threads; i++)
		r = walk_thread(g, t, &t->threads[i]);
	nest_free(t);
	free(th.is_device);
	free(th.join);
	return r;
}
