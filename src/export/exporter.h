/* SPDX-License-Identifier: Apache-2.0
 *
 * exporter.h - a run written into another tool's files, while it is being
 * recorded or afterwards. A format is an ops table over one walk of what the
 * store has that is newer (store_reader_newer()); the driver here keeps the
 * cursor and makes the output exact: whenever an exporter is killed, the next
 * one goes on so that the files become what an undisturbed exporter writes.
 *
 * How: each step ends in one atomic write of the state file, which holds the
 * cursor, the format's own state, the length of each file and the bytes to be
 * appended to it; only then are they appended. Whoever opens the state later
 * appends what is still missing. So a reader of the files never sees bytes that
 * change. docs/export.md describes the formats.
 */
#ifndef EXPORT_EXPORTER_H
#define EXPORT_EXPORTER_H

#include "base/buf.h"
#include "base/err.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORTER_BATCH 65536u         /* points a step, about */
#define EXPORTER_OUT_MAX (512u << 20) /* bytes of a step, a file */
#define EXPORTER_FILES_MAX 65536u

struct exporter;

struct exporter_ops {
	const char *name; /* as in --to */
	bool folder;      /* the output is a folder of files that grow; else it is one
			     file, which is replaced whole */
	/* Before a walk: what is known of the run now. */
	void (*begin)(void *f, const struct store_run *run);
	/* Calls of the walk; arg is what create() returned. */
	struct store_newer newer;
	void *(*create)(struct exporter *x);
	void (*destroy)(void *f);
	/* The format's part of the state file; load: 0 or -EUCLEAN. */
	void (*save)(const void *f, struct buf *b);
	int (*load)(void *f, struct cur *c);
	/* The walk is over: bring what came into the files. ended: the run is over
	 * and nothing will come any more. */
	int (*flush)(void *f, struct store_reader *r, const struct store_run *run, bool ended,
		     struct err *e);
};

extern const struct exporter_ops tensorboard_ops, prometheus_ops;

/* The format of this name, or NULL. */
const struct exporter_ops *exporter_find(const char *name);

/* Open the exporter of a run into output (a folder, made if missing, or a file
 * in a folder that is there) and go on where the last one stopped. The run's
 * database must be there. -EBUSY: another process exports the same run into it.
 * -EUCLEAN: the run cannot be read. */
int exporter_open(const struct exporter_ops *ops, const char *run_dir, const char *output,
		  struct err *e, struct exporter **ret);

/* One step: what is newer, about max_points of it (0: EXPORTER_BATCH). no_writers:
 * the caller saw, before this call, that nobody writes the run's databases any
 * more; if it has ended too and this step reaches the end of them, the output is
 * finished (exporter_stats.over). Returns 1 if there is more, 0 if not, or
 * -errno: then only exporter_close() may follow; opening it again goes on exactly. */
int exporter_step(struct exporter *x, bool no_writers, uint64_t max_points, struct err *e);

/* Free; NULL is fine. What was done by steps stays done. */
void exporter_close(struct exporter *x);

struct exporter_stats {
	uint64_t points; /* by this handle */
	uint64_t bytes;  /* appended by this handle */
	bool anew;       /* the state could not be used: all is written anew */
	bool over;       /* the run has ended and all of it is in the output */
};
void exporter_stats(const struct exporter *x, struct exporter_stats *out);

/* ---- for formats ---------------------------------------------------------- */

/* The number of a file of the output, by its path in the folder ("" if the
 * output is one file). The same number for good, also after a resume. */
unsigned exporter_file(struct exporter *x, const char *name);

/* How many files there are. */
unsigned exporter_files(const struct exporter *x);

/* What this step appends to a file (or what replaces it). */
struct buf *exporter_out(struct exporter *x, unsigned file);

/* Bytes of a file before this step. */
uint64_t exporter_size(const struct exporter *x, unsigned file);

/* Count a point for exporter_stats(). */
void exporter_count(struct exporter *x);

/* ---- outstate.c: the state file --------------------------------------------- */

struct outstate_file {
	char *name;         /* in the folder; owned */
	uint64_t size;      /* bytes before `pending` */
	struct buf pending; /* to be appended */
};

struct outstate {
	char *run, *format; /* whose it is; owned */
	struct buf cursor;  /* as store_cursor_save() wrote it */
	struct buf own;     /* the format's */
	struct outstate_file *files;
	size_t n_files, cap_files;
};

void outstate_init(struct outstate *s);
void outstate_done(struct outstate *s);
struct outstate_file *outstate_add(struct outstate *s, const char *name);
void outstate_encode(const struct outstate *s, struct buf *b);
/* s is initialised and empty. 0, or -EUCLEAN: not such bytes; s is as it was then. */
int outstate_decode(struct outstate *s, const void *data, size_t len);

#endif
