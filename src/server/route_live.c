/* SPDX-License-Identifier: Apache-2.0
 *
 * route_live.c - routes: live updates as server-sent events.
 */
#include "server/hub.h"
#include "server/routes.h"
#include "server/server_priv.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the hub of a server ------------------------------------------------------------------ */

static char **route_live_roots(void *arg)
{
	struct server *s = arg;
	char **roots;
	size_t i;

	pthread_mutex_lock(&s->lock);
	roots = xcalloc(s->n_roots + 1, sizeof(*roots));
	for (i = 0; i < s->n_roots; i++)
		roots[i] = xstrdup(s->roots[i]);
	pthread_mutex_unlock(&s->lock);
	return roots;
}

static void *route_live_make(struct server *s)
{
	const struct hub_options o = {
		.refresh_ns = server_asked(s)->refresh_ns, .roots = route_live_roots, .arg = s};

	return hub_new(&o);
}

static void route_live_stop(void *state)
{
	if (state)
		hub_stop(state);
}

static void route_live_done(void *state)
{
	hub_free(state);
}

static const struct server_part route_live_part = {route_live_make, route_live_stop,
						   route_live_done};

/* ---- the route ------------------------------------------------------------------------------ */

/* The runs that were asked for, each once. */
static bool route_live_runs(const struct route_ask *a, struct hub_ask *ask,
			    struct http_reply *reply)
{
	const char *id, *slash;
	struct hub_ask_run *r;
	size_t n, i;

	for (n = 0; (id = param_nth(a, "run", n)); n++) {
		if (ask->n == HUB_RUNS_MAX) {
			reply_error(reply, 400, "bad-parameter",
				    "run is there more than %u times; open another stream.",
				    HUB_RUNS_MAX);
			return false;
		}
		r = &ask->runs[ask->n];
		if (server_run_dir(a->server, id, r->dir, sizeof(r->dir)) < 0) {
			reply_error(reply, 404, "no-such-run",
				    "There is no run \"%.128s\" here; /api/v1/runs lists them.",
				    id);
			return false;
		}
		slash = strrchr(r->dir, '/');
		snprintf(r->id, sizeof(r->id), "%s", slash ? slash + 1 : r->dir);
		for (i = 0; i < ask->n && strcmp(ask->runs[i].id, r->id) != 0; i++)
			;
		ask->n += i == ask->n;
	}
	return true;
}

static void route_live_get(const struct route_ask *a, struct http_reply *reply)
{
	struct hub_ask *ask = xcalloc(1, sizeof(*ask));
	struct hub *hub = server_part(a->server, &route_live_part);
	const char *last = http_field(a->request, "Last-Event-ID");

	ask->has_list = param_flag(a, "runs");
	ask->after = last ? last : param_text(a, "after");
	if (!route_live_runs(a, ask, reply)) {
		free(ask);
		return;
	}
	if (!ask->n && !ask->has_list)
		reply_error(reply, 400, "bad-parameter",
			    "Say what to watch: run=ID (up to %u times), or runs=1.", HUB_RUNS_MAX);
	else if (!strcmp(a->request->method, "HEAD"))
		reply->type = "text/event-stream";
	else if (!hub)
		reply_error(reply, 503, "busy",
			    "There is no thread for live updates to be had; ask again later.");
	else if (hub_join(hub, ask, &reply->stream) < 0)
		reply_error(reply, 503, "busy", "More than %u live streams; close some.",
			    HUB_STREAMS_MAX);
	else
		reply->type = "text/event-stream";
	free(ask);
}

static const struct param route_live_params[] = {
	{.name = "run",
	 .type = PARAM_TEXT,
	 .hi = 255,
	 .is_many = true,
	 .help = "A run to watch; up to 8."},
	{.name = "runs",
	 .type = PARAM_FLAG,
	 .help = "Changes of the list of runs, too; default 0."},
	{.name = "after",
	 .type = PARAM_TEXT,
	 .hi = 64,
	 .help = "Go on after the event with this id, as Last-Event-ID; default: from now on."},
	{0},
};

const struct route route_live[] = {
	{"GET", "/api/v1/live", "Live updates as server-sent events", route_live_params,
	 route_live_get},
	{0},
};
