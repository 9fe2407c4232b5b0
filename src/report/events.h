/* SPDX-License-Identifier: Apache-2.0
 *
 * events.h - the last events of a run in bounded memory, and how many there
 * were of each severity.
 */
#ifndef REPORT_EVENTS_H
#define REPORT_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/runview.h"

struct event_row {
	unsigned host;
	uint32_t process;
	int64_t time_ns, step;
	int severity;
	char *kind, *text, *attrs; /* owned */
};

/* Take an event's copy; what was in the row is not freed. */
void event_row_init(struct event_row *row, const struct store_event *e);
void event_row_done(struct event_row *row);

struct events {
	struct event_row *rows; /* a ring of `keep` rows; use events_row() */
	size_t keep;            /* how many of the newest are kept */
	int min_severity;       /* lower ones are counted, not kept */
	const char *only_kind;  /* NULL any; else others are counted, not kept */
	bool no_failure;        /* leave out the alert that the run failed: its outcome is told */
	uint64_t matched;       /* events that could be kept */
	uint64_t by_severity[4];
};

/* Read all events of a run. Set keep, min_severity, only_kind and no_failure first,
 * the rest zero. 0 or -errno. */
int events_read(struct events *ev, const struct runview *v, struct err *e);
void events_done(struct events *ev);

/* Rows kept, and the i-th, oldest first. */
size_t events_count(const struct events *ev);
const struct event_row *events_row(const struct events *ev, size_t i);

/* Print the kept rows as a table. */
void events_print(const struct events *ev, const struct runview *v, const struct term *term,
		  FILE *to, int indent);

/* The newest kept row of the highest severity there is, one that says why rather
 * than what was going on (kind "crash") or that it is so (alerts) if there is one. At least one is
 * kept. */
const struct event_row *events_cause(const struct events *ev);

/* Append to out the traceback of the newest kept error that has one: its attribute
 * "traceback", or its text if that has several lines. Returns its row, NULL: none. */
const struct event_row *events_trace(const struct events *ev, struct buf *out);

/* An array of the kept rows. */
void events_json(struct json *j, const char *key, const struct events *ev, const struct runview *v);

/* One event's keys, into an open object. */
void events_json_row(struct json *j, const struct runview *v, const struct event_row *row);
void events_json_store(struct json *j, const struct store_event *e, const char *host);

const char *events_severity(int severity); /* "debug", "info", "warning", "error" */

#endif
