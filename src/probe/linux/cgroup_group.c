/* SPDX-License-Identifier: Apache-2.0
 *
 * The group cgroup: what the cgroup of a run's command uses and may use, v1 or v2, and
 * how near its memory, or the machine's, is to its end (oom.h).
 */
#include "probe/groups.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fmt.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "probe/linux/cgroup.h"
#include "probe/linux/cgroup_rows.h"
#include "probe/linux/cgrouptext.h"
#include "probe/linux/cpuquota.h"
#include "probe/linux/hosttext.h"
#include "probe/linux/oom.h"
#include "probe/linux/proc.h"
#include "probe/linux/psi.h"
#include "probe/linux/textfile.h"
#include "probe/linux/tree.h"

#define CGROUP_TEXT_MAX (1u << 20)   /* bytes of a file */
#define CGROUP_LIMITS_NS 10000000000 /* between readings of limits, and of where it is */

enum cg_file {
	FILE_USED,
	FILE_STAT,
	FILE_EVENTS,
	FILE_FAILCNT,
	FILE_PEAK,
	FILE_SWAP,
	FILE_CPU,
	FILE_THROTTLE,
	FILE_IO,
	FILE_THREADS,
	FILE_PRESSURE,
	FILE_N = FILE_PRESSURE + 3
};

/* Of which controller; how v2 and v1 name it. NULL: there is none. */
static const struct {
	const char *controller, *v2, *v1;
} cg_files[FILE_N] = {
	[FILE_USED] = {"memory", "memory.current", "memory.usage_in_bytes"},
	[FILE_STAT] = {"memory", "memory.stat", "memory.stat"},
	[FILE_EVENTS] = {"memory", "memory.events", "memory.oom_control"},
	[FILE_FAILCNT] = {"memory", NULL, "memory.failcnt"},
	[FILE_PEAK] = {"memory", "memory.peak", "memory.max_usage_in_bytes"},
	[FILE_SWAP] = {"memory", "memory.swap.current", NULL},
	[FILE_CPU] = {"cpuacct", "cpu.stat", "cpuacct.usage"},
	[FILE_THROTTLE] = {"cpu", "cpu.stat", "cpu.stat"},
	[FILE_IO] = {"blkio", "io.stat", "blkio.throttle.io_service_bytes_recursive"},
	[FILE_THREADS] = {"pids", "pids.current", "pids.current"},
	/* v1 has no pressure: of a word that is no controller it is v2's cgroup. */
	[FILE_PRESSURE] = {"pressure", "cpu.pressure", NULL},
	[FILE_PRESSURE + 1] = {"pressure", "memory.pressure", NULL},
	[FILE_PRESSURE + 2] = {"pressure", "io.pressure", NULL},
};

/* Two readings of a counter that becomes a share of the time. */
struct cg_was {
	uint64_t raw;
	int64_t mono_ns;
	bool has;
};

struct cg_open {
	struct textfile file; /* path NULL: there is no such file */
	int version;
};

struct cg_state {
	const struct probe_env *env;
	struct textbuf buf;
	uint32_t points[CG_ROWS];
	struct cg_open files[FILE_N];
	bool found;
	uint64_t where; /* hash of /proc/PID/cgroup */
	int64_t limits_ns;
	bool has_limit;
	uint64_t limit;
	bool has_kills;
	uint64_t kills;
	struct cg_was cpu, throttled, pressure[6];
	uint64_t periods, throttled_periods;
	bool has_periods;
	uint64_t used;     /* this reading; 0 unknown */
	struct oom oom[2]; /* of the cgroup, of the machine */
	struct textfile meminfo;
};

static const char cg_no_file[] = "the run's cgroup has no such file: the controller is not on, "
				 "or the kernel is too old";

/* ---- finding ---------------------------------------------------------------------- */

static void cg_close_files(struct cg_state *g)
{
	int i;

	for (i = 0; i < FILE_N; i++)
		textfile_done(&g->files[i].file);
}

