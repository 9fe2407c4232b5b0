/* SPDX-License-Identifier: Apache-2.0
 *
 * alertrig.h - a watch around a sink that keeps the events it is given, and a training to
 * feed it by hand: time in seconds from T0.
 */
#ifndef TESTS_ALERTRIG_H
#define TESTS_ALERTRIG_H

#include "alert/watch.h"

#include <stdbool.h>

#define RIG_EVENTS 512
#define RIG_T0 1767323045000000000LL

struct rig_event {
	int64_t time_ns;
	int severity;
	uint32_t process;
	char text[512], attrs[1024];
	char rule[32], state[16], id[40];
	double at_s; /* since RIG_T0 */
};

struct rig {
	struct sink sink; /* the one within */
	struct watch *watch;
	struct sink *to;
	int fail_commits;
	uint32_t n_process, n_series;
	uint64_t n_samples;
	struct rig_event pending[RIG_EVENTS], events[RIG_EVENTS]; /* of alerts, committed */
	unsigned n_pending, n_events;
	char attr[2048], pending_attr[2048]; /* WATCH_ATTR */
	uint32_t host, command, trainer;
};

/* With processes "host", "command" and "trainer". */
void rig_init(struct rig *r, const struct watch_settings *s);
void rig_done(struct rig *r);

uint32_t rig_process(struct rig *r, const char *role, int rank, int64_t end_ns);
uint32_t rig_gauge(struct rig *r, uint32_t process, const char *name, const char *labels);
uint32_t rig_series(struct rig *r, uint32_t process, const char *name, const char *labels,
		    enum sink_kind kind);
void rig_put(struct rig *r, uint32_t series, double t_s, int64_t step, double value);
/* A span that ends at t_s. */
void rig_span(struct rig *r, uint32_t series, double t_s, int64_t step, double seconds);
void rig_commit(struct rig *r);

/* The n-th committed event of a rule in a state, or NULL. Commits first. */
const struct rig_event *rig_find(struct rig *r, const char *rule, const char *state, unsigned n);
/* How many of them; rule NULL: of all. */
unsigned rig_count(struct rig *r, const char *rule, const char *state);

#endif
