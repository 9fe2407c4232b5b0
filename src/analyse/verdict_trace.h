/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict_trace.h - verdicts of traces: the wall time of each step cut into the shares of
 * verdict.h, with evidence, for one rank or for all ranks of a job. Definitions:
 * docs/trace-numbers.md, "Verdict". Made of views of rule VIEW_EXACT.
 */
#ifndef ANALYSE_VERDICT_TRACE_H
#define ANALYSE_VERDICT_TRACE_H

#include "analyse/verdict.h"
#include "base/json.h"
#include "trace/view.h"

/* A step of the host: from its mark to the next one's if that has the next number, else to
 * its own end. Without marks: the whole window, number -1. */
struct verdict_step {
	int64_t number, ts, end; /* ns, as in the view */
	struct verdict_shares shares;
	int64_t recording;      /* ns, estimated: what recording cost all host rows of the step */
	enum verdict_kind kind; /* as verdict_behind(): with the profiler left out */
};

/* One line of evidence for a share. */
struct verdict_item {
	enum verdict_kind kind;
	uint32_t name;   /* text id of the view's trace; 0: the estimate of recording */
	uint32_t within; /* text id of what called it (operator, Python function), 0 unknown */
	uint32_t stack;  /* text id of a recorded call stack; 0 none */
	int64_t ns;      /* in the windows, sums over rows: may overlap each other */
	uint64_t count;  /* rows */
};

#define VERDICT_ITEMS_MAX 8 /* evidence lines of one kind: the largest */

struct verdict_rank {
	const struct view *view; /* not owned */
	int64_t rank;            /* of the trace; TRACE_NONE unknown */
	struct verdict_facts facts;
	enum verdict_kind kind, behind; /* verdict_decide(), verdict_behind() */
	struct verdict_step *steps;
	size_t n_steps;
	bool has_marks;             /* steps are ProfilerStep marks */
	struct verdict_item *items; /* by kind, then the largest first */
	size_t n_items;
	int64_t busy;     /* ns of the wall time in which the GPU ran something */
	int64_t expected; /* ns a step: estimate without recording, at least busy a step */
	int64_t own;      /* ns a step that this rank itself needs: the larger of host time not
			     blocked and GPU time but for communication */
	uint64_t syncs, launches; /* calls in the windows */
	int64_t sync_wait;        /* ns of the wall time in waiting calls, GPU busy or not */
	uint64_t rows;            /* rows that were looked at */
};

struct verdict_result {
	struct verdict_rank *ranks; /* as the views */
	size_t n;
	size_t gating;        /* the rank with the largest own time */
	bool is_matched;      /* collectives of the ranks were matched with each other */
	uint64_t collectives; /* so many of each rank, at most */
	double over;          /* own time of gating over the median of the others; 0: one rank */
	enum verdict_kind kind, behind;
	enum verdict_kind excess; /* straggler: what gating spends the difference in */
};

/* An uncovered piece of host time of at least this is other host code, a shorter one Python
 * between operators. */
#define VERDICT_HOST_NS 500000
/* A launch of more than this waited for a full queue. */
#define VERDICT_BLOCKED_NS 1000000

/* Verdict of n views (of one job if n > 1). Uses view_linked() of none; may move blocks.
 * 0, -ENOMEM, -EINVAL (n is 0). */
int verdict_new(const struct view views[], size_t n, struct verdict_result **ret);
void verdict_free(struct verdict_result *r);

/* The largest item of a kind as text: "aten::item (12.3 ms in 3 calls)"; "" if none. */
void verdict_top(const struct verdict_rank *r, enum verdict_kind kind, struct buf *out);

/* The same for the command line: what fires, in the order of the rule table. */
struct verdict_finding {
	const struct verdict_rule *rule;
	char text[512]; /* the sentence */
};
/* Findings of one rank (its own bound first). At most max are written; returns how many. */
size_t verdict_findings(const struct verdict_result *r, size_t rank, struct verdict_finding *ret,
			size_t max);
#define VERDICT_FINDINGS_MAX 32

/* As a text for people; as members of the object that is open in j. */
void verdict_text(const struct verdict_result *r, struct buf *out);
void verdict_json(const struct verdict_result *r, struct json *j);

#endif
