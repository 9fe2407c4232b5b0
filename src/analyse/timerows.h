/* SPDX-License-Identifier: Apache-2.0
 *
 * timerows.h - a trace as a picture needs it: events in rows in which nothing overlaps, and, where
 * there are more than can be shown, neighbours too short to be told apart merged into one bar.
 */
#ifndef ANALYSE_TIMEROWS_H
#define ANALYSE_TIMEROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIMEROWS_DEEP 256u /* rows of a lane */

struct timerows_bar {
	int64_t ts, dur; /* ns */
	uint32_t name;
	uint32_t count; /* events that it stands for */
	uint16_t lane;
	uint8_t depth, category;
	uint32_t index; /* place in traceEvents */
};

/* Give each event a row of its lane (thread or stream): one below what it lies within. Of equal
 * begins the longer is above. Events deeper than TIMEROWS_DEEP are dropped. Returns how many are
 * left; they are by lane, row and begin, and those of a row do not overlap. */
size_t timerows_nest(struct timerows_bar *bars, size_t n);

/* Merge, in place, so that at most `most` are left, or (where there are more rows) few a row:
 * neighbours of a row become one bar from the first's begin to the last's end, never longer than
 * *ret_merged_ns, with name, index and category of the longest. 0: nothing was merged. */
size_t timerows_merge(struct timerows_bar *bars, size_t n, size_t most, int64_t *ret_merged_ns);

#endif