/* Move m up to where the tightest quota is; 0: there is none. */
static void cg_quota_level(struct cgroup_memory *m, double *ret_quota)
{
	struct cgroup_memory q = {.version = m->version};
	char dir[CGROUP_PATH_MAX];
	double cpus;
	char *slash;

	*ret_quota = 0;
	snprintf(dir, sizeof(dir), "%s", m->dir);
	for (;;) {
		snprintf(q.dir, sizeof(q.dir), "%s", dir);
		q.top = strlen(dir);
		if (!cpuquota_read(&q, &cpus) && (*ret_quota == 0 || cpus < *ret_quota)) {
			*ret_quota = cpus;
			memcpy(m->dir, dir, sizeof(m->dir));
		}
		slash = strrchr(dir, '/');
		if (!slash || (size_t)(slash - dir) < m->top)
			return;
		*slash = '\0';
	}
}

static void cg_open_file(struct cg_state *g, enum cg_file i, const struct cgroup_memory *m)
{
	const char *name = m->version == 2 ? cg_files[i].v2 : cg_files[i].v1;
	char path[CGROUP_PATH_MAX + 64];
	struct cg_open *o = &g->files[i];

	if (!name)
		return;
	snprintf(path, sizeof(path), "%s/%s", m->dir, name);
	if (textfile_init(&o->file, "", path) || textfile_read(&o->file, &g->buf, CGROUP_TEXT_MAX))
		textfile_done(&o->file);
	o->version = m->version;
}

static void cg_find(struct cg_state *g)
{
	struct cgroup_memory m;
	int i;

	cg_close_files(g);
	g->cpu.has = g->throttled.has = g->has_periods = g->has_kills = false;
	for (i = 0; i < 6; i++)
		g->pressure[i].has = false;
	g->found = false;
	for (i = 0; i < FILE_N; i++) {
		if ((i == 0 || strcmp(cg_files[i].controller, cg_files[i - 1].controller) != 0) &&
		    cgroup_find_of(g->env->root, g->env->pid, cg_files[i].controller, &m))
			m.dir[0] = '\0';
		if (!m.dir[0])
			continue;
		g->found = true;
		if (i != FILE_THROTTLE) /* that follows the quota */
			cg_open_file(g, (enum cg_file)i, &m);
	}
}

/* Is it another than before? Of a process that has ended the file says "/". */
static bool cg_has_moved(struct cg_state *g)
{
	const struct probe_proc *p;
	char path[64];
	uint64_t hash;

	p = g->env->tree ? probe_tree_find(g->env->tree, g->env->pid) : NULL;
	if (g->env->tree && (!p || probe_proc_is_zombie(p)))
		return false;
	snprintf(path, sizeof(path), "/proc/%ld/cgroup", g->env->pid);
	if (textfile_once(g->env->root, path, &g->buf, CGROUP_TEXT_MAX))
		return false;
	hash = map_hash(g->buf.text, g->buf.len);
	if (hash == g->where && g->found)
		return false;
	g->where = hash;
	return true;
}

/* ---- limits ------------------------------------------------------------------------- */

/* Tightest pids.max of it and the ancestors. */
static int cg_threads_limit(const struct cgroup_memory *m, uint64_t *ret)
{
	char dir[CGROUP_PATH_MAX];
	uint64_t limit = UINT64_MAX, v;
	char *slash;

	memcpy(dir, m->dir, sizeof(dir));
	for (;;) {
		if (!textfile_u64(dir, "/pids.max", &v) && v < limit)
			limit = v;
		slash = strrchr(dir, '/');
		if (!slash || (size_t)(slash - dir) < m->top)
			break;
		*slash = '\0';
	}
	*ret = limit;
	return limit == UINT64_MAX ? -ENODATA : 0;
}

/* Throttling is counted where the quota is, which may come, go and move. */
static void cg_quota(struct cg_state *g, struct probe_set *s, double quota,
		     const struct cgroup_memory *m)
{
	struct textfile *f = &g->files[FILE_THROTTLE].file;
	int row;

	if (quota > 0)
		probe_put(s, g->points[CG_QUOTA], quota);
	if (quota > 0 && f->path && strncmp(f->path, m->dir, strlen(m->dir)) == 0 &&
	    strcmp(f->path + strlen(m->dir), "/cpu.stat") == 0)
		return;
	textfile_done(f);
	g->throttled.has = g->has_periods = false;
	if (quota > 0)
		cg_open_file(g, FILE_THROTTLE, m);
	for (row = CG_QUOTA; quota == 0 && row <= CG_THROTTLED_PERIODS; row++)
		probe_absent(s, g->points[row], "no CPU quota is set");
}

