/* SPDX-License-Identifier: Apache-2.0
 *
 * exports.h - exporters of live runs: for each that `lapse run --export` asked
 * for, a process of its own that follows the run's database, so that whatever
 * happens to it, nothing waits for it. One that fails is started again.
 */
#ifndef AGENT_EXPORTS_H
#define AGENT_EXPORTS_H

#include "wire/run.h"

#include <stdbool.h>
#include <stdint.h>

#define EXPORTS_BUSY 75 /* exit status of an exporter: another one does this */

struct exports;

/* program: what is started as `PROGRAM export ...`; NULL: no exporters at all. */
struct exports *exports_new(const char *program);

/* Free. Exporters go on: they end with their run, and the next agent's yield to
 * them. */
void exports_free(struct exports *x);

/* Those that a run asks for (r->exports); a second call for a run does nothing. */
void exports_begin(struct exports *x, const struct run_start *r);

/* Start what is due, take note of what has ended. failed is called once an
 * exporter, with what it said last. */
void exports_tick(struct exports *x, int64_t now_ns,
		  void (*failed)(void *arg, const char *run, const char *text), void *arg);

/* The run is over: its exporters end by themselves; one that fails is tried a few
 * times more. */
void exports_end(struct exports *x, const char *run);

/* Is any of them not done? */
bool exports_is_busy(const struct exports *x);

#endif
