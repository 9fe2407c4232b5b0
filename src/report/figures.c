/* SPDX-License-Identifier: Apache-2.0
 *
 * figures.c - see figures.h. One series after the other is read and forgotten;
 * only step times (16 bytes a step) and one phase's durations are held at once.
 */
#include "report/figures.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "report/quantile.h"

#define FIGURES_STEP "step"
#define FIGURES_EPOCH "epoch"

/* All attempts count for times: they were spent. */
static const struct store_range figures_all = {.all_segments = true};

/* Start and end of the steps of one process. */
struct figures_times {
	const struct store_series *series;
	struct figures_interval {
		int64_t start, end;
	} * steps;
	size_t n, cap;
	bool incomplete; /* more than FIGURES_STEPS_MAX */
};

struct figures_reader {
	struct figures *f;
	struct figures_times *times; /* one a rank, same order */
	struct err *e;
};

/* What one walk over a span series fills. */
struct figures_walk {
	struct quantiles *q, *all; /* all may be NULL */
	struct figures_times *times;
	struct figures_rank *rank; /* NULL for phases */
	double in_steps_ns;
	bool any_in_step;
};

static int figures_step_point(void *arg, const struct store_point *p)
{
	struct figures_walk *w = arg;
	struct figures_times *t = w->times;
	int64_t end = p->time_ns + (int64_t)p->value;

	if (w->q->count == 0) {
		w->rank->first_step_s = p->value / 1e9;
		w->rank->start_ns = p->time_ns;
	}
	quantiles_add(w->q, p->value);
	quantiles_add(w->all, p->value);
	w->rank->last_step = p->step;
	if (end > w->rank->end_ns)
		w->rank->end_ns = end;
	if (p->segment > w->rank->segments)
		w->rank->segments = p->segment;
	if (t->n == FIGURES_STEPS_MAX) {
		t->incomplete = true;
		return 0;
	}
	t->steps = xgrow(t->steps, t->n, &t->cap, sizeof(*t->steps));
	t->steps[t->n++] = (struct figures_interval){p->time_ns, end};
	return 0;
}

static int figures_compare_interval(const void *a, const void *b)
{
	int64_t x = ((const struct figures_interval *)a)->start;
	int64_t y = ((const struct figures_interval *)b)->start;

	return (x > y) - (x < y);
}

/* How much of start..end lies in the step in which it begins; -1: in none. */
static int64_t figures_in_step(const struct figures_times *t, int64_t start, int64_t end)
{
	size_t lo = 0, hi = t->n, mid;
	const struct figures_interval *s;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (t->steps[mid].start <= start)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0)
		return -1;
	s = &t->steps[lo - 1];
	if (start >= s->end)
		return -1;
	return (end < s->end ? end : s->end) - start;
}

static int figures_phase_point(void *arg, const struct store_point *p)
{
	struct figures_walk *w = arg;
	int64_t inside;

	quantiles_add(w->q, p->value);
	if (!w->times)
		return 0;
	inside = figures_in_step(w->times, p->time_ns, p->time_ns + (int64_t)p->value);
	if (inside >= 0) {
		w->in_steps_ns += (double)inside;
		w->any_in_step = true;
	}
	return 0;
}

static struct figures_spread figures_spread(struct quantiles *q)
{
	return (struct figures_spread){.count = q->count,
				       .total_s = q->total / 1e9,
				       .p50_s = quantiles_get(q, 50) / 1e9,
				       .p95_s = quantiles_get(q, 95) / 1e9,
				       .p99_s = quantiles_get(q, 99) / 1e9,
				       .max_s = q->count ? q->max / 1e9 : NAN};
}

static int figures_compare_rank(const void *a, const void *b)
{
	return runview_process_order(((const struct figures_rank *)a)->process,
				     ((const struct figures_rank *)b)->process);
}

static const struct store_series *figures_find(const struct runview *v, unsigned host,
					       uint32_t process, const char *name,
					       enum sink_kind kind)
{
	size_t i;

