/* SPDX-License-Identifier: Apache-2.0
 *
 * keyavg_more.c - memory per operator, stacks and the order of rows, for keyavg.c.
 */
#include "analyse/keyavg_priv.h"

#include "base/mem.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define KEYAVG_STACKS_MAX (1u << 30) /* bytes of all stacks; what does not fit is "" */

/* ---- memory ---------------------------------------------------------------------------- */

struct keyavg_change {
	int64_t ts;
	int64_t sum[2]; /* bytes so far on this lane, this one not counted */
	int64_t bytes;
	int32_t lane;
	bool on_device;
};

static int keyavg_by_lane(const void *pa, const void *pb)
{
	const struct keyavg_change *a = pa, *b = pb;

	if (a->lane != b->lane)
		return a->lane < b->lane ? -1 : 1;
	return (a->ts > b->ts) - (a->ts < b->ts);
}

/* First change of the lane at or behind ts (after: only behind). */
static size_t keyavg_change_at(const struct keyavg_change *c, size_t n, int32_t lane, int64_t ts,
			       bool after)
{
	size_t lo = 0, hi = n, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (c[mid].lane < lane ||
		    (c[mid].lane == lane && (c[mid].ts < ts || (after && c[mid].ts == ts))))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* An event that ends with the part has what changes at that instant. */
static bool keyavg_has_change(const struct keyavg_build *w, const struct trace_memory *m)
{
	return tbrows_is_in(w->b, m->ts) || m->ts == w->b->to;
}

static struct keyavg_change *keyavg_changes(const struct keyavg_build *w, size_t *ret_n)
{
	uint64_t all = trace_memories(w->b->trace), i;
	const struct trace_memory *m;
	struct keyavg_change *c;
	int64_t sum[2] = {0, 0};
	size_t n = 0;

	for (i = 0; i < all && (m = trace_memory_at(w->b->trace, i)) != NULL; i++)
		n += keyavg_has_change(w, m);
	c = xcalloc(n + 1, sizeof(*c));
	*ret_n = n;
	for (i = n = 0; n < *ret_n && (m = trace_memory_at(w->b->trace, i)) != NULL; i++) {
		if (!keyavg_has_change(w, m))
			continue;
		c[n].ts = m->ts - w->b->zero_ns;
		c[n].bytes = m->bytes;
		c[n].lane = w->o.by_thread ? tbrows_lane(w->b, m->track) : 0;
		c[n++].on_device = m->device_type != 0;
	}
	qsort(c, *ret_n, sizeof(*c), keyavg_by_lane);
	/* Sums run through all lanes: only differences within one are used. */
	for (i = 0; i < *ret_n; i++) {
		memcpy(c[i].sum, sum, sizeof(sum));
		sum[c[i].on_device] += c[i].bytes;
	}
	memcpy(c[*ret_n].sum, sum, sizeof(sum));
	return c;
}

void keyavg_memory(struct keyavg_build *w)
{
	const struct keyavg_event *e;
	struct keyavg_change *c;
	size_t n, i, from, to;
	int32_t lane;

	c = keyavg_changes(w, &n);
	w->k->has_memory = n > 0;
	if (n)
		w->bytes = xcalloc(w->n + 1, sizeof(*w->bytes));
	for (i = 0; n && i < w->n; i++) {
		e = &w->events[i];
		lane = w->o.by_thread ? e->lane : 0;
		from = keyavg_change_at(c, n, lane, (int64_t)KEYAVG_TS(w, e), false);
		to = keyavg_change_at(c, n, lane, (int64_t)KEYAVG_END(w, e), true);
		w->bytes[i].all[0] = c[to].sum[0] - c[from].sum[0];
		w->bytes[i].all[1] = c[to].sum[1] - c[from].sum[1];
	}
	free(c);
}

/* ---- stacks ------------------------------------------------------------------------------- */

/* The innermost Python call around each row, by one stack per lane. */
void keyavg_stacks(struct keyavg_build *w)
{
	const struct tbrows_row *rows = w->b->rows;
	uint32_t *top, at, i;

	buf_init(&w->stacks, KEYAVG_STACKS_MAX);
	map_init(&w->stack_ids);
	if (!(w->o.group & KEYAVG_STACK))
		return;
	buf_putc(&w->stacks, 0);
	w->python_of = xrealloc(NULL, w->b->n + 1, sizeof(*w->python_of));
	top = xrealloc(NULL, w->b->n_lanes, sizeof(*top));
	memset(top, 0xff, w->b->n_lanes * sizeof(*top));
	for (i = 0; i < w->b->n; i++) {
		at = top[rows[i].lane];
		while (at != KEYAVG_NIL && rows[i].ts >= rows[at].end)
			at = w->python_of[at];
		top[rows[i].lane] = at;
		w->python_of[i] = at;
		if (rows[i].type == TBROWS_PYTHON || rows[i].type == TBROWS_MODULE)
			top[rows[i].lane] = i;
	}
	free(top);
}

static void keyavg_frame(struct buf *b, const char *text, size_t len)
{
	if (b->len)
		buf_putc(b, '\n');
	buf_append(b, text, len);
}

/* The stack of a row as text. */
static void keyavg_stack_text(const struct keyavg_build *w, size_t row, struct buf *b)
{
	const struct tbrows_row *rows = w->b->rows;
	uint32_t id = trace_args(w->b->trace, rows[row].args)->stack;
	const char *text = trace_text(w->b->trace, id, NULL), *end;
	uint32_t at = w->python_of[row];
	unsigned k;

	for (k = 0; *text && k < w->o.stack_depth; k++) {
		end = strchrnul(text, ';');
		keyavg_frame(b, text, (size_t)(end - text));
		text = *end ? end + 1 : end;
		text += *text == ' ';
	}
	for (k = 0; !id && at != KEYAVG_NIL && k < w->o.stack_depth; k++) {
		text = trace_text(w->b->trace, rows[at].name, NULL);
		keyavg_frame(b, text, strlen(text));
		at = w->python_of[at];
	}
}

uint32_t keyavg_stack(struct keyavg_build *w, size_t row)
{
	struct buf b;
	uint64_t at = 0;

	buf_init(&b, 1u << 20);
	keyavg_stack_text(w, row, &b);
	w->k->has_stacks = w->k->has_stacks || b.len;
	if (b.len && !map_get(&w->stack_ids, b.data, b.len, &at)) {
		at = w->stacks.len;
		buf_append(&w->stacks, b.data, b.len + 1);
		if (w->stacks.len == at)
			at = 0;
		map_put(&w->stack_ids, b.data, b.len, at);
	}
	buf_done(&b);
	return (uint32_t)at;
}

/* ---- order --------------------------------------------------------------------------------- */

struct keyavg_sort_key {
	const char *name;
	size_t offset; /* of an int64_t in struct keyavg_row; see kind */
	char kind;     /* 'i': that; 'c': calls; 'f': flops; 'a': that by calls */
};

#define KEY(name, field, kind)                                                                     \
	{                                                                                          \
		name, offsetof(struct keyavg_row, field), kind                                     \
	}

static const struct keyavg_sort_key keyavg_sort_keys[] = {
	KEY("cpu_time", host, 'a'),
	KEY("cpu_time_total", host, 'i'),
	KEY("self_cpu_time_total", self_host, 'i'),
	KEY("device_time", device, 'a'),
	KEY("device_time_total", device, 'i'),
	KEY("self_device_time_total", self_device, 'i'),
	KEY("cuda_time", device, 'a'),
	KEY("cuda_time_total", device, 'i'),
	KEY("self_cuda_time_total", self_device, 'i'),
	KEY("xpu_time", device, 'a'),
	KEY("xpu_time_total", device, 'i'),
	KEY("self_xpu_time_total", self_device, 'i'),
	KEY("hpu_time_total", device, 'i'),
	KEY("self_hpu_time_total", self_device, 'i'),
	KEY("privateuse1_time_total", device, 'i'),
	KEY("self_privateuse1_time_total", self_device, 'i'),
	KEY("cpu_memory_usage", cpu_memory, 'i'),
	KEY("self_cpu_memory_usage", self_cpu_memory, 'i'),
	KEY("device_memory_usage", device_memory, 'i'),
	KEY("self_device_memory_usage", self_device_memory, 'i'),
	KEY("cuda_memory_usage", device_memory, 'i'),
	KEY("self_cuda_memory_usage", self_device_memory, 'i'),
	KEY("count", calls, 'c'),
	KEY("flops", flops, 'f'),
};

const char *const keyavg_keys[] = {"cpu_time",
				   "cpu_time_total",
				   "self_cpu_time_total",
				   "device_time",
				   "device_time_total",
				   "self_device_time_total",
				   "cuda_time",
				   "cuda_time_total",
				   "self_cuda_time_total",
				   "xpu_time",
				   "xpu_time_total",
				   "self_xpu_time_total",
				   "hpu_time_total",
				   "self_hpu_time_total",
				   "privateuse1_time_total",
				   "self_privateuse1_time_total",
				   "cpu_memory_usage",
				   "self_cpu_memory_usage",
				   "device_memory_usage",
				   "self_device_memory_usage",
				   "cuda_memory_usage",
				   "self_cuda_memory_usage",
				   "count",
				   "flops",
				   "self_cpu_memory",
				   "self_cuda_memory",
				   NULL};

static double keyavg_value(const struct keyavg_row *r, const struct keyavg_sort_key *key)
{
	const char *at = (const char *)r + key->offset;
	int64_t v;

	if (key->kind == 'c')
		return (double)r->calls;
	if (key->kind == 'f')
		return r->flops;
	memcpy(&v, at, sizeof(v));
	return key->kind == 'a' && r->calls ? (double)v / (double)r->calls : (double)v;
}

static int keyavg_by_value(const void *pa, const void *pb, void *arg)
{
	const struct keyavg_row *a = pa, *b = pb;
	double x = keyavg_value(a, arg), y = keyavg_value(b, arg);
	int c;

	if (x != y)
		return x > y ? -1 : 1;
	c = strcmp(a->name, b->name);
	if (c)
		return c;
	if (a->on_device != b->on_device)
		return a->on_device ? 1 : -1;
	if (a->dims != b->dims)
		return a->dims < b->dims ? -1 : 1;
	return (a->stack > b->stack) - (a->stack < b->stack);
}

int keyavg_sort(struct keyavg *k, const char *key)
{
	static const char *const also[][2] = {
		{"self_cpu_memory", "self_cpu_memory_usage"},
		{"self_cuda_memory", "self_cuda_memory_usage"},
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(also); i++) {
		if (!strcmp(key, also[i][0]))
			key = also[i][1];
	}
	for (i = 0; i < ARRAY_LEN(keyavg_sort_keys); i++) {
		if (strcmp(key, keyavg_sort_keys[i].name) != 0)
			continue;
		if (k->n)
			qsort_r(k->rows, k->n, sizeof(*k->rows), keyavg_by_value,
				(void *)&keyavg_sort_keys[i]);
		return 0;
	}
	return -EINVAL;
}
