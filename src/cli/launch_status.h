/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_status.h - a process that shows the status line of a run while it lasts, so
 * that neither a disk nor a terminal that hangs holds up who started it.
 */
#ifndef CLI_LAUNCH_STATUS_H
#define CLI_LAUNCH_STATUS_H

#include <stdint.h>
#include <sys/types.h>

enum launch_status_style {
	LAUNCH_STATUS_BAR,  /* the bottom line of a terminal on which others write */
	LAUNCH_STATUS_LINE, /* the current line of a terminal that is ours alone */
	LAUNCH_STATUS_LOG   /* a line every 10 s */
};

struct launch_status {
	int fd;    /* to it; -1: there is none */
	pid_t pid; /* 0 none */
	enum launch_status_style style;
};

/* What it shows: of the run in dir, begun at start_ns (UTC); total: steps, 0 not known. */
struct launch_status_of {
	const char *dir;
	int64_t start_ns, total;
	enum launch_status_style style;
};

void launch_status_init(struct launch_status *s);

/* Start it on stderr; without effect (fd stays -1) where that cannot show it: a BAR or a
 * LINE on what is no terminal, or one called "dumb". */
void launch_status_start(struct launch_status *s, const struct launch_status_of *of);

/* Give the terminal back for a while: before this process stops. Takes 0.2 s at most. */
void launch_status_pause(struct launch_status *s);
void launch_status_resume(struct launch_status *s);

/* End it; the terminal is as it was. Takes 0.4 s at most, unless the terminal is stopped. */
void launch_status_stop(struct launch_status *s);

#endif
