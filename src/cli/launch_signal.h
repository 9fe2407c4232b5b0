/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_signal.h - signals that reach the launcher: which of them the command
 * must be given, and stopping when the command stops (docs/launcher.md,
 * Signals). All signals must be blocked.
 */
#ifndef CLI_LAUNCH_SIGNAL_H
#define CLI_LAUNCH_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct launch_signal {
	int fd;         /* signalfd of all signals, for poll() */
	pid_t child;    /* who is given signals; 0: nobody */
	pid_t witness;  /* 0: none */
	uint64_t ahead; /* signals that a witness got and we have not read yet, bit 0 is 1 */
	bool resized;   /* SIGWINCH came; the reader sets it back */
	bool wanted;    /* somebody asked us to end; the reader sets it back */
};

/* Open the descriptor and make the witness. 0 or -errno; without a witness it
 * still works (docs/launcher.md). */
int launch_signal_init(struct launch_signal *s);
void launch_signal_done(struct launch_signal *s);

/* Take what is pending and pass on what must be passed on. May take 20 ms. */
void launch_signal_take(struct launch_signal *s);

/* The command was stopped by sig: stop this process by it too, unless the
 * command runs again. Returns when this process was continued. */
void launch_signal_stop_too(struct launch_signal *s, int sig);

/* For a command that watches what it did not start: block what would end it, so that it
 * leaves in order, and SIGPIPE. Returns the signalfd of these; -1 and errno. */
int launch_signal_leave(void);

#endif
