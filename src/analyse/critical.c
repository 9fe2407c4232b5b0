/* SPDX-License-Identifier: Apache-2.0
 *
 * critical.c - the stretch to look at, and the sums over the path found in it.
 */
#include "analyse/critical.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/critical_priv.h"
#include "analyse/nest.h"
#include "analyse/room.h"
#include "analyse/shortname.h"
#include "base/mem.h"

const char *const critical_bound_names[CRITICAL_BOUNDS] = {
	[CRITICAL_NONE] = "",
	[CRITICAL_CPU] = "cpu_bound",
	[CRITICAL_DATA_LOADING] = "data_loading",
	[CRITICAL_COMPUTE] = "gpu_compute_bound",
	[CRITICAL_COMMUNICATION] = "gpu_communication_bound",
	[CRITICAL_KERNEL_GAP] = "gpu_kernel_kernel_overhead",
	[CRITICAL_LAUNCH_DELAY] = "gpu_kernel_launch_overhead",
};

const char *const critical_edge_names[] = {
	[CRITICAL_OPERATOR] = "critical_path_operator",
	[CRITICAL_DEPENDENCY] = "critical_path_dependency",
	[CRITICAL_LAUNCH] = "critical_path_kernel_launch_delay",
	[CRITICAL_KERNEL_KERNEL] = "critical_path_kernel_kernel_delay",
	[CRITICAL_SYNC] = "critical_path_sync_dependency",
};

static const struct {
	const char *name;
	uint8_t hta, exact;
} calls[] = {
	{"cudaLaunchKernel", CRITICAL_NAME_LAUNCH | CRITICAL_NAME_LOCK, CRITICAL_NAME_LOCK},
	{"cudaHostAlloc", CRITICAL_NAME_LOCK, CRITICAL_NAME_LOCK},
	{"cudaLaunchKernelExC", CRITICAL_NAME_LAUNCH, 0},
	{"cuLaunchKernel", CRITICAL_NAME_LAUNCH, 0},
	{"cuLaunchKernelEx", CRITICAL_NAME_LAUNCH, 0},
	{"cudaMemsetAsync", CRITICAL_NAME_LAUNCH, 0},
	{"runFunction - job_prep_and_submit_for_execution", CRITICAL_NAME_LAUNCH, 0},
	{"hipLaunchKernel", CRITICAL_NAME_LAUNCH, 0},
	{"hipExtModuleLaunchKernel", CRITICAL_NAME_LAUNCH, 0},
	{"hipMemcpyAsync", CRITICAL_NAME_LAUNCH, CRITICAL_NAME_WAITS},
	{"hipMemsetAsync", CRITICAL_NAME_LAUNCH, 0},
	{"hipMemcpyWithStream", CRITICAL_NAME_LAUNCH, CRITICAL_NAME_WAITS},
	{"cudaMemcpyAsync", CRITICAL_NAME_LAUNCH | CRITICAL_NAME_LOCK | CRITICAL_NAME_BLOCKING,
	 CRITICAL_NAME_LOCK | CRITICAL_NAME_WAITS},
	{"cudaMemcpy", CRITICAL_NAME_BLOCKING, CRITICAL_NAME_WAITS},
	{"cudaDeviceSynchronize", CRITICAL_NAME_BLOCKING, CRITICAL_NAME_WAITS},
	{"cudaStreamSynchronize", CRITICAL_NAME_BLOCKING, CRITICAL_NAME_WAITS},
	{"cudaEventQuery", CRITICAL_NAME_BLOCKING, 0},
	{"cudaEventSynchronize", CRITICAL_NAME_BLOCKING, CRITICAL_NAME_WAITS},
	{"hipMemcpy", 0, CRITICAL_NAME_WAITS},
	{"hipDeviceSynchronize", 0, CRITICAL_NAME_WAITS},
	{"hipStreamSynchronize", 0, CRITICAL_NAME_WAITS},
	{"hipEventSynchronize", 0, CRITICAL_NAME_WAITS},
};

