/* SPDX-License-Identifier: Apache-2.0
 *
 * salvage.h - what a damaged database still has, read row by row around what
 * cannot be read, and written into a new one.
 */
#ifndef STORE_SALVAGE_H
#define STORE_SALVAGE_H

#include "store/store_priv.h"
#include "store/verify_priv.h"

struct salvage_series;

struct salvage {
	sqlite3 *from;
	struct store s;  /* the new database: as much of one as sealing needs */
	struct verify v; /* decodes rows of the old one */
	struct err *e;
	const struct store_checker *to;
	struct chunkdata data; /* of the old one */
	struct build build;
	int64_t meta[META_N];
	struct points points;
	struct hists hists;
	struct salvage_series *series; /* whose chunks are read */
	int64_t merged, plain;         /* last merged row of the tail, first plain one; 0: none */
	uint64_t probes;               /* tries to read behind something unreadable */
	uint64_t lost;                 /* of them in the walk now going on: nothing was there */
	sqlite3_stmt *in, *out;        /* of the walk now going on; its key */
	int key;
	struct store_repaired *ret;
};

/* Give the rows of `from` that can be read to a new database at path, which has
 * nothing but tables. Tail rows are left as they are; the caller folds them. 0 or
 * -errno: only what is wrong with the new one, or no memory. */
int salvage_run(sqlite3 *from, const char *from_path, sqlite3 *to, const char *path,
		const struct store_checker *c, struct err *e, struct store_repaired *ret);

/* Call fn for the rows of sql (series, if it is not 0: ?3) whose key, column `key`, is
 * in ?1 to ?2, ascending, around those that cannot be read. 0, or fn's first result
 * that is not 0. */
typedef int (*salvage_fn)(struct salvage *w, sqlite3_stmt *st);
int salvage_walk(struct salvage *w, const char *sql, int key, int64_t series, int64_t lo,
		 int64_t hi, salvage_fn fn);

/* salvage_points.c: chunks, series by series, and rows of the tail. */
int salvage_chunks(struct salvage *w);
int salvage_tail(struct salvage *w);

#endif
