/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks_add.c - what is kept of one rank: its steps with their parts, the host's own times by
 * name, and its collectives in order.
 */
#include "analyse/ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/nest.h"
#include "analyse/ranks_priv.h"
#include "analyse/room.h"

#define UNTOLD "(code without a name)"

struct summary {
	struct ranks_set *set;
	struct view *v;
	struct ranks_one one;
	size_t cap_coll;
};

/* ---- steps ------------------------------------------------------------------------------ */

struct busy {
	struct view_span *s; /* merged */
	size_t n;
};

static int busy_of(const struct view *v, unsigned classes, struct busy *ret)
{
	struct view_span *s = calloc(v->n + 1, sizeof(*s));
	size_t n = 0;

	if (!s)
		return -ENOMEM;
	for (size_t i = 0; i < v->n; i++) {
		const struct view_row *r = &v->rows[i];

		if (r->is_gpu && classes & 1u << r->class)
			s[n++] = (struct view_span){r->ts, r->end};
	}
	ret->n = view_merge(s, n);
	ret->s = s;
	return 0;
}

/* How much of [from, to) is busy. */
static int64_t within(const struct busy *b, int64_t from, int64_t to)
{
	size_t low = 0, high = b->n;
	int64_t sum = 0;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (b->s[mid].end <= from)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < b->n && b->s[low].ts < to; low++) {
		int64_t ts = b->s[low].ts > from ? b->s[low].ts : from;
		int64_t end = b->s[low].end < to ? b->s[low].end : to;

		sum += end - ts;
	}
	return sum;
}

static void fill_step(struct ranks_step *s, const struct busy b[3], int64_t from, int64_t to)
{
	int64_t compute = within(&b[0], from, to), both = within(&b[1], from, to);
	int64_t all = within(&b[2], from, to);

	s->ns = to - from;
	s->compute = compute;
	s->comm = both - compute;
	s->memory = all - both;
	s->idle = s->ns - all;
}

static int add_steps(struct summary *m)
{
	static const unsigned classes[3] = {
		1u << VIEW_COMPUTATION,
		1u << VIEW_COMPUTATION | 1u << VIEW_COMMUNICATION,
		(1u << VIEW_CLASSES) - 1,
	};
	struct busy b[3] = {{0}};
	const struct view *v = m->v;
	int r = 0;

	m->one.parts = calloc(v->n_steps + 2, sizeof(*m->one.parts));
	if (!m->one.parts)
		r = -ENOMEM;
	for (int i = 0; i < 3 && r == 0; i++)
		r = busy_of(v, classes[i], &b[i]);
	for (size_t i = 0; i < v->n_steps && r == 0; i++) {
		struct ranks_part *p = &m->one.parts[m->one.n_parts];

		/* By number, each once. */
		if (m->one.n_parts && v->steps[i].number <= p[-1].s.number)
			continue;
		p->s.number = v->steps[i].number;
		fill_step(&p->s, b, v->steps[i].ts, v->steps[i].end);
		m->one.n_parts++;
	}
	if (r == 0 && !v->n_steps) {
		m->one.parts[0].s.number = -1;
		fill_step(&m->one.parts[0].s, b, v->first, v->last);
		m->one.n_parts = 1;
	}
	for (int i = 0; i < 3; i++)
		free(b[i].s);
	return r;
}

/* ---- the host ---------------------------------------------------------------------------- */

struct own {
	int64_t step, ns;
	uint32_t name;
};

static int by_name(const void *pa, const void *pb)
{
	const struct own *a = pa, *b = pb;

	if (a->step != b->step)
		return a->step < b->step ? -1 : 1;
	return a->name < b->name ? -1 : a->name > b->name;
}

static int by_time(const void *pa, const void *pb)
{
	const struct own *a = pa, *b = pb;

	if (a->step != b->step)
		return a->step < b->step ? -1 : 1;
	if (a->ns != b->ns)
		return a->ns > b->ns ? -1 : 1;
	return a->name < b->name ? -1 : a->name > b->name;
}

/* Calls that return when a queue or a device lets them say nothing about this rank. */
static bool may_wait(const struct view_row *r)
{
	return r->cat == TRACE_CAT_CUDA_RUNTIME || r->cat == TRACE_CAT_CUDA_DRIVER ||
	       r->cat == TRACE_CAT_OVERHEAD || r->cat == TRACE_CAT_XPU_RUNTIME ||
	       r->cat == TRACE_CAT_XPU_DRIVER || r->cat == TRACE_CAT_MTIA_RUNTIME;
}

static void add_operator(struct summary *m, const struct view_row *r, int64_t ns)
{
	int64_t step = m->v->n_steps ? r->step : -1;
	size_t low = 0, high = m->one.n_parts;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (m->one.parts[mid].s.number < step)
			low = mid + 1;
		else
			high = mid;
	}
	if (low < m->one.n_parts && m->one.parts[low].s.number == step)
		m->one.parts[low].s.host += ns;
}

static int name_of(struct summary *m, uint32_t text, uint32_t *ret)
{
	size_t len;
	const char *s = trace_text(m->v->trace, text, &len);

	if (view_step_number(s) >= 0)
		return ranks_text(m->set, UNTOLD, strlen(UNTOLD), ret);
	return ranks_text(m->set, s, len, ret);
}

