/* SPDX-License-Identifier: Apache-2.0
 *
 * toptrace.h - what a chart knows of a series, in bounded memory: first what the store
 * answered, then point by point what came since. When there is no more room each two
 * neighbours become one, so that a spike stays however long the run is.
 */
#ifndef CLI_TOPTRACE_H
#define CLI_TOPTRACE_H

#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPTRACE_MAX 1024u /* items */

/* Points that follow each other. */
struct toptrace_item {
	int64_t time_min, time_max; /* UTC ns */
	int64_t step_min, step_max; /* SINK_STEP_NONE: none has one */
	double min, max, sum, last; /* of those that are numbers; NaN: none is */
	uint64_t n, nan;            /* points; of them not finite */
};

struct toptrace {
	struct toptrace_item *items; /* owned */
	size_t n, cap;
	uint64_t next;      /* number of the first point of the series that is not in here */
	uint32_t segment;   /* of the newest point */
	uint32_t per_item;  /* points that an item takes before a new one is begun */
	bool is_stale;      /* steps began again, or points are missing: ask the store anew */
	bool is_rate;       /* amounts become amounts a second */
	int64_t rate_ns;    /* time of the last amount; 0: none yet */
	double rate_amount; /* of that time so far */
};

void toptrace_init(struct toptrace *t, bool is_rate);
void toptrace_done(struct toptrace *t);

/* Begin with what the store answered (buckets, of a rate before store_rate()); the series
 * has `points` points by then. */
void toptrace_seed(struct toptrace *t, struct store_result *r);

/* Add point number `at` of the series; one that is in here already is left out. */
void toptrace_add(struct toptrace *t, uint64_t at, const struct store_point *p);

/* Forget what is wholly before that time. */
void toptrace_trim(struct toptrace *t, int64_t time_ns);

/* ---- as columns ------------------------------------------------------------------ */

struct toptrace_column {
	double min, max, last; /* NaN: no numbers here */
	double smooth;         /* NaN: not known */
	bool nan;              /* something here is not a number */
};

struct toptrace_axis {
	bool by_step;
	int64_t from, to; /* of the first and of the last column, from <= to */
};

/* What part of an axis the trace takes. false: nothing. */
bool toptrace_extent(const struct toptrace *t, bool by_step, int64_t *ret_from, int64_t *ret_to);

/* Totals over the part. */
struct toptrace_total {
	double min, max, last; /* NaN: none */
	uint64_t n, nan;
};
struct toptrace_total toptrace_total(const struct toptrace *t, const struct toptrace_axis *a);

/* Fill n columns. smooth: weight of what was before, 0 to below 1, as TensorBoard's; begun at
 * the trace's beginning. */
void toptrace_columns(const struct toptrace *t, const struct toptrace_axis *a, double smooth,
		      struct toptrace_column *out, size_t n);

#endif