static void cg_limits(struct cg_state *g, struct probe_set *s)
{
	struct cgroup_memory m;
	uint64_t threads;
	double quota = 0;
	int err;

	err = cgroup_memory_find(g->env->root, g->env->pid, &m);
	if (err == -ESRCH)
		return; /* ended: what was, stays */
	if (!err)
		err = cgroup_memory_limit_of(&m, &g->limit);
	g->has_limit = !err;
	if (!err)
		probe_put(s, g->points[CG_LIMIT], (double)g->limit);
	else
		probe_absent(s, g->points[CG_LIMIT],
			     err == -ENODATA ? "no memory limit is set" : cg_no_file);
	if (!cgroup_find_of(g->env->root, g->env->pid, "pids", &m)) {
		if (cg_threads_limit(&m, &threads) == 0)
			probe_put(s, g->points[CG_THREADS_LIMIT], (double)threads);
		else
			probe_absent(s, g->points[CG_THREADS_LIMIT], "no limit is set");
	}
	if (!cgroup_find_of(g->env->root, g->env->pid, "cpu", &m)) {
		cg_quota_level(&m, &quota);
		cg_quota(g, s, quota, &m);
	}
}

/* ---- reading ------------------------------------------------------------------------ */

/* Read a file of the cgroup. Rows first..last are absent if it fails. */
static int cg_read_file(struct cg_state *g, struct probe_set *s, enum cg_file i, int first,
			int last)
{
	struct textfile *f = &g->files[i].file;
	int err = f->path ? textfile_read(f, &g->buf, CGROUP_TEXT_MAX) : -ENOSYS, k;

	for (k = first; err && k <= last; k++)
		probe_absent(s, g->points[k],
			     err == -ENOSYS ? cg_no_file
			     : err == -ENODEV || err == -ENOENT
				     ? "the run's cgroup is gone"
				     : "the file of the run's cgroup cannot be read");
	return err;
}

static void cg_malformed(struct cg_state *g, struct probe_set *s, int first, int last)
{
	for (; first <= last; first++)
		probe_absent(s, g->points[first], "its file is not as kernels write it");
}

static int cg_read_number(struct cg_state *g, struct probe_set *s, enum cg_file i, int row,
			  uint64_t *ret)
{
	const char *p;
	int err = cg_read_file(g, s, i, row, row);

	if (err)
		return err;
	p = g->buf.text;
	if (proc_number(&p, g->buf.text + g->buf.len, ret)) {
		cg_malformed(g, s, row, row);
		return -EBADMSG;
	}
	return 0;
}

/* What a counter of ns gained, over the time. */
static void cg_share(struct cg_state *g, struct probe_set *s, struct cg_was *w, int row,
		     uint64_t raw_ns, double most, int64_t mono_ns)
{
	struct cg_was was = *w;
	double share;

	*w = (struct cg_was){raw_ns, mono_ns, true};
	if (!was.has || raw_ns < was.raw || mono_ns <= was.mono_ns) {
		probe_absent(s, g->points[row],
			     was.has ? "the counter began anew" : "needs a second reading");
		return;
	}
	share = (double)(raw_ns - was.raw) / (double)(mono_ns - was.mono_ns);
	probe_put(s, g->points[row], most > 0 && share > most ? most : share);
}