/* The largest of each step. */
static int keep_largest(struct summary *m, const struct own *all, size_t n)
{
	size_t at = 0;
	int r = 0;

	for (size_t p = 0; p < m->one.n_parts && r == 0; p++) {
		struct ranks_part *part = &m->one.parts[p];
		int k = 0;

		while (at < n && all[at].step < part->s.number)
			at++;
		for (; at < n && all[at].step == part->s.number && r == 0; at++) {
			if (k == RANKS_NAMES || all[at].ns <= 0)
				continue;
			r = name_of(m, all[at].name, &part->host[k].name);
			part->host[k++].ns = all[at].ns;
		}
	}
	return r;
}

static int add_host(struct summary *m)
{
	static const struct nest_options o = {.order = NEST_EXACT};
	struct nest *t = NULL;
	struct own *all = NULL;
	size_t n = 0;
	int r = nest_new(m->v, &o, &t);

	if (r == 0) {
		all = calloc((size_t)t->n + 1, sizeof(*all));
		r = all ? 0 : -ENOMEM;
	}
	for (uint32_t k = 0; r == 0 && k < t->n; k++) {
		const struct view_row *row = &m->v->rows[t->row[k]];

		if (t->self[k] <= 0 || may_wait(row))
			continue;
		all[n++] = (struct own){m->v->n_steps ? row->step : -1, t->self[k], row->name};
		if (row->cat == TRACE_CAT_CPU_OP)
			add_operator(m, row, t->self[k]);
	}
	if (r == 0 && n) {
		size_t kept = 0;

		qsort(all, n, sizeof(*all), by_name);
		for (size_t i = 0; i < n; i++) {
			if (kept && !by_name(&all[kept - 1], &all[i]))
				all[kept - 1].ns += all[i].ns;
			else
				all[kept++] = all[i];
		}
		qsort(all, kept, sizeof(*all), by_time);
		r = keep_largest(m, all, kept);
	}
	free(all);
	nest_free(t);
	return r;
}

/* ---- collectives -------------------------------------------------------------------------- */

/* "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)" is "AllReduce": algorithm and protocol may
 * differ from rank to rank. */
static size_t operation(const char **name)
{
	static const char *const starts[] = {"ncclDevKernel_", "ncclKernel_", "ncclSymDevKernel_",
					     "rcclKernel_"};
	const char *s = *name;

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		const char *at = strstr(s, starts[i]);

		if (!at)
			continue;
		*name = at + strlen(starts[i]);
		return strcspn(*name, "_(<");
	}
	return strcspn(s, "(<");
}

static int add_collective(struct summary *m, const struct view_row *r)
{
	const struct trace_args *a = trace_args(m->v->trace, r->args);
	int64_t base = trace_meta(m->v->trace)->base_ns;
	struct ranks_collective *c;
	const char *name = trace_text(m->v->trace, r->name, NULL);
	size_t len = operation(&name);
	const char *group;
	size_t group_len;
	int e;

	if (room_for(&m->one.coll, m->one.n_coll, &m->cap_coll, sizeof(*c)) < 0)
		return -ENOMEM;
	c = &m->one.coll[m->one.n_coll];
	*c = (struct ranks_collective){
		.ts = base + r->ts, .end = base + r->end, .step = m->v->n_steps ? r->step : -1};
	group = trace_text(m->v->trace, a->group_name, &group_len);
	e = ranks_text(m->set, group, group_len, &c->group);
	if (e == 0)
		e = ranks_text(m->set, name, len, &c->name);
	m->one.n_coll += e == 0;
	return e;
}

static int by_kind(const void *pa, const void *pb)
{
	const struct ranks_collective *a = pa, *b = pb;

	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	if (a->name != b->name)
		return a->name < b->name ? -1 : 1;
	if (a->step != b->step)
		return a->step < b->step ? -1 : 1;
	if (a->ts != b->ts)
		return a->ts < b->ts ? -1 : 1;
	return a->end < b->end ? -1 : a->end > b->end;
}

static int add_collectives(struct summary *m)
{
	struct ranks_collective *c;
	int r = 0;

	for (size_t i = 0; i < m->v->n && r == 0; i++) {
		const struct view_row *row = &m->v->rows[i];

		if (row->is_gpu && row->class == VIEW_COMMUNICATION)
			r = add_collective(m, row);
	}
	c = m->one.coll;
	if (r == 0 && m->one.n_coll)
		qsort(c, m->one.n_coll, sizeof(*c), by_kind);
	for (size_t i = 1; r == 0 && i < m->one.n_coll; i++) {
		bool same = c[i].group == c[i - 1].group && c[i].name == c[i - 1].name &&
			    c[i].step == c[i - 1].step;

		c[i].order = same ? c[i - 1].order + 1 : 0;
	}
	return r;
}

int ranks_add(struct ranks_set *s, struct view *v, struct err *e)
{
	struct summary m = {.set = s, .v = v, .one = {.rank = v->rank}};
	int r = add_steps(&m);

	if (r == 0)
		r = add_host(&m);
	if (r == 0)
		r = add_collectives(&m);
	if (r == 0)
		r = ranks_insert(s, &m.one, e);
	if (r)
		ranks_one_done(&m.one);
	return r;
}
