/* SPDX-License-Identifier: Apache-2.0
 *
 * What there is and what may be had of it: CPUs of the machine, those that the agent may
 * run on, and the CPU and memory limits of its cgroups.
 */
#include "probe/groups.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "probe/linux/cgroup.h"
#include "probe/linux/cpuquota.h"
#include "probe/linux/hosttext.h"
#include "probe/linux/proc.h"
#include "probe/linux/sysfs.h"
#include "probe/linux/textfile.h"
#include "wire/sink.h"

#define LIMITS_TEXT_MAX (4u << 20) /* bytes of /proc/stat */
#define LIMITS_LIST_MAX 65536      /* and of a list of CPUs */
#define LIMITS_CPUS 16384          /* CPUs that are looked at for cores */
#define LIMITS_CORES_NS 60000000000

enum {
	LIMITS_COUNT,
	LIMITS_PHYSICAL,
	LIMITS_AFFINITY,
	LIMITS_QUOTA,
	LIMITS_MEMORY,
	LIMITS_METRICS
};

/* clang-format off */
#define LIMITS_KIND SINK_GAUGE, PROBE_COST_RARE, NULL
static const struct probe_metric limits_metrics[LIMITS_METRICS] = {
	[LIMITS_COUNT] = {"cpu/count", "1", "CPUs online on the machine; read every 10 s",
		"/sys/devices/system/cpu/online, else /proc/stat", LIMITS_KIND},
	[LIMITS_PHYSICAL] = {"cpu/count/physical", "1",
		"processor cores online; a core that runs two threads is two of cpu/count; read "
		"every 60 s", "/sys/devices/system/cpu/cpuN/topology/thread_siblings_list",
		LIMITS_KIND},
	[LIMITS_AFFINITY] = {"cpu/count/affinity", "1",
		"CPUs that the agent may run on, and what it starts unless told otherwise; read "
		"every 10 s", "/proc/self/status Cpus_allowed_list", LIMITS_KIND},
	[LIMITS_QUOTA] = {"cpu/quota", "1",
		"CPUs that the cgroup's quota comes to: the tightest among the agent's cgroup and "
		"those above it that can be seen; read every 10 s",
		"cpu.max, or cpu.cfs_quota_us and cpu.cfs_period_us of cgroup v1", LIMITS_KIND},
	[LIMITS_MEMORY] = {"memory/limit", "By",
		"tightest memory limit among the agent's cgroup and those above it that can be "
		"seen; read every 10 s",
		"memory.max, or memory.stat and memory.limit_in_bytes of cgroup v1", LIMITS_KIND},
};
/* clang-format on */

struct limits_state {
	const struct probe_env *env;
	struct textbuf buf;
	uint32_t points[LIMITS_METRICS];
	uint64_t cores;   /* 0: unknown */
	int64_t cores_ns; /* CLOCK_MONOTONIC when they were counted */
};

/* ---- CPUs -------------------------------------------------------------------------- */

static int limits_online(struct limits_state *l, uint64_t *ret)
{
	const char *p, *end;
	struct hosttext_cpu cpu;
	uint64_t n = 0;
	int err;

	err = textfile_once(l->env->root, "/sys/devices/system/cpu/online", &l->buf,
			    LIMITS_LIST_MAX);
	if (!err && !hosttext_list_len(l->buf.text, l->buf.text + l->buf.len, ret))
		return 0;
	err = textfile_once(l->env->root, "/proc/stat", &l->buf, LIMITS_TEXT_MAX);
	if (err)
		return err;
	p = l->buf.text;
	end = p + l->buf.len;
	while ((err = hosttext_cpu(&p, end, &cpu)) != -ENOENT)
		n += !err && cpu.id != HOSTTEXT_CPU_ALL;
	if (!n)
		return -ENOENT;
	*ret = n;
	return 0;
}

/* A core counts at the first of its CPUs. Offline ones are in no list. */
static int limits_core(void *arg, int entry_fd, const char *name, uint32_t number)
{
	uint64_t *cores = arg;
	char path[160], list[256];
	const char *p = list;
	uint32_t first, last;

	if (number >= LIMITS_CPUS)
		return 0;
	snprintf(path, sizeof(path), "%s/topology/thread_siblings_list", name);
	if (sysfs_text(entry_fd, path, list, sizeof(list)))
		return 0;
	if (!hosttext_range(&p, list + strlen(list), &first, &last) && first == number)
		++*cores;
	return 0;
}

