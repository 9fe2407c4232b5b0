/* SPDX-License-Identifier: Apache-2.0
 *
 * hang.h - is a run stuck? It is when for a whole time-out no record, no step, no
 * heartbeat came and its processes used no CPU time. The time-out is given, or
 * learnt: ten times the longest quiet spell that was followed by progress, at
 * least HANG_LEAST; while a span is open (evaluation, checkpoint, the first
 * step's compilation) HANG_OPEN times that. CLOCK_MONOTONIC: a machine that sleeps
 * is not quiet.
 */
#ifndef AGENT_HANG_H
#define AGENT_HANG_H

#include <stdbool.h>
#include <stdint.h>

#define HANG_LEAST_NS 300000000000 /* 5 min: nothing shorter is called hung unasked */
#define HANG_OPEN 3                /* a span is open, or no step has ended yet */
#define HANG_CPU_NS 5000000        /* CPU time a second below which nothing happens */

struct hang {
	int64_t after_ns;                /* given: > 0; learn: 0; never: < 0 */
	int64_t progress_ns;             /* CLOCK_MONOTONIC of the last progress; 0 none yet */
	int64_t longest_ns;              /* longest quiet spell before progress */
	uint64_t records, beats, cpu_ns; /* as last seen */
	uint64_t steps;                  /* as last seen before it hung; the caller's */
	bool hung;
};

enum hang_news {
	HANG_NOTHING,
	HANG_BEGAN,
	HANG_OVER
};

void hang_init(struct hang *h, int64_t after_ns);

/* Once a second. records and beats only grow; cpu_ns is the CPU time of all
 * processes of the run. busy: a span is open or no step has ended. */
enum hang_news hang_check(struct hang *h, int64_t mono_ns, uint64_t records, uint64_t beats,
			  uint64_t cpu_ns, bool busy);

/* The time-out in force. */
int64_t hang_timeout(const struct hang *h, bool busy);

#endif
