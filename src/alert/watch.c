/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c - see watch.h. The calls of a sink: each goes to the one within first.
 */
#include "alert/watch_priv.h"

#include "base/mem.h"
#include "wire/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WATCH_TICK_NS 1000000000LL

static struct watch *watch_of(struct sink *s)
{
	return (struct watch *)s;
}

/* ---- definitions ------------------------------------------------------------------------- */

static void watch_lose(struct watch *w, uint64_t before, uint64_t now)
{
	if (now <= before)
		return;
	w->lost += now - before;
	w->loss_ns = w->now_ns;
}

static void watch_note_process(struct watch *w, const struct sink_process *p, uint32_t id)
{
	bool is_program = strcmp(p->role, "host") != 0 && strcmp(p->role, "command") != 0;
	uint64_t before = 0;
	uint8_t *at;

	if (id >= WATCH_PROCESSES_MAX)
		return;
	if (id >= w->n_processes) {
		w->processes = xrealloc(w->processes, id + 64, 1);
		memset(w->processes + w->n_processes, 0, id + 64 - w->n_processes);
		w->n_processes = id + 64;
	}
	at = &w->processes[id];
	*at |= is_program ? WATCH_PROGRAM : 0;
	if (!w->first_process)
		w->first_process = id;
	if (strcmp(p->role, "command") == 0)
		w->command = id;
	/* What was lost before it was first seen was told by another agent. */
	if (map_get(&w->uids, &id, sizeof(id), &before))
		watch_lose(w, before, p->dropped);
	map_put(&w->uids, &id, sizeof(id), p->dropped);
	if (!p->end_ns)
		return;
	/* Also when it is said again, after a commit that failed. */
	if (*at & WATCH_PROGRAM)
		watch_gone(w, id, p->end_ns);
	if (*at & WATCH_ENDED)
		return;
	*at |= WATCH_ENDED;
	if (*at & WATCH_STEPPED)
		watch_leave(w, id);
}

static int watch_put_process(struct sink *s, const struct sink_process *p, uint32_t *ret_id)
{
	struct watch *w = watch_of(s);
	int r = w->inner->ops->process(w->inner, p, ret_id);

	if (r == 0)
		watch_note_process(w, p, *ret_id);
	return r;
}

static int watch_put_series(struct sink *s, const struct sink_series *d, uint32_t *ret_id)
{
	struct watch *w = watch_of(s);
	int r = w->inner->ops->series(w->inner, d, ret_id);

	if (r == 0 && !w->off)
		watch_define(w, *ret_id, d);
	return r;
}

/* ---- what is recorded ---------------------------------------------------------------------- */

/* Time goes on with what the machine's readings say, and with a program's as far as it can
 * be true. */
static void watch_advance(struct watch *w, const struct watch_slot *slot, int64_t time_ns)
{
	if (!(slot->flags & WATCH_MACHINE) && time_ns > w->wall_ns + WATCH_AHEAD_NS)
		return;
	w->now_ns = time_ns;
	if (!w->began_ns)
		w->began_ns = time_ns;
	w->tick_ns = time_ns + WATCH_TICK_NS;
	watch_tick(w);
}

static int watch_put_samples(struct sink *s, const struct sink_sample *v, size_t n)
{
	struct watch *w = watch_of(s);
	int r = w->inner->ops->samples(w->inner, v, n);
	struct watch_slot *slot;
	size_t i;

	if (r != 0 || w->off || w->ended)
		return r;
	for (i = 0; i < n; i++) {
		if (v[i].series >= w->n_slots)
			continue;
		slot = &w->slots[v[i].series];
		if (v[i].time_ns >= w->tick_ns)
			watch_advance(w, slot, v[i].time_ns);
		if (slot->instance | slot->of | slot->nan | (slot->flags & WATCH_FED))
			watch_sample(w, slot, &v[i]);
	}
	return 0;
}

static int watch_put_hist(struct sink *s, const struct sink_hist *h)
{
	struct watch *w = watch_of(s);

	return w->inner->ops->hist(w->inner, h);
}

