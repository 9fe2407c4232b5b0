/* SPDX-License-Identifier: Apache-2.0
 *
 * tracediff_steps.c - time of every name in every step of two traces, and whether the two
 * rows of numbers differ by more than their spread.
 */
#include "analyse/tracediff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/mannwhitney.h"
#include "analyse/nest.h"
#include "analyse/room.h"
#include "analyse/welch.h"
#include "base/map.h"

const char *const tracediff_verdict_names[] = {
	[TRACEDIFF_NEW] = "added",         [TRACEDIFF_GONE] = "removed",
	[TRACEDIFF_SLOWER] = "slower",     [TRACEDIFF_FASTER] = "faster",
	[TRACEDIFF_SAME] = "same",         [TRACEDIFF_UNSURE] = "unsure",
	[TRACEDIFF_UNTESTED] = "untested",
};

const char *const tracediff_test_names[] = {
	[TRACEDIFF_WELCH] = "welch",
	[TRACEDIFF_RANKS] = "ranks",
};

struct sums {
	struct tracediff_result *r;
	const struct tracediff_limits *l;
	size_t cap;
	struct map names[TRACEDIFF_KINDS];
	double *ns[2]; /* item by step */
	size_t cap_ns[2];
	int32_t *numbers[2]; /* of the steps, ascending */
};

/* ---- steps ------------------------------------------------------------------------------ */

static int by_step(const void *pa, const void *pb)
{
	int32_t a = *(const int32_t *)pa, b = *(const int32_t *)pb;

	return a < b ? -1 : a > b;
}

static int find_steps(struct sums *s, const struct view *v, int side)
{
	double total = 0;
	size_t n = 0;
	int32_t *list = calloc(v->n_steps + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < v->n_steps; i++) {
		list[i] = (int32_t)v->steps[i].number;
		total += (double)(v->steps[i].end - v->steps[i].ts);
	}
	if (v->n_steps)
		qsort(list, v->n_steps, sizeof(*list), by_step);
	for (size_t i = 0; i < v->n_steps; i++) {
		if (!n || list[n - 1] != list[i])
			list[n++] = list[i];
	}
	s->numbers[side] = list;
	s->r->has_steps[side] = n > 0;
	s->r->step_ns[side] = n ? total / (double)v->n_steps : NAN;
	s->r->steps[side] = n ? n : 1;
	return 0;
}

/* Place of a row's step; SIZE_MAX if it is in none. */
static size_t place_of(const struct sums *s, const struct view_row *r, int side)
{
	const int32_t *at;

	if (!s->r->has_steps[side])
		return 0;
	at = bsearch(&r->step, s->numbers[side], s->r->steps[side], sizeof(r->step), by_step);
	return at ? (size_t)(at - s->numbers[side]) : SIZE_MAX;
}

/* ---- sums ------------------------------------------------------------------------------- */

static int item_of(struct sums *s, enum tracediff_kind kind, const char *text, size_t len,
		   size_t *ret)
{
	struct tracediff_result *r = s->r;
	uint64_t known;

	if (map_get(&s->names[kind], text, len, &known)) {
		*ret = (size_t)known;
		return 0;
	}
	if (room_for(&r->items, r->n, &s->cap, sizeof(*r->items)) < 0)
		return -ENOMEM;
	for (int i = 0; i < 2; i++) {
		size_t want = r->n + 1;
		double *p;

		if (want <= s->cap_ns[i])
			continue;
		want *= 2;
		if (want > SIZE_MAX / sizeof(double) / r->steps[i])
			return -ENOMEM;
		p = realloc(s->ns[i], want * r->steps[i] * sizeof(*p));
		if (!p)
			return -ENOMEM;
		memset(p + s->cap_ns[i] * r->steps[i], 0,
		       (want - s->cap_ns[i]) * r->steps[i] * sizeof(*p));
		s->ns[i] = p;
		s->cap_ns[i] = want;
	}
	r->items[r->n] = (struct tracediff_item){.name = text, .kind = (uint8_t)kind};
	map_put(&s->names[kind], text, len, r->n);
	*ret = r->n++;
	return 0;
}

static int add(struct sums *s, const struct view *v, const struct view_row *row, int64_t ns,
	       int side)
{
	size_t step = place_of(s, row, side), item, len;
	const char *text;
	int r;

	if (step == SIZE_MAX)
		return 0;
	text = trace_text(v->trace, row->name, &len);
	r = item_of(s, row->is_gpu ? TRACEDIFF_KERNEL : TRACEDIFF_OPERATOR, text, len, &item);
	if (r < 0)
		return r;
	s->ns[side][item * s->r->steps[side] + step] += (double)ns;
	s->r->items[item].side[side].calls++;
	return 0;
}

/* ProfilerStep#N differs from step to step by its name alone. */
static bool is_counted(const struct view *v, const struct view_row *r)
{
	return view_step_number(trace_text(v->trace, r->name, NULL)) < 0;
}

static int add_side(struct sums *s, const struct view *v, int side)
{
	static const struct nest_options o = {.order = NEST_EXACT};
	struct nest *t = NULL;
	int r = nest_new(v, &o, &t);

	for (uint32_t k = 0; r == 0 && k < t->n; k++) {
		const struct view_row *row = &v->rows[t->row[k]];

		if (is_counted(v, row))
			r = add(s, v, row, t->self[k], side);
	}
	for (size_t i = 0; r == 0 && i < v->n; i++) {
		if (v->rows[i].is_gpu)
			r = add(s, v, &v->rows[i], v->rows[i].end - v->rows[i].ts, side);
	}
	nest_free(t);
	return r;
}

/* ---- tests ------------------------------------------------------------------------------- */

