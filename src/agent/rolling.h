/* SPDX-License-Identifier: Apache-2.0
 *
 * rolling.h - the run named `machine`: figures of the machine while no run is live. A
 * folder for each day (UTC) and start of the agent; those that are old go. Private to
 * the agent.
 */
#ifndef AGENT_ROLLING_H
#define AGENT_ROLLING_H

#include "agent/agent.h"
#include "agent/live.h"

#define ROLLING_NAME "machine"

struct rolling;

/* o is kept; its rolling_dir is made if need be. What a dead agent left open there is ended as
 * lost. NULL if o wants none. */
struct rolling *rolling_new(const struct agent_options *o);

/* Ends the run of today. */
void rolling_free(struct rolling *r);

/* The run of today, or NULL: it could not be begun, which is tried again. Not for
 * live_finish(): nobody started it. */
struct live *rolling_live(const struct rolling *r);

/* Each second. rings as for live_second(). */
void rolling_second(struct rolling *r, int rings, const struct clocks *now);

#endif
