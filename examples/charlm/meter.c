/* SPDX-License-Identifier: Apache-2.0
 *
 * meter.c - durations in growing arrays, sorted once at the end.
 */
#include "meter.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

const char *meter_name(enum meter_phase phase)
{
	static const char *const name[METER_PHASES] = {
		[METER_DATA] = "data",         [METER_FORWARD] = "forward",
		[METER_BACKWARD] = "backward", [METER_OPTIMIZER] = "optimizer",
		[METER_EVAL] = "eval",         [METER_STEP] = "step",
	};

	return name[phase];
}

int64_t meter_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void meter_add(struct meter *m, enum meter_phase phase, int64_t start)
{
	struct meter_series *s = &m->phase[phase];
	int64_t ns = meter_now() - start;

	if (s->count == s->room) {
		s->room = s->room ? 2 * s->room : 1024;
		s->ns = realloc(s->ns, s->room * sizeof(*s->ns));
		if (!s->ns) {
			fprintf(stderr, "charlm: out of memory for %zu durations\n", s->room);
			exit(1);
		}
	}
	s->ns[s->count++] = ns;
	s->total += ns;
}

static int meter_compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The value at rank ceil(percent / 100 x n), counted from 1, in ms. */
static double meter_percentile(const struct meter_series *s, size_t percent)
{
	size_t rank = (s->count * percent + 99) / 100;

	return (double)s->ns[rank ? rank - 1 : 0] / 1e6;
}

struct meter_times meter_summary(struct meter *m, enum meter_phase phase)
{
	struct meter_series *s = &m->phase[phase];

	if (!s->count)
		return (struct meter_times){0};
	qsort(s->ns, s->count, sizeof(*s->ns), meter_compare);
	return (struct meter_times){s->count, meter_percentile(s, 50), meter_percentile(s, 95),
				    meter_percentile(s, 99)};
}

void meter_done(struct meter *m)
{
	for (size_t i = 0; i < METER_PHASES; i++)
		free(m->phase[i].ns);
	*m = (struct meter){0};
}
