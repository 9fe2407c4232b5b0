/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/client_priv.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* All rings of one image of one process share it, whoever drains them. */
static void client_uid(struct client *c)
{
	const struct wire_ring *r = &c->reader.ring;
	uint64_t a = map_hash(r->boot_id, sizeof(r->boot_id)), b;

	b = map_hash(r->ctl, strlen(r->ctl));
	memcpy(c->uid, &a, 8);
	memcpy(c->uid + 8, &b, 8);
}

int client_process(struct client *c, int64_t end_ns)
{
	const struct wire_ring *r = &c->reader.ring;
	struct sink_process p = {
		.pid = r->pid,
		.ppid = r->ppid,
		.start_time = r->start_time,
		.role = r->role,
		.program = r->program,
		.rank = c->rank,
		.local_rank = c->local_rank,
		.world_size = c->world_size,
		.start_ns = c->start_ns,
		.end_ns = end_ns,
		.dropped = c->dropped,
		.refused = c->refused,
	};
	int err;

	memcpy(p.uid, c->uid, sizeof(p.uid));
	err = c->sink->ops->process(c->sink, &p, &c->process);
	if (!err)
		c->defined = true;
	return err;
}

static void client_resume(struct client *c)
{
	struct sink_position p;
	uint32_t i;

	for (i = 0; i < c->reader.ring.lanes; i++)
		if (c->sink->ops->resume(c->sink, c->reader.ring.uid, i, &p) == 0)
			reader_resume(&c->reader, i, p.pos, p.rec, p.stored, p.overwritten,
				      p.broken);
}

int64_t client_utc(struct client *c, uint64_t ticks)
{
	return c->epoch.real_ns + timeline_boot_ns(&c->timeline, ticks) - c->epoch.boot_ns;
}

static void client_take_anchors(struct client *c)
{
	struct wire_anchor a[WIRE_ANCHORS];
	unsigned n = reader_anchors(&c->reader, a), i;

	for (i = 0; i < n; i++) {
		if (a[i].seq && a[i].seq <= c->anchors_seen)
			continue;
		c->anchors_seen = a[i].seq;
		timeline_add(&c->timeline, &a[i], NULL);
	}
}

int client_open(struct client **ret, int dirfd, const char *name, const struct client_epoch *epoch,
		struct sink *sink, char why[128])
{
	struct client *c = xcalloc(1, sizeof(*c));
	uint32_t i;
	int err;

	err = reader_open(dirfd, name, &c->reader, why);
	if (err) {
		free(c);
		return err;
	}
	utf8_clean(c->reader.ring.role, strlen(c->reader.ring.role));
	utf8_clean(c->reader.ring.program, strlen(c->reader.ring.program));
	map_init(&c->by_name);
	c->lanes = xcalloc(c->reader.ring.lanes, sizeof(*c->lanes));
	for (i = 0; i < c->reader.ring.lanes; i++)
		c->lanes[i].tid = c->reader.lanes[i].tid;
	c->epoch = *epoch;
	c->rank = c->local_rank = c->world_size = -1;
	timeline_init(&c->timeline, c->reader.ring.ticks_per_s);
	client_take_anchors(c);
	c->start_ns = client_utc(c, c->reader.ring.opened.ticks);
	client_uid(c);
	err = client_reset(c, sink);
	if (err) {
		snprintf(why, 128, "the store refuses it: %s", strerror(-err));
		client_free(c);
		return err;
	}
	client_resume(c);
	*ret = c;
	return 0;
}

static void client_forget_defs(struct client *c)
{
	size_t i;

	for (i = 0; i < c->n_defs; i++) {
		if (c->defs[i].hist) {
			hist_done(c->defs[i].hist);
			free(c->defs[i].hist);
		}
		free(c->defs[i].name);
		free(c->defs[i].unit);
		free(c->defs[i].help);
		free(c->defs[i].labels);
	}
	c->n_defs = 0;
	map_done(&c->by_name);
}

void client_free(struct client *c)
{
	if (!c)
		return;
	client_forget_defs(c);
	free(c->defs);
	free(c->lanes);
	reader_done(&c->reader);
	free(c);
}

