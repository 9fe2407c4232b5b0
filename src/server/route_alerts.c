/* SPDX-License-Identifier: Apache-2.0
 *
 * route_alerts.c - routes: what is wrong with a run, and what people say of it. What they
 * say goes into the run's folder, never into its database.
 */
#include "server/routes.h"

#include <stdio.h>
#include <string.h>

#include "alert/builtin.h"
#include "alert/list.h"
#include "base/fmt.h"
#include "base/mem.h"
#include "base/now.h"
#include "server/body.h"

#define ALERTS_LIMIT 200
#define ALERTS_LIMIT_MAX 2000

/* The run and its alerts; false: the reply says why not. Both are given back by
 * alerts_give(). */
struct alerts_of {
	struct server_run *run;
	struct alerts list;
};

static bool alerts_take(const struct route_ask *a, struct alerts_of *of, struct http_reply *reply)
{
	struct err e = {0};

	of->run = server_take_run(a->server, a->args[0], reply);
	if (!of->run)
		return false;
	if (alerts_read(&of->list, &of->run->v, now_read(CLOCK_REALTIME), &e) == 0)
		return true;
	reply_error(reply, 500, "damaged", "%s", e.text);
	server_give_run(a->server, of->run);
	return false;
}

static void alerts_give(const struct route_ask *a, struct alerts_of *of)
{
	alerts_done(&of->list);
	server_give_run(a->server, of->run);
}

/* ---- looking -------------------------------------------------------------------------- */

static void alerts_get(const struct route_ask *a, struct http_reply *reply)
{
	const char *which = param_text(a, "state");
	struct alerts_of of;
	struct json j;

	if (!alerts_take(a, &of, reply))
		return;
	reply_json(reply, &j);
	json_object(&j);
	alerts_json(&j, &of.list, which ? which : "all",
		    (size_t)param_int(a, "limit", ALERTS_LIMIT));
	json_object_end(&j);
	alerts_give(a, &of);
	reply_etag(reply);
}

/* ---- saying something -------------------------------------------------------------------- */

enum alerts_field {
	ALERTS_ALERT,
	ALERTS_RULE,
	ALERTS_BY,
	ALERTS_NOTE,
	ALERTS_FOR,
	ALERTS_FIELDS
};

/* The alert or the rule that the body names: one of them. False: the reply says why not. */
static bool alerts_named(const struct alerts_of *of, const struct body_field *f,
			 const struct alerts_item **ret_item, struct http_reply *reply)
{
	*ret_item = NULL;
	if (f[ALERTS_ALERT].has == f[ALERTS_RULE].has) {
		reply_error(reply, 400, "bad-body",
			    "The body must have either \"alert\", the id of "
			    "one, or \"rule\".");
		return false;
	}
	if (f[ALERTS_RULE].has && !builtin_find(f[ALERTS_RULE].text)) {
		reply_error(reply, 404, "no-such-rule",
			    "There is no rule \"%s\"; GET .../alerts "
			    "lists them.",
			    f[ALERTS_RULE].text);
		return false;
	}
	if (f[ALERTS_RULE].has)
		return true;
	*ret_item = alerts_find(&of->list, f[ALERTS_ALERT].text);
	if (!*ret_item)
		reply_error(reply, 404, "no-such-alert", "The run has no alert \"%s\".",
			    f[ALERTS_ALERT].text);
	return *ret_item != NULL;
}

static void alerts_ack_all(const struct alerts_of *of, const struct body_field *f,
			   const struct alerts_item *only, struct http_reply *reply)
{
	struct err e = {0};
	struct json j;
	size_t i;

	reply_json(reply, &j);
	json_object(&j);
	json_key(&j, "acknowledged");
	json_array(&j);
	for (i = 0; i < of->list.n && !e.code; i++) {
		const struct alerts_item *it = &of->list.items[i];

		if (only ? it != only : it->ack_ns || strcmp(it->rule, f[ALERTS_RULE].text) != 0)
			continue;
		if (alerts_ack(of->run->v.dir, it->id, f[ALERTS_BY].text, f[ALERTS_NOTE].text,
			       now_read(CLOCK_REALTIME), &e) == 0)
			json_str(&j, it->id);
	}
	json_array_end(&j);
	json_object_end(&j);
	if (e.code)
		reply_error(reply, 503, "folder", "%s", e.text);
}

