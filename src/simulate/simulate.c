/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate.c - the lists of processes and series of a run, and any one of their
 * points.
 */
#include "simulate/simulate.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "simulate/simulate_priv.h"

#define SIMULATE_PID 1000
#define SIMULATE_WORKER_PID 900
#define SIMULATE_KEY_GAUGE 0x4755414745u

static const char *const simulate_roles[SIMULATE_ROLES] = {
	[SIMULATE_HOST] = "host",
	[SIMULATE_COMMAND] = "command",
	[SIMULATE_TRAINER] = "trainer",
	[SIMULATE_WORKER] = "worker",
};

/* ---- lists ----------------------------------------------------------------------- */

uint32_t simulate_first_rank(const struct plan *p, uint32_t host)
{
	return (uint32_t)(((uint64_t)host * p->o.ranks + p->o.hosts - 1) / p->o.hosts);
}

uint32_t simulate_pid(const struct simulate_one *one)
{
	const uint32_t base[SIMULATE_ROLES] = {0, SIMULATE_WORKER_PID - 1, SIMULATE_PID,
					       SIMULATE_WORKER_PID};

	return base[one->role] + (one->role >= SIMULATE_TRAINER ? one->rank : 0);
}

static uint32_t simulate_add_process(struct simulate *m, uint32_t host, enum simulate_role role,
				     uint32_t rank)
{
	m->processes =
		xgrow(m->processes, m->n_processes, &m->cap_processes, sizeof(*m->processes));
	m->processes[m->n_processes] = (struct simulate_one){host, rank, role};
	return (uint32_t)m->n_processes++;
}

/* The key depends on what the series is, not on how many others there are. */
static void simulate_add(struct simulate *m, const struct simulate_row *row, uint32_t process,
			 uint32_t unit, const char *label)
{
	const struct simulate_one *one = &m->processes[process];
	struct simulate_series s = {
		.row = row, .host = one->host, .rank = one->rank, .unit = unit, .process = process};
	char text[128];
	int n;

	snprintf(s.name, sizeof(s.name), "%s", row->name);
	if (label)
		snprintf(s.labels, sizeof(s.labels), "%s=\"%u\"", label, unit);
	else if (row->labels)
		snprintf(s.labels, sizeof(s.labels), "%s", row->labels);
	n = snprintf(text, sizeof(text), "%s %u %s %s", simulate_roles[one->role],
		     one->role == SIMULATE_TRAINER ? one->rank : one->host, s.name, s.labels);
	s.key = plan_bits(map_hash(text, (size_t)n), (int64_t)m->plan.key);
	m->series = xgrow(m->series, m->n_series, &m->cap_series, sizeof(*m->series));
	m->series[m->n_series++] = s;
}

static void simulate_add_table(struct simulate *m, const struct shape_table *t, uint32_t process,
			       uint32_t unit, const char *label)
{
	unsigned i;

	for (i = 0; i < t->n; i++)
		simulate_add(m, &t->rows[i], process, unit, label);
}

static void simulate_add_rank(struct simulate *m, uint32_t host, uint32_t rank)
{
	uint32_t process = simulate_add_process(m, host, SIMULATE_TRAINER, rank);

	m->rank_process[rank] = process;
	m->rank_series[rank] = m->n_series;
	simulate_add_table(m, &shape_rank, process, 0, NULL);
	if (m->plan.o.ranks > 1)
		simulate_add(m, &shape_sync, process, 0, NULL);
	if (rank == 0)
		simulate_add_table(m, &shape_first, process, 0, NULL);
}

static void simulate_add_host(struct simulate *m, uint32_t host)
{
	const struct simulate_options *o = &m->plan.o;
	uint32_t process = simulate_add_process(m, host, SIMULATE_HOST, 0), i;

	m->host_series[host] = m->n_series;
	simulate_add_table(m, &shape_host, process, 0, NULL);
	for (i = 0; i < o->cpus; i++)
		simulate_add_table(m, &shape_cpu, process, i, "cpu");
	for (i = 0; i < o->gpus; i++)
		simulate_add_table(m, &shape_gpu, process, i, "gpu");
	process = simulate_add_process(m, host, SIMULATE_COMMAND, 0);
	simulate_add_table(m, &shape_tree, process, 0, NULL);
	for (i = simulate_first_rank(&m->plan, host); i < simulate_first_rank(&m->plan, host + 1);
	     i++)
		simulate_add_rank(m, host, i);
}

