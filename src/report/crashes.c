/* SPDX-License-Identifier: Apache-2.0
 *
 * crashes.c - see crashes.h.
 */
#include "report/crashes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "report/attrs.h"
#include "report/jsonwalk.h"

#define CRASHES_TEXT 256

struct table *crashes_table(void)
{
	static const struct table_column columns[] = {
		{"PROCESS", 0},
		{"THREAD", 0},
		{"OPEN SPANS", TABLE_ELIDE},
		{"FOR", TABLE_RIGHT},
		{"LAST RECORD", TABLE_ELIDE},
	};

	return table_new(columns, ARRAY_LEN(columns));
}

/* When the process died, at the latest: the agent notices within a second. Of the
 * command itself it is known. */
static int64_t crashes_end(const struct runview *v, const struct event_row *row, bool *exact)
{
	const struct store_process *dead = runview_process(v, row->host, row->process);
	size_t i;

	*exact = false;
	for (i = 0; i < v->n_processes && v->run.outcome != RUN_LOST; i++) {
		const struct store_process *p = &v->processes[i];

		if (p->host == row->host && p->pid == dead->pid && strcmp(p->role, "command") == 0)
			*exact = v->run.end_ns > 0 && v->run.end_ns <= row->time_ns;
	}
	return *exact ? v->run.end_ns : row->time_ns;
}

static void crashes_spans(struct table *t, const char *lane, int64_t end_ns, bool exact)
{
	const char *span = jsonwalk_first(jsonwalk_get(lane, "open_spans"));
	char name[CRASHES_TEXT], age[FMT_MAX];
	int64_t start = 0;
	struct buf path;

	buf_init(&path, 32 * CRASHES_TEXT);
	for (; span; span = jsonwalk_next(span)) {
		buf_printf(&path, "%s%s", path.len ? " > " : "",
			   jsonwalk_string(jsonwalk_get(span, "name"), name, sizeof(name)));
		start = jsonwalk_int(jsonwalk_get(span, "start_ns"), 0);
	}
	table_cell(t, TERM_PLAIN, path.len ? buf_str(&path) : "-");
	if (start > 0 && end_ns >= start)
		table_cellf(t, TERM_PLAIN, "%s%s",
			    exact ? "" : "<= ", fmt_seconds(age, (double)(end_ns - start) / 1e9));
	else
		table_cell(t, TERM_PLAIN, "");
	buf_done(&path);
}

static void crashes_record(struct table *t, const char *lane)
{
	const char *record = jsonwalk_first(jsonwalk_get(lane, "last_records")), *last = NULL;
	char type[CRASHES_TEXT], name[CRASHES_TEXT], step[FMT_MAX];
	int64_t at;

	for (; record; record = jsonwalk_next(record))
		last = record;
	if (!last) {
		table_cell(t, TERM_PLAIN, "");
		return;
	}
	jsonwalk_string(jsonwalk_get(last, "type"), type, sizeof(type));
	jsonwalk_string(jsonwalk_get(last, "name"), name, sizeof(name));
	at = jsonwalk_int(jsonwalk_get(last, "step"), SINK_STEP_NONE);
	table_cellf(t, TERM_PLAIN, "%s%s%s%s%s", type, name[0] ? " " : "", name,
		    at == SINK_STEP_NONE ? "" : " in step ",
		    at == SINK_STEP_NONE ? "" : runview_step(step, at));
}

void crashes_add(struct table *t, const struct runview *v, const struct event_row *row)
{
	char process[CRASHES_TEXT], thread[CRASHES_TEXT];
	const char *lane;
	bool exact;
	int64_t end_ns = crashes_end(v, row, &exact);
	struct buf b;

	buf_init(&b, strlen(row->attrs));
	if (attrs_compact(row->attrs, &b) != 0) {
		buf_done(&b);
		return;
	}
	lane = jsonwalk_first(jsonwalk_get(buf_str(&b), "lanes"));
	for (; lane; lane = jsonwalk_next(lane)) {
		jsonwalk_string(jsonwalk_get(lane, "thread"), thread, sizeof(thread));
		table_cell(
			t, TERM_PLAIN,
			runview_process_text(process, sizeof(process), v, row->host, row->process));
		table_cellf(t, TERM_PLAIN, "%s%s%lld", thread, thread[0] ? " " : "",
			    (long long)jsonwalk_int(jsonwalk_get(lane, "tid"), 0));
		crashes_spans(t, lane, end_ns, exact);
		crashes_record(t, lane);
	}
	buf_done(&b);
}
