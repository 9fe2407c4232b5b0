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

/* Counters of a process that are read in rotation. */
enum probe_detail_index {
	PROBE_DETAIL_READ_ALL, /* the first six as enum task_io_field of linux/task.h */
	PROBE_DETAIL_WRITTEN_ALL,
	PROBE_DETAIL_READS,
	PROBE_DETAIL_WRITES,
	PROBE_DETAIL_READ,
	PROBE_DETAIL_WRITTEN,
	PROBE_DETAIL_MINOR, /* page faults */
	PROBE_DETAIL_MAJOR,
	PROBE_DETAIL_VOLUNTARY, /* context switches of the main thread */
	PROBE_DETAIL_INVOLUNTARY,
	PROBE_DETAIL_WAIT, /* ns that the main thread was runnable and waited */
	PROBE_DETAIL_COUNTERS
};
#define PROBE_DETAIL_IO 6 /* counters of the file io: those of a child go to who waits for it */

/* What one process showed at its last turn, and what it added since somebody took that
 * (who sets fresh to false then). Bits: 1 << enum probe_detail_index. */
struct probe_detail {
	uint64_t read_ns;  /* when, as probe_tree.read_ns; 0: never */
	uint64_t since_ns; /* from when on added, seen and stuck count; 0: not from a turn */
	bool fresh;        /* read, and not taken yet */
	unsigned known;    /* raw holds */
	unsigned stepped;  /* added holds */
	uint64_t raw[PROBE_DETAIL_COUNTERS];
	uint64_t added[PROBE_DETAIL_COUNTERS];
	uint64_t credit[PROBE_DETAIL_IO]; /* of children that ended since, counted as theirs */
	bool has_memory, has_anonymous, has_files, has_files_limit;
	uint64_t peak, anonymous, swap; /* bytes */
	uint64_t files, files_limit;
	unsigned seen, stuck; /* readings; of these in state D */
	int io_error;         /* why io was not read: -errno */
};

/* A process of the tree. */
struct probe_proc {
	long pid, ppid;
	uint64_t start;
	char name[16];
	uint64_t stack, args;               /* as struct proc_stat of linux/proc.h */
	int stat_fd, statm_fd, children_fd; /* -1: opened for each reading */
	int clock;                          /* clockid_t of its CPU time, if has_clock */
	bool has_clock, gone, memory_known;
	bool from_birth; /* it began after we did: its counters from 0 */
	char state;
	uint64_t threads;
	uint64_t resident, shared; /* pages */
	uint64_t own_ns;           /* CPU time of the process */
	uint64_t child_ns;         /* of the children that it reaped, and of theirs */
	uint64_t credit_ns;        /* part of child_ns that we saw in them alive */
	uint64_t unseen_ns;        /* the other part: never more than child_ns - credit_ns */
	uint64_t minor, major;     /* page faults */
	uint64_t measured_ns;      /* when own_ns was read; 0: never */
	double cpu;                /* CPUs used since the reading before; < 0 unknown */
	uint64_t stuck_ns;         /* in state D with no CPU used since; 0: it is not */
	unsigned exit_code;        /* of a zombie, as wait() gives it */
	uint64_t turn;             /* last rotation that it was read in */
	struct probe_detail detail;
	int slot; /* the group process's own; -1 none */
};

struct probe_tree {
	int proc_fd;              /* the folder /proc */
	bool clocks;              /* CPU clocks of processes can be read: root is "" and the pids
				     of /proc are ours */
	bool children;            /* task/TID/children can be read */
	bool real;                /* it is the kernel's: sizes of folders in it mean something */
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
	/* Details in rotation (probe_tree_turn()). */
	uint64_t turn;
	uint64_t added[PROBE_DETAIL_COUNTERS]; /* over all since the tree was first read */
	unsigned lacking;                      /* bits: some process could not tell this turn */
	unsigned lacked;                       /* in the turn that ended last */
	uint64_t turned_ns;                    /* when it ended; 0: none yet */
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
 * rest absent). *out is filled always; about 500 bytes of memory a process. */
int probe_tree_read(struct probe_tree *t, struct probe_tree_values *out);
int probe_tree_read_at(struct probe_tree *t, uint64_t mono_ns, struct probe_tree_values *out);

/* Read the details of some processes, after probe_tree_read(): of those whose turn it
 * is, so that each gets one in 10 s at one reading a second (up to 320 processes;
 * beyond that 32 a reading). True when a turn of all is complete: added[] is then exact up to it.
 */
bool probe_tree_turn(struct probe_tree *t);

/* Find a process; NULL if it is not in the tree. */
struct probe_proc *probe_tree_find(const struct probe_tree *t, long pid);

/* Ended, whether or not it was waited for? */
bool probe_proc_is_zombie(const struct probe_proc *p);

/* The start of PID/file of /proc into text: 0 or -errno. */
int probe_tree_text(const struct probe_tree *t, long pid, const char *file, char *text, size_t cap,
		    size_t *ret_len);

/* Of tree.c, for detail.c: p's counters go to its parent, which waits for it. */
void probe_detail_retire(struct probe_tree *t, struct probe_proc *p, struct probe_proc *parent);

/* CPU time that the tree used, as of the last reading, ns: processes alive or
 * ended, and children reaped unseen. Never goes backwards: a tree that works
 * moves it, one that hangs does not. 0 before the first reading. */
uint64_t probe_tree_cpu_total_ns(const struct probe_tree *t);

#endif
