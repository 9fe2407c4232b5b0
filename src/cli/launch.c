/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.c - see launch.h.
 */
#include "cli/launch.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "wire/clock.h"

/* Looks at agent and counters: soon at first, since a command may die of memory
 * at once, then each second. */
#define LAUNCH_TICK_FIRST_NS 50000000LL
#define LAUNCH_TICK_NS 1000000000LL

struct launch_tick {
	int64_t next_ns, step_ns;
};

static int launch_timeout_ms(const struct launch_tick *t)
{
	int64_t left = t->next_ns - clock_ns(CLOCK_MONOTONIC);

	return left <= 0 ? 0 : (int)(left / 1000000) + 1;
}

static void launch_tick(struct launch *l, struct launch_tick *t)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);

	if (now < t->next_ns)
		return;
	t->step_ns = t->step_ns * 2 < LAUNCH_TICK_NS ? t->step_ns * 2 : LAUNCH_TICK_NS;
	t->next_ns = now + t->step_ns;
	if (!l->recorded)
		return;
	launch_agent_tick(&l->agent);
	launch_serve_say(&l->serve, l->files.id, !l->terminal);
	launch_oom_tick(&l->oom);
}

/* Executed or not? Then stderr is needed only for messages. */
static void launch_exec_known(struct launch *l)
{
	if (l->child.exec_fd < 0)
		return;
	l->exec_error = launch_child_exec_error(&l->child);
	if (!l->exec_error && !l->terminal && !l->teeing)
		launch_child_drop_stderr();
}

static void launch_poll(struct launch *l, const struct launch_tick *t)
{
	struct pollfd p[4] = {
		{.fd = l->signal.fd, .events = POLLIN},
		{.fd = l->child.exec_fd, .events = POLLIN},
		{.fd = l->recorded ? l->oom.kmsg : -1, .events = POLLIN},
		{.fd = -1},
	};

	p[3].fd = launch_tee_poll(&l->tee, &p[3].events);
	if (poll(p, 4, launch_timeout_ms(t)) <= 0)
		return;
	if (p[2].revents)
		launch_oom_read_log(&l->oom);
	if (p[3].revents)
		launch_tee_step(&l->tee);
	if (p[1].revents)
		launch_exec_known(l);
	if (p[0].revents)
		launch_signal_take(&l->signal);
	if (l->signal.resized)
		launch_tee_resize(&l->tee);
	l->signal.resized = false;
}

/* true: the command has ended (and is not reaped yet). */
static bool launch_has_ended(struct launch *l)
{
	siginfo_t info = {.si_pid = 0};
	id_t pid = (id_t)l->child.pid;

	if (waitid(P_PID, pid, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid != 0 &&
	    info.si_code == CLD_STOPPED) {
		launch_status_pause(&l->bar);
		launch_signal_stop_too(&l->signal, info.si_status);
		launch_status_resume(&l->bar);
	}
	info.si_pid = 0;
	return waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid != 0;
}

void launch_wait(struct launch *l)
{
	struct launch_tick t = {.step_ns = LAUNCH_TICK_FIRST_NS};

	t.next_ns = clock_ns(CLOCK_MONOTONIC) + t.step_ns;
	while (!launch_has_ended(l)) {
		launch_poll(l, &t);
		launch_tick(l, &t);
	}
	/* Nobody may be signalled under this pid any more. */
	l->signal.child = 0;
	if (wait4(l->child.pid, &l->status, 0, &l->usage) < 0)
		l->status = 0;
	launch_exec_known(l);
	launch_tee_finish(&l->tee);
}

static double launch_seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

void launch_outcome(struct launch *l, struct run_outcome *out)
{
	bool oom;

	memset(out, 0, sizeof(*out));
	out->end_ns = clock_ns(CLOCK_REALTIME);
	oom = launch_oom_judge(&l->oom, l->status, out->evidence, sizeof(out->evidence));
	out->code = WIFEXITED(l->status) ? WEXITSTATUS(l->status) : -1;
	out->signal = WIFSIGNALED(l->status) ? WTERMSIG(l->status) : 0;
	out->core = WIFSIGNALED(l->status) && WCOREDUMP(l->status);
	if (oom)
		out->kind = RUN_OOM;
	else
		out->kind = out->signal ? RUN_SIGNALED : RUN_EXITED;
	if (l->exec_error)
		snprintf(out->evidence, sizeof(out->evidence), "not executed: %s",
			 strerror(l->exec_error));
	out->user_s = launch_seconds(l->usage.ru_utime);
	out->system_s = launch_seconds(l->usage.ru_stime);
	out->max_rss = (int64_t)l->usage.ru_maxrss * 1024;
	if (l->teeing)
		out->stderr_len = launch_tee_tail(&l->tee, out->stderr_tail);
}
