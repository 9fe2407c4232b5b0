/* SPDX-License-Identifier: Apache-2.0
 *
 * runner.h - reads groups when they are due and keeps their own cost in sight. The
 * groups of one place share a set; those that may block have a thread, so that a
 * reading that hangs stops only its own figures (and is told).
 */
#ifndef PROBE_RUNNER_H
#define PROBE_RUNNER_H

#include "probe/probe.h"

/* A group is slowed down when it takes more than this share of its period. */
#define RUNNER_SHARE_MAX 0.02
#define RUNNER_PERIOD_MAX_NS 60000000000 /* and not below this rate */
#define RUNNER_STUCK_NS 30000000000      /* a reading that takes longer is told as an event */

/* Metrics of the runner itself: rows only, it is not opened. */
extern const struct probe_group runner_own;

struct runner;

/* How often; what a field says nothing of is as the group says. */
struct runner_pace {
	int64_t period_ns; /* of groups whose own is 1 s; 0: 1 s. Others scale alike. */
	/* Of a group by name: period in ns, 0 as above, -1: never read. NULL: none */
	int64_t (*of)(void *arg, const char *group);
	void *arg;
};

/* Open the groups of probe_groups that are of a run (env->pid != 0) or not. Groups
 * that are not here stay away (runner_each() tells why). env and pace are copied; what they
 * point to lives longer. Threads start here. 0, -ENOMEM, -EAGAIN (no thread). */
int runner_new(const struct probe_env *env, const struct runner_pace *pace, struct runner **ret);

/* Stops threads; one that hangs in a reading is left behind, and frees what it uses when
 * it comes back. env and what it points to must then live on: the agent's do. */
void runner_free(struct runner *r);

/* Stop the threads and read no more, but keep the points: for runner_points(). False if a
 * thread hangs; its points are not shown then. */
bool runner_stop(struct runner *r);

/* Every point that there is, with what was read last. After runner_stop(). */
void runner_points(struct runner *r, void (*fn)(void *arg, const struct probe_view *v), void *arg);

/* Change the pace of groups of 1 s (phases: docs/config.md); takes effect at once. */
void runner_set_period(struct runner *r, int64_t period_ns);

/* Read what is due in the caller's thread. Returns CLOCK_MONOTONIC ns when to come again. */
int64_t runner_tick(struct runner *r, const struct probe_now *now);

/* Hand over what all groups read since the last call. Points are numbered over
 * all sets of the runner: stable, dense enough for an array (at most 3 x PROBE_POINTS_MAX). */
void runner_take(struct runner *r, const struct probe_taker *t);

/* Walk the groups: here or not and why, what a reading cost (CPU and wall, seconds, mean of the
 * recent ones), its period. For doctor; numbers may be a reading old. */
struct runner_group {
	const struct probe_group *group;
	bool open;
	const char *why; /* not open: why */
	double cpu_s, wall_s;
	uint64_t readings;
	int64_t period_ns;
};
void runner_each(struct runner *r, void (*fn)(void *arg, const struct runner_group *g), void *arg);

#endif
