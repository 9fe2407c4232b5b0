/* SPDX-License-Identifier: Apache-2.0
 *
 * read_priv.h - what the files of the reading side share: lists with a lower
 * bound, the tail row by row, cursors. Nobody else includes it but tests.
 */
#ifndef STORE_READ_PRIV_H
#define STORE_READ_PRIV_H

#include "store/hosts.h"

/* ---- lists.c: one host's rows that are newer ------------------------------------ */

/* Processes that changed after commit `seq`; the tail that is in memory counts. */
int lists_new_processes(struct store_reader *r, unsigned host, uint64_t seq,
			int (*fn)(void *arg, const struct store_process *p), void *arg,
			struct err *e);
/* Series with id above `after`, defined by commit `seq` at the latest; counts are 0. */
int lists_new_series(struct store_reader *r, unsigned host, uint32_t after, uint64_t seq,
		     int (*fn)(void *arg, const struct store_series *s), void *arg, struct err *e);
/* Events of commits (after, seq]. */
int lists_new_events(struct store_reader *r, unsigned host, uint64_t after, uint64_t seq,
		     int (*fn)(void *arg, const struct store_event *e), void *arg, struct err *e);
/* Attributes set after commit `seq`. */
int lists_new_attrs(struct store_reader *r, unsigned host, uint64_t seq,
		    int (*fn)(void *arg, unsigned host, uint32_t process, const char *key,
			      const char *value),
		    void *arg, struct err *e);

/* ---- tailrows.c: rows of the tail side by side ------------------------------------ */

/* A row and where its walk stands. */
struct tailrows_row {
	struct blob_id id;
	bool merged, live, is_hist;
	uint32_t series, n; /* of the block that is next */
	struct tail_walk walk;
	struct tail_block block;
	struct merged m;
	struct merged_entry entry;
	struct axis axis; /* of a merged row: number axis_index of it */
	int64_t axis_index;
};
struct tailrows {
	struct store_reader *r;
	struct err *e;
	struct tailrows_row *rows;
	size_t n_rows;
	uint64_t *heap; /* series and row, smallest first */
	size_t n_heap;
	bool is_hist;
};

/* Rows [from, ...) of a host's tail, which must stay as it is meanwhile. On failure
 * too, tailrows_done() frees it. */
int tailrows_open(struct tailrows *t, struct store_reader *r, const struct hosts_one *h,
		  size_t from, struct err *e);
void tailrows_done(struct tailrows *t);
/* Begin with the points, then with the histogram points. */
void tailrows_begin(struct tailrows *t, bool is_hist);
/* The row that has the next block, by series, then by age; NULL at the end. */
const struct tailrows_row *tailrows_next(const struct tailrows *t);
/* Append that block to points or hists (NULL: pass over it) and go on. */
int tailrows_take(struct tailrows *t, struct points *points, struct hists *hists);

/* ---- cursor.c ------------------------------------------------------------------------ */

struct cursor_series {
	uint64_t given; /* points given or lost */
	uint64_t seq;   /* given through this commit, and the host's `seq` if that is more */
	struct segment at;
	enum sink_kind kind;
};

/* What a cursor knows of a host's file. */
struct cursor_host {
	char *name;
	int64_t born;      /* when the file took the place of a corrupt one; 0: the first */
	uint64_t seq;      /* points through this commit were given */
	uint64_t told;     /* the same of all else */
	uint64_t target;   /* a pass over all series up to this commit is under way; 0: none */
	uint32_t partial;  /* the series in which that pass stopped; 0: none */
	bool recount;      /* that pass must not trust commits: count points */
	uint32_t n_series; /* were told */
	struct cursor_series *series;
	size_t cap_series;
};
struct store_cursor {
	struct cursor_host *hosts;
	size_t n_hosts, cap_hosts;
};

/* The host of this name, added if it is not there; valid until the next call. */
struct cursor_host *cursor_host(struct store_cursor *c, const char *name);
/* One more series. */
void cursor_add(struct cursor_host *h, enum sink_kind kind);

#endif
