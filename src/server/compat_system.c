/* SPDX-License-Identifier: Apache-2.0
 *
 * compat_system.c - the last readings of a run's first host as a table: each row is a
 * reading of the CPU and what else was known then. python/lapse/_aliases.py has the same
 * columns for a running program.
 */
#include "server/compat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define COMPAT_MIB 1048576.0
#define COMPAT_GIB 1073741824.0
#define COMPAT_STALE_NS 15000000000LL /* an older value is no longer what is */
#define COMPAT_CLOCK "cpu/busy"       /* whose readings are the rows */

enum compat_how {
	COMPAT_SUM, /* of instances: disks, interfaces, GPUs */
	COMPAT_MEAN,
	COMPAT_MAX,
	COMPAT_RATE, /* of a counter, summed over instances */
	COMPAT_FIRST /* of processes: the first trainer */
};

struct compat_column_row {
	const char *name, *series;
	enum compat_how how;
	double scale;
	const char *over; /* the value is a share of this */
};

static const struct compat_column_row compat_columns[] = {
	{"cpu_usage_percent", "cpu/busy", COMPAT_SUM, 100, NULL},
	{"cpu_temperature", "cpu/temperature", COMPAT_MAX, 1, NULL},
	{"cpu_freq", "cpu/frequency", COMPAT_SUM, 1e-6, NULL},
	{"memory_usage_percent", "memory/used", COMPAT_SUM, 100, "memory/total"},
	{"memory_available_gb", "memory/available", COMPAT_SUM, 1 / COMPAT_GIB, NULL},
	{"swap_usage_percent", "swap/used", COMPAT_SUM, 100, "swap/total"},
	{"gpu_utilization", "gpu/busy", COMPAT_MEAN, 100, NULL},
	{"gpu_memory_utilization", "gpu/memory/used", COMPAT_MAX, 100, "gpu/memory/total"},
	{"gpu_temperature", "gpu/temperature", COMPAT_MAX, 1, NULL},
	{"gpu_power_watts", "gpu/power", COMPAT_SUM, 1, NULL},
	{"gpu_memory_mb", "gpu/memory/used", COMPAT_SUM, 1 / COMPAT_MIB, NULL},
	{"disk_read_mb_s", "disk/read", COMPAT_RATE, 1 / COMPAT_MIB, NULL},
	{"disk_write_mb_s", "disk/written", COMPAT_RATE, 1 / COMPAT_MIB, NULL},
	{"disk_usage_percent", "filesystem/used", COMPAT_SUM, 100, "filesystem/total"},
	{"network_sent_mb_s", "network/sent", COMPAT_RATE, 1 / COMPAT_MIB, NULL},
	{"network_recv_mb_s", "network/received", COMPAT_RATE, 1 / COMPAT_MIB, NULL},
	{"process_cpu_percent", "process/cpu", COMPAT_FIRST, 100, NULL},
	{"process_memory_mb", "process/rss", COMPAT_FIRST, 1 / COMPAT_MIB, NULL},
};

/* Points of a series near the rows. */
struct compat_points {
	const struct store_series *s;
	int64_t *times;
	double *values;
	size_t n, cap_times, cap_values;
	size_t at; /* points that are not after the row */
};

/* Series of one name; those of a share stand at the same places in both. */
struct compat_set {
	struct compat_points *points;
	size_t n, cap;
};

static void compat_set_done(struct compat_set *set)
{
	size_t i;

	for (i = 0; i < set->n; i++) {
		free(set->points[i].times);
		free(set->points[i].values);
	}
	free(set->points);
}

static int compat_block(void *arg, const struct store_block *b)
{
	struct compat_points *p = arg;
	size_t i;

	for (i = 0; i < b->n; i++) {
		p->times = xgrow(p->times, p->n, &p->cap_times, sizeof(*p->times));
		p->values = xgrow(p->values, p->n, &p->cap_values, sizeof(*p->values));
		p->times[p->n] = b->time_ns[i];
		p->values[p->n++] = b->value[i];
	}
	return 0;
}

/* Parts of GPUs are in the whole one, disks made of disks in those. */
static bool compat_counts(const struct store_series *s)
{
	char *device = store_series_label(s, "device"), *mig = store_series_label(s, "mig");
	bool is = !mig &&
		  !(device && (strncmp(device, "dm-", 3) == 0 || strncmp(device, "md", 2) == 0));

	free(device);
	free(mig);
	return is;
}

static int compat_read_set(const struct runview *v, unsigned host, const char *name, bool one,
			   const struct store_range *range, struct compat_set *set, struct err *e)
{
	struct compat_points *p;
	size_t i;
	int err = 0;

	for (i = 0; i < v->n_series && !err && !(one && set->n); i++) {
		const struct store_series *s = &v->series[i];

		if (s->host != host || s->kind == SINK_HISTOGRAM || strcmp(s->name, name) != 0 ||
		    strcmp(s->source, "record") == 0 || !compat_counts(s))
			continue;
		set->points = xgrow(set->points, set->n, &set->cap, sizeof(*set->points));
		p = &set->points[set->n++];
		*p = (struct compat_points){.s = s};
		err = store_reader_blocks(v->reader, s->host, s->id, range, compat_block, p, e);
	}
	return err;
}

