/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tracefit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"

#define TRACEFIT_BINS 4096u
#define TRACEFIT_TS (INT64_C(1) << 61)
#define TRACEFIT_DUR (INT64_C(1) << 53)
#define TRACEFIT_FINER 6 /* looks at ever finer bins: 2^72 ns and more */

/* Bytes of a row, and of a memory event, at the peak: measured on traces of operators, of
 * kernels and of Python calls, the largest of these. */
static const struct {
	uint16_t row, event;
	bool devices_only;
} tracefit_costs[TRACEFIT_WORKS] = {
	[TRACEFIT_VIEW] = {160, 0, false},     [TRACEFIT_VIEW_DEVICES] = {100, 0, true},
	[TRACEFIT_HTA] = {210, 0, false},      [TRACEFIT_HTA_DEVICES] = {170, 0, true},
	[TRACEFIT_TOP] = {200, 50, false},     [TRACEFIT_STEPS] = {230, 110, false},
	[TRACEFIT_MEMORY] = {280, 170, false},
};

static bool tracefit_counts(enum tracefit_work work, uint8_t cat)
{
	return !tracefit_costs[work].devices_only ||
	       (cat != TRACE_CAT_CPU_OP && cat != TRACE_CAT_PYTHON_FUNCTION);
}

static uint64_t tracefit_rows(const struct trace *t, enum tracefit_work work)
{
	uint64_t rows = trace_rows(t);

	if (tracefit_costs[work].devices_only)
		rows -= trace_cat_count(t, TRACE_CAT_CPU_OP) +
			trace_cat_count(t, TRACE_CAT_PYTHON_FUNCTION);
	return rows;
}

static uint64_t tracefit_row_bytes(const struct tracefit_need *need)
{
	return (uint64_t)tracefit_costs[need->work].row + need->row_more;
}

static uint64_t tracefit_event_bytes(const struct tracefit_need *need)
{
	return (uint64_t)tracefit_costs[need->work].event + need->event_more;
}

uint64_t tracefit_bytes(const struct trace *t, const struct tracefit_need *need)
{
	return tracefit_rows(t, need->work) * tracefit_row_bytes(need) +
	       trace_memories(t) * tracefit_event_bytes(need);
}

/* ---- steps -------------------------------------------------------------------------------- */

struct tracefit_scan {
	struct trace *t;
	const struct tracefit_need *need;
	uint64_t room; /* bytes */
	struct view_step *steps;
	size_t n, cap;
	int64_t first, last; /* ts of rows */
	int64_t end;         /* largest end */
	int32_t *numbers;    /* of step marks, by text id; -1 */
	/* Bytes of what begins in each of n_edges - 1 stretches of time. */
	int64_t *edges;
	uint64_t *bytes, *rows;
	size_t n_edges, hit; /* hit: where the row before was */
	int32_t *open; /* NULL; by edge: calls that run over it, as changes from edge to edge */
};

/* Rows of an exact view; their times add up. */
static bool tracefit_is_row(const struct trace_block *b, uint32_t i)
{
	return !(b->flags[i] & TRACE_BROKEN) && b->flags[i] & TRACE_HAS_DUR &&
	       b->cat[i] != TRACE_CAT_TRACE && b->ts[i] > -TRACEFIT_TS && b->ts[i] < TRACEFIT_TS &&
	       b->dur[i] > -TRACEFIT_DUR && b->dur[i] < TRACEFIT_DUR;
}

static void tracefit_mark(struct tracefit_scan *s, int64_t ts, int64_t end, int32_t number)
{
	s->steps = xgrow(s->steps, s->n, &s->cap, sizeof(*s->steps));
	s->steps[s->n++] = (struct view_step){ts, end, number};
}

