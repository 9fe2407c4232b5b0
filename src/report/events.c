/* SPDX-License-Identifier: Apache-2.0
 *
 * events.c - see events.h.
 */
#include "report/events.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "report/attrs.h"
#include "report/crashes.h"
#include "report/jsonwalk.h"

#define EVENTS_ATTRS_MAX 200 /* longer attributes are not shown in tables */
#define EVENTS_ALERT "{\"alert\":"
#define EVENTS_FAILURE "{\"alert\":\"crash-"
#define EVENTS_ATTRS_READ_MAX (1u << 20)
#define EVENTS_TRACE_MAX (64u << 10)

const char *events_severity(int severity)
{
	static const char *const names[] = {"debug", "info", "warning", "error"};

	return severity < 0 ? names[0] : names[severity > 3 ? 3 : severity];
}

/* The alert that says how the run ended. */
static bool events_is_failure(const struct store_event *e)
{
	return strcmp(e->kind, "alert") == 0 && e->attrs &&
	       strncmp(e->attrs, EVENTS_FAILURE, strlen(EVENTS_FAILURE)) == 0;
}

static int events_clamp(int severity)
{
	return severity < 0 ? 0 : severity > 3 ? 3 : severity;
}

void event_row_init(struct event_row *row, const struct store_event *e)
{
	*row = (struct event_row){.host = e->host,
				  .process = e->process,
				  .time_ns = e->time_ns,
				  .step = e->step,
				  .severity = events_clamp(e->severity),
				  .kind = xstrdup(e->kind),
				  .text = xstrdup(e->text ? e->text : ""),
				  .attrs = xstrdup(e->attrs ? e->attrs : "")};
}

void event_row_done(struct event_row *row)
{
	free(row->kind);
	free(row->text);
	free(row->attrs);
}

static int events_add(void *arg, const struct store_event *e)
{
	struct events *ev = arg;
	struct event_row *row;

	if (ev->no_failure && events_is_failure(e))
		return 0;
	ev->by_severity[events_clamp(e->severity)]++;
	if (e->severity < ev->min_severity ||
	    (ev->only_kind && strcmp(ev->only_kind, e->kind) != 0))
		return 0;
	row = &ev->rows[ev->matched++ % ev->keep];
	event_row_done(row);
	event_row_init(row, e);
	return 0;
}

int events_read(struct events *ev, const struct runview *v, struct err *e)
{
	ev->rows = xcalloc(ev->keep, sizeof(*ev->rows));
	return store_reader_events(v->reader, events_add, ev, e);
}

void events_done(struct events *ev)
{
	size_t i;

	for (i = 0; ev->rows && i < ev->keep; i++)
		event_row_done(&ev->rows[i]);
	free(ev->rows);
	ev->rows = NULL;
}

size_t events_count(const struct events *ev)
{
	return ev->matched < ev->keep ? (size_t)ev->matched : ev->keep;
}

const struct event_row *events_row(const struct events *ev, size_t i)
{
	size_t first = ev->matched < ev->keep ? 0 : (size_t)(ev->matched % ev->keep);

	return &ev->rows[(first + i) % ev->keep];
}

/* Is any of them on another day than the run's start, which is shown above? */
static bool events_need_days(const struct events *ev, const struct runview *v, size_t day)
{
	char start[FMT_MAX], text[FMT_MAX];
	size_t i;

	fmt_local(start, v->run.start_ns);
	for (i = 0; i < events_count(ev); i++)
		if (memcmp(start, fmt_local(text, events_row(ev, i)->time_ns), day) != 0)
			return true;
	return false;
}

/* A watch says that something is wrong, hardly ever why. */
static bool events_is_watch(const struct event_row *row)
{
	return strcmp(row->kind, "alert") == 0 &&
	       strncmp(row->attrs, EVENTS_ALERT, strlen(EVENTS_ALERT)) == 0;
}

static bool events_is_symptom(const struct event_row *row)
{
	return strcmp(row->kind, CRASHES_KIND) == 0 || events_is_watch(row);
}

const struct event_row *events_cause(const struct events *ev)
{
	const struct event_row *best = events_row(ev, events_count(ev) - 1), *row;
	bool best_is_crash = events_is_symptom(best), is_crash;
	size_t i = events_count(ev) - 1;

	while (i-- > 0) {
		row = events_row(ev, i);
		is_crash = events_is_symptom(row);
		if (row->severity < best->severity ||
		    (row->severity == best->severity && !(best_is_crash && !is_crash)))
			continue;
		best = row;
		best_is_crash = is_crash;
	}
	return best;
}

