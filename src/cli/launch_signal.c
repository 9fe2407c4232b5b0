/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_signal.c - see launch_signal.h. A witness in the same process group
 * shows by its pending signals what was sent to everybody.
 */
#include "cli/launch_signal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"

/* Time for a sender to go through its list of processes. */
#define SIGNAL_SETTLE_NS 20000000L
#define SIGNAL_WAKE_NS 50000000L /* how often the waker looks at the command */
#define SIGNAL_BIT(sig) (1ULL << ((sig)-1))

/* Pending in a witness these mean nothing: nobody asks about them. */
#define SIGNAL_UNASKED                                                                             \
	(SIGNAL_BIT(SIGCHLD) | SIGNAL_BIT(SIGCONT) | SIGNAL_BIT(SIGWINCH) | SIGNAL_BIT(SIGURG))

#define SIGNAL_STOPS (SIGNAL_BIT(SIGTSTP) | SIGNAL_BIT(SIGTTIN) | SIGNAL_BIT(SIGTTOU))

static void signal_settle(void)
{
	struct timespec t = {.tv_nsec = SIGNAL_SETTLE_NS};

	nanosleep(&t, NULL);
}

/* ---- the witness -------------------------------------------------------- */

/* A small process of ours in the same group, gone when we are. 0 in it; its pid,
 * or -1. */
static pid_t signal_helper(const char *name)
{
	pid_t parent = getpid(), pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, name);
	/* Holding a pipe of the command's would hide its end. */
	if (close_range(0, ~0U, 0) < 0 || getppid() != parent)
		_exit(0);
	return 0;
}

static void witness_start(struct launch_signal *s)
{
	pid_t pid = signal_helper("lapse-witness");

	s->witness = pid > 0 ? pid : 0;
	if (pid == 0)
		for (;;)
			pause();
}

static void witness_stop(pid_t witness)
{
	if (witness <= 0)
		return;
	kill(witness, SIGKILL);
	waitpid(witness, NULL, 0);
}

/* Signals pending in a witness, bit 0 is signal 1. */
static uint64_t witness_pending(pid_t witness)
{
	uint64_t pending = 0;
	char path[64];
	struct buf text;
	char *at;

	if (witness <= 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)witness);
	buf_init(&text, 65536);
	if (file_read(AT_FDCWD, path, &text) == 0) {
		at = strstr(text.data, "\nShdPnd:");
		if (at)
			pending = strtoull(at + 8, NULL, 16);
	}
	buf_done(&text);
	return pending;
}

/* Only what comes from now on may be pending in the witness. The next one is there before
 * the last one is asked again: what everybody gets between is seen by one of them. */
static void witness_renew(struct launch_signal *s, uint64_t known)
{
	pid_t last = s->witness;

	witness_start(s);
	s->ahead |= witness_pending(last) & ~known;
	witness_stop(last);
}

/* ---- signals ------------------------------------------------------------ */

int launch_signal_init(struct launch_signal *s)
{
	sigset_t all;

	*s = (struct launch_signal){.fd = -1};
	sigfillset(&all);
	s->fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->fd < 0)
		return -errno;
	witness_start(s);
	return 0;
}

void launch_signal_done(struct launch_signal *s)
{
	witness_stop(s->witness);
	s->witness = 0;
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

static bool signal_child_is_stopped(const struct launch_signal *s)
{
	char path[64], *name_end;
	bool stopped = false;
	struct buf text;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)s->child);
	buf_init(&text, 4096);
	if (file_read(AT_FDCWD, path, &text) == 0 && (name_end = strrchr(text.data, ')')) != NULL)
		stopped = strncmp(name_end, ") T", 3) == 0;
	buf_done(&text);
	return stopped;
}

static bool signal_is_from_process(const struct signalfd_siginfo *i)
{
	if (i->ssi_code != SI_USER && i->ssi_code != SI_QUEUE && i->ssi_code != SI_TKILL)
		return false;
	/* A broken pipe of our own looks as if we had sent SIGPIPE. */
	return i->ssi_pid != (uint32_t)getpid();
}

/* A terminal signal missed a command that has left our group. */
static bool signal_child_left_group(const struct launch_signal *s)
{
	return getpgid(s->child) != getpgrp() && getsid(s->child) == getsid(0);
}

