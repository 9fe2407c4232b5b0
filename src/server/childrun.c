/* SPDX-License-Identifier: Apache-2.0 */
#include "server/childrun.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/now.h"

#define CHILDRUN_LOOK_MS 100
#define CHILDRUN_FILE_MAX (8ull << 30) /* of a temporary file */
#define CHILDRUN_NICE 5
#define CHILDRUN_READ 65536u

/* A program that is built with a sanitizer takes address space by the terabyte. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHILDRUN_HAS_SHADOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CHILDRUN_HAS_SHADOW 1
#endif
#endif
#ifndef CHILDRUN_HAS_SHADOW
#define CHILDRUN_HAS_SHADOW 0
#endif

/* ---- in the child, between fork() and exec: only calls that are safe there ----------- */

static void childrun_limit(int what, uint64_t most)
{
	struct rlimit r;

	if (getrlimit(what, &r) != 0)
		return;
	if (r.rlim_max == RLIM_INFINITY || r.rlim_max > most)
		r.rlim_max = most;
	r.rlim_cur = r.rlim_max;
	setrlimit(what, &r);
}

static void childrun_exec(const struct childrun *c, const int to[2])
{
	int null = open("/dev/null", O_RDONLY), i;
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	if (null < 0 || dup2(null, 0) < 0 || dup2(to[0], 1) < 0 || dup2(to[1], 2) < 0 ||
	    chdir(c->dir) != 0)
		_exit(CHILDRUN_NO_FOLDER);
	/* Where it is missing (Linux 5.8) all descriptors are close-on-exec as they were opened. */
	syscall(SYS_close_range, 3u, ~0u, 0u);
	if (!CHILDRUN_HAS_SHADOW)
		childrun_limit(RLIMIT_AS, c->memory);
	childrun_limit(RLIMIT_CORE, 0);
	childrun_limit(RLIMIT_FSIZE, CHILDRUN_FILE_MAX);
	childrun_limit(RLIMIT_CPU, (uint64_t)(c->limit_ns / 1000000000) * 16 + 1);
	setpriority(PRIO_PROCESS, 0, CHILDRUN_NICE);
	execv(c->program, (char *const *)c->argv);
	_exit(CHILDRUN_NO_PROGRAM);
}

/* ---- beside it ----------------------------------------------------------------------- */

struct childrun_pipes {
	struct pollfd fds[2]; /* its stdout, its stderr */
	struct buf *out;
	char *err;
	size_t err_len, cap;
};

static void childrun_say(struct childrun_pipes *p, const char *data, size_t len)
{
	size_t i;

	for (i = 0; i < len && p->err_len + 1 < p->cap; i++)
		p->err[p->err_len++] =
			(unsigned char)data[i] < ' ' || data[i] == 127 ? ' ' : data[i];
	p->err[p->err_len] = '\0';
}

/* Read what is there; at its end the descriptor is no longer looked at. */
static void childrun_read(struct childrun_pipes *p, int which)
{
	char data[CHILDRUN_READ];
	ssize_t n;

	if (p->fds[which].fd < 0 || !p->fds[which].revents)
		return;
	n = read(p->fds[which].fd, data, sizeof(data));
	if (n > 0 && which == 0)
		buf_append(p->out, data, (size_t)n);
	else if (n > 0)
		childrun_say(p, data, (size_t)n);
	else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
		close(p->fds[which].fd);
		p->fds[which].fd = -1;
	}
}

static int childrun_watch(const struct childrun *c, struct childrun_pipes *p)
{
	int64_t until = now_read(CLOCK_MONOTONIC) + c->limit_ns;

	while (p->fds[0].fd >= 0 || p->fds[1].fd >= 0) {
		if (now_read(CLOCK_MONOTONIC) > until)
			return -ETIMEDOUT;
		if (c->is_off && c->is_off(c->arg))
			return -ECANCELED;
		if (poll(p->fds, 2, CHILDRUN_LOOK_MS) < 0 && errno != EINTR)
			return -errno;
		childrun_read(p, 0);
		childrun_read(p, 1);
		if (p->out->error)
			return p->out->error;
	}
	return 0;
}

static int childrun_pipe(int ends[2])
{
	return pipe2(ends, O_CLOEXEC) ? -errno : 0;
}

int childrun(const struct childrun *c, struct buf *out, char *err, size_t cap, int *ret_status)
{
	struct childrun_pipes p = {.out = out, .err = err, .cap = cap};
	int to_out[2], to_err[2], status = 0, r;
	pid_t pid;

	err[0] = '\0';
	r = childrun_pipe(to_out);
	if (r)
		return r;
	r = childrun_pipe(to_err);
	if (r) {
		close(to_out[0]);
		close(to_out[1]);
		return r;
	}
	pid = fork();
	if (pid == 0)
		childrun_exec(c, (const int[]){to_out[1], to_err[1]});
	r = pid < 0 ? -errno : 0;
	close(to_out[1]);
	close(to_err[1]);
	p.fds[0] = (struct pollfd){.fd = to_out[0], .events = POLLIN};
	p.fds[1] = (struct pollfd){.fd = to_err[0], .events = POLLIN};
	if (!r)
		r = childrun_watch(c, &p);
	if (r && pid > 0)
		kill(pid, SIGKILL);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (p.fds[0].fd >= 0)
		close(p.fds[0].fd);
	if (p.fds[1].fd >= 0)
		close(p.fds[1].fd);
	*ret_status =
		WIFSIGNALED(status) ? CHILDRUN_SIGNALLED + WTERMSIG(status) : WEXITSTATUS(status);
	return r;
}
