/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_oom.c - see launch_oom.h. The control group is remembered while the
 * command lives, since a dead one has none.
 */
#include "cli/launch_oom.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/utf8.h"
#include "probe/linux/kmsg.h"
#include "probe/linux/pidns.h"
#include "wire/clock.h"

#define OOM_ANCESTORS_MAX 64

void launch_oom_init(struct launch_oom *o, pid_t child)
{
	*o = (struct launch_oom){.child = child, .kmsg = -1};
	/* Elsewhere the pids that the kernel logs are not ours. */
	if (pidns_is_first())
		o->kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (o->kmsg >= 0 && lseek(o->kmsg, 0, SEEK_END) < 0) {
		close(o->kmsg);
		o->kmsg = -1;
	}
	launch_oom_tick(o);
}

void launch_oom_done(struct launch_oom *o)
{
	if (o->kmsg >= 0)
		close(o->kmsg);
	o->kmsg = -1;
}

static void oom_count(struct launch_oom *o)
{
	uint64_t n;

	if (!o->has_group || cgroup_oom_kills_of(&o->group, &n, o->file, sizeof(o->file)) < 0)
		return;
	if (n > o->last)
		o->rise_ns = clock_ns(CLOCK_BOOTTIME);
	o->last = n;
}

void launch_oom_tick(struct launch_oom *o)
{
	struct cgroup_memory now;
	uint64_t n;

	oom_count(o);
	if (cgroup_memory_find("", o->child, &now) < 0)
		return;
	if (o->has_group && strcmp(now.dir, o->group.dir) == 0)
		return;
	/* A command that has just died is in the root group: keep the last one. */
	if (o->has_group && strlen(now.dir) <= now.top)
		return;
	if (cgroup_oom_kills_of(&now, &n, o->file, sizeof(o->file)) < 0)
		return;
	o->group = now;
	o->has_group = true;
	o->first = o->last = n;
	o->rise_ns = 0;
}

/* ---- the kernel's log --------------------------------------------------- */

static pid_t oom_parent(pid_t pid)
{
	char path[64], *at;
	struct buf text;
	int ppid = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	buf_init(&text, 4096);
	if (file_read(AT_FDCWD, path, &text) == 0 && (at = strrchr(text.data, ')')) != NULL &&
	    sscanf(at, ") %*c %d", &ppid) != 1)
		ppid = 0;
	buf_done(&text);
	return ppid;
}

static bool oom_is_descendant(pid_t pid, pid_t of)
{
	int i;

	for (i = 0; i < OOM_ANCESTORS_MAX && pid > 1; i++) {
		if (pid == of)
			return true;
		pid = oom_parent(pid);
	}
	return false;
}

static void oom_log_record(struct launch_oom *o, const char *record, const char *eol)
{
	static const char words[] = "Killed process ";
	const char *at = memmem(record, (size_t)(eol - record), words, sizeof(words) - 1);
	const char *message;
	long pid;

	if (!at)
		return;
	pid = strtol(at + sizeof(words) - 1, NULL, 10);
	message = kmsg_match(record, eol, pid, 0);
	if (!message)
		return;
	if (pid == o->child)
		o->child_ns = clock_ns(CLOCK_BOOTTIME);
	else if (!o->child_ns && oom_is_descendant((pid_t)pid, o->child))
		o->descendant_ns = clock_ns(CLOCK_BOOTTIME);
	else
		return;
	snprintf(o->line, sizeof(o->line), "%.*s", (int)(eol - message), message);
	utf8_clean(o->line, strlen(o->line));
}

void launch_oom_read_log(struct launch_oom *o)
{
	char record[16384];
	const char *eol;
	ssize_t n;

	while (o->kmsg >= 0) {
		n = read(o->kmsg, record, sizeof(record) - 1);
		if (n < 0 && (errno == EPIPE || errno == EINTR))
			continue; /* lines were overwritten before we read them */
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			close(o->kmsg);
			o->kmsg = -1;
			return;
		}
		record[n] = '\0';
		eol = memchr(record, '\n', (size_t)n);
		oom_log_record(o, record, eol ? eol : record + n);
	}
}

/* ---- the judgement ------------------------------------------------------ */

static bool oom_is_near(int64_t when_ns, int64_t now_ns)
{
	return when_ns > 0 && now_ns - when_ns <= LAUNCH_OOM_NEAR_NS;
}

bool launch_oom_judge(struct launch_oom *o, int status, char *evidence, size_t cap)
{
	int64_t now;
	bool killed = (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
		      (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGKILL);
	bool failed = WIFSIGNALED(status) || WEXITSTATUS(status) != 0;

	oom_count(o);
	launch_oom_read_log(o);
	now = clock_ns(CLOCK_BOOTTIME);
	if (o->line[0])
		snprintf(evidence, cap, "kernel log: %s", o->line);
	else if (o->last > o->first)
		snprintf(evidence, cap, "%s: oom_kill rose from %llu to %llu", o->file,
			 (unsigned long long)o->first, (unsigned long long)o->last);
	else
		evidence[0] = '\0';
	if (killed)
		return oom_is_near(o->child_ns, now) || oom_is_near(o->descendant_ns, now) ||
		       oom_is_near(o->rise_ns, now);
	return failed && oom_is_near(o->descendant_ns, now);
}

bool launch_oom_says_child(struct launch_oom *o, char *evidence, size_t cap)
{
	launch_oom_read_log(o);
	if (!oom_is_near(o->child_ns, clock_ns(CLOCK_BOOTTIME)))
		return false;
	snprintf(evidence, cap, "kernel log: %s", o->line);
	return true;
}
