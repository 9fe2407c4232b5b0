/* SPDX-License-Identifier: Apache-2.0
 *
 * route_info.c - routes: whether the server is well, and what it is.
 */
#include "server/routes_priv.h"

#include "base/fmt.h"
#include "base/now.h"
#include "server/ask.h"
#include "server/server_priv.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- /healthz ---------------------------------------------------------------------------- */

static void info_health(const struct route_ask *a, struct http_reply *reply)
{
	struct server *s = a->server;
	char *roots[SERVER_ROOTS_MAX];
	size_t i, n, there = 0, readable = 0;
	struct json j;

	pthread_mutex_lock(&s->lock);
	n = s->n_roots;
	memcpy(roots, s->roots, sizeof(roots));
	pthread_mutex_unlock(&s->lock);
	for (i = 0; i < n; i++) {
		there += access(roots[i], F_OK) == 0;
		readable += access(roots[i], R_OK | X_OK) == 0;
	}
	reply_json(reply, &j);
	json_object(&j);
	json_kstr(&j, "status", there && !readable ? "folder" : "ok");
	json_kuint(&j, "folders", n);
	json_kuint(&j, "readable", readable);
	json_object_end(&j);
	reply->status = there && !readable ? 503 : 200;
}

/* ---- /api/v1/info ------------------------------------------------------------------------ */

static void info_who(struct json *j)
{
	struct passwd entry, *found = NULL;
	char host[256] = "", room[4096];

	if (gethostname(host, sizeof(host) - 1))
		host[0] = '\0';
	getpwuid_r(geteuid(), &entry, room, sizeof(room), &found);
	json_kstr(j, "host", host);
	json_kstr(j, "user", found ? found->pw_name : "");
}

static void info_folders(struct server *s, struct json *j)
{
	size_t i;

	json_key(j, "folders");
	json_array(j);
	pthread_mutex_lock(&s->lock);
	for (i = 0; i < s->n_roots; i++)
		json_str(j, s->roots[i]);
	pthread_mutex_unlock(&s->lock);
	json_array_end(j);
}

static void info_limits(struct json *j)
{
	json_key(j, "limits");
	json_object(j);
	json_kuint(j, "runs", 500);
	json_kuint(j, "series", ASK_SERIES_MAX);
	json_kuint(j, "members", ASK_MEMBERS_MAX);
	json_kuint(j, "points", 8192);
	json_kuint(j, "body", HTTP_BODY_MAX);
	json_object_end(j);
}

static void info_answer(const struct route_ask *a, struct http_reply *reply)
{
	const struct server_options *o = server_asked(a->server);
	char text[FMT_MAX], newest[4096];
	int64_t now = now_read(CLOCK_REALTIME);
	struct json j;

	reply_json(reply, &j);
	json_object(&j);
	json_kstr(&j, "version", LAPSE_VERSION);
	json_kstr(&j, "title", o->title);
	info_who(&j);
	info_folders(a->server, &j);
	json_kbool(&j, "needs_token", server_needs_token(a->server));
	json_kstr(&j, "act_token", server_page_token(a->server));
	json_kstr(&j, "time", fmt_utc(text, now));
	json_kint(&j, "time_ms", now / 1000000);
	json_kint(&j, "refresh_ms", o->refresh_ns / 1000000);
	json_kstr(&j, "newest",
		  server_run_dir(a->server, "last", newest, sizeof(newest)) == 0
			  ? strrchr(newest, '/') + 1
			  : NULL);
	info_limits(&j);
	json_object_end(&j);
}

const struct route route_info[] = {
	{.method = "GET",
	 .path = "/healthz",
	 .summary = "Is the server well, and can it read its folders?",
	 .answer = info_health},
	{.method = "GET",
	 .path = "/api/v1/info",
	 .summary = "Version, folders, limits, the token with which the page acts",
	 .answer = info_answer},
	{0},
};
