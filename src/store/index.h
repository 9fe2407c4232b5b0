/* SPDX-License-Identifier: Apache-2.0
 *
 * index.h - the runs of a folder at a glance. What was read of a run once is kept in
 * a cache of the user ($XDG_CACHE_HOME/lapse, else ~/.cache/lapse; a file a
 * folder of runs, replaced whole, never locked or mapped) and taken from there as
 * long as the names, sizes, times and inodes of the run's files are the same. A
 * cache that is missing, damaged or cannot be written costs time only.
 */
#ifndef STORE_INDEX_H
#define STORE_INDEX_H

#include "base/buf.h"
#include "base/err.h"
#include "store/store.h"
#include "wire/sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INDEX_METRICS_MAX 512u /* of a run; see index_run.partial */

/* The figures of the series of one name: of those without labels, else of all, the one
 * of the lowest rank. Gauges, counters and the spans "step"; of steps that were
 * repeated the newest attempt. */
struct index_metric {
	char *name, *unit;
	enum sink_kind kind;
	uint64_t count;
	double last, min, max; /* NaN: none */
	double sum;
	int64_t step; /* highest; SINK_STEP_NONE: none */
};

struct index_run {
	char *id;             /* name of the folder */
	char *error;          /* why it cannot be read; NULL: the rest holds */
	char *warning;        /* as store_reader_warning() */
	struct store_run run; /* strings owned; stderr_tail is "" */
	uint64_t bytes;       /* on disk */
	int64_t step;         /* highest step; SINK_STEP_NONE: none */
	bool partial;         /* it has metrics that are not in the list */
	struct index_metric *metrics;
	size_t n_metrics;
	uint64_t key, dir_key; /* of the files and of the folder as they were */
	char *files;           /* their names, each with '/' behind it */
};

struct index;

/* The runs in root, oldest first. 0, or -errno and *e: the folder cannot be read. */
int index_open(const char *root, struct err *e, struct index **ret);
size_t index_count(const struct index *x);
/* Run i; read if the cache does not have it. Owned by the index. */
const struct index_run *index_get(struct index *x, size_t i);
/* The metric, or NULL. If the run is partial it is looked for in the run itself. */
const struct index_metric *index_metric(struct index *x, size_t i, const char *name);
/* How many runs were really read. */
size_t index_reads(const struct index *x);
/* Write the cache if there is something new, and free. */
void index_close(struct index *x);

/* One run as bytes, appended, and back (0, or -EUCLEAN). The id is the first thing in
 * it. For the cache and its tests. */
void index_encode(struct buf *b, const struct index_run *r);
int index_decode(const void *data, size_t len, struct index_run *ret);
void index_run_done(struct index_run *r);

/* Read a run's folder. What is wrong stands in ret->error. */
void index_read(const char *dir, const char *id, struct index_run *ret);

/* Add one metric to those of the run, if it has it. 0 or -errno. */
int index_read_metric(const char *dir, const char *name, struct index_run *run);

#endif