/* Of a text of several lines the first: the rest is for events_trace(). */
static void events_text(struct table *t, const struct event_row *row)
{
	int first = (int)(strchrnul(row->text, '\n') - row->text);
	const char *attrs = strlen(row->attrs) > EVENTS_ATTRS_MAX ? "{..}" : row->attrs;

	/* What a watch adds to its alerts is for programs: the text says it all. */
	if (events_is_watch(row))
		attrs = "";
	table_cellf(t, TERM_PLAIN, "%.*s%s%s%s", first, row->text, row->text[first] ? " .." : "",
		    row->text[0] && attrs[0] ? "  " : "", attrs);
}

const struct event_row *events_trace(const struct events *ev, struct buf *out)
{
	struct buf compact;
	size_t i = events_count(ev);
	const struct event_row *row = NULL;
	const char *at;
	char *text = xcalloc(EVENTS_TRACE_MAX, 1);

	buf_init(&compact, EVENTS_ATTRS_READ_MAX);
	while (i-- > 0 && out->len == 0) {
		row = events_row(ev, i);
		buf_reset(&compact);
		if (row->severity < 3)
			continue;
		at = attrs_compact(row->attrs, &compact) == 0
			     ? jsonwalk_get(buf_str(&compact), "traceback")
			     : NULL;
		if (at)
			buf_puts(out, jsonwalk_text(at, text, EVENTS_TRACE_MAX));
		else if (strchr(row->text, '\n'))
			buf_puts(out, row->text);
	}
	buf_done(&compact);
	free(text);
	return out->len ? row : NULL;
}

void events_print(const struct events *ev, const struct runview *v, const struct term *term,
		  FILE *to, int indent)
{
	static const struct table_column columns[] = {
		{"TIME", 0}, {"PROCESS", 0},      {"STEP", TABLE_RIGHT},
		{"KIND", 0}, {"TEXT", TABLE_CUT},
	};
	static const enum term_style styles[] = {TERM_DIM, TERM_PLAIN, TERM_YELLOW, TERM_RED};
	struct table *t = table_new(columns, ARRAY_LEN(columns));
	const size_t day = strlen("2026-11-28 ");
	bool days = events_need_days(ev, v, day);
	char text[FMT_MAX], process[256];
	size_t i;

	for (i = 0; i < events_count(ev); i++) {
		const struct event_row *row = events_row(ev, i);

		table_cell(t, TERM_PLAIN, fmt_local(text, row->time_ns) + (days ? 0 : day));
		table_cell(
			t, TERM_PLAIN,
			runview_process_text(process, sizeof(process), v, row->host, row->process));
		table_cell(t, TERM_PLAIN, runview_step(text, row->step));
		table_cell(t, styles[row->severity], row->kind);
		events_text(t, row);
	}
	table_print(t, term, to, indent);
	table_free(t);
}

void events_json_store(struct json *j, const struct store_event *e, const char *host)
{
	runview_json_time(j, "time", e->time_ns);
	runview_json_step(j, "step", e->step);
	json_kstr(j, "host", host);
	json_kuint(j, "process", e->process);
	json_kstr(j, "severity", events_severity(e->severity));
	json_kstr(j, "kind", e->kind);
	json_kstr(j, "text", e->text);
	attrs_json(j, "attrs", e->attrs);
}

void events_json_row(struct json *j, const struct runview *v, const struct event_row *row)
{
	const struct store_event e = {.time_ns = row->time_ns,
				      .step = row->step,
				      .process = row->process,
				      .severity = row->severity,
				      .kind = row->kind,
				      .text = row->text,
				      .attrs = row->attrs};

	events_json_store(j, &e, runview_process(v, row->host, row->process)->host_name);
}

void events_json(struct json *j, const char *key, const struct events *ev, const struct runview *v)
{
	size_t i;

	json_key(j, key);
	json_array(j);
	for (i = 0; i < events_count(ev); i++) {
		json_object(j);
		events_json_row(j, v, events_row(ev, i));
		json_object_end(j);
	}
	json_array_end(j);
}
