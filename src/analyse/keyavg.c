/* SPDX-License-Identifier: Apache-2.0
 *
 * keyavg.c - events of the host nested by thread as torch.autograd's profiler nests them, work
 * of the device given to the operator of its external id, then everything summed by key.
 */
#include "analyse/keyavg.h"

#include "analyse/flops.h"
#include "analyse/idmap.h"
#include "analyse/keyavg_priv.h"
#include "analyse/tbnames.h"
#include "base/map.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define KEYAVG_STACK_DEPTH 5

/* Events that key_averages() leaves out. */
static const char *const keyavg_hidden[] = {"[memory]",
					    "[OutOfMemory]",
					    "profiler::_record_function_enter",
					    "profiler::_record_function_enter_new",
					    "profiler::_record_function_exit",
					    "aten::is_leaf",
					    "aten::output_nr",
					    "aten::_version",
					    NULL};

static bool keyavg_is_host(uint8_t type)
{
	return type == TBROWS_OPERATOR || type == TBROWS_STEP || type == TBROWS_ANNOTATION ||
	       type == TBROWS_RUNTIME || type == TBROWS_OVERHEAD;
}

static bool keyavg_is_device(uint8_t type)
{
	return type == TBROWS_KERNEL || type == TBROWS_MEMCPY || type == TBROWS_MEMSET ||
	       type == TBROWS_GPU_ANNOTATION || type == TBROWS_SYNC;
}

/* What a name tells, looked up once per name. */
static uint8_t keyavg_trait(struct keyavg_build *w, uint32_t name)
{
	const char *text;
	const char *const *h;

	if (w->traits[name])
		return w->traits[name];
	text = trace_text(w->b->trace, name, NULL);
	w->traits[name] = KEYAVG_KNOWN | (flops_has(text) ? KEYAVG_FLOPS : 0);
	for (h = keyavg_hidden; *h; h++) {
		if (!strcmp(text, *h))
			w->traits[name] |= KEYAVG_HIDDEN;
	}
	return w->traits[name];
}

bool keyavg_is_hidden(struct keyavg_build *w, uint32_t name)
{
	return keyavg_trait(w, name) & KEYAVG_HIDDEN;
}

/* Operators by external id; the first of an id has it. */
static void keyavg_ids(struct keyavg_build *w)
{
	const struct tbrows_row *r;
	uint32_t *at;
	size_t i;

	for (i = 0; i < w->b->n; i++) {
		r = &w->b->rows[i];
		if ((r->type != TBROWS_OPERATOR && r->type != TBROWS_STEP &&
		     r->type != TBROWS_ANNOTATION) ||
		    r->external <= 0 || keyavg_is_hidden(w, r->name))
			continue;
		at = idmap_at(&w->ids, r->external);
		if (*at == IDMAP_NONE)
			*at = (uint32_t)i;
		if (r->type == TBROWS_STEP && w->main_lane < 0)
			w->main_lane = r->lane;
	}
}

/* The lane that an event is nested on. Launches are on that of their operator; those without
 * one on that of the steps, whichever thread made them, as PyTorch has it (by_thread: on
 * their own). */
static int32_t keyavg_lane(const struct keyavg_build *w, const struct tbrows_row *r)
{
	uint32_t op;

	if (r->type != TBROWS_RUNTIME && r->type != TBROWS_OVERHEAD)
		return r->lane;
	op = r->external > 0 ? idmap_get(&w->ids, r->external) : IDMAP_NONE;
	if (op != IDMAP_NONE)
		return w->b->rows[op].lane;
	return w->o.by_thread || w->main_lane < 0 ? r->lane : w->main_lane;
}

static bool keyavg_is_event(struct keyavg_build *w, const struct tbrows_row *r)
{
	return keyavg_is_host(r->type) && !keyavg_is_hidden(w, r->name);
}

