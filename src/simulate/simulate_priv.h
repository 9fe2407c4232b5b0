/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate_priv.h - what simulate.c and feed.c share: the run with its lists of
 * processes and series, and how one point is made.
 */
#ifndef SIMULATE_SIMULATE_PRIV_H
#define SIMULATE_SIMULATE_PRIV_H

#include "simulate/plan.h"
#include "simulate/shape.h"
#include "simulate/simulate.h"

enum simulate_role {
	SIMULATE_HOST,
	SIMULATE_COMMAND,
	SIMULATE_TRAINER,
	SIMULATE_WORKER,
	SIMULATE_ROLES
};

struct simulate_one {
	uint32_t host, rank; /* rank: of a trainer; of a worker its number */
	enum simulate_role role;
};

struct simulate {
	struct plan plan;
	struct simulate_one *processes;
	size_t n_processes, cap_processes;
	struct simulate_series *series; /* without the added gauges */
	size_t n_series, cap_series;
	size_t *host_series;  /* hosts + 1: first series of each host */
	size_t *rank_series;  /* of each rank */
	size_t *rank_process; /* of each rank */
	uint32_t gauges;      /* added */
};

/* First rank of a host; host may be the number of hosts. */
uint32_t simulate_first_rank(const struct plan *p, uint32_t host);
uint32_t simulate_pid(const struct simulate_one *one);

/* The i-th added gauge without its name. */
struct simulate_series simulate_gauge(const struct simulate *m, uint32_t i);

/* The point of at->s as a sample whose series is 0. */
void simulate_sample(const struct shape_at *at, struct sink_sample *ret);
/* Likewise a histogram's; bins holds SIMULATE_BINS_MAX. */
void simulate_hist(const struct shape_at *at, struct sink_bin *bins, struct sink_hist *ret);

#endif
