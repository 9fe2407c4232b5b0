/* SPDX-License-Identifier: Apache-2.0
 *
 * probe.h - figures of the machine, its GPUs and a run's processes. A metric is one
 * row of a const table (docs/metrics.md is made from these rows); rows that are
 * read together are a group; what a group reads becomes points of a set: a row, the
 * labels of one instance (CPU 3, disk sda), a value or the reason why there is none.
 *
 *     groups (const) --open--> state --read--> struct probe_set --take--> the agent
 *
 * Every reader takes a root path: "" is the real system, anything else is put
 * before /proc and /sys (tests point it at stored trees). No reader aborts,
 * whatever the files say; memory is bounded as stated.
 */
#ifndef PROBE_PROBE_H
#define PROBE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PROBE_ROOT_MAX 512     /* bytes of a root path, NUL included */
#define PROBE_LABELS_MAX 256   /* bytes of the labels of a point, NUL included */
#define PROBE_POINTS_MAX 32768 /* points of a set */
#define PROBE_EVENTS_MAX 64    /* events waiting in a set */
#define PROBE_NONE UINT32_MAX  /* no point: what is put there goes nowhere */

/* What one reading costs on the machine of docs/metrics.md. */
enum probe_cost {
	PROBE_COST_LOW = 1,  /* at most 20 us for the file it shares with others */
	PROBE_COST_EACH = 2, /* at most 20 us for each instance (process, CPU, GPU) */
	PROBE_COST_RARE = 3  /* more; read less often than asked, as help says */
};

struct probe_metric {
	const char *name;   /* "cpu/busy" */
	const char *unit;   /* "By", "1", "s", "Hz", "Cel", "W", "J" */
	const char *help;   /* the definition, one line */
	const char *source; /* files or calls it is made from */
	int kind;           /* enum sink_kind of wire/sink.h */
	int cost;           /* enum probe_cost */
	const char *labels; /* keys of its labels, sorted: "device", "cpu"; NULL none */
};

/* ---- points ------------------------------------------------------------------- */

/* Points and events of some groups. Written by one thread, taken by another or the
 * same one (probe_set_take()); only that call may run beside the others. */
struct probe_set;

struct probe_set *probe_set_new(void);
void probe_set_free(struct probe_set *s);

/* The point of a row and labels (k="v",k2="v2", keys sorted; "" none), made at its
 * first call; numbers are dense and never change. Look it up when an instance is
 * found, not at every reading. `m` must live as long as s. PROBE_NONE beyond
 * PROBE_POINTS_MAX, which is told by one event, and for labels that are too long. */
uint32_t probe_point(struct probe_set *s, const struct probe_metric *m, const char *labels);

/* Append key="value" to labels (cap bytes), the value escaped as in Prometheus
 * text. Keys must come sorted. 0, -ENAMETOOLONG (labels is then unchanged). */
int probe_label(char *labels, size_t cap, const char *key, const char *value);

/* A value at the time of this reading. NaN is a value: what is unknown is absent. */
void probe_put(struct probe_set *s, uint32_t point, double value);

/* No value, and why: static text or text that lives as long as s. Until the
 * next probe_put() this is what probe_point_at() tells. */
void probe_absent(struct probe_set *s, uint32_t point, const char *why);

/* A counter of the system that only grows: puts what was added since the last call,
 * times scale; the first call puts nothing. A counter that is lower than before has
 * wrapped if it has `bits` bits (32 or 48) and the step forward is below a quarter of
 * its range; else it began anew (0 bits: always so), which puts nothing. */
void probe_count(struct probe_set *s, uint32_t point, uint64_t raw, unsigned bits, double scale);

/* Something happened: a GPU vanished, the kernel killed a process. severity, kind,
 * text and attrs (JSON object or "") as in struct sink_event; copied. Beyond
 * PROBE_EVENTS_MAX between two takings the oldest go, counted in one of their own. */
void probe_event(struct probe_set *s, int severity, const char *kind, const char *text,
		 const char *attrs);

