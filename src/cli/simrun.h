/* SPDX-License-Identifier: Apache-2.0
 *
 * simrun.h - a simulated run written into the runs' folder as the agent would
 * have: a database a host, start and outcome. At once, or in real time.
 */
#ifndef CLI_SIMRUN_H
#define CLI_SIMRUN_H

#include "base/err.h"
#include "simulate/simulate.h"
#include "wire/run.h"

struct simrun_options {
	const char *dir, *name, *project; /* dir NULL: the usual folder */
	const char *command;              /* that would make the same run again */
	bool has_outcome;                 /* else exited 0, or oom */
	enum run_outcome_kind outcome;
	int code, signal;
	double speed; /* 0: as fast as it can be stored; else times real time */
	bool quiet;   /* no progress on a terminal */
	/* Called once the run is there, before its first points. NULL: not wanted. */
	void (*begun)(void *arg, const char *dir, int64_t start_ns);
	void *arg;
};

struct simrun_result {
	char id[RUN_ID_MAX + 1];
	char dir[4096];
	uint64_t points; /* stored */
	double seconds;  /* that it took */
	int signal;      /* that ended it early; 0: none */
	double behind_s; /* how late a live run came to its end */
};

/* Write the run; start_ns is that of the options that made m. SIGINT and SIGTERM
 * end it early, as "signaled". 0, or -errno and *e: what was written stays. */
int simrun_write(const struct simulate *m, const struct simrun_options *o, int64_t start_ns,
		 uint32_t hosts, struct simrun_result *ret, struct err *e);

#endif