/* The latest value at a time, if it is not old. */
static bool compat_value(struct compat_points *p, int64_t time_ns, double *ret)
{
	while (p->at < p->n && p->times[p->at] <= time_ns)
		p->at++;
	if (p->at == 0 || p->times[p->at - 1] < time_ns - COMPAT_STALE_NS)
		return false;
	*ret = p->values[p->at - 1];
	return true;
}

/* What came at the latest reading, a second; it is the amount since the one before. */
static bool compat_rate(struct compat_points *p, int64_t time_ns, double *ret)
{
	double amount;
	int64_t ns;

	if (!compat_value(p, time_ns, &amount) || p->at < 2)
		return false;
	ns = p->times[p->at - 1] - p->times[p->at - 2];
	if (ns <= 0)
		return false;
	*ret = amount / ((double)ns / 1e9);
	return true;
}

static const struct store_series *compat_clock(const struct runview *v)
{
	size_t i;

	for (i = 0; i < v->n_series; i++)
		if (strcmp(v->series[i].name, COMPAT_CLOCK) == 0 &&
		    v->series[i].labels[0] == '\0' && strcmp(v->series[i].source, "record") != 0 &&
		    v->series[i].count > v->series[i].lost)
			return &v->series[i];
	return NULL;
}

/* One GPU's share; of others the whole's is a sum over a sum. */
static bool compat_share(struct compat_set *set, struct compat_set *over, size_t i, int64_t time_ns,
			 double *ret)
{
	double v, whole;

	if (i >= over->n || !compat_value(&set->points[i], time_ns, &v) ||
	    !compat_value(&over->points[i], time_ns, &whole) || whole <= 0)
		return false;
	*ret = v / whole;
	return true;
}

static bool compat_total(struct compat_set *set, int64_t time_ns, double *ret)
{
	double sum = 0, v;
	bool any = false;
	size_t i;

	for (i = 0; i < set->n; i++) {
		if (!compat_value(&set->points[i], time_ns, &v))
			continue;
		sum += v;
		any = true;
	}
	*ret = sum;
	return any;
}

/* The value of a column at a time; false: it is not known. */
static bool compat_cell(const struct compat_column_row *c, struct compat_set *set,
			struct compat_set *over, int64_t time_ns, double *ret)
{
	double v, whole, sum = 0, max = -HUGE_VAL;
	size_t i, n = 0;
	bool is;

	if (c->over && c->how == COMPAT_SUM) {
		is = compat_total(set, time_ns, &v) && compat_total(over, time_ns, &whole) &&
		     whole > 0;
		*ret = is ? v / whole : 0;
		return is;
	}
	for (i = 0; i < set->n; i++) {
		is = c->over                 ? compat_share(set, over, i, time_ns, &v)
		     : c->how == COMPAT_RATE ? compat_rate(&set->points[i], time_ns, &v)
					     : compat_value(&set->points[i], time_ns, &v);
		if (!is)
			continue;
		n++;
		sum += v;
		max = fmax(max, v);
	}
	*ret = c->how == COMPAT_MEAN ? sum / (double)n : c->how == COMPAT_MAX ? max : sum;
	return n > 0;
}

static int compat_fill(const struct runview *v, unsigned host, const struct compat_column_row *c,
		       struct compat_table *t, struct err *e)
{
	struct compat_set set = {0}, over = {0};
	struct store_range range = {.by_time = true,
				    .time_min = t->rows[0].time_ns - 2 * COMPAT_STALE_NS,
				    .time_max = t->rows[t->n - 1].time_ns,
				    .all_segments = true};
	size_t i, column = compat_column(t, c->name);
	double value;
	int err = compat_read_set(v, host, c->series, c->how == COMPAT_FIRST, &range, &set, e);

	if (!err && c->over)
		err = compat_read_set(v, host, c->over, false, &range, &over, e);
	for (i = 0; i < t->n && !err; i++)
		if (compat_cell(c, &set, &over, t->rows[i].time_ns, &value))
			compat_set(&t->rows[i], column, value * c->scale);
	compat_set_done(&set);
	compat_set_done(&over);
	return err;
}

/* A row at each reading of the clock. */
static void compat_reading(void *arg, const struct store_point *p)
{
	compat_add(arg, p->time_ns, SINK_STEP_NONE, false);
}

int compat_system(const struct runview *v, size_t limit, struct compat_table *t, struct err *e)
{
	const struct store_series *s = compat_clock(v);
	size_t i;
	int err = s ? compat_last(v, s, limit, compat_reading, t, e) : 0;

	for (i = 0; i < ARRAY_LEN(compat_columns); i++)
		compat_column(t, compat_columns[i].name);
	for (i = 0; i < ARRAY_LEN(compat_columns) && t->n && !err; i++)
		err = compat_fill(v, s->host, &compat_columns[i], t, e);
	return err;
}
