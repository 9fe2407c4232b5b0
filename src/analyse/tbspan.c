/* SPDX-License-Identifier: Apache-2.0
 *
 * tbspan.c - see tbspan.h. The walks over two lists keep the reference's order of cases: in
 * doubles, a sum of the same pieces cut elsewhere would differ in the last digits.
 */
#include "analyse/tbspan.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void tbspan_add(struct tbspans *s, double ts, double end)
{
	if (s->n == s->cap)
		s->v = xgrow(s->v, s->n, &s->cap, sizeof(*s->v));
	s->v[s->n].ts = ts;
	s->v[s->n].end = end;
	s->n++;
}

void tbspan_done(struct tbspans *s)
{
	free(s->v);
	memset(s, 0, sizeof(*s));
}

static int tbspan_by_start(const void *pa, const void *pb)
{
	const struct tbspan *a = pa, *b = pb;

	return (a->ts > b->ts) - (a->ts < b->ts);
}

void tbspan_merge(struct tbspans *s)
{
	struct tbspan *last;
	bool sorted = true;
	size_t i, n = 0;

	for (i = 1; sorted && i < s->n; i++)
		sorted = s->v[i - 1].ts <= s->v[i].ts;
	if (!sorted)
		qsort(s->v, s->n, sizeof(*s->v), tbspan_by_start);
	for (i = 0; i < s->n; i++) {
		last = n ? &s->v[n - 1] : NULL;
		if (last && s->v[i].end <= last->end)
			continue;
		if (last && s->v[i].ts <= last->end)
			last->end = s->v[i].end;
		else
			s->v[n++] = s->v[i];
	}
	s->n = n;
}

void tbspan_common(const struct tbspans *a, const struct tbspans *b, struct tbspans *ret)
{
	size_t i = 0, j = 0;
	struct tbspan p, q;

	if (!a->n || !b->n)
		return;
	p = a->v[0];
	q = b->v[0];
	while (i < a->n && j < b->n) {
		bool next_a = false, next_b = false;

		if (q.end <= p.ts) {
			next_b = true;
		} else if (q.ts >= p.end && q.ts > p.ts) {
			next_a = true;
		} else {
			double ts = q.ts <= p.ts ? p.ts : q.ts;

			next_b = q.end < p.end;
			next_a = !next_b;
			tbspan_add(ret, ts, next_b ? q.end : p.end);
			if (next_b)
				p.ts = q.end;
			else
				q.ts = p.end;
		}
		if (next_b && ++j < b->n)
			q = b->v[j];
		if (next_a && ++i < a->n)
			p = a->v[i];
	}
}

void tbspan_without(const struct tbspans *a, const struct tbspans *b, struct tbspans *ret)
{
	size_t i = 0, j = 0;
	struct tbspan p = {0, 0}, q = {0, 0};

	if (a->n)
		p = a->v[0];
	if (b->n)
		q = b->v[0];
	while (i < a->n) {
		bool next_a = false;

		if (j >= b->n || (q.end > p.ts && q.ts > p.ts && q.ts >= p.end)) {
			tbspan_add(ret, p.ts, p.end);
			next_a = true;
		} else if (q.end <= p.ts) {
			if (++j < b->n)
				q = b->v[j];
		} else if (q.ts <= p.ts) {
			next_a = q.end >= p.end;
			if (next_a)
				q.ts = p.end;
			else
				p.ts = q.end;
		} else {
			tbspan_add(ret, p.ts, q.ts);
			p.ts = q.ts;
		}
		if (next_a && ++i < a->n)
			p = a->v[i];
	}
}

double tbspan_sum(const struct tbspans *s)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < s->n; i++)
		sum += s->v[i].end - s->v[i].ts;
	return sum;
}

double tbspan_within(const struct tbspans *s, double ts, double end)
{
	size_t lo = 0, hi = s->n, mid;
	double sum = 0, from, to;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (s->v[mid].end <= ts)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < s->n && s->v[lo].ts < end; lo++) {
		from = s->v[lo].ts > ts ? s->v[lo].ts : ts;
		to = s->v[lo].end < end ? s->v[lo].end : end;
		sum += to - from;
	}
	return sum;
}

void tbvalued_add(struct tbvalueds *s, double ts, double end, double value)
{
	if (s->n == s->cap)
		s->v = xgrow(s->v, s->n, &s->cap, sizeof(*s->v));
	s->v[s->n].ts = ts;
	s->v[s->n].end = end;
	s->v[s->n].value = value;
	s->n++;
}

void tbvalued_done(struct tbvalueds *s)
{
	free(s->v);
	memset(s, 0, sizeof(*s));
}

struct tbvalued_point {
	double at, change;
	size_t place; /* stable order */
	bool is_end;
};

static int tbvalued_by_time(const void *pa, const void *pb)
{
	const struct tbvalued_point *a = pa, *b = pb;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	if (a->is_end != b->is_end)
		return a->is_end ? 1 : -1;
	return (a->place > b->place) - (a->place < b->place);
}

void tbvalued_sweep(const struct tbvalueds *s, struct tbvalueds *ret)
{
	struct tbvalued_point *points = xcalloc(s->n * 2 + 1, sizeof(*points));
	double value = 0;
	size_t i;

	for (i = 0; i < s->n; i++) {
		points[2 * i] = (struct tbvalued_point){s->v[i].ts, s->v[i].value, 2 * i, false};
		points[2 * i + 1] =
			(struct tbvalued_point){s->v[i].end, -s->v[i].value, 2 * i + 1, true};
	}
	qsort(points, s->n * 2, sizeof(*points), tbvalued_by_time);
	for (i = 0; i < s->n * 2; i++) {
		if (i && points[i].at > points[i - 1].at && value > 0)
			tbvalued_add(ret, points[i - 1].at, points[i].at, value < 1 ? value : 1);
		value = i ? value + points[i].change : points[i].change;
	}
	free(points);
}

double tbvalued_within(const struct tbvalueds *s, double ts, double end, bool *ret_any)
{
	double sum = 0, a, b;
	size_t i;

	*ret_any = false;
	for (i = 0; i < s->n; i++) {
		if (end <= s->v[i].ts)
			break;
		if (ts >= s->v[i].end)
			continue;
		a = ts <= s->v[i].ts ? s->v[i].ts : ts;
		b = end < s->v[i].end ? end : s->v[i].end;
		sum += s->v[i].value * (b - a);
		*ret_any = true;
	}
	return sum;
}
