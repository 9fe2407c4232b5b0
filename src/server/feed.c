/* SPDX-License-Identifier: Apache-2.0
 *
 * feed.c - the hub of live updates: who joins, which runs are watched, what is read when.
 */
#include "server/feed_priv.h"

#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define FEED_TICK_NS 50000000LL    /* between two looks at a run's files */
#define FEED_LULL_NS 30000000000LL /* nobody watches */
#define FEED_FAILED_NS 1000000000LL

static int64_t feed_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- runs -------------------------------------------------------------------------------------
 */

static void feed_drop_run(struct feed *l, struct feed_run **at)
{
	struct feed_run *r = *at;

	*at = r->next;
	feed_run_free(r);
	l->n_runs--;
}

/* Those that nobody has watched for as long as events are kept; any idle one if `now`. */
static void feed_drop_idle(struct feed *l, int64_t now_ns, bool is_full)
{
	struct feed_run **at = &l->runs;

	while (*at) {
		struct feed_run *r = *at;

		if (r->idle_ns && (is_full || now_ns - r->idle_ns > FEED_RING_NS))
			feed_drop_run(l, at);
		else
			at = &r->next;
	}
}

static struct feed_run *feed_run_of(struct feed *l, const struct feed_ask_run *ask, int64_t now_ns)
{
	struct feed_run *r;

	for (r = l->runs; r; r = r->next)
		if (!strcmp(r->id, ask->id) && !strcmp(r->dir, ask->dir))
			return r;
	if (l->n_runs >= FEED_WATCHED_MAX)
		feed_drop_idle(l, now_ns, true);
	if (l->n_runs >= FEED_WATCHED_MAX)
		return NULL;
	r = feed_run_new(ask->id, ask->dir, l->batch.seq);
	r->next = l->runs;
	l->runs = r;
	l->n_runs++;
	return r;
}

static void feed_watch(struct feed_run *r)
{
	if (!r->clients++) {
		r->is_due = true;
		r->idle_ns = 0;
	}
}

static void feed_unwatch(struct feed_run *r, int64_t now_ns)
{
	if (--r->clients)
		return;
	r->idle_ns = now_ns;
	feed_run_rest(r);
}

/* ---- clients
 * ------------------------------------------------------------------------------------- */

static void feed_drop_client(struct feed *l, struct feed_client *c, int64_t now_ns)
{
	size_t i;

	for (i = 0; i < c->ask.n; i++)
		if (c->runs[i])
			feed_unwatch(c->runs[i], now_ns);
	http_stream_close(c->stream);
	free(c);
	pthread_mutex_lock(&l->lock);
	l->n_streams--;
	pthread_mutex_unlock(&l->lock);
}

static void feed_add_client(struct feed *l, struct feed_client *c, int64_t now_ns)
{
	size_t i;

	for (i = 0; i < c->ask.n; i++) {
		c->runs[i] = feed_run_of(l, &c->ask.runs[i], now_ns);
		if (!c->runs[i]) { /* it asks again */
			feed_drop_client(l, c, now_ns);
			return;
		}
		feed_watch(c->runs[i]);
	}
	c->is_known =
		c->after[0] && feed_id_parse(c->after, l->boot, &c->at) && c->at <= l->batch.seq;
	c->is_late = c->is_known;
	c->next = l->clients;
	l->clients = c;
}

static void feed_take_joining(struct feed *l, int64_t now_ns)
{
	struct feed_client *c, *next;

	pthread_mutex_lock(&l->lock);
	c = l->joining;
	l->joining = NULL;
	pthread_mutex_unlock(&l->lock);
	for (; c; c = next) {
		next = c->next;
		feed_add_client(l, c, now_ns);
	}
}

