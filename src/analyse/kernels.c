/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels.c - see kernels.h.
 */
#include "analyse/kernels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/numeric.h"
#include "analyse/spans.h"

/* In the order of the bits of kernels_type.classes. */
static const enum view_class swept[] = {VIEW_COMPUTATION, VIEW_COMMUNICATION, VIEW_MEMORY};

const char *kernels_type_name(unsigned classes)
{
	static const char *const names[] = {
		"",
		"COMPUTATION",
		"COMMUNICATION",
		"COMPUTATION overlapping COMMUNICATION",
		"MEMORY",
		"COMPUTATION overlapping MEMORY",
		"COMMUNICATION overlapping MEMORY",
		"COMPUTATION overlapping COMMUNICATION overlapping MEMORY"};

	return names[classes & 7];
}

static int add_types(const struct view *v, int64_t sums[8])
{
	struct spans sets[3] = {{0}};
	struct spans_rows rows = {0};
	double times[8];
	size_t i;
	int rc = spans_rows_new(v, &rows);

	for (i = 0; i < 3 && !rc; i++)
		rc = spans_merge(v, &rows, 1u << swept[i], &sets[i]);
	if (!rc)
		rc = spans_sweep(sets, 3, v->rule != VIEW_EXACT, times);
	for (i = 1; i < 8 && !rc; i++)
		sums[i] += spans_ns(v, times[i]);
	for (i = 0; i < 3; i++)
		spans_done(&sets[i]);
	spans_rows_done(&rows);
	return rc;
}

static int by_time(const void *a, const void *b)
{
	const struct kernels_type *x = a, *y = b;

	if (x->time != y->time)
		return x->time > y->time ? -1 : 1;
	return (x->classes > y->classes) - (x->classes < y->classes);
}

static void rank_types(struct kernels *k, const int64_t sums[8])
{
	int64_t total = 0;
	unsigned i;

	for (i = 1; i < 8; i++)
		total += sums[i];
	for (i = 1; i < 8; i++) {
		if (!sums[i])
			continue;
		k->types[k->n_types].classes = i;
		k->types[k->n_types].time = sums[i];
		k->types[k->n_types++].pct =
			numeric_round((double)sums[i] / (double)total * 100, 1);
	}
	qsort(k->types, k->n_types, sizeof(k->types[0]), by_time);
}

static int class_of(const struct view_row *r, int arg)
{
	(void)arg;
	return r->is_gpu && r->class != VIEW_OTHER ? r->class : AGGREGATE_NONE;
}

static int by_class_name_rank(const void *a, const void *b)
{
	static const uint8_t place[VIEW_CLASSES] = {[VIEW_COMMUNICATION] = 0,
						    [VIEW_COMPUTATION] = 1,
						    [VIEW_MEMORY] = 2,
						    [VIEW_OTHER] = 3};
	const struct aggregate_row *x = a, *y = b;
	int c;

	/* Classes in the order of their names. */
	if (x->class != y->class)
		return (int)place[x->class] - (int)place[y->class];
	c = strcmp(x->name, y->name);
	return c ? c : (x->rank > y->rank) - (x->rank < y->rank);
}

int kernels_new(const struct view *v, size_t n, const struct aggregate_options *o,
		struct kernels *ret)
{
	struct kernels k = {0};
	int64_t sums[8] = {0};
	size_t i;
	int rc = 0;

	for (i = 0; i < n && !rc; i++)
		rc = add_types(&v[i], sums);
	if (!rc)
		rc = aggregate_add(&k.names, v, n, o, true, class_of, 0);
	if (rc) {
		kernels_done(&k);
		return rc;
	}
	rank_types(&k, sums);
	if (k.names.n)
		qsort(k.names.rows, k.names.n, sizeof(*k.names.rows), by_class_name_rank);
	*ret = k;
	return 0;
}

void kernels_done(struct kernels *k)
{
	aggregate_done(&k->names);
	memset(k, 0, sizeof(*k));
}