static void describe(struct sums *s, size_t item, int side)
{
	struct tracediff_side *d = &s->r->items[item].side[side];
	size_t n = s->r->steps[side];
	const double *x = &s->ns[side][item * n];
	double squares = 0;

	for (size_t i = 0; i < n; i++)
		d->per_step += x[i] / (double)n;
	for (size_t i = 0; i < n; i++)
		squares += (x[i] - d->per_step) * (x[i] - d->per_step);
	d->spread = n > 1 ? sqrt(squares / (double)(n - 1)) : NAN;
	s->r->total[side][s->r->items[item].kind] += d->per_step;
}

static double level_of(const struct sums *s)
{
	return s->l->level > 0 ? s->l->level : 0.05;
}

/* Both tests of one name, and which of them counts. */
static void test(const struct sums *s, size_t item, const struct mannwhitney *m)
{
	struct tracediff_item *it = &s->r->items[item];
	const size_t *n = s->r->steps;
	const double *x[2] = {&s->ns[0][item * n[0]], &s->ns[1][item * n[1]]};
	double squares[2], skew;
	struct mannwhitney_result u;
	struct welch w;

	for (int i = 0; i < 2; i++)
		squares[i] =
			n[i] > 1 ? it->side[i].spread * it->side[i].spread * (double)(n[i] - 1) : 0;
	w = welch_test(it->side[0].per_step, squares[0], n[0], it->side[1].per_step, squares[1],
		       n[1]);
	it->delta = it->side[1].per_step - it->side[0].per_step;
	it->p = w.p;
	it->effect = w.effect;
	it->p_rank = NAN;
	if (n[0] < 2 || n[1] < 2)
		return;
	mannwhitney_test(m, x[0], x[1], &u);
	it->p_rank = u.p;
	skew = fmax(fabs(mannwhitney_skew(x[0], n[0])), fabs(mannwhitney_skew(x[1], n[1])));
	if (skew > TRACEDIFF_SKEW && m->least <= level_of(s))
		it->test = TRACEDIFF_RANKS;
}

static enum tracediff_verdict judge(const struct sums *s, const struct tracediff_item *it)
{
	double level = level_of(s);
	double least = s->l->least > 0 ? s->l->least : 0.01;

	if (!it->side[0].calls)
		return TRACEDIFF_NEW;
	if (!it->side[1].calls)
		return TRACEDIFF_GONE;
	if (isnan(it->q))
		return TRACEDIFF_UNTESTED;
	if (fabs(it->delta) <= least * it->side[0].per_step)
		return TRACEDIFF_SAME;
	if (it->q > level)
		return TRACEDIFF_UNSURE;
	return it->delta > 0 ? TRACEDIFF_SLOWER : TRACEDIFF_FASTER;
}

static int by_impact(const void *pa, const void *pb)
{
	const struct tracediff_item *a = pa, *b = pb;

	if (fabs(a->delta) != fabs(b->delta))
		return fabs(a->delta) > fabs(b->delta) ? -1 : 1;
	if (a->kind != b->kind)
		return (int)a->kind - (int)b->kind;
	return strcmp(a->name, b->name);
}

static int test_all(struct sums *s)
{
	struct tracediff_result *r = s->r;
	double *q = calloc(r->n + 1, sizeof(*q));
	size_t *order = calloc(r->n + 1, sizeof(*order));
	struct mannwhitney m = {.n = {0, 0}};

	if (!q || !order || mannwhitney_new(r->steps[0], r->steps[1], &m)) {
		free(q);
		free(order);
		return -ENOMEM;
	}
	for (size_t i = 0; i < r->n; i++) {
		struct tracediff_item *it = &r->items[i];

		describe(s, i, 0);
		describe(s, i, 1);
		test(s, i, &m);
		/* What is on one side only needs no test. */
		q[i] = !it->side[0].calls || !it->side[1].calls ? NAN
		       : it->test == TRACEDIFF_RANKS            ? it->p_rank
								: it->p;
	}
	r->is_few = r->steps[0] > 1 && r->steps[1] > 1 && m.least > level_of(s);
	mannwhitney_free(&m);
	welch_adjust(q, order, r->n);
	for (size_t i = 0; i < r->n; i++) {
		r->items[i].q = q[i];
		r->items[i].verdict = (uint8_t)judge(s, &r->items[i]);
	}
	if (r->n)
		qsort(r->items, r->n, sizeof(*r->items), by_impact);
	free(q);
	free(order);
	return 0;
}

int tracediff_steps_new(const struct view *a, const struct view *b,
			const struct tracediff_limits *l, struct tracediff_result **ret)
{
	static const struct tracediff_limits defaults;
	struct sums s = {.l = l ? l : &defaults};
	int r = 0;

	s.r = calloc(1, sizeof(*s.r));
	if (!s.r)
		return -ENOMEM;
	for (int i = 0; i < TRACEDIFF_KINDS; i++)
		map_init(&s.names[i]);
	for (int i = 0; i < 2 && r == 0; i++)
		r = find_steps(&s, i ? b : a, i);
	for (int i = 0; i < 2 && r == 0; i++)
		r = add_side(&s, i ? b : a, i);
	if (r == 0)
		r = test_all(&s);
	for (int i = 0; i < TRACEDIFF_KINDS; i++)
		map_done(&s.names[i]);
	for (int i = 0; i < 2; i++) {
		free(s.ns[i]);
		free(s.numbers[i]);
	}
	if (r < 0) {
		tracediff_steps_free(s.r);
		return r;
	}
	*ret = s.r;
	return 0;
}

void tracediff_steps_free(struct tracediff_result *r)
{
	if (!r)
		return;
	free(r->items);
	free(r);
}
