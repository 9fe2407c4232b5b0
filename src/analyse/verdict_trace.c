/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict_trace.c - verdicts of traces: runs the passes over each rank and decides for the
 * rank and for the job.
 */
#include "analyse/verdict_trace.h"

#include "analyse/verdict_priv.h"
#include "base/number.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static void done(struct verdict_work *w)
{
	for (int l = 0; l < LAYERS; l++)
		free(w->layer[l].s);
	for (int k = 0; k < VERDICT_KINDS; k++)
		free(w->idle[k].s);
	free(w->blocked.s);
	free(w->names);
}

static int prepare(struct verdict_work *w, struct verdict_rank *r, const struct view *v)
{
	int rc;

	w->r = r;
	w->v = v;
	w->t = v->trace;
	w->names = calloc((size_t)trace_texts(v->trace) + 1, sizeof(*w->names));
	r->view = v;
	r->rank = v->rank;
	r->rows = v->n;
	verdict_facts_init(&r->facts);
	if (!w->names)
		return -ENOMEM;
	rc = verdict_windows(w);
	return rc ? rc : verdict_layers(w);
}

static void add_up(struct verdict_work *w)
{
	struct verdict_rank *r = w->r;
	int64_t recording = 0, n = r->n_steps ? (int64_t)r->n_steps : 1;

	for (size_t i = 0; i < r->n_steps; i++) {
		struct verdict_step *s = &r->steps[i];
		struct verdict_facts f = r->facts;

		for (int k = 0; k < VERDICT_KINDS; k++)
			r->facts.shares.ns[k] += s->shares.ns[k];
		r->facts.shares.total += s->shares.total;
		recording += s->recording;
		f.shares = s->shares;
		s->kind = verdict_behind(&f);
	}
	for (int k = VERDICT_COMPUTE; k <= VERDICT_STRAGGLER; k++)
		r->busy += w->has_gpu ? r->facts.shares.ns[k] : 0;
	r->expected = (r->facts.shares.total - recording) / n;
	if (r->expected < r->busy / n)
		r->expected = r->busy / n;
	r->facts.steps = r->has_marks ? (int64_t)r->n_steps : 0;
	r->facts.has_gpu = w->has_gpu;
	r->facts.has_host = w->has_host;
}

/* What this rank itself needs a step: of the host, its time but for waits of any kind (sync
 * calls, launches that found the queue full, the profiler's own); of the GPU, all but
 * communication. */
static void own_time(struct verdict_work *w)
{
	int64_t host = 0, gpu = 0, n = w->r->n_steps ? (int64_t)w->r->n_steps : 1;
	const int64_t *ns = w->r->facts.shares.ns;

	for (size_t i = 0; i < w->r->n_steps; i++) {
		const struct verdict_step *s = &w->r->steps[i];

		host += s->end - s->ts - verdict_within(&w->blocked, s->ts, s->end);
	}
	if (w->has_gpu)
		gpu = ns[VERDICT_COMPUTE] + ns[VERDICT_MEMORY] + ns[VERDICT_COPY];
	w->r->own = (w->has_host && host > gpu ? host : gpu) / n;
}

static int judge(struct verdict_work *w)
{
	struct verdict_rank *r = w->r;
	int rc = verdict_sweep(w);

	if (rc)
		return rc;
	verdict_recording(w);
	add_up(w);
	rc = verdict_evidence(w);
	own_time(w);
	r->kind = verdict_decide(&r->facts);
	r->behind = verdict_behind(&r->facts);
	return rc;
}

/* Median (the lower of two in the middle) of own times without one rank's. */
static int64_t others(const struct verdict_result *res, size_t but)
{
	int64_t *d = malloc(res->n * sizeof(*d)), median;
	size_t n = 0;

	if (!d)
		return 0;
	for (size_t i = 0; i < res->n; i++)
		if (i != but && res->ranks[i].own > 0) /* one without time says nothing */
			d[n++] = res->ranks[i].own;
	qsort(d, n, sizeof(*d), number_order_int);
	median = n ? d[(n - 1) / 2] : 0;
	free(d);
	return median;
}

