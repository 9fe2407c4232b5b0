/* SPDX-License-Identifier: Apache-2.0
 *
 * tracelines.h - the events of a trace, or of a part of it, as bars in lanes; and their bytes in
 * the form that the dashboard draws (docs/http.md, "timeline").
 */
#ifndef CLI_TRACELINES_H
#define CLI_TRACELINES_H

#include "analyse/lanes.h"
#include "analyse/timerows.h"
#include "base/buf.h"
#include "base/json.h"
#include "trace/view.h"

#define TRACELINES_MAX (1u << 30)   /* bytes of a timeline */
#define TRACELINES_HELD (12u << 20) /* events at once; of more the longest */
#define TRACELINES_CLASSES 512u     /* of lengths: eight to a doubling */

enum tracelines_category {
	TRACELINES_OTHER,
	TRACELINES_OPERATOR,
	TRACELINES_ANNOTATION,
	TRACELINES_KERNEL,
	TRACELINES_COMMUNICATION,
	TRACELINES_COPY,
	TRACELINES_SET,
	TRACELINES_RUNTIME,
	TRACELINES_PYTHON,
	TRACELINES_WAIT,
	TRACELINES_OVERHEAD,
	TRACELINES_CATEGORIES
};

struct tracelines_lane {
	uint16_t track;
	enum lanes_kind kind;
	unsigned depths;
	uint64_t events;
	uint16_t place; /* among those shown */
};

struct tracelines_step {
	int64_t number, ts, end;
};

struct tracelines {
	struct trace *t;
	int64_t first, last; /* of all events */
	int64_t from, to;    /* that is looked at */
	int64_t shortest;    /* shorter events are left out: there are too many */
	uint64_t in_range, left_out;
	uint64_t classes[TRACELINES_CLASSES]; /* of the lengths of those in the range */
	struct timerows_bar *bars;
	size_t n, cap;
	int64_t merged_ns;
	struct tracelines_lane *lanes;
	size_t n_lanes, cap_lanes;
	uint16_t *lane_of; /* by 3 * track + kind; UINT16_MAX: none */
	struct tracelines_step *steps;
	size_t n_steps, cap_steps;
};

/* Which part: times since the first event (-1: not given), or steps [from, to) (0, 0: not given).
 */
struct tracelines_wish {
	int64_t begin, end, step_from, step_to;
	size_t events; /* at most so many bars */
};

/* 0, -ENOMEM, -EIO. Free with tracelines_done() in any case. */
int tracelines_collect(struct tracelines *l, struct trace *t, const struct tracelines_wish *wish);
void tracelines_done(struct tracelines *l);

/* Where a lane is, as members of the object that is open: "process", "thread", "kind". */
void tracelines_place(struct json *j, const struct trace *t, uint16_t track, enum lanes_kind kind);
enum tracelines_category tracelines_category_of(const struct trace *t, uint32_t name,
						enum trace_cat cat);
extern const char *const tracelines_names[TRACELINES_CATEGORIES];

/* Append the bytes; out->error says whether that went well. Names of bars are changed. */
void tracelines_write(struct tracelines *l, struct buf *out);

#endif
