/* SPDX-License-Identifier: Apache-2.0
 *
 * oneevent.c - see oneevent.h. Two times over the rows: the event, then what belongs to it.
 */
#include "analyse/oneevent.h"

#include "analyse/room.h"
#include "trace/view.h"

#include <errno.h>
#include <stdlib.h>

struct oneevent_search {
	struct trace *t;
	struct oneevent *e;
	bool is_found;
	int rc;
	int64_t correlation, sequence; /* TRACE_NONE: none */
	uint32_t pid;                  /* as text */
	bool is_call, is_work, is_backward;
	enum lanes_kind kind;
	struct view_span *below; /* what lies below it */
	size_t n_below, cap_below;
	struct oneevent_link forward, backward; /* of its sequence number, so far */
	bool has_forward, has_backward;
};

/* fn of each event until it sets rc. */
static int oneevent_each(struct oneevent_search *s,
			 void (*fn)(struct oneevent_search *s, const struct trace_block *b,
				    uint32_t i, uint32_t row))
{
	uint64_t rows = trace_rows(s->t);
	const struct trace_block *b;
	uint32_t k, i, n;

	for (k = 0; (uint64_t)k * TRACE_BLOCK_ROWS < rows && !s->rc; k++) {
		b = trace_block(s->t, k);
		if (!b)
			return -EIO;
		n = trace_block_rows(s->t, k);
		for (i = 0; i < n && !s->rc; i++)
			if (lanes_is_event(b, i))
				fn(s, b, i, k * TRACE_BLOCK_ROWS + i);
	}
	return s->rc;
}

static bool oneevent_is_work(enum trace_cat cat)
{
	return lanes_kind_of(cat) == LANES_DEVICE || cat == TRACE_CAT_CUDA_SYNC ||
	       cat == TRACE_CAT_CUDA_EVENT;
}

/* The number that ties operators to their gradients. */
static int64_t oneevent_sequence(struct trace *t, const struct trace_block *b, uint32_t i,
				 bool *ret_backward)
{
	const struct trace_args *a;

	if (b->cat[i] != TRACE_CAT_CPU_OP || !b->args[i])
		return TRACE_NONE;
	a = trace_args(t, b->args[i]);
	*ret_backward = a->forward_thread > 0;
	return a->sequence < 0 ? TRACE_NONE : a->sequence;
}

static void oneevent_look(struct oneevent_search *s, const struct trace_block *b, uint32_t i,
			  uint32_t row)
{
	struct oneevent *e = s->e;
	enum trace_cat cat = (enum trace_cat)b->cat[i];

	e->first = b->ts[i] < e->first ? b->ts[i] : e->first;
	if (b->index[i] != e->index || s->is_found)
		return;
	s->is_found = true;
	e->ts = b->ts[i];
	e->dur = b->dur[i];
	e->row = row;
	e->name = b->name[i];
	e->track = b->track[i];
	e->cat = b->cat[i];
	s->kind = lanes_kind_of(cat);
	s->pid = trace_track(s->t, b->track[i])->pid_text;
	s->is_call = view_is_call(cat);
	s->is_work = oneevent_is_work(cat);
	/* Correlation 0 is the tracer's "none". */
	s->correlation = b->correlation[i] > 0 ? b->correlation[i] : TRACE_NONE;
	s->sequence = oneevent_sequence(s->t, b, i, &s->is_backward);
}

static struct oneevent_link oneevent_link_of(const struct trace_block *b, uint32_t i,
					     enum oneevent_role role)
{
	return (struct oneevent_link){.role = role,
				      .index = b->index[i],
				      .name = b->name[i],
				      .track = b->track[i],
				      .cat = b->cat[i],
				      .ts = b->ts[i],
				      .dur = b->dur[i]};
}

/* Launch and work: of a work's calls the one that began last. */
static void oneevent_correlate(struct oneevent_search *s, const struct trace_block *b, uint32_t i)
{
	struct oneevent *e = s->e;
	enum trace_cat cat = (enum trace_cat)b->cat[i];

	if (s->is_call && oneevent_is_work(cat)) {
		if (e->n_links < ONEEVENT_LINKS)
			e->links[e->n_links++] = oneevent_link_of(b, i, ONEEVENT_WORK);
		else
			e->links_left_out++;
	}
	if (s->is_work && view_is_call(cat) && (e->n_links == 0 || b->ts[i] >= e->links[0].ts)) {
		e->links[0] = oneevent_link_of(b, i, ONEEVENT_LAUNCH);
		e->n_links = 1;
	}
}

/* Is row i a better other end than what was found? Numbers are counted by each thread that
 * computes forward, and a gradient is mostly computed by another: what that thread itself
 * computed (checkpointing computes anew) comes after all others. */
