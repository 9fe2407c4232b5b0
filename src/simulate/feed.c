/* SPDX-License-Identifier: Apache-2.0
 *
 * feed.c - one host's part of a run into a sink, step by step and reading by
 * reading, in the order of their times.
 */
#include "simulate/simulate_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fmt.h"
#include "base/json.h"
#include "base/mem.h"

#define FEED_BUFFER 32768 /* samples handed over in one call */
#define FEED_TEXT_MAX 4096

enum feed_severity {
	FEED_DEBUG,
	FEED_INFO,
	FEED_WARNING,
	FEED_ERROR
};

struct simulate_feed {
	const struct simulate *m;
	uint32_t host, first_rank, end_rank;
	struct sink *sink;
	uint32_t *processes; /* the sink's ids, as simulate_process() counts; 0: elsewhere */
	uint32_t *series;    /* the sink's ids, from the host's first series on */
	size_t machine;      /* of them, the series of the machine */
	uint64_t *stored;    /* records of each rank */
	int64_t index, tick; /* next */
	int64_t step_ns;     /* end of the next step */
	uint64_t points;
	struct sink_sample *buffer;
	size_t n;
	bool has_gauges;
};

/* ---- events -------------------------------------------------------------------------- */

static int feed_event(struct simulate_feed *f, uint32_t process, int64_t ns, int64_t step,
		      int severity, const char *kind, const char *text, const char *attrs)
{
	struct sink_event ev = {.process = f->processes[process],
				.time_ns = f->m->plan.o.start_ns + ns,
				.step = step,
				.severity = severity,
				.kind = kind,
				.text = text,
				.attrs = attrs};

	return f->sink->ops->event(f->sink, &ev);
}

/* Which process tells the truth about a fault. */
static uint32_t feed_fault_process(const struct simulate *m, const struct fault *f)
{
	switch (fault_rows[f->kind].place) {
	case FAULT_IN_LAST_RANK:
		return (uint32_t)m->rank_process[m->plan.o.ranks - 1];
	case FAULT_IN_RUN:
		return (uint32_t)m->rank_process[0];
	default:
		return 0; /* the first host */
	}
}

static void feed_truth(const struct plan *p, const struct fault *f, struct buf *out)
{
	const struct fault_row *row = &fault_rows[f->kind];
	struct json j;

	json_init(&j, out);
	json_object(&j);
	json_kstr(&j, "fault", row->name);
	json_kdouble(&j, "strength", f->strength);
	json_kint(&j, "first_step", plan_step(p, f->begin));
	json_kint(&j, "last_step", plan_step(p, f->end - 1));
	json_kint(&j, "first_index", f->begin);
	json_kint(&j, "end_index", f->end);
	json_kint(&j, "start_ns", p->o.start_ns + f->begin_ns);
	json_kint(&j, "end_ns", p->o.start_ns + f->end_ns);
	json_kstr(&j, "series", row->series);
	if (row->place == FAULT_IN_LAST_RANK)
		json_kint(&j, "rank", p->o.ranks - 1);
	if (row->place == FAULT_IN_GPU)
		json_kint(&j, "gpu", 0);
	json_object_end(&j);
}

/* What a real program or driver would have said. */
static int feed_fault_news(struct simulate_feed *f, const struct fault *fault)
{
	const struct simulate *m = f->m;
	struct simulate_process worker;
	char text[128];
	uint32_t id;
	int err;

	switch (fault->kind) {
	case FAULT_XID:
		snprintf(text, sizeof(text), "Xid %d on GPU 0", (int)fault->strength);
		return feed_event(f, 0, fault->begin_ns, SINK_STEP_NONE, FEED_ERROR, "xid", text,
				  "");
	case FAULT_ECC:
		snprintf(text, sizeof(text), "%d uncorrected memory errors on GPU 0",
			 (int)fault->strength);
		return feed_event(f, 0, fault->begin_ns, SINK_STEP_NONE, FEED_ERROR, "ecc", text,
				  "");
	case FAULT_WORKER_DEATH:
		simulate_process(m, m->n_processes - 1, &worker);
		worker.sink.end_ns = m->plan.o.start_ns + fault->begin_ns;
		err = f->sink->ops->process(f->sink, &worker.sink, &id);
		if (err)
			return err;
		return feed_event(f, (uint32_t)m->n_processes - 1, fault->begin_ns, SINK_STEP_NONE,
				  FEED_ERROR, "worker", "a data worker was killed", "");
	default:
		return 0;
	}
}

