/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int log_fd = STDERR_FILENO;
static enum log_level log_min = LOG_LEVEL_INFO;

static bool log_journal;

/* Of syslog(3): debug, informational, warning, error. */
static const int log_priorities[] = {7, 6, 4, 3};
static const char *const log_names[] = {"debug", "info", "warning", "error"};

void log_open(int fd, enum log_level level)
{
	log_fd = fd;
	log_min = level;
}

bool log_is_journal(int fd)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	if (!stream || sscanf(stream, "%llu:%llu", &dev, &ino) != 2 || fstat(fd, &st) < 0)
		return false;
	return st.st_dev == dev && st.st_ino == ino;
}

void log_for_journal(void)
{
	log_journal = true;
}

static size_t log_prefix(enum log_level level, char *line, size_t cap)
{
	struct timespec now;
	struct tm tm;
	size_t n;

	if (log_journal)
		return (size_t)snprintf(line, cap, "<%d>", log_priorities[level]);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	n = strftime(line, cap, "%Y-%m-%dT%H:%M:%S", &tm);
	return n + (size_t)snprintf(line + n, cap - n,
				    ".%03ldZ lapse[%d] %s: ", now.tv_nsec / 1000000, (int)getpid(),
				    log_names[level]);
}

void log_write(enum log_level level, const char *fmt, ...)
{
	int saved = errno;
	char line[1024];
	va_list ap;
	ssize_t written;
	size_t n, at;
	int len;

	if (level < log_min)
		return;
	n = log_prefix(level, line, sizeof(line));
	at = n;
	va_start(ap, fmt);
	len = vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	va_end(ap);
	if (len > 0)
		n += (size_t)len < sizeof(line) - n - 1 ? (size_t)len : sizeof(line) - n - 2;
	/* Texts from outside must not look like lines of the log. */
	utf8_clean(line + at, n - at);
	line[n++] = '\n';
	/* Nobody can be told if the log is gone. */
	written = write(log_fd, line, n);
	(void)written;
	errno = saved;
}