/* Of events of one lane that begin together the longer first; else they stay. */
static void keyavg_order(struct keyavg_build *w)
{
	struct keyavg_event *e = w->events, one;
	size_t i, k;

	for (i = 1; i < w->n; i++) {
		if (e[i].lane != e[i - 1].lane || KEYAVG_TS(w, &e[i]) != KEYAVG_TS(w, &e[i - 1]))
			continue;
		one = e[i];
		for (k = i; k > 0 && e[k - 1].lane == one.lane &&
			    KEYAVG_TS(w, &e[k - 1]) == KEYAVG_TS(w, &one) &&
			    KEYAVG_END(w, &e[k - 1]) < KEYAVG_END(w, &one);
		     k--)
			e[k] = e[k - 1];
		e[k] = one;
	}
}

/* Events of the host by lane and time: rows are by time already. */
static void keyavg_events(struct keyavg_build *w)
{
	const struct tbrows_row *rows = w->b->rows;
	size_t *at = xcalloc((size_t)w->b->n_lanes + 1, sizeof(*at)), i;
	struct keyavg_event *e;

	for (i = 0; i < w->b->n; i++) {
		if (!keyavg_is_event(w, &rows[i]))
			continue;
		at[keyavg_lane(w, &rows[i]) + 1]++;
		w->n++;
	}
	for (i = 1; i <= w->b->n_lanes; i++)
		at[i] += at[i - 1];
	w->events = xcalloc(w->n + 1, sizeof(*w->events));
	for (i = 0; i < w->b->n; i++) {
		if (!keyavg_is_event(w, &rows[i]))
			continue;
		e = &w->events[at[keyavg_lane(w, &rows[i])]++];
		e->row = (uint32_t)i;
		e->lane = keyavg_lane(w, &rows[i]);
		e->parent = KEYAVG_NIL;
	}
	free(at);
	keyavg_order(w);
	w->event_of = xrealloc(NULL, w->b->n + 1, sizeof(*w->event_of));
	memset(w->event_of, 0xff, (w->b->n + 1) * sizeof(*w->event_of));
	for (i = 0; i < w->n; i++)
		w->event_of[w->events[i].row] = (uint32_t)i;
}

/* The innermost event before that holds this one whole is its parent. */
static void keyavg_nest(struct keyavg_build *w)
{
	struct keyavg_event *e = w->events;
	uint32_t i, top = KEYAVG_NIL;

	for (i = 0; i < w->n; i++) {
		if (i && e[i].lane != e[i - 1].lane)
			top = KEYAVG_NIL;
		while (top != KEYAVG_NIL && (KEYAVG_TS(w, &e[i]) >= KEYAVG_END(w, &e[top]) ||
					     KEYAVG_END(w, &e[i]) > KEYAVG_END(w, &e[top])))
			top = e[top].parent;
		e[i].parent = top;
		if (top != KEYAVG_NIL)
			e[top].children++;
		top = i;
	}
}

/* All steps have one name. */
static bool keyavg_same_name(const struct keyavg_build *w, uint32_t a, uint32_t b)
{
	const struct tbrows_row *x = &w->b->rows[w->events[a].row];
	const struct tbrows_row *y = &w->b->rows[w->events[b].row];

	return x->name == y->name || (x->type == TBROWS_STEP && y->type == TBROWS_STEP);
}

/* An event whose only child has its name is one with it: the child goes, the event keeps its
 * own times and takes the child's work and children. */
static void keyavg_make_one(struct keyavg_build *w)
{
	struct keyavg_event *e = w->events;
	uint32_t i, p;

	/* Parents come before their children, so a child's parent is final when it is met. */
	for (i = 0; i < w->n; i++) {
		while (e[i].parent != KEYAVG_NIL && e[e[i].parent].is_gone)
			e[i].parent = e[e[i].parent].parent;
		p = e[i].parent;
		if (p == KEYAVG_NIL || e[p].children != 1 || !keyavg_same_name(w, p, i))
			continue;
		e[i].is_gone = true;
		e[p].children = e[i].children;
	}
}

/* For launches without external id the innermost operator around them on their thread, as
 * event; by row. PyTorch gives their work to nobody. */