/* How it ended is to be said again, unless that is stored. */
static void client_unsay_end(struct client *c)
{
	if (c->end_stored)
		return;
	c->ended = false;
	c->end_ns = 0;
}

int client_reset(struct client *c, struct sink *sink)
{
	client_forget_defs(c);
	c->reader.defs_bytes = 0;
	c->reader.defs_count = 0;
	c->step_series = c->samples_series = c->tokens_series = c->epoch_series = 0;
	c->n_batch = 0;
	c->sink = sink;
	client_unsay_end(c);
	return client_process(c, c->end_ns);
}

int client_event(struct client *c, int64_t time_ns, int64_t step, int severity, const char *kind,
		 const char *text, const char *attrs)
{
	struct sink_event e = {c->process, time_ns, step, severity, kind, text, attrs};

	if (!c->sink)
		return 0;
	c->pending = true;
	return c->sink->ops->event(c->sink, &e);
}

/* ---- definitions ----------------------------------------------------------- */

static const char *client_kind_name(uint8_t kind)
{
	static const char *const names[] = {"span", "gauge", "counter", "histogram"};

	return names[kind & 3];
}

/* Unit or kind differ from an earlier definition of the same series: the first
 * wins, an event says so. */
static void client_conflict(struct client *c, const struct client_def *first, struct client_def *d)
{
	char text[768];

	if (first->kind == d->kind && strcmp(first->unit, d->unit) == 0)
		return;
	snprintf(text, sizeof(text),
		 "%s is defined as a %s in \"%s\" and again as a %s in \"%s\": the first holds",
		 d->name, client_kind_name(first->kind), first->unit, client_kind_name(d->kind),
		 d->unit);
	d->kind = first->kind;
	client_event(c, client_utc(c, c->reader.ring.opened.ticks), SINK_STEP_NONE, 2,
		     "definition-conflict", text, "");
}

static int client_on_def(void *arg, const struct reader_def *d)
{
	struct client *c = arg;
	struct client_def def = {.kind = d->kind};
	uint64_t first;
	size_t len;
	char *key;

	def.name = xstrdup(d->name);
	def.unit = xstrdup(d->unit);
	def.help = xstrdup(d->help);
	def.labels = xstrdup(d->labels);
	utf8_clean(def.name, strlen(def.name));
	utf8_clean(def.unit, strlen(def.unit));
	utf8_clean(def.help, strlen(def.help));
	utf8_clean(def.labels, strlen(def.labels));
	if (d->kind != WIRE_KIND_NAME) {
		key = xasprintf("%s%c%s", def.name, 1, def.labels);
		len = strlen(key);
		if (map_get(&c->by_name, key, len, &first))
			client_conflict(c, &c->defs[first], &def);
		else
			map_put(&c->by_name, key, len, c->n_defs);
		free(key);
	}
	if (def.kind == WIRE_KIND_HISTOGRAM)
		def.hist = xcalloc(1, sizeof(*def.hist));
	c->defs = xgrow(c->defs, c->n_defs, &c->cap_defs, sizeof(*c->defs));
	c->defs[c->n_defs++] = def;
	return 0;
}

const char *client_name(const struct client *c, uint32_t id)
{
	return id && id <= c->n_defs ? c->defs[id - 1].name : "?";
}

int client_series(struct client *c, uint32_t id, uint32_t *ret)
{
	static const int kinds[] = {SINK_SPAN, SINK_GAUGE, SINK_COUNTER, SINK_HISTOGRAM};
	struct client_def *d;
	struct sink_series s;
	int err;

	*ret = 0;
	if (id == 0 || id > c->n_defs)
		return 0;
	d = &c->defs[id - 1];
	if (d->series) {
		*ret = d->series;
		return 0;
	}
	s = (struct sink_series){.process = c->process,
				 .name = d->name,
				 .labels = d->labels,
				 .unit = d->kind == WIRE_KIND_NAME ? "ns" : d->unit,
				 .help = d->help,
				 .kind = kinds[d->kind & 3],
				 .source = "record"};
	err = c->sink->ops->series(c->sink, &s, &d->series);
	if (err)
		return err;
	if (d->hist)
		d->hist->series = d->series;
	*ret = d->series;
	return 0;
}

/* ---- draining ---------------------------------------------------------------- */

