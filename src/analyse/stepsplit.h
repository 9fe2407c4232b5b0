/* SPDX-License-Identifier: Apache-2.0
 *
 * stepsplit.h - where the time of training steps went, of recorded spans: each instant of a
 * step under exactly one name, so that the parts add up to the step. docs/http.md,
 * "GET /api/v1/runs/{run}/verdict".
 */
#ifndef ANALYSE_STEPSPLIT_H
#define ANALYSE_STEPSPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a span is for, by its name. */
enum stepsplit_role {
	STEPSPLIT_DATA,
	STEPSPLIT_FORWARD,
	STEPSPLIT_BACKWARD,
	STEPSPLIT_OPTIMIZER,
	STEPSPLIT_COMMUNICATION,
	STEPSPLIT_CHECKPOINT,
	STEPSPLIT_EVALUATION,
	STEPSPLIT_LOG,
	STEPSPLIT_SPAN,  /* a name that is none of these */
	STEPSPLIT_OTHER, /* no span */
	STEPSPLIT_ROLES
};
/* By the whole name, its first word ("data/val" is data's), or what stands behind the last
 * slash ("lightning/backward"); letters of either case. */
enum stepsplit_role stepsplit_role(const char *name);
const char *stepsplit_role_name(enum stepsplit_role role);

#define STEPSPLIT_PARTS_MAX 32u /* with "other" */
#define STEPSPLIT_UNNUMBERED INT64_MIN

struct stepsplit_step {
	int64_t start, end, number; /* ns, its number or STEPSPLIT_UNNUMBERED */
	uint32_t thread, rank;      /* rank: as given to stepsplit_add() */
};

struct stepsplit_span {
	int64_t start, end;
	uint32_t thread, part; /* part: place among the names */
};

/* Durations in seconds; NaN without steps. Quantiles are nearest rank. */
struct stepsplit_spread {
	double mean, p50, p95, p99, max;
};

/* Where the steps of a rank lie: [first, end). */
struct stepsplit_range {
	size_t first, end;
};

struct stepsplit {
	enum stepsplit_role role[STEPSPLIT_PARTS_MAX]; /* the last part is "other" */
	size_t n_parts;
	struct stepsplit_step *steps; /* in the order in which they were added */
	size_t n, cap;
	struct stepsplit_range *ranks; /* of each rank; those between have none */
	size_t n_ranks;
	float *ns;                          /* n * n_parts: of each step */
	int64_t total[STEPSPLIT_PARTS_MAX]; /* ns over all steps; they add up to sum exactly */
	int64_t sum;
	double beside[STEPSPLIT_PARTS_MAX];  /* ns of spans of other threads inside steps' time */
	double outside[STEPSPLIT_PARTS_MAX]; /* ns of spans of the steps' threads in no step, from
						the first step to the last of each process */
	uint64_t n_outside[STEPSPLIT_PARTS_MAX]; /* spans of which more than half is that */
	int64_t span;                            /* ns from the first step to the last, all
						    processes */
};

/* n names (at most STEPSPLIT_PARTS_MAX - 1), then "other". Free with stepsplit_done(). */
void stepsplit_init(struct stepsplit *s, const char *const *names, size_t n);
void stepsplit_done(struct stepsplit *s);

/* Cut the steps of one process, each with a rank of its own, counted from 0; both arrays are
 * sorted in place. Steps must not overlap: one
 * that does begins where the one before ends. Spans of a step's thread are cut at its begin
 * and end; an instant is of the innermost span with a role, else of the outermost. */
void stepsplit_add(struct stepsplit *s, uint32_t rank, struct stepsplit_step *steps, size_t n_steps,
		   struct stepsplit_span *spans, size_t n_spans);

/* Time that is known only as a sum over the steps of all processes (waits counted in a
 * histogram), taken from "other", at most all of it. */
void stepsplit_move(struct stepsplit *s, size_t part, double ns);

/* Shares in tenths of a percent that add up to 1,000 (0 without time), by largest remainders;
 * of all steps, or of one. */
void stepsplit_permille(const struct stepsplit *s, int ret[STEPSPLIT_PARTS_MAX]);
void stepsplit_permille_of(const struct stepsplit *s, size_t step, int ret[STEPSPLIT_PARTS_MAX]);

/* Where the steps of a rank (UINT32_MAX: of all) lie. */
struct stepsplit_range stepsplit_range(const struct stepsplit *s, uint32_t rank);

/* Of the steps of a rank (UINT32_MAX: of all) what a part takes; part == n_parts: the steps
 * themselves; n_parts + 1: the steps without communication. */
struct stepsplit_spread stepsplit_spread(const struct stepsplit *s, uint32_t rank, size_t part);

/* Places of the `most` longest steps in ret, the longest first; how many there are. Steps of
 * several ranks that have one number are one: of those at least nine tenths as long as its
 * longest the one that waited least for others (role communication), of equal ones the longest.
 * Steps without a number are each for themselves. */
size_t stepsplit_slowest(const struct stepsplit *s, size_t *ret, size_t most);

/* Steps in n bins of about equal numbers of step numbers; empty ones are left out. */
struct stepsplit_bin {
	int64_t first, last; /* numbers of steps */
	uint64_t count;
	double mean, max;                  /* seconds */
	double parts[STEPSPLIT_PARTS_MAX]; /* mean seconds each */
};
size_t stepsplit_bins(const struct stepsplit *s, struct stepsplit_bin *ret, size_t n);

/* How many steps last how long: n equal classes from the shortest to the 99.5th percentile,
 * what is longer in the last. edges has room for n + 1 (seconds), counts for n. false: there
 * are no steps. */
bool stepsplit_histogram(const struct stepsplit *s, double *edges, uint64_t *counts, size_t n);

#endif