/* What was learned while the senders were given time. */
struct signal_facts {
	uint64_t all;       /* signals that the witness got too */
	bool still_stopped; /* the command did not get this SIGCONT */
};

static void signal_pass(struct launch_signal *s, const struct signalfd_siginfo *i,
			const struct signal_facts *f)
{
	int sig = (int)i->ssi_signo;
	bool pass;

	if (sig == SIGWINCH)
		s->resized = true;
	if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT)
		s->wanted = true;
	if (s->child <= 0 || sig == SIGCHLD)
		return;
	if (sig == SIGCONT)
		pass = f->still_stopped;
	else if (signal_is_from_process(i))
		pass = (SIGNAL_UNASKED & SIGNAL_BIT(sig)) || !(f->all & SIGNAL_BIT(sig));
	else if (i->ssi_code == SI_KERNEL)
		pass = sig == SIGALRM || signal_child_left_group(s);
	else
		pass = false;
	if (!pass)
		return;
	if (i->ssi_code == SI_QUEUE)
		sigqueue(s->child, sig, (union sigval){.sival_ptr = (void *)(uintptr_t)i->ssi_ptr});
	else
		kill(s->child, sig);
}

#define SIGNAL_TAKE_MAX 64

static size_t signal_read(struct launch_signal *s, struct signalfd_siginfo *info, size_t n)
{
	ssize_t got;

	while (n < SIGNAL_TAKE_MAX) {
		got = read(s->fd, &info[n], (SIGNAL_TAKE_MAX - n) * sizeof(*info));
		if (got <= 0)
			break;
		n += (size_t)got / sizeof(*info);
	}
	return n;
}

static uint64_t signal_set(const struct signalfd_siginfo *info, size_t n)
{
	uint64_t set = 0;

	while (n-- > 0)
		set |= SIGNAL_BIT(info[n].ssi_signo);
	return set;
}

void launch_signal_take(struct launch_signal *s)
{
	struct signalfd_siginfo info[SIGNAL_TAKE_MAX];
	size_t i, first = signal_read(s, info, 0), n = first;
	uint64_t seen = signal_set(info, n), got = 0;
	struct signal_facts f = {0};

	if (seen & SIGNAL_BIT(SIGCONT))
		f.still_stopped = s->child > 0 && signal_child_is_stopped(s);
	if (f.still_stopped || (seen & ~SIGNAL_UNASKED)) {
		signal_settle();
		n = signal_read(s, info, n);
		got = witness_pending(s->witness);
		f.all = got | s->ahead;
		s->ahead = got & ~signal_set(info, n);
	}
	/* Stopped again since by another Ctrl-Z: that stop is to stay. */
	if (f.still_stopped)
		f.still_stopped = !(signal_set(info + first, n - first) & SIGNAL_STOPS) &&
				  signal_child_is_stopped(s);
	for (i = 0; i < n; i++)
		signal_pass(s, &info[i], &f);
	if (got & ~SIGNAL_UNASKED)
		witness_renew(s, got);
}

/* While we are stopped somebody may continue the command alone, or it may be
 * killed: nobody would reap it. The waker continues us then, again and again,
 * since a stop that comes between undoes it. */
static pid_t waker_start(const struct launch_signal *s)
{
	struct timespec pause_time = {.tv_nsec = SIGNAL_WAKE_NS};
	pid_t pid = signal_helper("lapse-waker");

	if (pid == 0) {
		for (;;) {
			nanosleep(&pause_time, NULL);
			if (!signal_child_is_stopped(s))
				kill(getppid(), SIGCONT);
		}
	}
	return pid;
}

void launch_signal_stop_too(struct launch_signal *s, int sig)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL}, old;
	sigset_t one, pending;
	pid_t waker;

	sigpending(&pending);
	if (sigismember(&pending, SIGCONT) == 1 || !signal_child_is_stopped(s))
		return;
	waker = waker_start(s);
	sigemptyset(&one);
	sigaddset(&one, sig);
	if (sig != SIGSTOP)
		sigaction(sig, &dfl, &old);
	kill(getpid(), sig);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	/* Stopped here; a SIGCONT continues us and then waits in s->fd. */
	sigprocmask(SIG_BLOCK, &one, NULL);
	if (sig != SIGSTOP)
		sigaction(sig, &old, NULL);
	if (waker > 0) {
		kill(waker, SIGKILL);
		waitpid(waker, NULL, 0);
	}
}

int launch_signal_leave(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}
