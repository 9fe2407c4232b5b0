/* SPDX-License-Identifier: Apache-2.0
 *
 * coverage.h - what a trace does not tell, or tells wrongly: missing kinds of rows, launches
 * without work and work before its launch, overlaps on one stream, zero times, a cut-off end.
 * Each as a plain sentence with its count. docs/trace-numbers.md, "Coverage".
 */
#ifndef ANALYSE_COVERAGE_H
#define ANALYSE_COVERAGE_H

#include "base/buf.h"
#include "trace/view.h"

enum coverage_id {
	COVERAGE_NO_ROWS,
	COVERAGE_TRUNCATED,
	COVERAGE_BROKEN, /* rows set aside: ts 0 and dur 0, no time, far away */
	COVERAGE_NO_GPU,
	COVERAGE_NO_HOST, /* no operators and no runtime calls */
	COVERAGE_NO_OPS,
	COVERAGE_NO_CALLS, /* no runtime or driver calls: gaps cannot be told apart */
	COVERAGE_NO_STEPS,
	COVERAGE_NO_RANK,
	COVERAGE_NO_CORRELATION, /* GPU rows, but none with a launch */
	COVERAGE_LAUNCH_NO_WORK, /* launches whose correlation no GPU row has */
	COVERAGE_WORK_NO_LAUNCH, /* GPU rows whose correlation no call has */
	COVERAGE_WORK_EARLY,     /* GPU rows that begin before their launch */
	COVERAGE_OVERLAP, /* GPU rows that begin before the one before them on the stream ends */
	COVERAGE_LONG,    /* GPU time on one stream beyond the window: cannot be */
	COVERAGE_ZERO_DUR,
	COVERAGE_NEGATIVE_DUR,
	COVERAGE_NO_STACKS,
	COVERAGE_NO_SHAPES,
	COVERAGE_NO_MEMORY,
	COVERAGE_WHOLE_US, /* times are whole microseconds: short rows are 0 or 1 us */
	COVERAGE_ITEMS
};

enum coverage_grade {
	COVERAGE_FINE, /* nothing of it; not shown */
	COVERAGE_NOTE, /* an answer less, or none to worry about */
	COVERAGE_WARN, /* numbers suffer: say so beside them */
	COVERAGE_FAIL  /* most numbers cannot be trusted */
};

struct coverage_item {
	enum coverage_grade grade;
	uint64_t count, of; /* so many of so many; of 0: no such total */
	double percent;     /* of them */
	char text[240];     /* the sentence */
};

/* One stream's work: sums of durations as they are, and with overlaps counted once. */
struct coverage_stream {
	uint16_t track;
	int32_t stream;
	uint64_t rows, overlaps; /* rows that begin before an earlier one ends */
	int64_t raw, clipped;    /* ns */
	int64_t longest;         /* ns of the longest overlap */
};

struct coverage {
	struct coverage_item items[COVERAGE_ITEMS];
	struct coverage_stream *streams; /* by raw, largest first */
	size_t n_streams;
	uint64_t launches, work; /* calls that launch; GPU rows */
	int64_t earliest;        /* ns: the most that work begins before its launch */
};

/* Of a view of rule VIEW_EXACT with all its rows. 0, -ENOMEM. */
int coverage_new(struct view *v, struct coverage **ret);
void coverage_free(struct coverage *c);

const char *coverage_name(enum coverage_id id); /* "launch-no-work" */

/* As text, a line each of what is not fine. */
void coverage_text(const struct coverage *c, struct buf *out);

#endif
