/* SPDX-License-Identifier: Apache-2.0
 *
 * topmodel.h - a run as `lapse top` shows it, in bounded memory: the newest values of machine,
 * GPUs and processes, the charts and what they hold, events. It is told what the store has;
 * it knows neither the store nor the screen.
 */
#ifndef CLI_TOPMODEL_H
#define CLI_TOPMODEL_H

#include "analyse/stepsplit.h"
#include "base/map.h"
#include "cli/statusline.h"
#include "cli/topalerts.h"
#include "cli/toptrace.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPMODEL_SERIES_MAX 65536u /* what is more is counted */
#define TOPMODEL_ITEMS_MAX 4096u   /* of a group */
#define TOPMODEL_EVENTS 500u       /* the newest are kept */
#define TOPMODEL_TRACES_MAX 192u
#define TOPMODEL_PROCESSES_MAX 16384u /* so of processes */
#define TOPMODEL_SPANS 1024u          /* newest of each part, and of the steps */

/* Things of which there are several, each with figures of its own. */
enum topmodel_group {
	TOP_HOST,
	TOP_CORE,
	TOP_GPU,
	TOP_DISK,
	TOP_NET,
	TOP_FS,
	TOP_PROC,
	TOP_GROUPS
};

/* The figures; each is of one group (topmodel.c has the table). */
enum topmodel_field {
	TOP_CPU_BUSY,
	TOP_CPU_USER,
	TOP_CPU_SYSTEM,
	TOP_CPU_IOWAIT,
	TOP_CPU_STEAL,
	TOP_CPU_COUNT,
	TOP_CPU_QUOTA,
	TOP_LOAD,
	TOP_MEM_TOTAL,
	TOP_MEM_USED,
	TOP_MEM_LIMIT,
	TOP_SWAP_USED,
	TOP_SWAP_TOTAL,
	TOP_PSI_CPU,
	TOP_PSI_MEMORY,
	TOP_PSI_IO,
	TOP_TREE_CPU,
	TOP_TREE_RSS,
	TOP_SHM_USED,
	TOP_SHM_TOTAL,
	TOP_CORE_BUSY = 0,
	TOP_CORE_SYSTEM,
	TOP_GPU_BUSY = 0,
	TOP_GPU_USED,
	TOP_GPU_TOTAL,
	TOP_GPU_POWER,
	TOP_GPU_POWER_LIMIT,
	TOP_GPU_TEMPERATURE,
	TOP_GPU_CLOCK,
	TOP_GPU_THROTTLED,
	TOP_GPU_SM,
	TOP_DISK_READ = 0,
	TOP_DISK_WRITTEN,
	TOP_DISK_BUSY,
	TOP_NET_RECEIVED = 0,
	TOP_NET_SENT,
	TOP_FS_USED = 0,
	TOP_FS_AVAILABLE,
	TOP_FS_TOTAL,
	TOP_PROC_CPU = 0,
	TOP_PROC_RSS,
	TOP_PROC_GPU,
	TOP_PROC_READ,
	TOP_PROC_THREADS,
	TOP_PROC_BLOCKED,
	TOP_FIELDS = 20 /* of the group with most */
};

/* One of them. */
struct topmodel_item {
	unsigned host;
	uint32_t busy_series; /* number of the series of its field 0; UINT32_MAX: none */
	char name[96];        /* "0", "nvme0n1", "worker"; as stored: not clean */
	char slot[24];        /* of a process */
	char full[64];        /* of a GPU: its model; "" not known */
	double v[TOP_FIELDS]; /* NaN: not known */
	int64_t time_ns;      /* of its newest figure; 0: none */
};

struct topmodel_items {
	struct topmodel_item *all;
	size_t n, cap;
};

struct topmodel_series {
	unsigned host;
	uint32_t id, process;
	int64_t rank;
	enum sink_kind kind;
	bool is_machine; /* measured by lapse, not by the program */
	int8_t group;    /* enum topmodel_group; -1: none */
	uint8_t field;
	uint32_t item;   /* of that group */
	uint32_t chart;  /* in topmodel.charts */
	uint32_t part;   /* of a span of the main process: its place in `parts`; UINT32_MAX */
	uint64_t seen;   /* points that totals and newest values know */
	int64_t last_ns; /* of the newest point */
	struct toptrace *trace; /* NULL: nobody looks at it; owned */
	uint64_t wanted;        /* frame in which it was wanted last */
};

/* Series of one name and the same labels, of all processes. */
struct topmodel_chart {
	char *name, *labels, *unit; /* owned; as stored */
	int score;                  /* the higher the earlier; 0: only if asked for by a filter */
	enum sink_kind kind;
	uint32_t *series; /* the lowest rank first */
	size_t n, cap;
};

struct topmodel_process {
	unsigned host;
	uint32_t id;
	char role[32];
	int64_t pid, rank, local_rank, start_ns, end_ns;
	uint64_t lost; /* records */
};