static void cg_memory_stat(struct cg_state *g, struct probe_set *s, int64_t mono_ns, bool *told)
{
	static const struct {
		int row;
		enum cgrouptext_memory field;
	} rows[] = {{CG_ANON, CGROUPTEXT_ANON},
		    {CG_FILE, CGROUPTEXT_FILE},
		    {CG_SHARED, CGROUPTEXT_SHMEM}};
	struct cgrouptext_stat stat;
	double used, inactive;
	uint64_t held;
	size_t i;

	if (cg_read_file(g, s, FILE_STAT, CG_WORKING, CG_SHARED))
		return;
	if (cgrouptext_memory_stat(g->buf.text, g->buf.len, g->files[FILE_STAT].version, &stat)) {
		cg_malformed(g, s, CG_WORKING, CG_SHARED);
		return;
	}
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		if (stat.has >> rows[i].field & 1)
			probe_put(s, g->points[rows[i].row], (double)stat.value[rows[i].field]);
		else
			probe_absent(s, g->points[rows[i].row], "this kernel does not say");
	}
	if (stat.has >> CGROUPTEXT_SWAP & 1)
		probe_put(s, g->points[CG_SWAP], (double)stat.value[CGROUPTEXT_SWAP]);
	used = (double)g->used;
	inactive = (double)stat.value[CGROUPTEXT_INACTIVE_FILE];
	if (g->used)
		probe_put(s, g->points[CG_WORKING], used > inactive ? used - inactive : 0);
	held = stat.value[CGROUPTEXT_ANON] + stat.value[CGROUPTEXT_SHMEM] +
	       stat.value[CGROUPTEXT_KERNEL];
	if (g->used && held > g->used)
		held = g->used;
	if (g->has_limit)
		*told = oom_add(&g->oom[0], mono_ns, (double)held, (double)g->limit);
	else
		g->oom[0] = (struct oom){0};
}

static void cg_memory(struct cg_state *g, struct probe_set *s, int64_t mono_ns, bool *told)
{
	uint64_t v;

	g->used = 0;
	if (!cg_read_number(g, s, FILE_USED, CG_USED, &g->used))
		probe_put(s, g->points[CG_USED], (double)g->used);
	cg_memory_stat(g, s, mono_ns, told);
	if (!cg_read_number(g, s, FILE_PEAK, CG_PEAK, &v))
		probe_put(s, g->points[CG_PEAK], (double)v);
	if (g->files[FILE_USED].version == 2 && !cg_read_number(g, s, FILE_SWAP, CG_SWAP, &v))
		probe_put(s, g->points[CG_SWAP], (double)v);
}

static void cg_tell_kills(struct cg_state *g, struct probe_set *s, uint64_t kills)
{
	char text[256], limit[FMT_MAX], used[FMT_MAX];
	struct buf attrs;
	struct json j;

	buf_init(&attrs, 512);
	json_init(&j, &attrs);
	json_object(&j);
	json_kuint(&j, "kills", kills - g->kills);
	json_kuint(&j, "used", g->used);
	if (g->has_limit)
		json_kuint(&j, "limit", g->limit);
	json_object_end(&j);
	snprintf(text, sizeof(text),
		 "the kernel killed %llu process%s of the run's cgroup for lack of memory: limit "
		 "%s, "
		 "in use now %s",
		 (unsigned long long)(kills - g->kills), kills - g->kills == 1 ? "" : "es",
		 g->has_limit ? fmt_bytes(limit, (double)g->limit) : "none",
		 fmt_bytes(used, (double)g->used));
	probe_event(s, 3, "cgroup-oom", text, buf_str(&attrs));
	buf_done(&attrs);
}

static void cg_events(struct cg_state *g, struct probe_set *s)
{
	struct cgrouptext_events e;
	uint64_t failures;
	int i;

	if (cg_read_file(g, s, FILE_EVENTS, CG_LOW, CG_KILLS))
		return;
	cgrouptext_memory_events(g->buf.text, g->buf.len, &e);
	for (i = 0; i < CGROUPTEXT_EVENTS; i++) {
		if (e.has >> i & 1)
			probe_count(s, g->points[CG_LOW + i], e.value[i], 0, 1);
		else
			probe_absent(s, g->points[CG_LOW + i],
				     "this kind of cgroup does not count it");
	}
	if (e.has >> CGROUPTEXT_OOM_KILL & 1) {
		if (g->has_kills && e.value[CGROUPTEXT_OOM_KILL] > g->kills)
			cg_tell_kills(g, s, e.value[CGROUPTEXT_OOM_KILL]);
		g->has_kills = true;
		g->kills = e.value[CGROUPTEXT_OOM_KILL];
	}
	if (g->files[FILE_FAILCNT].file.path &&
	    !cg_read_number(g, s, FILE_FAILCNT, CG_MAX, &failures))
		probe_count(s, g->points[CG_MAX], failures, 0, 1);
}

