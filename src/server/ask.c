/* SPDX-License-Identifier: Apache-2.0
 *
 * ask.c - see ask.h.
 */
#include "server/ask.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/number.h"

#define ASK_NS_PER_MS 1000000
#define ASK_DECIMALS 6

/* ---- numbers ------------------------------------------------------------------------- */

/* Digits into *v; how many. */
static size_t ask_digits(const char *p, int64_t *v, bool *too_large)
{
	size_t n;

	for (n = 0; p[n] >= '0' && p[n] <= '9'; n++)
		if (__builtin_mul_overflow(*v, 10, v) || __builtin_add_overflow(*v, p[n] - '0', v))
			*too_large = true;
	return n;
}

int ask_ms(const char *text, int64_t *ret_ns)
{
	bool minus = *text == '-', too_large = false;
	const char *p = text + minus;
	int64_t v = 0, part = 0;
	size_t n = ask_digits(p, &v, &too_large), k = 0, i;

	if (n == 0)
		return -EINVAL;
	p += n;
	if (*p == '.') {
		k = ask_digits(++p, &part, &too_large);
		if (k == 0 || k > ASK_DECIMALS)
			return -EINVAL;
		p += k;
	}
	if (*p)
		return -EINVAL;
	for (i = k; i < ASK_DECIMALS; i++)
		part *= 10;
	if (too_large || __builtin_mul_overflow(v, ASK_NS_PER_MS, &v) ||
	    __builtin_add_overflow(v, part, &v))
		return -ERANGE;
	*ret_ns = minus ? -v : v;
	return 0;
}

void ask_put_ms(struct buf *b, int64_t ns)
{
	uint64_t v = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	char text[40];
	int n = snprintf(text, sizeof(text), "%s%llu.%06llu", ns < 0 ? "-" : "",
			 (unsigned long long)(v / ASK_NS_PER_MS),
			 (unsigned long long)(v % ASK_NS_PER_MS));

	while (text[n - 1] == '0')
		n--;
	n -= text[n - 1] == '.';
	buf_append(b, text, (size_t)n);
}

/* ---- ranges --------------------------------------------------------------------------- */

static int ask_axis(const char *text, enum ask_axis *ret, struct err *e)
{
	static const char *const names[] = {
		[ASK_TIME] = "time", [ASK_STEP] = "step", [ASK_RELATIVE] = "relative"};
	size_t i;

	for (i = 0; text && i < ARRAY_LEN(names); i++)
		if (strcmp(names[i], text) == 0)
			*ret = (enum ask_axis)i;
	if (text && strcmp(names[*ret], text) != 0)
		return err_set(e, -EINVAL, "axis: \"%.60s\" is none of time, step, relative", text);
	return 0;
}

/* One end of the range. */
static int ask_end(const char *name, const char *text, const struct ask *a, int64_t *ret,
		   struct err *e)
{
	int64_t v;
	int err;

	if (!text)
		return 0;
	if (a->axis == ASK_STEP) {
		err = number_int(text, &v);
		if (!err && v == SINK_STEP_NONE)
			err = -ERANGE;
		if (err)
			return err_set(e, -EINVAL, "%s: \"%.60s\" is not a step", name, text);
		*ret = v;
		return 0;
	}
	err = ask_ms(text, &v);
	if (!err && a->axis == ASK_RELATIVE && __builtin_add_overflow(v, a->start_ns, &v))
		err = -ERANGE;
	if (err)
		return err_set(e, -EINVAL,
			       "%s: \"%.60s\" is not a time: milliseconds since %s, with at most 6 "
			       "decimals",
			       name, text, a->axis == ASK_TIME ? "1970" : "the run's start");
	*ret = v;
	return 0;
}

int ask_parse(const struct ask_text *t, int64_t start_ns, struct ask *ret, struct err *e)
{
	struct ask a = {.start_ns = start_ns};
	int64_t from, to = INT64_MAX;
	bool all = t->attempts && strcmp(t->attempts, "all") == 0;

	if (t->attempts && !all && strcmp(t->attempts, "last") != 0)
		return err_set(e, -EINVAL, "attempts: \"%.60s\" is neither last nor all",
			       t->attempts);
	if (ask_axis(t->axis, &a.axis, e) < 0)
		return -EINVAL;
	from = a.axis == ASK_STEP ? INT64_MIN + 1 : INT64_MIN;
	if (ask_end("from", t->from, &a, &from, e) < 0 || ask_end("to", t->to, &a, &to, e) < 0)
		return -EINVAL;
	if (from > to)
		return err_set(e, -EINVAL, "to: it is before from");
	a.range.all_segments = all;
	if (a.axis == ASK_STEP) {
		a.range.by_step = t->from || t->to;
		a.range.step_min = from;
		a.range.step_max = to;
	} else {
		a.range.by_time = t->from || t->to;
		a.range.time_min = from;
		a.range.time_max = to;
	}
	*ret = a;
	return 0;
}

