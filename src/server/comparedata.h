/* SPDX-License-Identifier: Apache-2.0
 *
 * comparedata.h - what of several runs is compared: which metrics, their values in the steady
 * part, attributes.
 */
#ifndef SERVER_COMPAREDATA_H
#define SERVER_COMPAREDATA_H

#include "analyse/compare.h"
#include "server/server.h"
#include "server/stepread.h"

#define COMPAREDATA_RUNS_MAX 20u
#define COMPAREDATA_METRICS_MAX 64u
#define COMPAREDATA_METRICS 32u /* unless they are asked for */
#define COMPAREDATA_POINTS 4096u
#define COMPAREDATA_TEXT_MAX 4096u

struct comparedata_metric {
	const char *name, *labels; /* of a view */
	char unit[64];
	enum sink_kind kind;
	bool is_sum;          /* of ranks: a rate of samples or tokens; all else is their mean */
	int direction, order; /* order: the smaller the more people look at it */
};

struct comparedata {
	struct comparedata_run {
		struct server_run *run;
		struct stepread_steady steady;
	} runs[COMPAREDATA_RUNS_MAX];
	size_t n;
	struct comparedata_metric *metrics;
	size_t n_metrics;
};

/* Fill metrics: those that match one of the patterns in any run, or (n 0) those that the first
 * run and another have. 0, -EINVAL (a pattern is wrong, or there are too many) or -ENOENT (none
 * matches) and *e. */
int comparedata_choose(struct comparedata *d, const char *const *patterns, size_t n, struct err *e);
void comparedata_done(struct comparedata *d);

/* A metric of a run. */
struct comparedata_value {
	const struct store_series *series; /* of the view, of the lowest rank; NULL: none */
	double *x;                         /* owned; n values in their order, none NaN */
	size_t n;
	size_t ranks;        /* series (of ranks, hosts) that x is the sum or the mean of */
	uint64_t n_all, nan; /* points in the steady part, of all of these; of them NaN */
	bool is_thinned;     /* x has not all of them */
	struct compare_summary sum;
};
/* Of each run, into values. 0, or -errno and *e. */
int comparedata_read(const struct comparedata *d, const struct comparedata_metric *m,
		     struct comparedata_value *values, struct err *e);
void comparedata_free(struct comparedata_value *values, size_t n);

struct comparedata_attrs {
	struct comparedata_attr {
		char *key;
		char *values[COMPAREDATA_RUNS_MAX]; /* NULL: the run has none */
	} * list;                                   /* by key */
	size_t n, cap;
};
/* Of the process that has it and the smallest number. */
void comparedata_attrs(const struct comparedata *d, struct comparedata_attrs *ret);
void comparedata_attrs_done(struct comparedata_attrs *a, size_t n_runs);

/* Are the n texts (NULL: none) not all the same? */
bool comparedata_differs(char *const *values, size_t n);

#endif
