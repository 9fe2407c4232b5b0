/* SPDX-License-Identifier: Apache-2.0
 *
 * tracegaps.h - plain sentences about what traces lack for a view: GPU rows, steps, ranks,
 * shapes, stacks, memory events, and what to record to have them.
 */
#ifndef CLI_TRACEGAPS_H
#define CLI_TRACEGAPS_H

#include "cli/traceout.h"

enum tracegaps {
	TRACEGAPS_GPU = 1,
	TRACEGAPS_STEPS = 2,
	TRACEGAPS_RANK = 4,
	TRACEGAPS_SHAPES = 8,
	TRACEGAPS_STACKS = 16,
	TRACEGAPS_MEMORY = 32,
	TRACEGAPS_HOST = 64
};

/* Say which of these are not there; in how many of the traces. */
void tracegaps_say(struct traceout *o, const struct tracecmd_set *s, unsigned which);

/* That of TRACEGAPS_STEPS, for who knows by itself. */
void tracegaps_no_steps_said(struct traceout *o);

/* Rows of devices, and of the host, of a trace. */
uint64_t tracegaps_gpu_rows(const struct trace *t);
uint64_t tracegaps_host_rows(const struct trace *t);

#endif