static int feed_fault(struct simulate_feed *f, const struct fault *fault)
{
	const struct plan *p = &f->m->plan;
	uint32_t process = feed_fault_process(f->m, fault);
	struct buf attrs;
	int err;

	if (f->m->processes[process].host != f->host)
		return 0;
	buf_init(&attrs, FEED_TEXT_MAX);
	feed_truth(p, fault, &attrs);
	err = feed_event(f, process, fault->begin_ns, plan_step(p, fault->begin), FEED_DEBUG,
			 "simulate", fault_rows[fault->kind].signature, buf_str(&attrs));
	buf_done(&attrs);
	return err ? err : feed_fault_news(f, fault);
}

/* What rank 0 says at a step. */
static int feed_news(struct simulate_feed *f, const struct plan_common *c)
{
	const struct plan *p = &f->m->plan;
	uint32_t process = (uint32_t)f->m->rank_process[0];
	int64_t end = c->begin_ns + c->step_ns;
	char text[64];
	int err = 0;

	if (c->index == p->split) {
		snprintf(text, sizeof(text), "resumed at step %lld", (long long)c->step);
		err = feed_event(f, process, c->begin_ns, c->step, FEED_INFO, "resume", text, "");
	}
	if (!err && plan_is_due(p, p->checkpoint_every, c->index)) {
		if (plan_is_due(p, p->eval_every, c->index))
			end += p->eval_ns;
		snprintf(text, sizeof(text), "checkpoint-%lld.pt", (long long)c->step);
		err = feed_event(f, process, end + p->checkpoint_ns, c->step, FEED_INFO,
				 "checkpoint", text, "");
	}
	return err;
}

static int feed_news_all(struct simulate_feed *f, const struct plan_common *c)
{
	const struct plan *p = &f->m->plan;
	unsigned i;
	int err = 0;

	for (i = 0; i < p->n_faults && !err; i++)
		if (p->faults[i].begin == c->index)
			err = feed_fault(f, &p->faults[i]);
	return err || f->host != 0 ? err : feed_news(f, c);
}

/* ---- samples --------------------------------------------------------------------------- */

static int feed_flush(struct simulate_feed *f)
{
	int err = f->n ? f->sink->ops->samples(f->sink, f->buffer, f->n) : 0;

	f->n = 0;
	return err;
}

static inline int feed_sample(struct simulate_feed *f, const struct shape_at *at, uint32_t series)
{
	struct sink_sample *v;
	int err;

	if (f->n == FEED_BUFFER) {
		err = feed_flush(f);
		if (err)
			return err;
	}
	v = &f->buffer[f->n++];
	simulate_sample(at, v);
	v->series = series;
	f->points++;
	return 0;
}

static int feed_hist(struct simulate_feed *f, const struct shape_at *at, uint32_t series)
{
	struct sink_bin bins[SIMULATE_BINS_MAX];
	struct sink_hist h;

	simulate_hist(at, bins, &h);
	h.series = series;
	f->points++;
	return f->sink->ops->hist(f->sink, &h);
}

static int feed_rank(struct simulate_feed *f, struct shape_at *at, const bool *due, uint32_t rank)
{
	const struct simulate *m = f->m;
	size_t base = m->host_series[f->host], i = m->rank_series[rank];
	size_t end =
		rank + 1 < f->end_rank ? m->rank_series[rank + 1] : m->host_series[f->host + 1];
	uint64_t before = f->points;
	struct plan_phases phases;
	int err = 0;

	plan_phases(at->p, at->c, rank, &phases);
	at->f = &phases;
	for (; i < end && !err; i++) {
		const struct simulate_series *s = &m->series[i];

		if (!due[s->row->every])
			continue;
		at->s = s;
		if (s->row->kind == SINK_HISTOGRAM)
			err = feed_hist(f, at, f->series[i - base]);
		else
			err = feed_sample(f, at, f->series[i - base]);
	}
	f->stored[rank - f->first_rank] += f->points - before;
	return err;
}

