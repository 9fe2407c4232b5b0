/* SPDX-License-Identifier: Apache-2.0
 *
 * surge.h - is a series suddenly far above what it was? The median of its last values, but for
 * the very last, is what is usual, and how far values were from that is their scatter. Values
 * may be of any size and sign, and have trends.
 */
#ifndef ALERT_SURGE_H
#define ALERT_SURGE_H

#include <stdbool.h>
#include <stdint.h>

#define SURGE_DELAY 16   /* the very last, so that a rise is not its own measure */
#define SURGE_NEAR 32    /* values whose median is usual */
#define SURGE_WINDOW 256 /* distances from it that say how much values scatter */
#define SURGE_LEAST 16   /* of either; fewer say nothing */
#define SURGE_LONG 8192  /* values after which larger scatter fades no slower */
#define SURGE_OF_FIVE 3  /* so many of the last five must be high */

/* Zero-initialise it. */
struct surge {
	struct {
		double value, away;
		bool is_high;
	} late[SURGE_DELAY];
	unsigned n_late, next_late;
	double near_sorted[SURGE_NEAR], near_order[SURGE_NEAR];
	double away_sorted[SURGE_WINDOW], away_order[SURGE_WINDOW];
	unsigned n_near, next_near, n_away, next_away;
	unsigned seen;    /* values learnt, up to SURGE_LONG */
	unsigned again;   /* values to come until a new beginning is over */
	bool has_stray;   /* single values were high, and that was nothing */
	unsigned high;    /* bit k: the value before k others was high */
	double scatter;   /* the largest lately */
	double level;     /* the highest that the median was */
	double top;       /* ... and the values, but for single ones */
	double peak;      /* ... and one */
	int64_t step;     /* of the last value */
	int64_t begin_ns; /* of the first that was high, of those of the last five */
	double highest;   /* of them */
	double usual, limit;
};

enum surge_is {
	SURGE_IS_UNKNOWN, /* there is no usual value yet */
	SURGE_IS_USUAL,   /* less than half way up to the limit */
	SURGE_IS_BETWEEN,
	SURGE_IS_HIGH
};

/* Is a value, with those before it, above what is usual by `times` the scatter? Sets usual and
 * limit, and begin_ns and highest if it is. It is learnt unless is_frozen: then it, and what was
 * not learnt yet, are out of the ordinary. A step below the one before is a new beginning;
 * INT64_MIN: there are no steps. */
enum surge_is surge_add(struct surge *s, int64_t time_ns, int64_t step, double x, double times,
			bool is_frozen);

/* A new beginning (the learning rate was raised, a checkpoint was loaded): for SURGE_WINDOW
 * values they may go as high as they have been. */
void surge_again(struct surge *s);

#endif
