/* SPDX-License-Identifier: Apache-2.0
 *
 * sumtree.h - the summary tree of a series in its file: reading pages, adding chunks.
 * Functions return 0 or -errno and *e.
 */
#ifndef STORE_SUMTREE_H
#define STORE_SUMTREE_H

#include "base/buf.h"
#include "base/err.h"
#include "store/codec.h"
#include "store/summary.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sumtree_db {
	const char *path;
	struct blob_codec *codec;
	struct column_codec *columns;
	sqlite3_stmt *get; /* SELECT blob FROM summary WHERE id = ?1 */
	sqlite3_stmt *set; /* INSERT OR REPLACE INTO summary(id, blob) VALUES(?1, ?2) */
};
/* Decode the page in column `at` of a row; nodes has room for SUMMARY_PAGE. */
int sumtree_read(const struct sumtree_db *db, sqlite3_stmt *st, int at, int64_t id, struct err *e,
		 struct summary *nodes, size_t *ret_n);
/* Read a page. -EUCLEAN also if it is missing. */
int sumtree_get(const struct sumtree_db *db, int64_t id, struct err *e, struct summary *nodes,
		size_t *ret_n);

/* Points of a whole node of level 0 or SUMMARY_QUARTER; chunks whose nodes of that
 * level share a page; such nodes of a chunk of n points. */
size_t sumtree_part(unsigned level, bool is_hist);
size_t sumtree_part_chunks(unsigned level);
size_t sumtree_parts(unsigned level, bool is_hist, uint64_t n);
/* The nodes of a page of level 0 or SUMMARY_QUARTER: those of n_chunks chunks, whose
 * own nodes (of level 1) are given. The page is only there if it has more nodes
 * than chunks. 0 or -errno. */
int sumtree_get_parts(const struct sumtree_db *db, uint32_t series, unsigned level, bool is_hist,
		      uint64_t page, const struct summary *chunks, size_t n_chunks, struct err *e,
		      struct summary *nodes, size_t *ret_n);

/* Adding chunks to the tree of a series. */
struct sumtree {
	const struct sumtree_db *db;
	uint32_t series;
	bool is_hist;
	unsigned levels;
	struct sumtree_level *level[SUMMARY_QUARTER + 1];
	struct buf body;
};
void sumtree_init(struct sumtree *t, const struct sumtree_db *db);
void sumtree_done(struct sumtree *t);
/* Begin with a series that has so many chunks; add one; write what changed. */
int sumtree_open(struct sumtree *t, uint32_t series, bool is_hist, uint32_t chunks, struct err *e);
int sumtree_add(struct sumtree *t, const struct summary *leaves, size_t n, struct err *e);
int sumtree_close(struct sumtree *t, struct err *e);

#endif