static uint32_t *keyavg_around(const struct keyavg_build *w)
{
	const struct tbrows_row *rows = w->b->rows;
	uint32_t *around = xrealloc(NULL, w->b->n + 1, sizeof(*around));
	uint32_t *top = xrealloc(NULL, w->b->n_lanes, sizeof(*top)), at;
	const struct keyavg_event *e = w->events;
	size_t i;

	memset(around, 0xff, (w->b->n + 1) * sizeof(*around));
	memset(top, 0xff, w->b->n_lanes * sizeof(*top));
	for (i = 0; i < w->b->n; i++) {
		if (w->event_of[i] == KEYAVG_NIL)
			continue;
		if (e[w->event_of[i]].lane == rows[i].lane && rows[i].type != TBROWS_RUNTIME) {
			top[rows[i].lane] = w->event_of[i];
			continue;
		}
		at = top[rows[i].lane];
		while (at != KEYAVG_NIL && rows[i].end > KEYAVG_END(w, &e[at]))
			at = e[at].parent;
		around[i] = at;
	}
	free(top);
	return around;
}

/* The event of the operator that a row of the device belongs to. */
static uint32_t keyavg_owner(const struct keyavg_build *w, const struct tbrows_row *r,
			     const struct idmap *launches, const uint32_t *around)
{
	const struct tbrows_row *rows = w->b->rows;
	uint32_t op = r->external > 0 ? idmap_get(&w->ids, r->external) : IDMAP_NONE;
	uint32_t launch =
		r->correlation == TRACE_NONE ? IDMAP_NONE : idmap_get(launches, r->correlation);

	if (op == IDMAP_NONE && launch != IDMAP_NONE && rows[launch].external > 0)
		op = idmap_get(&w->ids, rows[launch].external);
	if (op != IDMAP_NONE)
		return w->event_of[op];
	return launch != IDMAP_NONE ? around[launch] : KEYAVG_NIL;
}

/* Give device time to the operator that launched it. */
static void keyavg_work(struct keyavg_build *w)
{
	const struct tbrows_row *rows = w->b->rows, *r;
	uint32_t *around = keyavg_around(w), e;
	struct idmap launches;
	size_t i;

	idmap_init(&launches);
	for (i = 0; i < w->b->n; i++) {
		if (rows[i].type == TBROWS_RUNTIME && rows[i].correlation != TRACE_NONE)
			*idmap_at(&launches, rows[i].correlation) = (uint32_t)i;
	}
	for (i = 0; i < w->b->n; i++) {
		r = &rows[i];
		if (r->type != TBROWS_KERNEL && r->type != TBROWS_MEMCPY &&
		    r->type != TBROWS_MEMSET)
			continue;
		e = keyavg_owner(w, r, &launches, around);
		if (e == KEYAVG_NIL) {
			w->k->lost_kernels++;
			continue;
		}
		w->events[e].device += (int64_t)r->dur;
		if (w->parts)
			keyavg_parts_give(w, r);
	}
	idmap_done(&launches);
	free(around);
}

static void keyavg_bytes_up(struct keyavg_build *w, uint32_t from, uint32_t to)
{
	int k;

	for (k = 0; w->bytes && k < 2; k++)
		w->bytes[to].self[k] -= w->bytes[from].all[k];
}

/* Totals: from the last event to the first, children are behind their parents. */
static void keyavg_totals(struct keyavg_build *w)
{
	struct keyavg_event *e = w->events;
	uint32_t i, p;

	for (i = 0; i < w->n; i++) {
		e[i].self_device = e[i].device;
		e[i].self_host = (int64_t)(KEYAVG_END(w, &e[i]) - KEYAVG_TS(w, &e[i]));
		if (w->bytes)
			memcpy(w->bytes[i].self, w->bytes[i].all, sizeof(w->bytes[i].self));
	}
	for (i = (uint32_t)w->n; i-- > 0;) {
		p = e[i].parent;
		if (p == KEYAVG_NIL)
			continue;
		e[p].device += e[i].device;
		if (e[i].is_gone) {
			e[p].self_device += e[i].self_device;
			continue;
		}
		e[p].self_host -= (int64_t)(KEYAVG_END(w, &e[i]) - KEYAVG_TS(w, &e[i]));
		keyavg_bytes_up(w, i, p);
	}
}

