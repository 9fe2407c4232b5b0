/* SPDX-License-Identifier: Apache-2.0
 *
 * tbrows.c - picks, times, sorts. The sort is by radix on the time in ns: rows of a trace come
 * nearly in order but for the GPU's, which are behind the host's.
 */
#include "analyse/tbrows.h"

#include "analyse/idmap.h"
#include "analyse/tbnames.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TBROWS_SKIP TBROWS_TYPES

/* By category: type in the exact variant, type in the plugin's. */
static const uint8_t tbrows_types[TRACE_CATS][2] = {
	[TRACE_CAT_OTHER] = {TBROWS_SKIP, TBROWS_SKIP},
	[TRACE_CAT_CPU_OP] = {TBROWS_OPERATOR, TBROWS_OPERATOR},
	[TRACE_CAT_USER_ANNOTATION] = {TBROWS_ANNOTATION, TBROWS_ANNOTATION},
	[TRACE_CAT_GPU_USER_ANNOTATION] = {TBROWS_GPU_ANNOTATION, TBROWS_ANNOTATION},
	[TRACE_CAT_KERNEL] = {TBROWS_KERNEL, TBROWS_KERNEL},
	[TRACE_CAT_GPU_MEMCPY] = {TBROWS_MEMCPY, TBROWS_MEMCPY},
	[TRACE_CAT_GPU_MEMSET] = {TBROWS_MEMSET, TBROWS_MEMSET},
	[TRACE_CAT_CUDA_RUNTIME] = {TBROWS_RUNTIME, TBROWS_RUNTIME},
	[TRACE_CAT_CUDA_DRIVER] = {TBROWS_RUNTIME, TBROWS_SKIP},
	[TRACE_CAT_CUDA_SYNC] = {TBROWS_SYNC, TBROWS_SKIP},
	[TRACE_CAT_CUDA_EVENT] = {TBROWS_SKIP, TBROWS_SKIP},
	[TRACE_CAT_CUDA_PROFILER_RANGE] = {TBROWS_SKIP, TBROWS_SKIP},
	[TRACE_CAT_PYTHON_FUNCTION] = {TBROWS_PYTHON, TBROWS_PYTHON},
	[TRACE_CAT_OVERHEAD] = {TBROWS_OVERHEAD, TBROWS_SKIP},
	[TRACE_CAT_AC2G] = {TBROWS_SKIP, TBROWS_SKIP},
	[TRACE_CAT_TRACE] = {TBROWS_TRACE, TBROWS_TRACE},
	[TRACE_CAT_MTIA_RUNTIME] = {TBROWS_RUNTIME, TBROWS_RUNTIME},
	[TRACE_CAT_MTIA_CCP_EVENTS] = {TBROWS_KERNEL, TBROWS_SKIP},
	[TRACE_CAT_MTIA_INSIGHT] = {TBROWS_SKIP, TBROWS_SKIP},
	[TRACE_CAT_COLLECTIVE_COMM] = {TBROWS_SKIP, TBROWS_SKIP},
	[TRACE_CAT_XPU_RUNTIME] = {TBROWS_RUNTIME, TBROWS_RUNTIME},
	[TRACE_CAT_XPU_DRIVER] = {TBROWS_RUNTIME, TBROWS_SKIP},
	[TRACE_CAT_HPU_OP] = {TBROWS_KERNEL, TBROWS_SKIP},
	[TRACE_CAT_PRIVATEUSE1_RUNTIME] = {TBROWS_RUNTIME, TBROWS_RUNTIME},
	[TRACE_CAT_PRIVATEUSE1_DRIVER] = {TBROWS_RUNTIME, TBROWS_SKIP},
	[TRACE_CAT_EXTERNAL_CORRELATION] = {TBROWS_SKIP, TBROWS_SKIP},
	[TRACE_CAT_CPU_INSTANT_EVENT] = {TBROWS_SKIP, TBROWS_SKIP},
};

double tbrows_us(int64_t ns)
{
	/* Below 2^53 the division rounds once; above, the long double holds the quotient's
	 * integer part and three decimals more closely than two doubles can tell apart. */
	if (ns > -(INT64_C(1) << 53) && ns < (INT64_C(1) << 53))
		return (double)ns / 1000.0;
	return (double)((long double)(ns / 1000) + (long double)(ns % 1000) / 1000.0L);
}

double tbrows_time(const struct tbrows *b, int64_t ns)
{
	return b->variant == TBROWS_PLUGIN ? tbrows_us(ns) : (double)(ns - b->zero_ns);
}

