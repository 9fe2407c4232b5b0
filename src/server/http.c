/* SPDX-License-Identifier: Apache-2.0
 *
 * http.c - one thread of libmicrohttpd moves bytes, some workers answer. A request that
 * waits for its answer sleeps there, so that no client waits for another's.
 */
#include "server/http_priv.h"

#include "base/log.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HTTP_BACKLOG 128
#define HTTP_QUIET_S 60u /* libmicrohttpd's own limit, of silence */
#define HTTP_CONN_MEMORY (HTTP_HEAD_MAX + 32768u)

/* ---- requests ---------------------------------------------------------------------------- */

const char *http_field(const struct http_request *r, const char *name)
{
	const struct http_call *call = r->of;

	return call ? call->http->api->lookup_connection_value(call->mhd, MHD_HEADER_KIND, name)
		    : NULL;
}

/* While its answer is made a connection is nobody's to close, so its descriptor stays. */
bool http_is_gone(const struct http_request *r)
{
	const struct http_call *call = r->of;
	struct pollfd fd = {.events = POLLRDHUP};

	if (!call || !call->conn)
		return false;
	fd.fd = call->conn->fd;
	return poll(&fd, 1, 0) > 0;
}

static struct http_conn *http_conn_of(struct http *h, struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
		h->api->get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

/* The request line is there. What is returned is the request's from now on. */
static void *http_begin(void *arg, const char *uri, struct MHD_Connection *mhd)
{
	struct http_call *call = xcalloc(1, sizeof(*call));

	call->http = arg;
	call->mhd = mhd;
	call->conn = http_conn_of(call->http, mhd);
	call->has_nul = strstr(uri, "%00") != NULL;
	buf_init(&call->body, HTTP_BODY_MAX);
	if (call->conn && call->conn->wait == HTTP_QUIET)
		http_conn_wait(call->http, call->conn, HTTP_HEAD);
	return call;
}

static enum MHD_Result http_param(void *arg, enum MHD_ValueKind kind, const char *name, size_t n,
				  const char *value, size_t n_value)
{
	struct http_request *r = arg;

	(void)kind;
	if (r->n_params == HTTP_PARAMS_MAX || strlen(name) != n ||
	    (value && strlen(value) != n_value)) {
		r->has_more_params = true;
		return MHD_NO;
	}
	r->params[r->n_params++] = (struct http_param){name, value ? value : ""};
	return MHD_YES;
}

static void http_head(struct http_call *call, const char *url, const char *method)
{
	struct http_request *r = &call->request;

	call->path = xstrdup(url);
	call->method = xstrdup(method);
	*r = (struct http_request){.method = call->method, .path = call->path, .of = call};
	r->has_more_params = call->has_nul;
	r->peer_user = call->conn ? call->conn->user : -1;
	r->peer = call->conn ? (const struct sockaddr *)&call->conn->peer : NULL;
	call->http->api->get_connection_values_n(call->mhd, MHD_GET_ARGUMENT_KIND, http_param, r);
	http_conn_wait(call->http, call->conn, HTTP_BODY);
}

/* To the workers; it sleeps until one has answered. When they are about to end it must not:
 * nobody would wake it, and libmicrohttpd does not stop with one that sleeps. */
static enum MHD_Result http_ask(struct http_call *call)
{
	struct http *h = call->http;
	bool is_stopping;

	call->is_asked = true;
	call->request.body = buf_str(&call->body);
	call->request.body_len = call->body.len;
	http_conn_wait(h, call->conn, HTTP_ANSWER);
	pthread_mutex_lock(&h->lock);
	is_stopping = h->is_stopping;
	if (!is_stopping) {
		h->api->suspend_connection(call->mhd);
		*h->last = call;
		h->last = &call->next;
		h->counts.requests++;
		pthread_cond_signal(&h->work);
	}
	pthread_mutex_unlock(&h->lock);
	return is_stopping ? MHD_NO : MHD_YES;
}

static enum MHD_Result http_step(void *arg, struct MHD_Connection *mhd, const char *url,
				 const char *method, const char *version, const char *data,
				 size_t *len, void **request_arg)
{
	struct http_call *call = *request_arg;

	(void)arg;
	(void)mhd;
	(void)version;
	if (!call)
		return MHD_NO;
	if (!call->path) {
		http_head(call, url, method);
		return MHD_YES;
	}
	if (*len) {
		buf_append(&call->body, data, *len);
		call->request.is_too_large = call->body.error != 0;
		*len = 0;
		return MHD_YES;
	}
	if (call->is_answered)
		return http_send(call);
	return call->is_asked ? MHD_YES : http_ask(call);
}

static void http_reply_done(struct http_reply *r)
{
	buf_done(&r->body);
	if (r->has_fd)
		close(r->fd);
	if (r->stream)
		http_stream_lost(r->stream);
	*r = (struct http_reply){0};
}

static void http_end(void *arg, struct MHD_Connection *mhd, void **request_arg,
		     enum MHD_RequestTerminationCode code)
{
	struct http_call *call = *request_arg;

	(void)mhd;
	(void)code;
	if (!call)
		return;
	http_conn_wait(arg, call->conn, HTTP_QUIET);
	http_reply_done(&call->reply);
	http_unhold(call);
	buf_done(&call->body);
	free(call->method);
	free(call->path);
	free(call);
	*request_arg = NULL;
}

/* ---- workers ----------------------------------------------------------------------------- */

static struct http_call *http_next(struct http *h)
{
	struct http_call *call;

	pthread_mutex_lock(&h->lock);
	while (!h->first && !h->is_stopping)
		pthread_cond_wait(&h->work, &h->lock);
	call = h->first;
	if (call) {
		h->first = call->next;
		if (!h->first)
			h->last = &h->first;
	}
	pthread_mutex_unlock(&h->lock);
	return call;
}

/* Those that wait when the server stops are answered, too. */
static void *http_work(void *arg)
{
	struct http *h = arg;
	struct http_call *call;

	while ((call = http_next(h))) {
		buf_init(&call->reply.body, HTTP_REPLY_MAX);
		h->o.answer(h->o.arg, &call->request, &call->reply);
		http_prepare(call);
		http_hold(call);
		call->is_answered = true;
		h->api->resume_connection(call->mhd);
	}
	return NULL;
}

/* ---- begin and end ------------------------------------------------------------------------- */

/* A listening socket of our own: libmicrohttpd would not say why it could not have one. */
static int http_listen(const struct http_options *o, struct err *e, uint16_t *ret_port)
{
	const char *address = o->address ? o->address : "127.0.0.1";
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV},
			*found = NULL;
	struct sockaddr_in6 at;
	socklen_t n = sizeof(at);
	int fd = -1, one = 1, err = 0;
	char port[8];

	snprintf(port, sizeof(port), "%u", (unsigned)o->port);
	if (getaddrinfo(address, port, &hints, &found))
		return err_set(e, -EINVAL, "\"%s\" is no address like 127.0.0.1 or ::", address);
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, HTTP_BACKLOG) ||
	    getsockname(fd, (struct sockaddr *)&at, &n))
		err = -errno;
	freeaddrinfo(found);
	if (err) {
		if (fd >= 0)
			close(fd);
		return err_errno(e, err, "%s, port %u", address, (unsigned)o->port);
	}
	*ret_port = ntohs(at.sin6_port); /* at the same place in both families */
	return fd;
}

