/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks_compare.c - who waited for whom: lateness at collectives, the kinds of collectives,
 * and the ranks that come late again and again, with what they did meanwhile.
 */
#include "analyse/ranks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/ranks_priv.h"
#include "analyse/room.h"
#include "base/number.h"

#define LATE_PART 0.05       /* of a step: less is not told */
#define COST_PART 0.1        /* of a step: less is a lag, no straggler */
#define LATE_LEAST 200e3     /* ns a step, of both */
#define LATE_STEPS (2.0 / 3) /* part of the steps in which it must be late */
#define LATE_TIMES 2.0       /* as late as the others are on average, at least */
#define SURE 3.0             /* residuals of a clock that lateness must exceed */
#define SURE_LEAST 20e3      /* ns */

static double median(double *x, size_t n)
{
	if (!n)
		return 0;
	qsort(x, n, sizeof(*x), number_order);
	return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static struct ranks_step *step_of(struct ranks_rank *k, int64_t number)
{
	size_t low = 0, high = k->n_steps;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (k->steps[mid].number < number)
			low = mid + 1;
		else
			high = mid;
	}
	return low < k->n_steps && k->steps[low].number == number ? &k->steps[low] : NULL;
}

static double sureness(const struct ranks_result *r, uint32_t rank)
{
	double bar = r->ranks[rank].clock.residual * SURE;

	return bar > SURE_LEAST ? bar : SURE_LEAST;
}

/* ---- waiting ------------------------------------------------------------------------------ */

static void weigh(struct ranks_result *r, const struct ranks_item *all, size_t n, double *room)
{
	double last = -INFINITY, second = -INFINITY;
	size_t who = 0;

	for (size_t i = 0; i < n; i++) {
		if (all[i].ts > last) {
			second = last;
			last = all[i].ts;
			who = i;
		} else if (all[i].ts > second) {
			second = all[i].ts;
		}
	}
	if (last - second > sureness(r, all[who].rank))
		r->ranks[all[who].rank].last++;
	for (size_t i = 0; i < n; i++) {
		struct ranks_rank *k = &r->ranks[all[i].rank];
		struct ranks_step *s = step_of(k, all[i].c->step);
		double wait = fmin(last - all[i].ts, all[i].end - all[i].ts), late;
		size_t m = 0;

		for (size_t j = 0; j < n; j++) {
			if (j != i)
				room[m++] = all[j].ts;
		}
		late = all[i].ts - median(room, m);
		k->matched++;
		if (!s)
			continue;
		s->wait += wait > 0 ? (int64_t)wait : 0;
		s->late += late > sureness(r, all[i].rank) ? (int64_t)late : 0;
	}
}

/* ---- kinds --------------------------------------------------------------------------------- */

static void close_kind(const struct ranks_match *m, struct ranks_kind *k, int64_t *of_rank,
		       size_t n)
{
	k->least = INT64_MAX;
	for (size_t i = 0; i < n; i++) {
		if (of_rank[i] < 0)
			continue;
		k->ranks++;
		k->ns += of_rank[i];
		if (of_rank[i] < k->least) {
			k->least = of_rank[i];
			k->least_rank = m->s->ranks[i].rank;
		}
		if (of_rank[i] > k->most || !k->most) {
			k->most = of_rank[i];
			k->most_rank = m->s->ranks[i].rank;
		}
	}
	if (!k->ranks)
		k->least = 0;
	for (size_t i = 0; i < n; i++)
		of_rank[i] = -1;
}

