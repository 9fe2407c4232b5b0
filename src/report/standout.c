/* SPDX-License-Identifier: Apache-2.0 */
#include "report/standout.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STANDOUT_DATA "data" /* a phase whose name begins so waits for data */
#define STANDOUT_DATA_SHARE 0.2

enum standout_stat {
	STAT_MEAN,
	STAT_MAX,
	STAT_LAST,
	STAT_SUM,
	STAT_STEPS /* mean in the time of the steps */
};

/* clang-format off */
/* value = stat of metric, over the stat of `of` with the same labels; one less that with
 * `rest`. What is above `over` stands out. */
static const struct standout_row {
	const char *id, *metric;
	enum standout_stat stat;
	const char *of;
	enum standout_stat of_stat;
	bool rest;
	double over;
	enum standout_unit unit;
	const char *text;
} standout_rows[] = {
	{"gpu-idle", "gpu/busy", STAT_STEPS, NULL, 0, true, 0.3, STANDOUT_TIME,
	 "between the first and the last step no kernel ran in"},
	{"gpu-memory", "gpu/memory/used", STAT_MAX, "gpu/memory/total", STAT_LAST, false, 0.95,
	 STANDOUT_SHARE, "its memory was taken up to"},
	{"gpu-throttled", "gpu/throttled", STAT_MEAN, NULL, 0, false, 0.05, STANDOUT_TIME,
	 "its clock was held down in"},
	{"gpu-ecc", "gpu/ecc/uncorrected", STAT_SUM, NULL, 0, false, 0, STANDOUT_COUNT,
	 "memory errors that could not be corrected:"},
	{"gpu-ecc-pending", "gpu/ecc/pending", STAT_LAST, NULL, 0, false, 0, STANDOUT_COUNT,
	 "rows of memory wait for a reset of the GPU to be replaced:"},
	{"gpu-ecc-failure", "gpu/ecc/failure", STAT_LAST, NULL, 0, false, 0, STANDOUT_COUNT,
	 "a row of memory could not be replaced, the card is to be exchanged:"},
	{"gpu-xid", "gpu/xid", STAT_SUM, NULL, 0, false, 0, STANDOUT_COUNT,
	 "Xid errors of the driver:"},
	{"cpu-busy", "cpu/busy", STAT_MEAN, NULL, 0, false, 0.95, STANDOUT_TIME,
	 "all CPUs together were busy in"},
	{"cpu-iowait", "cpu/iowait", STAT_MEAN, NULL, 0, false, 0.1, STANDOUT_TIME,
	 "CPUs waited for a disk in"},
	{"cpu-steal", "cpu/steal", STAT_MEAN, NULL, 0, false, 0.05, STANDOUT_SHARE,
	 "other guests of the host took of the CPUs' time"},
	{"cpu-quota", "cgroup/cpu/throttled/periods", STAT_MEAN, NULL, 0, false, 0.05,
	 STANDOUT_TIME, "the CPU quota was used up in"},
	{"pressure-memory", "pressure/memory", STAT_MEAN, NULL, 0, false, 0.1, STANDOUT_TIME,
	 "some task waited for memory in"},
	{"pressure-io", "pressure/io", STAT_MEAN, NULL, 0, false, 0.25, STANDOUT_TIME,
	 "some task waited for a disk in"},
	{"memory-limit", "tree/rss", STAT_MAX, "memory/limit", STAT_LAST, false, 0.95,
	 STANDOUT_SHARE, "the run's processes took of the memory limit up to"},
	{"memory-risk", "oom/risk", STAT_MAX, NULL, 0, false, 0.95, STANDOUT_SHARE,
	 "memory was taken of what may be taken up to"},
	{"memory-cgroup", "cgroup/memory/working_set", STAT_MAX, "cgroup/memory/limit", STAT_LAST,
	 false, 0.95, STANDOUT_SHARE, "the cgroup's working set was of its memory limit up to"},
	{"memory", "memory/used", STAT_MAX, "memory/total", STAT_LAST, false, 0.95,
	 STANDOUT_SHARE, "memory was taken up to"},
	{"swap-in", "swap/in", STAT_SUM, NULL, 0, false, 0x1p26, STANDOUT_BYTES,
	 "brought in from swap:"},
	{"oom-kill", "memory/oom_kills", STAT_SUM, NULL, 0, false, 0, STANDOUT_COUNT,
	 "processes of the machine killed for lack of memory:"},
	{"shm", "shm/used", STAT_MAX, "shm/total", STAT_LAST, false, 0.9, STANDOUT_SHARE,
	 "/dev/shm was taken up to"},
	{"filesystem", "filesystem/available", STAT_LAST, "filesystem/total", STAT_LAST, true, 0.95,
	 STANDOUT_SHARE, "not available to users at the end:"},
	{"inodes", "filesystem/inodes/free", STAT_LAST, "filesystem/inodes/total", STAT_LAST, true,
	 0.95, STANDOUT_SHARE, "inodes in use at the end:"},
	{"process-blocked", "process/blocked", STAT_MEAN, NULL, 0, false, 0.2, STANDOUT_TIME,
	 "waited for storage or a driver (state D) in"},
	{"process-runqueue", "process/runqueue", STAT_MEAN, NULL, 0, false, 0.2, STANDOUT_TIME,
	 "could have run but waited for a CPU in"},
	{"process-files", "process/files", STAT_MAX, "process/files/limit", STAT_LAST, false, 0.9,
	 STANDOUT_SHARE, "open files were of their limit up to"},
	{"network-retransmits", "network/tcp/retransmits", STAT_SUM, "network/tcp/segments",
	 STAT_SUM, false, 0.01, STANDOUT_SHARE, "TCP segments that were sent again:"},
	{"hung-task", "kernel/hung_tasks", STAT_SUM, NULL, 0, false, 0, STANDOUT_COUNT,
	 "tasks that the kernel called hung:"},
	{"machine-check", "kernel/machine_checks", STAT_SUM, NULL, 0, false, 0, STANDOUT_COUNT,
	 "machine checks:"},
	{"memory-error", "kernel/memory_errors/uncorrected", STAT_SUM, NULL, 0, false, 0,
	 STANDOUT_COUNT, "memory errors that could not be corrected:"},
	{"agent-cpu", "lapse/agent/cpu", STAT_MEAN, NULL, 0, false, 0.02, STANDOUT_SHARE,
	 "lapse's agent took of a CPU"},
};
/* clang-format on */