uint16_t tbrows_names(const struct tbrows *b, uint32_t name)
{
	if (!(b->names[name] & TBNAMES_KNOWN))
		b->names[name] = tbnames_flags(trace_text(b->trace, name, NULL));
	return b->names[name];
}

/* Type of row i of the block, TBROWS_SKIP if it is not wanted. */
static uint8_t tbrows_type_of(const struct tbrows *b, const struct trace_block *k, uint32_t i)
{
	bool plugin = b->variant == TBROWS_PLUGIN;
	uint8_t type = tbrows_types[k->cat[i]][plugin];
	uint8_t flags = k->flags[i];

	if (!(flags & TRACE_HAS_DUR) || !(flags & TRACE_HAS_CAT))
		return TBROWS_SKIP;
	if ((flags & TRACE_BROKEN) && !plugin)
		return TBROWS_SKIP;
	if ((flags & TRACE_PAIRED) && plugin)
		return TBROWS_SKIP;
	if ((type == TBROWS_OPERATOR || type == TBROWS_ANNOTATION) &&
	    (tbrows_names(b, k->name[i]) & TBNAMES_STEP))
		return TBROWS_STEP;
	if (type == TBROWS_PYTHON && k->args[i] &&
	    trace_args(b->trace, k->args[i])->python_module != TRACE_NONE)
		return TBROWS_MODULE;
	return type;
}

struct tbrows_key {
	uint64_t key;   /* ts, ordered as unsigned */
	uint32_t place; /* among those that are wanted, in the file's order */
	uint8_t type;
};

#define TBROWS_DIGIT 11 /* bits that the sort takes at once */

/* Sort by key, stable, digit by digit; digits equal in all keys are left out. */
static struct tbrows_key *tbrows_sort(struct tbrows_key *keys, size_t n, uint64_t varies)
{
	struct tbrows_key *from = keys, *to = xcalloc(n + 1, sizeof(*to)), *swap;
	size_t count[1 << TBROWS_DIGIT], at, i, j;
	const unsigned mask = (1 << TBROWS_DIGIT) - 1;
	unsigned shift;

	for (shift = 0; shift < 64; shift += TBROWS_DIGIT) {
		if (!((varies >> shift) & mask))
			continue;
		memset(count, 0, sizeof(count));
		for (i = 0; i < n; i++)
			count[(from[i].key >> shift) & mask]++;
		for (i = at = 0; i <= mask; i++) {
			j = count[i];
			count[i] = at;
			at += j;
		}
		for (i = 0; i < n; i++)
			to[count[(from[i].key >> shift) & mask]++] = from[i];
		swap = from;
		from = to;
		to = swap;
	}
	free(to);
	return from;
}

/* Rows that are wanted, in the file's order. */
struct tbrows_picked {
	struct tbrows_key *keys;
	uint32_t *rows; /* of the trace */
	uint64_t varies;
	bool sorted;
	struct idmap launches, ops; /* of a window: correlations, external ids */
};

bool tbrows_is_in(const struct tbrows *b, int64_t ts)
{
	return (!b->from && !b->to) || (ts >= b->from && ts < b->to);
}

/* Launches and operators of a window. */
static void tbrows_learn(const struct tbrows *b, struct tbrows_picked *p,
			 const struct trace_block *k, uint32_t i)
{
	switch (tbrows_type_of(b, k, i)) {
	case TBROWS_RUNTIME:
		if (k->correlation[i] != TRACE_NONE)
			*idmap_at(&p->launches, k->correlation[i]) = 1;
		break;
	case TBROWS_OPERATOR:
	case TBROWS_STEP:
	case TBROWS_ANNOTATION:
		if (k->external[i] > 0)
			*idmap_at(&p->ops, k->external[i]) = 1;
		break;
	default:
		break;
	}
}

static bool tbrows_is_wanted(const struct tbrows *b, const struct tbrows_picked *p,
			     const struct trace_block *k, uint32_t i)
{
	uint8_t type;

	if (tbrows_is_in(b, k->ts[i]))
		return true;
	if (!b->is_window)
		return false;
	type = tbrows_types[k->cat[i]][0];
	if (type != TBROWS_KERNEL && type != TBROWS_MEMCPY && type != TBROWS_MEMSET)
		return false;
	return (k->correlation[i] != TRACE_NONE &&
		idmap_get(&p->launches, k->correlation[i]) != IDMAP_NONE) ||
	       (k->external[i] > 0 && idmap_get(&p->ops, k->external[i]) != IDMAP_NONE);
}