static bool oneevent_is_better(const struct oneevent_search *s, const struct trace_block *b,
			       uint32_t i, bool is_backward, const struct oneevent_link *than)
{
	bool here = b->track[i] == s->e->track, there = than->track == s->e->track;

	if (here != there)
		return there;
	if (!is_backward) /* the one that is meant began last */
		return b->ts[i] >= than->ts;
	return b->ts[i] < than->ts || (b->ts[i] == than->ts && b->dur[i] > than->dur);
}

/* Can row i be an end of the event's arrow? The operator of a gradient began before it. That of
 * an operator may be one around it or in it, of its own thread; its gradient begins later. */
static bool oneevent_is_end(const struct oneevent_search *s, const struct trace_block *b,
			    uint32_t i, bool is_backward)
{
	if (s->is_backward)
		return !is_backward && b->ts[i] < s->e->ts;
	return is_backward ? b->ts[i] > s->e->ts : b->track[i] == s->e->track;
}

/* Only of the same process: other ranks, merged into the file, count for themselves. */
static void oneevent_gradient(struct oneevent_search *s, const struct trace_block *b, uint32_t i)
{
	bool is_backward = false, *has = &s->has_forward;
	struct oneevent_link *link = &s->forward;

	if (oneevent_sequence(s->t, b, i, &is_backward) != s->sequence ||
	    trace_track(s->t, b->track[i])->pid_text != s->pid ||
	    !oneevent_is_end(s, b, i, is_backward))
		return;
	if (is_backward) {
		has = &s->has_backward;
		link = &s->backward;
	}
	if (*has && !oneevent_is_better(s, b, i, is_backward, link))
		return;
	*link = oneevent_link_of(b, i, is_backward ? ONEEVENT_BACKWARD : ONEEVENT_FORWARD);
	*has = true;
}

/* In the order of timerows_nest(): of equal begins the longer is above, then by name. */
static bool oneevent_is_below(const struct oneevent *e, const struct trace_block *b, uint32_t i)
{
	if (b->ts[i] != e->ts)
		return b->ts[i] > e->ts && b->ts[i] < e->ts + e->dur;
	if (b->dur[i] != e->dur)
		return b->dur[i] < e->dur;
	return b->name[i] != e->name ? b->name[i] > e->name : b->index[i] > e->index;
}

/* What overlaps is merged before there is more room for it. */
static int oneevent_add_below(struct oneevent_search *s, int64_t ts, int64_t end)
{
	int64_t stop = s->e->ts + s->e->dur;
	int rc;

	if (s->n_below == s->cap_below) {
		s->n_below = view_merge(s->below, s->n_below);
		rc = s->n_below * 2 < s->cap_below
			     ? 0
			     : room_for(&s->below, s->cap_below, &s->cap_below, sizeof(*s->below));
		if (rc)
			return rc;
	}
	s->below[s->n_below++] = (struct view_span){ts, end < stop ? end : stop};
	return 0;
}

static void oneevent_relate(struct oneevent_search *s, const struct trace_block *b, uint32_t i,
			    uint32_t row)
{
	if (s->sequence != TRACE_NONE)
		oneevent_gradient(s, b, i);
	if (row == s->e->row)
		return;
	if (s->correlation != TRACE_NONE && b->correlation[i] == s->correlation)
		oneevent_correlate(s, b, i);
	if (b->track[i] == s->e->track && lanes_kind_of((enum trace_cat)b->cat[i]) == s->kind &&
	    b->dur[i] > 0 && oneevent_is_below(s->e, b, i))
		s->rc = oneevent_add_below(s, b->ts[i], b->ts[i] + b->dur[i]);
}

/* The arrow between an operator and its gradient; operators around the one that is meant have
 * it, too. */
static void oneevent_arrow(struct oneevent_search *s)
{
	const struct oneevent_link *f = &s->forward;
	struct oneevent *e = s->e;

	if (!s->has_forward || e->n_links == ONEEVENT_LINKS)
		return;
	if (s->is_backward)
		e->links[e->n_links++] = *f;
	else if (s->has_backward && e->ts <= f->ts && e->ts + e->dur >= f->ts + f->dur)
		e->links[e->n_links++] = s->backward;
}

int oneevent_find(struct trace *t, uint32_t index, struct oneevent *ret)
{
	struct oneevent e = {.index = index, .first = INT64_MAX};
	struct oneevent_search s = {.t = t, .e = &e};
	int rc = oneevent_each(&s, oneevent_look);

	if (!rc && !s.is_found)
		rc = -ENOENT;
	if (!rc)
		rc = oneevent_each(&s, oneevent_relate);
	if (!rc) {
		oneevent_arrow(&s);
		s.n_below = view_merge(s.below, s.n_below);
		e.self = e.dur - view_total(s.below, s.n_below);
		*ret = e;
	}
	free(s.below);
	return rc;
}
