/* SPDX-License-Identifier: Apache-2.0
 *
 * critical_walk.c - the longest path through the graph, in the order in which networkx
 * would look at its nodes, so that of equal paths the same one is found.
 */
#include "analyse/critical_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Links by their end or by their start, each in order of the first adding. */
struct order {
	uint32_t *first; /* per node, n + 1 */
	uint32_t *arc;
};

struct path {
	struct critical_graph *g;
	struct order in, out;
	uint32_t *nodes; /* in order of their first link */
	uint32_t n_nodes;
	uint32_t *sorted; /* topologically */
	uint32_t n_sorted;
	int64_t *length;
	uint32_t *via; /* arc; UINT32_MAX: the path begins here */
};

static int order_arcs(const struct critical_graph *g, bool by_end, struct order *o)
{
	uint32_t n = g->n_nodes;

	o->first = calloc((size_t)n + 2, sizeof(*o->first));
	o->arc = calloc(g->n_arcs + 1, sizeof(*o->arc));
	if (!o->first || !o->arc)
		return -ENOMEM;
	for (size_t i = 0; i < g->n_arcs; i++)
		o->first[(by_end ? g->arcs[i].to : g->arcs[i].from) + 2]++;
	for (uint32_t i = 2; i < n + 2; i++)
		o->first[i] += o->first[i - 1];
	for (uint32_t i = 0; i < g->n_arcs; i++)
		o->arc[o->first[(by_end ? g->arcs[i].to : g->arcs[i].from) + 1]++] = i;
	return 0;
}

/* A second link between two nodes takes the place of the first (weight and kind), and stands
 * where that stood. */
static int merge_twins(struct critical_graph *g, const struct order *out)
{
	uint32_t *latest = calloc((size_t)g->n_nodes + 1, sizeof(*latest)); /* arc + 1, by end */

	if (!latest)
		return -ENOMEM;
	for (uint32_t k = 0; k < g->n_nodes; k++) {
		for (uint32_t i = out->first[k]; i < out->first[k + 1]; i++) {
			struct critical_arc *b = &g->arcs[out->arc[i]], *a;
			uint32_t known = latest[b->to];

			if (!known || g->arcs[known - 1].from != k) {
				latest[b->to] = out->arc[i] + 1;
				continue;
			}
			a = &g->arcs[known - 1];
			a->ns = b->ns;
			a->type = b->type;
			if (b->row != UINT32_MAX)
				a->row = b->row;
			b->is_old = true;
		}
	}
	free(latest);
	return 0;
}

/* The weight in the path: a negative one is none. HTA looks at whole us. */
static int64_t weight(const struct critical_graph *g, const struct critical_arc *a)
{
	return a->ns <= (g->is_hta ? -1000 : -1) ? 0 : a->ns;
}

static void list_nodes(struct path *p, bool *seen)
{
	for (size_t i = 0; i < p->g->n_arcs; i++) {
		uint32_t ends[2] = {p->g->arcs[i].from, p->g->arcs[i].to};

		for (int k = 0; k < 2; k++) {
			if (!seen[ends[k]])
				p->nodes[p->n_nodes++] = ends[k];
			seen[ends[k]] = true;
		}
	}
}

static void sort_nodes(struct path *p, uint32_t *waiting)
{
	for (size_t i = 0; i < p->g->n_arcs; i++)
		waiting[p->g->arcs[i].to] += !p->g->arcs[i].is_old;
	for (uint32_t i = 0; i < p->n_nodes; i++) {
		if (!waiting[p->nodes[i]])
			p->sorted[p->n_sorted++] = p->nodes[i];
	}
	for (uint32_t i = 0; i < p->n_sorted; i++) {
		uint32_t node = p->sorted[i];

		for (uint32_t k = p->out.first[node]; k < p->out.first[node + 1]; k++) {
			const struct critical_arc *a = &p->g->arcs[p->out.arc[k]];

			if (!a->is_old && !--waiting[a->to])
				p->sorted[p->n_sorted++] = a->to;
		}
	}
}

