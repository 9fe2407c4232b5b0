/* SPDX-License-Identifier: Apache-2.0
 *
 * readings.h - from the points of a probe runner to the series of a sink. A series is
 * defined when its first value comes: what cannot be read here has none.
 */
#ifndef AGENT_READINGS_H
#define AGENT_READINGS_H

#include "probe/probe.h"
#include "wire/sink.h"

#define READINGS_BATCH 64
#define READINGS_SETS 3 /* sets of a runner */

struct readings {
	struct sink *sink;               /* not owned; NULL: nothing is taken */
	uint32_t process;                /* whose series they are, as the sink gave it */
	uint32_t *series[READINGS_SETS]; /* [point]: 0 not defined yet, UINT32_MAX refused */
	size_t cap[READINGS_SETS];
	struct sink_sample batch[READINGS_BATCH];
	size_t n;
};

/* Another sink: all series are defined again. Zero-initialise f before the first call. */
void readings_reset(struct readings *f, struct sink *sink, uint32_t process);
void readings_done(struct readings *f);

/* A value of a point as runner_take() numbers it. */
void readings_value(struct readings *f, uint32_t point, const struct probe_metric *m,
		    const char *labels, int64_t utc_ns, double value);

/* Push what is batched; whether anything was pushed since the last call. */
bool readings_flush(struct readings *f);

#endif
