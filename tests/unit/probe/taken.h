/* SPDX-License-Identifier: Apache-2.0
 *
 * taken.h - what a set has to hand over, kept for a test to look at.
 */
#ifndef TEST_PROBE_TAKEN_H
#define TEST_PROBE_TAKEN_H

#include <stddef.h>
#include <stdint.h>

#include "probe/probe.h"

#define TAKEN_MAX 128

struct taken_event {
	int severity;
	char kind[40], text[1024], attrs[1024];
};

struct taken_value {
	const char *name;
	char labels[PROBE_LABELS_MAX];
	int64_t boot_ns;
	double value;
};

struct taken {
	struct taken_event events[TAKEN_MAX];
	struct taken_value values[4 * TAKEN_MAX];
	struct taken_event facts[TAKEN_MAX]; /* kind is the key */
	size_t n_events, n_values, n_facts;
};

/* Take all of s into t; what was there is forgotten. */
void taken_take(struct taken *t, struct probe_set *s);

/* How many events are of this kind, and the first of them (NULL none). */
size_t taken_count(const struct taken *t, const char *kind);
const struct taken_event *taken_event(const struct taken *t, const char *kind);

/* The text of a fact; "" none. */
const char *taken_fact(const struct taken *t, const char *key);

#endif