/* All clients for whom the function says false are dropped. */
static void feed_each(struct feed *l, bool (*fn)(struct feed *, struct feed_client *, int64_t),
		      int64_t now_ns)
{
	struct feed_client **at = &l->clients, *c;

	while ((c = *at)) {
		if (fn(l, c, now_ns)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		feed_drop_client(l, c, now_ns);
	}
}

static void feed_give(struct feed *l, const struct feed_run *r, int64_t now_ns)
{
	struct feed_client **at = &l->clients, *c;

	while ((c = *at)) {
		if (feed_client_give(l, c, r, now_ns)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		feed_drop_client(l, c, now_ns);
	}
}

/* ---- the thread
 * ------------------------------------------------------------------------------------ */

static void feed_step(struct feed *l, struct feed_run *r, int64_t now_ns)
{
	size_t i, most = FEED_RING_ALL_MAX / l->n_runs;
	struct err e = {0};

	feed_batch_reset(&l->batch, r->id);
	feed_run_step(r, &l->batch, now_ns, &e);
	for (i = 0; i < l->batch.n; i++) {
		const struct feed_mark *m = &l->batch.marks[i];

		feed_ring_add(&r->ring, m->seq, now_ns, l->batch.bytes.data + m->at, m->len);
	}
	feed_ring_trim(&r->ring, now_ns, most < FEED_RING_MAX ? most : FEED_RING_MAX);
	pthread_mutex_lock(&l->lock);
	l->counts.reads++;
	l->counts.events += l->batch.n;
	l->counts.bytes += l->batch.bytes.len;
	pthread_mutex_unlock(&l->lock);
	if (l->batch.n)
		feed_give(l, r, now_ns);
}

static void feed_steps(struct feed *l, int64_t now_ns)
{
	struct feed_run *r;

	for (r = l->runs; r; r = r->next) {
		int64_t least = r->has_failed ? FEED_FAILED_NS : l->o.refresh_ns;

		if (!r->clients || (r->step_ns && now_ns - r->step_ns < least))
			continue;
		if (r->is_due || feed_run_look(r, now_ns))
			feed_step(l, r, now_ns);
	}
}

static void feed_lists(struct feed *l, int64_t now_ns, int64_t *looked_ns)
{
	struct feed_client *c;
	char **roots;
	size_t i;

	for (c = l->clients; c && !c->ask.has_list; c = c->next)
		;
	if (!c) {
		feed_list_free(l->list);
		l->list = NULL;
		return;
	}
	if (l->list && now_ns - *looked_ns < FEED_LIST_NS)
		return;
	*looked_ns = now_ns;
	roots = l->o.roots(l->o.arg);
	buf_reset(&l->out);
	if (l->list)
		feed_list_look(l->list, roots, &l->out);
	else
		l->list = feed_list_new(roots);
	if (l->out.len)
		feed_give(l, NULL, now_ns);
	for (i = 0; roots[i]; i++)
		free(roots[i]);
	free(roots);
}

/* Until somebody joins or it is time to look again. */
static bool feed_wait(struct feed *l, int64_t now_ns)
{
	int64_t until = now_ns + (l->clients ? FEED_TICK_NS : FEED_LULL_NS);
	struct timespec t = {until / 1000000000, until % 1000000000};
	bool is_on;
	int err = 0;

	pthread_mutex_lock(&l->lock);
	while (!l->is_stopping && !l->joining && !err)
		err = pthread_cond_timedwait(&l->wake, &l->lock, &t);
	is_on = !l->is_stopping;
	pthread_mutex_unlock(&l->lock);
	return is_on;
}

static void *feed_main(void *arg)
{
	struct feed *l = arg;
	int64_t now = feed_now(), list_ns = 0;

	while (feed_wait(l, now)) {
		now = feed_now();
		feed_take_joining(l, now);
		feed_steps(l, now);
		feed_each(l, feed_client_greet, now);
		feed_lists(l, now, &list_ns);
		feed_each(l, feed_client_tend, now);
		feed_drop_idle(l, now, false);
	}
	feed_take_joining(l, now);
	while (l->clients) {
		struct feed_client *c = l->clients;

		l->clients = c->next;
		feed_drop_client(l, c, now);
	}
	return NULL;
}

/* ---- for others
 * ---------------------------------------------------------------------------------------- */

/* Ids of an earlier server mean nothing to this one. */
static void feed_boot(char out[FEED_BOOT_LEN + 1])
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
	uint8_t raw[FEED_BOOT_LEN];
	size_t i;

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw)) {
		uint64_t now = (uint64_t)feed_now();

		memcpy(raw, &now, sizeof(raw));
	}
	for (i = 0; i < sizeof(raw); i++)
		out[i] = letters[raw[i] % 32];
	out[i] = '\0';
}

struct feed *feed_new(const struct feed_options *o)
{
	struct feed *l = xcalloc(1, sizeof(*l));
	pthread_condattr_t attr;

	l->o = *o;
	if (!l->o.refresh_ns)
		l->o.refresh_ns = FEED_REFRESH_NS;
	feed_boot(l->boot);
	feed_batch_init(&l->batch, l->boot);
	buf_init(&l->out, 1u << 20);
	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->wake, &attr);
	pthread_condattr_destroy(&attr);
	l->has_thread = pthread_create(&l->thread, NULL, feed_main, l) == 0;
	if (l->has_thread)
		return l;
	feed_free(l);
	return NULL;
}

int feed_join(struct feed *l, const struct feed_ask *ask, struct http_stream **ret)
{
	struct feed_client *c = xcalloc(1, sizeof(*c));
	int err = 0;

	c->ask = *ask;
	if (ask->after)
		snprintf(c->after, sizeof(c->after), "%s", *ask->after ? ask->after : "-");
	pthread_mutex_lock(&l->lock);
	if (l->is_stopping || l->n_streams >= FEED_STREAMS_MAX) {
		err = -EAGAIN;
	} else {
		l->n_streams++;
		*ret = c->stream = http_stream_new(FEED_WAIT_MAX);
		c->next = l->joining;
		l->joining = c;
		pthread_cond_signal(&l->wake);
	}
	pthread_mutex_unlock(&l->lock);
	if (err)
		free(c);
	return err;
}

void feed_count(struct feed *l, struct feed_counts *ret)
{
	pthread_mutex_lock(&l->lock);
	*ret = l->counts;
	pthread_mutex_unlock(&l->lock);
}

void feed_stop(struct feed *l)
{
	pthread_mutex_lock(&l->lock);
	l->is_stopping = true;
	pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&l->lock);
	if (l->has_thread)
		pthread_join(l->thread, NULL);
	l->has_thread = false;
}

void feed_free(struct feed *l)
{
	if (!l)
		return;
	feed_stop(l);
	while (l->runs)
		feed_drop_run(l, &l->runs);
	feed_list_free(l->list);
	feed_batch_done(&l->batch);
	buf_done(&l->out);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->wake);
	free(l);
}
