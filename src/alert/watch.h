/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.h - looks at what goes into a sink. It is a sink itself that hands everything on
 * to the one within, feeds the rules (builtin.h) and adds an event of kind "alert" when one
 * begins or ends. Recording goes first: what the sink within says is what the caller is
 * told, and whatever fails here fails silently.
 *
 * The event's attributes: {"alert": ID, "rule", "state": "firing" or "resolved", "host",
 * "series" (as people write it), "series_id", "of_id", "value", "limit", "unit", "since_ns",
 * "from_ns", "to_ns" (resolved), "ended": true (resolved since its process ended)}; numbers
 * that are not known are null, times are decimal strings. What is watched, and how, is the
 * attribute WATCH_ATTR of the run's first process.
 *
 * Time is that of what is recorded, so that a run that is read afterwards, or made up, has
 * the alerts that it would have had. One thread.
 */
#ifndef ALERT_WATCH_H
#define ALERT_WATCH_H

#include "wire/run.h"
#include "wire/sink.h"

#include <stdbool.h>
#include <stddef.h>

#define WATCH_KIND "alert"
#define WATCH_ATTR "alert.watch"

#define WATCH_INSTANCES_MAX 4096u /* pairs of a rule's row and a series; more are not looked at */
#define WATCH_SERIES_MAX 1048576u /* series looked at for NaN; as many as the store holds */
#define WATCH_PROCESSES_MAX 65536u
#define WATCH_LANES_MAX 65536u
#define WATCH_QUEUE_MAX 256u /* alerts that wait for a commit to succeed */

/* What is changed of the built-in rules. */
struct watch_settings {
	bool off;                /* nothing is looked at */
	const char *const *none; /* names of rules that are not looked at; NULL: all are */
	struct watch_limit {
		const char *rule;
		double limit;
	} const *limits; /* ended by rule NULL; NULL: none */
};

struct watch;

/* Around a sink, which must outlive it; the settings and host are copied. */
struct watch *watch_new(struct sink *inner, const char *host, const struct watch_settings *s);
void watch_free(struct watch *w); /* NULL is fine */
struct sink *watch_sink(struct watch *w);

/* The program does something that is no step: evaluation, a checkpoint. Known by the spans
 * that are open, asked once a second. */
void watch_aside(struct watch *w, bool is_aside);

/* The run has ended so: adds what that means and commits. Everything before must have been
 * committed. */
void watch_end(struct watch *w, const struct run_outcome *o);

#endif
