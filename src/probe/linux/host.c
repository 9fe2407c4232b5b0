/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of the machine from /proc, and the agent's own memory limit. Files
 * stay open: a read costs half as much then.
 */
#include "probe/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "probe/linux/cgroup.h"
#include "probe/linux/proc.h"

#define HOST_TEXT 16384u           /* first size of the reading buffer */
#define HOST_TEXT_MAX (1u << 20)   /* enough for the cpu lines of 8,192 CPUs */
#define HOST_LIMIT_NS 10000000000u /* limits rarely change and cost 100 us */

static const char *const host_files[PROBE_HOST_FILES] = {
	[PROBE_HOST_STAT] = "/proc/stat",
	[PROBE_HOST_MEMINFO] = "/proc/meminfo",
	[PROBE_HOST_LOADAVG] = "/proc/loadavg",
};

static void host_set(struct probe_host_values *out, enum probe_host_index i, double v)
{
	out->value[i] = v;
	out->valid |= UINT64_C(1) << i;
	out->why[i] = NULL;
}

static uint64_t host_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int host_open(struct probe_host *p, enum probe_host_file f)
{
	char path[PROBE_ROOT_MAX + 32];

	snprintf(path, sizeof(path), "%s%s", p->root, host_files[f]);
	p->fd[f] = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return p->fd[f] < 0 ? -errno : 0;
}

int probe_host_init(struct probe_host *p, const char *root)
{
	int f;

	memset(p, 0, sizeof(*p));
	for (f = 0; f < PROBE_HOST_FILES; f++)
		p->fd[f] = -1;
	if (strlen(root) >= sizeof(p->root))
		return -ENAMETOOLONG;
	memcpy(p->root, root, strlen(root) + 1);
	p->text = malloc(HOST_TEXT);
	if (!p->text)
		return -ENOMEM;
	p->cap = HOST_TEXT;
	for (f = 0; f < PROBE_HOST_FILES; f++)
		host_open(p, f);
	return 0;
}

void probe_host_done(struct probe_host *p)
{
	int f;

	for (f = 0; f < PROBE_HOST_FILES; f++)
		if (p->fd[f] >= 0)
			close(p->fd[f]);
	free(p->text);
	memset(p, 0, sizeof(*p));
	for (f = 0; f < PROBE_HOST_FILES; f++)
		p->fd[f] = -1;
}

