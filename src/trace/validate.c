/* SPDX-License-Identifier: Apache-2.0
 *
 * validate.c - the reader's notes, graded.
 */
#include "trace/validate.h"

#include <string.h>

/* Notes that are not here are errors. */
static const struct {
	const char *name;
	enum validate_grade grade;
} grades[] = {
	{"truncated", VALIDATE_LOST},    {"compression", VALIDATE_LOST},
	{"event-lost", VALIDATE_LOST},   {"between-events", VALIDATE_LOST},
	{"no-time", VALIDATE_LOST},      {"text-cut", VALIDATE_NOTE},
	{"zero-event", VALIDATE_NOTE},   {"far-time", VALIDATE_NOTE},
	{"negative-dur", VALIDATE_NOTE}, {"unpaired", VALIDATE_NOTE},
	{"tracks-full", VALIDATE_NOTE},  {"memory-full", VALIDATE_NOTE},
	{"rows-full", VALIDATE_NOTE},    {"duplicate-key", VALIDATE_NOTE},
	{"number-range", VALIDATE_NOTE}, {"bad-number", VALIDATE_NOTE},
	{"metadata", VALIDATE_NOTE},     {"non-finite", VALIDATE_NOTE},
};

static enum validate_grade grade_of(const char *name)
{
	for (size_t i = 0; i < sizeof(grades) / sizeof(*grades); i++)
		if (!strcmp(grades[i].name, name))
			return grades[i].grade;
	return VALIDATE_ERROR;
}

static void add(struct validate *v, struct validate_item item)
{
	if (v->n == VALIDATE_ITEMS_MAX)
		return;
	v->worst = item.grade > v->worst ? item.grade : v->worst;
	v->items[v->n++] = item;
}

void validate_trace(const struct trace *t, struct validate *ret)
{
	const struct trace_meta *m = trace_meta(t);
	size_t n;
	const struct trace_note *notes = trace_notes(t, &n);

	*ret = (struct validate){.n = 0};
	for (size_t i = 0; i < n; i++) {
		const struct trace_note_row *row = &trace_note_rows[notes[i].kind];

		add(ret,
		    (struct validate_item){grade_of(row->name), row->name, row->meaning, row->done,
					   notes[i].count, notes[i].offset, notes[i].text});
	}
	if (!trace_rows(t))
		add(ret, (struct validate_item){VALIDATE_NOTE, "no-rows",
						"The file has no complete events.", "", 0, 0, ""});
	if (!m->has_object)
		add(ret,
		    (struct validate_item){VALIDATE_NOTE, "bare-array",
					   "The events are a bare array: no metadata.",
					   "Base time, rank and devices are unknown.", 0, 0, ""});
	ret->is_valid = ret->worst == VALIDATE_NOTE;
}
