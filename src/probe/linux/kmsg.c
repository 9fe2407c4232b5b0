/* SPDX-License-Identifier: Apache-2.0
 *
 * Look for OOM kills in the kernel's log. Format of a record: the kernel's
 * Documentation/ABI/testing/dev-kmsg; of the message: mm/oom_kill.c.
 */
#include "probe/linux/kmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "probe/linux/proc.h"

/* A record is one read(), which fails when the buffer is smaller than the
 * longest: 8 KiB and a header. */
#define KMSG_BUF 16384

static const char *const kmsg_prefixes[] = {
	"Out of memory: Killed process ",
	"Memory cgroup out of memory: Killed process ",
	"Out of memory (oom_kill_allocating_task): Killed process ",
	/* before Linux 5.1, after a line "Kill process ... or sacrifice child" */
	"Killed process ",
};

/* The next number of a record's header; the comma behind it is skipped. */
static int kmsg_header(const char **p, const char *eol, uint64_t *ret)
{
	if (proc_number(p, eol, ret) || *p == eol || **p != ',')
		return -EBADMSG;
	(*p)++;
	return 0;
}

const char *kmsg_match(const char *line, const char *eol, long pid, uint64_t since_us)
{
	const char *p = line, *message;
	uint64_t priority, seq, us, n;
	size_t i;

	if (kmsg_header(&p, eol, &priority) || kmsg_header(&p, eol, &seq) ||
	    kmsg_header(&p, eol, &us))
		return NULL;
	/* Facility 0 is the kernel: nobody else can write it. */
	if (priority >> 3 != 0 || us < since_us)
		return NULL;
	message = memchr(p, ';', (size_t)(eol - p));
	if (!message)
		return NULL;
	message++;
	for (i = 0; i < ARRAY_LEN(kmsg_prefixes); i++)
		if (proc_begins(message, eol, kmsg_prefixes[i]))
			break;
	if (i == ARRAY_LEN(kmsg_prefixes))
		return NULL;
	p = message + strlen(kmsg_prefixes[i]);
	/* "1234 (python)", and "1234, UID 1000, (python)" in some versions. */
	if (proc_number(&p, eol, &n) || p == eol || (*p != ' ' && *p != ','))
		return NULL;
	return n == (uint64_t)pid ? message : NULL;
}

static void kmsg_copy(const char *message, const char *eol, char *text, size_t cap)
{
	size_t len = (size_t)(eol - message);

	if (!cap)
		return;
	if (len >= cap)
		len = cap - 1;
	memcpy(text, message, len);
	text[len] = '\0';
	utf8_clean(text, len);
}

/* More of the log behind the *len bytes in buf: 1, 0 at the end, or -errno.
 * -EPIPE is not one: records were overwritten before we came, the next is there. */
static int kmsg_more(int fd, char buf[KMSG_BUF], size_t *len)
{
	ssize_t n;
	int tries;

	for (tries = 0; tries < 1000; tries++) {
		n = read(fd, buf + *len, KMSG_BUF - *len);
		if (n >= 0) {
			*len += (size_t)n;
			return n > 0;
		}
		if (errno == EAGAIN)
			return 0;
		if (errno != EPIPE && errno != EINTR)
			return -errno;
	}
	return 0;
}

/* Whole lines of buf are looked at; the rest is moved to its start, or dropped
 * if it fills the buffer (a file that is no log). */
static size_t kmsg_lines(char buf[KMSG_BUF], size_t *len, long pid, uint64_t since_us, char *text,
			 size_t cap, int *found)
{
	const char *p = buf, *end = buf + *len, *lf, *message;
	size_t lines = 0;

	while (p < end && (lf = memchr(p, '\n', (size_t)(end - p)))) {
		message = kmsg_match(p, lf, pid, since_us);
		if (message) {
			kmsg_copy(message, lf, text, cap);
			*found = 1;
		}
		lines++;
		p = lf + 1;
	}
	*len = (size_t)(end - p);
	if (*len > KMSG_BUF / 2)
		*len = 0;
	memmove(buf, p, *len);
	return lines;
}

int kmsg_oom(const char *path, long pid, uint64_t since_us, char *text, size_t cap)
{
	char buf[KMSG_BUF];
	size_t len = 0, records = 0;
	int fd, err, found = 0;

	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while ((err = kmsg_more(fd, buf, &len)) > 0 && records < KMSG_RECORDS_MAX)
		records += kmsg_lines(buf, &len, pid, since_us, text, cap, &found);
	close(fd);
	if (err < 0 && !found)
		return err;
	return found ? 0 : -ENOENT;
}
