/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CPUs did, all and each, and what the kernel counts beside: one reading
 * of /proc/stat. Guest time is in user and nice already and is counted once.
 */
#include "probe/groups.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "probe/linux/hosttext.h"
#include "probe/linux/onefile.h"
#include "wire/sink.h"

#define CPU_MAX 8192u           /* CPUs with figures of their own */
#define CPU_TEXT_MAX (4u << 20) /* bytes of /proc/stat */
#define CPU_BACK_S 3            /* a counter that is so much lower began anew */

enum {
	CPU_BUSY,
	CPU_USER,
	CPU_SYSTEM,
	CPU_IRQ,
	CPU_IOWAIT,
	CPU_STEAL,
	CPU_GUEST,
	CPU_SWITCHES,
	CPU_INTERRUPTS,
	CPU_FORKS,
	CPU_RUNNING,
	CPU_BLOCKED,
	CPU_CORE_BUSY,
	CPU_CORE_USER,
	CPU_CORE_SYSTEM,
	CPU_CORE_STEAL,
	CPU_METRICS
};
#define CPU_SHARES (CPU_GUEST + 1)
#define CPU_CORE_SHARES (CPU_METRICS - CPU_CORE_BUSY)

/* clang-format off */
#define CPU_GAUGE "/proc/stat", SINK_GAUGE, PROBE_COST_LOW, NULL
#define CPU_COUNTER "/proc/stat", SINK_COUNTER, PROBE_COST_LOW, NULL
#define CPU_CORE "/proc/stat", SINK_GAUGE, PROBE_COST_EACH, "cpu"
static const struct probe_metric cpu_metrics[CPU_METRICS] = {
	[CPU_BUSY] = {"cpu/busy", "1",
		"share of the time of all CPUs, since the last reading, that was neither idle nor "
		"waiting for a disk; time stolen by other guests counts as busy", CPU_GAUGE},
	[CPU_USER] = {"cpu/user", "1",
		"share of the time of all CPUs spent in programs, niced ones too, without that of "
		"guests", CPU_GAUGE},
	[CPU_SYSTEM] = {"cpu/system", "1",
		"share of the time of all CPUs spent in the kernel, without interrupts", CPU_GAUGE},
	[CPU_IRQ] = {"cpu/irq", "1",
		"share of the time of all CPUs spent in interrupts and soft interrupts; stays 0 in "
		"kernels that count it as the interrupted task's", CPU_GAUGE},
	[CPU_IOWAIT] = {"cpu/iowait", "1",
		"share of the time of all CPUs that was idle while a task waited for a disk; an "
		"estimate: pressure/io is better", CPU_GAUGE},
	[CPU_STEAL] = {"cpu/steal", "1",
		"share of the time of all CPUs in which the hypervisor ran others", CPU_GAUGE},
	[CPU_GUEST] = {"cpu/guest", "1",
		"share of the time of all CPUs spent in guests of this machine", CPU_GAUGE},
	[CPU_SWITCHES] = {"cpu/switches", "1", "context switches of all CPUs", CPU_COUNTER},
	[CPU_INTERRUPTS] = {"cpu/interrupts", "1", "interrupts taken by all CPUs", CPU_COUNTER},
	[CPU_FORKS] = {"cpu/forks", "1", "processes and threads begun", CPU_COUNTER},
	[CPU_RUNNING] = {"tasks/running", "1",
		"tasks on a CPU or ready for one, the reading agent among them", CPU_GAUGE},
	[CPU_BLOCKED] = {"tasks/blocked", "1", "tasks that wait for a disk", CPU_GAUGE},
	[CPU_CORE_BUSY] = {"cpu/core/busy", "1",
		"share of the time of one CPU that was neither idle nor waiting for a disk",
		CPU_CORE},
	[CPU_CORE_USER] = {"cpu/core/user", "1",
		"share of the time of one CPU spent in programs, without guests", CPU_CORE},
	[CPU_CORE_SYSTEM] = {"cpu/core/system", "1",
		"share of the time of one CPU spent in the kernel, without interrupts", CPU_CORE},
	[CPU_CORE_STEAL] = {"cpu/core/steal", "1",
		"share of the time of one CPU in which the hypervisor ran others", CPU_CORE},
};

enum {
	STAT_INTR,
	STAT_CTXT,
	STAT_FORKS,
	STAT_RUNNING,
	STAT_BLOCKED,
	STAT_NUMBERS
};
static const struct hosttext_key cpu_keys[] = {
	HOSTTEXT_KEY("intr", STAT_INTR),
	HOSTTEXT_KEY("ctxt", STAT_CTXT),
	HOSTTEXT_KEY("processes", STAT_FORKS),
	HOSTTEXT_KEY("procs_running", STAT_RUNNING),
	HOSTTEXT_KEY("procs_blocked", STAT_BLOCKED),
};
/* clang-format on */

static const char cpu_second[] = "needs a second reading";
static const char cpu_no_tick[] = "no tick was counted since the last reading";
static const char cpu_began[] = "the counters began anew: a CPU went or came";
static const char cpu_offline[] = "the CPU is offline";
static const char cpu_malformed[] = "/proc/stat is malformed";
static const char cpu_old[] = "this kernel does not count it";