/* ---- by key ------------------------------------------------------------------------------ */

struct keyavg_key {
	uint32_t name, dims, stack;
	uint8_t on_device, is_annotation, zero[2];
};

static struct keyavg_key keyavg_key_of(struct keyavg_build *w, const struct tbrows_row *r,
				       size_t row)
{
	struct keyavg_key key = {.name = r->type == TBROWS_STEP ? UINT32_MAX : r->name};

	key.on_device = keyavg_is_device(r->type);
	key.is_annotation = r->type == TBROWS_STEP || r->type == TBROWS_ANNOTATION ||
			    r->type == TBROWS_GPU_ANNOTATION;
	if (r->type == TBROWS_GPU_ANNOTATION && (tbrows_names(w->b, r->name) & TBNAMES_STEP))
		key.name = UINT32_MAX;
	if ((w->o.group & KEYAVG_SHAPE) && !key.on_device)
		key.dims = trace_args(w->b->trace, r->args)->dims;
	if ((w->o.group & KEYAVG_STACK) && !key.on_device)
		key.stack = keyavg_stack(w, row);
	return key;
}

/* Where the row of a key stands; IDMAP_NONE in it if it is new. */
static uint32_t keyavg_find(struct keyavg_build *w, const struct keyavg_key *key)
{
	uint64_t at;
	uint32_t *slot;

	if (!w->o.group) {
		slot = idmap_at(&w->names,
				(int64_t)key->name << 2 | key->on_device << 1 | key->is_annotation);
		if (*slot != IDMAP_NONE)
			return *slot;
		*slot = (uint32_t)w->k->n;
		return IDMAP_NONE;
	}
	if (map_get(&w->keys, key, sizeof(*key), &at))
		return (uint32_t)at;
	map_put(&w->keys, key, sizeof(*key), w->k->n);
	return IDMAP_NONE;
}

static struct keyavg_row *keyavg_row_at(struct keyavg_build *w, const struct tbrows_row *r,
					size_t row)
{
	struct keyavg_key key = keyavg_key_of(w, r, row);
	uint32_t at = keyavg_find(w, &key);
	struct keyavg *k = w->k;
	struct keyavg_row *to;

	if (at != IDMAP_NONE)
		return &k->rows[at];
	if (k->n == w->cap)
		k->rows = xgrow(k->rows, k->n, &w->cap, sizeof(*k->rows));
	to = &k->rows[k->n++];
	memset(to, 0, sizeof(*to));
	to->name =
		key.name == UINT32_MAX ? "ProfilerStep*" : trace_text(w->b->trace, key.name, NULL);
	to->dims = key.dims;
	to->stack = (const char *)(uintptr_t)key.stack; /* place; made a pointer at the end */
	to->on_device = key.on_device;
	to->is_annotation = key.is_annotation;
	to->is_operator = r->type == TBROWS_OPERATOR;
	return to;
}

static bool keyavg_wanted(const struct keyavg_build *w, const struct tbrows_row *r)
{
	int64_t ts = (int64_t)r->ts + w->b->zero_ns;

	if (!w->o.from && !w->o.to)
		return !w->b->is_window || tbrows_is_in(w->b, ts);
	return ts >= w->o.from && ts < w->o.to;
}

