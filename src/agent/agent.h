/* SPDX-License-Identifier: Apache-2.0
 *
 * agent.h - the process that drains rings, probes the machine and pushes both
 * into the store of each live run. One per user and machine. docs/launcher.md
 * says how it meets launchers, docs/wire.md how it meets trainers.
 *
 * The agent does not know the store: who starts it gives it the calls of struct
 * agent_store.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "agent/phase.h"
#include "base/err.h"
#include "probe/runner.h"
#include "wire/run.h"
#include "wire/sink.h"

#include <stdbool.h>
#include <stdint.h>

/* Where runs are kept. Each call returns 0 or -errno and fills *e. */
struct agent_store {
	/* Open or create the store of a run. */
	int (*open)(const struct run_start *r, void **ret_handle, struct sink **ret_sink,
		    struct err *e);
	/* What is known of the run changed. */
	int (*start)(void *handle, const struct run_start *r, struct err *e);
	/* Between commits: a slice of housekeeping, some ten milliseconds. 1: there is
	 * more to do. -ESTALE: the file is gone; -EUCLEAN: it is corrupt: the agent
	 * closes it and opens it again. */
	int (*tend)(void *handle, struct err *e);
	/* Each second: is a span open that says that the program does something else than
	 * steps (phase_is_aside())? NULL: not wanted. */
	void (*aside)(void *handle, bool is_aside);
	/* The run has ended. */
	int (*end)(void *handle, const struct run_outcome *o, struct err *e);
	/* Before an ended run is closed: 1: somebody reads it, who may be waited for a little;
	 * call again. Without waiting. NULL: nothing. */
	int (*settle)(void *handle);
	/* Close; the handle is gone also on error. */
	int (*close)(void *handle, struct err *e);
	/* Why the sink's last call failed. */
	const char *(*why)(void *handle);
	/* Begin to finish what dead agents have left, without waiting for it. Once the runs
	 * that live are open, then every ten minutes; not with `once`. NULL: nothing. */
	void (*sweep)(void);
};

struct agent_options {
	const char *rendezvous; /* folder; NULL: as rendezvous_path() says */
	int64_t idle_exit_ns;   /* leave after so long without runs; 0: never */
	bool once;              /* recover: take what is there, finish what is dead, leave */
	const struct agent_store *store;
	const char *exporter;   /* program that exports live runs; NULL: they are not */
	struct probe_env probe; /* of the machine: pid 0. root NULL: nothing is probed */
	struct runner_pace pace;
	const char *rolling_dir; /* absolute: folder of the runs `machine`, which have the machine's
				    figures while no run is live; NULL: these are not kept */
	int64_t rolling_keep_ns; /* delete those that are older */
	int64_t rolling_period_ns; /* between their readings, instead of what pace says */
	int64_t phase_ns[PHASES];  /* period instead of pace.period_ns in a phase; 0: none */
};

/* Run until SIGTERM, SIGINT or idle_exit_ns. Returns 0; -EAGAIN: another agent
 * holds the lock; or why the rendezvous folder cannot be used. All that was
 * accepted before a signal is stored when it returns. */
int agent_run(const struct agent_options *o, struct err *e);

/* Figures of what the last agent_run() in this process did. */
struct agent_stats {
	uint64_t runs;     /* taken up */
	uint64_t finished; /* ended and closed */
	uint64_t rings;    /* attached */
	uint64_t refused;  /* files in rings/ that are no sound rings */
	uint64_t commits;
	uint64_t failed_commits;
};
void agent_stats(struct agent_stats *out);

#endif
