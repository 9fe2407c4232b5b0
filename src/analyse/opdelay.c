/* SPDX-License-Identifier: Apache-2.0
 *
 * opdelay.c - see opdelay.h. The operator around a launch is the last row by start that ends
 * late enough: a tree of latest ends over the rows by start finds it.
 */
#include "analyse/opdelay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/calls.h"
#include "analyse/numeric.h"
#include "analyse/room.h"

/* ATen rows by thread (hta: all in one) and start. */
struct ops {
	const struct view *v;
	uint32_t *rows;
	size_t n;
	int64_t *latest; /* a heap-shaped tree; leaves at size + i */
	size_t size;
};

struct launched {
	uint32_t op, call, work; /* places in view->rows */
	size_t order;            /* as HTA walks over launches */
};

static int64_t thread_of(const struct view *v, const struct view_row *r)
{
	return v->rule == VIEW_EXACT ? (int64_t)r->track : 0;
}

struct op_key {
	int64_t thread, ts, tie, end;
	uint32_t row;
};

static int by_op(const void *a, const void *b)
{
	const struct op_key *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->ts != y->ts)
		return x->ts < y->ts ? -1 : 1;
	if (x->tie != y->tie)
		return x->tie < y->tie ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

/* Of rows that start together the last in this order wins: exact: the shortest; hta: the
 * first in the table. */
static size_t list_ops(struct ops *o, struct op_key *keys)
{
	const struct view *v = o->v;
	const struct view_row *r;
	size_t i, n = 0;
	uint32_t id;

	for (i = 0; i < v->n; i++) {
		id = v->table ? v->table[i] : (uint32_t)i;
		r = &v->rows[id];
		if (strncmp(trace_text(v->trace, r->name, NULL), "aten::", 6) != 0)
			continue;
		keys[n++] = (struct op_key){thread_of(v, r), r->ts,
					    v->rule == VIEW_EXACT ? r->ts - r->end : -(int64_t)i,
					    r->end, id};
	}
	qsort(keys, n, sizeof(*keys), by_op);
	return n;
}

static int build_ops(struct ops *o)
{
	struct op_key *keys = malloc((o->v->n + 1) * sizeof(*keys));
	size_t i;

	if (!keys)
		return -ENOMEM;
	o->n = list_ops(o, keys);
	for (o->size = 1; o->size <= o->n; o->size *= 2)
		;
	o->rows = malloc((o->n + 1) * sizeof(*o->rows));
	o->latest = malloc(2 * o->size * sizeof(*o->latest));
	if (!o->rows || !o->latest) {
		free(keys);
		return -ENOMEM;
	}
	for (i = 0; i < o->size; i++)
		o->latest[o->size + i] = i < o->n ? keys[i].end : INT64_MIN;
	for (i = 0; i < o->n; i++)
		o->rows[i] = keys[i].row;
	for (i = o->size; i-- > 1;)
		o->latest[i] = o->latest[2 * i] > o->latest[2 * i + 1] ? o->latest[2 * i]
								       : o->latest[2 * i + 1];
	free(keys);
	return 0;
}

/* Greatest place below limit whose end is end or later; SIZE_MAX if there is none. */
static size_t last_open(const struct ops *o, size_t limit, int64_t end)
{
	size_t node = o->size + limit, from = SIZE_MAX;

	if (!limit)
		return SIZE_MAX;
	/* Go up until a left neighbour holds one, then down to its last. */
	for (; node > 1 && from == SIZE_MAX; node /= 2)
		if (node % 2 && o->latest[node - 1] >= end)
			from = node - 1;
	if (from == SIZE_MAX)
		return SIZE_MAX;
	while (from < o->size)
		from = 2 * from + (o->latest[2 * from + 1] >= end);
	return from - o->size;
}

