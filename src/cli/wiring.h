/* SPDX-License-Identifier: Apache-2.0
 *
 * wiring.h - ties the agent to the store; only the program knows both.
 */
#ifndef CLI_WIRING_H
#define CLI_WIRING_H

#include "agent/agent.h"
#include "store/store.h"

/* The store layer as the agent wants it. */
extern const struct agent_store wiring_store;

/* Retention of the runs that it holds from now on (copied); without this call none. */
void wiring_limit(const struct store_limits *l);

#endif