/* The start of a file into p->text. A file that failed is opened anew next time. */
static int host_text(struct probe_host *p, enum probe_host_file f, size_t *ret_len)
{
	ssize_t n;
	int err;

	if (p->fd[f] < 0) {
		err = host_open(p, f);
		if (err)
			return err;
	}
	do {
		n = pread(p->fd[f], p->text, p->cap, 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		err = -errno;
		close(p->fd[f]);
		p->fd[f] = -1;
		return err;
	}
	*ret_len = (size_t)n;
	return 0;
}

/* /proc/stat with all of its cpu lines: the buffer grows until they fit. */
static int host_cpu(struct probe_host *p, struct proc_cpu *ret)
{
	size_t len = 0, cap;
	char *more;
	int err;

	for (;;) {
		err = host_text(p, PROBE_HOST_STAT, &len);
		if (!err)
			err = proc_parse_cpu(p->text, len, ret);
		if (err || ret->complete || len < p->cap || p->cap >= HOST_TEXT_MAX)
			return err;
		cap = p->cap ? p->cap * 4 : HOST_TEXT;
		more = realloc(p->text, cap);
		if (!more)
			return -ENOMEM;
		p->text = more;
		p->cap = cap;
	}
}

static void host_read_cpu(struct probe_host *p, struct probe_host_values *out)
{
	double total = 0, idle = 0, d;
	struct proc_cpu c;
	int i;

	if (host_cpu(p, &c)) {
		out->why[PROBE_HOST_CPU_BUSY] = out->why[PROBE_HOST_CPU_COUNT] =
			"/proc/stat cannot be read";
		return;
	}
	if (c.count)
		host_set(out, PROBE_HOST_CPU_COUNT, c.count);
	else
		out->why[PROBE_HOST_CPU_COUNT] = "/proc/stat has no line for each CPU";
	for (i = 0; i < PROC_CPU_STATES; i++) {
		/* iowait may go backwards, and all do when a CPU goes offline. */
		d = c.ticks[i] > p->cpu[i] ? (double)(c.ticks[i] - p->cpu[i]) : 0;
		total += d;
		if (i == PROC_CPU_IDLE || i == PROC_CPU_IOWAIT)
			idle += d;
		p->cpu[i] = c.ticks[i];
	}
	if (!p->has_cpu)
		out->why[PROBE_HOST_CPU_BUSY] = "needs a second reading";
	else if (total == 0)
		out->why[PROBE_HOST_CPU_BUSY] = "no tick was counted since the last reading";
	else
		host_set(out, PROBE_HOST_CPU_BUSY, 1 - idle / total);
	p->has_cpu = true;
}

static void host_read_memory(struct probe_host *p, struct probe_host_values *out)
{
	static const char none[] = "/proc/meminfo cannot be read";
	struct proc_meminfo m;
	size_t len = 0;

	if (host_text(p, PROBE_HOST_MEMINFO, &len) || proc_parse_meminfo(p->text, len, &m)) {
		out->why[PROBE_HOST_MEMORY_TOTAL] = out->why[PROBE_HOST_MEMORY_AVAILABLE] =
			out->why[PROBE_HOST_MEMORY_USED] = none;
		return;
	}
	if (m.has_total)
		host_set(out, PROBE_HOST_MEMORY_TOTAL, (double)m.total);
	else
		out->why[PROBE_HOST_MEMORY_TOTAL] = "/proc/meminfo has no MemTotal";
	if (m.has_available)
		host_set(out, PROBE_HOST_MEMORY_AVAILABLE, (double)m.available);
	else
		out->why[PROBE_HOST_MEMORY_AVAILABLE] =
			"/proc/meminfo has no MemAvailable (Linux before 3.14)";
	if (m.has_total && m.has_available && m.available <= m.total)
		host_set(out, PROBE_HOST_MEMORY_USED, (double)(m.total - m.available));
	else
		out->why[PROBE_HOST_MEMORY_USED] =
			"needs MemTotal and a MemAvailable that is not above it";
}

static void host_read_limit(struct probe_host *p, struct probe_host_values *out)
{
	uint64_t now = host_now();

	if (!p->limit_ns || now - p->limit_ns >= HOST_LIMIT_NS) {
		p->limit_error = cgroup_memory_limit(p->root, 0, &p->limit);
		p->limit_ns = now;
	}
	if (!p->limit_error)
		host_set(out, PROBE_HOST_MEMORY_LIMIT, (double)p->limit);
	else if (p->limit_error == -ENODATA)
		out->why[PROBE_HOST_MEMORY_LIMIT] = "no cgroup sets a limit";
	else if (p->limit_error == -ENOENT)
		out->why[PROBE_HOST_MEMORY_LIMIT] = "no memory cgroup can be seen";
	else
		out->why[PROBE_HOST_MEMORY_LIMIT] = "the cgroup's files cannot be read";
}

static void host_read_load(struct probe_host *p, struct probe_host_values *out)
{
	double load;
	size_t len = 0;

	if (host_text(p, PROBE_HOST_LOADAVG, &len) || proc_parse_loadavg(p->text, len, &load))
		out->why[PROBE_HOST_LOAD_1M] = "/proc/loadavg cannot be read";
	else
		host_set(out, PROBE_HOST_LOAD_1M, load);
}

int probe_host_read(struct probe_host *p, struct probe_host_values *out)
{
	memset(out, 0, sizeof(*out));
	host_read_cpu(p, out);
	host_read_memory(p, out);
	host_read_limit(p, out);
	host_read_load(p, out);
	return out->valid ? 0 : -ENODATA;
}
