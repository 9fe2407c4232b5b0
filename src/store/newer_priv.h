/* SPDX-License-Identifier: Apache-2.0
 *
 * newer_priv.h - store_reader_newer() at work on one host's file: shared by newer.c,
 * which walks over series, and newerseries.c, which gives the points of one.
 */
#ifndef STORE_NEWER_PRIV_H
#define STORE_NEWER_PRIV_H

#include "store/read_priv.h"

enum newer_sql {
	NEWER_FOLDS,
	NEWER_LAST, /* chunk of a series */
	NEWER_FROM, /* its first chunk from an ordinal on */
	NEWER_SERIES,
	NEWER_N
};

struct newer_undo {
	uint32_t series;
	struct cursor_series old;
};

/* What a call has changed of one host's cursor, to take it back if it fails. */
struct newer_log {
	size_t host;               /* of the cursor */
	struct cursor_host before; /* series: live only if `fresh` */
	bool fresh;                /* the cursor has an array of series of its own since */
	struct newer_undo *undo;
	size_t n, cap;
};

struct newer {
	struct store_reader *r;
	struct hosts_one *h;
	unsigned host;
	struct cursor_host *c;
	const struct store_newer *f;
	void *arg;
	struct err *e;
	uint64_t left; /* points that may be given */
	bool skip;     /* nothing is given: what is in chunks need not be read */
	bool stopped;  /* there are more points than that */
	bool stale;    /* the tail must be read again, and what follows from it */
	uint64_t seq;  /* last commit, as of when the tail was read */
	int64_t meta[META_N];
	sqlite3_stmt *sql[NEWER_N];
	struct chunkdata data;
	struct tailrows rows;
	struct points points;
	struct hists hists;
	struct newer_log *log;
	struct store_series series; /* the one whose points are given; id 0: none */
	struct buf text;
};

/* Give what is new of a series, whose blocks are the next ones of w->rows, and note it
 * in the cursor; see w->stopped and w->stale. 0, -errno, or what a function returned. */
int newerseries_give(struct newer *w, uint32_t id);

#endif
