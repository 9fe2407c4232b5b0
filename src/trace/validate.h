/* SPDX-License-Identifier: Apache-2.0
 *
 * validate.h - is a trace file what its format says: strict JSON and whole, with times and
 * names. What it leaves out that analyses want is told by analyse/coverage.h.
 */
#ifndef TRACE_VALIDATE_H
#define TRACE_VALIDATE_H

#include "trace/trace.h"

enum validate_grade {
	VALIDATE_NOTE,  /* allowed, worth knowing */
	VALIDATE_ERROR, /* not what the format says; other tools may refuse the file */
	VALIDATE_LOST   /* and something of it could not be read */
};

struct validate_item {
	enum validate_grade grade;
	const char *name; /* as trace_note_rows[] */
	const char *meaning, *done;
	uint64_t count, offset; /* offset: byte in the JSON of the first */
	const char *text;       /* what was found there; of the trace */
};

#define VALIDATE_ITEMS_MAX 64

struct validate {
	struct validate_item items[VALIDATE_ITEMS_MAX];
	size_t n;
	enum validate_grade worst;
	bool is_valid; /* no error: exit status 0, else 1 */
};

/* The findings on a trace that was read; texts belong to it. */
void validate_trace(const struct trace *t, struct validate *ret);

#endif
