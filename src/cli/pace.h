/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.h - how often the agent reads which metrics, from the settings probe.*.
 */
#ifndef CLI_PACE_H
#define CLI_PACE_H

#include "agent/agent.h"
#include "config/config.h"

/* Fill the probing part of o. What the settings say wrong (a group that does not
 * exist, a time that is none) is left out and told by pace_note(). Once in a process. */
void pace_set(struct agent_options *o, const struct config *c);

/* The i-th sentence about what was left out, or NULL. */
const char *pace_note(size_t i);

#endif