static int by_ns(const void *pa, const void *pb)
{
	const struct ranks_kind *a = pa, *b = pb;

	if (a->ns != b->ns)
		return a->ns > b->ns ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int list_kinds(const struct ranks_match *m, struct ranks_result *r)
{
	int64_t *of_rank = malloc((r->n + 1) * sizeof(*of_rank));
	struct ranks_kind *k = NULL;
	size_t cap = 0;

	if (!of_rank)
		return -ENOMEM;
	for (size_t i = 0; i < r->n; i++)
		of_rank[i] = -1;
	for (size_t i = 0; i < m->n; i++) {
		const struct ranks_item *all = &m->items[m->instances[i].first];
		const struct ranks_collective *c = all->c;
		double last = -INFINITY;

		if (!k || k->group != m->s->texts[c->group] || k->name != m->s->texts[c->name]) {
			if (k)
				close_kind(m, k, of_rank, r->n);
			if (room_for(&r->kinds, r->n_kinds, &cap, sizeof(*k)) < 0) {
				free(of_rank);
				return -ENOMEM;
			}
			k = &r->kinds[r->n_kinds++];
			*k = (struct ranks_kind){.group = m->s->texts[c->group],
						 .name = m->s->texts[c->name]};
		}
		k->instances++;
		for (size_t j = 0; j < m->instances[i].n; j++)
			last = fmax(last, all[j].ts);
		for (size_t j = 0; j < m->instances[i].n; j++) {
			int64_t *own = &of_rank[all[j].rank];

			*own = (*own < 0 ? 0 : *own) + all[j].c->end - all[j].c->ts;
			k->wait += (int64_t)fmax(0, fmin(last - all[j].ts, all[j].end - all[j].ts));
		}
	}
	if (k)
		close_kind(m, k, of_rank, r->n);
	if (r->n_kinds)
		qsort(r->kinds, r->n_kinds, sizeof(*r->kinds), by_ns);
	free(of_rank);
	return 0;
}

/* ---- stragglers ---------------------------------------------------------------------------- */

/* The mean over steps of one part of a rank's steps. */
static double mean_of(const struct ranks_rank *k, size_t offset)
{
	double sum = 0;

	for (size_t i = 0; i < k->n_steps; i++)
		sum += (double)*(const int64_t *)((const char *)&k->steps[i] + offset);
	return k->n_steps ? sum / (double)k->n_steps : 0;
}

/* How much more than the median of the others. */
static double more_than_others(const struct ranks_result *r, size_t rank, size_t offset,
			       double *room)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++) {
		if (i != rank)
			room[n++] = mean_of(&r->ranks[i], offset);
	}
	return mean_of(&r->ranks[rank], offset) - median(room, n);
}

/* Mean ns a step of a name on a rank's host; what the summary did not keep counts as 0. */
static double host_of(const struct ranks_one *one, uint32_t name)
{
	int64_t sum = 0;

	for (size_t i = 0; i < one->n_parts; i++) {
		for (int k = 0; k < RANKS_NAMES && one->parts[i].host[k].ns; k++)
			sum += one->parts[i].host[k].name == name ? one->parts[i].host[k].ns : 0;
	}
	return one->n_parts ? (double)sum / (double)one->n_parts : 0;
}

static void note_cause(struct ranks_straggler *g, const char *name, double more, double here)
{
	struct ranks_cause c = {name, more, here};

	for (size_t i = 0; i < 3; i++) {
		struct ranks_cause other = g->causes[i];

		if (other.name == c.name && other.name)
			return;
		if (c.ns > other.ns) {
			g->causes[i] = c;
			c = other;
		}
	}
}

static void find_causes(const struct ranks_set *s, struct ranks_straggler *g, size_t rank,
			double *room)
{
	const struct ranks_one *one = &s->ranks[rank];

	for (size_t i = 0; i < one->n_parts; i++) {
		for (int k = 0; k < RANKS_NAMES && one->parts[i].host[k].ns; k++) {
			uint32_t name = one->parts[i].host[k].name;
			double here = host_of(one, name);
			size_t n = 0;

			for (size_t o = 0; o < s->n; o++) {
				if (o != rank)
					room[n++] = host_of(&s->ranks[o], name);
			}
			note_cause(g, s->texts[name], here - median(room, n), here);
		}
	}
	for (int i = 0; i < 3; i++) {
		if (g->causes[i].ns < 0.1 * g->late)
			g->causes[i] = (struct ranks_cause){0};
	}
}