/* The counters of one CPU, or of all. */
struct cpu_line {
	bool has;      /* ticks were read */
	uint32_t read; /* number of the reading that saw it last */
	uint64_t ticks[HOSTTEXT_CPU_STATES];
};

struct cpu_core {
	struct cpu_line line;
	bool known; /* points are made */
	uint32_t points[CPU_CORE_SHARES];
};

struct cpu_state {
	struct onefile one;
	struct cpu_line all;
	struct cpu_core *cores; /* by id */
	uint32_t n_cores;
	uint32_t reading;
	uint64_t back; /* ticks of CPU_BACK_S */
};

/* ---- shares ---------------------------------------------------------------------- */

/* What each state gained. iowait and, on some kernels, idle step back a little: the
 * higher value stays the mark. NULL, or why there are no figures. */
static const char *cpu_step(const struct cpu_state *c, struct cpu_line *line,
			    const struct hosttext_cpu *now, uint64_t step[HOSTTEXT_CPU_STATES],
			    uint64_t *total)
{
	bool had = line->has, anew = false;
	uint64_t sum = 0;
	int i;

	for (i = 0; i < HOSTTEXT_CPU_STATES; i++) {
		uint64_t was = line->ticks[i], is = now->ticks[i];

		step[i] = is > was ? is - was : 0;
		anew |= was > is && was - is >= c->back;
		if (i < HOSTTEXT_GUEST && __builtin_add_overflow(sum, step[i], &sum))
			anew = true;
	}
	for (i = 0; i < HOSTTEXT_CPU_STATES; i++)
		if (anew || !had || step[i])
			line->ticks[i] = now->ticks[i];
	line->has = true;
	*total = sum;
	if (!had)
		return cpu_second;
	if (anew)
		return cpu_began;
	return sum ? NULL : cpu_no_tick;
}

/* Shares in the order of the rows. */
static void cpu_shares(const uint64_t step[HOSTTEXT_CPU_STATES], uint64_t total,
		       double share[CPU_SHARES])
{
	uint64_t programs = step[HOSTTEXT_USER] + step[HOSTTEXT_NICE];
	uint64_t guests = step[HOSTTEXT_GUEST] + step[HOSTTEXT_GUEST_NICE];
	double all = (double)total;

	if (guests > programs) /* each is rounded by itself */
		guests = programs;
	share[CPU_BUSY] = (double)(total - step[HOSTTEXT_IDLE] - step[HOSTTEXT_IOWAIT]) / all;
	share[CPU_USER] = (double)(programs - guests) / all;
	share[CPU_SYSTEM] = (double)step[HOSTTEXT_SYSTEM] / all;
	share[CPU_IRQ] = (double)(step[HOSTTEXT_IRQ] + step[HOSTTEXT_SOFTIRQ]) / all;
	share[CPU_IOWAIT] = (double)step[HOSTTEXT_IOWAIT] / all;
	share[CPU_STEAL] = (double)step[HOSTTEXT_STEAL] / all;
	share[CPU_GUEST] = (double)guests / all;
}

/* Does a kernel that writes so many fields count what the row shows? */
static bool cpu_counted(int row, unsigned fields)
{
	static const unsigned char needs[CPU_SHARES] = {
		[CPU_IOWAIT] = HOSTTEXT_IOWAIT + 1,
		[CPU_IRQ] = HOSTTEXT_SOFTIRQ + 1,
		[CPU_STEAL] = HOSTTEXT_STEAL + 1,
		[CPU_GUEST] = HOSTTEXT_GUEST + 1,
	};

	return fields >= needs[row];
}

static void cpu_put_all(struct cpu_state *c, struct probe_set *s, const struct hosttext_cpu *now)
{
	uint64_t step[HOSTTEXT_CPU_STATES], total;
	double share[CPU_SHARES];
	const char *why;
	int i;

	why = cpu_step(c, &c->all, now, step, &total);
	if (!why)
		cpu_shares(step, total, share);
	for (i = 0; i < CPU_SHARES; i++) {
		if (why || !cpu_counted(i, now->fields))
			probe_absent(s, c->one.points[i], why ? why : cpu_old);
		else
			probe_put(s, c->one.points[i], share[i]);
	}
}

/* ---- cores ------------------------------------------------------------------------- */

static struct cpu_core *cpu_core(struct cpu_state *c, struct probe_set *s, uint32_t id)
{
	char labels[PROBE_LABELS_MAX];
	struct cpu_core *core;
	uint32_t n;
	int i;

	if (id >= CPU_MAX)
		return NULL;
	if (id >= c->n_cores) {
		n = id < 32 ? 32 : id * 2 < CPU_MAX ? id * 2 : CPU_MAX;
		core = realloc(c->cores, n * sizeof(*core));
		if (!core)
			return NULL;
		c->cores = core;
		for (; c->n_cores < n; c->n_cores++)
			c->cores[c->n_cores] = (struct cpu_core){0};
	}
	core = &c->cores[id];
	if (!core->known) {
		snprintf(labels, sizeof(labels), "cpu=\"%u\"", id);
		for (i = 0; i < CPU_CORE_SHARES; i++)
			core->points[i] = probe_point(s, &cpu_metrics[CPU_CORE_BUSY + i], labels);
		core->known = true;
	}
	return core;
}

