/* SPDX-License-Identifier: Apache-2.0
 *
 * runrig.h - the groups of a run, read together at moments that the test says. What is
 * not as it must be ends the test.
 */
#ifndef TEST_PROBE_RUNRIG_H
#define TEST_PROBE_RUNRIG_H

#include <stddef.h>

#include "probe/linux/tree.h"

#define RUNRIG_GROUPS 4
#define RUNRIG_EVENTS 64
#define RUNRIG_VALUES 8192

struct runrig_event {
	int severity;
	char kind[40], text[1024], attrs[1024];
};

struct runrig_value {
	const char *name;
	double value;
};

struct runrig {
	struct probe_env env;
	struct probe_tree tree;
	struct probe_set *set;
	void *state[RUNRIG_GROUPS]; /* tree, process, cgroup, shm */
	/* What the last reading gave. */
	struct runrig_event events[RUNRIG_EVENTS];
	struct runrig_value values[RUNRIG_VALUES];
	size_t n_events, n_values;
};

/* Follow pid under root. env.who and so on may be set afterwards. */
void runrig_open(struct runrig *r, const char *root, long pid);
void runrig_close(struct runrig *r);

/* Read at a time (CLOCK_MONOTONIC, seconds), and take. Each point has a value or a reason
 * then, and no value is negative or not finite. */
void runrig_at(struct runrig *r, double mono_s);

/* The same now. */
void runrig_now(struct runrig *r);

double runrig_value(const struct runrig *r, const char *name, const char *labels);
const char *runrig_why(const struct runrig *r, const char *name, const char *labels);
/* How many events of the last reading are of this kind, the first of them (NULL none), and
 * the sum of what it put under a name. */
size_t runrig_count(const struct runrig *r, const char *kind);
const struct runrig_event *runrig_event(const struct runrig *r, const char *kind);
double runrig_sum(const struct runrig *r, const char *name);

/* Is there such a point, and a value? */
bool runrig_knows(const struct runrig *r, const char *name, const char *labels);

#endif
