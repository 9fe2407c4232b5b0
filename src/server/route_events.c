/* SPDX-License-Identifier: Apache-2.0
 *
 * route_events.c - routes: a run's events, page by page.
 */
#include "server/routes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/ask.h"
#include "server/eventlist.h"

#define EVENTS_LIMIT 200
#define EVENTS_LIMIT_MAX 5000

static void events_json_one(struct json *j, const struct runview *v, const struct eventlist_row *r)
{
	const char *file = store_reader_file(v->reader, r->at.host);
	char id[512];

	snprintf(id, sizeof(id), "%.*s/%" PRIu64, (int)(strlen(file) - strlen(".db")), file,
		 r->at.number);
	json_object(j);
	json_kstr(j, "id", id);
	events_json_row(j, v, &r->row);
	json_object_end(j);
}

static void events_json_counts(struct json *j, const struct eventlist *l)
{
	size_t i;

	json_key(j, "by_severity");
	json_object(j);
	for (i = 0; i < ARRAY_LEN(l->by_severity); i++)
		json_kuint(j, events_severity((int)i), l->by_severity[i]);
	json_object_end(j);
	json_key(j, "kinds");
	json_object(j);
	for (i = 0; i < l->n_kinds; i++)
		json_kuint(j, l->kind[i].name, l->kind[i].n);
	json_object_end(j);
}

static void events_write(const struct eventlist *l, const struct runview *v,
			 struct http_reply *reply)
{
	char next[64];
	struct json j;
	size_t i;

	reply_json(reply, &j);
	json_object(&j);
	json_kstr(&j, "run", v->run.id);
	json_kuint(&j, "total", l->total);
	events_json_counts(&j, l);
	if (eventlist_has_more(l))
		eventlist_put_at(next, &l->rows[l->n - 1].at);
	json_kstr(&j, "next", eventlist_has_more(l) ? next : NULL);
	json_key(&j, "events");
	json_array(&j);
	for (i = 0; i < l->n; i++)
		events_json_one(&j, v, &l->rows[i]);
	json_array_end(&j);
	json_object_end(&j);
}

static int events_least(const char *word)
{
	int i;

	for (i = 0; word && i < 4; i++)
		if (strcmp(events_severity(i), word) == 0)
			return i;
	return 0;
}

/* false: the reply says what is wrong. */
static bool events_wish(const struct route_ask *a, const struct runview *v, const char **kinds,
			struct eventlist_wish *ret, struct http_reply *reply)
{
	const char *after = param_text(a, "after");
	struct ask ask;

	if (!ask_get(a, v, &ask, reply))
		return false;
	*ret = (struct eventlist_wish){.kinds = kinds,
				       .severity = events_least(param_text(a, "severity")),
				       .by_time = ask.range.by_time,
				       .time_min = ask.range.time_min,
				       .time_max = ask.range.time_max,
				       .text = param_text(a, "text"),
				       .has_after = after != NULL,
				       .limit = (size_t)param_int(a, "limit", EVENTS_LIMIT)};
	while (ret->n_kinds < HTTP_PARAMS_MAX &&
	       (kinds[ret->n_kinds] = param_nth(a, "kind", ret->n_kinds)) != NULL)
		ret->n_kinds++;
	if (!after || eventlist_parse_at(after, &ret->after))
		return true;
	reply_error(reply, 400, "bad-parameter",
		    "after: \"%.60s\" is no `next` of an earlier answer", after);
	return false;
}

static void events_ask(const struct route_ask *a, const struct runview *v, struct http_reply *reply)
{
	const char *kinds[HTTP_PARAMS_MAX];
	struct eventlist_wish wish;
	struct eventlist l;
	struct err e = {0};

	if (!events_wish(a, v, kinds, &wish, reply))
		return;
	eventlist_init(&l, &wish);
	if (eventlist_read(&l, v, &e) < 0)
		ask_failed(reply, &e);
	else
		events_write(&l, v, reply);
	eventlist_done(&l);
}

static void events_answer(const struct route_ask *a, struct http_reply *reply)
{
	ask_run(a, reply, events_ask);
}

static const struct param events_params[] = {
	{.name = "kind", .hi = 256, .is_many = true, .help = "Only of this kind; default all."},
	{.name = "severity",
	 .type = PARAM_CHOICE,
	 .choices = "debug|info|warning|error",
	 .help = "At least; default debug."},
	{.name = "from", .hi = 64, .help = "Nothing before, in milliseconds since 1970."},
	{.name = "to", .hi = 64, .help = "Nothing after."},
	{.name = "text", .lo = 1, .hi = 256, .help = "Part of kind, text or attributes."},
	{.name = "after", .hi = 64, .help = "Older than the page whose `next` this is."},
	{.name = "limit",
	 .type = PARAM_INT,
	 .lo = 1,
	 .hi = EVENTS_LIMIT_MAX,
	 .help = "At most so many; default 200."},
	{0},
};

const struct route route_events[] = {
	{"GET", "/api/v1/runs/{run}/events", "Events of a run, the newest first", events_params,
	 events_answer},
	{0},
};
