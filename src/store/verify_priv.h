/* SPDX-License-Identifier: Apache-2.0
 *
 * verify_priv.h - what the two files of store_check() share: the state of a check.
 */
#ifndef STORE_VERIFY_PRIV_H
#define STORE_VERIFY_PRIV_H

#include "store/store_priv.h"

struct verify {
	const char *path;
	sqlite3 *db;
	struct err *e;
	struct blob_codec codec;
	struct column_codec columns;
	uint8_t *kinds; /* of series, id - 1 */
	size_t n_series, cap_series;
	struct points points;
	struct hists hists;
	struct axis axis;
	int64_t meta[META_N];
	uint64_t seq; /* of the tail row before, or what is folded */
	int64_t pack, pack_end;
};

/* Call fn for each row; its first result that is not 0 ends the walk. */
typedef int (*verify_fn)(struct verify *v, sqlite3_stmt *st);
int verify_rows(struct verify *v, const char *sql, verify_fn fn);

/* verify_tree.c: all chunks, and the trees over them. */
int verify_chunks(struct verify *v);

#endif