static void cg_throttled(struct cg_state *g, struct probe_set *s, int64_t mono_ns)
{
	struct cgrouptext_cpu_stat stat;
	uint64_t periods, throttled;

	if (!g->files[FILE_THROTTLE].file.path)
		return; /* why is told with the quota */
	if (cg_read_file(g, s, FILE_THROTTLE, CG_THROTTLED, CG_THROTTLED_PERIODS))
		return;
	if (cgrouptext_cpu_stat(g->buf.text, g->buf.len, &stat) ||
	    !(stat.has >> CGROUPTEXT_THROTTLED_NS & 1)) {
		cg_malformed(g, s, CG_THROTTLED, CG_THROTTLED_PERIODS);
		return;
	}
	cg_share(g, s, &g->throttled, CG_THROTTLED, stat.value[CGROUPTEXT_THROTTLED_NS], 0,
		 mono_ns);
	periods = stat.value[CGROUPTEXT_PERIODS] - g->periods;
	throttled = stat.value[CGROUPTEXT_THROTTLED] - g->throttled_periods;
	if (!g->has_periods || stat.value[CGROUPTEXT_PERIODS] < g->periods || throttled > periods)
		probe_absent(s, g->points[CG_THROTTLED_PERIODS], "needs a second reading");
	else /* a period ends only while somebody wants to run */
		probe_put(s, g->points[CG_THROTTLED_PERIODS],
			  periods ? (double)throttled / (double)periods : 0);
	g->periods = stat.value[CGROUPTEXT_PERIODS];
	g->throttled_periods = stat.value[CGROUPTEXT_THROTTLED];
	g->has_periods = true;
}

static void cg_cpu(struct cg_state *g, struct probe_set *s, int64_t mono_ns)
{
	struct cgrouptext_cpu_stat stat;
	uint64_t ns = 0;
	int err;

	if (g->files[FILE_CPU].version == 1) {
		err = cg_read_number(g, s, FILE_CPU, CG_CPU, &ns);
	} else {
		err = cg_read_file(g, s, FILE_CPU, CG_CPU, CG_CPU);
		if (!err && cgrouptext_cpu_stat(g->buf.text, g->buf.len, &stat)) {
			err = -EBADMSG;
			cg_malformed(g, s, CG_CPU, CG_CPU);
		}
		if (!err)
			ns = stat.value[CGROUPTEXT_USAGE_NS];
	}
	if (!err)
		cg_share(g, s, &g->cpu, CG_CPU, ns, 0, mono_ns);
	cg_throttled(g, s, mono_ns);
}

static void cg_others(struct cg_state *g, struct probe_set *s, int64_t mono_ns)
{
	uint64_t read, written, v[2];
	int i, k;

	if (!cg_read_file(g, s, FILE_IO, CG_READ, CG_WRITTEN)) {
		if (cgrouptext_io(g->buf.text, g->buf.len, &read, &written))
			cg_malformed(g, s, CG_READ, CG_WRITTEN);
		else {
			probe_count(s, g->points[CG_READ], read, 0, 1);
			probe_count(s, g->points[CG_WRITTEN], written, 0, 1);
		}
	}
	if (!cg_read_number(g, s, FILE_THREADS, CG_THREADS, &v[0]))
		probe_put(s, g->points[CG_THREADS], (double)v[0]);
	for (i = 0; i < 3; i++) {
		if (cg_read_file(g, s, FILE_PRESSURE + i, CG_PRESSURE + i, CG_PRESSURE + i) ||
		    psi_parse(g->buf.text, g->buf.len, &v[0], &v[1])) {
			probe_absent(s, g->points[CG_PRESSURE_FULL + i], cg_no_file);
			continue;
		}
		for (k = 0; k < 2; k++)
			if (v[k] != PSI_NONE && v[k] < UINT64_MAX / 1000)
				cg_share(g, s, &g->pressure[3 * k + i], CG_PRESSURE + 3 * k + i,
					 v[k] * 1000, 1, mono_ns);
	}
}

/* ---- out of memory -------------------------------------------------------------------- */

static void cg_machine(struct cg_state *g, int64_t mono_ns, bool *told)
{
	static const struct hosttext_key keys[] = {HOSTTEXT_KEY("MemTotal", 0),
						   HOSTTEXT_KEY("MemAvailable", 1)};
	uint64_t v[2];

	if (textfile_read(&g->meminfo, &g->buf, CGROUP_TEXT_MAX) ||
	    hosttext_pairs(g->buf.text, g->buf.text + g->buf.len, keys, 2, v, 2) != 3 ||
	    v[1] > v[0])
		g->oom[1] = (struct oom){0};
	else
		*told = oom_add(&g->oom[1], mono_ns, (double)(v[0] - v[1]), (double)v[0]);
}