int client_flush(struct client *c)
{
	size_t n = c->n_batch;

	c->n_batch = 0;
	if (n == 0)
		return 0;
	c->pending = true;
	c->flushed += n;
	return c->sink->ops->samples(c->sink, c->batch, n);
}

int client_read_defs(struct client *c)
{
	int err = reader_defs(&c->reader, client_on_def, c);

	if (err == -EBADMSG)
		err = client_event(c, c->start_ns, SINK_STEP_NONE, 3, "registry-damaged",
				   "the definitions of this process are damaged: records of "
				   "later ones are not stored",
				   "");
	return err > 0 ? 0 : err;
}

static int client_drain_lane(struct client *c, uint32_t lane, void *buf, size_t cap, uint64_t *room)
{
	const struct wire_rec *first;
	uint64_t n, most, before, samples, waiting;
	double share;
	int err = 0;

	do {
		most = (*room > WIRE_REC_SLOTS_MAX ? *room : WIRE_REC_SLOTS_MAX) * WIRE_SLOT;
		before = c->flushed + c->n_batch;
		err = reader_drain(&c->reader, lane, buf, most < cap ? most : cap, &first, &n);
		if (!err && !reader_is_whole(&c->reader))
			err = -EIO;
		if (!err && n > 0)
			err = decode_records(c, lane, first, n);
		if (n)
			c->pending = true;
		samples = c->flushed + c->n_batch - before;
		most = n > samples ? n : samples;
		*room -= most < *room ? most : *room;
		waiting = reader_waiting(&c->reader, lane, &share);
	} while (!err && n > 0 && waiting > 0 && *room);
	return err;
}

static int client_tell_quarantine(struct client *c, uint32_t lane)
{
	struct reader_lane *l = &c->reader.lane[lane];
	char text[256];

	if (!l->quarantined || c->lanes[lane].told)
		return 0;
	c->lanes[lane].told = true;
	snprintf(text, sizeof(text),
		 "lane %u of pid %u is damaged (%s): its later records are not read; "
		 "the other lanes go on",
		 lane, c->reader.ring.pid, l->why);
	return client_event(
		c, client_utc(c, c->timeline.len ? c->timeline.a[c->timeline.len - 1].ticks : 0),
		SINK_STEP_NONE, 3, "lane-damaged", text, "");
}

/* Process-wide words of the control page that changed. */
static int client_drain_ctl(struct client *c)
{
	const struct wire_ctl *ctl = c->reader.ctl;
	uint64_t dropped, refused;
	int64_t rank, local_rank, world_size;

	if (!ctl)
		return 0;
	dropped = ctl->dropped_no_lane + ctl->dropped_closed;
	refused = ctl->registry_refused;
	rank = ctl->rank;
	local_rank = ctl->local_rank;
	world_size = ctl->world_size;
	if (dropped == c->dropped && refused == c->refused && rank == c->rank &&
	    local_rank == c->local_rank && world_size == c->world_size)
		return 0;
	c->dropped = dropped;
	c->refused = refused;
	c->rank = rank;
	c->local_rank = local_rank;
	c->world_size = world_size;
	c->pending = true;
	return client_process(c, 0);
}

int client_drain(struct client *c, void *buf, size_t cap, uint64_t *room)
{
	uint32_t lanes = c->reader.ring.lanes, lane = c->next_lane, i;
	int err = client_read_defs(c);

	for (i = 0; i < lanes && *room && !err; i++) {
		lane = (c->next_lane + i) % lanes;
		err = client_drain_lane(c, lane, buf, cap, room);
		if (!err)
			err = client_tell_quarantine(c, lane);
	}
	/* One that is filled without a pause must not keep the others waiting. */
	if (*room == 0)
		c->next_lane = lane + 1 < lanes ? lane + 1 : 0;
	if (!err)
		err = client_flush(c);
	if (!err)
		err = client_drain_ctl(c);
	return err;
}

double client_fullness(struct client *c, uint64_t *ret_waiting)
{
	uint64_t waiting = 0;
	double share, most = 0;
	uint32_t i;

	for (i = 0; i < c->reader.ring.lanes; i++) {
		waiting += reader_waiting(&c->reader, i, &share);
		if (share > most)
			most = share;
	}
	*ret_waiting = waiting;
	return most;
}

