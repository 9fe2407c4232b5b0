/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_files.h - what the launcher leaves on disk and in the rendezvous: the
 * run's folder, the run file under its lock, the outcome file (docs/launcher.md).
 */
#ifndef CLI_LAUNCH_FILES_H
#define CLI_LAUNCH_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/run.h"

struct launch_files {
	char id[RUN_ID_MAX + 1];
	char dir[4096];            /* the run's folder, absolute */
	bool fell_back;            /* dir is not where the user wanted it */
	char wanted[4096];         /* then: where that was */
	int rendezvous;            /* descriptor; -1 */
	char rendezvous_dir[4096]; /* absolute */
	int lock;                  /* the run file, locked; -1 */
	int reserve;               /* the page kept for the outcome; -1 */
};

/* Set all to nothing, so that _done() works. */
void launch_files_init(struct launch_files *f);

/* Open the rendezvous, choose the id and make the folder under root_option, or
 * where $LAPSE_DIR and the defaults say (NULL). 0 or -errno and why in *e;
 * nothing is left then. */
int launch_files_open(struct launch_files *f, const char *root_option, int64_t start_ns,
		      struct err *e);

/* Write the run file. On an error the folder is removed again. */
int launch_files_begin(struct launch_files *f, const struct run_start *r, struct err *e);

/* Write the outcome file; on a full file system without the tail of stderr. */
int launch_files_end(struct launch_files *f, struct run_outcome *o, struct err *e);

/* Has the agent stored the outcome? */
bool launch_files_is_finished(const struct launch_files *f);

/* Close, which frees the lock, and delete the reserved page. */
void launch_files_done(struct launch_files *f);

#endif