/* What is wanted of a part, and how many rows may be. */
static int tbrows_count(struct tbrows *b, struct tbrows_picked *p, bool learn, uint64_t *ret)
{
	uint64_t rows = trace_rows(b->trace), n = 0;
	const struct trace_block *k;
	uint32_t at, i, end;

	for (at = 0; (uint64_t)at * TRACE_BLOCK_ROWS < rows; at++) {
		k = trace_block(b->trace, at);
		if (!k)
			return -EIO;
		end = trace_block_rows(b->trace, at);
		for (i = 0; i < end; i++) {
			if (learn && tbrows_is_in(b, k->ts[i]))
				tbrows_learn(b, p, k, i);
			n += !learn && tbrows_is_wanted(b, p, k, i);
		}
	}
	*ret = n;
	return 0;
}

/* Room for them. */
static int tbrows_room(struct tbrows *b, struct tbrows_picked *p)
{
	uint64_t n = trace_rows(b->trace);
	int err = 0;

	idmap_init(&p->launches);
	idmap_init(&p->ops);
	if (b->is_window)
		err = tbrows_count(b, p, true, &n);
	if (!err && (b->from || b->to))
		err = tbrows_count(b, p, false, &n);
	p->keys = xrealloc(NULL, n + 1, sizeof(*p->keys));
	p->rows = xrealloc(NULL, n + 1, sizeof(*p->rows));
	return err;
}

static int tbrows_pick(struct tbrows *b, struct tbrows_picked *p)
{
	uint64_t rows = trace_rows(b->trace), at;
	const struct trace_block *k = NULL;
	int64_t min = INT64_MAX;
	struct tbrows_key *to;
	uint32_t i;
	uint8_t type;
	int err = tbrows_room(b, p);

	if (err)
		return err;
	p->varies = 0;
	p->sorted = true;
	for (at = 0; at < rows; at++) {
		i = (uint32_t)(at % TRACE_BLOCK_ROWS);
		if (!i)
			k = trace_block(b->trace, (uint32_t)(at / TRACE_BLOCK_ROWS));
		if (!k)
			return -EIO;
		type = tbrows_type_of(b, k, i);
		if (type == TBROWS_SKIP)
			continue;
		min = k->ts[i] < min ? k->ts[i] : min;
		if (!tbrows_is_wanted(b, p, k, i))
			continue;
		p->rows[b->n] = (uint32_t)at;
		to = &p->keys[b->n];
		to->key = (uint64_t)k->ts[i] ^ (UINT64_C(1) << 63);
		to->place = (uint32_t)b->n++;
		to->type = type;
		p->varies |= to->key ^ p->keys[0].key;
		p->sorted = p->sorted && (to == p->keys || to[-1].key <= to->key);
	}
	if (b->variant == TBROWS_EXACT && min != INT64_MAX)
		b->zero_ns = min;
	return 0;
}

/* Fill row `to` from the trace. */
static void tbrows_fill(struct tbrows *b, struct tbrows_row *to, const struct trace_block *k,
			uint32_t i)
{
	to->ts = tbrows_time(b, k->ts[i]);
	to->dur = b->variant == TBROWS_PLUGIN ? tbrows_us(k->dur[i]) : (double)k->dur[i];
	to->end = to->ts + to->dur;
	to->correlation = k->correlation[i];
	to->external = k->external[i];
	to->name = k->name[i];
	to->args = k->args[i];
	to->track = k->track[i];
}

/* Rows in time's order from the sorted keys. Blocks are walked in the file's order, so that
 * packed and spilled ones are read once. */
static int tbrows_gather(struct tbrows *b, const struct tbrows_picked *p)
{
	uint32_t *to = xrealloc(NULL, b->n + 1, sizeof(*to)), at = UINT32_MAX;
	const struct trace_block *k = NULL;
	size_t i;

	for (i = 0; i < b->n; i++) {
		to[p->keys[i].place] = (uint32_t)i;
		b->rows[i].type = p->keys[i].type;
	}
	for (i = 0; i < b->n; i++) {
		if (p->rows[i] / TRACE_BLOCK_ROWS != at) {
			at = p->rows[i] / TRACE_BLOCK_ROWS;
			k = trace_block(b->trace, at);
		}
		if (!k)
			break;
		tbrows_fill(b, &b->rows[to[i]], k, p->rows[i] % TRACE_BLOCK_ROWS);
		b->rows[to[i]].row = p->rows[i];
	}
	free(to);
	return i < b->n ? -EIO : 0;
}

/* Threads: the plugin knows them by tid alone, however it is written. */
static int64_t tbrows_lane_key(const struct tbrows *b, uint16_t track)
{
	const struct trace_track *k = trace_track(b->trace, track);

	if (b->variant == TBROWS_PLUGIN && k->tid != TRACE_NONE && !k->tid_is_stream)
		return k->tid;
	return INT64_MIN + 2 + track;
}

