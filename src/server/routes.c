/* SPDX-License-Identifier: Apache-2.0
 *
 * routes.c - the groups of routes, and the way of every request: the guard, the table, the
 * parameters, the handler.
 */
#include "server/routes_priv.h"

#include "base/log.h"
#include "base/mem.h"
#include "server/server_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUTES_WRONG_NS 200000000L /* before a wrong token is answered */

const struct route *const routes_groups[] = {
	route_info,   route_runs,    route_query,   route_events, route_export,
	route_alerts, route_verdict, route_compare, route_files,  route_trace,
	route_live,   route_metrics, route_compat,  route_assets, NULL,
};

/* ---- which route ------------------------------------------------------------------------- */

bool routes_match(const char *pattern, const char *path, struct routes_span args[ROUTE_ARGS_MAX],
		  size_t *ret_n)
{
	const char *p = pattern, *q = path;
	size_t n = 0, name, len;

	while (*p) {
		if (*p != '{') {
			if (*p++ != *q++)
				return false;
			continue;
		}
		name = strcspn(p, "}");
		len = name > 3 && !memcmp(p + name - 3, "...", 3) ? strlen(q) : strcspn(q, "/");
		if (!len || n == ROUTE_ARGS_MAX)
			return false;
		args[n++] = (struct routes_span){q, len};
		p += name + 1;
		q += len;
	}
	*ret_n = n;
	return !*q;
}

struct routes_found routes_find(const struct route *const *groups, const char *method,
				const char *path)
{
	const char *wanted = !strcmp(method, "HEAD") ? "GET" : method;
	struct routes_found found = {.allow = ""};
	bool has_get = false, has_post = false;
	const struct route *r;

	for (; *groups; groups++) {
		for (r = *groups; r->path; r++) {
			if (!routes_match(r->path, path, found.args, &found.n_args))
				continue;
			if (!strcmp(r->method, wanted)) {
				found.route = r;
				return found;
			}
			has_get |= !strcmp(r->method, "GET");
			has_post |= !strcmp(r->method, "POST");
		}
	}
	if (has_get || has_post)
		found.allow = !has_post ? "GET, HEAD" : has_get ? "GET, HEAD, POST" : "POST";
	return found;
}

/* ---- the guard --------------------------------------------------------------------------- */

static void routes_sleep(long ns)
{
	struct timespec t = {.tv_nsec = ns};

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
		;
}

static const char *routes_param(const struct http_request *r, const char *name)
{
	size_t i;

	for (i = 0; i < r->n_params; i++)
		if (!strcmp(r->params[i].name, name))
			return r->params[i].value;
	return NULL;
}

/* The cookie, and a page that leads on. A redirect would not do: to a browser that came by
 * a link of another site it belongs to that site's way, on which it sends no such cookie. */
static void routes_welcome(struct server *s, struct http_reply *reply)
{
	static const char page[] =
		"<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>lapse</title>"
		"<meta http-equiv=\"refresh\" content=\"0;url=./\"><p><a href=\"./\">Go on</a></p>";
	char cookie[SERVER_COOKIE_MAX];

	server_cookie(s, true, cookie);
	reply->type = "text/html; charset=utf-8";
	reply->text = page;
	reply->text_len = sizeof(page) - 1;
	http_header(reply, "Set-Cookie", cookie);
}

/* An old cookie is deleted: pages that were open before the server was started anew send it on
 * and on. One that was seen already without the wait, in which a new one may be set. */
static void routes_refuse(struct server *s, const struct guard_request *q, enum guard_answer answer,
			  bool is_guess, struct http_reply *reply)
{
	const struct guard_text *text = guard_text(answer);
	char cookie[SERVER_COOKIE_MAX];

	if (is_guess)
		routes_sleep(ROUTES_WRONG_NS);
	reply_error(reply, text->status, text->code, "%s", text->message);
	if (text->status == 401)
		http_header(reply, "WWW-Authenticate", "Bearer realm=\"lapse\"");
	if (answer == GUARD_WRONG_TOKEN && guard_cookie_is_wrong(&s->rules, q)) {
		server_cookie(s, false, cookie);
		http_header(reply, "Set-Cookie", cookie);
	}
}

/* false: the reply is given. Requests that no route would answer only look. */
static bool routes_may(struct server *s, const struct http_request *r, bool has_route,
		       struct http_reply *reply)
{
	const struct guard_request q = {
		.method = has_route ? r->method : "GET",
		.path = r->path,
		.from = guard_address_of(r->peer),
		.user = r->peer_user,
		.host = http_field(r, "Host"),
		.origin = http_field(r, "Origin"),
		.fetch_site = http_field(r, "Sec-Fetch-Site"),
		.fetch_mode = http_field(r, "Sec-Fetch-Mode"),
		.fetch_dest = http_field(r, "Sec-Fetch-Dest"),
		.cookie = http_field(r, "Cookie"),
		.authorization = http_field(r, "Authorization"),
		.page_token = http_field(r, "X-Lapse-Token"),
		.query_token = routes_param(r, "token"),
		.content_type = http_field(r, "Content-Type"),
	};
	enum guard_answer answer;
	bool is_guess;

	if (!server_check(s, &q, &answer, &is_guess)) {
		reply_error(reply, 429, "too-fast",
			    "Too many wrong tokens came from your address; wait a minute.");
		http_header(reply, "Retry-After", "60");
		return false;
	}
	if (answer == GUARD_PASS)
		return true;
	if (answer == GUARD_SET_COOKIE)
		routes_welcome(s, reply);
	else
		routes_refuse(s, &q, answer, is_guess, reply);
	return false;
}

/* ---- all of it --------------------------------------------------------------------------- */

static void routes_none(const struct http_request *r, const char *allow, struct http_reply *reply)
{
	if (!*allow) {
		reply_error(reply, 404, "no-such-route",
			    "There is nothing at %.200s; docs/http.md lists what there is.",
			    r->path);
		return;
	}
	reply_error(reply, 405, "method", "%.200s takes %s, not %.20s.", r->path, allow, r->method);
	http_header(reply, "Allow", allow);
}

static void routes_call(struct server *s, const struct http_request *r,
			const struct routes_found *found, struct http_reply *reply)
{
	struct route_ask ask = {.server = s, .request = r, .route = found->route};
	char *args[ROUTE_ARGS_MAX] = {NULL};
	size_t i;

	if (!params_check(found->route, r, reply))
		return;
	for (i = 0; i < found->n_args; i++)
		ask.args[i] = args[i] = xstrndup(found->args[i].at, found->args[i].len);
	found->route->answer(&ask, reply);
	for (i = 0; i < found->n_args; i++)
		free(args[i]);
	if (reply->body.error == -EFBIG)
		reply_error(reply, 413, "too-large",
			    "The answer would be larger than %zu MiB; ask for less of it.",
			    reply->body.max >> 20);
	else if (reply->body.error)
		reply_error(reply, 503, "busy", "There is not enough memory for the answer.");
}

void routes_answer(void *arg, const struct http_request *r, struct http_reply *reply)
{
	struct routes_found found = routes_find(routes_groups, r->method, r->path);
	struct server *s = arg;

	if (routes_may(s, r, found.route != NULL, reply)) {
		if (r->is_too_large)
			reply_error(reply, 413, "too-large",
				    "The body of a request may have %u bytes.", HTTP_BODY_MAX);
		else if (found.route)
			routes_call(s, r, &found, reply);
		else
			routes_none(r, found.allow, reply);
	}
	if (!reply->status)
		reply->status = 200;
	reply_secure(reply);
	log_debug("%s %.200s: %d", r->method, r->path, reply->status);
}
