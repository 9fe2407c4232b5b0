/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/toptrace.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void toptrace_init(struct toptrace *t, bool is_rate)
{
	*t = (struct toptrace){.per_item = 1, .is_rate = is_rate};
}

void toptrace_done(struct toptrace *t)
{
	free(t->items);
	*t = (struct toptrace){0};
}

/* ---- items ------------------------------------------------------------------------- */

static void toptrace_join(struct toptrace_item *a, const struct toptrace_item *b)
{
	a->time_min = b->time_min < a->time_min ? b->time_min : a->time_min;
	a->time_max = b->time_max > a->time_max ? b->time_max : a->time_max;
	if (a->step_min == SINK_STEP_NONE) {
		a->step_min = b->step_min;
		a->step_max = b->step_max;
	} else if (b->step_min != SINK_STEP_NONE) {
		a->step_min = b->step_min < a->step_min ? b->step_min : a->step_min;
		a->step_max = b->step_max > a->step_max ? b->step_max : a->step_max;
	}
	a->min = fmin(a->min, b->min);
	a->max = fmax(a->max, b->max);
	a->sum = isnan(a->sum) ? b->sum : isnan(b->sum) ? a->sum : a->sum + b->sum;
	a->last = isnan(b->last) ? a->last : b->last;
	a->n += b->n;
	a->nan += b->nan;
}

static void toptrace_halve(struct toptrace *t)
{
	size_t i, n = 0;

	for (i = 0; i + 1 < t->n; i += 2) {
		toptrace_join(&t->items[i], &t->items[i + 1]);
		t->items[n++] = t->items[i];
	}
	if (i < t->n)
		t->items[n++] = t->items[i];
	t->n = n;
	if (t->per_item < UINT32_MAX / 2)
		t->per_item *= 2;
}

static void toptrace_push(struct toptrace *t, const struct toptrace_item *item)
{
	if (t->n && t->items[t->n - 1].n < t->per_item) {
		toptrace_join(&t->items[t->n - 1], item);
		return;
	}
	if (t->n == TOPTRACE_MAX)
		toptrace_halve(t);
	t->items = xgrow(t->items, t->n, &t->cap, sizeof(*t->items));
	t->items[t->n++] = *item;
}

/* Infinities have no place on a scale: they count with NaN. */
static void toptrace_bucket(struct toptrace *t, const struct store_bucket *b)
{
	struct toptrace_item item = {.time_min = b->time_min,
				     .time_max = b->time_max,
				     .step_min = b->step_min,
				     .step_max = b->step_max,
				     .min = isfinite(b->min) ? b->min : NAN,
				     .max = isfinite(b->max) ? b->max : NAN,
				     .sum = t->is_rate ? b->last * (double)b->count : b->sum,
				     .last = isfinite(b->last) ? b->last : NAN,
				     .n = b->count,
				     .nan = b->nan};

	if (!isfinite(item.sum))
		item.sum = isnan(item.last) ? NAN : item.last * (double)(b->count - b->nan);
	if (isinf(b->min) || isinf(b->max))
		item.nan = item.nan < item.n ? item.nan + 1 : item.n;
	item.min = isnan(item.min) ? item.last : item.min;
	item.max = isnan(item.max) ? item.last : item.max;
	toptrace_push(t, &item);
}

void toptrace_seed(struct toptrace *t, struct store_result *r)
{
	uint64_t next = t->next, all = 0;
	uint32_t segment = 0;
	size_t i;

	/* Before it becomes a rate: then amounts that count nowhere are left out. */
	for (i = 0; i < r->n; i++) {
		next = r->buckets[i].last_at + 1 > next ? r->buckets[i].last_at + 1 : next;
		t->rate_ns = r->buckets[i].time_max;
		segment = r->buckets[i].segment > segment ? r->buckets[i].segment : segment;
	}
	if (t->is_rate)
		store_rate(r, STORE_BY_TIME);
	t->n = 0;
	t->per_item = 1;
	t->is_stale = false;
	t->next = next;
	t->segment = segment;
	t->rate_amount = 0;
	for (i = 0; i < r->n; i++) {
		if (r->buckets[i].count == 0)
			continue;
		all += r->buckets[i].count;
		toptrace_bucket(t, &r->buckets[i]);
	}
	/* What comes now is collected into items as large as the usual ones here. */
	if (t->n)
		t->per_item = all / t->n > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)(all / t->n);
	if (t->per_item == 0)
		t->per_item = 1;
}

/* An amount as a rate since the last one; those of one moment count together. */
static double toptrace_rate(struct toptrace *t, const struct store_point *p)
{
	double rate;

	if (t->rate_ns == 0 || p->time_ns <= t->rate_ns) {
		t->rate_amount += t->rate_ns == 0 ? 0 : p->value;
		t->rate_ns = t->rate_ns == 0 ? p->time_ns : t->rate_ns;
		return NAN;
	}
	rate = (t->rate_amount + p->value) / ((double)(p->time_ns - t->rate_ns) / 1e9);
	t->rate_ns = p->time_ns;
	t->rate_amount = 0;
	return rate;
}