static uint32_t op_around(const struct ops *o, const struct view_row *call)
{
	int64_t thread = thread_of(o->v, call);
	size_t low = 0, high = o->n, middle, at;
	const struct view_row *r;

	while (low < high) {
		middle = low + (high - low) / 2;
		r = &o->v->rows[o->rows[middle]];
		if (thread_of(o->v, r) < thread ||
		    (thread_of(o->v, r) == thread && r->ts <= call->ts))
			low = middle + 1;
		else
			high = middle;
	}
	at = last_open(o, low, call->end);
	if (at == SIZE_MAX || thread_of(o->v, &o->v->rows[o->rows[at]]) != thread)
		return VIEW_NO_ROW;
	return o->rows[at];
}

/* The one piece of work that names this call as its partner; VIEW_NO_ROW for none, and for
 * several of hta, where HTA stops. exact takes the first. */
static uint32_t work_of(struct view *v, uint32_t row)
{
	const struct view_row *r = &v->rows[row], *w;
	struct view_link link = view_linked(v, r->correlation);
	uint32_t found = VIEW_NO_ROW;
	size_t i, n = 0;

	for (i = 0; i < link.n; i++) {
		w = &v->rows[link.rows[i]];
		if (!w->is_gpu || w->partner != r->index)
			continue;
		if (!n++)
			found = link.rows[i];
	}
	return n > 1 && v->rule != VIEW_EXACT ? VIEW_NO_ROW : found;
}

struct collector {
	struct view *v;
	struct ops ops;
	struct launched *list;
	size_t n, cap;
};

static int collect(struct collector *c, const uint8_t *calls, struct opdelay *ret)
{
	unsigned wanted = c->v->rule == VIEW_EXACT ? CALLS_LAUNCH : CALLS_HTA_DELAY;
	uint32_t id, op, work;
	size_t i;
	int rc;

	for (i = 0; i < c->v->n; i++) {
		id = c->v->table ? c->v->table[i] : (uint32_t)i;
		if (!(calls[c->v->rows[id].name] & wanted) ||
		    (c->v->rule == VIEW_EXACT && c->v->rows[id].is_gpu))
			continue;
		op = op_around(&c->ops, &c->v->rows[id]);
		work = work_of(c->v, id);
		ret->outside += op == VIEW_NO_ROW;
		ret->without_work += op != VIEW_NO_ROW && work == VIEW_NO_ROW;
		if (op == VIEW_NO_ROW || work == VIEW_NO_ROW)
			continue;
		ret->launches++;
		rc = room_for(&c->list, c->n, &c->cap, sizeof(*c->list));
		if (rc)
			return rc;
		c->list[c->n] = (struct launched){op, id, work, c->n};
		c->n++;
	}
	return 0;
}

/* hta: two operators of one name and thread that start at the same us are one group. */