static void explain(const struct ranks_set *s, const struct ranks_result *r,
		    struct ranks_straggler *g, size_t rank, double *room)
{
	double named = 0, host;

	g->compute_more = more_than_others(r, rank, offsetof(struct ranks_step, compute), room);
	g->host_more = more_than_others(r, rank, offsetof(struct ranks_step, host), room);
	g->idle_more = more_than_others(r, rank, offsetof(struct ranks_step, idle), room);
	find_causes(s, g, rank, room);
	for (int i = 0; i < 3; i++)
		named += g->causes[i].ns;
	host = fmax(named, g->host_more);
	g->why = g->compute_more >= host ? RANKS_COMPUTE : RANKS_HOST;
	g->cost = fmax(0, fmin(g->late, fmax(g->compute_more, host)));
	g->part = r->step_ns > 0 ? g->cost / r->step_ns : 0;
	g->is_lag = g->cost < r->least_cost;
	if (g->is_lag)
		g->why = RANKS_UNKNOWN;
}

static int by_late(const void *pa, const void *pb)
{
	const struct ranks_straggler *a = pa, *b = pb;

	if (a->is_lag != b->is_lag)
		return a->is_lag ? 1 : -1;
	if (!a->is_lag && a->cost != b->cost)
		return a->cost > b->cost ? -1 : 1;
	if (a->late != b->late)
		return a->late > b->late ? -1 : 1;
	return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static bool is_late(const struct ranks_result *r, size_t rank, struct ranks_straggler *g)
{
	const struct ranks_rank *k = &r->ranks[rank];
	double others = 0;

	g->rank = k->rank;
	g->late = mean_of(k, offsetof(struct ranks_step, late));
	for (size_t i = 0; i < k->n_steps; i++) {
		g->of++;
		g->steps += (double)k->steps[i].late >= r->least_late;
	}
	for (size_t i = 0; i < r->n; i++) {
		if (i != rank)
			others += mean_of(&r->ranks[i], offsetof(struct ranks_step, late)) /
				  (double)(r->n - 1);
	}
	return g->steps && (double)g->steps >= LATE_STEPS * (double)g->of &&
	       g->late >= r->least_late && g->late >= LATE_TIMES * others;
}

static int find_stragglers(const struct ranks_match *m, struct ranks_result *r)
{
	double *room = calloc(r->n + 1, sizeof(*room));

	r->late = calloc(r->n + 1, sizeof(*r->late));
	if (!room || !r->late) {
		free(room);
		return -ENOMEM;
	}
	r->least_late = fmax(LATE_LEAST, LATE_PART * r->step_ns);
	r->least_cost = fmax(LATE_LEAST, COST_PART * r->step_ns);
	for (size_t i = 0; i < r->n && r->n > 1; i++) {
		struct ranks_straggler *g = &r->late[r->n_late];

		*g = (struct ranks_straggler){0};
		if (!is_late(r, i, g))
			continue;
		explain(m->s, r, g, i, room);
		r->n_stragglers += !g->is_lag;
		r->n_late++;
	}
	if (r->n_late)
		qsort(r->late, r->n_late, sizeof(*r->late), by_late);
	free(room);
	return 0;
}

int ranks_compare(const struct ranks_match *m, struct ranks_result *r)
{
	double *room = calloc(r->n + 1, sizeof(*room));
	int e;

	if (!room)
		return -ENOMEM;
	for (size_t i = 0; i < m->n; i++)
		weigh(r, &m->items[m->instances[i].first], m->instances[i].n, room);
	free(room);
	r->instances = m->n;
	r->unmatched = m->unmatched;
	e = list_kinds(m, r);
	return e < 0 ? e : find_stragglers(m, r);
}
