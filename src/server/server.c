/* SPDX-License-Identifier: Apache-2.0
 *
 * server.c - the server's life: addresses and ports, tokens and certificates, and what
 * groups of routes keep.
 */
#include "server/server_priv.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/ports.h"
#include "server/routes.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SERVER_SECOND_NS 1000000000LL
#define SERVER_WORKERS 12
#define SERVER_PEM_MAX (1u << 20)
#define SERVER_ANY_TRIES 16 /* for one port on both loopback addresses */

/* ---- the guard ---------------------------------------------------------------------------- */

bool server_check(struct server *s, const struct guard_request *r, enum guard_answer *ret,
		  bool *ret_guess)
{
	bool acts = strcmp(r->method, "GET") && strcmp(r->method, "HEAD");
	bool must_wait;

	pthread_mutex_lock(&s->lock);
	must_wait = (s->rules.token || acts) &&
		    guard_must_wait(&s->wrongs, &r->from, now_read(CLOCK_MONOTONIC));
	pthread_mutex_unlock(&s->lock);
	if (must_wait)
		return false;
	*ret = guard_check(&s->rules, r);
	*ret_guess = false;
	if (*ret == GUARD_WRONG_TOKEN) {
		pthread_mutex_lock(&s->lock);
		*ret_guess = guard_wrong_count(&s->wrongs, &s->rules, r, now_read(CLOCK_MONOTONIC));
		pthread_mutex_unlock(&s->lock);
	}
	return true;
}

void server_cookie(const struct server *s, bool is_set, char out[SERVER_COOKIE_MAX])
{
	char name[GUARD_COOKIE_MAX];

	guard_cookie_name(s->port, name);
	snprintf(out, SERVER_COOKIE_MAX, "%s=%s; HttpOnly; SameSite=Strict; Path=/; Max-Age=%s%s",
		 name, is_set ? s->token : "", is_set ? "2592000" : "0",
		 s->rules.has_tls ? "; Secure" : "");
}

const char *server_page_token(const struct server *s)
{
	return s->page;
}

bool server_needs_token(const struct server *s)
{
	return s->rules.token != NULL;
}

/* ---- what is asked for ---------------------------------------------------------------------- */

static int server_pem(const char *path, const char *what, char **ret, struct err *e)
{
	struct buf b;
	int r;

	if (!path)
		return 0;
	buf_init(&b, SERVER_PEM_MAX);
	r = file_read(AT_FDCWD, path, &b);
	if (r < 0)
		err_errno(e, r, "cannot read the %s %s", what, path);
	else if (!strstr(buf_str(&b), "-----BEGIN"))
		r = err_set(e, -EINVAL, "the %s %s is no PEM file", what, path);
	else
		*ret = xstrdup(buf_str(&b));
	buf_done(&b);
	return r < 0 ? r : 0;
}

static bool server_is_loopback(const char *address)
{
	struct in_addr four;

	return !address || !strcmp(address, "::1") ||
	       (inet_pton(AF_INET, address, &four) == 1 && ntohl(four.s_addr) >> 24 == 127);
}

static int server_tokens(struct server *s, struct err *e)
{
	const char *given = s->o.token, *p;
	int r = guard_token(s->page);

	if (!r && given) {
		for (p = given; *p && (isalnum((unsigned char)*p) || strchr("-._~", *p)); p++)
			;
		if (*p || p - given < 16 || p - given > GUARD_TOKEN_MAX)
			return err_set(e, -EINVAL,
				       "a token is 16 to %d letters, digits, '-', '.', '_' or '~'",
				       GUARD_TOKEN_MAX);
		snprintf(s->token, sizeof(s->token), "%s", given);
	} else if (!r && !server_is_loopback(s->o.address)) {
		r = guard_token(s->token);
	}
	if (r)
		return err_errno(e, r, "cannot make a token");
	s->rules.token = s->token[0] ? s->token : NULL;
	s->rules.page = s->page;
	return 0;
}

/* The names of the machine go with addresses that others reach. */
static void server_hosts(struct server *s)
{
	char name[256] = "";
	size_t i;

	s->hosts = xcalloc(s->o.n_hosts + 1, sizeof(*s->hosts));
	for (i = 0; i < s->o.n_hosts; i++)
		s->hosts[s->n_hosts++] = xstrdup(s->o.hosts[i]);
	s->rules.has_literals = !server_is_loopback(s->o.address);
	if (s->rules.has_literals && !gethostname(name, sizeof(name) - 1) && name[0])
		s->hosts[s->n_hosts++] = xstrdup(name);
	s->rules.hosts = (const char *const *)s->hosts;
	s->rules.n_hosts = s->n_hosts;
}

