/* SPDX-License-Identifier: Apache-2.0
 *
 * import.h - a run from elsewhere into a folder of runs: gathered in a folder with a dot
 * name there, checked, then renamed or joined with the run that is there already.
 */
#ifndef CLI_IMPORT_H
#define CLI_IMPORT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct import_wish {
	bool as_new;    /* if the id is there already, take another one */
	uint64_t limit; /* bytes that an archive may unpack to */
};

struct import_done {
	char id[128];
	unsigned added, same; /* databases that are new; that were there already */
	bool joined;          /* with a run that was there */
};

/* Import from the n paths, which are of one run: an archive, a run's folder, or files
 * HOST.db. -EEXIST: the run is there, and differs. root is made if missing. */
int import_run(const char *root, const char *const *paths, unsigned n, const struct import_wish *w,
	       struct err *e, struct import_done *ret);

/* Delete what killed imports left in root. */
void import_sweep(const char *root);

#endif
