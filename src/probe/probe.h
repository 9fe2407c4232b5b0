/* SPDX-License-Identifier: Apache-2.0
 *
 * probe.h - figures of the machine and of a run's processes. A metric is one row
 * of a const table (probe.c, docs/metrics.md); a reader fills one value for each
 * row, says for each whether it is known, and stores and prints nothing.
 *
 * Every reader takes a root path: "" is the real system, anything else is put
 * before /proc and /sys (tests point it at stored trees). No call aborts or
 * blocks, whatever the files say; memory is bounded as stated. One thread at a
 * time for a struct.
 */
#ifndef PROBE_PROBE_H
#define PROBE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

#define PROBE_ROOT_MAX 512 /* bytes of a root path, NUL included */

/* What one reading of a metric costs on the machine of docs/metrics.md. */
enum probe_cost {
	PROBE_COST_LOW = 1,  /* at most 20 us for the file it shares with others */
	PROBE_COST_EACH = 2, /* at most 20 us for each process */
	PROBE_COST_RARE = 3  /* more; read less often than asked, as help says */
};

struct probe_metric {
	const char *name;   /* "cpu/busy" */
	const char *unit;   /* "By", "1" */
	const char *help;   /* the definition, one line */
	const char *source; /* files it is made from */
	int kind;           /* enum sink_kind of wire/sink.h */
	int cost;           /* enum probe_cost */
};

/* ---- the machine -------------------------------------------------------- */

/* Rows of probe_host_metrics, and index of their values. */
enum probe_host_index {
	PROBE_HOST_CPU_BUSY,
	PROBE_HOST_CPU_COUNT,
	PROBE_HOST_MEMORY_TOTAL,
	PROBE_HOST_MEMORY_AVAILABLE,
	PROBE_HOST_MEMORY_USED,
	PROBE_HOST_MEMORY_LIMIT,
	PROBE_HOST_LOAD_1M,
	PROBE_HOST_METRICS
};
extern const struct probe_metric probe_host_metrics[PROBE_HOST_METRICS];

struct probe_host_values {
	uint64_t valid; /* bit i: value[i] holds */
	double value[PROBE_HOST_METRICS];
	const char *why[PROBE_HOST_METRICS]; /* static text why value[i] is absent;
						NULL when it holds */
};

/* Files of /proc that probe_host keeps open. */
enum probe_host_file {
	PROBE_HOST_STAT,
	PROBE_HOST_MEMINFO,
	PROBE_HOST_LOADAVG,
	PROBE_HOST_FILES
};

struct probe_host {
	char root[PROBE_ROOT_MAX];
	int fd[PROBE_HOST_FILES]; /* -1: not open */
	char *text;               /* reading buffer, cap bytes */
	size_t cap;
	bool has_cpu;    /* cpu[] holds a first reading */
	uint64_t cpu[8]; /* ticks by state at the last reading */
	uint64_t limit;  /* memory limit, bytes, when limit_error is 0 */
	int limit_error;
	uint64_t limit_ns; /* CLOCK_MONOTONIC of the limit's reading; 0: none yet */
};

/* Begin. Opens three files and takes 16 KiB. 0, -ENAMETOOLONG, -ENOMEM; missing
 * files are no error: their values are absent. */
int probe_host_init(struct probe_host *p, const char *root);
void probe_host_done(struct probe_host *p);

/* Read all. A value that is a rate is over the time since the last call, and
 * absent at the first. Returns 0 if any value holds, else -ENODATA; *out is
 * filled either way. */
int probe_host_read(struct probe_host *p, struct probe_host_values *out);

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
