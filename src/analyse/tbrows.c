/* SPDX-License-Identifier: Apache-2.0
 *
 * tbrows.c - picks, times, sorts. The sort is by radix on the time in ns: rows of a trace come
 * nearly in order but for the GPU's, which are behind the host's.
 */
#include "analyse/tbrows.h"

#include "analyse/idmap.h"
#include "analyse/tbnames.h"
#include "base/mem.h"

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
	uint64_t key; /* ts, ordered as unsigned */
	uint32_t row; /* of the trace */
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

/* All rows that are wanted, in the file's order. */
static struct tbrows_key *tbrows_pick(struct tbrows *b, uint64_t *ret_varies, bool *ret_sorted)
{
	uint64_t rows = trace_rows(b->trace), at;
	struct tbrows_key *keys = xrealloc(NULL, rows + 1, sizeof(*keys)), *to;
	const struct trace_block *k = NULL;
	int64_t min = INT64_MAX;
	uint32_t i;
	uint8_t type;

	*ret_varies = 0;
	*ret_sorted = true;
	for (at = 0; at < rows; at++) {
		i = (uint32_t)(at % TRACE_BLOCK_ROWS);
		if (!i)
			k = trace_block(b->trace, (uint32_t)(at / TRACE_BLOCK_ROWS));
		if (!k)
			break;
		type = tbrows_type_of(b, k, i);
		if (type == TBROWS_SKIP)
			continue;
		to = &keys[b->n++];
		to->key = (uint64_t)k->ts[i] ^ (UINT64_C(1) << 63);
		to->row = (uint32_t)at;
		to->type = type;
		*ret_varies |= to->key ^ keys[0].key;
		*ret_sorted = *ret_sorted && (to == keys || to[-1].key <= to->key);
		min = k->ts[i] < min ? k->ts[i] : min;
	}
	if (b->variant == TBROWS_EXACT && b->n)
		b->zero_ns = min;
	return keys;
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
static void tbrows_gather(struct tbrows *b, const struct tbrows_key *keys)
{
	uint64_t rows = trace_rows(b->trace), at;
	uint32_t *place = xrealloc(NULL, rows + 1, sizeof(*place));
	const struct trace_block *k = NULL;
	struct tbrows_row *to;
	size_t i;

	memset(place, 0xff, (rows + 1) * sizeof(*place));
	for (i = 0; i < b->n; i++)
		place[keys[i].row] = (uint32_t)i;
	for (at = 0; at < rows; at++) {
		if (at % TRACE_BLOCK_ROWS == 0)
			k = trace_block(b->trace, (uint32_t)(at / TRACE_BLOCK_ROWS));
		if (place[at] == UINT32_MAX || !k)
			continue;
		to = &b->rows[place[at]];
		tbrows_fill(b, to, k, (uint32_t)(at % TRACE_BLOCK_ROWS));
		to->row = (uint32_t)at;
		to->type = keys[place[at]].type;
	}
	free(place);
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

/* Window and counts. */
static void tbrows_measure(struct tbrows *b)
{
	uint32_t window = trace_find(b->trace, "PyTorch Profiler (0)");
	const struct trace_memory *m;
	const struct tbrows_row *r;
	size_t i, n;

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
	m = trace_memories(b->trace, &n);
	for (i = 0; i < n; i++) {
		if ((!i && !b->n) || tbrows_time(b, m[i].ts) < b->profiler_start)
			b->profiler_start = tbrows_time(b, m[i].ts);
	}
}

int64_t tbrows_device(const struct tbrows *b, const struct tbrows_row *r)
{
	int64_t device = r->args ? trace_args(b->trace, r->args)->device : TRACE_NONE;

	if (device == TRACE_NONE && b->variant == TBROWS_EXACT)
		device = trace_track(b->trace, r->track)->pid;
	return device;
}

int tbrows_new(struct trace *t, enum tbrows_variant variant, struct tbrows **ret)
{
	struct tbrows *b = xcalloc(1, sizeof(*b));
	struct tbrows_key *keys;
	uint64_t varies;
	bool sorted;

	b->trace = t;
	b->variant = variant;
	b->per_us = variant == TBROWS_PLUGIN ? 1 : 1000;
	b->names = xcalloc((size_t)trace_texts(t) + 1, sizeof(*b->names));
	keys = tbrows_pick(b, &varies, &sorted);
	if (!sorted)
		keys = tbrows_sort(keys, b->n, varies);
	b->rows = xrealloc(NULL, b->n + 1, sizeof(*b->rows));
	tbrows_gather(b, keys);
	free(keys);
	tbrows_lanes(b);
	tbrows_measure(b);
	*ret = b;
	return 0;
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
