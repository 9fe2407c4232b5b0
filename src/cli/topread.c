/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/topread.h"

#include "base/mem.h"
#include "wire/clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TOPREAD_LOOK_NS 5000000000LL  /* between two looks for new files */
#define TOPREAD_OVER_NS 60000000000LL /* the same of a run that is over */
#define TOPREAD_POINTS 400000u /* new points of a call; if there are more they are left out */
#define TOPREAD_BUCKETS 512u
#define TOPREAD_REFS 1024u             /* in one question */
#define TOPREAD_SPANS_NS 30000000000LL /* of steps whose parts are read at the beginning */

void topread_init(struct topread *r, const char *dir)
{
	*r = (struct topread){0};
	snprintf(r->dir, sizeof(r->dir), "%s", dir);
}

static void topread_close(struct topread *r)
{
	if (r->reader)
		store_reader_close(r->reader);
	r->reader = NULL;
}

void topread_done(struct topread *r)
{
	topread_close(r);
	store_cursor_free(r->cursor);
	r->cursor = NULL;
}

/* ---- what there is ------------------------------------------------------------------- */

static int topread_process(void *arg, const struct store_process *p)
{
	topmodel_process(arg, p);
	return 0;
}

static int topread_series(void *arg, const struct store_series *s)
{
	topmodel_add_series(arg, s);
	return 0;
}

static int topread_event(void *arg, const struct store_event *e)
{
	topmodel_event_add(arg, e);
	return 0;
}

static int topread_attr(void *arg, unsigned host, uint32_t process, const char *key,
			const char *value)
{
	topmodel_attr(arg, host, process, key, value);
	return 0;
}

/* The newest two points of n series whose totals these are: value, or rate. */
static int topread_newest(struct topread *r, struct topmodel *m, const uint32_t *which, size_t n,
			  const struct store_result *totals, struct err *e)
{
	struct store_place *places = xcalloc(n * 2 + 1, sizeof(*places));
	struct store_point *p = xcalloc(n * 2 + 1, sizeof(*p));
	size_t i;
	int err;

	for (i = 0; i < n; i++) {
		const struct topmodel_series *s = &m->series[which[i]];
		uint64_t at = totals[i].n ? totals[i].buckets[0].last_at : UINT64_MAX;

		places[2 * i] = (struct store_place){{s->host, s->id}, at};
		places[2 * i + 1] = (struct store_place){{s->host, s->id}, at ? at - 1 : at};
	}
	err = n ? store_reader_at(r->reader, places, n * 2, e, p) : 0;
	for (i = 0; i < n && !err; i++) {
		const struct store_point *last = &p[2 * i], *before = &p[2 * i + 1];
		struct topmodel_series *s = &m->series[which[i]];
		double v = last->value;

		if (!totals[i].n || last->time_ns == INT64_MIN)
			continue;
		if (s->kind == SINK_COUNTER)
			v = before->time_ns != INT64_MIN && last->time_ns > before->time_ns
				    ? v / ((double)(last->time_ns - before->time_ns) / 1e9)
				    : NAN;
		s->seen = totals[i].buckets[0].last_at + 1;
		if (s->group >= 0)
			topmodel_seed_last(m, which[i], v, last->time_ns);
	}
	free(places);
	free(p);
	return err;
}

/* Totals of n series, n <= TOPREAD_REFS. */
static int topread_totals(struct topread *r, struct topmodel *m, const uint32_t *which, size_t n,
			  struct err *e)
{
	const struct store_query ask = {.points = 1, .no_raw = true};
	struct store_result *results = xcalloc(n, sizeof(*results));
	struct store_ref *refs = xcalloc(n, sizeof(*refs));
	size_t i;
	int err;

	for (i = 0; i < n; i++)
		refs[i] = (struct store_ref){m->series[which[i]].host, m->series[which[i]].id};
	err = store_reader_query(r->reader, &ask, refs, n, e, NULL, results);
	if (!err) {
		for (i = 0; i < n; i++)
			if (results[i].n && topmodel_wants_total(m, which[i]))
				topmodel_seed_total(m, which[i], &results[i].buckets[0]);
		err = topread_newest(r, m, which, n, results, e);
		store_results_free(results, n);
	}
	free(results);
	free(refs);
	return err;
}

/* Newest values of all figures, and totals of what progress is made of. */
static int topread_values(struct topread *r, struct topmodel *m, struct err *e)
{
	uint32_t *which = xcalloc(TOPREAD_REFS, sizeof(*which));
	size_t i, n = 0;
	int err = 0;

	for (i = 0; i < m->n_series && !err; i++) {
		if (m->series[i].group < 0 && !topmodel_wants_total(m, (uint32_t)i))
			continue;
		which[n++] = (uint32_t)i;
		if (n == TOPREAD_REFS) {
			err = topread_totals(r, m, which, n, e);
			n = 0;
		}
	}
	if (!err && n)
		err = topread_totals(r, m, which, n, e);
	free(which);
	return err;
}

