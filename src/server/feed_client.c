/* SPDX-License-Identifier: Apache-2.0
 *
 * feed_client.c - what one client is given: its greeting, news, what it missed while it was
 * away, and a word when it was too slow.
 */
#include "server/feed_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FEED_QUIET_NS 15000000000LL

/* What is in l->out, to one client. -ENOSPC: it is too slow. */
static int feed_client_put(struct feed *l, struct feed_client *c, const void *data, size_t len,
			   int64_t now_ns)
{
	int err = http_stream_put(c->stream, data, len);

	if (err)
		return err;
	c->said_ns = now_ns;
	pthread_mutex_lock(&l->lock);
	l->counts.puts++;
	pthread_mutex_unlock(&l->lock);
	return 0;
}

static bool feed_client_out(struct feed *l, struct feed_client *c, int64_t now_ns)
{
	int err = feed_client_put(l, c, buf_str(&l->out), l->out.len, now_ns);

	buf_reset(&l->out);
	if (err && err != -EPIPE && !c->is_behind) {
		c->is_behind = true;
		pthread_mutex_lock(&l->lock);
		l->counts.gaps++;
		pthread_mutex_unlock(&l->lock);
	}
	return err != -EPIPE;
}

static void feed_client_gap(struct feed *l, const struct feed_run *r, const char *reason)
{
	struct json j;

	feed_frame(&l->out, &j, NULL, "gap", r->id);
	json_kstr(&j, "reason", reason);
	feed_frame_end(&l->out, &j);
}

/* Where a client stands now: what it has been given is what there is. */
static const char *feed_client_id(const struct feed *l, const struct feed_client *c,
				  char out[FEED_ID_MAX])
{
	return feed_id(out, l->boot, c->is_late ? c->at : l->batch.seq);
}

bool feed_client_greet(struct feed *l, struct feed_client *c, int64_t now_ns)
{
	char id[FEED_ID_MAX];
	struct json j;
	size_t i;

	buf_reset(&l->out);
	if (!c->said_ns) {
		buf_puts(&l->out, "retry: 2000\n\n");
		if (c->ask.has_list && c->after[0])
			feed_list_more(&l->out);
	}
	for (i = 0; i < c->ask.n; i++) {
		if (c->is_greeted[i] || !(c->runs[i]->cursor || c->runs[i]->is_ended))
			continue;
		c->is_greeted[i] = true;
		feed_frame(&l->out, &j, feed_client_id(l, c, id), "hello", c->runs[i]->id);
		feed_run_put_hello(c->runs[i], &j, l->o.refresh_ns, c->is_late);
		feed_frame_end(&l->out, &j);
		if (c->after[0] && (!c->is_known || c->at < c->runs[i]->ring.floor))
			feed_client_gap(l, c->runs[i], "old");
	}
	return !l->out.len || feed_client_out(l, c, now_ns);
}

bool feed_client_give(struct feed *l, struct feed_client *c, const struct feed_run *r,
		      int64_t now_ns)
{
	const struct buf *what = r ? &l->batch.bytes : &l->out;
	bool is_for = !r && c->ask.has_list;
	size_t i;
	int err;

	for (i = 0; r && i < c->ask.n; i++) {
		if (c->runs[i] != r || !c->is_greeted[i] || c->is_late)
			continue;
		is_for = true;
	}
	if (!is_for || c->is_behind)
		return true;
	err = feed_client_put(l, c, buf_str(what), what->len, now_ns);
	for (i = 0; r && !err && i < c->ask.n; i++)
		c->is_ended[i] = c->is_ended[i] || (c->runs[i] == r && r->is_ended);
	if (err && err != -EPIPE) {
		c->is_behind = true;
		pthread_mutex_lock(&l->lock);
		l->counts.gaps++;
		pthread_mutex_unlock(&l->lock);
	}
	return err != -EPIPE;
}

/* The next event that it missed, of any of its runs. */
static const struct feed_ring_event *feed_client_next(const struct feed_client *c)
{
	const struct feed_ring_event *next = NULL, *e;
	size_t i;

	for (i = 0; i < c->ask.n; i++) {
		e = c->is_greeted[i] ? feed_ring_after(&c->runs[i]->ring, c->at) : NULL;
		if (e && (!next || e->seq < next->seq))
			next = e;
	}
	return next;
}

/* As much of what it missed as it takes. */
static bool feed_client_catch_up(struct feed *l, struct feed_client *c, int64_t now_ns)
{
	const struct feed_ring_event *e;
	size_t i;
	int err;

	while ((e = feed_client_next(c))) {
		err = feed_client_put(l, c, e->data, e->len, now_ns);
		if (err == -ENOSPC && !http_stream_waiting(c->stream))
			c->is_behind = true; /* it takes no event as large as this one */
		else if (err)
			return err != -EPIPE;
		c->at = e->seq;
	}
	c->is_late = false;
	for (i = 0; i < c->ask.n; i++)
		c->is_ended[i] = c->is_greeted[i] && c->runs[i]->is_ended &&
				 c->runs[i]->end_seq > 0 && c->at >= c->runs[i]->end_seq &&
				 !c->is_behind;
	return true;
}

/* What waited has gone. */
static bool feed_client_again(struct feed *l, struct feed_client *c, int64_t now_ns)
{
	size_t i;

	if (http_stream_waiting(c->stream))
		return true;
	buf_reset(&l->out);
	for (i = 0; i < c->ask.n; i++)
		if (c->is_greeted[i])
			feed_client_gap(l, c->runs[i], "slow");
	if (c->ask.has_list)
		feed_list_more(&l->out);
	c->is_behind = false;
	return feed_client_out(l, c, now_ns);
}

/* Tell of the ends of runs that had ended before it came, or while it was too slow. false:
 * all have ended. */
static bool feed_client_ends(struct feed *l, struct feed_client *c, int64_t now_ns)
{
	bool is_over = c->ask.n && !c->ask.has_list;
	char id[FEED_ID_MAX];
	struct json j;
	size_t i;

	buf_reset(&l->out);
	for (i = 0; i < c->ask.n; i++) {
		if (!c->is_greeted[i] || !c->runs[i]->is_ended) {
			is_over = false;
			continue;
		}
		if (c->is_ended[i])
			continue;
		c->is_ended[i] = true;
		feed_frame(&l->out, &j, feed_client_id(l, c, id), "end", c->runs[i]->id);
		feed_run_put_end(c->runs[i], &j);
		feed_frame_end(&l->out, &j);
	}
	return (!l->out.len || feed_client_out(l, c, now_ns)) && !is_over;
}

bool feed_client_tend(struct feed *l, struct feed_client *c, int64_t now_ns)
{
	if (http_stream_is_gone(c->stream))
		return false;
	if (c->is_late && !feed_client_catch_up(l, c, now_ns))
		return false;
	if (c->is_behind && !feed_client_again(l, c, now_ns))
		return false;
	if (now_ns - c->said_ns > FEED_QUIET_NS &&
	    feed_client_put(l, c, ":\n\n", 3, now_ns) == -EPIPE)
		return false;
	return c->is_late || c->is_behind || feed_client_ends(l, c, now_ns);
}