static void alerts_silence_one(const struct alerts_of *of, const struct body_field *f,
			       const struct alerts_item *only, struct http_reply *reply)
{
	const struct alerts_scope scope = {.rule = only ? only->rule : f[ALERTS_RULE].text,
					   .host = only ? only->host_name : NULL,
					   .series_id = only ? only->series : 0,
					   .series = only && only->name[0] ? only->name : NULL};
	int64_t now = now_read(CLOCK_REALTIME), until = 0;
	char text[FMT_MAX];
	struct err e = {0};
	struct json j;

	if (f[ALERTS_FOR].number > 0)
		until = now + (int64_t)(f[ALERTS_FOR].number * 1e9);
	if (alerts_silence(of->run->v.dir, &scope, until, f[ALERTS_BY].text, f[ALERTS_NOTE].text,
			   now, &e) != 0) {
		reply_error(reply, 503, "folder", "%s", e.text);
		return;
	}
	reply_json(reply, &j);
	json_object(&j);
	json_kstr(&j, "rule", scope.rule);
	json_kstr(&j, "series", scope.series);
	json_kstr(&j, "host", scope.host);
	snprintf(text, sizeof(text), "%lld", (long long)until);
	json_kstr(&j, "silenced_until_ns", until ? text : NULL);
	json_kstr(&j, "silenced_until", until ? fmt_utc(text, until) : NULL);
	json_object_end(&j);
}

static void alerts_post(const struct route_ask *a, bool is_silence, struct http_reply *reply)
{
	struct body_field f[ALERTS_FIELDS] = {
		[ALERTS_ALERT] = {.name = "alert", .max = ALERTS_ID_MAX - 1},
		[ALERTS_RULE] = {.name = "rule", .max = RULE_NAME_MAX - 1},
		[ALERTS_BY] = {.name = "by", .max = ALERTS_BY_MAX - 1},
		[ALERTS_NOTE] = {.name = "note", .max = ALERTS_NOTE_MAX - 1},
		[ALERTS_FOR] = {.name = "for_s",
				.type = BODY_NUMBER,
				.lo = 0,
				.hi = ALERTS_SILENCE_MAX_S,
				.is_needed = true},
	};
	size_t n = is_silence ? ALERTS_FIELDS : ALERTS_FOR;
	const struct alerts_item *item;
	struct alerts_of of;

	if (body_read(a->request, f, n, reply) && alerts_take(a, &of, reply)) {
		if (alerts_named(&of, f, &item, reply)) {
			if (is_silence)
				alerts_silence_one(&of, f, item, reply);
			else
				alerts_ack_all(&of, f, item, reply);
		}
		alerts_give(a, &of);
	}
	body_done(f, n);
}

static void alerts_post_ack(const struct route_ask *a, struct http_reply *reply)
{
	alerts_post(a, false, reply);
}

static void alerts_post_silence(const struct route_ask *a, struct http_reply *reply)
{
	alerts_post(a, true, reply);
}

/* ---- the rows ------------------------------------------------------------------------------- */

static const struct param alerts_params[] = {
	{.name = "state",
	 .type = PARAM_CHOICE,
	 .choices = "active|history|all",
	 .help = "Those that fire now, the others, or all; default: all."},
	{.name = "limit",
	 .type = PARAM_INT,
	 .lo = 1,
	 .hi = ALERTS_LIMIT_MAX,
	 .help = "The newest so many; default: 200."},
	{0},
};

const struct route route_alerts[] = {
	{"GET", "/api/v1/runs/{run}/alerts", "Alerts of a run and the state of every rule",
	 alerts_params, alerts_get},
	{"POST", "/api/v1/runs/{run}/alerts/ack", "Acknowledge an alert, or all of a rule", NULL,
	 alerts_post_ack},
	{"POST", "/api/v1/runs/{run}/alerts/silence",
	 "Silence a rule, or one of its series, for a "
	 "time",
	 NULL, alerts_post_silence},
	{0},
};