struct topread_span {
	struct topmodel *m;
	uint32_t series;
};

static int topread_span(void *arg, const struct store_point *p)
{
	struct topread_span *s = arg;

	/* As new ones: they are in no total but that of the steps, which knows them. */
	topmodel_span(s->m, s->series, p);
	return 0;
}

/* Spans of the newest steps. Their order is mended by who looks at them. */
static int topread_spans(struct topread *r, struct topmodel *m, struct err *e)
{
	struct store_range range = {.by_time = true,
				    .time_min = m->mark.end_ns - TOPREAD_SPANS_NS,
				    .time_max = INT64_MAX};
	struct topread_span to = {.m = m};
	double rate;
	size_t i;
	int err = 0;

	if (m->main_step == UINT32_MAX || m->mark.steps == 0)
		return 0;
	/* Of fast steps only as many as there is room for. */
	rate = (double)m->mark.steps / ((double)(m->mark.end_ns - m->first_ns) / 1e9 + 1e-9);
	if (rate * TOPREAD_SPANS_NS / 1e9 > 100)
		range.time_min = m->mark.end_ns - (int64_t)(100 / rate * 1e9);
	for (i = 0; i < m->n_series && !err; i++) {
		if (m->series[i].part == UINT32_MAX && i != m->main_step)
			continue;
		to.series = (uint32_t)i;
		err = store_reader_points(r->reader, m->series[i].host, m->series[i].id, &range,
					  topread_span, &to, e);
	}
	return err;
}

static void topread_said(void *arg, const struct alerts_said *s)
{
	topalerts_said(arg, s);
}

/* What people said of alerts: a small file. */
static void topread_alerts(const struct topread *r, struct topmodel *m)
{
	topalerts_unsaid(&m->alerts);
	if (m->alerts.n)
		(void)alerts_said(r->dir, topread_said, &m->alerts);
}

static int topread_run(struct topread *r, struct topmodel *m, struct err *e)
{
	struct store_run run;
	int err = store_reader_run(r->reader, &run, e);

	if (!err)
		topmodel_set_run(m, &run);
	return err;
}

/* All anew. */
static int topread_begin(struct topread *r, struct topmodel *m, struct err *e)
{
	int err;
	uint64_t frame = m->frame;

	topmodel_done(m);
	topmodel_init(m);
	m->frame = frame;
	store_cursor_free(r->cursor);
	r->cursor = store_cursor_new();
	r->n_hosts = store_reader_hosts(r->reader);
	err = store_reader_skip(r->reader, r->cursor, e);
	if (!err)
		err = topread_run(r, m, e);
	if (!err)
		err = store_reader_processes(r->reader, topread_process, m, e);
	if (!err)
		err = store_reader_series(r->reader, topread_series, m, e);
	if (!err)
		err = store_reader_attrs(r->reader, topread_attr, m, e);
	if (!err)
		err = store_reader_events(r->reader, topread_event, m, e);
	if (!err)
		err = topread_values(r, m, e);
	if (!err)
		err = topread_spans(r, m, e);
	/* What is there by halves is not gone on with. */
	if (err) {
		store_cursor_free(r->cursor);
		r->cursor = NULL;
	}
	r->is_over = !err && !m->run.is_running;
	return err;
}

/* ---- what is new ------------------------------------------------------------------------ */

struct topread_news {
	struct topmodel *m;
	unsigned host; /* of the series whose points come */
	uint32_t id, number;
	uint64_t at; /* number of its next point */
};

static int topread_new_process(void *arg, const struct store_process *p)
{
	return topread_process(((struct topread_news *)arg)->m, p);
}

static int topread_new_series(void *arg, const struct store_series *s)
{
	return topread_series(((struct topread_news *)arg)->m, s);
}

static int topread_new_event(void *arg, const struct store_event *e)
{
	return topread_event(((struct topread_news *)arg)->m, e);
}

static int topread_new_attr(void *arg, unsigned host, uint32_t process, const char *key,
			    const char *value)
{
	return topread_attr(((struct topread_news *)arg)->m, host, process, key, value);
}

static int topread_new_point(void *arg, const struct store_series *s, const struct store_point *p)
{
	struct topread_news *n = arg;

	if (n->id != s->id || n->host != s->host) {
		n->id = s->id;
		n->host = s->host;
		n->number = topmodel_find(n->m, s->host, s->id);
		n->at = s->count;
	}
	if (n->number != UINT32_MAX)
		topmodel_point(n->m, n->number, n->at, p);
	n->at++;
	return 0;
}