	for (i = 0; i < v->n_series; i++) {
		const struct store_series *s = &v->series[i];

		if (s->host == host && s->process == process && s->kind == kind &&
		    strcmp(s->name, name) == 0)
			return s;
	}
	return NULL;
}

/* The processes with steps, by rank. */
static void figures_find_ranks(struct figures *f)
{
	size_t i;

	for (i = 0; i < f->v->n_processes; i++) {
		const struct store_process *p = &f->v->processes[i];
		const struct store_series *s =
			figures_find(f->v, p->host, p->id, FIGURES_STEP, SINK_SPAN);

		if (!s || s->count == 0)
			continue;
		f->ranks = xrealloc(f->ranks, f->n_ranks + 1, sizeof(*f->ranks));
		f->ranks[f->n_ranks++] =
			(struct figures_rank){.process = p, .last_step = SINK_STEP_NONE};
	}
	if (f->n_ranks > 0)
		qsort(f->ranks, f->n_ranks, sizeof(*f->ranks), figures_compare_rank);
}

static int figures_read_counter(const struct figures *f, const struct figures_rank *r,
				const char *name, double *ret_sum, uint64_t *ret_steps,
				struct err *e)
{
	const struct store_series *s =
		figures_find(f->v, r->process->host, r->process->id, name, SINK_COUNTER);
	struct runview_stat stat = {0};
	int err;

	if (!s)
		return 0;
	err = runview_stat(f->v, s, &figures_all, &stat, e);
	if (err)
		return err;
	*ret_sum = stat.sum;
	*ret_steps = stat.count - stat.nan;
	return 0;
}

static int figures_read_ranks(struct figures_reader *r)
{
	struct figures *f = r->f;
	struct quantiles all = {0};
	size_t i;
	int err = 0;

	for (i = 0; i < f->n_ranks && !err; i++) {
		struct figures_rank *rank = &f->ranks[i];
		struct quantiles q = {0};
		struct figures_walk w = {.q = &q, .all = &all, .times = &r->times[i], .rank = rank};

		r->times[i].series = figures_find(f->v, rank->process->host, rank->process->id,
						  FIGURES_STEP, SINK_SPAN);
		err = store_reader_points(f->v->reader, r->times[i].series->host,
					  r->times[i].series->id, &figures_all, figures_step_point,
					  &w, r->e);
		rank->step = figures_spread(&q);
		quantiles_done(&q);
		if (r->times[i].n > 0)
			qsort(r->times[i].steps, r->times[i].n, sizeof(*r->times[i].steps),
			      figures_compare_interval);
		if (!err)
			err = figures_read_counter(f, rank, "lapse/step/samples", &rank->samples,
						   &rank->sampled, r->e);
		if (!err)
			err = figures_read_counter(f, rank, "lapse/step/tokens", &rank->tokens,
						   &rank->tokened, r->e);
	}
	f->step = figures_spread(&all);
	quantiles_done(&all);
	return err;
}

static struct figures_times *figures_times_of(const struct figures_reader *r,
					      const struct store_series *s)
{
	size_t i;

	for (i = 0; i < r->f->n_ranks; i++)
		if (r->times[i].series->host == s->host &&
		    r->times[i].series->process == s->process)
			return r->times[i].incomplete ? NULL : &r->times[i];
	return NULL;
}

/* All series of one span name, from the first one on, as one phase. */
static int figures_read_phase(struct figures_reader *r, size_t first)
{
	const struct runview *v = r->f->v;
	struct figures_phase *phase;
	struct quantiles q = {0};
	struct figures_walk w = {.q = &q};
	size_t i;
	int err = 0;

	for (i = first; i < v->n_series && !err; i++) {
		const struct store_series *s = &v->series[i];

		if (s->kind != SINK_SPAN || strcmp(s->name, v->series[first].name) != 0)
			continue;
		w.times = figures_times_of(r, s);
		err = store_reader_points(v->reader, s->host, s->id, &figures_all,
					  figures_phase_point, &w, r->e);
	}
	if (!err && q.count > 0) {
		r->f->phases = xrealloc(r->f->phases, r->f->n_phases + 1, sizeof(*r->f->phases));
		phase = &r->f->phases[r->f->n_phases++];
		phase->name = v->series[first].name;
		phase->spread = figures_spread(&q);
		phase->in_steps_s = w.in_steps_ns / 1e9;
		phase->share = w.any_in_step ? phase->in_steps_s / r->f->step.total_s : NAN;
	}
	quantiles_done(&q);
	return err;
}

