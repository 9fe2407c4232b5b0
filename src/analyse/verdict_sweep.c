/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict_sweep.c - the wall time of the steps cut into shares: one walk over the layers, in
 * which each instant goes to the first layer that has something there; then the estimate of
 * what recording cost.
 */
#include "analyse/verdict_priv.h"

#include <stdlib.h>

#include "base/number.h"

struct cursor {
	size_t at[LAYERS];
};

/* Clocks of host and device differ by so much. */
#define SKEW_NS 10000

/* The wait for the GPU that runs at t, or ended just before; NULL: none. */
static const struct view_span *wait_at(const struct verdict_work *w, const struct cursor *c,
				       int64_t t)
{
	const struct verdict_spans *s = &w->layer[LAYER_SYNC];
	size_t at = c->at[LAYER_SYNC];

	if (at < s->n && s->s[at].ts <= t)
		return &s->s[at];
	return at && s->s[at - 1].end >= t - SKEW_NS ? &s->s[at - 1] : NULL;
}

/* The layer that counts at t, and until when this stays so (at most end). */
static enum verdict_layer look(const struct verdict_work *w, struct cursor *c, int64_t t,
			       int64_t end, int64_t *ret_until)
{
	enum verdict_layer first = LAYERS;

	*ret_until = end;
	for (enum verdict_layer l = 0; l < LAYERS; l++) {
		const struct verdict_spans *s = &w->layer[l];
		int64_t change;

		while (c->at[l] < s->n && s->s[c->at[l]].end <= t)
			c->at[l]++;
		if (c->at[l] == s->n)
			continue;
		change = s->s[c->at[l]].ts;
		if (change <= t) {
			change = s->s[c->at[l]].end;
			first = first == LAYERS ? l : first;
		}
		if (change < *ret_until)
			*ret_until = change;
	}
	return first;
}

/* What an instant of a layer is counted under. */
static enum verdict_kind kind_of(const struct verdict_work *w, enum verdict_layer l)
{
	static const enum verdict_kind kinds[LAYERS] = {
		[LAYER_COMPUTE] = VERDICT_COMPUTE,    [LAYER_MEMORY] = VERDICT_MEMORY,
		[LAYER_COPY] = VERDICT_COPY,          [LAYER_WAIT] = VERDICT_STRAGGLER,
		[LAYER_COMM] = VERDICT_COMMUNICATION, [LAYER_OVERHEAD] = VERDICT_PROFILER,
		[LAYER_DATA] = VERDICT_DATA,          [LAYER_SYNC] = VERDICT_SYNC,
		[LAYER_COLLECTIVE] = VERDICT_LAUNCH,  [LAYER_WORK] = VERDICT_LAUNCH,
		[LAYER_HOST] = VERDICT_HOST,
	};

	if (!w->has_gpu) {
		if (l == LAYER_COLLECTIVE)
			return VERDICT_COMMUNICATION;
		if (l == LAYER_WORK)
			return VERDICT_COMPUTE;
		if (l == LAYERS)
			return VERDICT_HOST;
		return kinds[l];
	}
	if (l == LAYERS && !w->has_host)
		return VERDICT_UNKNOWN;
	return l == LAYERS ? VERDICT_LAUNCH : kinds[l];
}

/* What waiting costs. A host that waits until the GPU ran dry has lost the lead that it would
 * have had without: as long as the call took, everything that it does next would have come
 * earlier. So of the idle time that follows, up to that length would not be there. Beyond it the
 * host was too slow anyway, and what it did is to blame; what the data loader or the profiler
 * takes of it counts as theirs. */
struct lead {
	int64_t left; /* ns */
	bool is_idle; /* the GPU, since the last look */
};

static enum verdict_kind lead_takes(const struct verdict_work *w, const struct cursor *c,
				    struct lead *lead, enum verdict_layer l, int64_t t,
				    int64_t *until)
{
	enum verdict_kind kind = kind_of(w, l);
	const struct view_span *wait;

	if (l <= LAYER_COMM || !w->has_gpu) {
		lead->is_idle = false;
		return kind;
	}
	if (!lead->is_idle) {
		wait = wait_at(w, c, t);
		lead->left = wait ? wait->end - wait->ts : lead->left;
	}
	lead->is_idle = true;
	if ((kind == VERDICT_LAUNCH || kind == VERDICT_HOST) && lead->left > 0) {
		kind = VERDICT_SYNC;
		if (*until - t > lead->left)
			*until = t + lead->left;
	}
	lead->left -= *until - t < lead->left ? *until - t : lead->left;
	return kind;
}

/* Kinds whose time evidence is looked for in. */
static bool is_kept(const struct verdict_work *w, enum verdict_kind kind)
{
	return !(w->has_gpu && (kind <= VERDICT_COPY || kind == VERDICT_SYNC)) &&
	       kind != VERDICT_UNKNOWN;
}

int verdict_sweep(struct verdict_work *w)
{
	struct cursor c = {{0}};
	struct lead lead = {0};

	for (size_t i = 0; i < w->r->n_steps; i++) {
		struct verdict_step *step = &w->r->steps[i];
		int64_t until;

		for (int64_t t = step->ts; t < step->end; t = until) {
			enum verdict_layer l = look(w, &c, t, step->end, &until);
			enum verdict_kind kind = lead_takes(w, &c, &lead, l, t, &until);
			int rc = 0;

			step->shares.ns[kind] += until - t;
			if (is_kept(w, kind))
				rc = verdict_add(&w->idle[kind], t, until);
			if (rc)
				return rc;
		}
		step->shares.total = step->end - step->ts;
	}
	return 0;
}