static void tbrows_lanes(struct tbrows *b)
{
	uint32_t tracks = trace_tracks(b->trace), i;
	int32_t *lane = xcalloc(tracks + 1, sizeof(*lane));
	struct idmap ids;
	uint32_t *at;
	size_t r;

	idmap_init(&ids);
	for (i = 0; i < tracks; i++) {
		at = idmap_at(&ids, tbrows_lane_key(b, (uint16_t)i));
		if (*at == IDMAP_NONE)
			*at = b->n_lanes++;
		lane[i] = (int32_t)*at;
	}
	for (r = 0; r < b->n; r++)
		b->rows[r].lane = b->rows[r].track < tracks ? lane[b->rows[r].track] : 0;
	if (!b->n_lanes)
		b->n_lanes = 1;
	idmap_done(&ids);
	b->lanes = lane;
}

int32_t tbrows_lane(const struct tbrows *b, uint16_t track)
{
	return track < trace_tracks(b->trace) ? b->lanes[track] : -1;
}

static void tbrows_measure_memory(struct tbrows *b)
{
	uint64_t n = b->from || b->to ? 0 : trace_memories(b->trace), i;
	const struct trace_memory *m;

	for (i = 0; i < n && (m = trace_memory_at(b->trace, i)) != NULL; i++) {
		if ((!i && !b->n) || tbrows_time(b, m->ts) < b->profiler_start)
			b->profiler_start = tbrows_time(b, m->ts);
	}
}

/* Window and counts. */
static void tbrows_measure(struct tbrows *b)
{
	uint32_t window = trace_find(b->trace, "PyTorch Profiler (0)");
	const struct tbrows_row *r;
	size_t i;

	for (i = 0; i < b->n; i++) {
		r = &b->rows[i];
		b->count[r->type]++;
		if (!i || r->ts < b->first)
			b->first = r->ts;
		if (!i || r->end > b->last)
			b->last = r->end;
	}
	b->start_ts = b->first;
	b->end_ts = b->last;
	b->profiler_start = b->first;
	for (i = 0; window && i < b->n; i++) {
		r = &b->rows[i];
		if (r->type == TBROWS_TRACE && r->name == window) {
			b->start_ts = r->ts;
			b->end_ts = r->end;
		}
	}
	tbrows_measure_memory(b);
}

int64_t tbrows_device(const struct tbrows *b, const struct tbrows_row *r)
{
	int64_t device = r->args ? trace_args(b->trace, r->args)->device : TRACE_NONE;

	if (device == TRACE_NONE && b->variant == TBROWS_EXACT)
		device = trace_track(b->trace, r->track)->pid;
	return device;
}

static int tbrows_make(struct tbrows *b, struct tbrows **ret)
{
	struct tbrows_picked p;
	int err;

	b->per_us = b->variant == TBROWS_PLUGIN ? 1 : 1000;
	b->names = xcalloc((size_t)trace_texts(b->trace) + 1, sizeof(*b->names));
	err = tbrows_pick(b, &p);
	idmap_done(&p.launches);
	idmap_done(&p.ops);
	if (!err) {
		if (!p.sorted)
			p.keys = tbrows_sort(p.keys, b->n, p.varies);
		b->rows = xrealloc(NULL, b->n + 1, sizeof(*b->rows));
		err = tbrows_gather(b, &p);
	}
	free(p.keys);
	free(p.rows);
	if (err) {
		tbrows_free(b);
		return err;
	}
	tbrows_lanes(b);
	tbrows_measure(b);
	*ret = b;
	return 0;
}

int tbrows_new(struct trace *t, enum tbrows_variant variant, struct tbrows **ret)
{
	struct tbrows *b = xcalloc(1, sizeof(*b));

	b->trace = t;
	b->variant = variant;
	return tbrows_make(b, ret);
}

static int tbrows_new_some(struct trace *t, int64_t from, int64_t to, bool is_window,
			   struct tbrows **ret)
{
	struct tbrows *b = xcalloc(1, sizeof(*b));

	b->trace = t;
	b->variant = TBROWS_EXACT;
	b->from = from;
	b->to = to;
	b->is_window = is_window;
	return tbrows_make(b, ret);
}

int tbrows_new_part(struct trace *t, int64_t from, int64_t to, struct tbrows **ret)
{
	return tbrows_new_some(t, from, to, false, ret);
}

int tbrows_new_window(struct trace *t, int64_t from, int64_t to, struct tbrows **ret)
{
	return tbrows_new_some(t, from, to, true, ret);
}

void tbrows_free(struct tbrows *b)
{
	if (!b)
		return;
	free(b->rows);
	free(b->names);
	free(b->lanes);
	free(b);
}