struct topmodel_event {
	unsigned host;
	uint64_t seq;
	int64_t time_ns, step;
	int severity;
	char process[48], kind[48], text[320];
};

struct topmodel_span {
	int64_t start, end, step;
	uint32_t thread, part;
};

/* What is known of the run itself. */
struct topmodel_run {
	char id[128], name[128], project[64], hosts[128], outcome[64];
	bool is_running;
	int64_t start_ns, end_ns;
};

struct topmodel {
	struct topmodel_run run;
	struct topmodel_items items[TOP_GROUPS];
	struct topmodel_series *series;
	size_t n_series, cap_series, left_out;
	struct topmodel_chart *charts;
	size_t n_charts, cap_charts;
	uint32_t *order; /* of charts, the most interesting first */
	size_t n_order;  /* how many are in it; fewer than n_charts: sort anew */
	struct topmodel_process *processes;
	size_t n_processes, cap_processes;
	struct topmodel_event *events; /* a ring: topmodel_event() */
	uint64_t n_events, by_severity[4];
	struct topalerts alerts;
	char (*hosts)[64]; /* names */
	size_t n_hosts;
	struct map by_id, by_chart, by_item;
	/* Progress. */
	struct statusline line;
	struct statusline_speed speed;
	struct statusline_mark mark;
	uint32_t main_step;           /* series of the steps of the lowest rank; UINT32_MAX: none */
	int64_t first_step, first_ns; /* its first: number, time */
	bool is_mean;                 /* line.steps_s is over the whole run */
	const char *parts[STEPSPLIT_PARTS_MAX]; /* names of the main process' spans, of charts */
	size_t n_parts;
	struct topmodel_span *spans;           /* a ring */
	uint64_t n_spans[STEPSPLIT_PARTS_MAX]; /* of each part; the last: steps */
	int64_t newest_ns;                     /* of all points */
	uint64_t frame;
	size_t n_traces;
	bool is_stale; /* a process got another rank: read all anew */
};

void topmodel_init(struct topmodel *m);
void topmodel_done(struct topmodel *m);

/* What the store tells. Strings are copied. */
void topmodel_host(struct topmodel *m, unsigned host, const char *name);
void topmodel_set_run(struct topmodel *m, const struct store_run *run);
void topmodel_process(struct topmodel *m, const struct store_process *p);
/* Its number, or UINT32_MAX: there are too many. Known ones are found again. */
uint32_t topmodel_add_series(struct topmodel *m, const struct store_series *s);
uint32_t topmodel_find(const struct topmodel *m, unsigned host, uint32_t id);
/* Point number `at` of a series. */
void topmodel_point(struct topmodel *m, uint32_t series, uint64_t at, const struct store_point *p);
/* Only keep a span for topmodel_split(): totals know it. */
void topmodel_span(struct topmodel *m, uint32_t series, const struct store_point *p);
void topmodel_event_add(struct topmodel *m, const struct store_event *e);
void topmodel_attr(struct topmodel *m, unsigned host, uint32_t process, const char *key,
		   const char *value);

/* The totals of a series of steps, samples or tokens, from the store. */
void topmodel_seed_total(struct topmodel *m, uint32_t series, const struct store_bucket *b);
/* The newest value (of a counter: a rate) of a series that is in a group. */
void topmodel_seed_last(struct topmodel *m, uint32_t series, double value, int64_t time_ns);
/* Is that wanted? */
bool topmodel_wants_total(const struct topmodel *m, uint32_t series);

/* Speed, ETA, what the machine does, as of now. Once a frame. */
void topmodel_tick(struct topmodel *m, int64_t now_ns);

/* "trainer 0"; "" not known. Returns out. */
const char *topmodel_process_text(const struct topmodel *m, unsigned host, uint32_t id,
				  char out[48]);

/* The i-th newest event, of those that are kept; NULL: no more. */
const struct topmodel_event *topmodel_event(const struct topmodel *m, size_t i);

/* The first item of a group of the host; NULL: none. */
const struct topmodel_item *topmodel_item(const struct topmodel *m, enum topmodel_group g,
					  unsigned host);

/* The trace of a series, which is wanted in this frame: NULL: there is no room for more. */
struct toptrace *topmodel_trace(struct topmodel *m, uint32_t series);
/* Free traces that were not wanted for a while. */
void topmodel_sweep(struct topmodel *m);

/* Put charts in order. */
void topmodel_sort(struct topmodel *m);

/* Where the time of the newest steps went, of the lowest rank: fills s (init it not; free it
 * with stepsplit_done()). false: no steps. */
bool topmodel_split(const struct topmodel *m, struct stepsplit *s);

/* Does name{labels} have the text in it (letters of either case), or match it as a pattern? */
bool topmodel_match(const struct topmodel_chart *c, const char *filter);

/* Has it values one can look at as a line? */
int topmodel_score(const struct topmodel_series *s, const char *name);

#endif