static uint32_t measure(struct path *p)
{
	uint32_t best = UINT32_MAX;

	for (uint32_t i = 0; i < p->n_sorted; i++) {
		uint32_t node = p->sorted[i];

		p->via[node] = UINT32_MAX;
		for (uint32_t k = p->in.first[node]; k < p->in.first[node + 1]; k++) {
			const struct critical_arc *a = &p->g->arcs[p->in.arc[k]];
			int64_t length = p->length[a->from] + weight(p->g, a);

			if (a->is_old || (p->via[node] != UINT32_MAX && length <= p->length[node]))
				continue;
			p->length[node] = length;
			p->via[node] = p->in.arc[k];
		}
		if (p->length[node] < 0) {
			p->length[node] = 0;
			p->via[node] = UINT32_MAX;
		}
		if (best == UINT32_MAX || p->length[node] > p->length[best])
			best = node;
	}
	return best;
}

static int write_path(struct path *p, uint32_t last)
{
	struct critical_result *c = p->g->c;
	const struct critical_graph *g = p->g;
	size_t n = 0;

	for (uint32_t k = last; p->via[k] != UINT32_MAX; k = g->arcs[p->via[k]].from)
		n++;
	c->path = calloc(n + 1, sizeof(*c->path));
	if (!c->path)
		return -ENOMEM;
	c->n_path = n;
	c->path_nodes = n + 1;
	c->ns = p->length[last];
	for (uint32_t k = last; p->via[k] != UINT32_MAX; k = g->arcs[p->via[k]].from) {
		const struct critical_arc *a = &g->arcs[p->via[k]];
		const struct critical_node *from = &g->nodes[a->from], *to = &g->nodes[a->to];

		c->path[--n] = (struct critical_link){
			from->row, to->row, from->is_start, to->is_start, a->row,
			a->type,   0,       a->ns};
	}
	return 0;
}

static int walk(struct path *p)
{
	struct critical_graph *g = p->g;
	size_t n = (size_t)g->n_nodes + 1;
	bool *seen = calloc(n, sizeof(*seen));
	uint32_t *waiting = calloc(n, sizeof(*waiting)), last;
	int r = -ENOMEM;

	p->nodes = calloc(n, sizeof(*p->nodes));
	p->sorted = calloc(n, sizeof(*p->sorted));
	p->length = calloc(n, sizeof(*p->length));
	p->via = calloc(n, sizeof(*p->via));
	if (!seen || !waiting || !p->nodes || !p->sorted || !p->length || !p->via)
		goto done;
	list_nodes(p, seen);
	sort_nodes(p, waiting);
	g->c->linked_nodes = p->n_nodes;
	for (size_t i = 0; i < g->n_arcs; i++)
		g->c->links += !g->arcs[i].is_old;
	r = 0;
	if (p->n_sorted < p->n_nodes) {
		g->c->ok = false;
		g->c->why = "the dependencies form a cycle: times contradict each other";
	} else if (!p->n_nodes) {
		g->c->ok = false;
		g->c->why = "no operators, launches or device work in the window";
	}
	if (g->c->ok) {
		last = measure(p);
		r = write_path(p, last);
	}
done:
	free(seen);
	free(waiting);
	return r;
}

int critical_walk(struct critical_graph *g)
{
	struct path p = {.g = g};
	int r = order_arcs(g, false, &p.out);

	if (r == 0)
		r = merge_twins(g, &p.out);
	if (r == 0)
		r = order_arcs(g, true, &p.in);
	if (r == 0)
		r = walk(&p);
	free(p.in.first);
	free(p.in.arc);
	free(p.out.first);
	free(p.out.arc);
	free(p.nodes);
	free(p.sorted);
	free(p.length);
	free(p.via);
	return r;
}
