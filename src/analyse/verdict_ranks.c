/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict_ranks.c - collectives of several ranks matched with each other: the k-th of a
 * process group within a step. What a collective takes on one rank beyond the shortest of all
 * ranks is waiting; no clock is compared. One that was launched before the first step, or whose
 * launch was not recorded, has no partners: it is taken to need what the matched ones of its
 * name need on average.
 */
#include "analyse/verdict_priv.h"

#include "analyse/room.h"
#include "base/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One collective of the job, or (k -1) the group of a step. */
struct slot {
	int64_t least; /* ns */
	int64_t sum;   /* of least over the matched ones of a name */
	uint64_t matched;
	uint64_t ranks, count, first_count;
	bool differs; /* ranks disagree on how many there are */
};

struct match {
	struct map index; /* "step|group|k" -> place in slots */
	struct slot *slots;
	size_t n, cap;
};

static struct slot *slot(struct match *m, const char *key, int len)
{
	uint64_t at;

	if (!map_get(&m->index, key, (size_t)len, &at)) {
		if (room_for(&m->slots, m->n, &m->cap, sizeof(*m->slots)))
			return NULL;
		at = m->n++;
		m->slots[at] = (struct slot){.least = INT64_MAX};
		map_put(&m->index, key, (size_t)len, at);
	}
	return &m->slots[at];
}

/* The step that launched the row; -2: none of the windows. */
static int64_t step_of(const struct verdict_work *w, const struct view_row *row)
{
	const struct verdict_rank *r = w->r;
	bool has_launch = row->pair != VIEW_NO_ROW;
	int64_t ts = has_launch ? w->v->rows[row->pair].ts : row->ts;
	size_t lo = 0, hi = r->n_steps;

	if (!r->has_marks)
		return -1;
	if (!has_launch && row->correlation != TRACE_NONE)
		return -2; /* launched before the trace began */
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (r->steps[mid].end <= ts)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < r->n_steps && r->steps[lo].ts <= ts ? r->steps[lo].number : -2;
}

static bool is_collective(struct verdict_work *w, const struct view_row *row)
{
	return verdict_is_gpu(row) && verdict_gpu_kind(w, row) == VERDICT_COMMUNICATION &&
	       !strcasestr(trace_text(w->t, row->name, NULL), "SendRecv");
}

static int group_key(struct verdict_work *w, const struct view_row *row, int64_t step,
		     char key[static 200])
{
	uint32_t group = trace_args(w->t, row->args)->group_name;
	int n = snprintf(key, 200, "%lld|%.150s", (long long)step, trace_text(w->t, group, NULL));

	return n < 199 ? n : 199;
}

enum pass {
	PASS_COUNT,
	PASS_LEAST,
	PASS_MEAN,
	PASS_WAIT
};

/* Sum and number of the shortest ones of the row's name, over all steps. Not of its group:
 * a kernel without a launch has no args that tell it. */
static struct slot *name_slot(struct verdict_work *w, struct match *m, const struct view_row *row)
{
	char key[200];
	int n = snprintf(key, sizeof(key), "name|%.180s", trace_text(w->t, row->name, NULL));

	return slot(m, key, n);
}

/* A collective without partners. */
static int lone(struct verdict_work *w, struct match *m, const struct view_row *row)
{
	struct slot *g = name_slot(w, m, row);

	if (!g)
		return -ENOMEM;
	return g->matched ? verdict_add(&w->layer[LAYER_WAIT], row->ts,
					row->end - g->sum / (int64_t)g->matched)
			  : 0;
}

static int one(struct verdict_work *w, struct match *m, const struct view_row *row, enum pass pass)
{
	int64_t step = step_of(w, row), dur = row->end - row->ts;
	char key[200], full[232];
	struct slot *g, *s;
	uint64_t k, at;
	int n;

	if (step == -2)
		return pass == PASS_WAIT ? lone(w, m, row) : 0;
	n = group_key(w, row, step, key);
	g = slot(m, key, n);
	if (!g)
		return -ENOMEM;
	k = g->count++;
	if (g->differs)
		return pass == PASS_WAIT ? lone(w, m, row) : 0;
	if (pass == PASS_COUNT)
		return 0;
	n = snprintf(full, sizeof(full), "%s|%llu", key, (unsigned long long)k);
	if (pass == PASS_LEAST) {
		s = slot(m, full, n);
		if (!s)
			return -ENOMEM;
		s->least = dur < s->least ? dur : s->least;
		s->ranks++;
		return 0;
	}
	if (!map_get(&m->index, full, (size_t)n, &at) || m->slots[at].ranks < 2)
		return 0;
	if (pass == PASS_MEAN) {
		int64_t least = m->slots[at].least;

		g = name_slot(w, m, row);
		if (!g)
			return -ENOMEM;
		g->sum += least;
		g->matched++;
		return 0;
	}
	return verdict_add(&w->layer[LAYER_WAIT], row->ts, row->end - m->slots[at].least);
}

/* Counts of one rank are done: do the ranks that take part agree? */
static void close_rank(struct match *m, enum pass pass)
{
	for (size_t i = 0; i < m->n; i++) {
		struct slot *s = &m->slots[i];

		if (pass == PASS_COUNT && s->count) {
			s->differs |= s->ranks && s->first_count != s->count;
			s->first_count = s->count;
			s->ranks++;
		}
		s->count = 0;
	}
}

static int all_rows(struct verdict_work *works, size_t n, struct match *m, enum pass pass)
{
	for (size_t r = 0; r < n; r++) {
		const struct view *v = works[r].v;

		for (size_t i = 0; i < v->n; i++) {
			int rc;

			if (!is_collective(&works[r], &v->rows[i]))
				continue;
			rc = one(&works[r], m, &v->rows[i], pass);
			if (rc)
				return rc;
		}
		close_rank(m, pass);
	}
	return 0;
}

int verdict_waits(struct verdict_work *works, size_t n, struct verdict_result *res)
{
	struct match m = {.n = 0};
	int rc;

	if (n < 2)
		return 0;
	map_init(&m.index);
	rc = all_rows(works, n, &m, PASS_COUNT);
	if (!rc)
		rc = all_rows(works, n, &m, PASS_LEAST);
	if (!rc)
		rc = all_rows(works, n, &m, PASS_MEAN);
	if (!rc)
		rc = all_rows(works, n, &m, PASS_WAIT);
	for (size_t i = 0; i < m.n; i++)
		if (m.slots[i].least != INT64_MAX && m.slots[i].ranks >= 2)
			res->collectives++;
	res->is_matched = res->collectives > 0;
	map_done(&m.index);
	free(m.slots);
	return rc;
}