static void cg_tell_forecast(const struct oom *o, struct probe_set *s, const char *whose)
{
	char text[320], used[FMT_MAX], limit[FMT_MAX], slope[FMT_MAX];
	struct buf attrs;
	struct json j;

	buf_init(&attrs, 512);
	json_init(&j, &attrs);
	json_object(&j);
	json_kdouble(&j, "limit", o->limit);
	json_kdouble(&j, "seconds", oom_time(o));
	json_kdouble(&j, "slope", o->slope);
	json_kdouble(&j, "used", o->used);
	json_object_end(&j);
	snprintf(text, sizeof(text),
		 "memory of %s will be used up in about %.0f s: %s of %s cannot be taken back, and "
		 "grew by %s/s over the last minute",
		 whose, oom_time(o), fmt_bytes(used, o->used), fmt_bytes(limit, o->limit),
		 fmt_bytes(slope, o->slope));
	probe_event(s, 2, "oom-forecast", text, buf_str(&attrs));
	buf_done(&attrs);
}

static void cg_put_oom(struct cg_state *g, struct probe_set *s, const bool told[2])
{
	double risk = -1, time = -1, t;
	int i;

	for (i = 0; i < 2; i++) {
		if (oom_risk(&g->oom[i]) > risk)
			risk = oom_risk(&g->oom[i]);
		t = oom_time(&g->oom[i]);
		if (t >= 0 && (time < 0 || t < time))
			time = t;
	}
	if (risk >= 0)
		probe_put(s, g->points[CG_RISK], risk);
	else
		probe_absent(s, g->points[CG_RISK],
			     "no limit can be seen, and /proc/meminfo has no MemAvailable");
	if (time >= 0)
		probe_put(s, g->points[CG_TIME], time);
	else
		probe_absent(s, g->points[CG_TIME],
			     "memory does not rise steadily, or not for 20 s yet");
	if (told[0] || told[1])
		cg_tell_forecast(&g->oom[!told[0]], s,
				 told[0] ? "the run's cgroup" : "the machine");
}

/* ---- the group -------------------------------------------------------------------------- */

static void cg_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	bool told[2] = {false, false};
	struct cg_state *g = state;

	if (!g->limits_ns || now->mono_ns - g->limits_ns >= CGROUP_LIMITS_NS) {
		if (cg_has_moved(g))
			cg_find(g);
		cg_limits(g, s);
		g->limits_ns = now->mono_ns;
	}
	cg_memory(g, s, now->mono_ns, &told[0]);
	cg_events(g, s);
	cg_cpu(g, s, now->mono_ns);
	cg_others(g, s, now->mono_ns);
	cg_machine(g, now->mono_ns, &told[1]);
	cg_put_oom(g, s, told);
}

static void cg_close(void *state)
{
	struct cg_state *g = state;

	cg_close_files(g);
	textfile_done(&g->meminfo);
	textbuf_done(&g->buf);
	free(g);
}

static int cg_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		   struct err *e)
{
	struct cg_state *g = calloc(1, sizeof(*g));
	int i;

	(void)e;
	if (!g)
		return -ENOMEM;
	g->env = env;
	for (i = 0; i < FILE_N; i++)
		g->files[i].file.fd = -1;
	g->meminfo.fd = -1;
	if (textfile_init(&g->meminfo, env->root, "/proc/meminfo")) {
		cg_close(g);
		return -ENOMEM;
	}
	for (i = 0; i < CG_ROWS; i++) {
		g->points[i] = probe_point(s, &cg_rows[i], "");
		probe_absent(s, g->points[i], cg_no_file);
	}
	*ret_state = g;
	return 0;
}

const struct probe_group probe_cgroup = {
	.name = "cgroup",
	.metrics = cg_rows,
	.n_metrics = CG_ROWS,
	.place = PROBE_INLINE,
	.period_ns = 1000000000,
	.of_run = true,
	.open = cg_open,
	.read = cg_read,
	.close = cg_close,
};
