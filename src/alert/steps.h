/* SPDX-License-Identifier: Apache-2.0
 *
 * steps.h - how a training goes on, from the ends of its steps: is it settled, how long is
 * it quiet, are steps slower than they were. One process sets the pace, the first that
 * records steps; a step of any process ends a silence.
 */
#ifndef ALERT_STEPS_H
#define ALERT_STEPS_H

#include "alert/spread.h"

#include <stdbool.h>
#include <stdint.h>

#define STEPS_WARM_UP 10        /* steps that count nowhere */
#define STEPS_USUAL 50          /* steps before there is a usual one */
#define STEPS_BINS 60           /* stretches that make up the last minute */
#define STEPS_PAUSE_MAX_S 600.0 /* longer pauses are not learned */
#define STEPS_COLD_S                                                                               \
	600.0 /* a silence before the first steps are over, or while the                           \
		 program does something else */
#define STEPS_SLOW 2.0

/* Zero-initialise it; slow is STEPS_SLOW unless set. */
struct steps {
	double slow;         /* so many times the usual is slow */
	uint32_t leader;     /* process that sets the pace; 0: none */
	uint64_t n;          /* its steps */
	int64_t last_ns;     /* end of the last step of any process; 0: there was none */
	int64_t life_ns;     /* when what was no step ended last */
	int64_t leader_ns;   /* of the leader's */
	int64_t warm_ns;     /* when its warm-up was over; 0: not yet */
	int64_t step, total; /* number of the last one; of all, 0 unknown */
	double longest_s;    /* pause that was followed by a step and gave no alert */
	/* Of the leader's last step, not yet counted: its amount may still come. */
	double period_s, samples, tokens;
	bool has_period;
	unsigned by;         /* 0: steps, 1: samples, 2: tokens */
	double amount;       /* of a step, running mean */
	struct spread usual; /* seconds a unit of amount */
	bool frozen;         /* what comes now is no part of it */
	struct {
		uint32_t all, slow;
	} bins[STEPS_BINS];
	uint64_t bin; /* number of the newest */
	uint32_t all, slow_n;
	int64_t bin_ns;  /* their width */
	double recent_s; /* running mean of the period over some ten steps */
};

/* A step of a process ended; is_new: its first. */
void steps_add(struct steps *s, uint32_t process, int64_t end_ns, int64_t step, bool is_new);
/* What the step before processed. */
void steps_samples(struct steps *s, uint32_t process, double samples);
void steps_tokens(struct steps *s, uint32_t process, double tokens);

/* The process is over: another that does steps may set the pace, and is waited for as before. */
void steps_leave(struct steps *s, uint32_t process);
/* All that did steps are over. */
void steps_end(struct steps *s);
/* Time passed in which nothing could run (the machine slept). */
void steps_skip(struct steps *s, int64_t now_ns);
/* What was no step (an evaluation) is over: a silence is counted from here. */
void steps_live(struct steps *s, int64_t now_ns);

/* Seconds that a usual step takes; NaN: not known yet. */
double steps_period_s(struct steps *s);

/* Seconds since a step ended, and from when on that is too long: at least least_s. busy:
 * the program works on something that is no step. False: there are no steps to wait for. */
bool steps_quiet(struct steps *s, int64_t now_ns, double least_s, bool busy, double *ret_s,
		 double *ret_limit_s);

/* Are steps going on; has the warm-up ended? */
bool steps_is_going(struct steps *s, int64_t now_ns);
bool steps_is_settled(const struct steps *s);

/* Share of the steps of the last minute (or of 60 usual steps, if that is longer) that were
 * slow; NaN: too few. */
double steps_slow_share(struct steps *s);

#endif
