/* SPDX-License-Identifier: Apache-2.0
 *
 * headroom.h - how many files the agent may have open (each ring is one, each store some), and
 * how much memory it holds that it does not use.
 */
#ifndef AGENT_HEADROOM_H
#define AGENT_HEADROOM_H

/* From now on as many as the hard limit allows. */
void headroom_take(void);

/* The limit as it was: for a child between fork() and exec. */
void headroom_give_back(void);

/* Return what is freed, but for a little. */
void headroom_bound_memory(void);

#endif