static int by_instance(const void *a, const void *b, void *arg)
{
	const struct launched *x = a, *y = b;
	const struct view *v = arg;
	const struct view_row *p = &v->rows[x->op], *q = &v->rows[y->op];

	if (v->rule == VIEW_EXACT && x->op != y->op)
		return x->op < y->op ? -1 : 1;
	if (p->name != q->name)
		return p->name < q->name ? -1 : 1;
	if (p->ts != q->ts)
		return p->ts < q->ts ? -1 : 1;
	if (p->track != q->track)
		return p->track < q->track ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

static bool is_same(const struct view *v, const struct launched *a, const struct launched *b)
{
	struct launched x = *a, y = *b;

	x.order = y.order = 0;
	return !by_instance(&x, &y, (void *)v);
}

static char *join_names(const struct view *v, const struct launched *list, size_t n)
{
	size_t i, len, total = 1, at = 0;
	const char *name;
	char *ret;

	for (i = 0; i < n; i++) {
		trace_text(v->trace, v->rows[list[i].work].name, &len);
		total += len + 4;
	}
	ret = malloc(total);
	for (i = 0; ret && i < n; i++) {
		name = trace_text(v->trace, v->rows[list[i].work].name, &len);
		if (i) {
			memcpy(ret + at, " -> ", 4);
			at += 4;
		}
		memcpy(ret + at, name, len);
		at += len;
	}
	if (ret)
		ret[at] = '\0';
	return ret;
}

/* One operator call; rows of the same name and sequence are put together later. */
static int add_instance(struct opdelay *o, size_t *cap, const struct view *v,
			const struct launched *list, size_t n)
{
	const struct view_row *op = &v->rows[list->op], *call = &v->rows[list->call];
	struct opdelay_row *r;
	int rc = room_for(&o->rows, o->n, cap, sizeof(*o->rows));

	if (rc)
		return rc;
	r = &o->rows[o->n];
	r->op = op->name;
	r->sequence = join_names(v, list, n);
	r->count = 1;
	r->delay_us = view_ts_us(v, call) - view_ts_us(v, op);
	r->wait_us = view_ts_us(v, &v->rows[list->work]) - view_ts_us(v, call);
	if (!r->sequence)
		return -ENOMEM;
	o->n++;
	return 0;
}

static int by_sequence(const void *a, const void *b)
{
	const struct opdelay_row *x = a, *y = b;

	if (x->op != y->op)
		return x->op < y->op ? -1 : 1;
	return strcmp(x->sequence, y->sequence);
}

static int by_count(const void *a, const void *b)
{
	const struct opdelay_row *x = a, *y = b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return by_sequence(a, b);
}

static void fold(struct opdelay *o)
{
	struct numeric_run delay, wait;
	size_t i, j, n = 0;

	if (o->n)
		qsort(o->rows, o->n, sizeof(*o->rows), by_sequence);
	for (i = 0; i < o->n; i = j, n++) {
		delay = wait = (struct numeric_run){0};
		for (j = i; j < o->n && !by_sequence(&o->rows[i], &o->rows[j]); j++) {
			numeric_add(&delay, o->rows[j].delay_us);
			numeric_add(&wait, o->rows[j].wait_us);
			if (j > i)
				free(o->rows[j].sequence);
		}
		o->rows[n] = o->rows[i];
		o->rows[n].count = delay.count;
		o->rows[n].delay_us = numeric_mean(&delay);
		o->rows[n].wait_us = numeric_mean(&wait);
	}
	o->n = n;
	if (n)
		qsort(o->rows, n, sizeof(*o->rows), by_count);
}

static int group(const struct collector *c, struct opdelay *o)
{
	size_t i, j, cap = 0;
	int rc = 0;

	if (c->n)
		qsort_r(c->list, c->n, sizeof(*c->list), by_instance, c->v);
	for (i = 0; i < c->n && !rc; i = j) {
		for (j = i + 1; j < c->n && is_same(c->v, &c->list[i], &c->list[j]); j++)
			;
		rc = add_instance(o, &cap, c->v, &c->list[i], j - i);
	}
	if (!rc)
		fold(o);
	return rc;
}

int opdelay_new(const struct view *v, struct opdelay *ret)
{
	/* view_linked() keeps its index in the view. */
	struct collector c = {.v = (struct view *)v, .ops = {.v = v}};
	uint8_t *calls = calls_names(v->trace);
	struct opdelay o = {0};
	int rc = calls ? build_ops(&c.ops) : -ENOMEM;

	if (!rc)
		rc = collect(&c, calls, &o);
	if (!rc)
		rc = group(&c, &o);
	free(calls);
	free(c.list);
	free(c.ops.rows);
	free(c.ops.latest);
	if (rc)
		opdelay_done(&o);
	else
		*ret = o;
	return rc;
}

void opdelay_done(struct opdelay *o)
{
	size_t i;

	for (i = 0; i < o->n; i++)
		free(o->rows[i].sequence);
	free(o->rows);
	memset(o, 0, sizeof(*o));
}