static int feed_gauges(struct simulate_feed *f, struct shape_at *at)
{
	const struct simulate *m = f->m;
	size_t at_id = m->host_series[1] - m->host_series[0];
	struct simulate_series s;
	struct plan_phases phases;
	uint32_t i;
	int err = 0;

	plan_phases(at->p, at->c, 0, &phases);
	at->f = &phases;
	at->s = &s;
	for (i = 0; i < m->gauges && !err; i++) {
		s = simulate_gauge(m, i);
		err = feed_sample(f, at, f->series[at_id + i]);
	}
	f->stored[0] += m->gauges;
	return err;
}

static int feed_step(struct simulate_feed *f)
{
	const struct plan *p = &f->m->plan;
	struct plan_common c;
	struct shape_at at = {.p = p, .c = &c, .index = f->index};
	bool due[SHAPE_EVERY];
	uint32_t rank;
	int err, i;

	plan_common(p, f->index, &c);
	for (i = 0; i < SHAPE_TICK; i++)
		due[i] = plan_is_due(p, shape_nth(p, (enum shape_every)i), f->index);
	err = feed_news_all(f, &c);
	for (rank = f->first_rank; rank < f->end_rank && !err; rank++)
		err = feed_rank(f, &at, due, rank);
	if (!err && f->has_gauges)
		err = feed_gauges(f, &at);
	f->index++;
	return err;
}

static int feed_tick(struct simulate_feed *f)
{
	const struct simulate *m = f->m;
	size_t base = m->host_series[f->host], i;
	struct plan_moment now;
	struct shape_at at = {.p = &m->plan, .now = &now, .index = f->tick};
	int err = 0;

	plan_moment(&m->plan, f->tick * m->plan.o.tick_ns, &now);
	for (i = 0; i < f->machine && !err; i++) {
		at.s = &m->series[base + i];
		err = feed_sample(f, &at, f->series[i]);
	}
	f->tick++;
	return err;
}

/* ---- definitions -------------------------------------------------------------------------- */

static int feed_define_process(struct simulate_feed *f, size_t i, int64_t end_ns)
{
	struct simulate_process p;

	simulate_process(f->m, i, &p);
	if (p.host != f->host)
		return 0;
	p.sink.end_ns = end_ns;
	return f->sink->ops->process(f->sink, &p.sink, &f->processes[i]);
}

static int feed_define_series(struct simulate_feed *f)
{
	const struct simulate *m = f->m;
	size_t base = m->host_series[f->host], n = m->host_series[f->host + 1] - base, i;
	size_t gauges = f->has_gauges ? m->gauges : 0;
	struct simulate_series s;
	int err = 0;

	f->series = xcalloc(n + gauges, sizeof(*f->series));
	for (i = 0; i < n + gauges && !err; i++) {
		struct sink_series d;

		simulate_series(m, i < n ? base + i : m->n_series + i - n, &s);
		d = (struct sink_series){.process = f->processes[s.process],
					 .name = s.name,
					 .labels = s.labels,
					 .unit = simulate_unit(&s),
					 .help = simulate_help(&s),
					 .kind = simulate_kind(&s),
					 .source = simulate_source(&s)};
		err = f->sink->ops->series(f->sink, &d, &f->series[i]);
	}
	return err;
}

static int feed_attrs(struct simulate_feed *f)
{
	const struct simulate_options *o = &f->m->plan.o;
	uint32_t process = f->processes[f->m->rank_process[f->first_rank]];
	const struct {
		const char *key;
		unsigned long long value;
	} rows[] = {{"simulate.seed", o->seed},
		    {"simulate.steps", (unsigned long long)o->steps},
		    {"simulate.period_ns", (unsigned long long)o->period_ns},
		    {"batch", SHAPE_BATCH}};
	char text[FMT_MAX];
	size_t i;
	int err = 0;

	for (i = 0; i < ARRAY_LEN(rows) && !err; i++) {
		snprintf(text, sizeof(text), "%llu", rows[i].value);
		err = f->sink->ops->attr(f->sink, process, rows[i].key, text);
	}
	return err ? err : f->sink->ops->attr(f->sink, process, "optimizer", "adamw");
}

static int feed_begin(struct simulate_feed *f)
{
	const struct simulate *m = f->m;
	size_t i;
	int err = 0;

	for (i = 0; i < m->n_processes && !err; i++)
		err = feed_define_process(f, i, 0);
	if (!err)
		err = feed_define_series(f);
	if (!err)
		err = feed_attrs(f);
	if (!err && f->host == 0)
		err = feed_event(f, 0, 0, SINK_STEP_NONE, FEED_INFO, "simulate",
				 "this run is made up, by lapse simulate", "");
	return err;
}