static void cpu_put_core(struct cpu_state *c, struct probe_set *s, const struct hosttext_cpu *now)
{
	static const unsigned char rows[CPU_CORE_SHARES] = {CPU_BUSY, CPU_USER, CPU_SYSTEM,
							    CPU_STEAL};
	struct cpu_core *core = cpu_core(c, s, now->id);
	uint64_t step[HOSTTEXT_CPU_STATES], total;
	double share[CPU_SHARES];
	const char *why;
	int i;

	if (!core)
		return;
	why = cpu_step(c, &core->line, now, step, &total);
	core->line.read = c->reading;
	if (!why)
		cpu_shares(step, total, share);
	for (i = 0; i < CPU_CORE_SHARES; i++) {
		if (why || !cpu_counted(rows[i], now->fields))
			probe_absent(s, core->points[i], why ? why : cpu_old);
		else
			probe_put(s, core->points[i], share[rows[i]]);
	}
}

/* CPUs that had a line and have none now. When they come back their counters may go on
 * or begin anew. */
static void cpu_missing(struct cpu_state *c, struct probe_set *s, const char *why)
{
	uint32_t id;
	int i;

	for (id = 0; id < c->n_cores; id++) {
		struct cpu_core *core = &c->cores[id];

		if (!core->known || core->line.read == c->reading)
			continue;
		if (why == cpu_offline)
			core->line.has = false;
		for (i = 0; i < CPU_CORE_SHARES; i++)
			probe_absent(s, core->points[i], why);
	}
}

/* ---- the rest ------------------------------------------------------------------------ */

static void cpu_put_numbers(struct cpu_state *c, struct probe_set *s, const char *text,
			    const char *end)
{
	static const struct {
		unsigned char slot, row;
		bool counter;
	} rows[] = {
		{STAT_INTR, CPU_INTERRUPTS, true},  {STAT_CTXT, CPU_SWITCHES, true},
		{STAT_FORKS, CPU_FORKS, true},      {STAT_RUNNING, CPU_RUNNING, false},
		{STAT_BLOCKED, CPU_BLOCKED, false},
	};
	uint64_t v[STAT_NUMBERS];
	uint32_t found;
	size_t i;

	found = hosttext_pairs(text, end, cpu_keys, ARRAY_LEN(cpu_keys), v, STAT_NUMBERS);
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		uint32_t point = c->one.points[rows[i].row];

		if (!(found >> rows[i].slot & 1))
			probe_absent(s, point, "/proc/stat has no such line");
		else if (rows[i].counter)
			probe_count(s, point, v[rows[i].slot], 0, 1);
		else
			probe_put(s, point, (double)v[rows[i].slot]);
	}
}

static void cpu_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct cpu_state *c = state;
	const char *p, *end;
	struct hosttext_cpu cpu;
	int err;

	(void)now;
	c->reading++;
	if (!onefile_read(&c->one, s)) {
		cpu_missing(c, s, c->one.unreadable);
		return;
	}
	p = c->one.buf.text;
	end = p + c->one.buf.len;
	if (hosttext_cpu(&p, end, &cpu) || cpu.id != HOSTTEXT_CPU_ALL) {
		onefile_absent(&c->one, s, cpu_malformed);
		cpu_missing(c, s, cpu_malformed);
		return;
	}
	cpu_put_all(c, s, &cpu);
	while ((err = hosttext_cpu(&p, end, &cpu)) != -ENOENT)
		if (!err)
			cpu_put_core(c, s, &cpu);
	cpu_missing(c, s, cpu_offline);
	cpu_put_numbers(c, s, p, end);
}

static void cpu_close(void *state)
{
	struct cpu_state *c = state;

	onefile_done(&c->one);
	free(c->cores);
	free(c);
}

static int cpu_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		    struct err *e)
{
	struct cpu_state *c = calloc(1, sizeof(*c));
	long hz = sysconf(_SC_CLK_TCK);
	int err;

	if (!c)
		return -ENOMEM;
	c->back = (uint64_t)(hz > 0 ? hz : 100) * CPU_BACK_S;
	c->one.rows = cpu_metrics;
	c->one.n = CPU_METRICS;
	c->one.max = CPU_TEXT_MAX;
	c->one.unreadable = "/proc/stat cannot be read";
	err = onefile_open(&c->one, env, s, "/proc/stat", e);
	if (err) {
		cpu_close(c);
		return err;
	}
	*ret_state = c;
	return 0;
}

const struct probe_group probe_cpu = {
	.name = "cpu",
	.metrics = cpu_metrics,
	.n_metrics = CPU_METRICS,
	.place = PROBE_INLINE,
	.period_ns = 1000000000,
	.open = cpu_open,
	.read = cpu_read,
	.close = cpu_close,
};
