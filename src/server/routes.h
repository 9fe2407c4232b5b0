/* SPDX-License-Identifier: Apache-2.0
 *
 * routes.h - what is answered where: tables of routes, their parameters checked by the
 * table before a handler sees them. A group of routes is a file route_GROUP.c with a row in
 * routes.c.
 */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include "base/buf.h"
#include "base/json.h"
#include "server/http.h"
#include "server/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROUTE_ARGS_MAX 3u
#define ROUTE_JSON_MAX (256u << 20) /* bytes of one JSON document */

enum param_type {
	PARAM_TEXT,  /* any UTF-8 without control characters, at most hi bytes (0: 1,024) */
	PARAM_INT,   /* whole number, lo to hi */
	PARAM_FLAG,  /* 0, 1, true, false */
	PARAM_CHOICE /* one of the words in choices, separated by '|' */
};

/* A parameter that a route takes; rows ended by name NULL. */
struct param {
	const char *name;
	enum param_type type;
	int64_t lo, hi;
	const char *choices;
	bool is_many; /* may be given more than once */
	bool is_needed;
	const char *help; /* for the OpenAPI file: one sentence with the default */
};

struct route_ask {
	struct server *server;
	const struct http_request *request;
	const char *args[ROUTE_ARGS_MAX]; /* of the {} in the path, in order */
	const struct route *route;
};

struct route {
	const char *method;         /* "GET" (HEAD too) or "POST" */
	const char *path;           /* "/api/v1/runs/{run}/query"; "{name...}" takes the rest */
	const char *summary;        /* for the OpenAPI file */
	const struct param *params; /* NULL: none */
	/* Fills *reply, which is zero but for an empty body; called by a worker. Without a
	 * status it is 200. */
	void (*answer)(const struct route_ask *a, struct http_reply *reply);
};

/* Rows of each group, ended by path NULL. */
extern const struct route route_info[], route_runs[], route_query[], route_events[], route_export[],
	route_alerts[], route_verdict[], route_compare[], route_files[], route_trace[],
	route_live[], route_metrics[], route_compat[], route_assets[];

/* The answer to any request; arg is the server. For http_options.answer: the guard is asked,
 * the route found, parameters checked. */
void routes_answer(void *arg, const struct http_request *r, struct http_reply *reply);

/* The OpenAPI 3.1 document of all routes, as YAML. */
void routes_openapi(struct buf *out);

/* ---- for handlers ------------------------------------------------------------------ */

/* A checked parameter; NULL or missing: not given. */
const char *param_text(const struct route_ask *a, const char *name);
int64_t param_int(const struct route_ask *a, const char *name, int64_t missing);
bool param_flag(const struct route_ask *a, const char *name);
/* The n-th value of one that may be given more than once; NULL: there are no more. */
const char *param_nth(const struct route_ask *a, const char *name, size_t n);

/* The error's status, code (docs/http.md, "Error codes") and sentence; replaces what the
 * reply had. */
void reply_error(struct http_reply *reply, int status, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Begin a JSON document in the reply's body: its maximum and type are set. */
void reply_json(struct http_reply *reply, struct json *j);
/* Give the body an ETag made of its content (a checksum), so that a client that has it is
 * told 304. */
void reply_etag(struct http_reply *reply);

#endif