static void http_log(void *arg, const char *format, va_list values)
{
	char text[512];

	(void)arg;
	vsnprintf(text, sizeof(text), format, values);
	text[strcspn(text, "\n")] = '\0';
	log_debug("libmicrohttpd: %s", text);
}

static int http_daemon(struct http *h, struct err *e)
{
	struct MHD_OptionItem options[] = {
		{MHD_OPTION_LISTEN_SOCKET, h->fd, NULL},
		{MHD_OPTION_CONNECTION_LIMIT, (intptr_t)h->o.max_clients, NULL},
		{MHD_OPTION_CONNECTION_TIMEOUT, HTTP_QUIET_S, NULL},
		{MHD_OPTION_CONNECTION_MEMORY_LIMIT, HTTP_CONN_MEMORY, NULL},
		{MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)http_begin, h},
		{MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)http_end, h},
		{MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)http_conn_notify, h},
		{MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)http_log, h},
		{h->o.key ? MHD_OPTION_HTTPS_MEM_KEY : MHD_OPTION_END, 0, (void *)h->o.key},
		{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)h->o.cert},
		{MHD_OPTION_END, 0, NULL},
	};
	unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
			 MHD_USE_ERROR_LOG | (h->o.key ? MHD_USE_TLS : 0);

	h->daemon = h->api->start_daemon(flags, 0, NULL, NULL, http_step, h, MHD_OPTION_ARRAY,
					 options, MHD_OPTION_END);
	if (!h->daemon)
		return err_set(e, -EIO, "libmicrohttpd does not start%s",
			       h->o.key ? "; are the certificate and its key PEM, and do they "
					  "belong together?"
					: "");
	return 0;
}

