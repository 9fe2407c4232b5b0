/* SPDX-License-Identifier: Apache-2.0
 *
 * syncs.c - one walk over the rows by time, with the open calls of each thread.
 */
#include "analyse/syncs.h"

#include "analyse/kclass.h"
#include "analyse/room.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_MAX 64

struct open_call {
	int64_t end;
	uint32_t name;
	bool is_python, is_item;
};

struct open_calls {
	struct open_call at[OPEN_MAX];
	unsigned n;
};

struct walk {
	const struct view *v;
	struct syncs *s;
	size_t cap;
	struct open_calls *open; /* by track */
	uint8_t *kinds;          /* by text id: enum kclass_call + 1 */
};

static bool is_call(const struct view_row *row)
{
	return row->cat == TRACE_CAT_CUDA_RUNTIME || row->cat == TRACE_CAT_CUDA_DRIVER;
}

static enum kclass_call call_kind(struct walk *w, const struct view_row *row)
{
	uint8_t *kind = &w->kinds[row->name];

	if (!*kind)
		*kind = (uint8_t)(1 + kclass_call(trace_text(w->v->trace, row->name, NULL)));
	return *kind - 1;
}

/* A copy to pageable memory of the host: the call returns when the bytes are there. */
static bool copy_waits(const struct walk *w, const struct view_row *row)
{
	const struct view_row *copy = row->pair != VIEW_NO_ROW ? &w->v->rows[row->pair] : NULL;
	const char *name;

	if (!copy || copy->cat != TRACE_CAT_GPU_MEMCPY || copy->end > row->end)
		return false;
	name = trace_text(w->v->trace, copy->name, NULL);
	return strstr(name, "DtoH") && strstr(name, "Pageable");
}

static bool is_wait(struct walk *w, const struct view_row *row)
{
	enum kclass_call kind = is_call(row) ? call_kind(w, row) : KCLASS_CALL_OTHER;

	return kind == KCLASS_CALL_SYNC || (kind == KCLASS_CALL_LAUNCH && copy_waits(w, row));
}

static void who(const struct open_calls *o, uint32_t *ret_op, uint32_t *ret_python)
{
	bool has_item = false;

	*ret_op = *ret_python = 0;
	for (unsigned i = 0; i < o->n; i++) {
		if (o->at[i].is_python) {
			*ret_python = o->at[i].name;
		} else if (!has_item) {
			*ret_op = o->at[i].name;
			has_item = o->at[i].is_item;
		}
	}
}

/* From the end of the wait to the first work that is launched behind it, if nothing runs
 * meanwhile. The launch is at most a few rows away. */
static int64_t idle_after(struct walk *w, size_t at)
{
	const struct view_row *row = &w->v->rows[at];

	for (size_t i = at + 1; i < w->v->n; i++) {
		const struct view_row *next = &w->v->rows[i];
		const struct view_row *work;

		if (!is_call(next) || next->ts < row->end || next->pair == VIEW_NO_ROW)
			continue;
		work = &w->v->rows[next->pair];
		return work->ts > row->end ? work->ts - row->end : 0;
	}
	return 0;
}

static struct syncs_site *site(struct walk *w, const struct view_row *row, uint32_t op,
			       uint32_t python)
{
	struct syncs *s = w->s;

	for (size_t i = 0; i < s->n; i++)
		if (s->sites[i].call == row->name && s->sites[i].op == op &&
		    s->sites[i].python == python)
			return &s->sites[i];
	if (room_for(&s->sites, s->n, &w->cap, sizeof(*s->sites)))
		return NULL;
	s->sites[s->n] = (struct syncs_site){.call = row->name, .op = op, .python = python};
	return &s->sites[s->n++];
}

static int add(struct walk *w, size_t at)
{
	const struct view_row *row = &w->v->rows[at];
	struct syncs_site *x;
	uint32_t op, python;
	int64_t wait = row->end - row->ts, idle = idle_after(w, at);

	who(&w->open[row->track], &op, &python);
	x = site(w, row, op, python);
	if (!x)
		return -ENOMEM;
	x->count++;
	x->wait += wait;
	x->longest = wait > x->longest ? wait : x->longest;
	x->idle += idle;
	x->cost += idle < wait ? idle : wait;
	w->s->count++;
	w->s->in_steps += row->step >= 0;
	w->s->wait += wait;
	return 0;
}

static int visit(struct walk *w, size_t at)
{
	const struct view_row *row = &w->v->rows[at];
	struct open_calls *o = &w->open[row->track];

	if (is_wait(w, row)) {
		while (o->n && o->at[o->n - 1].end <= row->ts)
			o->n--;
		return add(w, at);
	}
	if (row->cat != TRACE_CAT_CPU_OP && row->cat != TRACE_CAT_PYTHON_FUNCTION)
		return 0;
	while (o->n && o->at[o->n - 1].end <= row->ts)
		o->n--;
	if (o->n < OPEN_MAX)
		o->at[o->n++] = (struct open_call){
			.end = row->end,
			.name = row->name,
			.is_python = row->cat == TRACE_CAT_PYTHON_FUNCTION,
			.is_item = kclass_is_item(trace_text(w->v->trace, row->name, NULL)),
		};
	return 0;
}

/* What costs most first. */
static int by_cost(const void *a, const void *b)
{
	const struct syncs_site *x = a, *y = b;

	if (x->cost != y->cost)
		return x->cost > y->cost ? -1 : 1;
	if (x->wait != y->wait)
		return x->wait > y->wait ? -1 : 1;
	return (x->call > y->call) - (x->call < y->call);
}

int syncs_new(const struct view *v, struct syncs **ret)
{
	struct walk w = {.v = v};
	int rc = 0;

	w.s = calloc(1, sizeof(*w.s));
	w.open = calloc((size_t)trace_tracks(v->trace) + 1, sizeof(*w.open));
	w.kinds = calloc((size_t)trace_texts(v->trace) + 1, 1);
	if (!w.s || !w.open || !w.kinds)
		rc = -ENOMEM;
	for (size_t i = 0; i < v->n && !rc; i++)
		rc = visit(&w, i);
	free(w.open);
	free(w.kinds);
	if (rc) {
		syncs_free(w.s);
		return rc;
	}
	w.s->steps = v->n_steps;
	if (w.s->n)
		qsort(w.s->sites, w.s->n, sizeof(*w.s->sites), by_cost);
	*ret = w.s;
	return 0;
}

void syncs_free(struct syncs *s)
{
	if (!s)
		return;
	free(s->sites);
	free(s);
}
