/* SPDX-License-Identifier: Apache-2.0
 *
 * ask.h - what the routes about a run's data are asked alike: a range on an axis, series
 * by pattern or id (docs/http.md, "Query").
 */
#ifndef SERVER_ASK_H
#define SERVER_ASK_H

#include "base/buf.h"
#include "base/err.h"
#include "report/querydata.h"
#include "server/routes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ASK_SERIES_MAX 128u            /* lines of an answer: series, or groups of them */
#define ASK_MEMBERS_MAX STORE_REFS_MAX /* series of all groups together */

enum ask_axis {
	ASK_TIME,
	ASK_STEP,
	ASK_RELATIVE
};

/* As it was typed; NULL: not given. */
struct ask_text {
	const char *axis, *from, *to, *attempts;
};

struct ask {
	enum ask_axis axis;
	int64_t start_ns; /* of the run: where relative begins */
	struct store_range range;
};

/* 0, or -EINVAL and *e, which begins with the parameter's name. */
int ask_parse(const struct ask_text *t, int64_t start_ns, struct ask *ret, struct err *e);
/* The same of a request's parameters axis, from, to, attempts; false: the reply has it. */
bool ask_get(const struct route_ask *a, const struct runview *v, struct ask *ret,
	     struct http_reply *reply);

/* Milliseconds with at most 6 decimals, as nanoseconds. 0, -EINVAL, -ERANGE. */
int ask_ms(const char *text, int64_t *ret_ns);
/* The same back, every digit. */
void ask_put_ms(struct buf *b, int64_t ns);

/* Series that were asked for. */
struct ask_series {
	const char *unmatched[HTTP_PARAMS_MAX]; /* patterns, of the request */
	size_t n_unmatched;
};

/* How many may be asked for, and what to do if more are: a sentence's end. */
struct ask_limit {
	size_t most;
	const char *advice;
};
extern const struct ask_limit ask_lines; /* without groups */

/* Put those of the parameters series and id into q; false: the reply says why not (none
 * given, none matches, more than may be). */
bool ask_choose(const struct route_ask *a, struct querydata *q, const struct ask_limit *limit,
		struct ask_series *ret, struct http_reply *reply);

/* A number for the question: its path and parameters; another one each time the server starts. */
uint64_t ask_question(const struct route_ask *a);

/* Give the reply the ETag of a run's state (a version of it) and the question; true: the client
 * has it, the answer is empty. */
bool ask_is_known_of(const struct route_ask *a, uint64_t version, struct http_reply *reply);
bool ask_is_known(const struct route_ask *a, const struct server_run *run,
		  struct http_reply *reply);

/* The answer of a route about one run, the first of its path: what `answer` says of it, unless
 * there is none or the client has it. */
void ask_run(const struct route_ask *a, struct http_reply *reply,
	     void (*answer)(const struct route_ask *a, const struct runview *v,
			    struct http_reply *reply));

/* 400 bad-parameter with the sentence. */
void ask_wrong(struct http_reply *reply, const struct err *e);
/* What a failed read is to the client: 500 damaged, 404, 503. */
void ask_failed(struct http_reply *reply, const struct err *e);

/* Rows of params that several routes have. */
#define ASK_PARAMS_SERIES(word)                                                                    \
	{.name = "series",                                                                         \
	 .hi = 8192,                                                                               \
	 .is_many = true,                                                                          \
	 .help = "Pattern of series, NAME{LABEL=VALUE,...} or rate(...); " word},                  \
	{                                                                                          \
		.name = "id", .hi = 1024, .is_many = true, .help = "Series by id, HOST/NUMBER."    \
	}
#define ASK_PARAMS_RANGE                                                                           \
	{.name = "from", .hi = 64, .help = "Nothing before this x, in the axis' unit."},           \
		{.name = "to", .hi = 64, .help = "Nothing after this x."},                         \
	{                                                                                          \
		.name = "attempts", .type = PARAM_CHOICE, .choices = "last|all",                   \
		.help = "Steps that a resumed attempt repeated: the last one's points (default) "  \
			"or all."                                                                  \
	}
#define ASK_PARAM_AXIS                                                                             \
	{                                                                                          \
		.name = "axis", .type = PARAM_CHOICE, .choices = "time|step|relative",             \
		.help = "What from and to are on and what is divided; default time."               \
	}

#endif
