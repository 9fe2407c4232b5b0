/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict_evidence.c - which operators, kernels, calls and annotations stand behind the
 * shares of one rank, and the measures that the rules look at.
 */
#include "analyse/verdict_priv.h"

#include "analyse/idmap.h"
#include "analyse/room.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Who is around a row: the innermost operator, outside of one that reads a number of the device,
 * and the innermost Python function; text ids, 0 none. */
struct around {
	uint32_t op, python;
	bool has_op, has_item;
};

/* Open calls of one thread, the innermost last, each with what is around a row in it. */
#define OPEN_MAX 64
struct open_calls {
	struct {
		int64_t end;
		struct around inside;
	} at[OPEN_MAX];
	unsigned n;
};

#define SLOW_KERNEL_NS 1000000 /* mean of a call */

/* Long pieces of other host code, each with the shortest row that covers most of it. */
#define PIECES_MAX 256
struct piece {
	struct view_span span;
	uint32_t name;
	int64_t dur;
};

/* Collectives of one name. */
struct comm {
	int64_t least, us, count; /* us: the shortest, all */
};

struct evidence {
	struct verdict_work *w;
	struct idmap index; /* kind << 32 | name -> place in items */
	struct verdict_item *items;
	size_t n, cap;
	struct idmap comm_index; /* name -> place in comms */
	struct comm *comms;
	size_t n_comms, cap_comms;
	struct open_calls *open; /* by track */
	struct piece pieces[PIECES_MAX];
	size_t n_pieces;
	int64_t kernel_ns, compute_ns, tensor_ns, copy_ns, pageable_ns;
	uint64_t kernels, graphs, slow;
	bool compiled, single_process, data_parallel, overflow;
};

static struct verdict_item *item_at(struct evidence *e, int64_t key, enum verdict_kind kind,
				    uint32_t name)
{
	uint32_t *at = idmap_at(&e->index, key);

	if (*at == IDMAP_NONE) {
		if (room_for(&e->items, e->n, &e->cap, sizeof(*e->items))) {
			e->overflow = true;
			return NULL;
		}
		e->items[e->n] = (struct verdict_item){.kind = kind, .name = name};
		*at = (uint32_t)e->n++;
	}
	return &e->items[*at];
}

static struct verdict_item *item(struct evidence *e, enum verdict_kind kind, uint32_t name)
{
	return item_at(e, (int64_t)kind << 32 | name, kind, name);
}

static void count(struct evidence *e, enum verdict_kind kind, uint32_t name, int64_t ns)
{
	struct verdict_item *i = ns > 0 ? item(e, kind, name) : NULL;

	if (i) {
		i->ns += ns;
		i->count++;
	}
}

/* Part of the row within the windows. */
static int64_t clipped(const struct verdict_work *w, const struct view_row *row)
{
	int64_t a = row->ts > w->from ? row->ts : w->from;
	int64_t b = row->end < w->to ? row->end : w->to;

	return b > a ? b - a : 0;
}

static void count_comm(struct evidence *e, const struct view_row *row)
{
	uint32_t *at = idmap_at(&e->comm_index, row->name);
	int64_t us = (row->end - row->ts) / 1000;
	struct comm *c;

	if (*at == IDMAP_NONE) {
		if (room_for(&e->comms, e->n_comms, &e->cap_comms, sizeof(*e->comms))) {
			e->overflow = true;
			return;
		}
		e->comms[e->n_comms] = (struct comm){.least = INT64_MAX};
		*at = (uint32_t)e->n_comms++;
	}
	c = &e->comms[*at];
	us = us < IDMAP_NONE ? us : IDMAP_NONE - 1;
	c->least = us < c->least ? us : c->least;
	c->us += us;
	c->count++;
}

static void count_gpu(struct evidence *e, const struct view_row *row)
{
	enum verdict_kind kind = verdict_gpu_kind(e->w, row);
	unsigned says = verdict_says(e->w, row->name);
	int64_t ns = clipped(e->w, row);

	count(e, kind, row->name, ns);
	if (kind == VERDICT_COMMUNICATION) {
		count(e, VERDICT_STRAGGLER, row->name,
		      verdict_within(&e->w->layer[LAYER_WAIT], row->ts, row->end));
		if (ns)
			count_comm(e, row);
	}
	if (kind == VERDICT_COMPUTE) {
		e->compute_ns += ns;
		e->tensor_ns += says & SAYS_TENSOR ? ns : 0;
	}
	if (kind == VERDICT_COPY) {
		e->copy_ns += ns;
		e->pageable_ns += says & SAYS_PAGEABLE ? ns : 0;
	}
	if (row->cat == TRACE_CAT_KERNEL) {
		e->kernel_ns += row->end - row->ts;
		e->kernels++;
	}
}

