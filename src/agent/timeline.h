/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.h - from ticks to time. Anchors (readings of all clocks at once) cut
 * the ticks into stretches; within one, time is a straight line. Where the
 * counter and CLOCK_BOOTTIME disagree (suspend, a counter that began again) a
 * new epoch begins, and nothing is interpolated across.
 */
#ifndef AGENT_TIMELINE_H
#define AGENT_TIMELINE_H

#include "wire/wire.h"

#include <stdbool.h>

#define TIMELINE_MAX 512 /* anchors kept; the oldest stretches are joined */

struct timeline_anchor {
	uint64_t ticks;
	int64_t boot_ns, real_ns;
	bool epoch; /* a new epoch begins here */
};

struct timeline {
	double ns_per_tick; /* of the newest long enough stretch */
	unsigned len;
	bool provisional; /* the last anchor may be replaced by the next */
	struct timeline_anchor a[TIMELINE_MAX];
	/* The stretch of the last look-up. */
	uint64_t lo, hi;
	int64_t base_ns;
	double rate;
};

/* What a new anchor tells. */
enum timeline_news {
	TIMELINE_SAME = 0,
	TIMELINE_STEPPED = 1, /* the wall clock was stepped by *ret_ns */
	TIMELINE_JUMPED = 2   /* suspend or counter reset: *ret_ns nanoseconds of
				 CLOCK_BOOTTIME that the counter did not see */
};

/* Begin; ticks_per_s is the rough rate, used until two anchors are 50 ms apart. */
void timeline_init(struct timeline *t, uint64_t ticks_per_s);

/* Add an anchor. Those not newer than the last are put in their place if they
 * fall into the newest epoch, else left out. ret_ns may be NULL. */
enum timeline_news timeline_add(struct timeline *t, const struct wire_anchor *a, int64_t *ret_ns);

/* CLOCK_BOOTTIME in ns at these ticks; beyond the anchors it goes on at the
 * nearest rate. 0 while there is no anchor. */
int64_t timeline_boot_ns(struct timeline *t, uint64_t ticks);

#endif