/* Copies of what was asked for, and all that does not need the network. */
static int server_prepare(struct server *s, struct err *e)
{
	struct guard_net *nets = NULL;
	size_t i;
	int r = server_pem(s->o.cert, "certificate", &s->cert, e);

	if (!r)
		r = server_pem(s->o.key, "key", &s->key, e);
	if (!r && !s->cert != !s->key)
		r = err_set(e, -EINVAL, "TLS needs both: a certificate and its key");
	if (!r)
		r = server_tokens(s, e);
	for (i = 0; !r && i < s->o.n_roots; i++)
		r = server_add_root(s, s->o.roots[i], e);
	if (r)
		return r;
	server_hosts(s);
	if (s->o.n_nets) {
		nets = xcalloc(s->o.n_nets, sizeof(*nets));
		memcpy(nets, s->o.nets, s->o.n_nets * sizeof(*nets));
	}
	s->rules.nets = nets;
	s->rules.n_nets = s->o.n_nets;
	s->rules.has_tls = s->cert != NULL;
	s->rules.user = geteuid();
	s->o.address = xstrdup(s->o.address);
	s->o.program = xstrdup(s->o.program);
	s->o.title = xstrdup(s->o.title ? s->o.title : "lapse");
	s->o.roots = NULL;
	s->o.hosts = NULL;
	s->o.nets = NULL;
	s->o.token = s->o.cert = s->o.key = NULL;
	return 0;
}

/* ---- addresses and ports ----------------------------------------------------------------------
 */

static int server_listen_one(struct server *s, const char *address, uint16_t port, struct err *e)
{
	const struct http_options o = {
		.address = address,
		.port = port,
		.max_clients = s->o.max_clients,
		.workers = SERVER_WORKERS,
		.head_ns = 10 * SERVER_SECOND_NS,
		.body_ns = 30 * SERVER_SECOND_NS,
		.quiet_ns = 60 * SERVER_SECOND_NS,
		.cert = s->cert,
		.key = s->key,
		.answer = routes_answer,
		.tick = server_runs_tick,
		.arg = s,
	};
	int r = http_start(&o, e, &s->http[s->n_http]);

	if (!r)
		s->n_http++;
	return r;
}

static void server_listen_end(struct server *s)
{
	while (s->n_http)
		http_stop(s->http[--s->n_http]);
}

/* On the address asked for, or on both of loopback, where IPv6 may be missing. */
static int server_listen(struct server *s, uint16_t port, struct err *e)
{
	struct err six = {0};
	int r;

	r = server_listen_one(s, s->o.address, port, e);
	if (r || s->o.address)
		return r;
	r = server_listen_one(s, "::1", http_port(s->http[0]), &six);
	if (r == -EADDRINUSE) {
		server_listen_end(s);
		*e = six;
		return r;
	}
	return 0;
}

static int server_taken(int port, struct err *e)
{
	char who[160];

	err_clear(e);
	if (ports_listener(port, who, sizeof(who)))
		return err_set(e, -EADDRINUSE,
			       "port %d is taken by %s; choose another one, or leave the choice to "
			       "lapse",
			       port, who);
	return err_set(e, -EADDRINUSE, "port %d is taken; choose another one", port);
}

static int server_find_port(struct server *s, struct err *e)
{
	unsigned first = s->o.port < 0 ? SERVER_PORT : 0, i;
	unsigned tries = s->o.port < 0 ? SERVER_PORTS : SERVER_ANY_TRIES;
	int r;

	if (s->o.port > 0) {
		r = server_listen(s, (uint16_t)s->o.port, e);
		return r == -EADDRINUSE ? server_taken(s->o.port, e) : r;
	}
	for (i = 0; i < tries; i++) {
		r = server_listen(s, (uint16_t)(first ? first + i : 0), e);
		if (r != -EADDRINUSE)
			return r;
		err_clear(e);
	}
	return err_set(e, -EADDRINUSE, "all ports from %u to %u are taken; choose one by --port",
		       SERVER_PORT, SERVER_PORT + SERVER_PORTS - 1);
}

/* An address of this machine that others reach, for people to type. */
static void server_reachable(char *out, size_t cap)
{
	struct ifaddrs *all = NULL, *one;

	snprintf(out, cap, "127.0.0.1");
	if (getifaddrs(&all))
		return;
	for (one = all; one; one = one->ifa_next) {
		if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET ||
		    (one->ifa_flags & IFF_LOOPBACK) || !(one->ifa_flags & IFF_UP))
			continue;
		inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)one->ifa_addr)->sin_addr, out,
			  (socklen_t)cap);
		break;
	}
	freeifaddrs(all);
}

static void server_make_url(struct server *s)
{
	const char *address = s->o.address ? s->o.address : "127.0.0.1";
	char host[64];

	if (!strcmp(address, "0.0.0.0") || !strcmp(address, "::"))
		server_reachable(host, sizeof(host));
	else
		snprintf(host, sizeof(host), strchr(address, ':') ? "[%s]" : "%s", address);
	snprintf(s->url, sizeof(s->url), "%s://%s:%u/%s%s", s->cert ? "https" : "http", host,
		 (unsigned)s->port, s->token[0] ? "?token=" : "", s->token);
}

/* ---- life ---------------------------------------------------------------------------------- */