int simulate_new(const struct simulate_options *o, struct err *e, struct simulate **ret)
{
	struct simulate *m = xcalloc(1, sizeof(*m));
	uint32_t i;
	int err = plan_init(&m->plan, o, e);

	if (err) {
		free(m);
		return err;
	}
	m->host_series = xcalloc((size_t)o->hosts + 1, sizeof(size_t));
	m->rank_series = xcalloc(o->ranks, sizeof(size_t));
	m->rank_process = xcalloc(o->ranks, sizeof(size_t));
	for (i = 0; i < o->hosts; i++)
		simulate_add_host(m, i);
	m->host_series[o->hosts] = m->n_series;
	for (i = 0; i < SHAPE_WORKERS; i++)
		simulate_add_process(m, 0, SIMULATE_WORKER, i);
	if (o->series > m->n_series)
		m->gauges = o->series - (uint32_t)m->n_series;
	*ret = m;
	return 0;
}

void simulate_free(struct simulate *m)
{
	if (!m)
		return;
	free(m->processes);
	free(m->series);
	free(m->host_series);
	free(m->rank_series);
	free(m->rank_process);
	free(m);
}

/* ---- asking ------------------------------------------------------------------------ */

int simulate_process(const struct simulate *m, size_t i, struct simulate_process *ret)
{
	const struct simulate_one *one;
	struct sink_process *p = &ret->sink;
	uint32_t first;
	uint64_t id[2];

	if (i >= m->n_processes)
		return -ENOENT;
	one = &m->processes[i];
	ret->host = one->host;
	*p = (struct sink_process){.pid = simulate_pid(one),
				   .role = simulate_roles[one->role],
				   .program = one->role >= SIMULATE_TRAINER ? "train.py" : "",
				   .rank = -1,
				   .local_rank = -1,
				   .world_size = -1,
				   .start_ns = m->plan.o.start_ns};
	if (one->role == SIMULATE_TRAINER) {
		first = simulate_first_rank(&m->plan, one->host);
		p->ppid = SIMULATE_WORKER_PID - 1;
		p->rank = one->rank;
		p->local_rank = one->rank - first;
		p->world_size = m->plan.o.ranks;
	} else if (one->role == SIMULATE_WORKER) {
		p->ppid = SIMULATE_PID;
	}
	if (one->role < SIMULATE_TRAINER) {
		snprintf((char *)p->uid, sizeof(p->uid), "%s", p->role);
		return 0;
	}
	id[0] = plan_bits(m->plan.key, (int64_t)one->role);
	id[1] = one->rank;
	memcpy(p->uid, id, sizeof(id));
	return 0;
}

struct simulate_series simulate_gauge(const struct simulate *m, uint32_t i)
{
	return (struct simulate_series){.row = &shape_gauge,
					.unit = i,
					.key = plan_bits(m->plan.key ^ SIMULATE_KEY_GAUGE, i),
					.process = (uint32_t)m->rank_process[0]};
}

void simulate_series(const struct simulate *m, size_t i, struct simulate_series *ret)
{
	if (i < m->n_series) {
		*ret = m->series[i];
		return;
	}
	*ret = simulate_gauge(m, (uint32_t)(i - m->n_series));
	snprintf(ret->name, sizeof(ret->name), "gauge/%06u", ret->unit);
}

const char *simulate_unit(const struct simulate_series *s)
{
	return s->row->kind == SINK_SPAN ? "ns" : s->row->unit;
}

const char *simulate_help(const struct simulate_series *s)
{
	return s->row->help;
}

enum sink_kind simulate_kind(const struct simulate_series *s)
{
	return s->row->kind;
}

const char *simulate_source(const struct simulate_series *s)
{
	return s->row->every == SHAPE_TICK ? "probe" : "record";
}

uint64_t simulate_points(const struct simulate *m, const struct simulate_series *s)
{
	const struct plan *p = &m->plan;

	if (s->row->every == SHAPE_TICK)
		return (uint64_t)p->ticks;
	return (uint64_t)plan_count(p, shape_nth(p, s->row->every), p->done);
}

