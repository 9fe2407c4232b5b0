/* SPDX-License-Identifier: Apache-2.0
 *
 * figures.h - the figures of a run's report, computed from the store. What they
 * mean is defined here and repeated to users in docs/cli.md.
 */
#ifndef REPORT_FIGURES_H
#define REPORT_FIGURES_H

#include "report/events.h"
#include "report/runview.h"

#define FIGURES_EVENTS 20             /* newest warnings and errors kept */
#define FIGURES_STEPS_MAX (16u << 20) /* steps of one process whose times are kept for shares */

/* Durations of the spans of one name. Seconds; NaN: not known. */
struct figures_spread {
	uint64_t count;
	double total_s;
	double p50_s, p95_s, p99_s, max_s; /* nearest rank on the exact values */
};

struct figures_phase {
	const char *name; /* of a series of the view */
	struct figures_spread spread;
	double in_steps_s; /* time of these spans inside the step in which they begin */
	double share;      /* in_steps_s over the time of all steps; NaN: no steps, or none
			      of these spans begins in one */
};

/* A process that has steps. */
struct figures_rank {
	const struct store_process *process;
	struct figures_spread step;
	double first_step_s;
	int64_t last_step;         /* number of the step that ended last */
	int64_t start_ns, end_ns;  /* of the first step, of the last one */
	uint32_t segments;         /* how often the steps began again */
	uint64_t sampled, tokened; /* steps with known samples, tokens */
	double samples, tokens;    /* sums over them */
};

struct figures_loss {
	const struct store_series *series;
	struct runview_stat stat; /* of the newest attempt */
};

/* Rates of samples or tokens. */
struct figures_rate {
	bool known;
	double sum;
	double in_steps; /* a second: for each process its sum over the time in its steps, added up
			  */
	double overall;  /* a second: sum over first step's start to last step's end */
	uint64_t steps_without; /* steps whose number was not given */
};

/* The machine's figures on one host; n 0: not sampled. */
struct figures_machine {
	const char *host;
	struct runview_stat busy;        /* share of all processors, 0 to 1 */
	struct runview_stat tree_cpu;    /* cores */
	struct runview_stat tree_rss;    /* bytes */
	struct runview_stat used, total; /* bytes */
	struct runview_stat limit;       /* bytes; the tightest cgroup limit */
};

struct figures {
	const struct runview *v;
	struct figures_rank *ranks;
	struct figures_phase *phases; /* the largest total first */
	struct figures_loss *losses;  /* training first, then validation */
	struct figures_machine *machines;
	size_t n_ranks, n_phases, n_losses, n_machines;
	struct figures_spread step; /* of all ranks together */
	struct figures_rate samples, tokens;
	double active_s;  /* time in steps, mean over the ranks */
	double overall_s; /* first step's start to last step's end */
	uint64_t stored, dropped, overwritten, broken, refused;
	struct events events;
};

/* Records that the program attempted: stored + dropped + overwritten + broken. */
uint64_t figures_attempts(const struct figures *f);

/* Compute all. The view must outlive the figures. 0 or -errno and *e. */
int figures_read(struct figures *f, const struct runview *v, struct err *e);
void figures_done(struct figures *f);

#endif
