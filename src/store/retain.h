/* SPDX-License-Identifier: Apache-2.0
 *
 * retain.h - retention's state in an open store, and the histogram by which it
 * finds the moment before which a number of bytes ends.
 */
#ifndef STORE_RETAIN_H
#define STORE_RETAIN_H

#include "store/store.h"

#include <stdint.h>

/* Bytes by the time at which they end: buckets of one width, which grows until all
 * times fit. Zero-initialise. */
#define RETAIN_BUCKETS 1024u
struct retain_span {
	int64_t from, width; /* of the first bucket, ns; width 0: empty */
	uint64_t bytes[RETAIN_BUCKETS];
};
/* Times are clamped to 0 to 2^62. */
void retain_span_add(struct retain_span *s, int64_t time, uint64_t bytes);
/* The earliest moment such that at least `bytes` end before it, or all. */
int64_t retain_span_before(const struct retain_span *s, double bytes);

struct retain;
struct retain_state {
	struct retain *pass; /* at work; NULL: none */
	int64_t age_ns;      /* CLOCK_MONOTONIC: look for old points from then on */
	int64_t size_ns;     /* and for the oldest of too many, */
	int64_t pack;        /* once there is another last pack than this */
	struct store_retained done;
};
/* Forget the pass that is at work; what it has deleted stays deleted. */
void retain_stop(struct retain_state *st);

#endif
