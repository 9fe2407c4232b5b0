/* SPDX-License-Identifier: Apache-2.0
 *
 * phase.h - what a run is doing, as far as the pace of the readings goes.
 */
#ifndef AGENT_PHASE_H
#define AGENT_PHASE_H

#include <stdbool.h>

#define PHASE_WARMUP_STEPS 10 /* steps that belong to the start */

enum phase {
	PHASE_WARMUP,     /* fewer than PHASE_WARMUP_STEPS steps have ended in each process */
	PHASE_STEADY,     /* neither of the others */
	PHASE_CHECKPOINT, /* a span whose name has "checkpoint" or "save" in it is open */
	PHASE_STALLED,    /* called hung */
	PHASES
};

struct live;

enum phase phase_of(const struct live *l);

/* Is a span open whose name says that the program does something else than steps:
 * evaluation, a checkpoint, compilation, text generation? */
bool phase_is_aside(const struct live *l);

#endif
