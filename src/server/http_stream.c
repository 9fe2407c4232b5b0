/* SPDX-License-Identifier: Apache-2.0
 *
 * http_stream.c - answers that go on. A stream is held by who writes it and by the
 * request that it answers; the last of the two frees it. A connection with nothing to
 * send sleeps, and is woken by the next byte.
 */
#include "server/http_priv.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HTTP_STREAM_BLOCK 16384

struct http_stream {
	pthread_mutex_t lock;
	const struct mhd_api *api;
	struct MHD_Connection *mhd; /* that sleeps; else NULL */
	char *data;                 /* a ring of cap bytes */
	size_t cap, at, len, most;
	unsigned holders;
	bool is_gone, is_closed, is_broken;
};

/* The connection of a stream, for libmicrohttpd's calls. */
struct http_stream_end {
	struct http_stream *s;
	struct MHD_Connection *mhd;
};

struct http_stream *http_stream_new(size_t most)
{
	struct http_stream *s = xcalloc(1, sizeof(*s));

	pthread_mutex_init(&s->lock, NULL);
	s->most = most;
	s->holders = 2;
	return s;
}

static void http_stream_drop(struct http_stream *s)
{
	bool is_last;

	pthread_mutex_lock(&s->lock);
	is_last = --s->holders == 0;
	pthread_mutex_unlock(&s->lock);
	if (!is_last)
		return;
	pthread_mutex_destroy(&s->lock);
	free(s->data);
	free(s);
}

/* With the lock held. */
static void http_stream_wake(struct http_stream *s)
{
	struct MHD_Connection *mhd = s->mhd;

	s->mhd = NULL;
	if (mhd)
		s->api->resume_connection(mhd);
}

/* Room for n more bytes; what waits is moved to the front of a larger ring. */
static int http_stream_grow(struct http_stream *s, size_t n)
{
	size_t cap = s->cap ? s->cap : 4096, part;
	char *data;

	while (cap < s->len + n)
		cap *= 2;
	if (cap == s->cap)
		return 0;
	data = malloc(cap);
	if (!data)
		return -ENOMEM;
	part = s->cap - s->at < s->len ? s->cap - s->at : s->len;
	if (s->len) {
		memcpy(data, s->data + s->at, part);
		memcpy(data + part, s->data, s->len - part);
	}
	free(s->data);
	s->data = data;
	s->cap = cap;
	s->at = 0;
	return 0;
}

static void http_stream_add(struct http_stream *s, const char *data, size_t n)
{
	size_t end = (s->at + s->len) % s->cap, part = s->cap - end < n ? s->cap - end : n;

	memcpy(s->data + end, data, part);
	memcpy(s->data, data + part, n - part);
	s->len += n;
}

int http_stream_put(struct http_stream *s, const void *data, size_t len)
{
	int err;

	pthread_mutex_lock(&s->lock);
	err = s->is_gone ? -EPIPE : s->len + len > s->most ? -ENOSPC : http_stream_grow(s, len);
	if (!err && len) {
		http_stream_add(s, data, len);
		http_stream_wake(s);
	}
	pthread_mutex_unlock(&s->lock);
	return err;
}

bool http_stream_is_gone(struct http_stream *s)
{
	bool is;

	pthread_mutex_lock(&s->lock);
	is = s->is_gone;
	pthread_mutex_unlock(&s->lock);
	return is;
}

size_t http_stream_waiting(struct http_stream *s)
{
	size_t n;

	pthread_mutex_lock(&s->lock);
	n = s->len;
	pthread_mutex_unlock(&s->lock);
	return n;
}

void http_stream_close(struct http_stream *s)
{
	pthread_mutex_lock(&s->lock);
	s->is_closed = true;
	http_stream_wake(s);
	pthread_mutex_unlock(&s->lock);
	http_stream_drop(s);
}

void http_stream_break(struct http_stream *s)
{
	pthread_mutex_lock(&s->lock);
	s->is_broken = true;
	pthread_mutex_unlock(&s->lock);
}

void http_stream_discard(struct http_stream *s)
{
	http_stream_drop(s);
	http_stream_drop(s);
}

/* What a connection is told when all has been sent. With the lock held. */
static ssize_t http_stream_over(const struct http_stream *s)
{
	if (!s->is_closed)
		return 0;
	return s->is_broken ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
}

static ssize_t http_stream_read(void *arg, uint64_t pos, char *out, size_t max)
{
	struct http_stream_end *end = arg;
	struct http_stream *s = end->s;
	size_t n, part;
	ssize_t r;

	(void)pos;
	pthread_mutex_lock(&s->lock);
	n = s->len < max ? s->len : max;
	if (n) {
		part = s->cap - s->at < n ? s->cap - s->at : n;
		memcpy(out, s->data + s->at, part);
		memcpy(out + part, s->data, n - part);
		s->at = (s->at + n) % s->cap;
		s->len -= n;
	} else if (!s->is_closed) {
		s->mhd = end->mhd;
		s->api->suspend_connection(end->mhd);
	}
	r = n ? (ssize_t)n : http_stream_over(s);
	pthread_mutex_unlock(&s->lock);
	return r;
}

void http_stream_lost(struct http_stream *s)
{
	pthread_mutex_lock(&s->lock);
	s->is_gone = true;
	s->mhd = NULL;
	pthread_mutex_unlock(&s->lock);
	http_stream_drop(s);
}

static void http_stream_gone(void *arg)
{
	free(arg);
}

struct MHD_Response *http_stream_response(const struct mhd_api *api, struct MHD_Connection *mhd,
					  struct http_stream *s)
{
	struct http_stream_end *end = xcalloc(1, sizeof(*end));
	struct MHD_Response *response;

	*end = (struct http_stream_end){s, mhd};
	pthread_mutex_lock(&s->lock);
	s->api = api;
	pthread_mutex_unlock(&s->lock);
	response = api->create_response_from_callback(MHD_SIZE_UNKNOWN, HTTP_STREAM_BLOCK,
						      http_stream_read, end, http_stream_gone);
	if (!response)
		http_stream_gone(end);
	return response;
}
