/* SPDX-License-Identifier: Apache-2.0
 *
 * plain_store.h - operations of a store that does nothing, for tests that replace some of
 * them, and what a launcher writes for the agent.
 */
#ifndef TESTS_PLAIN_STORE_H
#define TESTS_PLAIN_STORE_H

#include "agent/agent.h"
#include "wire/run.h"

#include <sys/types.h>

int plain_start(void *handle, const struct run_start *r, struct err *e);
int plain_tend(void *handle, struct err *e); /* also for .close */
int plain_end(void *handle, const struct run_outcome *o, struct err *e);
int plain_leave(void *handle, struct err *e); /* for .close: the agent is told to end */
const char *plain_why(void *handle);

/* The file of the run's start in DIR/runs, complete but for id, name and options; of its end.
 * Both fail the test if they cannot be written. */
void plain_write_start(const char *dir, struct run_start *r, pid_t child);
void plain_write_outcome(const char *dir, const struct run_outcome *o);

#endif