int simulate_feed_new(const struct simulate *m, uint32_t host, struct sink *s,
		      struct simulate_feed **ret)
{
	struct simulate_feed *f = xcalloc(1, sizeof(*f));
	const struct simulate_options *o = &m->plan.o;
	int err;

	f->m = m;
	f->host = host;
	f->sink = s;
	f->first_rank = simulate_first_rank(&m->plan, host);
	f->end_rank = simulate_first_rank(&m->plan, host + 1);
	f->has_gauges = host == 0 && m->gauges > 0;
	f->machine = shape_host.n + o->cpus * shape_cpu.n + o->gpus * shape_gpu.n + shape_tree.n;
	f->processes = xcalloc(m->n_processes, sizeof(*f->processes));
	f->stored = xcalloc(f->end_rank - f->first_rank, sizeof(*f->stored));
	f->buffer = xcalloc(FEED_BUFFER, sizeof(*f->buffer));
	err = feed_begin(f);
	if (err)
		simulate_feed_free(f);
	else
		*ret = f;
	return err;
}

void simulate_feed_free(struct simulate_feed *f)
{
	if (!f)
		return;
	free(f->processes);
	free(f->series);
	free(f->stored);
	free(f->buffer);
	free(f);
}

/* ---- pushing --------------------------------------------------------------------------------- */

/* Every record of a simulated ring has been stored. */
static int feed_positions(struct simulate_feed *f)
{
	struct sink_position pos = {0};
	struct simulate_process p;
	uint32_t rank;
	int err = 0;

	for (rank = f->first_rank; rank < f->end_rank && !err; rank++) {
		simulate_process(f->m, f->m->rank_process[rank], &p);
		memcpy(pos.ring, p.sink.uid, sizeof(pos.ring));
		pos.process = f->processes[f->m->rank_process[rank]];
		pos.pos = pos.rec = pos.stored = f->stored[rank - f->first_rank];
		err = f->sink->ops->position(f->sink, &pos);
	}
	return err;
}

bool simulate_feed_is_done(const struct simulate_feed *f)
{
	return f->index >= f->m->plan.done && f->tick >= f->m->plan.ticks;
}

uint64_t simulate_feed_points(const struct simulate_feed *f)
{
	return f->points;
}

int64_t simulate_feed_ns(const struct simulate_feed *f)
{
	const struct plan *p = &f->m->plan;
	int64_t step = f->index < p->done ? plan_begin(p, f->index) : p->end_ns;
	int64_t tick = f->tick < p->ticks ? f->tick * p->o.tick_ns : p->end_ns;

	return step < tick ? step : tick;
}

int simulate_feed_push(struct simulate_feed *f, int64_t until_ns, uint64_t most)
{
	const struct plan *p = &f->m->plan;
	uint64_t end = f->points + most;
	int64_t step_ns, tick_ns;
	int err = 0;

	while (!err && f->points < end) {
		step_ns = f->index < p->done ? plan_begin(p, f->index + 1) : INT64_MAX;
		tick_ns = f->tick < p->ticks ? f->tick * p->o.tick_ns : INT64_MAX;
		if ((step_ns < tick_ns ? step_ns : tick_ns) > until_ns ||
		    simulate_feed_is_done(f)) {
			end = 0;
			break;
		}
		err = step_ns <= tick_ns ? feed_step(f) : feed_tick(f);
	}
	if (!err)
		err = feed_flush(f);
	if (!err)
		err = feed_positions(f);
	return err ? err : end > 0;
}

int simulate_feed_end(struct simulate_feed *f, int64_t end_ns)
{
	const struct fault *faults;
	unsigned n = simulate_faults(f->m, &faults), i;
	size_t last = f->m->n_processes - 1, k;
	int err = 0;

	for (i = 0; i < n; i++)
		if (faults[i].kind == FAULT_WORKER_DEATH && faults[i].begin < f->index)
			last = f->m->n_processes - 2; /* that worker has ended already */
	for (k = 0; k <= last && !err; k++)
		err = feed_define_process(f, k, f->m->plan.o.start_ns + end_ns);
	return err;
}
