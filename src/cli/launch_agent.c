/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_agent.c - see launch_agent.h.
 */
#include "cli/launch_agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/launch_detach.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"

#define AGENT_SECOND_NS 1000000000LL
#define AGENT_IDLE_EXIT_NS (60 * AGENT_SECOND_NS)
#define AGENT_BACKOFF_NS 1000000000LL

void launch_agent_init(struct launch_agent *a, int dirfd, const char *dir)
{
	*a = (struct launch_agent){.dirfd = dirfd,
				   .dir = dir,
				   .program = getenv("LAPSE_AGENT"),
				   .idle_exit_ns = AGENT_IDLE_EXIT_NS};
	if (a->program && !a->program[0])
		a->program = NULL;
}

int launch_agent_check(const struct launch_agent *a)
{
	/* A name without a slash is looked up in PATH, by exec. */
	if (!a->program || !strchr(a->program, '/'))
		return 0;
	return access(a->program, X_OK) < 0 ? -errno : 0;
}

bool launch_agent_may_start(const struct launch_agent *a, int64_t now_ns)
{
	int64_t last, oldest;

	if (a->started == 0)
		return true;
	last = a->starts[(a->started - 1) % LAUNCH_AGENT_STARTS];
	if (a->failed > 0 && now_ns - last < AGENT_BACKOFF_NS << (a->failed - 1))
		return false;
	oldest = a->starts[a->started % LAUNCH_AGENT_STARTS];
	return a->started < LAUNCH_AGENT_STARTS || now_ns - oldest >= LAUNCH_AGENT_WINDOW_NS;
}

static void agent_start(const struct launch_agent *a)
{
	char idle_exit[32];
	const char *argv[] = {"lapse",   "agent", "--rendezvous", a->dir, "--idle-exit",
			      idle_exit, NULL};

	if (a->idle_exit_ns % AGENT_SECOND_NS == 0)
		snprintf(idle_exit, sizeof(idle_exit), "%lld",
			 (long long)(a->idle_exit_ns / AGENT_SECOND_NS));
	else
		snprintf(idle_exit, sizeof(idle_exit), "%lldns", (long long)a->idle_exit_ns);
	launch_detach(a->program ? a->program : "/proc/self/exe", (char *const *)argv, a->config);
}

bool launch_agent_tick(struct launch_agent *a)
{
	int64_t now;

	if (rendezvous_is_locked(a->dirfd, "agent.lock")) {
		a->failed = 0;
		return true;
	}
	now = clock_ns(CLOCK_BOOTTIME);
	if (a->off || !launch_agent_may_start(a, now))
		return false;
	a->starts[a->started % LAUNCH_AGENT_STARTS] = now;
	a->started++;
	if (a->failed < 4)
		a->failed++;
	agent_start(a);
	return false;
}
