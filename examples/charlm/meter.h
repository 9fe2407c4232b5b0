/* SPDX-License-Identifier: Apache-2.0
 *
 * meter.h - the trainer's own stop-watch: how long each phase of each step
 * took, kept in full, so that what a monitor reports can be held against it.
 */
#ifndef CHARLM_METER_H
#define CHARLM_METER_H

#include <stddef.h>
#include <stdint.h>

enum meter_phase {
	METER_DATA,
	METER_FORWARD,
	METER_BACKWARD,
	METER_OPTIMIZER,
	METER_EVAL, /* between steps, not part of one */
	METER_STEP, /* from the first phase of a step to the end of the last */
	METER_PHASES
};

/* All durations of one phase, ns. */
struct meter_series {
	int64_t *ns;
	size_t count, room;
	int64_t total;
};

struct meter {
	struct meter_series phase[METER_PHASES];
};

/* What meter_summary() computes, ms. */
struct meter_times {
	size_t count;
	double p50, p95, p99;
};

const char *meter_name(enum meter_phase phase);

/* CLOCK_MONOTONIC, ns. */
int64_t meter_now(void);

/* Add the time since start (from meter_now()) to a phase. 8 bytes a call are
 * kept; without memory the program ends with an error. */
void meter_add(struct meter *m, enum meter_phase phase, int64_t start);

/* Percentiles by nearest rank, as `lapse report` has them. All 0 if nothing was
 * measured. Sorts the series. */
struct meter_times meter_summary(struct meter *m, enum meter_phase phase);

void meter_done(struct meter *m);

#endif /* CHARLM_METER_H */