/* A fact that is no number: attribute of the host ("gpu/0/name", "NVIDIA H100"). Copied;
 * told again only when the value has changed. */
void probe_fact(struct probe_set *s, const char *key, const char *value);

/* What is known of a point, for tests and lapse doctor; by the writing thread. */
struct probe_view {
	const struct probe_metric *metric;
	const char *labels;
	bool known; /* value holds, as of the last reading of its group */
	double value;
	const char *why; /* why not; NULL when known, or not read yet */
};
size_t probe_points(const struct probe_set *s);
void probe_point_at(const struct probe_set *s, uint32_t point, struct probe_view *out);

/* The value of a point by name and labels: 0; -ENOENT no such point; -ENODATA absent. */
int probe_value(const struct probe_set *s, const char *name, const char *labels, double *ret);

/* Called for what was read since the last taking, in order. metric and labels stay
 * valid as long as the set. */
struct probe_taker {
	void (*value)(void *arg, uint32_t point, const struct probe_metric *m, const char *labels,
		      int64_t boot_ns, double value);
	void (*event)(void *arg, int64_t boot_ns, int severity, const char *kind, const char *text,
		      const char *attrs);
	void (*fact)(void *arg, const char *key, const char *value);
	void *arg;
};
void probe_set_take(struct probe_set *s, const struct probe_taker *t);

/* When a reading takes place. */
struct probe_now {
	int64_t mono_ns; /* CLOCK_MONOTONIC: for rates, does not count suspend */
	int64_t boot_ns; /* CLOCK_BOOTTIME: the time of its samples */
};

/* Around the readings of one moment: everything put between the two has the time
 * of now, and can be taken after probe_set_end(). The runner does it; tests too. */
void probe_set_begin(struct probe_set *s, const struct probe_now *now);
void probe_set_end(struct probe_set *s);

/* ---- groups --------------------------------------------------------------------- */

struct scrape_target;

/* What a group is asked to look at. Lives longer than the group's state. */
struct probe_env {
	const char *root;        /* "" the real system */
	long pid;                /* a run's first process; 0: the machine */
	struct probe_tree *tree; /* of a run: its processes (tree.h), read by the group tree;
				    NULL: the machine */
	const char *run_dir;     /* folder of the runs, for its file system; NULL unknown */
	bool pss;                /* read PSS too (docs/config.md) */
	const struct scrape_target *scrape; /* whom to ask for figures (scrape/target.h) */
	size_t n_scrape;
	/* Who is this process? true, and its role ("trainer", "worker") and slot in it
	 * (rank on this host, number of the worker; -1 unknown). NULL: nobody knows. */
	bool (*who)(void *arg, long pid, uint64_t start, char role[32], int *slot);
	void *arg;
};

enum probe_place {
	PROBE_INLINE, /* never blocks: read by the agent's own thread */
	PROBE_SLOW,   /* may block (a file system that is gone, a tool that is asked):
			 a thread for all of these */
	PROBE_GPU     /* drivers: a thread of their own, for all of these */
};

struct probe_group {
	const char *name;                   /* "cpu": settings and doctor name it so */
	const struct probe_metric *metrics; /* its rows */
	size_t n_metrics;
	enum probe_place place;
	int64_t period_ns; /* between readings if nothing else is said */
	bool of_run;       /* needs env->pid: one for each run */
	/* Why there is nothing to do for it, which costs nothing then; NULL, or gives NULL:
	 * there is. */
	const char *(*idle)(const struct probe_env *env);
	/* Look for what there is. 0; -ENODEV: nothing of the kind is here, and *e says
	 * why and what would help; else -errno. */
	int (*open)(const struct probe_env *env, struct probe_set *s, void **ret_state,
		    struct err *e);
	/* Read once and put. What vanishes is an event, what cannot be read absent. */
	void (*read)(void *state, struct probe_set *s, const struct probe_now *now);
	void (*close)(void *state);
};

/* All groups, ended by NULL (groups.c): a new group is a file and a row there. */
extern const struct probe_group *const probe_groups[];

#endif