static void tracefit_block(struct tracefit_scan *s, const struct trace_block *b, uint32_t n)
{
	int32_t number;
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (!tracefit_is_row(b, i))
			continue;
		s->first = b->ts[i] < s->first ? b->ts[i] : s->first;
		s->last = b->ts[i] > s->last ? b->ts[i] : s->last;
		s->end = b->ts[i] + b->dur[i] > s->end ? b->ts[i] + b->dur[i] : s->end;
		number = s->numbers[b->name[i]];
		if (number >= 0 && b->cat[i] != TRACE_CAT_GPU_USER_ANNOTATION)
			tracefit_mark(s, b->ts[i], b->ts[i] + b->dur[i], number);
	}
}

static int tracefit_by_time(const void *a, const void *b)
{
	const struct view_step *x = a, *y = b;

	return x->ts != y->ts ? (x->ts > y->ts) - (x->ts < y->ts)
			      : (x->end > y->end) - (x->end < y->end);
}

/* By time; a step that several marks tell is one. */
static void tracefit_sort(struct tracefit_scan *s)
{
	struct view_step *last;
	size_t i, n = 0;

	if (s->n)
		qsort(s->steps, s->n, sizeof(*s->steps), tracefit_by_time);
	for (i = 0; i < s->n; i++) {
		last = n ? &s->steps[n - 1] : NULL;
		if (last && last->number == s->steps[i].number && s->steps[i].ts < last->end)
			last->end = s->steps[i].end > last->end ? s->steps[i].end : last->end;
		else
			s->steps[n++] = s->steps[i];
	}
	s->n = n;
}

static int tracefit_look(struct tracefit_scan *s)
{
	uint64_t rows = trace_rows(s->t);
	uint32_t k, texts = trace_texts(s->t);
	const struct trace_block *b;

	s->first = INT64_MAX;
	s->last = s->end = INT64_MIN;
	s->numbers = xcalloc((size_t)texts + 1, sizeof(*s->numbers));
	for (k = 0; k < texts; k++)
		s->numbers[k] = view_step_number(trace_text(s->t, k, NULL));
	for (k = 0; (uint64_t)k * TRACE_BLOCK_ROWS < rows; k++) {
		b = trace_block(s->t, k);
		if (!b)
			return -EIO;
		tracefit_block(s, b, trace_block_rows(s->t, k));
	}
	tracefit_sort(s);
	return 0;
}

/* Only the steps that were asked for; the next one's end if what was launched in the last of them
 * may run there, else its own. */
static int64_t tracefit_ask(struct tracefit_scan *s, const struct view_options *o)
{
	int64_t to = INT64_MIN, end;
	size_t i, n = 0;

	for (i = 0; i < s->n; i++) {
		if (s->steps[i].number < o->step_from || s->steps[i].number >= o->step_to)
			continue;
		end = i + 1 < s->n && s->steps[i + 1].end > s->steps[i].end ? s->steps[i + 1].end
									    : s->steps[i].end;
		to = end > to ? end : to;
		s->steps[n++] = s->steps[i];
	}
	s->n = n;
	return to;
}

/* ---- how much is where -------------------------------------------------------------------- */

