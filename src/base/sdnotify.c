/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sdnotify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SDNOTIFY_TEXT_MAX 1024

static struct sockaddr_un sdnotify_to;
static socklen_t sdnotify_len; /* 0: nobody listens */
static int64_t sdnotify_every_ns, sdnotify_next_ns;

/* An absolute path, or an abstract name behind '@'. */
static void sdnotify_address(const char *name)
{
	size_t n = strlen(name);

	sdnotify_len = 0;
	if ((name[0] != '/' && name[0] != '@') || n < 2 || n >= sizeof(sdnotify_to.sun_path))
		return;
	sdnotify_to = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(sdnotify_to.sun_path, name, n);
	sdnotify_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	if (name[0] == '@')
		sdnotify_to.sun_path[0] = '\0';
	else
		sdnotify_len++;
}

static void sdnotify_patience(const char *usec, const char *pid)
{
	long long us = usec ? atoll(usec) : 0;

	sdnotify_every_ns = 0;
	if (us > 0 && us < INT64_MAX / 400 && (!pid || atoll(pid) == getpid()))
		sdnotify_every_ns = us * 400;
}

bool sdnotify_open(void)
{
	const char *name = getenv("NOTIFY_SOCKET");

	if (name)
		sdnotify_address(name);
	sdnotify_patience(getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"));
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	return sdnotify_len > 0;
}

void sdnotify_send(const char *fmt, ...)
{
	char text[SDNOTIFY_TEXT_MAX];
	va_list ap;
	int fd, n;

	if (!sdnotify_len)
		return;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	sendto(fd, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1, MSG_NOSIGNAL,
	       (struct sockaddr *)&sdnotify_to, sdnotify_len);
	close(fd);
}

void sdnotify_watchdog(int64_t now_ns)
{
	if (!sdnotify_every_ns || now_ns < sdnotify_next_ns)
		return;
	sdnotify_next_ns = now_ns + sdnotify_every_ns;
	sdnotify_send("WATCHDOG=1");
}
