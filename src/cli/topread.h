/* SPDX-License-Identifier: Apache-2.0
 *
 * topread.h - fills the model of `lapse top` from the store: once what there is, as totals and
 * buckets, then only what is new. What a call reads is bounded, however long the run is and
 * however fast it records.
 */
#ifndef CLI_TOPREAD_H
#define CLI_TOPREAD_H

#include "base/err.h"
#include "cli/topmodel.h"

struct topread {
	char dir[4096];
	struct store_reader *reader; /* NULL: not open */
	struct store_cursor *cursor;
	size_t n_hosts;
	int64_t look_ns;    /* when to look whether there are new hosts' files; monotonic */
	int64_t folder_ns;  /* when the folder had changed last */
	bool is_over;       /* the run has ended, and all of it was read */
	struct err warning; /* why nothing new comes; code 0: all is well */
};

void topread_init(struct topread *r, const char *dir);
void topread_done(struct topread *r);

/* Bring the model up to date. The first call, and the one after a new host's file came, begin
 * it anew. 0, or -errno and *e: nothing could be read at all. Later trouble is in r->warning. */
int topread_next(struct topread *r, struct topmodel *m, struct err *e);

/* Ask the store for the traces that were wanted and are not filled: from that time on (UTC;
 * 0: all). How many there were. */
size_t topread_traces(struct topread *r, struct topmodel *m, int64_t from_ns);

#endif