/* Names that PyTorch gives to waiting for data. */
static const char *const torch_loading[] = {"enumerate(DataLoader)", "enumerate(DataPipe)"};

static bool is_loading(const struct critical_graph *g, const char *text)
{
	const char *const *names = g->o->data_loading;
	size_t n = g->o->n_data_loading;

	if (!n && !g->is_hta) {
		names = torch_loading;
		n = ARRAY_LEN(torch_loading);
	}
	for (size_t i = 0; i < n; i++) {
		if (strstr(text, names[i]))
			return true;
	}
	return false;
}

uint8_t critical_name_of(struct critical_graph *g, uint32_t name)
{
	const char *text;
	uint8_t bits = CRITICAL_NAME_SEEN;

	if (g->names[name])
		return g->names[name];
	text = trace_text(g->v->trace, name, NULL);
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		if (!strcmp(text, calls[i].name))
			bits |= g->is_hta ? calls[i].hta : calls[i].exact;
	}
	if (strstr(text, "forward"))
		bits |= CRITICAL_NAME_FORWARD;
	if (strstr(text, "autograd"))
		bits |= CRITICAL_NAME_AUTOGRAD;
	if (is_loading(g, text))
		bits |= CRITICAL_NAME_DATA_LOADING;
	g->names[name] = bits;
	return bits;
}

uint32_t critical_linked(const struct critical_graph *g, uint32_t row, bool to_sync)
{
	const struct view_row *r = &g->v->rows[row];
	struct view_link all = {0};

	if (r->correlation != TRACE_NONE)
		all = view_linked(g->v, r->correlation);
	for (size_t i = 0; i < all.n; i++) {
		uint8_t cat = g->v->rows[all.rows[i]].cat;

		if (to_sync ? cat == TRACE_CAT_CUDA_SYNC
			    : cat == TRACE_CAT_CUDA_RUNTIME || cat == TRACE_CAT_CUDA_DRIVER)
			return all.rows[i];
	}
	return VIEW_NO_ROW;
}

uint32_t critical_partner(const struct critical_graph *g, uint32_t row)
{
	const struct view_row *r = &g->v->rows[row];

	if (!g->is_hta && r->cat == TRACE_CAT_CUDA_SYNC)
		return critical_linked(g, row, false);
	return r->pair;
}

int32_t critical_stream(const struct critical_graph *g, uint32_t row)
{
	const struct view_row *r = &g->v->rows[row];

	if (g->is_hta || r->cat != TRACE_CAT_CUDA_SYNC)
		return r->stream;
	return trace_block(g->v->trace, r->row / TRACE_BLOCK_ROWS)
		->stream[r->row % TRACE_BLOCK_ROWS];
}

bool critical_on_host(const struct critical_graph *g, uint32_t row)
{
	return nest_is_call(g->v, &g->v->rows[row]);
}

bool critical_has_nodes(const struct critical_graph *g, uint32_t row)
{
	return row != UINT32_MAX && g->start[row] != UINT32_MAX;
}

int critical_add(struct critical_graph *g, uint32_t from, uint32_t to, enum critical_edge type,
		 bool weighs, uint32_t attributed)
{
	bool is_span = type == CRITICAL_OPERATOR || type == CRITICAL_KERNEL_KERNEL;
	struct critical_arc *a;

	if (from == to)
		return 0;
	if (room_for(&g->arcs, g->n_arcs, &g->cap_arcs, sizeof(*a)) < 0)
		return -ENOMEM;
	a = &g->arcs[g->n_arcs++];
	*a = (struct critical_arc){from,          to,    is_span ? attributed : UINT32_MAX,
				   (uint8_t)type, false, 0};
	if (weighs && type != CRITICAL_DEPENDENCY && type != CRITICAL_SYNC)
		a->ns = g->nodes[to].ts - g->nodes[from].ts;
	return 0;
}

/* ---- the window ---------------------------------------------------------------------- */

struct place {
	uint32_t index, row;
};

