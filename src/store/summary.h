/* SPDX-License-Identifier: Apache-2.0
 *
 * summary.h - the summary tree of a series (docs/schema.md): nodes, how they
 * are made and joined, pages of them as bytes. Pure functions over memory.
 */
#ifndef STORE_SUMMARY_H
#define STORE_SUMMARY_H

#include "base/buf.h"
#include "store/codec.h"
#include "store/column.h"

#include <stddef.h>
#include <stdint.h>

#define SUMMARY_LEAF 512u      /* points of a leaf */
#define SUMMARY_LEAF_HISTS 64u /* histogram points of one */
#define SUMMARY_FAN 4u         /* children of a node of level 2 and above */
#define SUMMARY_QUARTER 15u    /* level of the nodes between leaves and chunks */
#define SUMMARY_QUARTER_LEAVES 4u
#define SUMMARY_LEAF_CHUNKS 8u     /* chunks whose leaves share a page */
#define SUMMARY_QUARTER_CHUNKS 32u /* the same of quarters */
#define SUMMARY_PAGE 128u          /* nodes of a page of level 1 and above; most of level 0 */
#define SUMMARY_LEVELS 15u         /* 0 to 14: 2^32 chunks have 64 nodes in the last */

/* Row of table summary. */
static inline int64_t summary_id(uint32_t series, unsigned level, uint64_t page)
{
	return (int64_t)((uint64_t)series << 40 | (uint64_t)level << 36 | page);
}

/* What is known of some consecutive points of a series. */
struct summary {
	uint64_t n;             /* points */
	uint64_t nan, observed; /* NaN and other values; of histograms: observations */
	double sum, min, max;   /* NaN: see docs/schema.md */
	double first, last;
	int64_t min_at, max_at; /* position of the first such point; -1: none */
	int64_t time_min, time_max;
	int64_t step_min, step_max; /* SINK_STEP_NONE: no point has one */
	uint32_t segment_min, segment_max;
	uint32_t mixed; /* 1: some points have a step and some have none */
};

/* Of n points (n > 0) of one segment. */
void summary_points(struct summary *s, const struct points_view *v, uint32_t segment);
/* Of rows [from, from + n) of h. */
void summary_hists(struct summary *s, const struct hists *h, size_t from, size_t n,
		   uint32_t segment);

/* Add what follows; s->n 0: s becomes a copy. */
void summary_join(struct summary *s, const struct summary *next);

/* Append a page's body to b; decode one of exactly n nodes (at most
 * SUMMARY_PAGE) from p. NULL or what is wrong. */
int summary_encode(struct column_codec *c, struct buf *b, const struct summary *nodes, size_t n);
const char *summary_decode(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			   struct summary *nodes);

#endif