static int http_threads(struct http *h)
{
	unsigned i;

	h->workers = xcalloc(h->o.workers, sizeof(*h->workers));
	for (i = 0; i < h->o.workers; i++)
		if (!pthread_create(&h->workers[h->n_workers], NULL, http_work, h))
			h->n_workers++;
	h->has_sweeper = !pthread_create(&h->sweeper, NULL, http_conn_sweep, h);
	return h->n_workers && h->has_sweeper ? 0 : -EAGAIN;
}

int http_start(const struct http_options *o, struct err *e, struct http **ret)
{
	const struct mhd_api *api = mhd_load(e);
	pthread_condattr_t attr;
	struct http *h;
	int r;

	if (!api)
		return -ENOENT;
	h = xcalloc(1, sizeof(*h));
	h->o = *o;
	h->api = api;
	h->last = &h->first;
	h->fd = http_listen(o, e, &h->port);
	if (h->fd < 0) {
		r = h->fd;
		free(h);
		return r;
	}
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->work, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&h->tick, &attr);
	pthread_condattr_destroy(&attr);
	r = http_threads(h);
	if (r)
		err_errno(e, r, "threads for the server");
	else
		r = http_daemon(h, e);
	if (r) {
		http_stop(h);
		return r;
	}
	*ret = h;
	return 0;
}

uint16_t http_port(const struct http *h)
{
	return h->port;
}

/* No new ones; those that wait for an answer get it, then all is closed. */
void http_stop(struct http *h)
{
	unsigned i;

	if (!h)
		return;
	if (h->daemon)
		h->api->quiesce_daemon(h->daemon);
	pthread_mutex_lock(&h->lock);
	h->is_stopping = true;
	pthread_cond_broadcast(&h->work);
	pthread_cond_broadcast(&h->tick);
	pthread_mutex_unlock(&h->lock);
	for (i = 0; i < h->n_workers; i++)
		pthread_join(h->workers[i], NULL);
	if (h->has_sweeper)
		pthread_join(h->sweeper, NULL);
	if (h->daemon)
		h->api->stop_daemon(h->daemon);
	close(h->fd);
	pthread_mutex_destroy(&h->lock);
	pthread_cond_destroy(&h->work);
	pthread_cond_destroy(&h->tick);
	free(h->workers);
	free(h);
}

void http_counts(struct http *h, struct http_counts *ret)
{
	pthread_mutex_lock(&h->lock);
	*ret = h->counts;
	ret->open = h->n_conns;
	pthread_mutex_unlock(&h->lock);
}
