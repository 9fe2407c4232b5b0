/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.h - the processes of a run: who belongs to it, and what they use together.
 */
#ifndef PROBE_TREE_H
#define PROBE_TREE_H

#include "base/map.h"
#include "probe/probe.h"

/* ---- the processes of a run --------------------------------------------- */

enum probe_tree_index {
	PROBE_TREE_CPU,
	PROBE_TREE_RSS,
	PROBE_TREE_PROCESSES,
	PROBE_TREE_THREADS,
	PROBE_TREE_METRICS
};
extern const struct probe_metric probe_tree_metrics[PROBE_TREE_METRICS];

#define PROBE_TREE_MAX 4096 /* processes followed */
#define PROBE_TREE_KEPT                                                                            \
	64 /* of them with 3 descriptors kept open each, while their numbers                       \
	      are below half of RLIMIT_NOFILE */

struct probe_tree_values {
	uint64_t valid; /* bit i: value[i] holds */
	double value[PROBE_TREE_METRICS];
	const char *why[PROBE_TREE_METRICS];
	unsigned untracked; /* at least so many processes of the tree were left out,
			       as PROBE_TREE_MAX are followed: the values are lower
			       bounds. 0: complete */
};

struct probe_proc;

struct probe_tree {
	int proc_fd;              /* the folder /proc */
	bool clocks;              /* CPU clocks of processes can be read: root is "" and the pids
				     of /proc are ours */
	bool children;            /* task/TID/children can be read */
	struct probe_proc *procs; /* parents before their children */
	size_t len, cap;
	unsigned kept;    /* processes with open descriptors */
	struct map index; /* pid -> place in procs */
	size_t pids;      /* processes of the machine at the last search of all; 0: none yet */
	unsigned untracked;
	uint64_t scan_ns;  /* CLOCK_MONOTONIC of the last full search; 0: none yet */
	uint64_t read_ns;  /* and of the last reading; 0: none yet */
	uint64_t gone_ns;  /* CPU time of processes that ended */
	uint64_t total_ns; /* what probe_tree_cpu_total_ns() gives */
};

/* Follow the process pid and its descendants. starttime is field 22 of
 * /proc/PID/stat (clock ticks since boot; rendezvous_start_time() of
 * wire/rendezvous.h); 0 takes whoever has the pid now.
 *
 * A process belongs to the tree from when it was first seen as a descendant
 * until it ends, also when its parent ended and it was given to init. Children
 * of main threads are looked for at each reading, those of other threads (all,
 * on kernels without task/TID/children) every 5 s. A process that ends before it
 * was seen counts in tree/cpu once its parent has reaped it; one that detaches
 * itself before it was seen is never found.
 *
 * 0; -ESRCH no such process; -ENAMETOOLONG, -ENOMEM, or what opening /proc
 * said. On error there is nothing to undo. */
int probe_tree_init(struct probe_tree *t, const char *root, long pid, uint64_t starttime);
void probe_tree_done(struct probe_tree *t);

/* Read all. 0, also when every process ended (tree/processes is then 0 and the
 * rest absent). *out is filled always; about 100 bytes of memory a process. */
int probe_tree_read(struct probe_tree *t, struct probe_tree_values *out);

/* CPU time that the tree used, as of the last reading, ns: processes alive or
 * ended, and children reaped unseen. Never goes backwards: a tree that works
 * moves it, one that hangs does not. 0 before the first reading. */
uint64_t probe_tree_cpu_total_ns(const struct probe_tree *t);

#endif
