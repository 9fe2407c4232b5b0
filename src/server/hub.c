/* SPDX-License-Identifier: Apache-2.0
 *
 * hub.c - the hub of live updates: who joins, which runs are watched, what is read when.
 */
#include "server/hub_priv.h"

#include "base/mem.h"
#include "base/now.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define HUB_TICK_NS 50000000LL    /* between two looks at a run's files */
#define HUB_LULL_NS 30000000000LL /* nobody watches */
#define HUB_FAILED_NS 1000000000LL

/* ---- runs -------------------------------------------------------------------------------------
 */

static void hub_drop_run(struct hub *h, struct hub_run **at)
{
	struct hub_run *r = *at;

	*at = r->next;
	hub_run_free(r);
	h->n_runs--;
}

/* Those that nobody has watched for as long as events are kept; any idle one if `now`. */
static void hub_drop_idle(struct hub *h, int64_t now_ns, bool is_full)
{
	struct hub_run **at = &h->runs;

	while (*at) {
		struct hub_run *r = *at;

		if (r->idle_ns && (is_full || now_ns - r->idle_ns > HUB_RING_NS))
			hub_drop_run(h, at);
		else
			at = &r->next;
	}
}

static struct hub_run *hub_run_of(struct hub *h, const struct hub_ask_run *ask, int64_t now_ns)
{
	struct hub_run *r;

	for (r = h->runs; r; r = r->next)
		if (!strcmp(r->id, ask->id) && !strcmp(r->dir, ask->dir))
			return r;
	if (h->n_runs >= HUB_WATCHED_MAX)
		hub_drop_idle(h, now_ns, true);
	if (h->n_runs >= HUB_WATCHED_MAX)
		return NULL;
	r = hub_run_new(ask->id, ask->dir, h->batch.seq);
	r->next = h->runs;
	h->runs = r;
	h->n_runs++;
	return r;
}

static void hub_watch(struct hub_run *r)
{
	if (!r->clients++) {
		r->is_due = true;
		r->idle_ns = 0;
	}
}

static void hub_unwatch(struct hub_run *r, int64_t now_ns)
{
	if (--r->clients)
		return;
	r->idle_ns = now_ns;
	hub_run_rest(r);
}

/* ---- clients
 * ------------------------------------------------------------------------------------- */

static void hub_drop_client(struct hub *h, struct hub_client *c, int64_t now_ns)
{
	size_t i;

	for (i = 0; i < c->ask.n; i++)
		if (c->runs[i])
			hub_unwatch(c->runs[i], now_ns);
	http_stream_close(c->stream);
	free(c);
	pthread_mutex_lock(&h->lock);
	h->n_streams--;
	pthread_mutex_unlock(&h->lock);
}

static void hub_add_client(struct hub *h, struct hub_client *c, int64_t now_ns)
{
	size_t i;

	for (i = 0; i < c->ask.n; i++) {
		c->runs[i] = hub_run_of(h, &c->ask.runs[i], now_ns);
		if (!c->runs[i]) { /* it asks again */
			hub_drop_client(h, c, now_ns);
			return;
		}
		hub_watch(c->runs[i]);
	}
	c->is_known =
		c->after[0] && hub_id_parse(c->after, h->boot, &c->at) && c->at <= h->batch.seq;
	c->is_late = c->is_known;
	for (i = 0; i < c->ask.n; i++)
		c->told[i] = c->at;
	c->next = h->clients;
	h->clients = c;
}

static void hub_take_joining(struct hub *h, int64_t now_ns)
{
	struct hub_client *c, *next;

	pthread_mutex_lock(&h->lock);
	c = h->joining;
	h->joining = NULL;
	pthread_mutex_unlock(&h->lock);
	for (; c; c = next) {
		next = c->next;
		hub_add_client(h, c, now_ns);
	}
}

