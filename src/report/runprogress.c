/* SPDX-License-Identifier: Apache-2.0 */
#include "report/runprogress.h"

#include "base/mem.h"
#include "base/number.h"
#include "report/pick.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Attributes that say how much there is to do, as people call them. */
static const char *const runprogress_totals[] = {"total_steps", "max_steps", "num_training_steps",
						 "simulate.steps"};
static const char *const runprogress_epochs[] = {"epochs", "max_epochs", "num_epochs",
						 "num_train_epochs"};
static const char *const runprogress_epoch_names[] = {"epoch/number", "epoch"};

static int64_t runprogress_in(const char *key, const char *value, const char *const *names,
			      size_t n)
{
	int64_t v;
	size_t i;

	if (!strncmp(key, "config/", 7))
		key += 7;
	for (i = 0; i < n; i++)
		if (!strcmp(key, names[i]) && !number_int(value, &v) && v > 0)
			return v;
	return 0;
}

static int runprogress_attr(void *arg, unsigned host, uint32_t process, const char *key,
			    const char *value)
{
	struct runprogress *p = arg;
	int64_t of = runprogress_in(key, value, runprogress_totals, ARRAY_LEN(runprogress_totals));
	int64_t n = runprogress_in(key, value, runprogress_epochs, ARRAY_LEN(runprogress_epochs));

	(void)host;
	(void)process;
	if (of)
		p->of = of;
	if (n)
		p->epochs = n;
	return 0;
}

/* The program's series of that name and kind that stands for all; NULL: there is none. */
static const struct store_series *runprogress_find(const struct runview *v, const char *name,
						   enum sink_kind kind)
{
	const struct store_series *best = NULL, *s;
	size_t i;

	for (i = 0; i < v->n_series; i++) {
		s = &v->series[i];
		if (s->kind != kind || !s->count || strcmp(s->name, name) ||
		    !strcmp(s->source, "probe"))
			continue;
		if (!best || store_series_is_before(s, best))
			best = s;
	}
	return best;
}

/* All points of a series since a moment in one bucket; count 0: there are none. */
static int runprogress_total(const struct runview *v, const struct store_series *s,
			     int64_t since_ns, struct store_bucket *ret, struct err *e)
{
	const struct store_ref ref = {s->host, s->id};
	struct store_query ask = {.points = 1, .no_raw = true};
	struct store_result got;
	int r;

	if (since_ns > INT64_MIN)
		ask.range = (struct store_range){
			.by_time = true, .time_min = since_ns, .time_max = INT64_MAX};
	r = store_reader_query(v->reader, &ask, &ref, 1, e, NULL, &got);
	if (r)
		return r;
	*ret = got.n ? got.buckets[0] : (struct store_bucket){0};
	store_results_free(&got, 1);
	return 0;
}

/* What all ranks counted since a moment, a second; NaN: nobody counts. */
static int runprogress_rate(const struct runview *v, const char *name, int64_t since_ns, double t,
			    double *ret, struct err *e)
{
	struct store_bucket b;
	double sum = 0;
	bool any = false;
	size_t i;
	int r = 0;

	for (i = 0; i < v->n_series && !r; i++) {
		if (v->series[i].kind != SINK_COUNTER || strcmp(v->series[i].name, name))
			continue;
		r = runprogress_total(v, &v->series[i], since_ns, &b, e);
		if (!r && b.count && !isnan(b.sum)) {
			sum += b.sum;
			any = true;
		}
	}
	if (any)
		*ret = sum / t;
	return r;
}

static int runprogress_speed(const struct runview *v, const struct store_series *steps,
			     struct runprogress *p, struct err *e)
{
	struct store_bucket all, b;
	int64_t since;
	double t;
	int r = runprogress_total(v, steps, INT64_MIN, &all, e);

	if (r || !all.count)
		return r;
	p->step = all.step_max;
	p->first_step = all.step_min;
	/* Times and durations are what a program says: nonsense must not go around. */
	if (__builtin_add_overflow(all.time_max,
				   all.last > 0 && all.last < 1e18 ? (int64_t)all.last : 0,
				   &p->last_ns))
		p->last_ns = all.time_max;
	if (__builtin_sub_overflow(p->last_ns, RUNPROGRESS_WINDOW_NS, &since))
		since = INT64_MIN;
	r = runprogress_total(v, steps, since, &b, e);
	if (r)
		return r;
	if (b.count < 2) { /* they last longer than that */
		b = all;
		since = all.time_min;
	}
	t = (double)(int64_t)((uint64_t)p->last_ns - (uint64_t)b.time_min) / 1e9;
	if (!(t > 0))
		return 0;
	p->steps_s = (double)b.count / t;
	r = runprogress_rate(v, "lapse/step/samples", since, t, &p->samples_s, e);
	if (!r)
		r = runprogress_rate(v, "lapse/step/tokens", since, t, &p->tokens_s, e);
	return r;
}

static int runprogress_loss(const struct runview *v, struct runprogress *p, struct err *e)
{
	const struct store_series *s = NULL;
	struct store_bucket b;
	size_t i;
	int r;

	for (i = 0; i < ARRAY_LEN(pick_losses) && !s; i++)
		s = runprogress_find(v, pick_losses[i], SINK_GAUGE);
	if (!s)
		return 0;
	r = runprogress_total(v, s, INT64_MIN, &b, e);
	if (r || !b.count)
		return r;
	p->loss_name = s->name;
	p->loss = b.last;
	p->loss_min = b.min;
	return 0;
}

static int runprogress_epoch(const struct runview *v, struct runprogress *p, struct err *e)
{
	const struct store_series *s = NULL;
	struct store_bucket b;
	size_t i;
	int r;

	for (i = 0; i < ARRAY_LEN(runprogress_epoch_names) && !s; i++)
		s = runprogress_find(v, runprogress_epoch_names[i], SINK_GAUGE);
	if (!s)
		return 0;
	r = runprogress_total(v, s, INT64_MIN, &b, e);
	if (!r && b.count)
		p->epoch = b.last;
	return r;
}

/* Steps are numbered from 0, from 1, or from where a checkpoint stopped. */
static void runprogress_judge(const struct runview *v, struct runprogress *p)
{
	double done;

	if (p->step == SINK_STEP_NONE || p->of <= 0)
		return;
	done = (double)p->step + (p->first_step != 1);
	p->share = fmin(1, done / (double)p->of);
	if (v->run.outcome == RUN_RUNNING && p->steps_s > 0)
		p->eta_s = fmax(0, (double)p->of - done) / p->steps_s;
}

int runprogress_read(const struct runview *v, struct runprogress *ret, struct err *e)
{
	const struct store_series *steps = runprogress_find(v, "step", SINK_SPAN);
	struct runprogress p = {.step = SINK_STEP_NONE,
				.first_step = SINK_STEP_NONE,
				.share = NAN,
				.steps_s = NAN,
				.samples_s = NAN,
				.tokens_s = NAN,
				.eta_s = NAN,
				.epoch = NAN,
				.loss = NAN,
				.loss_min = NAN};
	int r = store_reader_attrs(v->reader, runprogress_attr, &p, e);

	if (!r && steps)
		r = runprogress_speed(v, steps, &p, e);
	if (!r)
		r = runprogress_loss(v, &p, e);
	if (!r)
		r = runprogress_epoch(v, &p, e);
	if (r)
		return r;
	runprogress_judge(v, &p);
	*ret = p;
	return 0;
}
