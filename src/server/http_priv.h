/* SPDX-License-Identifier: Apache-2.0
 *
 * http_priv.h - what the files of http.h share.
 */
#ifndef SERVER_HTTP_PRIV_H
#define SERVER_HTTP_PRIV_H

#include "server/http.h"
#include "server/mhd.h"

#include <pthread.h>

enum http_wait {
	HTTP_HEAD, /* for a head that has begun, or the first one */
	HTTP_BODY,
	HTTP_ANSWER, /* ours to give */
	HTTP_QUIET   /* for the next request */
};

/* A connection of a client. */
struct http_conn {
	struct http_conn *next, *prev;
	int fd;
	enum http_wait wait;
	int64_t until_ns; /* CLOCK_MONOTONIC; of HTTP_ANSWER: none */
	struct sockaddr_in6 peer;
	int64_t user; /* of peer, as peer_user() */
	bool is_ended;
};

/* A request on its way. */
struct http_call {
	struct http_call *next; /* in the queue */
	struct http *http;
	struct http_conn *conn;
	struct MHD_Connection *mhd;
	struct http_request request;
	struct buf body;
	struct http_reply reply;
	size_t held; /* bytes of the answer, counted until it is over */
	char *method, *path;
	bool is_asked, is_answered, has_nul, is_gzip;
};

struct http {
	struct http_options o;
	const struct mhd_api *api;
	struct MHD_Daemon *daemon;
	uint16_t port;
	int fd; /* listening */

	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t work, tick;
	struct http_call *first, **last;
	struct http_conn *conns; /* by begin, the newest first */
	unsigned n_conns;
	struct http_counts counts;
	bool is_stopping;
	pthread_t *workers;
	unsigned n_workers;
	pthread_t sweeper;
	bool has_sweeper;
};

/* Connections: what libmicrohttpd tells, and the thread that ends those that are late. */
void http_conn_notify(void *arg, struct MHD_Connection *c, void **socket_arg,
		      enum MHD_ConnectionNotificationCode code);
void http_conn_wait(struct http *h, struct http_conn *c, enum http_wait wait);
void *http_conn_sweep(void *arg);

/* By a worker, as it may take long: make the reply's bytes those that the client takes. */
void http_prepare(struct http_call *call);
/* Count the bytes that wait from now on, or answer 503 if they are too many; and no more. */
void http_hold(struct http_call *call);
void http_unhold(struct http_call *call);
/* Give the reply to libmicrohttpd; frees what is in it. */
enum MHD_Result http_send(struct http_call *call);
struct MHD_Response *http_stream_response(const struct mhd_api *api, struct MHD_Connection *mhd,
					  struct http_stream *s);
/* The request is over, whether it was ever sent or not. */
void http_stream_lost(struct http_stream *s);

#endif
