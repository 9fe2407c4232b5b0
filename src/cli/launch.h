/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.h - one run of a command: the parts of the launcher and the loop that
 * waits for the command's end while it keeps an agent alive.
 */
#ifndef CLI_LAUNCH_H
#define CLI_LAUNCH_H

#include <stdbool.h>
#include <sys/resource.h>

#include "cli/launch_agent.h"
#include "cli/launch_child.h"
#include "cli/launch_files.h"
#include "cli/launch_oom.h"
#include "cli/launch_serve.h"
#include "cli/launch_signal.h"
#include "cli/launch_status.h"
#include "cli/launch_tee.h"

/* Large: static or on the heap. */
struct launch {
	bool recorded; /* there is a run file, and an agent is wanted */
	bool terminal; /* messages may be written to stderr */
	bool teeing;
	struct launch_child child;
	struct launch_signal signal;
	struct launch_files files;
	struct launch_agent agent;
	struct launch_serve serve;
	struct launch_oom oom;
	struct launch_tee tee;
	struct launch_status bar;
	int exec_error; /* errno; 0: it was executed */
	int status;     /* as of wait() */
	struct rusage usage;
};

/* Wait for the command, which was let go. Afterwards exec_error, status and
 * usage hold and stderr has been copied. */
void launch_wait(struct launch *l);

/* What is known of the end, for the outcome file (the id is the caller's). */
void launch_outcome(struct launch *l, struct run_outcome *out);

#endif