static void keyavg_add_host(struct keyavg_build *w, const struct keyavg_event *e)
{
	const struct tbrows_row *r = &w->b->rows[e->row];
	struct keyavg_row *to = keyavg_row_at(w, r, e->row);

	to->calls++;
	to->host += (int64_t)(KEYAVG_END(w, e) - KEYAVG_TS(w, e));
	to->self_host += e->self_host;
	to->device += e->device;
	to->self_device += e->self_device;
	if (w->bytes) {
		to->cpu_memory += w->bytes[e - w->events].all[0];
		to->self_cpu_memory += w->bytes[e - w->events].self[0];
		to->device_memory += w->bytes[e - w->events].all[1];
		to->self_device_memory += w->bytes[e - w->events].self[1];
	}
	if (r->type == TBROWS_OPERATOR && (keyavg_trait(w, r->name) & KEYAVG_FLOPS))
		to->flops += flops_of(w->b->trace, trace_text(w->b->trace, r->name, NULL),
				      trace_args(w->b->trace, r->args));
}

static void keyavg_add_device(struct keyavg_build *w, const struct tbrows_row *r)
{
	struct keyavg_row *to = keyavg_row_at(w, r, 0);
	/* The file's copies of annotations are a ns wider on both sides than the profiler's. */
	int64_t wider = r->type == TBROWS_GPU_ANNOTATION && r->dur >= 2 ? 2 : 0;

	to->calls++;
	to->device += (int64_t)r->dur - wider;
	to->self_device += (int64_t)r->dur - wider;
}

static void keyavg_sum(struct keyavg_build *w)
{
	const struct tbrows_row *r;
	uint32_t e;
	size_t i;

	for (i = 0; i < w->b->n; i++) {
		r = &w->b->rows[i];
		if (!keyavg_wanted(w, r))
			continue;
		e = w->event_of[i];
		if (e != KEYAVG_NIL && !w->events[e].is_gone)
			keyavg_add_host(w, &w->events[e]);
		if (!keyavg_is_device(r->type))
			continue;
		if (r->type == TBROWS_GPU_ANNOTATION && !w->o.gpu_annotations)
			continue;
		keyavg_add_device(w, r);
	}
}

static void keyavg_finish(struct keyavg_build *w)
{
	struct keyavg *k = w->k;
	struct keyavg_row *r;
	size_t i;

	k->stacks = w->stacks.data;
	for (i = 0; i < k->n; i++) {
		r = &k->rows[i];
		r->stack = w->o.group & KEYAVG_STACK && !r->on_device
				   ? k->stacks + (uintptr_t)r->stack
				   : NULL;
		k->self_host += r->self_host;
		if (r->on_device && !r->is_annotation)
			k->self_device += r->self_device;
		k->flops += r->flops;
		k->has_shapes = k->has_shapes || r->dims || r->flops > 0;
	}
}

void keyavg_make(struct keyavg_build *w)
{
	w->main_lane = -1;
	if (!w->o.stack_depth)
		w->o.stack_depth = KEYAVG_STACK_DEPTH;
	w->k = xcalloc(1, sizeof(*w->k));
	w->traits = xcalloc((size_t)trace_texts(w->b->trace) + 1, 1);
	idmap_init(&w->ids);
	idmap_init(&w->names);
	map_init(&w->keys);
	if (w->parts)
		keyavg_parts_begin(w);
	keyavg_ids(w);
	if (w->parts)
		keyavg_parts_launches(w);
	keyavg_events(w);
	keyavg_nest(w);
	keyavg_make_one(w);
	keyavg_work(w);
	keyavg_memory(w);
	keyavg_totals(w);
	keyavg_stacks(w);
	keyavg_sum(w);
	keyavg_finish(w);
	idmap_done(&w->ids);
	idmap_done(&w->names);
	map_done(&w->keys);
	map_done(&w->stack_ids);
	free(w->traits);
	free(w->events);
	free(w->bytes);
	free(w->event_of);
	free(w->python_of);
}

int keyavg_new(const struct tbrows *b, const struct keyavg_options *o, struct keyavg **ret)
{
	struct keyavg_build w = {.b = b};

	if (b->variant != TBROWS_EXACT)
		return -EINVAL;
	if (o)
		w.o = *o;
	keyavg_make(&w);
	*ret = w.k;
	return 0;
}

void keyavg_free(struct keyavg *k)
{
	if (!k)
		return;
	free(k->rows);
	free(k->stacks);
	free(k);
}