int client_before_commit(struct client *c)
{
	struct sink_position p;
	size_t k;
	uint32_t i;
	int err = 0;

	for (k = 0; k < c->n_defs && !err; k++)
		if (c->defs[k].hist)
			err = hist_push(c->defs[k].hist, c->sink);
	for (i = 0; i < c->reader.ring.lanes && !err; i++) {
		struct reader_lane *l = &c->reader.lane[i];
		uint64_t dropped = c->reader.lanes[i].dropped + c->reader.lanes[i].dropped_signal;

		if (l->pos == 0 && dropped == 0)
			continue;
		memcpy(p.ring, c->reader.ring.uid, sizeof(p.ring));
		p.lane = i;
		p.process = c->process;
		p.pos = l->pos;
		p.rec = l->rec;
		p.stored = l->stored;
		p.overwritten = l->overwritten;
		p.broken = l->broken;
		p.dropped = dropped;
		err = c->sink->ops->position(c->sink, &p);
	}
	return err;
}

void client_after_commit(struct client *c, int result)
{
	size_t k;

	for (k = 0; k < c->n_defs; k++)
		if (c->defs[k].hist)
			hist_reset(c->defs[k].hist);
	c->n_batch = 0;
	if (result == 0) {
		reader_ack(&c->reader);
		c->end_stored = c->ended;
	} else {
		reader_rewind(&c->reader);
		client_unsay_end(c);
	}
	c->pending = result != 0;
}

void client_anchor(struct client *c, const struct wire_anchor *now)
{
	char text[160];
	int64_t ns;

	client_take_anchors(c);
	if (!now)
		return;
	switch (timeline_add(&c->timeline, now, &ns)) {
	case TIMELINE_STEPPED:
		snprintf(text, sizeof(text),
			 "the wall clock was set %.3f s %s; times of this run go on as before",
			 (double)(ns < 0 ? -ns : ns) / 1e9, ns < 0 ? "back" : "forward");
		client_event(c, client_utc(c, now->ticks), SINK_STEP_NONE, 2, "clock-step", text,
			     "");
		break;
	case TIMELINE_JUMPED:
		snprintf(text, sizeof(text),
			 "the machine slept, or its counter began again: %.3f s were not counted",
			 (double)ns / 1e9);
		client_event(c, client_utc(c, now->ticks), SINK_STEP_NONE, 2, "suspend", text, "");
		break;
	case TIMELINE_SAME:
		break;
	}
}

static void client_each_open(struct client *c,
			     void (*fn)(void *arg, uint64_t start, const char *name), void *arg)
{
	uint32_t i, k, depth;

	for (i = 0; i < c->reader.ring.lanes; i++) {
		const struct wire_lane *l = &c->reader.lanes[i];

		depth = l->depth < WIRE_SPANS_OPEN ? l->depth : WIRE_SPANS_OPEN;
		/* A place whose span ended before those above it has no start. */
		for (k = 0; k < depth && l->tid; k++)
			if (l->open[k].start)
				fn(arg, l->open[k].start, client_name(c, l->open[k].name));
	}
}

struct client_oldest {
	unsigned n;
	uint64_t start;
	char *name;
	size_t cap;
};

static void client_take_oldest(void *arg, uint64_t start, const char *name)
{
	struct client_oldest *o = arg;

	o->n++;
	if (start >= o->start)
		return;
	o->start = start;
	snprintf(o->name, o->cap, "%s", name);
}

unsigned client_open_spans(struct client *c, char *name, size_t cap)
{
	struct client_oldest o = {0, UINT64_MAX, name, cap};

	snprintf(name, cap, "%s", "");
	client_each_open(c, client_take_oldest, &o);
	return o.n;
}

struct client_wanted {
	bool (*is_one)(const char *name);
	bool found;
};

static void client_take_wanted(void *arg, uint64_t start, const char *name)
{
	struct client_wanted *w = arg;

	(void)start;
	w->found = w->found || w->is_one(name);
}

bool client_is_in(struct client *c, bool (*is_one)(const char *name))
{
	struct client_wanted w = {is_one, false};

	client_each_open(c, client_take_wanted, &w);
	return w.found;
}
