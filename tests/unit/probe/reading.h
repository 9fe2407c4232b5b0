/* SPDX-License-Identifier: Apache-2.0
 *
 * reading.h - one group read at moments that the test says. Everything that is not as
 * it must be ends the test.
 */
#ifndef TEST_PROBE_READING_H
#define TEST_PROBE_READING_H

#include <stdint.h>

#include "probe/probe.h"

#define READING_S INT64_C(1000000000)

struct reading {
	const struct probe_group *group;
	struct probe_env env;
	struct probe_set *set;
	void *state;
	struct err err;
};

/* What the group's open gave; after an error only *r's err is of use. */
int reading_open(struct reading *r, const struct probe_group *group, const char *root);
void reading_close(struct reading *r);

/* Read at a time (CLOCK_MONOTONIC, seconds). Each point has a value or a reason then. */
void reading_at(struct reading *r, double mono_s);

/* The value that there must be, and the reason why there is none. labels "" none. */
double reading_value(const struct reading *r, const char *name, const char *labels);
const char *reading_why(const struct reading *r, const char *name, const char *labels);

/* Is there such a point? */
bool reading_has(const struct reading *r, const char *name, const char *labels);

#endif
