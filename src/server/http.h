/* SPDX-License-Identifier: Apache-2.0
 *
 * http.h - HTTP over libmicrohttpd: connections with limits and deadlines of our own,
 * requests given to a few worker threads, answers, and streams that go on. What is asked
 * and answered is not known here.
 */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "base/buf.h"
#include "base/err.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_BODY_MAX 65536u
#define HTTP_HEAD_MAX 16384u
#define HTTP_ADDRESS_MAX 64u /* connections of an address other than loopback */
#define HTTP_PARAMS_MAX 256u
#define HTTP_REPLY_MAX (256u << 20)
#define HTTP_HELD_MAX (1ull << 30)  /* bytes of all answers that wait for their clients */
#define HTTP_HELD_SMALL (64u << 10) /* bytes of an answer that is given nevertheless */
#define HTTP_HEADERS_MAX 12u
#define HTTP_ETAG_MAX 64u

struct http_param {
	const char *name, *value; /* decoded */
};

/* A request, whole. Strings live until its answer is given. */
struct http_request {
	const char *method, *path; /* the path decoded; it has no NUL */
	struct http_param params[HTTP_PARAMS_MAX];
	size_t n_params;
	bool has_more_params; /* than HTTP_PARAMS_MAX, or one with a NUL */
	const struct sockaddr *peer;
	int64_t peer_user; /* of a process on this machine; -1: not known (peer.h) */
	const char *body;
	size_t body_len;
	bool is_too_large; /* the body had more than HTTP_BODY_MAX bytes: it is cut */
	void *of;          /* http's */
};

/* A field of the head, NULL: it is not there. */
const char *http_field(const struct http_request *r, const char *name);
/* Is nobody there any more who would read the answer? Who has ended the own side of the
 * connection counts as gone, as no more than that is seen of one who has closed it. By any
 * thread until the answer is given; takes a call of the kernel. */
bool http_is_gone(const struct http_request *r);
/* Has the client the version with this ETag? Then an empty answer with it becomes 304. */
bool http_knows(const struct http_request *r, const char *etag);

/* An answer that goes on: bytes are put by any thread, sent as the client takes them. */
struct http_stream;

/* most: bytes that may wait. Whoever makes it gives it as an answer, and holds it until
 * http_stream_close(). */
struct http_stream *http_stream_new(size_t most);
/* -ENOSPC: the client is too slow: nothing was put; -EPIPE: it has gone. */
int http_stream_put(struct http_stream *s, const void *data, size_t len);
bool http_stream_is_gone(struct http_stream *s);
/* Bytes that wait for the client. */
size_t http_stream_waiting(struct http_stream *s);
/* What waits is still sent, then the connection ends. */
void http_stream_close(struct http_stream *s);
/* Before it is closed: something is missing, so the connection is to end without a proper
 * end of the answer. */
void http_stream_break(struct http_stream *s);
/* Instead of giving it as an answer: free it. */
void http_stream_discard(struct http_stream *s);

/* An answer. Zero-initialised but for body. */
struct http_reply {
	int status;
	const char *type; /* static */
	struct buf body;  /* taken over */
	const void *text; /* instead of body: static bytes */
	size_t text_len;
	bool text_is_gzip; /* they are compressed already */
	int fd;            /* instead, if has_fd: a file, from offset, size bytes; taken over */
	bool has_fd;
	uint64_t offset, size;
	struct http_stream *stream; /* instead */
	char etag[HTTP_ETAG_MAX];   /* "": none; with quotes */
	struct {
		const char *name; /* static */
		char value[512];
	} headers[HTTP_HEADERS_MAX];
	size_t n_headers;
	bool is_immutable;
};
/* One more field; what does not fit is left out. */
void http_header(struct http_reply *reply, const char *name, const char *value);

struct http_options {
	const char *address; /* "127.0.0.1", "::1", "0.0.0.0", ...; NULL: 127.0.0.1 */
	uint16_t port;       /* 0: any */
	unsigned max_clients, workers;
	int64_t head_ns;  /* from a connection's or a request's begin to its whole head */
	int64_t body_ns;  /* from there to the whole body */
	int64_t quiet_ns; /* that a connection may wait between two requests */
	/* Bytes of answers that may wait for their clients, of all servers of the process; what
	 * would be more is answered 503. 0: HTTP_HELD_MAX. */
	uint64_t held_max;
	const char *cert, *key; /* PEM texts; NULL: no TLS */
	/* Called by the workers; fills *reply. */
	void (*answer)(void *arg, const struct http_request *r, struct http_reply *reply);
	/* Called every quarter of a second, by a thread of the server's; NULL: nothing. */
	void (*tick)(void *arg);
	void *arg;
};

struct http;

/* -EADDRINUSE: the port is taken; -ENOENT: there is no libmicrohttpd. */
int http_start(const struct http_options *o, struct err *e, struct http **ret);
uint16_t http_port(const struct http *h);
void http_stop(struct http *h);

struct http_counts {
	uint64_t connections, requests, late; /* late: ended because a deadline had passed */
	unsigned open;
};
void http_counts(struct http *h, struct http_counts *ret);

#endif
