/* SPDX-License-Identifier: Apache-2.0
 *
 * Records to samples. The reader has checked every length; ids and numbers are
 * still the client's word.
 */
#include "agent/client_priv.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* UTC of a record's time: ticks, or UTC on the client's own scale, which began
 * at its open with another reading of the wall clock than the run's. */
static int64_t decode_time(struct client *c, const struct wire_rec *r, uint64_t t)
{
	const struct wire_anchor *o = &c->reader.ring.opened;

	if (!(r->flags & WIRE_F_UTC))
		return client_utc(c, t);
	return (int64_t)(t + (uint64_t)(c->epoch.real_ns - c->epoch.boot_ns) -
			 (uint64_t)(o->real_ns - o->boot_ns));
}

static int decode_put(struct client *c, uint32_t series, int64_t time_ns, int64_t step,
		      double value, uint32_t thread)
{
	struct sink_sample *s = &c->batch[c->n_batch++];

	s->time_ns = time_ns;
	s->step = step;
	s->value = value;
	s->series = series;
	s->thread = thread;
	return c->n_batch < CLIENT_BATCH ? 0 : client_flush(c);
}

/* One value of a metric; the metric's kind decides what it means. */
static int decode_value(struct client *c, uint32_t id, double value, int64_t time_ns, int64_t step,
			uint32_t thread)
{
	struct client_def *d;
	uint32_t series;
	int err;

	if (id == 0 || id > c->n_defs)
		return 0;
	d = &c->defs[id - 1];
	if (__builtin_expect(d->series == 0, 0)) {
		err = client_series(c, id, &series);
		if (err)
			return err;
	}
	if (d->hist) {
		hist_add(d->hist, value, time_ns, step);
		return 0;
	}
	return decode_put(c, d->series, time_ns, step, value, thread);
}

static int decode_set(struct client *c, struct client_lane *l, const struct wire_rec *r)
{
	return decode_value(c, r->id, r->value, decode_time(c, r, r->time), r->step, l->tid);
}

static int decode_frame(struct client *c, struct client_lane *l, const struct wire_rec *r)
{
	const struct wire_value *v = (const struct wire_value *)(r + 1);
	int64_t time_ns = decode_time(c, r, r->time);
	uint32_t i;
	int err = 0;

	for (i = 0; i < r->id && !err; i++)
		err = decode_value(c, v[i].id, v[i].value, time_ns, r->step, l->tid);
	return err;
}

static int decode_span(struct client *c, struct client_lane *l, const struct wire_rec *r)
{
	int64_t start = decode_time(c, r, r->time), end = decode_time(c, r, r->end);
	uint32_t series;
	int err = client_series(c, r->id, &series);

	if (err || series == 0 || c->defs[r->id - 1].kind != WIRE_KIND_NAME)
		return err;
	return decode_put(c, series, start, r->step, (double)(end - start), l->tid);
}

/* A series of the agent's making ("step", "lapse/step/samples", ...). */
static int decode_own_series(struct client *c, uint32_t *series, const char *name, const char *unit,
			     const char *help, int kind)
{
	struct sink_series s = {c->process, name, "", unit, help, kind, "record"};

	return *series ? 0 : c->sink->ops->series(c->sink, &s, series);
}

static int decode_step(struct client *c, struct client_lane *l, const struct wire_rec *r)
{
	int64_t start = client_utc(c, r->time), end = client_utc(c, r->end);
	double payload[2];
	int err;

	memcpy(payload, r + 1, sizeof(payload));
	err = decode_own_series(c, &c->step_series, "step", "ns", "a training step, begin to end",
				SINK_SPAN);
	if (!err)
		err = decode_put(c, c->step_series, start, r->step, (double)(end - start), l->tid);
	if (!err && payload[0] >= 0)
		err = decode_own_series(c, &c->samples_series, "lapse/step/samples", "1",
					"samples that a step processed", SINK_COUNTER);
	if (!err && payload[0] >= 0)
		err = decode_put(c, c->samples_series, end, r->step, payload[0], l->tid);
	if (!err && payload[1] >= 0)
		err = decode_own_series(c, &c->tokens_series, "lapse/step/tokens", "1",
					"tokens that a step processed", SINK_COUNTER);
	if (!err && payload[1] >= 0)
		err = decode_put(c, c->tokens_series, end, r->step, payload[1], l->tid);
	return err;
}

