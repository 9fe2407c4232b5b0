/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tracefit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a row in a view and in what analyses make of it. */
#define TRACEFIT_ROW 160u
#define TRACEFIT_DEVICE_ROW 100u

struct tracefit_scan {
	struct view_step *steps;
	size_t n, cap;
	int64_t first, last; /* ts of rows */
	int32_t *numbers;    /* of step marks, by text id; -1 */
};

static int tracefit_step(struct tracefit_scan *s, int64_t ts, int64_t dur, int32_t number)
{
	struct view_step *more;

	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		more = realloc(s->steps, s->cap * sizeof(*more));
		if (!more)
			return -ENOMEM;
		s->steps = more;
	}
	s->steps[s->n++] = (struct view_step){ts, ts + dur, number};
	return 0;
}

static int tracefit_block(struct tracefit_scan *s, const struct trace_block *b, uint32_t n)
{
	uint32_t i;
	int err;

	for (i = 0; i < n; i++) {
		if (b->flags[i] & TRACE_BROKEN || !(b->flags[i] & TRACE_HAS_DUR))
			continue;
		s->first = b->ts[i] < s->first ? b->ts[i] : s->first;
		s->last = b->ts[i] > s->last ? b->ts[i] : s->last;
		if (s->numbers[b->name[i]] < 0 || b->cat[i] == TRACE_CAT_GPU_USER_ANNOTATION)
			continue;
		err = tracefit_step(s, b->ts[i], b->dur[i], s->numbers[b->name[i]]);
		if (err)
			return err;
	}
	return 0;
}

static int tracefit_by_time(const void *a, const void *b)
{
	const struct view_step *x = a, *y = b;

	return (x->ts > y->ts) - (x->ts < y->ts);
}

static int tracefit_look(struct trace *t, struct tracefit_scan *s)
{
	uint64_t rows = trace_rows(t);
	uint32_t k, texts = trace_texts(t);
	int err = 0;

	s->first = INT64_MAX;
	s->last = INT64_MIN;
	s->numbers = malloc((texts + 1) * sizeof(*s->numbers));
	if (!s->numbers)
		return -ENOMEM;
	for (k = 0; k < texts; k++)
		s->numbers[k] = view_step_number(trace_text(t, k, NULL));
	for (k = 0; !err && (uint64_t)k * TRACE_BLOCK_ROWS < rows; k++)
		err = tracefit_block(s, trace_block(t, k), trace_block_rows(t, k));
	free(s->numbers);
	if (s->n)
		qsort(s->steps, s->n, sizeof(*s->steps), tracefit_by_time);
	return err;
}

/* The steps that were asked for. */
static void tracefit_asked(const struct tracefit_scan *s, const struct view_options *o,
			   struct tracefit *ret)
{
	size_t i;

	ret->from = INT64_MAX;
	ret->to = INT64_MIN;
	for (i = 0; i < s->n; i++) {
		if (s->steps[i].number < o->step_from || s->steps[i].number >= o->step_to)
			continue;
		ret->from = s->steps[i].ts < ret->from ? s->steps[i].ts : ret->from;
		/* What was launched in it may run behind it. */
		ret->to = i + 1 < s->n && s->steps[i + 1].end > ret->to ? s->steps[i + 1].end
			  : s->steps[i].end > ret->to                   ? s->steps[i].end
									: ret->to;
	}
	if (ret->to < ret->from)
		ret->from = ret->to = 0;
}

/* As many whole steps in the middle as fit. */
static bool tracefit_middle(const struct tracefit_scan *s, uint64_t room, struct tracefit *ret)
{
	uint64_t each = s->n ? ret->of / s->n : 0;
	size_t n = each ? (size_t)(room / each) : 0, at;

	if (!n)
		return false;
	n = n < s->n ? n : s->n - 1;
	at = (s->n - n + 1) / 2;
	ret->from = s->steps[at].ts;
	ret->to = at + n < s->n ? s->steps[at + n].ts : s->steps[at + n - 1].end;
	ret->first = s->steps[at].number;
	ret->last = s->steps[at + n - 1].number;
	ret->rows = each * n;
	return n > 0;
}

static void tracefit_stretch(const struct tracefit_scan *s, uint64_t room, struct tracefit *ret)
{
	double part = (double)room / (double)ret->of, span = (double)(s->last - s->first);
	int64_t length = (int64_t)(span * part), begin = (int64_t)(span * (1 - part) / 2);

	ret->from = s->first + begin;
	ret->to = ret->from + (length > 0 ? length : 1);
	ret->rows = room;
}

int tracefit_find(struct trace *t, const struct view_options *o, uint64_t bytes,
		  struct tracefit *ret)
{
	uint64_t rows = trace_rows(t), room = bytes / TRACEFIT_ROW;
	struct tracefit_scan s = {0};
	int err;

	*ret = (struct tracefit){.first = -1, .last = -1};
	if (o->devices_only) {
		rows -= trace_cat_count(t, TRACE_CAT_CPU_OP) +
			trace_cat_count(t, TRACE_CAT_PYTHON_FUNCTION);
		room = bytes / TRACEFIT_DEVICE_ROW;
	}
	ret->of = rows;
	if (rows <= room)
		return 0;
	err = tracefit_look(t, &s);
	if (!err && (o->step_from || o->step_to))
		tracefit_asked(&s, o, ret);
	else if (!err && !tracefit_middle(&s, room, ret) && s.last >= s.first)
		tracefit_stretch(&s, room, ret);
	free(s.steps);
	return err;
}
