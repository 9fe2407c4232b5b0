/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_agent.h - keep an agent alive: start one when agent.lock is free, with
 * a back-off, without ever waiting for it.
 */
#ifndef CLI_LAUNCH_AGENT_H
#define CLI_LAUNCH_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#define LAUNCH_AGENT_STARTS 5 /* at most, in */
#define LAUNCH_AGENT_WINDOW_NS 60000000000LL

struct launch_agent {
	int dirfd;                           /* of the rendezvous; the owner's */
	const char *dir;                     /* its absolute path; the owner's */
	const char *program;                 /* NULL: lapse itself */
	bool off;                            /* start none */
	const char *config;                  /* its configuration file; NULL: none */
	int64_t idle_exit_ns;                /* it leaves after so long; 0: never */
	int64_t starts[LAUNCH_AGENT_STARTS]; /* CLOCK_BOOTTIME, a ring */
	unsigned started;                    /* all in all */
	unsigned failed;                     /* starts in a row that came to nothing */
};

/* dirfd and dir must outlive it. The agent gets no configuration file and leaves
 * after 60 s (docs/launcher.md) unless those members are set afterwards. */
void launch_agent_init(struct launch_agent *a, int dirfd, const char *dir);

/* Why no agent can be started, known without trying: 0 or -errno. */
int launch_agent_check(const struct launch_agent *a);

/* Start one if none lives and the back-off allows it. true: one lives. */
bool launch_agent_tick(struct launch_agent *a);

/* May a start at now_ns follow those so far? Split off for tests. */
bool launch_agent_may_start(const struct launch_agent *a, int64_t now_ns);

#endif
