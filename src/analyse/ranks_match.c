/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks_match.c - the same collective on every rank, and the ranks' clocks by their ends.
 */
#include "analyse/ranks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/ranks_priv.h"
#include "base/number.h"

#define DRIFT_PAIRS 16   /* as few give no drift */
#define DRIFT_SLOPES 300 /* points taken for it */

static int by_place(const void *pa, const void *pb)
{
	const struct ranks_item *x = pa, *y = pb;
	const struct ranks_collective *a = x->c, *b = y->c;

	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	if (a->name != b->name)
		return a->name < b->name ? -1 : 1;
	if (a->step != b->step)
		return a->step < b->step ? -1 : 1;
	if (a->order != b->order)
		return a->order < b->order ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static bool same_step(const struct ranks_collective *a, const struct ranks_collective *b)
{
	return a->group == b->group && a->name == b->name && a->step == b->step;
}

/* One kind in one step: instances where all its ranks have equally many. */
static void match_step(struct ranks_match *m, size_t first, size_t end)
{
	size_t n = 0, i;

	while (first + n < end && m->items[first + n].c->order == 0)
		n++;
	for (i = first; n && i < end; i++) {
		const struct ranks_item *it = &m->items[i];

		if (it->rank != m->items[first + (i - first) % n].rank ||
		    it->c->order != (i - first) / n)
			break;
	}
	if (n < 2 || i < end || (end - first) % n) {
		m->unmatched += end - first;
		return;
	}
	for (i = first; i < end; i += n)
		m->instances[m->n++] = (struct ranks_instance){i, n};
}

int ranks_match_new(const struct ranks_set *s, struct ranks_match *m)
{
	size_t n = 0, end;

	m->s = s;
	m->origin = INT64_MAX;
	for (size_t i = 0; i < s->n; i++)
		n += s->ranks[i].n_coll;
	m->items = calloc(n + 1, sizeof(*m->items));
	m->instances = calloc(n + 1, sizeof(*m->instances));
	if (!m->items || !m->instances)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->n; i++) {
		for (size_t k = 0; k < s->ranks[i].n_coll; k++) {
			const struct ranks_collective *c = &s->ranks[i].coll[k];

			m->origin = c->ts < m->origin ? c->ts : m->origin;
			m->items[m->n_items++] = (struct ranks_item){.c = c, .rank = i};
		}
	}
	if (m->n_items)
		qsort(m->items, m->n_items, sizeof(*m->items), by_place);
	for (size_t i = 0; i < m->n_items; i++) {
		m->items[i].ts = (double)(m->items[i].c->ts - m->origin);
		m->items[i].end = (double)(m->items[i].c->end - m->origin);
	}
	for (size_t i = 0; i < m->n_items; i = end) {
		for (end = i + 1; end < m->n_items && same_step(m->items[i].c, m->items[end].c);)
			end++;
		match_step(m, i, end);
	}
	return 0;
}

void ranks_match_done(struct ranks_match *m)
{
	free(m->items);
	free(m->instances);
}

/* ---- clocks -------------------------------------------------------------------------------- */

struct pair {
	double at, ahead; /* the rank's own end; how much later than the known clock's */
};

static double quantile(double *x, size_t n, double q)
{
	if (!n)
		return NAN;
	qsort(x, n, sizeof(*x), number_order);
	return n % 2 || q != 0.5 ? x[(size_t)((double)(n - 1) * q + 0.5)]
				 : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static int by_at(const void *pa, const void *pb)
{
	return number_order(&((const struct pair *)pa)->at, &((const struct pair *)pb)->at);
}

/* Median of slopes between points half of the time apart (Theil and Sen's estimator over
 * the pairs that say most). */
static double slope(const struct pair *p, size_t n, double *room)
{
	size_t half = n / 2, step = half / DRIFT_SLOPES + 1, m = 0;

	for (size_t i = 0; i + half < n; i += step) {
		double time = p[i + half].at - p[i].at;

		if (time > 0)
			room[m++] = (p[i + half].ahead - p[i].ahead) / time;
	}
	return m ? quantile(room, m, 0.5) : 0;
}

static void remains(const struct pair *p, size_t n, double middle, double *room,
		    struct ranks_clock *c)
{
	for (size_t i = 0; i < n; i++)
		room[i] = p[i].ahead - c->drift / 1e9 * (p[i].at - middle);
	c->offset = quantile(room, n, 0.5);
	for (size_t i = 0; i < n; i++)
		room[i] = fabs(p[i].ahead - c->offset - c->drift / 1e9 * (p[i].at - middle));
	c->residual = quantile(room, n, 0.5);
	c->residual_95 = quantile(room, n, 0.95);
}

/* Returns the time at which the offset holds. */
static double fit(struct pair *p, size_t n, double *room, struct ranks_clock *c)
{
	struct ranks_clock drifting = {.pairs = n};
	double middle;

	qsort(p, n, sizeof(*p), by_at);
	middle = (p[0].at + p[n - 1].at) / 2;
	c->pairs = n;
	remains(p, n, middle, room, c);
	if (n < DRIFT_PAIRS)
		return middle;
	drifting.drift = slope(p, n, room) * 1e9;
	remains(p, n, middle, room, &drifting);
	if (drifting.residual < 0.8 * c->residual)
		*c = drifting;
	return middle;
}

static size_t find_pairs(const struct ranks_match *m, uint32_t rank, const bool *known,
			 struct pair *p)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++) {
		const struct ranks_item *all = &m->items[m->instances[i].first];
		const struct ranks_item *own = NULL, *ref = NULL;

		for (size_t k = 0; k < m->instances[i].n; k++) {
			if (all[k].rank == rank)
				own = &all[k];
			else if (!ref && known[all[k].rank])
				ref = &all[k];
		}
		if (own && ref)
			p[n++] = (struct pair){own->end, own->end - ref->end};
	}
	return n;
}

static void correct(struct ranks_match *m, uint32_t rank, const struct ranks_clock *c,
		    double middle)
{
	for (size_t i = 0; i < m->n_items; i++) {
		struct ranks_item *it = &m->items[i];

		if (it->rank != rank)
			continue;
		it->ts -= c->offset + c->drift / 1e9 * (it->ts - middle);
		it->end -= c->offset + c->drift / 1e9 * (it->end - middle);
	}
}

int ranks_align(struct ranks_match *m, struct ranks_result *r)
{
	bool *known = calloc(r->n + 1, sizeof(*known));
	struct pair *p = calloc(m->n + 1, sizeof(*p));
	double *room = calloc(m->n + 1, sizeof(*room));
	bool more = known && p && room;
	int e = more ? 0 : -ENOMEM;

	if (more && r->n) {
		known[0] = true;
		r->ranks[0].clock.pairs = m->n;
	}
	/* A rank that meets the reference in no group is measured by one that is known. */
	while (more) {
		more = false;
		for (uint32_t i = 1; i < r->n; i++) {
			size_t n = known[i] ? 0 : find_pairs(m, i, known, p);
			double middle;

			if (!n)
				continue;
			middle = fit(p, n, room, &r->ranks[i].clock);
			correct(m, i, &r->ranks[i].clock, middle);
			known[i] = true;
			more = true;
		}
	}
	free(known);
	free(p);
	free(room);
	return e;
}
