/* SPDX-License-Identifier: Apache-2.0
 *
 * http_conn.c - connections and their deadlines. libmicrohttpd ends a connection that is
 * silent; one that says a byte now and then it would keep for ever.
 */
#include "server/http_priv.h"

#include "base/mem.h"
#include "base/now.h"
#include "server/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define HTTP_SWEEP_NS 250000000LL

/* With the lock held. Its fields are libmicrohttpd's to free: it sees the end and tells. */
static void http_conn_end(struct http *h, struct http_conn *c)
{
	if (c->is_ended)
		return;
	c->is_ended = true;
	h->counts.late++;
	shutdown(c->fd, SHUT_RDWR);
}

static bool http_conn_is_waited_for(const struct http_conn *c)
{
	return !c->is_ended && (c->wait == HTTP_HEAD || c->wait == HTTP_QUIET);
}

/* With the lock held: those who do not get their head together make room for who may. The
 * oldest is the last in the list. */
static void http_conn_make_room(struct http *h)
{
	struct http_conn *c, *oldest = NULL;

	for (c = h->conns; c; c = c->next)
		if (http_conn_is_waited_for(c))
			oldest = c;
	if (oldest)
		http_conn_end(h, oldest);
}

static bool http_conn_is_loopback(const struct sockaddr_in6 *peer)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)peer;

	if (peer->sin6_family == AF_INET)
		return ntohl(four->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&peer->sin6_addr);
}

/* With the lock held: has the address as many as one may have? All that come through a
 * forwarded port come from this machine, so that has no limit of its own. */
static bool http_conn_is_too_many(const struct http *h, const struct http_conn *new)
{
	const struct sockaddr_in *a = (const struct sockaddr_in *)(const void *)&new->peer, *b;
	const struct http_conn *c;
	unsigned n = 0;

	if (http_conn_is_loopback(&new->peer))
		return false;
	for (c = h->conns; c; c = c->next) {
		b = (const struct sockaddr_in *)(const void *)&c->peer;
		if (c->is_ended || c->peer.sin6_family != new->peer.sin6_family)
			continue;
		n += new->peer.sin6_family == AF_INET
			     ? a->sin_addr.s_addr == b->sin_addr.s_addr
			     : !memcmp(&c->peer.sin6_addr, &new->peer.sin6_addr, 16);
	}
	return n >= HTTP_ADDRESS_MAX;
}

static void http_conn_begin(struct http *h, struct MHD_Connection *mhd, void **socket_arg)
{
	const union MHD_ConnectionInfo *fd, *peer;
	struct http_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return;
	fd = h->api->get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	peer = h->api->get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	c->fd = fd ? fd->connect_fd : -1;
	if (peer && peer->client_addr)
		memcpy(&c->peer, peer->client_addr,
		       peer->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
								: sizeof(struct sockaddr_in));
	c->user = c->fd >= 0 && http_conn_is_loopback(&c->peer) ? peer_user(c->fd) : PEER_UNKNOWN;
	*socket_arg = c;
	pthread_mutex_lock(&h->lock);
	if (h->n_conns >= h->o.max_clients * 3 / 4)
		http_conn_make_room(h);
	c->until_ns = now_read(CLOCK_MONOTONIC) + h->o.head_ns;
	if (http_conn_is_too_many(h, c))
		http_conn_end(h, c);
	c->next = h->conns;
	if (c->next)
		c->next->prev = c;
	h->conns = c;
	h->n_conns++;
	h->counts.connections++;
	pthread_mutex_unlock(&h->lock);
}

static void http_conn_gone(struct http *h, struct http_conn *c)
{
	pthread_mutex_lock(&h->lock);
	if (c->next)
		c->next->prev = c->prev;
	if (c->prev)
		c->prev->next = c->next;
	else
		h->conns = c->next;
	h->n_conns--;
	pthread_mutex_unlock(&h->lock);
	free(c);
}

void http_conn_notify(void *arg, struct MHD_Connection *mhd, void **socket_arg,
		      enum MHD_ConnectionNotificationCode code)
{
	struct http *h = arg;

	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		http_conn_begin(h, mhd, socket_arg);
	else if (*socket_arg)
		http_conn_gone(h, *socket_arg);
}

void http_conn_wait(struct http *h, struct http_conn *c, enum http_wait wait)
{
	const int64_t limits[] = {h->o.head_ns, h->o.body_ns, 0, h->o.quiet_ns};

	if (!c)
		return;
	pthread_mutex_lock(&h->lock);
	c->wait = wait;
	c->until_ns = wait == HTTP_ANSWER ? INT64_MAX : now_read(CLOCK_MONOTONIC) + limits[wait];
	pthread_mutex_unlock(&h->lock);
}

void *http_conn_sweep(void *arg)
{
	struct http *h = arg;
	struct http_conn *c;
	struct timespec t;
	int64_t now;

	pthread_mutex_lock(&h->lock);
	while (!h->is_stopping) {
		now = now_read(CLOCK_MONOTONIC);
		for (c = h->conns; c; c = c->next)
			if (now > c->until_ns)
				http_conn_end(h, c);
		pthread_mutex_unlock(&h->lock);
		if (h->o.tick)
			h->o.tick(h->o.arg);
		pthread_mutex_lock(&h->lock);
		if (h->is_stopping)
			break;
		now += HTTP_SWEEP_NS;
		t = (struct timespec){now / 1000000000, now % 1000000000};
		pthread_cond_timedwait(&h->tick, &h->lock, &t);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}