static int by_place(const void *pa, const void *pb)
{
	const struct place *a = pa, *b = pb;

	return a->index < b->index ? -1 : a->index > b->index;
}

static int find_window(struct critical_graph *g, struct err *e)
{
	const struct view *v = g->v;
	const char *want = g->o->annotation;
	struct place *places = NULL;
	size_t n = 0, cap = 0;

	for (uint32_t i = 0; i < v->n; i++) {
		uint32_t row = v->table ? v->table[i] : i;
		const struct view_row *r = &v->rows[row];

		if (!g->is_hta && !critical_on_host(g, row))
			continue;
		if (!strstr(trace_text(v->trace, r->name, NULL), want))
			continue;
		if (room_for(&places, n, &cap, sizeof(*places)) < 0) {
			free(places);
			return -ENOMEM;
		}
		places[n] = (struct place){v->table ? (uint32_t)n : r->index, row};
		n++;
	}
	if (n <= g->o->first) {
		free(places);
		return err_set(e, -ENOENT,
			       "no annotation %u with \"%s\" in its name: there are %zu; name "
			       "another, or take the whole trace with \"\"",
			       g->o->first, want, n);
	}
	qsort(places, n, sizeof(*places), by_place);
	g->c->from = INT64_MAX;
	g->c->to = INT64_MIN;
	for (size_t i = g->o->first; i < n && i <= g->o->last; i++) {
		const struct view_row *r = &v->rows[places[i].row];

		g->c->from = r->ts < g->c->from ? r->ts : g->c->from;
		g->c->to = r->end > g->c->to ? r->end : g->c->to;
	}
	free(places);
	return 0;
}

static bool in_window(const struct critical_graph *g, const struct view_row *r)
{
	return r->ts >= g->c->from && r->ts <= g->c->to && r->end > r->ts;
}

/* Calls that begin inside, the device work that they launched, and waits of streams. */
static void clip(struct critical_graph *g)
{
	const struct view *v = g->v;
	uint32_t wait = trace_find(v->trace, "Stream Wait Event");

	for (uint32_t i = 0; i < v->n; i++) {
		const struct view_row *r = &v->rows[i];
		uint32_t p = critical_partner(g, i);

		g->c->sync_rows += r->cat == TRACE_CAT_CUDA_SYNC;
		if (critical_on_host(g, i)) {
			if (!in_window(g, r))
				continue;
			g->in[i] = true;
			if (g->is_hta && p != VIEW_NO_ROW && !critical_on_host(g, p))
				g->in[p] = true;
		} else if (wait && r->name == wait) {
			g->in[i] = true;
		} else if (!g->is_hta && p != VIEW_NO_ROW) {
			g->in[i] = critical_on_host(g, p) && in_window(g, &v->rows[p]);
		}
	}
}

/* ---- sums ------------------------------------------------------------------------------ */

static uint8_t bound_of(struct critical_graph *g, const struct critical_arc *a)
{
	const struct view_row *r;
	const char *name;
	size_t len;
	char *shorter;
	bool is_comm;

	if (a->type == CRITICAL_KERNEL_KERNEL)
		return CRITICAL_KERNEL_GAP;
	if (a->type == CRITICAL_LAUNCH)
		return CRITICAL_LAUNCH_DELAY;
	if (a->type != CRITICAL_OPERATOR || a->row == UINT32_MAX)
		return CRITICAL_NONE;
	r = &g->v->rows[a->row];
	if (critical_on_host(g, a->row))
		return critical_name_of(g, r->name) & CRITICAL_NAME_DATA_LOADING
			       ? CRITICAL_DATA_LOADING
			       : CRITICAL_CPU;
	name = trace_text(g->v->trace, r->name, &len);
	shorter = malloc(len + 1);
	if (shorter)
		shortname_of(name, len, shorter);
	is_comm = view_class_of(shorter && g->is_hta ? shorter : name, r->cat, g->v->rule) ==
		  VIEW_COMMUNICATION;
	free(shorter);
	return is_comm ? CRITICAL_COMMUNICATION : CRITICAL_COMPUTE;
}