static void server_free(struct server *s)
{
	size_t i;

	for (i = 0; i < s->n_parts; i++)
		if (s->parts[i].part->done)
			s->parts[i].part->done(s->parts[i].state);
	server_runs_done(s);
	server_index_done(s);
	for (i = 0; i < s->n_roots; i++)
		free(s->roots[i]);
	for (i = 0; i < s->n_hosts; i++)
		free(s->hosts[i]);
	free(s->hosts);
	free((void *)s->rules.nets);
	if (s->key)
		explicit_bzero(s->key, strlen(s->key));
	free(s->cert);
	free(s->key);
	free((char *)s->o.address);
	free((char *)s->o.program);
	free((char *)s->o.title);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->index_lock);
	pthread_mutex_destroy(&s->parts_lock);
	pthread_cond_destroy(&s->less_heavy);
	free(s);
}

static struct server *server_new(const struct server_options *o)
{
	struct server *s = xcalloc(1, sizeof(*s));
	pthread_condattr_t attr;

	s->o = *o;
	if (o->address && !strcasecmp(o->address, "localhost"))
		s->o.address = NULL;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->index_lock, NULL);
	pthread_mutex_init(&s->parts_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->less_heavy, &attr);
	pthread_condattr_destroy(&attr);
	return s;
}

int server_start(const struct server_options *o, struct err *e, struct server **ret)
{
	struct server *s = server_new(o);
	int r = server_prepare(s, e);

	if (r) {
		/* Strings that are still the caller's. */
		s->o.address = s->o.program = s->o.title = NULL;
		server_free(s);
		return r;
	}
	r = server_find_port(s, e);
	if (r) {
		server_free(s);
		return r;
	}
	s->port = s->rules.port = http_port(s->http[0]);
	server_make_url(s);
	*ret = s;
	return 0;
}

void server_stop(struct server *s)
{
	size_t i;

	if (!s)
		return;
	pthread_mutex_lock(&s->parts_lock);
	s->is_stopping = true;
	for (i = 0; i < s->n_parts; i++)
		if (s->parts[i].part->stop)
			s->parts[i].part->stop(s->parts[i].state);
	pthread_mutex_unlock(&s->parts_lock);
	server_listen_end(s);
	server_free(s);
}

const char *server_url(const struct server *s)
{
	return s->url;
}

const struct server_options *server_asked(const struct server *s)
{
	return &s->o;
}

int server_add_root(struct server *s, const char *root, struct err *e)
{
	size_t i;
	int r = 0;

	pthread_mutex_lock(&s->index_lock);
	pthread_mutex_lock(&s->lock);
	for (i = 0; i < s->n_roots && strcmp(s->roots[i], root); i++)
		;
	if (i == SERVER_ROOTS_MAX)
		r = err_set(e, -ENOSPC, "%s: at most %u folders of runs are served", root,
			    SERVER_ROOTS_MAX);
	else if (i == s->n_roots)
		s->roots[s->n_roots++] = xstrdup(root);
	pthread_mutex_unlock(&s->lock);
	s->index_ns = 0;
	pthread_mutex_unlock(&s->index_lock);
	return r;
}

void server_counts(struct server *s, struct http_counts *ret)
{
	struct http_counts one;
	size_t i;

	*ret = (struct http_counts){0};
	for (i = 0; i < s->n_http; i++) {
		http_counts(s->http[i], &one);
		ret->connections += one.connections;
		ret->requests += one.requests;
		ret->late += one.late;
		ret->open += one.open;
	}
}

/* ---- what is shared ------------------------------------------------------------------------- */

void *server_part(struct server *s, const struct server_part *part)
{
	void *state = NULL;
	size_t i;

	pthread_mutex_lock(&s->parts_lock);
	for (i = 0; i < s->n_parts && s->parts[i].part != part; i++)
		;
	if (i < s->n_parts) {
		state = s->parts[i].state;
	} else if (i < SERVER_PARTS_MAX && (state = part->make(s))) {
		s->parts[i].part = part;
		s->parts[i].state = state;
		s->n_parts++;
		/* By a request that was on its way: the others have stopped already. */
		if (s->is_stopping && part->stop)
			part->stop(state);
	}
	pthread_mutex_unlock(&s->parts_lock);
	return state;
}

bool server_heavy_begin(struct server *s, struct http_reply *reply)
{
	int64_t until = now_read(CLOCK_MONOTONIC) + 10 * SERVER_SECOND_NS;
	struct timespec t = {until / SERVER_SECOND_NS, until % SERVER_SECOND_NS};
	bool may = true;

	pthread_mutex_lock(&s->lock);
	while (s->n_heavy >= SERVER_HEAVY_MAX && may)
		may = pthread_cond_timedwait(&s->less_heavy, &s->lock, &t) == 0;
	if (s->n_heavy < SERVER_HEAVY_MAX) {
		s->n_heavy++;
		may = true;
	}
	pthread_mutex_unlock(&s->lock);
	if (!may)
		reply_error(reply, 503, "busy",
			    "%d questions are being answered, and none was ready in 10 s; ask "
			    "again.",
			    SERVER_HEAVY_MAX);
	return may;
}

void server_heavy_end(struct server *s)
{
	pthread_mutex_lock(&s->lock);
	s->n_heavy--;
	pthread_cond_signal(&s->less_heavy);
	pthread_mutex_unlock(&s->lock);
}
