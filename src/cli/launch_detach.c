/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/launch_detach.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void detach_exec(const char *program, char *const argv[], const char *config)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL};
	sigset_t none;
	int sig, null;

	for (sig = 1; sig < NSIG; sig++)
		sigaction(sig, &dfl, NULL);
	null = open("/dev/null", O_RDWR);
	if (null < 0 || chdir("/") < 0)
		_exit(1);
	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	close_range(3, ~0U, 0);
	umask(077);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (config)
		setenv("LAPSE_CONFIG", config, 1);
	execvp(program, argv);
	_exit(127);
}

void launch_detach(const char *program, char *const argv[], const char *config)
{
	pid_t pid = fork();

	if (pid < 0)
		return;
	if (pid == 0) {
		/* The child of a child that is gone: nobody of ours must reap it. */
		setsid();
		pid = fork();
		if (pid == 0)
			detach_exec(program, argv, config);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}