void simulate_size(const struct simulate *m, struct simulate_size *ret)
{
	struct simulate_size size = {.end_ns = m->plan.end_ns,
				     .steps = m->plan.done,
				     .series = m->n_series + m->gauges,
				     .oom = m->plan.oom_ns >= 0};
	size_t i;

	for (i = 0; i < m->n_series; i++)
		size.points += simulate_points(m, &m->series[i]);
	size.points += (uint64_t)m->gauges * (uint64_t)m->plan.done;
	*ret = size;
}

unsigned simulate_faults(const struct simulate *m, const struct fault **ret)
{
	*ret = m->plan.faults;
	return m->plan.n_faults;
}

/* ---- one point ----------------------------------------------------------------------- */

void simulate_sample(const struct shape_at *at, struct sink_sample *ret)
{
	const struct simulate_row *row = at->s->row;
	int64_t ns, length;

	ret->series = 0;
	if (at->now) {
		ret->time_ns = at->p->o.start_ns + at->now->ns;
		ret->step = SINK_STEP_NONE;
		ret->thread = 0;
		ret->value = row->value(at);
		return;
	}
	ret->step = at->c->step;
	ret->thread = SIMULATE_PID + at->s->rank;
	if (row->when == SHAPE_AT_SPAN) {
		row->span(at, &ns, &length);
		ret->value = (double)length;
	} else {
		ns = at->f->at_ns[PLAN_PHASES];
		if (row->when == SHAPE_AT_EVAL_END)
			ns += at->p->eval_ns;
		ret->value = row->value(at);
	}
	ret->time_ns = at->p->o.start_ns + ns;
}

static int simulate_compare_key(const void *a, const void *b)
{
	return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

void simulate_hist(const struct shape_at *at, struct sink_bin *bins, struct sink_hist *ret)
{
	double v[SIMULATE_BINS_MAX];
	uint16_t keys[SIMULATE_BINS_MAX];
	struct sink_hist h = {.step = at->c->step, .count = SIMULATE_BINS_MAX, .bins = bins};
	uint64_t bits;
	int i;

	shape_observe(at, v);
	h.time_ns = at->p->o.start_ns + at->f->at_ns[PLAN_PHASES];
	h.min = h.max = v[0];
	for (i = 0; i < SIMULATE_BINS_MAX; i++) {
		memcpy(&bits, &v[i], sizeof(bits));
		keys[i] = (uint16_t)(bits >> 48);
		h.sum += v[i];
		h.min = v[i] < h.min ? v[i] : h.min;
		h.max = v[i] > h.max ? v[i] : h.max;
	}
	qsort(keys, SIMULATE_BINS_MAX, sizeof(*keys), simulate_compare_key);
	for (i = 0; i < SIMULATE_BINS_MAX; i++) {
		if (i == 0 || keys[i] != keys[i - 1])
			bins[h.n_bins++] = (struct sink_bin){keys[i], 0};
		bins[h.n_bins - 1].count++;
	}
	*ret = h;
}

void simulate_point(const struct simulate *m, const struct simulate_series *s, uint64_t k,
		    struct simulate_point *ret)
{
	const struct plan *p = &m->plan;
	struct plan_common c;
	struct plan_phases f;
	struct plan_moment now;
	struct shape_at at = {.p = p, .s = s, .index = (int64_t)k};
	struct sink_sample v = {0};

	ret->hist = (struct sink_hist){0};
	if (s->row->every == SHAPE_TICK) {
		plan_moment(p, (int64_t)k * p->o.tick_ns, &now);
		at.now = &now;
	} else {
		at.index = plan_index(p, shape_nth(p, s->row->every), (int64_t)k);
		plan_common(p, at.index, &c);
		plan_phases(p, &c, s->rank, &f);
		at.c = &c;
		at.f = &f;
	}
	if (s->row->kind == SINK_HISTOGRAM) {
		simulate_hist(&at, ret->bins, &ret->hist);
		ret->time_ns = ret->hist.time_ns;
		ret->step = ret->hist.step;
		ret->value = ret->hist.sum / (double)ret->hist.count;
		ret->thread = 0;
		return;
	}
	simulate_sample(&at, &v);
	ret->time_ns = v.time_ns;
	ret->step = v.step;
	ret->value = v.value;
	ret->thread = v.thread;
}

double simulate_value(const struct simulate *m, const struct simulate_series *s, uint64_t k)
{
	struct simulate_point point;

	simulate_point(m, s, k, &point);
	return point.value;
}