bool ask_get(const struct route_ask *a, const struct runview *v, struct ask *ret,
	     struct http_reply *reply)
{
	const struct ask_text t = {.axis = param_text(a, "axis"),
				   .from = param_text(a, "from"),
				   .to = param_text(a, "to"),
				   .attempts = param_text(a, "attempts")};
	struct err e = {0};

	if (ask_parse(&t, v->run.start_ns, ret, &e) == 0)
		return true;
	ask_wrong(reply, &e);
	return false;
}

/* ---- series --------------------------------------------------------------------------- */

const struct ask_limit ask_lines = {ASK_SERIES_MAX, "narrow the patterns, or ask in parts"};

/* Those of one parameter; false: the reply says what is wrong. */
static bool ask_choose_by(const struct route_ask *a, const char *param, struct querydata *q,
			  const struct ask_limit *limit, struct ask_series *to,
			  struct http_reply *reply)
{
	bool by_id = strcmp(param, "id") == 0;
	const char *text;
	struct err e;
	size_t i;
	int r;

	for (i = 0; (text = param_nth(a, param, i)) != NULL; i++) {
		err_clear(&e);
		r = by_id ? querydata_choose_id(q, text, &e) : querydata_choose(q, text, &e);
		if (r == -ENOENT && to->n_unmatched < HTTP_PARAMS_MAX) {
			to->unmatched[to->n_unmatched++] = text;
		} else if (r < 0) {
			reply_error(reply, 400, "bad-parameter", "%s: %s", param, e.text);
			return false;
		}
		if (q->n > limit->most) {
			reply_error(reply, 400, "too-many-series",
				    "%zu series match so far, at most %zu can be asked for at "
				    "once: %s",
				    q->n, limit->most, limit->advice);
			return false;
		}
	}
	return true;
}

bool ask_choose(const struct route_ask *a, struct querydata *q, const struct ask_limit *limit,
		struct ask_series *ret, struct http_reply *reply)
{
	ret->n_unmatched = 0;
	if (!param_nth(a, "series", 0) && !param_nth(a, "id", 0)) {
		reply_error(
			reply, 400, "bad-parameter",
			"series: which ones? give a pattern like series=loss, or id=HOST/NUMBER");
		return false;
	}
	if (!ask_choose_by(a, "series", q, limit, ret, reply) ||
	    !ask_choose_by(a, "id", q, limit, ret, reply))
		return false;
	if (q->n == 0 && param_flag(a, "optional"))
		return true;
	if (q->n == 0)
		reply_error(reply, 404, "no-such-series",
			    "no series of the run matches \"%.200s\"; .../series lists them",
			    ret->unmatched[0]);
	return q->n > 0;
}

/* ---- answers -------------------------------------------------------------------------- */

static uint64_t ask_process; /* another number each time the server starts */
static pthread_once_t ask_once = PTHREAD_ONCE_INIT;

static void ask_init(void)
{
	int64_t seed[2] = {now_read(CLOCK_REALTIME), getpid()};

	ask_process = map_hash(seed, sizeof(seed));
}

uint64_t ask_question(const struct route_ask *a)
{
	const struct http_request *r = a->request;
	uint64_t question = map_hash(r->path, strlen(r->path)), one[3];
	size_t i;

	pthread_once(&ask_once, ask_init);
	for (i = 0; i < r->n_params; i++) {
		one[0] = question;
		one[1] = map_hash(r->params[i].name, strlen(r->params[i].name));
		one[2] = map_hash(r->params[i].value, strlen(r->params[i].value));
		question = map_hash(one, sizeof(one));
	}
	return question ^ ask_process;
}

bool ask_is_known_of(const struct route_ask *a, uint64_t version, struct http_reply *reply)
{
	snprintf(reply->etag, sizeof(reply->etag), "\"%llx-%llx\"",
		 (unsigned long long)ask_question(a), (unsigned long long)version);
	return http_knows(a->request, reply->etag);
}

bool ask_is_known(const struct route_ask *a, const struct server_run *run, struct http_reply *reply)
{
	return ask_is_known_of(a, run->version, reply);
}

void ask_wrong(struct http_reply *reply, const struct err *e)
{
	reply_error(reply, 400, "bad-parameter", "%s", e->text);
}

void ask_failed(struct http_reply *reply, const struct err *e)
{
	if (e->code == -ENOENT)
		reply_error(reply, 404, "no-such-series", "%s", e->text);
	else if (e->code == -EUCLEAN)
		reply_error(reply, 500, "damaged", "%s; lapse fsck tells more", e->text);
	else if (e->code == -EINVAL)
		reply_error(reply, 400, "bad-parameter", "%s", e->text);
	else
		reply_error(reply, 503, "folder", "%s", e->text);
}

void ask_run(const struct route_ask *a, struct http_reply *reply,
	     void (*answer)(const struct route_ask *a, const struct runview *v,
			    struct http_reply *reply))
{
	struct server_run *run = server_take_run(a->server, a->args[0], reply);

	if (!run)
		return;
	if (!ask_is_known(a, run, reply))
		answer(a, &run->v, reply);
	server_give_run(a->server, run);
}