static int by_name(const void *pa, const void *pb)
{
	const struct critical_hot *a = pa, *b = pb;

	if (a->name != b->name)
		return a->name < b->name ? -1 : 1;
	return (int)a->bound - (int)b->bound;
}

static int by_time(const void *pa, const void *pb)
{
	const struct critical_hot *a = pa, *b = pb;

	if (a->ns != b->ns)
		return a->ns > b->ns ? -1 : 1;
	return by_name(pa, pb);
}

static int sum_up(struct critical_graph *g)
{
	struct critical_result *c = g->c;
	size_t n = 0, kept = 0;

	c->hot = calloc(c->n_path + 1, sizeof(*c->hot));
	if (!c->hot)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_path; i++) {
		struct critical_link *l = &c->path[i];
		struct critical_arc a = {.row = l->row, .type = l->type};
		uint32_t row = l->row != UINT32_MAX ? l->row : l->to;

		l->bound = bound_of(g, &a);
		c->share[l->bound].links++;
		c->share[l->bound].ns += l->ns;
		if (l->bound != CRITICAL_NONE)
			c->hot[n++] =
				(struct critical_hot){g->v->rows[row].name, l->bound, 1, l->ns};
	}
	qsort(c->hot, n, sizeof(*c->hot), by_name);
	for (size_t i = 0; i < n; i++) {
		if (kept && !by_name(&c->hot[kept - 1], &c->hot[i])) {
			c->hot[kept - 1].links++;
			c->hot[kept - 1].ns += c->hot[i].ns;
		} else {
			c->hot[kept++] = c->hot[i];
		}
	}
	qsort(c->hot, kept, sizeof(*c->hot), by_time);
	c->n_hot = kept;
	return 0;
}

/* ---- all of it --------------------------------------------------------------------------- */

static int prepare(struct critical_graph *g)
{
	size_t n = g->v->n + 1;

	g->names = calloc((size_t)trace_texts(g->v->trace) + 1, 1);
	g->in = calloc(n, sizeof(*g->in));
	g->start = malloc(n * sizeof(*g->start));
	g->end = malloc(n * sizeof(*g->end));
	g->queue = malloc(n * sizeof(*g->queue));
	g->waited = malloc(n * sizeof(*g->waited));
	if (!g->names || !g->in || !g->start || !g->end || !g->queue || !g->waited)
		return -ENOMEM;
	memset(g->start, 0xff, n * sizeof(*g->start));
	memset(g->end, 0xff, n * sizeof(*g->end));
	memset(g->waited, 0xff, n * sizeof(*g->waited));
	for (size_t i = 0; i < n; i++)
		g->queue[i] = INT32_MIN;
	return 0;
}

int critical_new(struct view *v, const struct critical_options *o, struct critical_result **ret,
		 struct err *e)
{
	struct critical_graph g = {.v = v, .o = o, .is_hta = v->rule != VIEW_EXACT};
	int r;

	g.c = calloc(1, sizeof(*g.c));
	r = g.c ? prepare(&g) : -ENOMEM;
	if (r == 0 && o->annotation[0]) {
		r = find_window(&g, e);
	} else if (r == 0) {
		g.c->from = v->first;
		g.c->to = v->last;
	}
	if (r == 0) {
		g.c->ok = true;
		g.c->why = "";
		clip(&g);
		r = critical_waits(&g);
	}
	if (r == 0)
		r = critical_host(&g);
	if (r == 0)
		r = critical_device(&g);
	if (r == 0)
		r = critical_walk(&g);
	if (r == 0)
		r = sum_up(&g);
	free(g.names);
	free(g.in);
	free(g.start);
	free(g.end);
	free(g.nodes);
	free(g.arcs);
	free(g.queue);
	free(g.waited);
	if (r < 0) {
		critical_free(g.c);
		return r;
	}
	*ret = g.c;
	return 0;
}

void critical_free(struct critical_result *c)
{
	if (!c)
		return;
	free(c->path);
	free(c->hot);
	free(c);
}
