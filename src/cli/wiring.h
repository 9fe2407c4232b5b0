/* SPDX-License-Identifier: Apache-2.0
 *
 * wiring.h - ties the agent to the store; only the program knows both.
 */
#ifndef CLI_WIRING_H
#define CLI_WIRING_H

#include "agent/agent.h"
#include "config/config.h"
#include "store/store.h"

/* The store layer as the agent wants it. */
extern const struct agent_store wiring_store;

/* Retention of the runs that it holds from now on (copied); without this call none. */
void wiring_limit(const struct store_limits *l);

/* Where live databases are, as the settings say, from now on. */
void wiring_place(const struct config *c);
const char *wiring_local_dir(void); /* NULL: the usual ones */

/* Wait until what dead agents left, and large files that have ended, are moved. */
void wiring_wait(void);

#endif
