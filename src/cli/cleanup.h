/* SPDX-License-Identifier: Apache-2.0
 *
 * cleanup.h - making room in a folder of runs: raw points of runs that have ended,
 * the oldest runs first, and whole runs only where that is asked for.
 */
#ifndef CLI_CLEANUP_H
#define CLI_CLEANUP_H

#include "base/err.h"
#include "store/folder.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cleanup_wish {
	int64_t keep_raw_ns;   /* 0: no limit */
	uint64_t max_size;     /* bytes of a host's file; 0: no limit */
	uint64_t max_total;    /* bytes of all runs on disk; 0: no limit */
	int64_t older_than_ns; /* only runs that ended so long ago; 0: all that ended */
	bool remove_runs;      /* with older_than_ns: those; with max_total: the oldest, if
				  raw points are not enough */
	bool dry_run;
};

/* A run and what was done to it. */
struct cleanup_run {
	char *id, *dir;
	struct folder_info info; /* as found */
	bool eligible;
	bool removed;
	uint64_t points; /* raw ones that were dropped */
	uint64_t bytes;  /* on disk afterwards; about, if nothing was really done */
	char *error;     /* NULL: none */
};

struct cleanup {
	struct cleanup_run *runs; /* oldest first */
	size_t n;
	uint64_t before, after; /* bytes of all */
	uint64_t swept;         /* leftovers of earlier removals */
};

/* Do it to the runs in root. -errno if the folder cannot be read; what is wrong with
 * a run stands there. cleanup_done() frees in any case. */
int cleanup_run(const char *root, const struct cleanup_wish *w, struct err *e, struct cleanup *ret);
void cleanup_done(struct cleanup *c);

#endif