static int figures_compare_phase(const void *a, const void *b)
{
	const struct figures_phase *x = a, *y = b;

	if (x->spread.total_s != y->spread.total_s)
		return x->spread.total_s > y->spread.total_s ? -1 : 1;
	return strcmp(x->name, y->name);
}

static bool figures_seen_before(const struct runview *v, size_t i)
{
	size_t k;

	for (k = 0; k < i; k++)
		if (v->series[k].kind == SINK_SPAN &&
		    strcmp(v->series[k].name, v->series[i].name) == 0)
			return true;
	return false;
}

static int figures_read_phases(struct figures_reader *r)
{
	const struct runview *v = r->f->v;
	size_t i;
	int err;

	for (i = 0; i < v->n_series; i++) {
		const struct store_series *s = &v->series[i];

		if (s->kind != SINK_SPAN || strcmp(s->name, FIGURES_STEP) == 0 ||
		    strcmp(s->name, FIGURES_EPOCH) == 0 || figures_seen_before(v, i))
			continue;
		err = figures_read_phase(r, i);
		if (err)
			return err;
	}
	if (r->f->n_phases > 0)
		qsort(r->f->phases, r->f->n_phases, sizeof(*r->f->phases), figures_compare_phase);
	return 0;
}

/* A gauge is a loss by its name; training losses come first in the report. */
static const char *const figures_loss_names[] = {
	"loss",      "train/loss", "train_loss", "val/loss",  "valid/loss", "validation/loss",
	"eval/loss", "loss/val",   "val_loss",   "eval_loss", "test/loss",
};

/* The one of the lowest rank, as all ranks of a job mostly log the same. */
static const struct store_series *figures_find_loss(const struct runview *v, const char *name)
{
	const struct store_series *best = NULL;
	size_t i;

	for (i = 0; i < v->n_series; i++) {
		const struct store_series *s = &v->series[i];

		if (s->kind == SINK_GAUGE && s->count > 0 && strcmp(s->name, name) == 0 &&
		    (!best || store_series_is_before(s, best)))
			best = s;
	}
	return best;
}

static int figures_read_losses(struct figures *f, struct err *e)
{
	size_t i;
	int err;

	f->losses = xcalloc(ARRAY_LEN(figures_loss_names), sizeof(*f->losses));
	for (i = 0; i < ARRAY_LEN(figures_loss_names); i++) {
		const struct store_series *s = figures_find_loss(f->v, figures_loss_names[i]);

		if (!s)
			continue;
		f->losses[f->n_losses].series = s;
		err = runview_stat(f->v, s, NULL, &f->losses[f->n_losses].stat, e);
		if (err)
			return err;
		f->n_losses++;
	}
	return 0;
}

static struct figures_machine *figures_machine_of(struct figures *f, const struct store_series *s)
{
	size_t i;

	for (i = 0; i < f->n_machines; i++)
		if (strcmp(f->machines[i].host, s->host_name) == 0)
			return &f->machines[i];
	f->machines = xrealloc(f->machines, f->n_machines + 1, sizeof(*f->machines));
	f->machines[f->n_machines] = (struct figures_machine){.host = s->host_name};
	return &f->machines[f->n_machines++];
}