static int watch_put_event(struct sink *s, const struct sink_event *e)
{
	struct watch *w = watch_of(s);
	int r = w->inner->ops->event(w->inner, e);

	if (r == 0 && !w->off && e->kind && strcmp(e->kind, "suspend") == 0)
		steps_skip(&w->steps, e->time_ns > w->now_ns ? e->time_ns : w->now_ns);
	return r;
}

/* How many steps there will be, as programs say it. */
static int watch_put_attr(struct sink *s, uint32_t process, const char *key, const char *value)
{
	static const char *const keys[] = {"total_steps", "max_steps", "num_training_steps",
					   "simulate.steps"};
	struct watch *w = watch_of(s);
	int r = w->inner->ops->attr(w->inner, process, key, value);
	size_t i;

	for (i = 0; r == 0 && i < ARRAY_LEN(keys); i++)
		if (strcmp(key, keys[i]) == 0)
			w->steps.total = strtoll(value, NULL, 10);
	return r;
}

struct watch_lane {
	uint8_t ring[16];
	uint32_t lane;
};

static void watch_note_position(struct watch *w, const struct sink_position *p, bool is_old)
{
	struct watch_lane key = {.lane = p->lane};
	uint64_t before = 0, lost = p->overwritten + p->broken + p->dropped;

	memcpy(key.ring, p->ring, sizeof(key.ring));
	if (!map_get(&w->lanes, &key, sizeof(key), &before) && w->lanes.len >= WATCH_LANES_MAX)
		return;
	if (lost != before || is_old)
		map_put(&w->lanes, &key, sizeof(key), lost);
	if (!is_old)
		watch_lose(w, before, lost);
}

static int watch_put_position(struct sink *s, const struct sink_position *p)
{
	struct watch *w = watch_of(s);
	int r = w->inner->ops->position(w->inner, p);

	if (r == 0 && !w->off)
		watch_note_position(w, p, false);
	return r;
}

/* What was lost before this agent came was told by the one before. */
static int watch_resume(struct sink *s, const uint8_t ring[16], uint32_t lane,
			struct sink_position *ret)
{
	struct watch *w = watch_of(s);
	int r = w->inner->ops->resume(w->inner, ring, lane, ret);
	struct sink_position at;

	if (r == 0 && !w->off) {
		at = *ret;
		memcpy(at.ring, ring, sizeof(at.ring));
		at.lane = lane;
		watch_note_position(w, &at, true);
	}
	return r;
}

/* ---- commits --------------------------------------------------------------------------------- */

static void watch_push_queue(struct watch *w)
{
	unsigned i;

	for (i = 0; i < w->n_queue; i++) {
		struct watch_event *q = &w->queue[i];
		const struct sink_event e = {.process = q->process,
					     .time_ns = q->time_ns,
					     .step = SINK_STEP_NONE,
					     .severity = q->severity,
					     .kind = WATCH_KIND,
					     .text = q->text,
					     .attrs = q->attrs};

		if (!q->is_pushed)
			q->is_pushed = w->inner->ops->event(w->inner, &e) == 0;
	}
}

/* All that was not committed is forgotten by the sink within. */
static void watch_forgotten(struct watch *w)
{
	unsigned i;

	for (i = 0; i < w->n_queue; i++)
		w->queue[i].is_pushed = false;
}

void watch_queue(struct watch *w, uint32_t process, int64_t time_ns, int severity, char *text,
		 char *attrs)
{
	if (w->n_queue == WATCH_QUEUE_MAX) {
		free(w->queue[0].text);
		free(w->queue[0].attrs);
		memmove(&w->queue[0], &w->queue[1], (WATCH_QUEUE_MAX - 1) * sizeof(w->queue[0]));
		w->n_queue--;
	}
	w->queue[w->n_queue++] = (struct watch_event){.process = process,
						      .time_ns = time_ns,
						      .severity = severity,
						      .text = text,
						      .attrs = attrs};
	watch_push_queue(w);
}

static void watch_clear_queue(struct watch *w)
{
	unsigned i;

	for (i = 0; i < w->n_queue; i++) {
		free(w->queue[i].text);
		free(w->queue[i].attrs);
	}
	w->n_queue = 0;
}