/* Close what has ended on this thread, then tell who is around the row. */
static struct around around(struct open_calls *o, const struct view_row *row)
{
	while (o->n && o->at[o->n - 1].end <= row->ts)
		o->n--;
	return o->n ? o->at[o->n - 1].inside : (struct around){0};
}

static void open_call(struct open_calls *o, const struct view_row *row, struct around a,
		      bool is_item)
{
	if (o->n == OPEN_MAX || row->end <= row->ts)
		return;
	if (row->cat == TRACE_CAT_PYTHON_FUNCTION) {
		a.python = row->name;
	} else {
		a.has_op = true;
		a.op = a.has_item ? a.op : row->name;
		a.has_item |= is_item;
	}
	o->at[o->n].end = row->end;
	o->at[o->n++].inside = a;
}

/* Waits of one call at different places are different things to change. */
static int64_t sync_key(uint32_t name, uint32_t op, uint32_t stack)
{
	uint64_t h = (uint64_t)name * 0x9e3779b97f4a7c15ull;

	h = (h ^ op) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 31 ^ stack) * 0x94d049bb133111ebull;
	return (int64_t)VERDICT_SYNC << 56 | (int64_t)(h >> 8);
}

static void count_sync(struct evidence *e, const struct view_row *row, struct around a)
{
	uint32_t stack = trace_args(e->w->t, row->args)->stack;
	struct verdict_item *i;

	stack = stack ? stack : a.python;
	i = item_at(e, sync_key(row->name, a.op, stack), VERDICT_SYNC, row->name);
	if (!i)
		return;
	i->ns += clipped(e->w, row);
	i->count++;
	i->within = a.op;
	i->stack = stack;
}

static void count_host(struct evidence *e, const struct view_row *row)
{
	struct verdict_work *w = e->w;
	struct open_calls *o = &e->open[row->track];
	enum verdict_host kind = verdict_host_kind(w, row);
	enum verdict_kind busy = w->has_gpu ? VERDICT_LAUNCH : VERDICT_COMPUTE;
	struct around a = around(o, row);

	if (kind == HOST_SYNC) {
		count_sync(e, row, a);
		w->r->syncs++;
	} else if (kind == HOST_LAUNCH || kind == HOST_GRAPH) {
		w->r->launches++;
		e->graphs += kind == HOST_GRAPH;
	} else if (kind == HOST_LOADER) {
		count(e, VERDICT_DATA, row->name,
		      verdict_within(&w->idle[VERDICT_DATA], row->ts, row->end));
	} else if (kind == HOST_COLLECTIVE && !w->has_gpu) {
		count(e, VERDICT_COMMUNICATION, row->name, clipped(w, row));
	} else if (row->cat == TRACE_CAT_CPU_OP && kind != HOST_MARK && !a.has_op) {
		count(e, busy, row->name, verdict_within(&w->idle[busy], row->ts, row->end));
	}
	if (row->cat == TRACE_CAT_CPU_OP && kind != HOST_MARK)
		open_call(o, row, a, kind == HOST_ITEM);
}

/* The longest pieces of other host code. */
static int longer(const void *a, const void *b)
{
	const struct view_span *x = &((const struct piece *)a)->span;
	const struct view_span *y = &((const struct piece *)b)->span;
	int64_t dx = x->end - x->ts, dy = y->end - y->ts;

	return (dx < dy) - (dx > dy);
}

static int earlier(const void *a, const void *b)
{
	int64_t x = ((const struct piece *)a)->span.ts, y = ((const struct piece *)b)->span.ts;

	return (x > y) - (x < y);
}

static int find_pieces(struct evidence *e)
{
	const struct verdict_spans *l = &e->w->layer[LAYER_HOST];
	struct piece *all = malloc((l->n ? l->n : 1) * sizeof(*all));

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < l->n; i++)
		all[i] = (struct piece){l->s[i], 0, INT64_MAX};
	qsort(all, l->n, sizeof(*all), longer);
	e->n_pieces = l->n < PIECES_MAX ? l->n : PIECES_MAX;
	memcpy(e->pieces, all, e->n_pieces * sizeof(*all));
	qsort(e->pieces, e->n_pieces, sizeof(*all), earlier);
	free(all);
	return 0;
}