/* There was more than can be looked at: go on at the end, ask for totals and traces again. */
static int topread_jump(struct topread *r, struct topmodel *m, struct err *e)
{
	size_t i;
	int err = store_reader_skip(r->reader, r->cursor, e);

	for (i = 0; i < m->n_series; i++)
		if (m->series[i].trace)
			m->series[i].trace->is_stale = true;
	m->mark.samples = m->mark.tokens = NAN;
	return err ? err : topread_values(r, m, e);
}

static int topread_news(struct topread *r, struct topmodel *m, struct err *e)
{
	static const struct store_newer functions = {
		.process = topread_new_process,
		.series = topread_new_series,
		.point = topread_new_point,
		.event = topread_new_event,
		.attr = topread_new_attr,
	};
	struct topread_news news = {.m = m};
	bool ended;
	int err;

	/* First how it stands: what was recorded before its end is read after that. */
	err = topread_run(r, m, e);
	ended = !m->run.is_running;
	if (!err)
		err = store_reader_newer(r->reader, r->cursor, &functions, &news, TOPREAD_POINTS,
					 e);
	if (err > 0)
		err = topread_jump(r, m, e);
	r->is_over = !err && ended;
	return err;
}

/* Open it, also anew if files came or went. */
static int topread_open(struct topread *r, int64_t now, struct err *e)
{
	struct stat st;
	int64_t changed = 0;

	r->look_ns = now + (r->is_over ? TOPREAD_OVER_NS : TOPREAD_LOOK_NS);
	if (stat(r->dir, &st) == 0)
		changed = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec;
	if (r->reader && changed == r->folder_ns)
		return 0;
	topread_close(r);
	r->folder_ns = changed;
	return store_reader_open(r->dir, e, &r->reader);
}

/* All or what is new, from the open reader. */
static int topread_take(struct topread *r, struct topmodel *m, struct err *e)
{
	bool anew = !r->cursor || m->is_stale || store_reader_hosts(r->reader) != r->n_hosts;
	int err = anew ? topread_begin(r, m, e) : topread_news(r, m, e);

	if (err)
		return err;
	topread_alerts(r, m);
	if (store_reader_warning(r->reader)[0])
		err_set(e, -EIO, "%s", store_reader_warning(r->reader));
	return 0;
}

int topread_next(struct topread *r, struct topmodel *m, struct err *e)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);
	struct err why = {0};
	int err = 0;

	if (r->is_over && now < r->look_ns)
		return 0;
	if (!r->reader || now >= r->look_ns)
		err = topread_open(r, now, &why);
	if (!err)
		err = topread_take(r, m, &why);
	if (err)
		topread_close(r);
	r->warning = why;
	return r->cursor ? 0 : err_set(e, why.code ? why.code : err, "%s", why.text);
}

/* ---- traces ------------------------------------------------------------------------------- */

static int topread_fill(struct topread *r, struct topmodel *m, const uint32_t *which, size_t n,
			int64_t from_ns, struct err *e)
{
	const struct store_query ask = {
		.range = {.by_time = from_ns > 0, .time_min = from_ns, .time_max = INT64_MAX},
		.points = TOPREAD_BUCKETS,
		.no_raw = true};
	struct store_result *results = xcalloc(n, sizeof(*results));
	struct store_ref *refs = xcalloc(n, sizeof(*refs));
	size_t i;
	int err;

	for (i = 0; i < n; i++)
		refs[i] = (struct store_ref){m->series[which[i]].host, m->series[which[i]].id};
	err = store_reader_query(r->reader, &ask, refs, n, e, NULL, results);
	for (i = 0; i < n && !err; i++)
		toptrace_seed(m->series[which[i]].trace, &results[i]);
	if (!err)
		store_results_free(results, n);
	free(results);
	free(refs);
	return err;
}

size_t topread_traces(struct topread *r, struct topmodel *m, int64_t from_ns)
{
	uint32_t which[TOPMODEL_TRACES_MAX];
	struct err e = {0};
	size_t i, n = 0;

	for (i = 0; i < m->n_series && n < TOPMODEL_TRACES_MAX; i++)
		if (m->series[i].trace && m->series[i].trace->is_stale &&
		    m->series[i].wanted == m->frame)
			which[n++] = (uint32_t)i;
	if (n == 0 || !r->reader || topread_fill(r, m, which, n, from_ns, &e) == 0)
		return n;
	r->warning = e;
	for (i = 0; i < n; i++)
		m->series[which[i]].trace->is_stale = false;
	return n;
}
