/* SPDX-License-Identifier: Apache-2.0
 *
 * probing.h - figures of the machine: read while a run is live, pushed into every live
 * run. Private to the agent.
 */
#ifndef AGENT_PROBING_H
#define AGENT_PROBING_H

#include "agent/agent.h"
#include "agent/live.h"
#include "probe/runner.h"

struct probing;

/* o is kept. Reads nothing yet. */
struct probing *probing_new(const struct agent_options *o);
void probing_free(struct probing *p);

/* Read what is due and push it into the n runs of live; each run's own figures too. Without
 * runs the readers are closed. Returns CLOCK_MONOTONIC ns when to come again. */
int64_t probing_tick(struct probing *p, struct live **live, size_t n);

#endif
