/* SPDX-License-Identifier: Apache-2.0
 *
 * stepbound.h - what recorded steps are bound by, from the shares of their parts and what the
 * machine says beside: one sentence, why, and what to do. Of a trace verdict.h says it, which
 * knows more.
 */
#ifndef ANALYSE_STEPBOUND_H
#define ANALYSE_STEPBOUND_H

#include "analyse/stepsplit.h"

enum stepbound_kind {
	STEPBOUND_COMPUTE,
	STEPBOUND_MEMORY, /* bandwidth of the GPU's memory */
	STEPBOUND_DATA,
	STEPBOUND_COMMUNICATION,
	STEPBOUND_STRAGGLER,
	STEPBOUND_LAUNCH, /* the host does not keep the GPU busy */
	STEPBOUND_CHECKPOINT,
	STEPBOUND_EVALUATION,
	STEPBOUND_HOST, /* logging and spans of other names */
	STEPBOUND_UNKNOWN,
	STEPBOUND_KINDS
};

/* What is known. NaN: it is not. */
struct stepbound_facts {
	double share[STEPSPLIT_ROLES];     /* of the time of the steps, 0..1; they add up to 1 */
	const char *name[STEPSPLIT_ROLES]; /* the largest part of each role; NULL none */
	double busy;                       /* part of the time in which the GPU worked */
	double dram;                       /* bandwidth of its memory over the peak */
	bool busy_is_of_phases; /* busy: device time of phases, not the driver's figure */
	double straggler_over;  /* own time of the slowest rank over the median of the others' */
	int64_t straggler;      /* that rank */
};

struct stepbound {
	enum stepbound_kind kind;
	const char *id, *title;
	double share; /* that the sentence speaks of */
	char sentence[512], why[512];
	const char *advice;
};

/* With the GPU's figure: busy time that is not communication is compute; while it is idle the host
 * is charged, for data, checkpoint, evaluation, logging and other spans as long as these take,
 * the rest is launching. Without it host time in forward, backward and optimizer is compute,
 * as nothing else is known. The largest of these decides; but the largest of those that keep
 * the GPU idle does before compute if it has a quarter of the time, as that would be gone. It
 * is another rank that decides if that has STEPBOUND_OVER of the others' own time and
 * communication takes 5 %. Compute is memory if the memory's bandwidth is used by half or more.
 * Unknown: half of the time or more is in no span, and no figure of a GPU is there. */
void stepbound_decide(const struct stepbound_facts *f, struct stepbound *ret);
#define STEPBOUND_OVER 1.2
#define STEPBOUND_WAITS 0.05
#define STEPBOUND_IDLE 0.25
#define STEPBOUND_DRAM 0.5

#endif
