/* SPDX-License-Identifier: Apache-2.0
 *
 * slowsync - preloaded into the agent: the first fsync() or fdatasync() later
 * than $SLOWSYNC_AFTER seconds after its start takes $SLOWSYNC_SECONDS, as on a
 * disk that hangs. Writes a line to the file $SLOWSYNC_LOG when it begins and one
 * when it is over.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int fsync(int fd);
int fdatasync(int fd);

static atomic_flag slow_done = ATOMIC_FLAG_INIT;
static time_t slow_start;

static time_t slow_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static __attribute__((constructor)) void slow_init(void)
{
	slow_start = slow_now();
}

static time_t slow_seconds(const char *name)
{
	const char *seconds = getenv(name);

	return seconds ? atoi(seconds) : 0;
}

static void slow_say(const char *line, size_t len)
{
	const char *path = getenv("SLOWSYNC_LOG");
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
	ssize_t n;

	if (fd < 0)
		return;
	n = write(fd, line, len);
	(void)n;
	close(fd);
}

static void slow_once(void)
{
	struct timespec t = {slow_seconds("SLOWSYNC_SECONDS"), 0};

	if (t.tv_sec == 0 || slow_now() - slow_start < slow_seconds("SLOWSYNC_AFTER") ||
	    atomic_flag_test_and_set(&slow_done))
		return;
	slow_say("begins\n", 7);
	while (nanosleep(&t, &t) < 0)
		;
	slow_say("over\n", 5);
}

static int slow_call(const char *name, int fd)
{
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);

	slow_once();
	return real(fd);
}

int fsync(int fd)
{
	return slow_call("fsync", fd);
}

int fdatasync(int fd)
{
	return slow_call("fdatasync", fd);
}