void toptrace_add(struct toptrace *t, uint64_t at, const struct store_point *p)
{
	struct toptrace_item item = {.time_min = p->time_ns,
				     .time_max = p->time_ns,
				     .step_min = p->step,
				     .step_max = p->step,
				     .n = 1};
	double v = p->value;

	if (at < t->next)
		return;
	if (at > t->next && t->n)
		t->is_stale = true;
	t->next = at + 1;
	if (p->segment > t->segment && t->n) {
		t->is_stale = true;
		return;
	}
	t->segment = p->segment;
	if (t->is_rate) {
		v = toptrace_rate(t, p);
		if (isnan(v))
			return;
	}
	item.nan = !isfinite(v);
	item.min = item.max = item.sum = item.last = item.nan ? NAN : v;
	toptrace_push(t, &item);
}

void toptrace_trim(struct toptrace *t, int64_t time_ns)
{
	size_t n = 0;

	while (n < t->n && t->items[n].time_max < time_ns)
		n++;
	t->n -= n;
	if (n)
		memmove(t->items, t->items + n, t->n * sizeof(*t->items));
}

/* ---- columns ------------------------------------------------------------------------- */

/* false: it has no place on the axis. */
static bool toptrace_place(const struct toptrace_item *i, bool by_step, int64_t *from, int64_t *to)
{
	*from = by_step ? i->step_min : i->time_min;
	*to = by_step ? i->step_max : i->time_max;
	return !by_step || i->step_min != SINK_STEP_NONE;
}

bool toptrace_extent(const struct toptrace *t, bool by_step, int64_t *ret_from, int64_t *ret_to)
{
	bool any = false;
	int64_t from, to;
	size_t i;

	for (i = 0; i < t->n; i++) {
		if (!toptrace_place(&t->items[i], by_step, &from, &to))
			continue;
		*ret_from = any && *ret_from < from ? *ret_from : from;
		*ret_to = any && *ret_to > to ? *ret_to : to;
		any = true;
	}
	return any;
}

struct toptrace_total toptrace_total(const struct toptrace *t, const struct toptrace_axis *a)
{
	struct toptrace_total all = {.min = NAN, .max = NAN, .last = NAN};
	int64_t from, to;
	size_t i;

	for (i = 0; i < t->n; i++) {
		const struct toptrace_item *it = &t->items[i];

		if (!toptrace_place(it, a->by_step, &from, &to) || to < a->from || from > a->to)
			continue;
		all.min = fmin(all.min, it->min);
		all.max = fmax(all.max, it->max);
		all.last = isnan(it->last) ? all.last : it->last;
		all.n += it->n;
		all.nan += it->nan;
	}
	return all;
}

/* The column of a place on the axis, which is within it. */
static size_t toptrace_column_of(const struct toptrace_axis *a, size_t n, int64_t at)
{
	double share;

	if (a->to == a->from)
		return n - 1;
	share = ((double)at - (double)a->from) / ((double)a->to - (double)a->from);
	return (size_t)(share * (double)(n - 1) + 0.5);
}

/* Weighted by the points of an item; undone is what the zero at the beginning does. */
struct toptrace_ema {
	double value, weight;
};

static double toptrace_smooth(struct toptrace_ema *e, double by, const struct toptrace_item *it)
{
	double good = (double)(it->n - it->nan), keep;

	if (!(good > 0))
		return NAN;
	keep = pow(by, good);
	e->value = e->value * keep + (1 - keep) * it->sum / good;
	e->weight = e->weight * keep + (1 - keep);
	return e->value / e->weight;
}

static void toptrace_fill(struct toptrace_column *c, const struct toptrace_item *it, double smooth)
{
	c->min = fmin(c->min, it->min);
	c->max = fmax(c->max, it->max);
	c->last = isnan(it->last) ? c->last : it->last;
	c->smooth = isnan(smooth) ? c->smooth : smooth;
}

void toptrace_columns(const struct toptrace *t, const struct toptrace_axis *a, double smooth,
		      struct toptrace_column *out, size_t n)
{
	struct toptrace_ema ema = {0};
	int64_t from, to;
	size_t i, k, last;

	for (i = 0; i < n; i++)
		out[i] = (struct toptrace_column){NAN, NAN, NAN, NAN, false};
	for (i = 0; i < t->n && n; i++) {
		const struct toptrace_item *it = &t->items[i];
		double s = toptrace_smooth(&ema, smooth, it);

		if (!toptrace_place(it, a->by_step, &from, &to) || to < a->from || from > a->to)
			continue;
		k = toptrace_column_of(a, n, from < a->from ? a->from : from);
		last = toptrace_column_of(a, n, to > a->to ? a->to : to);
		for (; k <= last; k++) {
			out[k].nan = out[k].nan || it->nan;
			toptrace_fill(&out[k], it, s);
		}
	}
}
