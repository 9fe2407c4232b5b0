/* SPDX-License-Identifier: Apache-2.0 */
#include "alertrig.h"

#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text of the attributes, as the watch writes them: no blanks, no escapes. */
static void rig_attr(const char *attrs, const char *key, char *out, size_t cap)
{
	char want[64];
	const char *p;

	snprintf(want, sizeof(want), "\"%s\":\"", key);
	p = strstr(attrs, want);
	out[0] = '\0';
	if (p) {
		p += strlen(want);
		snprintf(out, cap, "%.*s", (int)strcspn(p, "\""), p);
	}
}

static int rig_put_process(struct sink *s, const struct sink_process *p, uint32_t *ret_id)
{
	struct rig *r = (struct rig *)s;

	*ret_id = p->uid[15] ? p->uid[15] : ++r->n_process;
	return 0;
}

static int rig_put_series(struct sink *s, const struct sink_series *d, uint32_t *ret_id)
{
	struct rig *r = (struct rig *)s;

	(void)d;
	*ret_id = ++r->n_series;
	return 0;
}

static int rig_put_samples(struct sink *s, const struct sink_sample *v, size_t n)
{
	(void)v;
	((struct rig *)s)->n_samples += n;
	return 0;
}

static int rig_put_hist(struct sink *s, const struct sink_hist *h)
{
	(void)s;
	(void)h;
	return 0;
}

static int rig_put_event(struct sink *s, const struct sink_event *e)
{
	struct rig *r = (struct rig *)s;
	struct rig_event *to;

	if (strcmp(e->kind, WATCH_KIND) != 0)
		return 0;
	if (r->n_pending == RIG_EVENTS)
		return -ENOBUFS;
	to = &r->pending[r->n_pending++];
	memset(to, 0, sizeof(*to));
	to->time_ns = e->time_ns;
	to->at_s = (double)(e->time_ns - RIG_T0) / 1e9;
	to->severity = e->severity;
	to->process = e->process;
	snprintf(to->text, sizeof(to->text), "%s", e->text);
	snprintf(to->attrs, sizeof(to->attrs), "%s", e->attrs);
	rig_attr(e->attrs, "rule", to->rule, sizeof(to->rule));
	rig_attr(e->attrs, "state", to->state, sizeof(to->state));
	rig_attr(e->attrs, "alert", to->id, sizeof(to->id));
	return 0;
}

static int rig_put_attr(struct sink *s, uint32_t process, const char *key, const char *value)
{
	struct rig *r = (struct rig *)s;

	(void)process;
	if (strcmp(key, WATCH_ATTR) == 0)
		snprintf(r->pending_attr, sizeof(r->pending_attr), "%s", value);
	return 0;
}

static int rig_put_position(struct sink *s, const struct sink_position *p)
{
	(void)s;
	(void)p;
	return 0;
}

static int rig_resume(struct sink *s, const uint8_t ring[16], uint32_t lane,
		      struct sink_position *ret)
{
	(void)s;
	*ret = (struct sink_position){.lane = lane, .dropped = 7};
	return ring[0] == 1 ? 0 : -ENOENT;
}

static int rig_put_commit(struct sink *s)
{
	struct rig *r = (struct rig *)s;
	unsigned i;

	if (r->fail_commits) {
		r->fail_commits--;
		r->n_pending = 0;
		return -ENOSPC;
	}
	for (i = 0; i < r->n_pending && r->n_events < RIG_EVENTS; i++) {
		r->events[r->n_events++] = r->pending[i];
		if (getenv("ALERT_TEST_VERBOSE"))
			fprintf(stderr, "# %8.1f %s\n", r->pending[i].at_s, r->pending[i].text);
	}
	r->n_pending = 0;
	memcpy(r->attr, r->pending_attr, sizeof(r->attr));
	return 0;
}

static void rig_rollback(struct sink *s)
{
	((struct rig *)s)->n_pending = 0;
}

static const struct sink_ops rig_ops = {
	.process = rig_put_process,
	.series = rig_put_series,
	.samples = rig_put_samples,
	.hist = rig_put_hist,
	.event = rig_put_event,
	.attr = rig_put_attr,
	.position = rig_put_position,
	.resume = rig_resume,
	.commit = rig_put_commit,
	.rollback = rig_rollback,
};

uint32_t rig_process(struct rig *r, const char *role, int rank, int64_t end_ns)
{
	struct sink_process p = {.role = role, .program = "", .rank = rank, .end_ns = end_ns};
	uint32_t id = 0;

	/* A process that is there already is found by its number. */
	if (end_ns)
		p.uid[15] = (uint8_t)rank;
	r->to->ops->process(r->to, &p, &id);
	return id;
}

void rig_init(struct rig *r, const struct watch_settings *s)
{
	memset(r, 0, sizeof(*r));
	r->sink.ops = &rig_ops;
	r->watch = watch_new(&r->sink, "node0", s);
	r->to = watch_sink(r->watch);
	r->host = rig_process(r, "host", -1, 0);
	r->command = rig_process(r, "command", -1, 0);
	r->trainer = rig_process(r, "trainer", 0, 0);
}

void rig_done(struct rig *r)
{
	watch_free(r->watch);
}

uint32_t rig_series(struct rig *r, uint32_t process, const char *name, const char *labels,
		    enum sink_kind kind)
{
	const struct sink_series d = {
		.process = process,
		.name = name,
		.labels = labels,
		.unit = "",
		.help = "",
		.kind = kind,
		.source = process == r->host || process == r->command ? "probe" : "record"};
	uint32_t id = 0;

	r->to->ops->series(r->to, &d, &id);
	return id;
}

uint32_t rig_gauge(struct rig *r, uint32_t process, const char *name, const char *labels)
{
	return rig_series(r, process, name, labels, SINK_GAUGE);
}

void rig_put(struct rig *r, uint32_t series, double t_s, int64_t step, double value)
{
	const struct sink_sample v = {.time_ns = RIG_T0 + (int64_t)(t_s * 1e9 + 0.5),
				      .step = step,
				      .value = value,
				      .series = series};

	r->to->ops->samples(r->to, &v, 1);
}

void rig_span(struct rig *r, uint32_t series, double t_s, int64_t step, double seconds)
{
	rig_put(r, series, t_s - seconds, step, seconds * 1e9);
}

void rig_commit(struct rig *r)
{
	r->to->ops->commit(r->to);
}

const struct rig_event *rig_find(struct rig *r, const char *rule, const char *state, unsigned n)
{
	unsigned i;

	rig_commit(r);
	for (i = 0; i < r->n_events; i++)
		if ((!rule || strcmp(r->events[i].rule, rule) == 0) &&
		    strcmp(r->events[i].state, state) == 0 && n-- == 0)
			return &r->events[i];
	return NULL;
}

unsigned rig_count(struct rig *r, const char *rule, const char *state)
{
	unsigned n = 0;

	while (rig_find(r, rule, state, n))
		n++;
	return n;
}