/* The stretch of a time; n_edges: in none. */
static size_t tracefit_stretch_of(const struct tracefit_scan *s, int64_t ts)
{
	size_t lo = 0, hi = s->n_edges, mid;

	if (ts >= s->edges[s->hit] && ts < s->edges[s->hit + 1])
		return s->hit;
	if (ts < s->edges[0] || ts >= s->edges[s->n_edges - 1])
		return s->n_edges;
	while (hi - lo > 1) {
		mid = lo + (hi - lo) / 2;
		if (s->edges[mid] <= ts)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static void tracefit_add(struct tracefit_scan *s, int64_t ts, uint64_t bytes, unsigned rows)
{
	size_t at = tracefit_stretch_of(s, ts);

	if (at == s->n_edges)
		return;
	s->bytes[at] += bytes;
	s->rows[at] += rows;
	s->hit = at;
}

/* Rows that are nested on the host: those of no device, and not Python's. */
static bool tracefit_is_call(uint8_t cat)
{
	return cat == TRACE_CAT_CPU_OP || cat == TRACE_CAT_USER_ANNOTATION ||
	       cat == TRACE_CAT_CUDA_RUNTIME || cat == TRACE_CAT_CUDA_DRIVER ||
	       cat == TRACE_CAT_OVERHEAD || cat == TRACE_CAT_MTIA_RUNTIME ||
	       cat == TRACE_CAT_XPU_RUNTIME || cat == TRACE_CAT_XPU_DRIVER ||
	       cat == TRACE_CAT_PRIVATEUSE1_RUNTIME || cat == TRACE_CAT_PRIVATEUSE1_DRIVER;
}

/* The edges that a call runs over. */
static void tracefit_over(struct tracefit_scan *s, const struct trace_block *b, uint32_t i)
{
	int64_t end = b->ts[i] + b->dur[i];
	size_t first = s->hit + 1, after;

	if (!tracefit_is_call(b->cat[i]) || end <= s->edges[first])
		return;
	after = tracefit_stretch_of(s, end - 1);
	s->open[first]++;
	s->open[after + 1 > s->n_edges ? s->n_edges : after + 1]--;
}

static int tracefit_measure(struct tracefit_scan *s)
{
	uint64_t rows = trace_rows(s->t), each = tracefit_row_bytes(s->need);
	const struct trace_memory *m;
	const struct trace_block *b;
	uint32_t k, i, n;
	uint64_t events, e;

	memset(s->bytes, 0, s->n_edges * sizeof(*s->bytes));
	memset(s->rows, 0, s->n_edges * sizeof(*s->rows));
	for (k = 0; (uint64_t)k * TRACE_BLOCK_ROWS < rows; k++) {
		b = trace_block(s->t, k);
		if (!b)
			return -EIO;
		n = trace_block_rows(s->t, k);
		for (i = 0; i < n; i++)
			if (tracefit_is_row(b, i) && tracefit_counts(s->need->work, b->cat[i])) {
				tracefit_add(s, b->ts[i], each, 1);
				if (s->open)
					tracefit_over(s, b, i);
			}
	}
	events = tracefit_event_bytes(s->need) ? trace_memories(s->t) : 0;
	for (e = 0; e < events && (m = trace_memory_at(s->t, e)) != NULL; e++)
		tracefit_add(s, m->ts, tracefit_event_bytes(s->need), 0);
	return 0;
}

static void tracefit_edges(struct tracefit_scan *s, size_t n)
{
	free(s->edges);
	free(s->bytes);
	free(s->rows);
	s->edges = xcalloc(n, sizeof(*s->edges));
	s->bytes = xcalloc(n, sizeof(*s->bytes));
	s->rows = xcalloc(n, sizeof(*s->rows));
	s->n_edges = n;
	s->hit = 0;
}

/* The stretches around `at` that fit, in turn one more before and one more behind it, as [*ret_lo,
 * *ret_hi). false: not even that one fits. */
static bool tracefit_around(const struct tracefit_scan *s, size_t at, size_t *ret_lo,
			    size_t *ret_hi)
{
	size_t lo = at, hi = at + 1, n = s->n_edges - 1;
	uint64_t sum = s->bytes[at];
	bool left = true, right = true;

	if (sum > s->room)
		return false;
	while (left || right) {
		left = left && lo > 0 && sum + s->bytes[lo - 1] <= s->room;
		if (left)
			sum += s->bytes[--lo];
		right = right && hi < n && sum + s->bytes[hi] <= s->room;
		if (right)
			sum += s->bytes[hi++];
	}
	*ret_lo = lo;
	*ret_hi = hi;
	return true;
}

static void tracefit_take(const struct tracefit_scan *s, size_t lo, size_t hi, struct tracefit *ret)
{
	size_t i;

	ret->from = s->edges[lo];
	ret->to = s->edges[hi];
	ret->is_cut = true;
	for (ret->rows = 0, i = lo; i < hi; i++)
		ret->rows += s->rows[i];
}

/* Whole steps in the middle, each until the next one begins. */
static int tracefit_middle(struct tracefit_scan *s, struct tracefit *ret, bool *ret_done)
{
	size_t i, lo, hi;
	int err;

	if (!s->n)
		return 0;
	tracefit_edges(s, s->n + 1);
	for (i = 0; i < s->n; i++)
		s->edges[i] = s->steps[i].ts;
	s->edges[s->n] = s->steps[s->n - 1].end > s->steps[s->n - 1].ts ? s->steps[s->n - 1].end
									: s->steps[s->n - 1].ts + 1;
	err = tracefit_measure(s);
	if (err || !tracefit_around(s, s->n / 2, &lo, &hi))
		return err;
	tracefit_take(s, lo, hi, ret);
	ret->first = s->steps[lo].number;
	ret->last = s->steps[hi - 1].number;
	*ret_done = true;
	return 0;
}

/* The stretch in which half of all is reached. */
static size_t tracefit_half(const struct tracefit_scan *s)
{
	uint64_t all = 0, sum = 0;
	size_t i;

	for (i = 0; i + 1 < s->n_edges; i++)
		all += s->bytes[i];
	for (i = 0; i + 2 < s->n_edges; i++) {
		sum += s->bytes[i];
		if (sum > all / 2)
			break;
	}
	return i;
}

/* A part of [from, to): in the middle of the rows, by bins that become finer until one fits. */
static int tracefit_stretch(struct tracefit_scan *s, int64_t from, int64_t to, struct tracefit *ret)
{
	size_t lo, hi, i, at;
	uint64_t width;
	int look, err;

	for (look = 0; look < TRACEFIT_FINER; look++) {
		width = ((uint64_t)to - (uint64_t)from) / TRACEFIT_BINS + 1;
		tracefit_edges(s, TRACEFIT_BINS + 1);
		for (i = 0; i <= TRACEFIT_BINS; i++)
			s->edges[i] = (int64_t)((uint64_t)from + i * width);
		err = tracefit_measure(s);
		if (err)
			return err;
		at = tracefit_half(s);
		if (tracefit_around(s, at, &lo, &hi)) {
			tracefit_take(s, lo, hi, ret);
			return 0;
		}
		from = s->edges[at];
		to = s->edges[at + 1];
	}
	/* More rows at one instant than fit. */
	return -ENOMEM;
}

static int tracefit_choose(struct tracefit_scan *s, const struct view_options *o,
			   struct tracefit *ret)
{
	bool is_asked = o->step_from || o->step_to, done = false;
	int64_t from = s->first, to = s->last;
	int err;

	if (is_asked) {
		to = tracefit_ask(s, o);
		if (!s->n) {
			ret->from = 0;
			ret->to = 1; /* nothing: there are no such steps */
			return 0;
		}
		from = s->steps[0].ts;
		tracefit_edges(s, 2);
		s->edges[0] = from;
		s->edges[1] = to > from ? to : from + 1;
		err = tracefit_measure(s);
		if (err)
			return err;
		tracefit_take(s, 0, 1, ret);
		ret->is_cut = s->bytes[0] > s->room;
		ret->of = ret->rows;
		if (!ret->is_cut)
			return 0;
	}
	err = tracefit_middle(s, ret, &done);
	if (!err && !done && to >= from)
		err = tracefit_stretch(s, from, to, ret);
	return err;
}

static void tracefit_done(struct tracefit_scan *s)
{
	free(s->steps);
	free(s->numbers);
	free(s->edges);
	free(s->bytes);
	free(s->rows);
	free(s->open);
}

int tracefit_find(struct trace *t, const struct view_options *o, const struct tracefit_need *need,
		  uint64_t bytes, struct tracefit *ret)
{
	struct tracefit_scan s = {.t = t, .need = need, .room = bytes};
	int err;

	*ret = (struct tracefit){.first = -1, .last = -1, .of = tracefit_rows(t, need->work)};
	if (tracefit_bytes(t, need) <= bytes)
		return 0;
	err = tracefit_look(&s);
	ret->begin = s.first;
	ret->end = s.end;
	if (!err)
		err = tracefit_choose(&s, o, ret);
	tracefit_done(&s);
	return err;
}

/* ---- all of it by windows ------------------------------------------------------------------ */

/* Where windows may end: where steps begin and end, and at even distances; each edge once. */
static void tracefit_borders(struct tracefit_scan *s)
{
	uint64_t width = ((uint64_t)s->last - (uint64_t)s->first) / TRACEFIT_BINS + 1;
	size_t i, n = 0, k;

	tracefit_edges(s, 2 * s->n + TRACEFIT_BINS + 1);
	for (i = 0; i < s->n; i++) {
		s->edges[n++] = s->steps[i].ts;
		s->edges[n++] = s->steps[i].end;
	}
	for (i = 1; i < TRACEFIT_BINS; i++)
		s->edges[n++] = (int64_t)((uint64_t)s->first + i * width);
	s->edges[n++] = INT64_MIN;
	s->edges[n++] = INT64_MAX;
	qsort(s->edges, n, sizeof(*s->edges), number_order_int);
	for (i = k = 0; i < n; i++)
		if (!k || s->edges[k - 1] != s->edges[i])
			s->edges[k++] = s->edges[i];
	s->n_edges = k;
	s->open = xcalloc(k + 1, sizeof(*s->open));
}

/* As many stretches as fit are a window, up to an edge over which nothing runs. false: too much is
 * between two of these. */
static bool tracefit_join(const struct tracefit_scan *s, struct tracefit *ret)
{
	size_t i, begin = 0, clean = 0, cap = 0;
	uint64_t sum = 0, behind = 0; /* bytes since begin, since clean */
	int64_t open = 0;

	for (i = 0; i + 1 < s->n_edges; i++) {
		sum += s->bytes[i];
		behind += s->bytes[i];
		open += s->open[i + 1];
		if (open && i + 2 < s->n_edges)
			continue;
		if (sum > s->room) {
			if (clean == begin || behind > s->room)
				return false;
			ret->windows =
				xgrow(ret->windows, ret->n_windows, &cap, sizeof(*ret->windows));
			ret->windows[ret->n_windows++] =
				(struct tracefit_window){s->edges[begin], s->edges[clean]};
			begin = clean;
			sum = behind;
		}
		clean = i + 1;
		behind = 0;
	}
	ret->windows = xgrow(ret->windows, ret->n_windows, &cap, sizeof(*ret->windows));
	ret->windows[ret->n_windows++] = (struct tracefit_window){s->edges[begin], INT64_MAX};
	return true;
}

int tracefit_windows(struct trace *t, const struct tracefit_need *need, uint64_t bytes,
		     struct tracefit *ret)
{
	struct tracefit_scan s = {.t = t, .need = need, .room = bytes};
	int err = tracefit_look(&s);

	ret->windows = NULL;
	ret->n_windows = 0;
	if (!err && s.last >= s.first) {
		tracefit_borders(&s);
		err = tracefit_measure(&s);
		if (!err && !tracefit_join(&s, ret)) {
			free(ret->windows);
			ret->windows = NULL;
			ret->n_windows = 0;
		}
	}
	tracefit_done(&s);
	return err;
}

int tracefit_steps(struct trace *t, int64_t from, int64_t to, const struct tracefit_need *need,
		   struct tracefit *ret)
{
	struct tracefit_scan s = {.t = t, .need = need};
	size_t lo, hi;
	int err = tracefit_look(&s);

	*ret = (struct tracefit){.first = -1, .last = -1, .of = tracefit_rows(t, need->work)};
	for (lo = 0; lo < s.n && s.steps[lo].number < from; lo++)
		;
	for (hi = lo; hi < s.n && s.steps[hi].number < to; hi++)
		;
	if (!err && lo < hi) {
		tracefit_edges(&s, 2);
		s.edges[0] = s.steps[lo].ts;
		s.edges[1] = hi < s.n ? s.steps[hi].ts : s.steps[hi - 1].end;
		s.edges[1] += s.edges[1] == s.edges[0];
		err = tracefit_measure(&s);
	}
	if (!err && lo < hi) {
		tracefit_take(&s, 0, 1, ret);
		ret->first = s.steps[lo].number;
		ret->last = s.steps[hi - 1].number;
	}
	tracefit_done(&s);
	return err;
}