/* A row that covers 4/5 of a piece and is shorter than what was found so far names it. */
static void name_pieces(struct evidence *e, const struct view_row *row)
{
	size_t lo = 0, hi = e->n_pieces;

	if (row->end - row->ts < VERDICT_HOST_NS * 4 / 5)
		return;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (e->pieces[mid].span.end <= row->ts)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < e->n_pieces && e->pieces[lo].span.ts < row->end; lo++) {
		struct piece *p = &e->pieces[lo];
		int64_t a = p->span.ts > row->ts ? p->span.ts : row->ts;
		int64_t b = p->span.end < row->end ? p->span.end : row->end;

		if ((b - a) * 5 >= (p->span.end - p->span.ts) * 4 && row->end - row->ts < p->dur) {
			p->dur = row->end - row->ts;
			p->name = row->name;
		}
	}
}

static void note_name(struct evidence *e, const struct view_row *row)
{
	unsigned says = verdict_says(e->w, row->name);

	e->compiled |= (says & SAYS_COMPILED) != 0;
	e->single_process |= (says & SAYS_SINGLE_PROCESS) != 0;
	e->data_parallel |= (says & SAYS_DATA_PARALLEL) != 0;
}

static void count_row(struct evidence *e, const struct view_row *row)
{
	struct open_calls *o = &e->open[row->track];

	if (verdict_is_gpu(row)) {
		count_gpu(e, row);
		return;
	}
	if (row->cat == TRACE_CAT_OVERHEAD)
		count(e, VERDICT_PROFILER, row->name, clipped(e->w, row));
	if (row->cat == TRACE_CAT_PYTHON_FUNCTION) {
		open_call(o, row, around(o, row), false);
	}
	if (row->cat == TRACE_CAT_PYTHON_FUNCTION ||
	    (verdict_is_host(row) && verdict_host_kind(e->w, row) == HOST_MARK &&
	     !(verdict_says(e->w, row->name) & SAYS_STEP)))
		name_pieces(e, row);
	if (verdict_is_host(row)) {
		note_name(e, row);
		count_host(e, row);
	}
}

