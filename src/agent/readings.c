/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/readings.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define READINGS_REFUSED UINT32_MAX

void readings_reset(struct readings *f, struct sink *sink, uint32_t process)
{
	int k;

	f->sink = sink;
	f->process = process;
	f->n = 0;
	for (k = 0; k < READINGS_SETS; k++)
		if (f->cap[k])
			memset(f->series[k], 0, f->cap[k] * sizeof(*f->series[k]));
}

void readings_done(struct readings *f)
{
	int k;

	for (k = 0; k < READINGS_SETS; k++)
		free(f->series[k]);
	memset(f, 0, sizeof(*f));
}

static uint32_t *readings_slot(struct readings *f, uint32_t point)
{
	uint32_t k = point / PROBE_POINTS_MAX, at = point % PROBE_POINTS_MAX;
	size_t cap = f->cap[k] ? f->cap[k] : 64;

	if (at >= f->cap[k]) {
		while (cap <= at)
			cap *= 2;
		f->series[k] = xrealloc(f->series[k], cap, sizeof(*f->series[k]));
		memset(f->series[k] + f->cap[k], 0, (cap - f->cap[k]) * sizeof(*f->series[k]));
		f->cap[k] = cap;
	}
	return &f->series[k][at];
}

static void readings_push(struct readings *f)
{
	if (f->n && f->sink)
		f->sink->ops->samples(f->sink, f->batch, f->n);
	f->n = 0;
}

void readings_value(struct readings *f, uint32_t point, const struct probe_metric *m,
		    const char *labels, int64_t utc_ns, double value)
{
	struct sink_series d = {f->process, m->name, labels, m->unit, m->help, m->kind, "probe"};
	uint32_t *series;

	if (!f->sink || point >= READINGS_SETS * PROBE_POINTS_MAX)
		return;
	series = readings_slot(f, point);
	if (*series == 0 && f->sink->ops->series(f->sink, &d, series) < 0)
		*series = READINGS_REFUSED;
	if (*series == READINGS_REFUSED)
		return;
	if (f->n == READINGS_BATCH)
		readings_push(f);
	f->batch[f->n++] = (struct sink_sample){utc_ns, SINK_STEP_NONE, value, *series, 0};
}

bool readings_flush(struct readings *f)
{
	bool any = f->n > 0;

	readings_push(f);
	return any;
}