static int64_t per_step(const struct verdict_rank *r, int kind)
{
	return r->n_steps ? r->facts.shares.ns[kind] / (int64_t)r->n_steps : 0;
}

/* The kind in which the gating rank spends most more than the others do on average. */
static enum verdict_kind excess_of(const struct verdict_result *res)
{
	enum verdict_kind kind = VERDICT_UNKNOWN;
	int64_t best = INT64_MIN;

	for (int k = 0; k < VERDICT_KINDS; k++) {
		int64_t mean = 0, more;

		if (k == VERDICT_STRAGGLER || k == VERDICT_COMMUNICATION || k == VERDICT_PROFILER)
			continue;
		for (size_t i = 0; i < res->n; i++)
			mean += i == res->gating ? 0 : per_step(&res->ranks[i], k);
		more = per_step(&res->ranks[res->gating], k) - mean / (int64_t)(res->n - 1);
		if (more > best) {
			best = more;
			kind = k;
		}
	}
	return kind;
}

static void decide(struct verdict_result *res)
{
	struct verdict_rank *g = &res->ranks[0];
	double waits = 0;

	for (size_t i = 1; i < res->n; i++)
		if (res->ranks[i].own > g->own)
			g = &res->ranks[i];
	res->gating = (size_t)(g - res->ranks);
	res->kind = g->kind;
	res->behind = g->behind;
	res->excess = g->behind;
	if (res->n < 2)
		return;
	for (size_t i = 0; i < res->n; i++) {
		const struct verdict_shares *s = &res->ranks[i].facts.shares;

		if (i != res->gating && s->total > 0 &&
		    (double)s->ns[VERDICT_STRAGGLER] / (double)s->total > waits)
			waits = (double)s->ns[VERDICT_STRAGGLER] / (double)s->total;
	}
	res->excess = excess_of(res);
	if (others(res, res->gating) > 0)
		res->over = (double)g->own / (double)others(res, res->gating);
	for (size_t i = 0; i < res->n; i++) {
		double *m = res->ranks[i].facts.measure;

		m[VERDICT_M_STRAGGLER_OVER] = res->over;
		if (res->is_matched) /* told exactly by the straggler share */
			m[VERDICT_M_COMM_SPREAD] = NAN;
	}
	if (res->over >= VERDICT_OVER && waits >= VERDICT_WAIT_SHARE)
		res->kind = VERDICT_STRAGGLER;
}

int verdict_new(const struct view views[], size_t n, struct verdict_result **ret)
{
	struct verdict_result *res;
	struct verdict_work *works;
	int rc = 0;

	if (!n)
		return -EINVAL;
	res = calloc(1, sizeof(*res));
	works = calloc(n, sizeof(*works));
	if (res)
		res->ranks = calloc(n, sizeof(*res->ranks));
	if (!res || !works || !res->ranks) {
		free(works);
		verdict_free(res);
		return -ENOMEM;
	}
	res->n = n;
	for (size_t i = 0; i < n && !rc; i++)
		rc = prepare(&works[i], &res->ranks[i], &views[i]);
	if (!rc)
		rc = verdict_waits(works, n, res);
	for (size_t i = 0; i < n && !rc; i++)
		rc = judge(&works[i]);
	for (size_t i = 0; i < n; i++)
		done(&works[i]);
	free(works);
	if (rc) {
		verdict_free(res);
		return rc;
	}
	decide(res);
	*ret = res;
	return 0;
}

void verdict_free(struct verdict_result *r)
{
	if (!r)
		return;
	for (size_t i = 0; r->ranks && i < r->n; i++) {
		free(r->ranks[i].steps);
		free(r->ranks[i].items);
	}
	free(r->ranks);
	free(r);
}
