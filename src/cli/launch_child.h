/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_child.h - the command as a process: forked first and held at a gate,
 * so that the run file can name it before it runs; then executed with all that
 * the launcher inherited as it was.
 */
#ifndef CLI_LAUNCH_CHILD_H
#define CLI_LAUNCH_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct launch_child {
	pid_t pid;
	int gate;           /* writing or closing lets the child go; -1 afterwards */
	int exec_fd;        /* at its end: executed; an int: errno of the failure */
	const char *config; /* path for the command's environment; NULL: leave it */
	/* What the child gives back to the command. */
	sigset_t mask;
	struct sigaction chld;
	int death_signal;
};

/* Note the signal state of this process and then block all signals. To be
 * called first. */
void launch_child_init(struct launch_child *c);

/* Open /dev/null, close-on-exec, where a standard stream is closed: else a file
 * of ours would become the command's stderr. */
void launch_child_plug_streams(void);

/* Fork the child, which waits. argv ends in NULL; stderr_fd replaces the
 * command's stderr, -1: as it is. run_id and rendezvous go into the environment
 * when the gate is opened with recorded set. 0 or -errno of fork(). c->config, if
 * set before, becomes the command's LAPSE_CONFIG. */
int launch_child_fork(struct launch_child *c, char *const argv[], int stderr_fd, const char *run_id,
		      const char *rendezvous);

/* Let the child go. */
void launch_child_release(struct launch_child *c, bool recorded);

/* Why exec failed, as errno; 0 if it did not or has not yet. */
int launch_child_exec_error(struct launch_child *c);

/* Give up the launcher's copies of what the command inherited, so that closing
 * a descriptor in the command is seen at the other end: streams 0 and 1 and
 * every descriptor that is not close-on-exec. */
void launch_child_drop_inherited(void);

/* Give up stderr too. */
void launch_child_drop_stderr(void);

/* End as a process with this wait status ended: same exit status, or death by
 * the same signal, without a core. */
_Noreturn void launch_child_die_like(int status);

#endif
