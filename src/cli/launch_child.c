/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_child.c - see launch_child.h. Between fork and exec only what must be
 * given back to the command is touched.
 */
#include "cli/launch_child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "wire/run.h"

#define CHILD_RECORDED 'r'

void launch_child_init(struct launch_child *c)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL};
	sigset_t all;

	*c = (struct launch_child){.gate = -1, .exec_fd = -1};
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &c->mask);
	/* Ignored, the kernel would reap the command before we see how it ended. */
	sigaction(SIGCHLD, &dfl, &c->chld);
	if (prctl(PR_GET_PDEATHSIG, &c->death_signal) < 0)
		c->death_signal = 0;
}

void launch_child_plug_streams(void)
{
	int fd;

	for (fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			/* The lowest free number is fd, as those below are open. */
			(void)!open("/dev/null", O_RDWR | O_CLOEXEC);
}

/* Was the run taken up? The launcher says so; if it died before it could, its
 * file does, since it is complete once it has its name. */
static bool child_is_recorded(int gate, const char *run_id, const char *rendezvous)
{
	char word = 0, path[4096 + RUN_ID_MAX + 16];
	ssize_t n;

	do
		n = read(gate, &word, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		return word == CHILD_RECORDED;
	snprintf(path, sizeof(path), "%s/runs/%s.run", rendezvous, run_id);
	return run_id[0] && access(path, F_OK) == 0;
}

static _Noreturn void child_exec(const struct launch_child *c, char *const argv[], int stderr_fd,
				 const char *run_id, const char *rendezvous, int gate, int report)
{
	int err;

	if (child_is_recorded(gate, run_id, rendezvous)) {
		setenv("LAPSE_RUN", run_id, 1);
		setenv("LAPSE_RENDEZVOUS", rendezvous, 1);
	}
	if (c->config)
		setenv("LAPSE_CONFIG", c->config, 1);
	if (stderr_fd >= 0)
		dup2(stderr_fd, STDERR_FILENO);
	if (c->death_signal)
		prctl(PR_SET_PDEATHSIG, (unsigned long)c->death_signal);
	sigaction(SIGCHLD, &c->chld, NULL);
	sigprocmask(SIG_SETMASK, &c->mask, NULL);
	execvp(argv[0], argv);
	err = errno;
	(void)!write(report, &err, sizeof(err));
	_exit(err == ENOENT ? 127 : 126);
}

int launch_child_fork(struct launch_child *c, char *const argv[], int stderr_fd, const char *run_id,
		      const char *rendezvous)
{
	int gate[2], report[2], err;

	if (pipe2(gate, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(report, O_CLOEXEC) < 0) {
		err = -errno;
		close(gate[0]);
		close(gate[1]);
		return err;
	}
	c->pid = fork();
	if (c->pid == 0) {
		close(gate[1]);
		child_exec(c, argv, stderr_fd, run_id, rendezvous, gate[0], report[1]);
	}
	err = c->pid < 0 ? -errno : 0;
	close(gate[0]);
	close(report[1]);
	c->gate = gate[1];
	c->exec_fd = report[0];
	return err;
}

void launch_child_release(struct launch_child *c, bool recorded)
{
	char word = CHILD_RECORDED;

	if (c->gate < 0)
		return;
	if (recorded)
		(void)!write(c->gate, &word, 1);
	close(c->gate);
	c->gate = -1;
}

int launch_child_exec_error(struct launch_child *c)
{
	int err = 0;

	if (c->exec_fd < 0)
		return 0;
	if (read(c->exec_fd, &err, sizeof(err)) != sizeof(err))
		err = 0;
	close(c->exec_fd);
	c->exec_fd = -1;
	return err;
}

static void child_blank(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0) {
		close(fd);
		return;
	}
	dup3(null, fd, O_CLOEXEC);
	close(null);
}

void launch_child_drop_inherited(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *d;
	int fd, flags;

	child_blank(STDIN_FILENO);
	child_blank(STDOUT_FILENO);
	while (dir && (d = readdir(dir)) != NULL) {
		fd = atoi(d->d_name);
		flags = fd > STDERR_FILENO ? fcntl(fd, F_GETFD) : -1;
		/* What came through our own exec cannot be close-on-exec. */
		if (flags >= 0 && !(flags & FD_CLOEXEC))
			close(fd);
	}
	if (dir)
		closedir(dir);
}

void launch_child_drop_stderr(void)
{
	child_blank(STDERR_FILENO);
}

void launch_child_die_like(int status)
{
	struct rlimit none = {0, 0};
	struct sigaction dfl = {.sa_handler = SIG_DFL};
	sigset_t one;
	int sig;

	if (!WIFSIGNALED(status))
		_exit(WEXITSTATUS(status));
	sig = WTERMSIG(status);
	setrlimit(RLIMIT_CORE, &none);
	/* With a program as core_pattern the limit alone does not hold. */
	prctl(PR_SET_DUMPABLE, 0);
	sigaction(sig, &dfl, NULL);
	sigemptyset(&one);
	sigaddset(&one, sig);
	kill(getpid(), sig);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	_exit(128 + sig);
}