/* All clients for whom the function says false are dropped. */
static void hub_each(struct hub *h, bool (*fn)(struct hub *, struct hub_client *, int64_t),
		     int64_t now_ns)
{
	struct hub_client **at = &h->clients, *c;

	while ((c = *at)) {
		if (fn(h, c, now_ns)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		hub_drop_client(h, c, now_ns);
	}
}

static void hub_give(struct hub *h, const struct hub_run *r, int64_t now_ns)
{
	struct hub_client **at = &h->clients, *c;

	while ((c = *at)) {
		if (hub_client_give(h, c, r, now_ns)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		hub_drop_client(h, c, now_ns);
	}
}

/* ---- the thread
 * ------------------------------------------------------------------------------------ */

static void hub_step(struct hub *h, struct hub_run *r, int64_t now_ns)
{
	size_t i, most = HUB_RING_ALL_MAX / h->n_runs;
	struct err e = {0};

	hub_batch_reset(&h->batch, r->id);
	hub_run_step(r, &h->batch, now_ns, &e);
	for (i = 0; i < h->batch.n; i++) {
		const struct hub_mark *m = &h->batch.marks[i];

		hub_ring_add(&r->ring, m->seq, now_ns, h->batch.bytes.data + m->at, m->len);
	}
	hub_ring_trim(&r->ring, now_ns, most < HUB_RING_MAX ? most : HUB_RING_MAX);
	if (h->batch.n)
		hub_give(h, r, now_ns);
}

static void hub_steps(struct hub *h, int64_t now_ns)
{
	struct hub_run *r;

	for (r = h->runs; r; r = r->next) {
		int64_t least = r->has_failed ? HUB_FAILED_NS : h->o.refresh_ns;

		if (!r->clients || (r->step_ns && now_ns - r->step_ns < least))
			continue;
		if (r->is_due || hub_run_look(r, now_ns))
			hub_step(h, r, now_ns);
	}
}

static void hub_lists(struct hub *h, int64_t now_ns, int64_t *looked_ns)
{
	struct hub_client *c;
	char **roots;
	size_t i;

	for (c = h->clients; c && !c->ask.has_list; c = c->next)
		;
	if (!c) {
		hub_list_free(h->list);
		h->list = NULL;
		return;
	}
	if (h->list && now_ns - *looked_ns < HUB_LIST_NS)
		return;
	*looked_ns = now_ns;
	roots = h->o.roots(h->o.arg);
	buf_reset(&h->out);
	if (h->list)
		hub_list_look(h->list, roots, &h->out);
	else
		h->list = hub_list_new(roots);
	if (h->out.len)
		hub_give(h, NULL, now_ns);
	for (i = 0; roots[i]; i++)
		free(roots[i]);
	free(roots);
}

/* Until somebody joins or it is time to look again. */
static bool hub_wait(struct hub *h, int64_t now_ns)
{
	int64_t until = now_ns + (h->clients ? HUB_TICK_NS : HUB_LULL_NS);
	struct timespec t = {until / 1000000000, until % 1000000000};
	bool is_on;
	int err = 0;

	pthread_mutex_lock(&h->lock);
	while (!h->is_stopping && !h->joining && !err)
		err = pthread_cond_timedwait(&h->wake, &h->lock, &t);
	is_on = !h->is_stopping;
	pthread_mutex_unlock(&h->lock);
	return is_on;
}

static void *hub_main(void *arg)
{
	struct hub *h = arg;
	int64_t now = now_read(CLOCK_MONOTONIC), list_ns = 0;

	while (hub_wait(h, now)) {
		now = now_read(CLOCK_MONOTONIC);
		hub_take_joining(h, now);
		hub_steps(h, now);
		hub_each(h, hub_client_greet, now);
		hub_lists(h, now, &list_ns);
		hub_each(h, hub_client_tend, now);
		hub_drop_idle(h, now, false);
	}
	hub_take_joining(h, now);
	while (h->clients) {
		struct hub_client *c = h->clients;

		h->clients = c->next;
		hub_drop_client(h, c, now);
	}
	return NULL;
}

/* ---- for others
 * ---------------------------------------------------------------------------------------- */

/* Ids of an earlier server mean nothing to this one. */
static void hub_boot(char out[HUB_BOOT_LEN + 1])
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
	uint8_t raw[HUB_BOOT_LEN];
	size_t i;

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw)) {
		uint64_t now = (uint64_t)now_read(CLOCK_MONOTONIC);

		memcpy(raw, &now, sizeof(raw));
	}
	for (i = 0; i < sizeof(raw); i++)
		out[i] = letters[raw[i] % 32];
	out[i] = '\0';
}

struct hub *hub_new(const struct hub_options *o)
{
	struct hub *h = xcalloc(1, sizeof(*h));
	pthread_condattr_t attr;

	h->o = *o;
	if (!h->o.refresh_ns)
		h->o.refresh_ns = HUB_REFRESH_NS;
	hub_boot(h->boot);
	hub_batch_init(&h->batch, h->boot);
	buf_init(&h->out, 1u << 20);
	pthread_mutex_init(&h->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&h->wake, &attr);
	pthread_condattr_destroy(&attr);
	h->has_thread = pthread_create(&h->thread, NULL, hub_main, h) == 0;
	if (h->has_thread)
		return h;
	hub_free(h);
	return NULL;
}

int hub_join(struct hub *h, const struct hub_ask *ask, struct http_stream **ret)
{
	struct hub_client *c = xcalloc(1, sizeof(*c));
	int err = 0;

	c->ask = *ask;
	if (ask->after)
		snprintf(c->after, sizeof(c->after), "%s", *ask->after ? ask->after : "-");
	pthread_mutex_lock(&h->lock);
	if (h->is_stopping || h->n_streams >= HUB_STREAMS_MAX) {
		err = -EAGAIN;
	} else {
		h->n_streams++;
		*ret = c->stream = http_stream_new(HUB_WAIT_MAX);
		c->next = h->joining;
		h->joining = c;
		pthread_cond_signal(&h->wake);
	}
	pthread_mutex_unlock(&h->lock);
	if (err)
		free(c);
	return err;
}

void hub_stop(struct hub *h)
{
	pthread_mutex_lock(&h->lock);
	h->is_stopping = true;
	pthread_cond_signal(&h->wake);
	pthread_mutex_unlock(&h->lock);
	if (h->has_thread)
		pthread_join(h->thread, NULL);
	h->has_thread = false;
}

void hub_free(struct hub *h)
{
	if (!h)
		return;
	hub_stop(h);
	while (h->runs)
		hub_drop_run(h, &h->runs);
	hub_list_free(h->list);
	hub_batch_done(&h->batch);
	buf_done(&h->out);
	pthread_mutex_destroy(&h->lock);
	pthread_cond_destroy(&h->wake);
	free(h);
}
