/* SPDX-License-Identifier: Apache-2.0 */
#include "analyse/timerows.h"

#include <stdlib.h>

#define TIMEROWS_CLOSER 4u

static int timerows_by_begin(const void *a, const void *b)
{
	const struct timerows_bar *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	if (x->ts != y->ts)
		return x->ts < y->ts ? -1 : 1;
	if (x->dur != y->dur)
		return x->dur > y->dur ? -1 : 1;
	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

static int timerows_by_row(const void *a, const void *b)
{
	const struct timerows_bar *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	if (x->depth != y->depth)
		return x->depth < y->depth ? -1 : 1;
	return (x->ts > y->ts) - (x->ts < y->ts);
}

size_t timerows_nest(struct timerows_bar *bars, size_t n)
{
	int64_t open[TIMEROWS_DEEP], end; /* of what is open, by row */
	size_t depth = 0, kept = 0, i;

	if (n == 0)
		return 0;
	qsort(bars, n, sizeof(*bars), timerows_by_begin);
	for (i = 0; i < n; i++) {
		if (kept == 0 || bars[i].lane != bars[kept - 1].lane)
			depth = 0;
		while (depth > 0 && open[depth - 1] <= bars[i].ts)
			depth--;
		if (depth == TIMEROWS_DEEP)
			continue;
		/* Events of no length would lie on each other. */
		end = bars[i].ts + (bars[i].dur > 0 ? bars[i].dur : 1);
		open[depth] = end;
		bars[kept] = bars[i];
		bars[kept++].depth = (uint8_t)depth++;
	}
	qsort(bars, kept, sizeof(*bars), timerows_by_row);
	return kept;
}

static bool timerows_joins(const struct timerows_bar *a, const struct timerows_bar *b, int64_t most)
{
	return a->lane == b->lane && a->depth == b->depth && b->ts + b->dur - a->ts <= most;
}

/* Merge into `to` (NULL: only count). */
static size_t timerows_pass(const struct timerows_bar *bars, size_t n, int64_t most,
			    struct timerows_bar *to)
{
	struct timerows_bar one = {0};
	int64_t longest = 0;
	size_t i, k = 0;

	for (i = 0; i < n; i++) {
		if (i == 0 || !timerows_joins(&one, &bars[i], most)) {
			if (i > 0 && to)
				to[k - 1] = one;
			k++;
			one = bars[i];
			longest = one.dur;
			continue;
		}
		one.dur = bars[i].ts + bars[i].dur - one.ts;
		one.count += bars[i].count;
		if (bars[i].dur > longest) {
			longest = bars[i].dur;
			one.name = bars[i].name;
			one.index = bars[i].index;
			one.category = bars[i].category;
		}
	}
	if (n > 0 && to)
		to[k - 1] = one;
	return k;
}

size_t timerows_merge(struct timerows_bar *bars, size_t n, size_t most, int64_t *ret_merged_ns)
{
	int64_t first = INT64_MAX, last = INT64_MIN, quantum, less;
	size_t i;

	*ret_merged_ns = 0;
	if (n <= most)
		return n;
	for (i = 0; i < n; i++) {
		first = bars[i].ts < first ? bars[i].ts : first;
		last = bars[i].ts + bars[i].dur > last ? bars[i].ts + bars[i].dur : last;
	}
	quantum = (last - first) / 4 / (int64_t)(most + 1);
	quantum = quantum > 1 ? quantum : 1;
	while (quantum < last - first && timerows_pass(bars, n, quantum, NULL) > most)
		quantum *= 2;
	/* The half of it was too little: closer to what is just enough. */
	for (less = quantum / 2, i = 0; i < TIMEROWS_CLOSER; i++) {
		int64_t middle = less + (quantum - less) / 2;

		if (timerows_pass(bars, n, middle, NULL) > most)
			less = middle;
		else
			quantum = middle;
	}
	*ret_merged_ns = quantum;
	return timerows_pass(bars, n, quantum, bars);
}
