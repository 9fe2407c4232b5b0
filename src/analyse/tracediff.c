/* SPDX-License-Identifier: Apache-2.0
 *
 * tracediff.c - HTA's comparison of two traces: calls and times of every name in one step.
 */
#include "analyse/tracediff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/room.h"
#include "analyse/shortname.h"
#include "base/map.h"

const char *const tracediff_change_names[] = {
	[TRACEDIFF_ADDED] = "added",         [TRACEDIFF_DELETED] = "deleted",
	[TRACEDIFF_INCREASED] = "increased", [TRACEDIFF_DECREASED] = "decreased",
	[TRACEDIFF_UNCHANGED] = "unchanged",
};

struct adding {
	struct tracediff_table *t;
	size_t cap;
	struct map names;
	const struct tracediff_options *o;
};

/* The first step that any name tells, whether rows belong to it or not. */
static int32_t first_step(const struct view *v)
{
	int32_t first = -1;

	for (size_t i = 0; i < v->n_steps; i++) {
		if (v->steps[i].number >= 0 && v->steps[i].number <= INT32_MAX &&
		    (first < 0 || v->steps[i].number < first))
			first = (int32_t)v->steps[i].number;
	}
	return first;
}

static struct tracediff_row *row_of(struct adding *a, const char *text, size_t len)
{
	struct tracediff_table *t = a->t;
	uint64_t known;
	char *name;

	if (map_get(&a->names, text, len, &known))
		return &t->rows[known];
	name = malloc(len + 1);
	if (!name || room_for(&t->rows, t->n, &a->cap, sizeof(*t->rows)) < 0) {
		free(name);
		return NULL;
	}
	memcpy(name, text, len);
	name[len] = '\0';
	map_put(&a->names, text, len, t->n);
	t->rows[t->n] = (struct tracediff_row){.name = name};
	return &t->rows[t->n++];
}

/* Numbers of rows by name id + 1; 0 not known yet. */
static int add_row(struct adding *a, const struct view *v, const struct view_row *r,
		   uint32_t *of_name, int side)
{
	struct tracediff_row *row;
	size_t len;
	const char *text;
	char *shorter = NULL;

	if (!of_name[r->name]) {
		text = trace_text(v->trace, r->name, &len);
		if (a->o->short_names) {
			shorter = malloc(len + 1);
			if (!shorter)
				return -ENOMEM;
			len = shortname_of(text, len, shorter);
		}
		row = row_of(a, shorter ? shorter : text, len);
		free(shorter);
		if (!row)
			return -ENOMEM;
		of_name[r->name] = (uint32_t)(row - a->t->rows) + 1;
	}
	row = &a->t->rows[of_name[r->name] - 1];
	row->calls[side]++;
	row->ns[side] += r->end - r->ts;
	return 0;
}

static bool is_chosen(const struct view_row *r, enum tracediff_device device)
{
	if (device == TRACEDIFF_ALL)
		return true;
	return (device == TRACEDIFF_DEVICE) == (r->stream != TRACE_NONE);
}

/* The hta rules have rows twice; HTA compares before that happens. */
static int add_side(struct adding *a, const struct view *v, int side)
{
	uint32_t *of_name = calloc((size_t)trace_texts(v->trace) + 1, sizeof(*of_name));
	bool *seen = calloc(trace_rows(v->trace) + 1, sizeof(*seen));
	int r = of_name && seen ? 0 : -ENOMEM;

	for (size_t i = 0; i < v->n && r == 0; i++) {
		const struct view_row *row = &v->rows[i];

		if (row->step != a->t->step[side] || seen[row->row] ||
		    !is_chosen(row, a->o->device))
			continue;
		seen[row->row] = true;
		r = add_row(a, v, row, of_name, side);
	}
	free(of_name);
	free(seen);
	return r;
}

static int by_name(const void *pa, const void *pb)
{
	const struct tracediff_row *a = pa, *b = pb;

	return strcmp(a->name, b->name);
}

static void judge(struct tracediff_table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct tracediff_row *r = &t->rows[i];

		if (!r->calls[0])
			r->change = TRACEDIFF_ADDED;
		else if (!r->calls[1])
			r->change = TRACEDIFF_DELETED;
		else if (r->calls[1] > r->calls[0])
			r->change = TRACEDIFF_INCREASED;
		else if (r->calls[1] < r->calls[0])
			r->change = TRACEDIFF_DECREASED;
		else
			r->change = TRACEDIFF_UNCHANGED;
	}
	if (t->n)
		qsort(t->rows, t->n, sizeof(*t->rows), by_name);
}

static bool has_step(const struct view *v, int32_t step)
{
	for (size_t i = 0; i < v->n_steps; i++) {
		if (v->steps[i].number == step)
			return true;
	}
	return false;
}

int tracediff_new(const struct view *a, const struct view *b, const struct tracediff_options *o,
		  struct tracediff_table **ret, struct err *e)
{
	const struct view *sides[2] = {a, b};
	struct adding add = {.o = o};
	int r = 0;

	add.t = calloc(1, sizeof(*add.t));
	if (!add.t)
		return -ENOMEM;
	map_init(&add.names);
	for (int i = 0; i < 2 && r == 0; i++) {
		add.t->step[i] = o->step[i] >= 0 ? o->step[i] : first_step(sides[i]);
		if (add.t->step[i] < 0 || !has_step(sides[i], add.t->step[i]))
			r = err_set(e, -ENOENT,
				    "%s: no step to compare (no ProfilerStep#N with that number); "
				    "compare without --hta, which takes traces without steps",
				    trace_path(sides[i]->trace));
		else
			r = add_side(&add, sides[i], i);
	}
	map_done(&add.names);
	if (r < 0) {
		tracediff_free(add.t);
		return r;
	}
	judge(add.t);
	*ret = add.t;
	return 0;
}

void tracediff_free(struct tracediff_table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++)
		free(t->rows[i].name);
	free(t->rows);
	free(t);
}
