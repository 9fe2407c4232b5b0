/* SPDX-License-Identifier: Apache-2.0
 *
 * route_compat.c - routes: the source documents' own addresses, read-only, of the newest
 * run or of run=.
 */
#include "server/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alert/watch.h"
#include "base/mem.h"
#include "report/attrs.h"
#include "report/export.h"
#include "report/jsonwalk.h"
#include "server/ask.h"
#include "server/compat.h"
#include "server/eventlist.h"

#define COMPAT_LIMIT 100
#define COMPAT_TEXT_MAX (1u << 20) /* attributes of an event */

enum compat_what {
	COMPAT_TRAINING = 1,
	COMPAT_SYSTEM = 2,
	COMPAT_ALERTS = 4
};

/* What was asked for of a run. */
struct compat {
	const struct runview *v;
	struct compat_table training, system;
	struct eventlist alerts;
};

static void compat_done(struct compat *c)
{
	compat_table_done(&c->training);
	compat_table_done(&c->system);
	eventlist_done(&c->alerts);
}

static int compat_read(struct compat *c, const struct runview *v, unsigned what, size_t limit,
		       struct err *e)
{
	static const char *const kinds[] = {WATCH_KIND};
	/* Those of programs, too. Ends of alerts are events, but of severity 1. */
	const struct eventlist_wish wish = {
		.kinds = kinds, .n_kinds = ARRAY_LEN(kinds), .severity = 2, .limit = limit};
	int err = 0;

	*c = (struct compat){.v = v};
	eventlist_init(&c->alerts, &wish);
	if (what & COMPAT_TRAINING)
		err = compat_training(v, limit, &c->training, e);
	if (!err && what & COMPAT_SYSTEM)
		err = compat_system(v, limit, &c->system, e);
	if (!err && what & COMPAT_ALERTS)
		err = eventlist_read(&c->alerts, v, e);
	return err;
}

/* ---- alerts ----------------------------------------------------------------------------- */

static const char *compat_severity(int severity)
{
	return severity >= 3 ? "critical" : severity == 2 ? "warning" : "info";
}

/* The rule of an alert, from what it says of itself. */
static const char *compat_rule(const struct event_row *row, char *out, size_t cap)
{
	struct buf compact;

	out[0] = '\0';
	buf_init(&compact, COMPAT_TEXT_MAX);
	if (attrs_compact(row->attrs, &compact) == 0)
		jsonwalk_string(jsonwalk_get(buf_str(&compact), "rule"), out, cap);
	if (!out[0] && compact.len) /* those that programs record themselves */
		jsonwalk_string(jsonwalk_get(buf_str(&compact), "type"), out, cap);
	buf_done(&compact);
	return out;
}

static void compat_json_alerts(struct json *j, const struct compat *c)
{
	char rule[64];
	size_t i;

	for (i = 0; i < c->alerts.n; i++) {
		const struct event_row *row = &c->alerts.rows[i].row;

		json_object(j);
		json_kdouble(j, "timestamp", (double)(row->time_ns / 1000) / 1e6);
		json_kstr(j, "name", compat_rule(row, rule, sizeof(rule)));
		json_kstr(j, "severity", compat_severity(row->severity));
		json_kstr(j, "message", row->text);
		runview_json_step(j, "step", row->step);
		json_object_end(j);
	}
}

static void compat_csv_alerts(struct buf *out, const struct compat *c, const char *type)
{
	char rule[64];
	size_t i;

	for (i = 0; i < c->alerts.n; i++) {
		const struct event_row *row = &c->alerts.rows[i].row;

		if (type)
			buf_printf(out, "%s,", type);
		json_put_double(out, (double)(row->time_ns / 1000) / 1e6);
		buf_printf(out, ",%s,%s,", compat_rule(row, rule, sizeof(rule)),
			   compat_severity(row->severity));
		export_csv_text(out, row->text);
		buf_putc(out, '\n');
	}
}

