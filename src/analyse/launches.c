/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.c - see launch.h.
 */
#include "analyse/launches.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/calls.h"
#include "analyse/numeric.h"
#include "analyse/room.h"
#include "base/bigmem.h"

struct finder {
	struct view *v;
	const uint8_t *calls;
	bool without_memory;
	struct launches l;
	size_t cap;
};

static bool is_launch(const struct finder *f, const struct view_row *r)
{
	unsigned use = f->calls[r->name];

	if (f->without_memory && use & CALLS_MEMORY)
		return false;
	if (f->v->rule != VIEW_EXACT)
		return use & CALLS_HTA_LAUNCH;
	return !r->is_gpu && use & (CALLS_LAUNCH | CALLS_MEMORY);
}

/* hta: as HTA's doubles have it. */
static double delay_of(const struct view *v, const struct view_row *call,
		       const struct view_row *work)
{
	double us;

	if (v->rule == VIEW_EXACT)
		return work->ts > call->end ? view_us(work->ts - call->end) : 0;
	us = view_ts_us(v, work) - view_ts_us(v, call) - view_us(call->end - call->ts);
	return us > 0 ? us : 0;
}

static int add_pair(struct finder *f, uint32_t call, uint32_t work)
{
	const struct view_row *c = &f->v->rows[call], *w = &f->v->rows[work];
	double delay = delay_of(f->v, c, w);
	struct launches *l = &f->l;
	struct launches_pair *p;
	int rc = room_for(&l->pairs, l->n, &f->cap, sizeof(*l->pairs));

	if (rc)
		return rc;
	p = &l->pairs[l->n++];
	*p = (struct launches_pair){c->correlation,
				    c->end - c->ts,
				    w->end - w->ts,
				    llround(delay * 1000),
				    delay,
				    call,
				    work};
	l->cpu_sum += p->cpu;
	l->gpu_sum += p->gpu;
	l->delay_sum += p->delay;
	l->delay_max = p->delay > l->delay_max ? p->delay : l->delay_max;
	l->shorter += p->gpu < p->cpu;
	l->shorter_plotted += p->gpu < p->cpu && p->cpu <= LAUNCH_SLOW_NS;
	l->slow_calls += p->cpu > LAUNCH_SLOW_NS;
	l->late += p->delay > LAUNCH_LATE_NS;
	l->before += w->ts < c->ts;
	return 0;
}

/* hta: all host rows of the correlation are calls, once any row of it has a known name. */
static int join_hta(struct finder *f, uint32_t row)
{
	const struct view_row *r = &f->v->rows[row];
	struct view_link link = view_linked(f->v, r->correlation);
	bool known = false, worked = false;
	size_t i;
	int rc = 0;

	for (i = 0; i < link.n; i++)
		known |= is_launch(f, &f->v->rows[link.rows[i]]);
	for (i = 0; known && i < link.n && !rc; i++) {
		if (!f->v->rows[link.rows[i]].is_gpu)
			continue;
		rc = add_pair(f, row, link.rows[i]);
		worked = true;
	}
	f->l.calls += known && worked;
	f->l.alone += known && !worked;
	return rc;
}

/* Work and the launch that it names; of several calls of one correlation that is the last. */
static int join_exact(struct finder *f)
{
	struct view *v = f->v;
	uint8_t *worked = calloc(v->n + 1, 1);
	const struct view_row *r;
	size_t i;
	int rc = worked ? 0 : -ENOMEM;

	for (i = 0; i < v->n && !rc; i++) {
		r = &v->rows[i];
		if (!r->is_gpu || r->pair == VIEW_NO_ROW || !is_launch(f, &v->rows[r->pair]))
			continue;
		worked[r->pair] = 1;
		rc = add_pair(f, r->pair, (uint32_t)i);
	}
	for (i = 0; i < v->n && !rc; i++) {
		if (v->rows[i].is_gpu || !is_launch(f, &v->rows[i]))
			continue;
		f->l.calls += worked[i];
		f->l.alone += !worked[i];
	}
	free(worked);
	return rc;
}

static uint64_t pair_key(const struct launches_pair *p)
{
	return (uint64_t)p->call << 32 | p->work;
}

/* By the call, then the work. */
static int sort_pairs(struct launches *l)
{
	struct launches_pair *sorted;
	struct view_key *keys;
	size_t i;
	int rc;

	for (i = 1; i < l->n && pair_key(&l->pairs[i - 1]) < pair_key(&l->pairs[i]); i++)
		;
	if (i >= l->n)
		return 0;
	keys = bigmem_alloc((2 * l->n + 1) * sizeof(*keys));
	sorted = bigmem_alloc((l->n + 1) * sizeof(*sorted));
	rc = keys && sorted ? 0 : -ENOMEM;
	for (i = 0; i < l->n && !rc; i++)
		keys[i] = (struct view_key){pair_key(&l->pairs[i]), (uint32_t)i};
	if (!rc)
		view_sort(keys, keys + l->n, l->n);
	for (i = 0; i < l->n && !rc; i++)
		sorted[i] = l->pairs[keys[i].id];
	free(keys);
	if (rc) {
		free(sorted);
		return rc;
	}
	free(l->pairs);
	l->pairs = sorted;
	return 0;
}

static int sum_delays(struct launches *l)
{
	double *x = malloc((l->n + 1) * sizeof(*x));
	size_t i;

	if (!x)
		return -ENOMEM;
	for (i = 0; i < l->n; i++)
		x[i] = l->pairs[i].delay_us;
	l->delay_sum_us = numeric_sum(x, l->n);
	free(x);
	return 0;
}

/* Mostly a pair for each piece of work; what is not touched takes no memory. */
static int reserve_pairs(struct finder *f)
{
	size_t n;

	if (!view_devices(f->v, false, &n))
		return -ENOMEM;
	f->l.pairs = bigmem_alloc((n + 1) * sizeof(*f->l.pairs));
	f->cap = f->l.pairs ? n + 1 : 0;
	return f->l.pairs ? 0 : -ENOMEM;
}

int launches_new(const struct view *v, bool without_memory, struct launches *ret)
{
	uint8_t *calls = calls_names(v->trace);
	/* view_linked() keeps its index in the view. */
	struct finder f = {(struct view *)v, calls, without_memory, {0}, 0};
	size_t i;
	int rc = calls ? reserve_pairs(&f) : -ENOMEM;

	for (i = 0; i < v->n && !rc; i++) {
		if (v->rows[i].is_gpu)
			f.l.orphans += v->rows[i].pair == VIEW_NO_ROW ||
				       (v->rule != VIEW_EXACT && !v->rows[i].partner);
		else if (v->rule != VIEW_EXACT && v->rows[i].correlation != TRACE_NONE)
			rc = join_hta(&f, (uint32_t)i);
	}
	if (!rc && v->rule == VIEW_EXACT)
		rc = join_exact(&f);
	free(calls);
	if (!rc)
		rc = sort_pairs(&f.l);
	if (!rc)
		rc = sum_delays(&f.l);
	if (rc) {
		launches_done(&f.l);
		return rc;
	}
	*ret = f.l;
	return 0;
}

void launches_done(struct launches *l)
{
	free(l->pairs);
	memset(l, 0, sizeof(*l));
}