static void limits_count_cores(struct limits_state *l, int64_t mono_ns)
{
	int fd;

	if (l->cores_ns && mono_ns - l->cores_ns < LIMITS_CORES_NS)
		return;
	l->cores_ns = mono_ns;
	l->cores = 0;
	fd = sysfs_dir(l->env->root, "/sys/devices/system/cpu");
	if (fd < 0)
		return;
	sysfs_each(fd, ".", "cpu", "", limits_core, &l->cores);
	close(fd);
}

static int limits_affinity(struct limits_state *l, uint64_t *ret)
{
	static const char key[] = "Cpus_allowed_list:";
	const char *next, *end, *line, *eol;
	int err = textfile_once(l->env->root, "/proc/self/status", &l->buf, LIMITS_LIST_MAX);

	if (err)
		return err;
	next = l->buf.text;
	end = next + l->buf.len;
	while ((line = proc_line(&next, end, &eol)))
		if (proc_begins(line, eol, key))
			return hosttext_list_len(line + sizeof(key) - 1, eol, ret);
	return -ENOENT;
}

static void limits_put_cpus(struct limits_state *l, struct probe_set *s, int64_t mono_ns)
{
	uint64_t n;

	if (limits_online(l, &n))
		probe_absent(s, l->points[LIMITS_COUNT], "no list of CPUs can be read");
	else
		probe_put(s, l->points[LIMITS_COUNT], (double)n);
	limits_count_cores(l, mono_ns);
	if (l->cores)
		probe_put(s, l->points[LIMITS_PHYSICAL], (double)l->cores);
	else
		probe_absent(s, l->points[LIMITS_PHYSICAL],
			     "/sys/devices/system/cpu does not tell which CPUs share a core");
	if (limits_affinity(l, &n))
		probe_absent(s, l->points[LIMITS_AFFINITY], "/proc/self/status does not tell it");
	else
		probe_put(s, l->points[LIMITS_AFFINITY], (double)n);
}

/* ---- cgroups ------------------------------------------------------------------------- */

static void limits_put_limit(struct limits_state *l, struct probe_set *s, int row, int err,
			     double v, const char *none, const char *unseen)
{
	if (!err)
		probe_put(s, l->points[row], v);
	else if (err == -ENODATA)
		probe_absent(s, l->points[row], none);
	else if (err == -ENOENT)
		probe_absent(s, l->points[row], unseen);
	else
		probe_absent(s, l->points[row], "the cgroup's files cannot be read");
}

static void limits_put_cgroups(struct limits_state *l, struct probe_set *s)
{
	uint64_t memory = 0;
	struct cgroup_memory q;
	double cpus = 0;
	int err;

	err = cgroup_find_of(l->env->root, 0, "cpu", &q);
	if (!err)
		err = cpuquota_read(&q, &cpus);
	limits_put_limit(l, s, LIMITS_QUOTA, err, cpus, "no cgroup sets a quota",
			 "no cgroup of the cpu controller can be seen");
	err = cgroup_memory_limit(l->env->root, 0, &memory);
	limits_put_limit(l, s, LIMITS_MEMORY, err, (double)memory, "no cgroup sets a limit",
			 "no memory cgroup can be seen");
}

static void limits_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct limits_state *l = state;

	limits_put_cpus(l, s, now->mono_ns);
	limits_put_cgroups(l, s);
}

static void limits_close(void *state)
{
	struct limits_state *l = state;

	textbuf_done(&l->buf);
	free(l);
}

static int limits_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		       struct err *e)
{
	struct limits_state *l = calloc(1, sizeof(*l));
	int i;

	(void)e;
	if (!l)
		return -ENOMEM;
	l->env = env;
	for (i = 0; i < LIMITS_METRICS; i++)
		l->points[i] = probe_point(s, &limits_metrics[i], "");
	*ret_state = l;
	return 0;
}

const struct probe_group probe_limits = {
	.name = "limits",
	.metrics = limits_metrics,
	.n_metrics = LIMITS_METRICS,
	.place = PROBE_INLINE,
	.period_ns = 10000000000,
	.open = limits_open,
	.read = limits_read,
	.close = limits_close,
};
