/* SPDX-License-Identifier: Apache-2.0
 *
 * usage.h - what machine, GPUs and processes used in a run, one figure a series, from
 * the store's summaries: however long a run is, a series costs kilobytes.
 */
#ifndef REPORT_USAGE_H
#define REPORT_USAGE_H

#include "report/runview.h"

/* Slices of a long series, for its p95 and for its highest rate; as long as there are no more
 * readings than that they are the readings. */
#define USAGE_P95_SLICES 16384u
#define USAGE_SLICES 1000u
#define USAGE_LABEL_MAX 256 /* bytes of a label's value, NUL included; the rest is cut */

/* The readings of one metric of one instance. Numbers are NaN where not known. */
struct usage_item {
	const struct store_series *s; /* of the view: host_name, name, labels */
	uint64_t count;               /* readings that are numbers */
	double sum, min, max, last, mean;
	double p95;             /* where it is wanted: nearest rank over readings or slices */
	double in_steps;        /* where it is wanted: mean between first and last step */
	double rate, rate_max;  /* a counter's: a second, mean and highest */
	double rate_steps;      /* where it is wanted: between first and last step */
	int64_t from_ns, to_ns; /* of the first and the last reading, UTC */
};

struct usage_fact {
	const char *host;
	char *key, *value;
};

/* Joules of all GPUs that were seen, by their energy counters or else by power over time. */
struct usage_energy {
	double total; /* over the whole record; NaN: no GPU tells */
	double watts; /* mean between the start of the first step and the end of the last */
	double per_step, per_sample, per_token; /* watts x that time over their numbers */
	unsigned by_energy, by_power;           /* GPUs */
};

struct usage {
	const struct runview *v;
	struct usage_item *items; /* by host, name, labels in natural order */
	size_t n, cap;
	const char **hosts; /* with at least one item */
	size_t n_hosts;
	struct usage_fact *facts;
	size_t n_facts, cap_facts;
};

/* The time of the steps; start_ns == end_ns: there were none. */
struct usage_steps {
	int64_t start_ns, end_ns;
	uint64_t steps; /* of the process with most */
	double samples, tokens;
	bool has_samples, has_tokens;
};

/* Read. The view must outlive it. 0, or -errno and *e. */
int usage_read(struct usage *u, const struct runview *v, const struct usage_steps *steps,
	       struct err *e);
void usage_done(struct usage *u);

/* The item of a metric with these labels ("" none); NULL: it was never read. */
const struct usage_item *usage_find(const struct usage *u, const char *host, const char *name,
				    const char *labels);

/* The next item of a metric on a host (NULL: any host) behind `after` (NULL: the first);
 * NULL: no more. */
const struct usage_item *usage_next(const struct usage *u, const char *host, const char *name,
				    const struct usage_item *after);

/* The value of a label, cleaned, into out: "" if it has none. Returns out. */
const char *usage_label(const struct usage_item *i, const char *label, char out[USAGE_LABEL_MAX]);

/* The last value of an attribute of a host; NULL: none. */
const char *usage_fact(const struct usage *u, const char *host, const char *key);

/* A GPU or a part of one (MIG). */
struct usage_gpu {
	const char *host, *labels;    /* gpu="0", or gpu="0",mig="1" */
	char number[USAGE_LABEL_MAX]; /* "0", or "0/1" */
	const char *name;             /* NULL: not known */
	char reason[USAGE_LABEL_MAX]; /* for which it was held down most; "" for none */
	double reason_share;
};

/* All that have any reading; the caller frees the array. */
struct usage_gpu *usage_gpus(const struct usage *u, size_t *ret_n);

/* A process by role and slot of a host. */
struct usage_process {
	const char *host, *labels;
	char role[USAGE_LABEL_MAX], slot[USAGE_LABEL_MAX]; /* slot "" without one */
};
struct usage_process *usage_processes(const struct usage *u, size_t *ret_n);

struct usage_energy usage_energy(const struct usage *u, const struct usage_steps *steps);

#endif