/* ---- what recording costs ------------------------------------------------------------ */

/* ns that recording one row of the host costs the host, by measurement: runs with and without
 * the profiler on two machines fit to multiples of two times that every trace has (docs/
 * trace-numbers.md, "The profiler's own cost"). */
struct cost {
	double op, call, python;
};
#define COST_OP_LEAVES 2.5     /* x lower quartile of operators without children */
#define COST_CALL_LAUNCHES 2.0 /* x median of launch calls */
#define COST_PYTHON_LEAVES 0.25
#define COST_LEAF_MIN 200.0 /* ns: a whole us is 0 in old traces */
#define COST_LEAF_MAX 3000.0
#define COST_LAUNCH_MAX 15000.0
#define COST_LIMIT 0.75 /* of the dispatching time that the estimate may take */

/* Durations of at most SAMPLE rows: leaf operators, or launches. */
#define SAMPLE 20000u

static size_t sample_leaves(const struct view *v, int64_t *d, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i + 1 < v->n && n < max; i++) {
		const struct view_row *row = &v->rows[i];
		bool leaf = true;

		if (row->cat != TRACE_CAT_CPU_OP)
			continue;
		/* The next row of this thread begins behind its end? Few rows lie between. */
		for (size_t k = i + 1; k < v->n && v->rows[k].ts < row->end; k++)
			if (v->rows[k].track == row->track || k > i + 8) {
				leaf = false;
				break;
			}
		if (leaf)
			d[n++] = row->end - row->ts;
	}
	return n;
}

static size_t sample_launches(struct verdict_work *w, int64_t *d, size_t max)
{
	const struct view *v = w->v;
	size_t n = 0;

	for (size_t i = 0; i < v->n && n < max; i++)
		if (verdict_is_host(&v->rows[i]) &&
		    verdict_host_kind(w, &v->rows[i]) == HOST_LAUNCH)
			d[n++] = v->rows[i].end - v->rows[i].ts;
	return n;
}

static double clamp(double x, double lo, double hi)
{
	return x < lo ? lo : x > hi ? hi : x;
}

static struct cost costs(struct verdict_work *w)
{
	int64_t *d = malloc(SAMPLE * sizeof(*d));
	double leaf = COST_LEAF_MIN, launch = 0;
	size_t n;

	if (!d) /* an estimate can do without */
		return (struct cost){0, 0, 0};
	n = sample_leaves(w->v, d, SAMPLE);
	qsort(d, n, sizeof(*d), number_order_int);
	if (n)
		leaf = clamp((double)d[n / 4], COST_LEAF_MIN, COST_LEAF_MAX);
	n = sample_launches(w, d, SAMPLE);
	qsort(d, n, sizeof(*d), number_order_int);
	if (n)
		launch = clamp((double)d[n / 2], 0, COST_LAUNCH_MAX);
	free(d);
	return (struct cost){COST_OP_LEAVES * leaf, COST_CALL_LAUNCHES * launch,
			     COST_PYTHON_LEAVES * leaf};
}

static double cost_of(const struct cost *c, const struct view_row *row)
{
	if (row->cat == TRACE_CAT_PYTHON_FUNCTION)
		return c->python;
	if (row->cat == TRACE_CAT_CPU_OP || row->cat == TRACE_CAT_USER_ANNOTATION)
		return c->op;
	return verdict_is_host(row) ? c->call : 0;
}

/* Is t in a span of l? at only moves on. */
static bool covers(const struct verdict_spans *l, size_t *at, int64_t t)
{
	while (*at < l->n && l->s[*at].end <= t)
		++*at;
	return *at < l->n && l->s[*at].ts <= t;
}

static void take(struct verdict_step *step, enum verdict_kind from, double estimate)
{
	int64_t most = (int64_t)(COST_LIMIT * (double)step->shares.ns[from]);
	int64_t ns = estimate < (double)most ? (int64_t)estimate : most;

	step->shares.ns[from] -= ns;
	step->shares.ns[VERDICT_PROFILER] += ns;
}

void verdict_recording(struct verdict_work *w)
{
	enum verdict_kind from = w->has_gpu ? VERDICT_LAUNCH : VERDICT_COMPUTE;
	struct cost c = costs(w);
	const struct view *v = w->v;
	size_t at = 0, k = 0;
	double all = 0, here = 0;

	for (size_t i = 0; i < v->n && k < w->r->n_steps; i++) {
		const struct view_row *row = &v->rows[i];
		struct verdict_step *step = &w->r->steps[k];
		double ns;

		while (row->ts >= step->end) {
			take(step, from, here);
			step->recording = (int64_t)all;
			all = here = 0;
			if (++k == w->r->n_steps)
				return;
			step++;
		}
		ns = row->ts >= step->ts ? cost_of(&c, row) : 0;
		if (ns <= 0)
			continue;
		all += ns;
		if (covers(&w->idle[from], &at, row->ts))
			here += ns;
	}
	if (k < w->r->n_steps) {
		take(&w->r->steps[k], from, here);
		w->r->steps[k].recording = (int64_t)all;
	}
}
