/* SPDX-License-Identifier: Apache-2.0
 *
 * route_export.c - routes: a run's data as a file. A thread of its own walks the run and
 * puts what it reads into a stream; it goes no faster than the client takes it, so an
 * export of any size needs the memory of one buffer.
 */
#include "server/routes.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "report/exportwalk.h"
#include "server/ask.h"

#define EXPORT_AT_ONCE 4u
#define EXPORT_BLOCK 65536u       /* bytes that are put together */
#define EXPORT_WAITING (1u << 20) /* bytes that may wait for the client */
#define EXPORT_LOOK_MS 2
#define EXPORT_QUIET_S 60 /* without a byte taken: the client is gone */

/* What exports of a server share. */
struct export_part {
	pthread_mutex_t lock;
	pthread_cond_t fewer;
	unsigned n;
	bool is_stopping;
};

/* One export. */
struct export_job {
	struct export_part *part;
	struct server *server;
	struct server_run *run;
	struct http_stream *stream;
	struct exportwalk walk;
	bool *is_wanted; /* by number of the series; NULL: all */
	struct buf block;
};

/* ---- the thread ------------------------------------------------------------------------- */

static bool export_is_stopping(struct export_part *p)
{
	bool is;

	pthread_mutex_lock(&p->lock);
	is = p->is_stopping;
	pthread_mutex_unlock(&p->lock);
	return is;
}

/* Wait until the client has taken enough. 0, or -EPIPE. */
static int export_wait(struct export_job *x)
{
	const struct timespec pause = {0, EXPORT_LOOK_MS * 1000000L};
	size_t waiting = http_stream_waiting(x->stream), before = waiting;
	int64_t quiet_ms = 0;

	while (waiting + EXPORT_BLOCK > EXPORT_WAITING / 2) {
		if (http_stream_is_gone(x->stream) || export_is_stopping(x->part) ||
		    quiet_ms > EXPORT_QUIET_S * 1000)
			return -EPIPE;
		nanosleep(&pause, NULL);
		waiting = http_stream_waiting(x->stream);
		quiet_ms = waiting < before ? 0 : quiet_ms + EXPORT_LOOK_MS;
		before = waiting;
	}
	return 0;
}

/* A part of an item that is larger than what may wait goes out piece by piece. */
static int export_send(struct export_job *x, const char *data, size_t len)
{
	size_t n;
	int err = 0;

	for (; len && !err; data += n, len -= n) {
		n = len < EXPORT_BLOCK ? len : EXPORT_BLOCK;
		err = export_wait(x);
		if (!err)
			err = http_stream_put(x->stream, data, n);
	}
	return err;
}

static int export_flush(struct export_job *x)
{
	int err = export_send(x, buf_str(&x->block), x->block.len);

	buf_reset(&x->block);
	return err;
}

static int export_put(void *arg, const char *data, size_t len)
{
	struct export_job *x = arg;
	int err = 0;

	if (x->block.len + len > EXPORT_BLOCK)
		err = export_is_stopping(x->part) ? -EPIPE : export_flush(x);
	if (!err && len > EXPORT_BLOCK)
		return export_send(x, data, len);
	buf_append(&x->block, data, len);
	return err;
}

/* The client must see that something is missing: there is no end, and no status either. */
static int export_unread(void *arg, const char *what, const struct err *e)
{
	const struct export_job *x = arg;

	log_warn("export of %s: %s: %s", x->run->id, what, e->text);
	return -EIO;
}

static bool export_is_wanted(void *arg, const struct store_series *s)
{
	const struct export_job *x = arg;

	return !x->is_wanted || x->is_wanted[s - x->run->v.series];
}

static void export_free(struct export_job *x)
{
	buf_done(&x->block);
	free(x->is_wanted);
	free(x);
}

static void export_end(struct export_part *p)
{
	pthread_mutex_lock(&p->lock);
	p->n--;
	pthread_cond_broadcast(&p->fewer);
	pthread_mutex_unlock(&p->lock);
}

static void *export_main(void *arg)
{
	struct export_job *x = arg;
	struct export_part *p = x->part;
	struct err e = {0};
	int err = exportwalk_run(&x->walk, &e);

	if (!err)
		err = export_flush(x);
	if (err)
		http_stream_break(x->stream);
	http_stream_close(x->stream);
	server_give_run(x->server, x->run);
	export_free(x);
	export_end(p);
	return NULL;
}

/* ---- what exports share ----------------------------------------------------------------- */

static void *export_part_make(struct server *s)
{
	struct export_part *p = xcalloc(1, sizeof(*p));

	(void)s;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->fewer, NULL);
	return p;
}

