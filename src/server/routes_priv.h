/* SPDX-License-Identifier: Apache-2.0
 *
 * routes_priv.h - what routes.c and the files beside it share; also for their tests.
 */
#ifndef SERVER_ROUTES_PRIV_H
#define SERVER_ROUTES_PRIV_H

#include "server/routes.h"

/* All groups, ended by NULL. */
extern const struct route *const routes_groups[];

/* A part of a path. */
struct routes_span {
	const char *at;
	size_t len;
};

/* Does the path fit "/runs/{run}/files/{name...}"? Then what stands for the {}, *ret_n of
 * them; an empty one fits nothing. */
bool routes_match(const char *pattern, const char *path, struct routes_span args[ROUTE_ARGS_MAX],
		  size_t *ret_n);

/* The route of a request (HEAD is GET's), or NULL; then *ret_allow says which methods that
 * path has, "" if there is no such path. */
struct routes_found {
	const struct route *route;
	struct routes_span args[ROUTE_ARGS_MAX];
	size_t n_args;
	const char *allow;
};
struct routes_found routes_find(const struct route *const *groups, const char *method,
				const char *path);

/* Are the parameters those that the route takes? false: the reply says what is wrong. */
bool params_check(const struct route *route, const struct http_request *r,
		  struct http_reply *reply);

/* What the browser lets a page of ours do: Content-Security-Policy. scripts: sources beside
 * our own files, a blank before each, or "". */
void reply_policy(struct http_reply *reply, const char *scripts);

/* The fields that every answer has, but those that it has already. */
void reply_secure(struct http_reply *reply);

#endif