static int larger(const void *a, const void *b)
{
	const struct verdict_item *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

/* The largest of each kind, in place. */
static void keep_largest(struct evidence *e)
{
	struct verdict_rank *r = e->w->r;
	size_t n = 0, of_kind = 0;

	for (size_t i = 0; i < e->n; i++)
		e->slow += e->items[i].kind <= VERDICT_MEMORY && e->w->has_gpu &&
			   e->items[i].ns > SLOW_KERNEL_NS * (int64_t)e->items[i].count;
	if (e->n)
		qsort(e->items, e->n, sizeof(*e->items), larger);
	for (size_t i = 0; i < e->n; i++) {
		of_kind = n && e->items[n - 1].kind == e->items[i].kind ? of_kind + 1 : 0;
		if (of_kind < VERDICT_ITEMS_MAX)
			e->items[n++] = e->items[i];
	}
	r->items = e->items;
	r->n_items = n;
	e->items = NULL;
}

/* Part of communication time above the shortest of its name. */
static double comm_spread(const struct evidence *e)
{
	int64_t all = 0, least = 0;

	for (size_t i = 0; i < e->n_comms; i++) {
		all += e->comms[i].us;
		least += e->comms[i].least * e->comms[i].count;
	}
	return all ? 1 - (double)least / (double)all : NAN;
}

/* Peak of allocated memory of a device over its size. */
static double peak(struct trace *t)
{
	uint64_t n_memory = trace_memories(t);
	const struct trace_memory *m;
	size_t n_devices;
	const struct trace_device *d = trace_devices(t, &n_devices);
	double best = NAN;

	for (uint64_t i = 0; i < n_memory && (m = trace_memory_at(t, i)) != NULL; i++)
		for (size_t k = 0; k < n_devices; k++) {
			double part;

			if (m->device_type != 1 || m->device != d[k].id || d[k].memory <= 0 ||
			    m->allocated < 0)
				continue;
			part = (double)m->allocated / (double)d[k].memory;
			if (isnan(best) || part > best)
				best = part;
		}
	return best;
}

static int64_t in_windows(const struct verdict_work *w, enum verdict_layer l)
{
	int64_t sum = 0;

	for (size_t i = 0; i < w->r->n_steps; i++)
		sum += verdict_within(&w->layer[l], w->r->steps[i].ts, w->r->steps[i].end);
	return sum;
}

static double part(int64_t of, int64_t all)
{
	return all > 0 ? (double)of / (double)all : NAN;
}

static void fill_measures(struct evidence *e)
{
	struct verdict_work *w = e->w;
	struct verdict_rank *r = w->r;
	double *m = r->facts.measure, steps = r->n_steps ? (double)r->n_steps : 1;
	int64_t total = r->facts.shares.total, comm = in_windows(w, LAYER_COMM), hidden = 0;
	int64_t gpu = r->facts.shares.ns[VERDICT_COMPUTE] + r->facts.shares.ns[VERDICT_MEMORY];

	r->sync_wait = in_windows(w, LAYER_SYNC);
	m[VERDICT_M_STACKS] = w->has_python;
	m[VERDICT_M_PROFILER_ROWS] =
		part(verdict_within(&w->idle[VERDICT_PROFILER], w->from, w->to), total);
	m[VERDICT_M_COMPILED] = e->compiled;
	m[VERDICT_M_GRAPHS] = e->graphs > 0;
	m[VERDICT_M_WORKERS_ZERO] = e->single_process;
	m[VERDICT_M_DATA_PARALLEL] = e->data_parallel;
	if (!w->has_gpu)
		return;
	m[VERDICT_M_SLOW_KERNELS] = (double)e->slow;
	for (size_t i = 0; i < w->layer[LAYER_COMM].n; i++) {
		const struct view_span *s = &w->layer[LAYER_COMM].s[i];

		hidden += s->end - s->ts -
			  verdict_within(&w->idle[VERDICT_COMMUNICATION], s->ts, s->end) -
			  verdict_within(&w->idle[VERDICT_STRAGGLER], s->ts, s->end);
	}
	m[VERDICT_M_OVERLAP] = part(hidden, comm);
	m[VERDICT_M_GPU_BUSY] = part(r->busy, r->expected * (r->n_steps ? (int64_t)r->n_steps : 1));
	if (m[VERDICT_M_GPU_BUSY] > 1) /* expected is rounded down */
		m[VERDICT_M_GPU_BUSY] = 1;
	m[VERDICT_M_SYNCS_PER_STEP] = r->has_marks ? (double)r->syncs / steps : NAN;
	m[VERDICT_M_SYNC_WAIT] = part(r->sync_wait, total);
	m[VERDICT_M_LAUNCHES_PER_STEP] = r->has_marks ? (double)r->launches / steps : NAN;
	m[VERDICT_M_KERNEL_US] = e->kernels ? (double)e->kernel_ns / 1e3 / (double)e->kernels : NAN;
	m[VERDICT_M_MEMORY_OF_GPU] = part(r->facts.shares.ns[VERDICT_MEMORY], gpu);
	m[VERDICT_M_COMM_SPREAD] = comm_spread(e);
	m[VERDICT_M_PEAK_OF_DEVICE] = peak(w->t);
	m[VERDICT_M_PAGEABLE_COPY] = part(e->pageable_ns, e->copy_ns);
	m[VERDICT_M_TENSOR_CORE] = part(e->tensor_ns, e->compute_ns);
}

int verdict_evidence(struct verdict_work *w)
{
	struct evidence *e = calloc(1, sizeof(*e));
	int rc = -ENOMEM;

	if (!e)
		return rc;
	e->w = w;
	idmap_init(&e->index);
	idmap_init(&e->comm_index);
	e->open = calloc((size_t)trace_tracks(w->t) + 1, sizeof(*e->open));
	if (e->open && !find_pieces(e)) {
		for (size_t i = 0; i < w->v->n; i++)
			if (w->v->rows[i].end > w->from && w->v->rows[i].ts < w->to)
				count_row(e, &w->v->rows[i]);
		for (size_t i = 0; i < e->n_pieces; i++)
			count(e, VERDICT_HOST, e->pieces[i].name,
			      verdict_within(&w->idle[VERDICT_HOST], e->pieces[i].span.ts,
					     e->pieces[i].span.end));
		for (size_t i = 0; i < w->r->n_steps; i++)
			count(e, VERDICT_PROFILER, 0, w->r->steps[i].shares.ns[VERDICT_PROFILER]);
		rc = e->overflow ? -ENOMEM : 0;
	}
	if (!rc) {
		keep_largest(e);
		fill_measures(e);
	}
	free(e->items);
	free(e->comms);
	free(e->open);
	idmap_done(&e->comm_index);
	idmap_done(&e->index);
	free(e);
	return rc;
}
