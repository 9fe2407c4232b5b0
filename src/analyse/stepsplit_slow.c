/* SPDX-License-Identifier: Apache-2.0
 *
 * stepsplit_slow.c - the slowest steps. Ranks that wait for each other are equally slow, so of
 * each step the one is told that the others waited for.
 */
#include "analyse/stepsplit.h"

#include "base/mem.h"

#include <stdlib.h>

/* A step of one rank. */
struct stepsplit_slow {
	int64_t number, ns;
	double waited; /* ns for other ranks */
	size_t at;
};

/* The same step of all ranks together, the longest first. */
static int stepsplit_slow_order(const void *a, const void *b)
{
	const struct stepsplit_slow *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

static struct stepsplit_slow *stepsplit_slow_all(const struct stepsplit *s)
{
	struct stepsplit_slow *all = xcalloc(s->n, sizeof(*all)), *x;
	size_t i, k;

	for (i = 0; i < s->n; i++) {
		x = &all[i];
		x->number = s->steps[i].number;
		x->ns = s->steps[i].end - s->steps[i].start;
		x->at = i;
		for (k = 0; k < s->n_parts; k++)
			if (s->role[k] == STEPSPLIT_COMMUNICATION)
				x->waited += (double)s->ns[i * s->n_parts + k];
	}
	qsort(all, s->n, sizeof(*all), stepsplit_slow_order);
	return all;
}

/* Of n that are one step. A rank that was through much sooner held nobody up, however little it
 * waited. */
static const struct stepsplit_slow *stepsplit_slow_cause(const struct stepsplit_slow *x, size_t n)
{
	const struct stepsplit_slow *cause = x;
	size_t i;

	for (i = 1; i < n && x[i].ns >= x->ns - x->ns / 10; i++)
		if (x[i].waited < cause->waited)
			cause = &x[i];
	return cause;
}

size_t stepsplit_slowest(const struct stepsplit *s, size_t *ret, size_t most)
{
	struct stepsplit_slow *all;
	const struct stepsplit_slow *one;
	size_t i, k, next, n = 0;

	if (s->n == 0 || most == 0)
		return 0;
	all = stepsplit_slow_all(s);
	for (i = 0; i < s->n; i = next) {
		next = i + 1;
		while (next < s->n && all[next].number == all[i].number &&
		       all[i].number != STEPSPLIT_UNNUMBERED)
			next++;
		one = stepsplit_slow_cause(&all[i], next - i);
		for (k = n; k > 0; k--) {
			const struct stepsplit_step *before = &s->steps[ret[k - 1]];

			if (before->end - before->start >= one->ns)
				break;
			if (k < most)
				ret[k] = ret[k - 1];
		}
		if (k < most) {
			ret[k] = one->at;
			n += n < most;
		}
	}
	free(all);
	return n;
}