static void export_part_stop(void *state)
{
	struct export_part *p = state;

	pthread_mutex_lock(&p->lock);
	p->is_stopping = true;
	while (p->n)
		pthread_cond_wait(&p->fewer, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

static void export_part_done(void *state)
{
	struct export_part *p = state;

	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->fewer);
	free(p);
}

static const struct server_part export_part = {export_part_make, export_part_stop,
					       export_part_done};

static bool export_begin(struct export_part *p)
{
	bool may;

	pthread_mutex_lock(&p->lock);
	may = !p->is_stopping && p->n < EXPORT_AT_ONCE;
	p->n += may;
	pthread_mutex_unlock(&p->lock);
	return may;
}

/* ---- the question ----------------------------------------------------------------------- */

static bool export_ask_what(const struct route_ask *a, struct exportwalk *w,
			    struct http_reply *reply)
{
	const char *format = param_text(a, "format"), *word;
	size_t i;

	w->ops = exportwalk_format(format ? format : "csv");
	for (i = 0; (word = param_nth(a, "what", i)) != NULL; i++)
		w->what |= exportwalk_what(word, strlen(word));
	if (w->what == 0)
		w->what = w->ops->what;
	if (!w->ops->events_alone || !(w->what & EXPORT_EVENTS) || w->what == EXPORT_EVENTS)
		return true;
	reply_error(reply, 400, "bad-parameter",
		    "what: %s events have columns of their own: ask for what=events alone",
		    w->ops->name);
	return false;
}

static bool export_ask_series(const struct route_ask *a, struct export_job *x,
			      struct http_reply *reply)
{
	static const struct ask_limit all = {.most = SIZE_MAX};
	struct ask_series series;
	struct querydata q;
	size_t i;
	bool ok;

	if (!param_nth(a, "series", 0) && !param_nth(a, "id", 0))
		return true;
	querydata_init(&q, &x->run->v);
	ok = ask_choose(a, &q, &all, &series, reply);
	x->is_wanted = xcalloc(x->run->v.n_series + 1, sizeof(*x->is_wanted));
	for (i = 0; i < q.n; i++)
		x->is_wanted[q.series[i].s - x->run->v.series] = true;
	querydata_done(&q);
	return ok;
}

static bool export_ask(const struct route_ask *a, struct export_job *x, struct http_reply *reply)
{
	struct ask ask;

	if (!ask_get(a, &x->run->v, &ask, reply) || !export_ask_what(a, &x->walk, reply) ||
	    !export_ask_series(a, x, reply))
		return false;
	x->walk.range = ask.range;
	return true;
}

static void export_head(const struct export_job *x, struct http_reply *reply)
{
	char text[320];

	reply->type =
		x->walk.ops == &export_csv ? "text/csv; charset=utf-8" : "application/x-ndjson";
	snprintf(text, sizeof(text), "attachment; filename=\"%s%s.%s\"", x->run->id,
		 x->walk.what == EXPORT_EVENTS ? "-events" : "",
		 x->walk.ops == &export_csv ? "csv" : "jsonl");
	http_header(reply, "Content-Disposition", text);
}

/* Start the thread, which then has the job and the run. false: there is none. */
static bool export_start(struct export_job *x, struct http_reply *reply)
{
	struct http_stream *stream = http_stream_new(EXPORT_WAITING);
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	x->stream = stream;
	buf_init(&x->block, EXPORT_BLOCK);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attr, export_main, x);
	pthread_attr_destroy(&attr);
	if (!err)
		reply->stream = stream;
	else
		http_stream_discard(stream);
	return !err;
}

static void export_answer(const struct route_ask *a, struct http_reply *reply)
{
	struct export_part *part = server_part(a->server, &export_part);
	struct export_job *x = xcalloc(1, sizeof(*x));

	x->part = part;
	x->server = a->server;
	x->run = server_take_run(a->server, a->args[0], reply);
	if (!x->run) {
		export_free(x);
		return;
	}
	x->walk.v = &x->run->v;
	x->walk.wants = export_is_wanted;
	x->walk.put = export_put;
	x->walk.unread = export_unread;
	x->walk.arg = x;
	if (export_ask(a, x, reply)) {
		export_head(x, reply);
		if (strcmp(a->request->method, "HEAD") != 0) {
			if (export_begin(part)) {
				if (export_start(x, reply))
					return;
				export_end(part);
			}
			reply_error(reply, 503, "busy",
				    "%u exports are being written already; try again later",
				    EXPORT_AT_ONCE);
		}
	}
	server_give_run(a->server, x->run);
	export_free(x);
}

static const struct param export_params[] = {
	ASK_PARAMS_SERIES("default all."),
	{.name = "axis",
	 .type = PARAM_CHOICE,
	 .choices = "time|step|relative",
	 .help = "What from and to are on; default time."},
	ASK_PARAMS_RANGE,
	{.name = "format",
	 .type = PARAM_CHOICE,
	 .choices = "csv|json",
	 .help = "csv (default), or json: an object a line."},
	{.name = "what",
	 .type = PARAM_CHOICE,
	 .choices = "samples|spans|histograms|events",
	 .is_many = true,
	 .help = "Only these; default all, of CSV all but events, which go alone."},
	{0},
};

const struct route route_export[] = {
	{"GET", "/api/v1/runs/{run}/export", "A run's data as a file", export_params,
	 export_answer},
	{0},
};