/* Once: what is looked at. */
static bool watch_say(struct watch *w)
{
	struct buf text;

	if (w->said || !w->first_process)
		return w->said;
	buf_init(&text, 8192);
	watch_describe(w, &text);
	w->inner->ops->attr(w->inner, w->first_process, WATCH_ATTR, buf_str(&text));
	buf_done(&text);
	return true;
}

static int watch_commit(struct sink *s)
{
	struct watch *w = watch_of(s);
	bool said;
	int r;

	w->wall_ns = clock_ns(CLOCK_REALTIME);
	said = watch_say(w);
	watch_push_queue(w);
	r = w->inner->ops->commit(w->inner);
	if (r == 0) {
		watch_clear_queue(w);
		w->said = said;
	} else {
		watch_forgotten(w);
	}
	return r;
}

static void watch_rollback(struct sink *s)
{
	struct watch *w = watch_of(s);

	w->inner->ops->rollback(w->inner);
	watch_forgotten(w);
}

/* ---- life --------------------------------------------------------------------------------------
 */

static const struct sink_ops watch_ops = {
	.process = watch_put_process,
	.series = watch_put_series,
	.samples = watch_put_samples,
	.hist = watch_put_hist,
	.event = watch_put_event,
	.attr = watch_put_attr,
	.position = watch_put_position,
	.resume = watch_resume,
	.commit = watch_commit,
	.rollback = watch_rollback,
};

static void watch_set(struct watch *w, const struct watch_settings *s)
{
	const struct watch_limit *l;
	size_t i, k;

	w->off = s->off;
	for (i = 0; i < builtin_n_rules; i++) {
		struct watch_row *row = &w->rows[i];
		bool is_first = builtin_first(builtin_rules[i].name) == &builtin_rules[i];

		row->rule = builtin_rules[i];
		for (k = 0; s->none && s->none[k]; k++)
			row->off = row->off || strcmp(s->none[k], row->rule.name) == 0;
		for (l = s->limits; l && l->rule && is_first; l++)
			if (strcmp(l->rule, row->rule.name) == 0)
				builtin_set_limit(&row->rule, l->limit);
		if (row->rule.what == RULE_OF_PACE)
			w->steps.slow = row->rule.limit;
	}
}

struct watch *watch_new(struct sink *inner, const char *host, const struct watch_settings *s)
{
	static const struct watch_settings usual;
	struct watch *w = xcalloc(1, sizeof(*w));

	w->sink.ops = &watch_ops;
	w->inner = inner;
	strncpy(w->host, host ? host : "", sizeof(w->host) - 1);
	map_init(&w->pairs);
	map_init(&w->lanes);
	map_init(&w->uids);
	w->n_instances = 1;
	w->instances = xgrow(NULL, 0, &w->cap_instances, sizeof(*w->instances));
	memset(&w->instances[0], 0, sizeof(*w->instances));
	w->wall_ns = clock_ns(CLOCK_REALTIME);
	watch_set(w, s ? s : &usual);
	return w;
}

void watch_free(struct watch *w)
{
	size_t i;

	if (!w)
		return;
	watch_clear_queue(w);
	for (i = 0; i < builtin_n_rules; i++)
		free(w->rows[i].alert);
	for (i = 1; i < w->n_instances; i++) {
		free(w->instances[i].fit);
		free(w->instances[i].spread);
		free(w->instances[i].surge);
		free(w->instances[i].alert);
	}
	for (i = 0; i < w->n_names; i++)
		free(w->names[i]);
	free(w->names);
	free(w->slots);
	free(w->instances);
	free(w->processes);
	map_done(&w->pairs);
	map_done(&w->lanes);
	map_done(&w->uids);
	free(w);
}

struct sink *watch_sink(struct watch *w)
{
	return &w->sink;
}

void watch_aside(struct watch *w, bool is_aside)
{
	if (w->is_aside && !is_aside)
		steps_live(&w->steps, w->now_ns);
	w->is_aside = is_aside;
}
