/* SPDX-License-Identifier: Apache-2.0
 *
 * route_metrics.c - routes: the last values of runs that are being recorded, for
 * Prometheus. What was read of a run stays, so that a scrape reads what is new.
 */
#include "server/routes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "export/promlive.h"

#define METRICS_RUNS_MAX 256u
#define METRICS_NS 4000000000LL /* of reading in one request */
#define METRICS_ASKING 3u       /* at a time: others must not wait for a worker */
#define METRICS_OPEN "application/openmetrics-text"

struct metrics_run {
	char *id;
	struct promlive *live;
	bool is_wanted;
};

struct metrics_part {
	atomic_uint asking;
	pthread_mutex_t lock; /* one scrape at a time */
	struct metrics_run runs[METRICS_RUNS_MAX];
	size_t n;
};

static void *metrics_make(struct server *s)
{
	struct metrics_part *p = xcalloc(1, sizeof(*p));

	(void)s;
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

static void metrics_drop(struct metrics_part *p, size_t i)
{
	free(p->runs[i].id);
	promlive_free(p->runs[i].live);
	p->runs[i] = p->runs[--p->n];
}

static void metrics_done(void *state)
{
	struct metrics_part *p = state;

	while (p->n)
		metrics_drop(p, p->n - 1);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static const struct server_part metrics_part = {metrics_make, NULL, metrics_done};

static void metrics_want(struct metrics_part *p, const char *id)
{
	size_t i;

	for (i = 0; i < p->n; i++)
		if (strcmp(p->runs[i].id, id) == 0)
			break;
	if (i == METRICS_RUNS_MAX)
		return;
	if (i == p->n)
		p->runs[p->n++] = (struct metrics_run){.id = xstrdup(id), .live = promlive_new()};
	p->runs[i].is_wanted = true;
}

/* Those that run, as far as the index knows. */
static void metrics_find(struct metrics_part *p, struct server *s)
{
	const struct server_index *all = server_take_index(s);
	const struct index_run *r;
	size_t i, k;

	for (i = 0; i < all->n; i++) {
		for (k = all->of[i] ? index_count(all->of[i]) : 0; k-- > 0;) {
			r = index_get(all->of[i], k);
			if (!r->error && r->run.outcome == RUN_RUNNING)
				metrics_want(p, r->id);
		}
	}
	server_give_index(s);
}

/* Read what is new of one run. false: it is none that is recorded. */
static bool metrics_read(struct metrics_run *m, struct server *s, int64_t deadline_ns)
{
	struct http_reply none = {.body = {.max = ROUTE_JSON_MAX}};
	struct server_run *run = server_take_run(s, m->id, &none);
	struct err e = {0};
	bool is_live;
	int r = 0;

	buf_done(&none.body);
	if (!run)
		return false;
	is_live = run->is_live;
	if (is_live)
		r = promlive_read(m->live, run->v.reader, &run->v.run, deadline_ns, &e);
	server_give_run(s, run);
	if (r < 0)
		log_warn("/metrics: run %s: %s", m->id, e.text);
	return is_live && r >= 0;
}

static void metrics_refresh(struct metrics_part *p, struct server *s)
{
	int64_t deadline_ns = now_read(CLOCK_MONOTONIC) + METRICS_NS;
	size_t i;

	for (i = 0; i < p->n; i++)
		p->runs[i].is_wanted = false;
	metrics_find(p, s);
	for (i = p->n; i-- > 0;)
		if (!p->runs[i].is_wanted || !metrics_read(&p->runs[i], s, deadline_ns))
			metrics_drop(p, i);
}

static void metrics_write(const struct metrics_part *p, bool is_open, struct http_reply *reply)
{
	struct promlive *runs[METRICS_RUNS_MAX];
	size_t i;

	for (i = 0; i < p->n; i++)
		runs[i] = p->runs[i].live;
	reply->type = is_open ? METRICS_OPEN "; version=1.0.0; charset=utf-8"
			      : "text/plain; version=0.0.4; charset=utf-8";
	reply->body.max = ROUTE_JSON_MAX;
	promlive_write(runs, p->n, is_open, &reply->body);
	if (reply->body.error)
		reply_error(reply, 413, "too-large", "All values are larger than %u MiB.",
			    ROUTE_JSON_MAX >> 20);
}

static void metrics_answer(const struct route_ask *a, struct http_reply *reply)
{
	struct metrics_part *p = server_part(a->server, &metrics_part);
	const char *accept = http_field(a->request, "Accept");

	if (atomic_fetch_add(&p->asking, 1) < METRICS_ASKING) {
		pthread_mutex_lock(&p->lock);
		metrics_refresh(p, a->server);
		metrics_write(p, accept && strstr(accept, METRICS_OPEN), reply);
		pthread_mutex_unlock(&p->lock);
	} else {
		reply_error(reply, 503, "busy", "%u ask for the metrics already; ask again.",
			    METRICS_ASKING);
	}
	atomic_fetch_sub(&p->asking, 1);
}

const struct route route_metrics[] = {
	{"GET", "/metrics", "Last values of the runs that are being recorded, for Prometheus", NULL,
	 metrics_answer},
	{0},
};