static int figures_read_machines(struct figures *f, struct err *e)
{
	static const struct {
		const char *name;
		size_t offset;
	} rows[] = {
		{"cpu/busy", offsetof(struct figures_machine, busy)},
		{"tree/cpu", offsetof(struct figures_machine, tree_cpu)},
		{"tree/rss", offsetof(struct figures_machine, tree_rss)},
		{"memory/used", offsetof(struct figures_machine, used)},
		{"memory/total", offsetof(struct figures_machine, total)},
		{"memory/limit", offsetof(struct figures_machine, limit)},
	};
	size_t i, row;
	int err;

	for (i = 0; i < f->v->n_series; i++) {
		const struct store_series *s = &f->v->series[i];

		/* A program may have a gauge of that name too. */
		if (s->kind != SINK_GAUGE || s->count == 0 || strcmp(s->source, "record") == 0)
			continue;
		for (row = 0; row < ARRAY_LEN(rows); row++) {
			if (strcmp(s->name, rows[row].name) != 0 || s->labels[0] != '\0')
				continue;
			err = runview_stat(
				f->v, s, &figures_all,
				(void *)((char *)figures_machine_of(f, s) + rows[row].offset), e);
			if (err)
				return err;
		}
	}
	return 0;
}

static void figures_rate(struct figures *f, struct figures_rate *rate, bool tokens)
{
	size_t i;

	for (i = 0; i < f->n_ranks; i++) {
		const struct figures_rank *r = &f->ranks[i];
		uint64_t known = tokens ? r->tokened : r->sampled;
		double sum = tokens ? r->tokens : r->samples;

		rate->steps_without += known < r->step.count ? r->step.count - known : 0;
		if (known == 0)
			continue;
		rate->known = true;
		rate->sum += sum;
		rate->in_steps += sum / r->step.total_s;
	}
	rate->overall = rate->sum / f->overall_s;
	/* A rate over no time is not known. */
	if (!isfinite(rate->in_steps) || !isfinite(rate->overall))
		rate->known = false;
}

static void figures_read_times(struct figures *f)
{
	int64_t start = INT64_MAX, end = INT64_MIN;
	size_t i;

	for (i = 0; i < f->n_ranks; i++) {
		if (f->ranks[i].start_ns < start)
			start = f->ranks[i].start_ns;
		if (f->ranks[i].end_ns > end)
			end = f->ranks[i].end_ns;
	}
	f->overall_s = f->n_ranks ? (double)(end - start) / 1e9 : 0;
	f->active_s = f->n_ranks ? f->step.total_s / (double)f->n_ranks : 0;
	figures_rate(f, &f->samples, false);
	figures_rate(f, &f->tokens, true);
	for (i = 0; i < f->v->n_processes; i++) {
		f->stored += f->v->processes[i].stored;
		f->dropped += f->v->processes[i].dropped;
		f->overwritten += f->v->processes[i].overwritten;
		f->broken += f->v->processes[i].broken;
		f->refused += f->v->processes[i].refused;
	}
}

uint64_t figures_attempts(const struct figures *f)
{
	return f->stored + f->dropped + f->overwritten + f->broken;
}

int figures_read(struct figures *f, const struct runview *v, struct err *e)
{
	struct figures_reader r = {.f = f, .e = e};
	size_t i;
	int err;

	*f = (struct figures){
		.v = v, .events = {.keep = FIGURES_EVENTS, .min_severity = 2, .no_failure = true}};
	figures_find_ranks(f);
	r.times = xcalloc(f->n_ranks, sizeof(*r.times));
	err = figures_read_ranks(&r);
	if (!err)
		err = figures_read_phases(&r);
	if (!err)
		err = figures_read_losses(f, e);
	if (!err)
		err = figures_read_machines(f, e);
	if (!err)
		err = events_read(&f->events, v, e);
	figures_read_times(f);
	for (i = 0; i < f->n_ranks; i++)
		free(r.times[i].steps);
	free(r.times);
	if (err)
		figures_done(f);
	return err;
}

void figures_done(struct figures *f)
{
	free(f->ranks);
	free(f->phases);
	free(f->losses);
	free(f->machines);
	events_done(&f->events);
	*f = (struct figures){0};
}