static double standout_stat(const struct usage_item *i, enum standout_stat stat)
{
	const double values[] = {
		[STAT_MEAN] = i->mean, [STAT_MAX] = i->max,        [STAT_LAST] = i->last,
		[STAT_SUM] = i->sum,   [STAT_STEPS] = i->in_steps,
	};

	return values[stat];
}

/* NaN: not known. */
static double standout_measure(const struct standout_row *row, const struct usage *u,
			       const struct usage_item *i)
{
	double v = standout_stat(i, row->stat), total;
	const struct usage_item *of;

	if (row->of) {
		of = usage_find(u, i->s->host_name, row->of, i->s->labels);
		total = of ? standout_stat(of, row->of_stat) : NAN;
		v = total > 0 ? v / total : NAN;
	}
	return row->rest ? 1 - v : v;
}

static void standout_place(struct standout *s, const struct usage_item *i)
{
	static const struct {
		const char *label, *as;
	} labels[] = {{"gpu", "GPU "}, {"role", ""}, {"device", ""}, {"mount", ""}};
	char value[USAGE_LABEL_MAX];
	size_t k;

	s->place[0] = '\0';
	/* role is also what the series' own process is called. */
	for (k = 0; k < ARRAY_LEN(labels) && i->s->labels[0]; k++) {
		if (!usage_label(i, labels[k].label, value)[0])
			continue;
		if (strcmp(labels[k].label, "role") == 0 && !strstr(i->s->labels, "role="))
			continue;
		snprintf(s->place, sizeof(s->place), "%s%s", labels[k].as, value);
		break;
	}
	if (strcmp(i->s->name, "gpu/memory/used") == 0 && usage_label(i, "mig", value)[0])
		snprintf(s->place + strlen(s->place), sizeof(s->place) - strlen(s->place), "/%s",
			 value);
	if (strstr(i->s->labels, "slot=") && usage_label(i, "slot", value)[0])
		snprintf(s->place + strlen(s->place), sizeof(s->place) - strlen(s->place), " %s",
			 value);
}

struct standout_list {
	struct standout *all;
	size_t n, cap;
};

static void standout_add(struct standout_list *l, const struct standout *s)
{
	l->all = xgrow(l->all, l->n, &l->cap, sizeof(*l->all));
	l->all[l->n++] = *s;
}

static void standout_row(struct standout_list *l, const struct standout_row *row,
			 const struct usage *u)
{
	const struct usage_item *i = NULL;

	while ((i = usage_next(u, NULL, row->metric, i))) {
		struct standout s = {.id = row->id,
				     .metric = row->metric,
				     .of = row->of,
				     .host = i->s->host_name,
				     .text = row->text,
				     .value = standout_measure(row, u, i),
				     .threshold = row->over,
				     .unit = row->unit};

		if (!(s.value > s.threshold))
			continue;
		standout_place(&s, i);
		standout_add(l, &s);
	}
}

static void standout_data(struct standout_list *l, const struct figures *f)
{
	size_t i;

	for (i = 0; i < f->n_phases; i++) {
		const struct figures_phase *p = &f->phases[i];
		struct standout s = {.id = "data-wait",
				     .metric = p->name,
				     .of = "step",
				     .host = "",
				     .text = "steps waited for data in",
				     .value = p->share,
				     .threshold = STANDOUT_DATA_SHARE,
				     .unit = STANDOUT_TIME};

		if (strncmp(p->name, STANDOUT_DATA, strlen(STANDOUT_DATA)) != 0 ||
		    !(s.value > s.threshold))
			continue;
		snprintf(s.place, sizeof(s.place), "%s", p->name);
		standout_add(l, &s);
	}
}

struct standout *standout_find(const struct figures *f, const struct usage *u, size_t *ret_n)
{
	struct standout_list l = {0};
	size_t i;

	standout_data(&l, f);
	for (i = 0; i < ARRAY_LEN(standout_rows); i++)
		standout_row(&l, &standout_rows[i], u);
	*ret_n = l.n;
	return l.all;
}

const char *standout_value(char out[FMT_MAX], enum standout_unit unit, double v)
{
	switch (unit) {
	case STANDOUT_TIME:
		snprintf(out, FMT_MAX, "%.1f %% of the time", v * 100);
		return out;
	case STANDOUT_SHARE:
		snprintf(out, FMT_MAX, "%.1f %%", v * 100);
		return out;
	case STANDOUT_BYTES:
		return fmt_bytes(out, v);
	default:
		snprintf(out, FMT_MAX, "%.0f", v);
		return out;
	}
}