static int decode_epoch(struct client *c, struct client_lane *l, const struct wire_rec *r)
{
	int64_t start = client_utc(c, r->time);
	char text[64];
	int err;

	if (r->end == 0) {
		snprintf(text, sizeof(text), "epoch %d begins", (int32_t)r->id);
		return client_event(c, start, r->step, 0, "epoch", text, "");
	}
	err = decode_own_series(c, &c->epoch_series, "epoch", "ns", "an epoch, begin to end",
				SINK_SPAN);
	return err ? err
		   : decode_put(c, c->epoch_series, start, r->step,
				(double)(client_utc(c, r->end) - start), l->tid);
}

/* The three texts of a record as C strings, one allocation. */
static char *decode_texts(const struct wire_rec *r, const char *ret[3])
{
	struct wire_text t;
	const char *from = (const char *)(r + 1) + sizeof(t);
	char *all, *to;
	int i;

	memcpy(&t, r + 1, sizeof(t));
	all = to = xcalloc((size_t)t.len[0] + t.len[1] + t.len[2] + 3, 1);
	for (i = 0; i < 3; i++) {
		memcpy(to, from, t.len[i]);
		ret[i] = to;
		to += t.len[i] + 1;
		from += t.len[i];
	}
	return all;
}

static int decode_event(struct client *c, struct client_lane *l, const struct wire_rec *r)
{
	const char *s[3];
	char *all = decode_texts(r, s);
	int err;

	(void)l;
	utf8_clean(all, strlen(all));
	err = client_event(c, decode_time(c, r, r->time), r->step, r->id <= 3 ? (int)r->id : 1,
			   s[0][0] ? s[0] : "event", s[1], s[2]);
	free(all);
	return err;
}

/* Attributes that say something of the whole run, whichever process says it. */
static void decode_run_attr(struct client *c, const char *key, const char *value)
{
	struct run_start *r = c->run;
	const struct {
		const char *key;
		char *to;
		size_t cap;
	} rows[] = {{"run.name", r->name, sizeof(r->name)},
		    {"run.project", r->project, sizeof(r->project)},
		    {"run.tags", r->tags, sizeof(r->tags)},
		    {"run.notes", r->notes, sizeof(r->notes)},
		    {"run.command", r->command, sizeof(r->command)}};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		if (strcmp(key, rows[i].key) != 0 || strcmp(value, rows[i].to) == 0)
			continue;
		snprintf(rows[i].to, rows[i].cap, "%s", value);
		c->run_changed = true;
	}
}

static int decode_attr(struct client *c, struct client_lane *l, const struct wire_rec *r)
{
	const char *s[3];
	char *all = decode_texts(r, s);
	int err;

	(void)l;
	utf8_clean(all, strlen(all));
	c->pending = true;
	if (c->run && strncmp(s[0], "run.", 4) == 0)
		decode_run_attr(c, s[0], s[1]);
	err = c->sink->ops->attr(c->sink, c->process, s[0], s[1]);
	free(all);
	return err;
}

static int decode_owner(struct client *c, struct client_lane *l, const struct wire_rec *r)
{
	(void)c;
	l->tid = r->id;
	memcpy(l->thread, r + 1, sizeof(l->thread));
	l->thread[sizeof(l->thread) - 1] = '\0';
	return 0;
}

static int (*const decode_rows[WIRE_TYPES])(struct client *c, struct client_lane *l,
					    const struct wire_rec *r) = {
	[WIRE_OWNER] = decode_owner, [WIRE_SET] = decode_set,     [WIRE_ADD] = decode_set,
	[WIRE_OBSERVE] = decode_set, [WIRE_FRAME] = decode_frame, [WIRE_SPAN] = decode_span,
	[WIRE_STEP] = decode_step,   [WIRE_EPOCH] = decode_epoch, [WIRE_EVENT] = decode_event,
	[WIRE_ATTR] = decode_attr,
};

int decode_records(struct client *c, uint32_t lane, const struct wire_rec *r, uint64_t n)
{
	const struct wire_rec *end = r + n, *recent[CLIENT_RECENT];
	struct client_lane *l = &c->lanes[lane];
	uint64_t seen = 0, i;
	int err = client_read_defs(c); /* some may be of metrics that were defined since */

	for (; r < end && !err; r += r->slots) {
		if (r->type >= WIRE_TYPES || !decode_rows[r->type])
			continue;
		recent[seen++ % CLIENT_RECENT] = r;
		err = decode_rows[r->type](c, l, r);
	}
	for (i = seen > CLIENT_RECENT ? seen - CLIENT_RECENT : 0; i < seen; i++)
		l->recent[l->recent_n++ % CLIENT_RECENT] = *recent[i % CLIENT_RECENT];
	return err;
}
