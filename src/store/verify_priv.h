/* SPDX-License-Identifier: Apache-2.0
 *
 * verify_priv.h - what the two files of store_check() share: the state of a
 * check, and how what it finds is told.
 */
#ifndef STORE_VERIFY_PRIV_H
#define STORE_VERIFY_PRIV_H

#include "store/store_priv.h"

struct verify_tree;

struct verify {
	const char *path;
	sqlite3 *db;
	struct err *e; /* one finding, or why the check cannot go on */
	const struct store_checker *to;
	uint64_t findings, done, total;
	uint64_t points_seen; /* in rows of the tail */
	struct blob_codec codec;
	struct column_codec columns;
	uint8_t *kinds; /* of series, id - 1; 0: not known */
	size_t n_series, cap_series;
	struct points points;
	struct hists hists;
	struct axis axis;
	int64_t meta[META_N];
	uint64_t seq; /* of the tail row before, or what is folded */
	int64_t pack, pack_end;
	struct verify_tree *tree; /* while chunks are walked */
};

/* Give what a function said of a row (format: which) to whom it may concern. r is
 * the function's result: only -EUCLEAN is a finding, and becomes 0. */
int verify_found(struct verify *v, int r, const char *table, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Call fn for each row; its first result that is neither 0 nor a finding ends the
 * walk. The row's first columns are its key, called as in key: "seq", or "series,
 * ordinal". */
typedef int (*verify_fn)(struct verify *v, sqlite3_stmt *st);
int verify_rows(struct verify *v, const char *table, const char *key, const char *sql,
		verify_fn fn);

/* Decode a row of the tail, all of it: 0, -EUCLEAN. Its first commit, and is it a
 * merged one? */
int verify_tail_row(struct verify *v, const struct blob_id *id, const void *data, size_t len,
		    uint64_t *ret_first, bool *ret_merged);

/* verify_tree.c: all chunks, and the trees over them. */
int verify_chunks(struct verify *v);

#endif
