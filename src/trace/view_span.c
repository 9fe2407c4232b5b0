/* SPDX-License-Identifier: Apache-2.0
 *
 * view_span.c - sets of intervals: merged, summed, intersected; and times as doubles.
 */
#include "trace/view.h"

#include <stdlib.h>

static int by_ts(const void *a, const void *b)
{
	const struct view_span *x = a, *y = b;

	return (x->ts > y->ts) - (x->ts < y->ts);
}

size_t view_merge(struct view_span *s, size_t n)
{
	size_t i, out = 0;

	for (i = 1; i < n && s[i].ts >= s[i - 1].ts; i++)
		;
	if (i < n)
		qsort(s, n, sizeof(*s), by_ts);
	for (i = 0; i < n; i++) {
		if (s[i].end < s[i].ts)
			continue;
		if (out && s[i].ts <= s[out - 1].end) {
			if (s[i].end > s[out - 1].end)
				s[out - 1].end = s[i].end;
		} else {
			s[out++] = s[i];
		}
	}
	return out;
}

int64_t view_total(const struct view_span *s, size_t n)
{
	int64_t sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		sum += s[i].end - s[i].ts;
	return sum;
}

int64_t view_overlap(const struct view_span *a, size_t na, const struct view_span *b, size_t nb)
{
	size_t i = 0, j = 0;
	int64_t from, to, sum = 0;

	while (i < na && j < nb) {
		from = a[i].ts > b[j].ts ? a[i].ts : b[j].ts;
		to = a[i].end < b[j].end ? a[i].end : b[j].end;
		if (to > from)
			sum += to - from;
		if (a[i].end < b[j].end)
			i++;
		else
			j++;
	}
	return sum;
}

/* The double that a reader of decimal text gets. Below 2^53 ns a double holds the number, and is
 * rounded once. Above, whole us are exact and the rest is added: its error is far too small to
 * take the sum over the middle between two doubles, for these are 2^-9 us apart and more. */
double view_parts_us(int64_t ns)
{
	if (ns > -VIEW_DOUBLE_EXACT && ns < VIEW_DOUBLE_EXACT)
		return (double)ns / 1000.0;
	if (ns / 1000 < VIEW_DOUBLE_EXACT && ns > 0)
		return (double)(ns / 1000) + (double)(ns % 1000) / 1000.0;
	return (double)((long double)ns / 1000.0L);
}