/* ---- answers ---------------------------------------------------------------------------- */

static void compat_array(struct json *j, const struct compat *c, unsigned what)
{
	json_array(j);
	if (what == COMPAT_TRAINING)
		compat_json_rows(j, &c->training);
	else if (what == COMPAT_SYSTEM)
		compat_json_rows(j, &c->system);
	else
		compat_json_alerts(j, c);
	json_array_end(j);
}

static void compat_json(struct json *j, const struct compat *c, unsigned what)
{
	static const struct {
		const char *name;
		unsigned what;
	} parts[] = {{"training", COMPAT_TRAINING},
		     {"system", COMPAT_SYSTEM},
		     {"alerts", COMPAT_ALERTS}};
	size_t i;

	if ((what & (what - 1)) == 0) {
		compat_array(j, c, what);
		return;
	}
	json_object(j);
	json_kstr(j, "run", c->v->run.id);
	for (i = 0; i < ARRAY_LEN(parts); i++) {
		json_key(j, parts[i].name);
		compat_array(j, c, parts[i].what);
	}
	json_object_end(j);
}

/* One table, or several with the type in front of each line; each has a head of its own. */
static void compat_csv(struct buf *out, const struct compat *c, unsigned what)
{
	bool several = (what & (what - 1)) != 0;

	if (what & COMPAT_TRAINING) {
		compat_csv_head(out, &c->training, several ? "training" : NULL);
		compat_csv_rows(out, &c->training, several ? "training" : NULL);
	}
	if (what & COMPAT_SYSTEM) {
		compat_csv_head(out, &c->system, several ? "system" : NULL);
		compat_csv_rows(out, &c->system, several ? "system" : NULL);
	}
	if (what & COMPAT_ALERTS) {
		buf_printf(out, "%stimestamp,name,severity,message\n", several ? "type," : "");
		compat_csv_alerts(out, c, several ? "alerts" : NULL);
	}
}

static void compat_statistics(struct json *j, const struct compat *c)
{
	static const char *const severities[] = {"info", "warning", "critical"};
	uint64_t by[ARRAY_LEN(severities)] = {0};
	size_t i, k;

	for (i = 0; i < c->alerts.n; i++)
		for (k = 0; k < ARRAY_LEN(severities); k++)
			by[k] += strcmp(compat_severity(c->alerts.rows[i].row.severity),
					severities[k]) == 0;
	json_object(j);
	json_kstr(j, "run", c->v->run.id);
	json_key(j, "training");
	compat_json_figures(j, &c->training);
	json_key(j, "system");
	compat_json_figures(j, &c->system);
	json_key(j, "alerts");
	json_object(j);
	json_kuint(j, "total", c->alerts.total);
	json_key(j, "by_severity");
	json_object(j);
	for (k = 0; k < ARRAY_LEN(severities); k++)
		json_kuint(j, severities[k], by[k]);
	json_object_end(j);
	json_object_end(j);
	json_object_end(j);
}

static void compat_file(const struct route_ask *a, const struct server_run *run,
			struct http_reply *reply)
{
	const char *type = param_text(a, "type"), *format = param_text(a, "format");
	char text[512];

	snprintf(text, sizeof(text), "attachment; filename=\"%s-%s.%s\"", run->id,
		 type ? type : "all", format ? format : "json");
	http_header(reply, "Content-Disposition", text);
}

static unsigned compat_type(const char *type)
{
	if (!type || strcmp(type, "all") == 0)
		return COMPAT_TRAINING | COMPAT_SYSTEM | COMPAT_ALERTS;
	return strcmp(type, "training") == 0 ? COMPAT_TRAINING
	       : strcmp(type, "system") == 0 ? COMPAT_SYSTEM
					     : COMPAT_ALERTS;
}

