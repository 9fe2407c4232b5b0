/* SPDX-License-Identifier: Apache-2.0
 *
 * live.h - a run that is being recorded: its store, its rings, its process tree,
 * its end. Private to the agent.
 */
#ifndef AGENT_LIVE_H
#define AGENT_LIVE_H

#include "agent/agent.h"
#include "agent/client.h"
#include "agent/clocks.h"
#include "agent/hang.h"
#include "agent/readings.h"
#include "probe/runner.h"
#include "probe/scrape/target.h"
#include "probe/linux/tree.h"

#include <stdbool.h>

/* Of the clients that are no more: their processes are dead, and all of them is stored. */
struct live_gone {
	size_t rings;
	uint64_t records, beats, steps; /* sums */
	uint64_t steps_most;
};

struct live {
	struct run_start start;
	bool by_child; /* without a file: so far only rings of forked children */
	bool has_file; /* there is a runs/ID.run */
	bool retired;  /* finished: to be freed */
	const struct agent_store *store;
	void *handle; /* NULL while the store cannot be opened */
	struct sink *sink;
	int64_t retry_ns;  /* CLOCK_MONOTONIC: try the store again then */
	int64_t commit_ns; /* CLOCK_MONOTONIC of the last commit */
	bool pending;      /* pushed since then, by others than clients */
	bool failing;      /* the last commit failed */
	bool unopened;     /* the last try to open it failed, which was told */
	bool tending;      /* the store's housekeeping is not done */
	bool behind;       /* the last commit was full: more may wait */
	uint64_t failures;
	struct client **clients;
	size_t n_clients, cap_clients;
	size_t next_client; /* to be drained first */
	struct live_gone gone;
	/* Machine figures: a process "host" and one for the tree. */
	uint32_t host_process, tree_process;
	bool wants_facts;          /* its store is new: it has not been told the facts */
	struct readings host, own; /* of the machine; of the run's processes */
	struct probe_tree tree;
	bool has_tree;
	struct runner *runner; /* reads the tree; NULL: none yet */
	struct probe_env env;
	struct scrape_targets scrape;
	int64_t period_ns; /* between readings; 0: as the agent's options say */
	struct hang hang;
	/* The end. */
	bool has_outcome;
	struct run_outcome *outcome; /* allocated when it came */
	bool end_stored;
	int64_t settle_ns; /* CLOCK_MONOTONIC: when it could first have been closed; 0: not yet */
	int64_t orphan_ns; /* launcher and command are dead since; 0: no */
};

/* Begin with a run. The store is opened, or tried again each second. */
struct live *live_new(const struct run_start *r, bool has_file, const struct agent_store *store);
void live_free(struct live *l);

/* Attach a ring of dirfd; -EEXIST if it is. */
int live_attach(struct live *l, int dirfd, const char *name, char why[128]);

/* The command was started. */
void live_set_child(struct live *l, int64_t pid, uint64_t start);

/* Drain all rings and commit if it is time, then a slice of housekeeping if it is
 * due and no lane waits. `now_ns` is CLOCK_MONOTONIC; force: drain and commit
 * also without need, and nothing else. Returns whether there is more to do. */
bool live_tick(struct live *l, int64_t now_ns, bool force);

/* Does it need to be drained before its second is over? */
bool live_is_pressed(struct live *l);

/* A value, an event, a fact of the machine. point as runner_take() numbers it. */
void live_figure(struct live *l, uint32_t point, const struct probe_metric *m, const char *labels,
		 int64_t boot_ns, double value);
void live_machine_event(struct live *l, int64_t boot_ns, int severity, const char *kind,
			const char *text, const char *attrs);
void live_fact(struct live *l, const char *key, const char *value);

/* Read and push what is due of the run's own processes, every period_ns what is read each
 * second otherwise; o is the agent's. Returns CLOCK_MONOTONIC ns when to come again. */
int64_t live_probe(struct live *l, const struct agent_options *o, int64_t period_ns,
		   const struct probe_now *now);

/* Each second: anchors, dead processes, hang; housekeeping becomes due. rings is
 * the folder of the rings. */
void live_second(struct live *l, int rings, const struct clocks *now);

/* Called hung, and now it ended: did it go on since the last second? Who dies may still write
 * records: only steps tell then. is_clean: it ended well. */
void live_last_look(struct live *l, bool is_clean);

/* How a hung run is quiet, in words. */
void live_describe_hang(struct live *l, int64_t mono_ns, char *out, size_t cap);

/* UTC of a CLOCK_BOOTTIME in this run. */
int64_t live_utc(const struct live *l, int64_t boot_ns);

/* An event of the run itself. */
void live_event(struct live *l, int64_t utc_ns, int severity, const char *kind, const char *text,
		const char *attrs);

/* live_end.c: let go of the rings of processes whose end is stored, and delete them. That of
 * the run's first process stays: it may have to tell how the run ended. */
void live_let_go(struct live *l, int rings);

/* live_end.c: read what the launcher tells of the end; true: it came just now. Who tells it has
 * seen the command die: a look behind this call finds all that the command left. */
bool live_hear(struct live *l, int runs);

/* Has it ended (an outcome was heard, or nobody is left to tell one), and if so finish it:
 * store the outcome, delete its files, retire. once: recover mode, nothing will come any
 * more. */
void live_finish(struct live *l, int rings, int runs, bool once);

extern struct agent_stats agent_totals;

#endif
