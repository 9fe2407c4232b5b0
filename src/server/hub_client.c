/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_client.c - what one client is given: its greeting, news, what it missed while it was
 * away, and a word when it was too slow.
 */
#include "server/hub_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HUB_QUIET_NS 15000000000LL

/* Named, since a page cannot see a comment: it then knows that the connection is there. */
static const char hub_client_beat[] = "event: beat\ndata: {}\n\n";

/* Bytes to one client. -ENOSPC: it is too slow. */
static int hub_client_put(struct hub_client *c, const void *data, size_t len, int64_t now_ns)
{
	int err = http_stream_put(c->stream, data, len);

	if (err)
		return err;
	c->said_ns = now_ns;
	return 0;
}

/* false: it is gone. What did not fit it has missed. */
static bool hub_client_took(struct hub_client *c, int err)
{
	if (err && err != -EPIPE)
		c->is_behind = true;
	return err != -EPIPE;
}

static bool hub_client_out(struct hub *h, struct hub_client *c, int64_t now_ns)
{
	int err = hub_client_put(c, buf_str(&h->out), h->out.len, now_ns);

	buf_reset(&h->out);
	return hub_client_took(c, err);
}

static void hub_client_gap(struct hub *h, const struct hub_run *r, const char *reason)
{
	struct json j;

	hub_frame(&h->out, &j, NULL, "gap", r->id);
	json_kstr(&j, "reason", reason);
	hub_frame_end(&h->out, &j);
}

/* Where a client stands now: what it has been given is what there is. */
static const char *hub_client_id(const struct hub *h, const struct hub_client *c,
				 char out[HUB_ID_MAX])
{
	return hub_id(out, h->boot, c->is_late ? c->at : h->batch.seq);
}

bool hub_client_greet(struct hub *h, struct hub_client *c, int64_t now_ns)
{
	char id[HUB_ID_MAX];
	struct json j;
	size_t i;

	buf_reset(&h->out);
	if (!c->said_ns) {
		buf_puts(&h->out, "retry: 2000\n\n");
		if (c->ask.has_list && c->after[0])
			hub_list_more(&h->out);
	}
	for (i = 0; i < c->ask.n; i++) {
		if (c->runs[i]->has_failed && !c->is_failed[i])
			hub_client_gap(h, c->runs[i], "unreadable");
		c->is_failed[i] = c->runs[i]->has_failed;
		if (c->is_greeted[i] || !(c->runs[i]->cursor || c->runs[i]->is_ended))
			continue;
		c->is_greeted[i] = true;
		hub_frame(&h->out, &j, hub_client_id(h, c, id), "hello", c->runs[i]->id);
		hub_run_put_hello(c->runs[i], &j, h->o.refresh_ns, c->is_late);
		hub_frame_end(&h->out, &j);
		if (c->after[0] && (!c->is_known || c->told[i] < c->runs[i]->ring.floor))
			hub_client_gap(h, c->runs[i], "old");
		c->told[i] = c->runs[i]->ring.floor;
	}
	return !h->out.len || hub_client_out(h, c, now_ns);
}

/* Does it watch the run, and is it not late? Late ones find news in the ring. */
static bool hub_client_watches(const struct hub_client *c, const struct hub_run *r)
{
	size_t i;

	for (i = 0; i < c->ask.n; i++)
		if (c->runs[i] == r)
			return c->is_greeted[i] && !c->is_late;
	return false;
}

bool hub_client_give(struct hub *h, struct hub_client *c, const struct hub_run *r, int64_t now_ns)
{
	const struct buf *what = r ? &h->batch.bytes : &h->out;
	size_t i;
	int err;

	if (c->is_behind || !(r ? hub_client_watches(c, r) : c->ask.has_list))
		return true;
	err = hub_client_put(c, buf_str(what), what->len, now_ns);
	for (i = 0; !err && i < c->ask.n; i++)
		c->is_ended[i] = c->is_ended[i] || (c->runs[i] == r && r->is_ended);
	return hub_client_took(c, err);
}

/* The next event that it missed, of any of its runs. */
static const struct hub_ring_event *hub_client_next(const struct hub_client *c)
{
	const struct hub_ring_event *next = NULL, *e;
	size_t i;

	for (i = 0; i < c->ask.n; i++) {
		e = c->is_greeted[i] ? hub_ring_after(&c->runs[i]->ring, c->at) : NULL;
		if (e && (!next || e->seq < next->seq))
			next = e;
	}
	return next;
}

/* While it takes its time, events that it still has to get may be dropped. */
static int hub_client_gaps(struct hub *h, struct hub_client *c, int64_t now_ns)
{
	uint64_t floor;
	size_t i;
	int err;

	for (i = 0; i < c->ask.n; i++) {
		floor = c->runs[i]->ring.floor;
		if (!c->is_greeted[i] || floor <= c->at || floor <= c->told[i])
			continue;
		buf_reset(&h->out);
		hub_client_gap(h, c->runs[i], "old");
		err = hub_client_put(c, buf_str(&h->out), h->out.len, now_ns);
		if (err)
			return err;
		c->told[i] = floor;
	}
	return 0;
}

/* As much of what it missed as it takes. */
static bool hub_client_catch_up(struct hub *h, struct hub_client *c, int64_t now_ns)
{
	const struct hub_ring_event *e;
	size_t i;
	int err = hub_client_gaps(h, c, now_ns);

	if (err)
		return err != -EPIPE;
	while ((e = hub_client_next(c))) {
		err = hub_client_put(c, e->data, e->len, now_ns);
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
static bool hub_client_again(struct hub *h, struct hub_client *c, int64_t now_ns)
{
	size_t i;

	if (http_stream_waiting(c->stream))
		return true;
	buf_reset(&h->out);
	for (i = 0; i < c->ask.n; i++)
		if (c->is_greeted[i])
			hub_client_gap(h, c->runs[i], "slow");
	if (c->ask.has_list)
		hub_list_more(&h->out);
	c->is_behind = false;
	return hub_client_out(h, c, now_ns);
}

/* Tell of the ends of runs that had ended before it came, or while it was too slow. false:
 * all have ended. */
static bool hub_client_ends(struct hub *h, struct hub_client *c, int64_t now_ns)
{
	bool is_over = c->ask.n && !c->ask.has_list;
	char id[HUB_ID_MAX];
	struct json j;
	size_t i;

	buf_reset(&h->out);
	for (i = 0; i < c->ask.n; i++) {
		if (!c->is_greeted[i] || !c->runs[i]->is_ended) {
			is_over = false;
			continue;
		}
		if (c->is_ended[i])
			continue;
		c->is_ended[i] = true;
		hub_frame(&h->out, &j, hub_client_id(h, c, id), "end", c->runs[i]->id);
		hub_run_put_end(c->runs[i], &j);
		hub_frame_end(&h->out, &j);
	}
	return (!h->out.len || hub_client_out(h, c, now_ns)) && !is_over;
}

bool hub_client_tend(struct hub *h, struct hub_client *c, int64_t now_ns)
{
	if (http_stream_is_gone(c->stream))
		return false;
	if (c->is_late && !hub_client_catch_up(h, c, now_ns))
		return false;
	if (c->is_behind && !hub_client_again(h, c, now_ns))
		return false;
	if (now_ns - c->said_ns > HUB_QUIET_NS &&
	    hub_client_put(c, hub_client_beat, sizeof(hub_client_beat) - 1, now_ns) == -EPIPE)
		return false;
	return c->is_late || c->is_behind || hub_client_ends(h, c, now_ns);
}