/* Read and write what was asked for; what 0: statistics. */
static void compat_write(const struct route_ask *a, const struct server_run *run, unsigned what,
			 size_t limit, struct http_reply *reply)
{
	const char *format = param_text(a, "format");
	struct err e = {0};
	struct compat c;
	struct json j;

	if (compat_read(&c, &run->v, what ? what : compat_type(NULL), limit, &e) < 0) {
		compat_done(&c);
		ask_failed(reply, &e);
		return;
	}
	reply_json(reply, &j);
	if (format && strcmp(format, "csv") == 0) {
		reply->type = "text/csv; charset=utf-8";
		compat_csv(&reply->body, &c, what);
	} else if (what) {
		compat_json(&j, &c, what);
	} else {
		compat_statistics(&j, &c);
	}
	compat_done(&c);
}

static void compat_answer(const struct route_ask *a, unsigned what, size_t limit, bool is_file,
			  struct http_reply *reply)
{
	const char *id = param_text(a, "run");
	struct server_run *run = server_take_run(a->server, id ? id : "last", reply);

	if (!run)
		return;
	if (!ask_is_known(a, run, reply) && server_heavy_begin(a->server, reply)) {
		compat_write(a, run, what, limit, reply);
		server_heavy_end(a->server);
		if (is_file && !reply->status)
			compat_file(a, run, reply);
	}
	server_give_run(a->server, run);
}

static void compat_training_answer(const struct route_ask *a, struct http_reply *reply)
{
	compat_answer(a, COMPAT_TRAINING, (size_t)param_int(a, "limit", COMPAT_LIMIT), false,
		      reply);
}

static void compat_system_answer(const struct route_ask *a, struct http_reply *reply)
{
	compat_answer(a, COMPAT_SYSTEM, (size_t)param_int(a, "limit", COMPAT_LIMIT), false, reply);
}

static void compat_alerts_answer(const struct route_ask *a, struct http_reply *reply)
{
	compat_answer(a, COMPAT_ALERTS, (size_t)param_int(a, "limit", COMPAT_LIMIT), false, reply);
}

static void compat_statistics_answer(const struct route_ask *a, struct http_reply *reply)
{
	compat_answer(a, 0, COMPAT_ROWS_MAX, false, reply);
}

static void compat_export_answer(const struct route_ask *a, struct http_reply *reply)
{
	compat_answer(a, compat_type(param_text(a, "type")), COMPAT_ROWS_MAX, true, reply);
}

#define COMPAT_PARAM_RUN                                                                           \
	{                                                                                          \
		.name = "run", .hi = 255, .help = "The run's id; default the newest."              \
	}

static const struct param compat_list_params[] = {
	{.name = "limit",
	 .type = PARAM_INT,
	 .lo = 1,
	 .hi = COMPAT_ROWS_MAX,
	 .help = "The last so many; default 100."},
	COMPAT_PARAM_RUN,
	{0},
};

static const struct param compat_run_params[] = {COMPAT_PARAM_RUN, {0}};

static const struct param compat_export_params[] = {
	{.name = "type",
	 .type = PARAM_CHOICE,
	 .choices = "training|system|alerts|all",
	 .help = "Which table; default all."},
	{.name = "format",
	 .type = PARAM_CHOICE,
	 .choices = "json|csv",
	 .help = "json (default) or csv."},
	COMPAT_PARAM_RUN,
	{0},
};

const struct route route_compat[] = {
	{"GET", "/api/training_metrics", "The last steps by the documents' names",
	 compat_list_params, compat_training_answer},
	{"GET", "/api/system_metrics", "The last readings of the machine by the documents' names",
	 compat_list_params, compat_system_answer},
	{"GET", "/api/alerts", "A run's alerts by the documents' names", compat_list_params,
	 compat_alerts_answer},
	{"GET", "/api/statistics", "Figures of a run by the documents' names", compat_run_params,
	 compat_statistics_answer},
	{"GET", "/export", "The documents' tables as a file", compat_export_params,
	 compat_export_answer},
	{0},
};
