/* SPDX-License-Identifier: Apache-2.0
 *
 * route_files.c - routes: a run's artifacts, and their bytes.
 */
#include "server/routes.h"

#include "base/mem.h"
#include "server/artifacts.h"
#include "server/ask.h"
#include "server/byterange.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void files_number(struct json *j, const char *key, int64_t v)
{
	json_key(j, key);
	if (v < 0)
		json_null(j);
	else
		json_int(j, v);
}

static void files_one(struct json *j, const struct artifacts_one *one)
{
	const char *file = strrchr(one->name, '/');

	json_object(j);
	json_kstr(j, "name", one->name);
	json_kstr(j, "file", file ? file + 1 : one->name);
	json_kstr(j, "kind", artifacts_kind_name(one->kind));
	json_kstr(j, "from", one->is_listed || one->path ? "event" : "folder");
	json_kstr(j, "path", one->path);
	json_kuint(j, "bytes", one->bytes);
	runview_json_time(j, "mtime", one->mtime_ns);
	files_number(j, "rank", one->rank);
	files_number(j, "step_first", one->step_first);
	files_number(j, "step_last", one->step_last);
	json_kbool(j, "is_given", !one->why);
	json_kstr(j, "why", one->why);
	json_object_end(j);
}

static void files_list(const struct route_ask *a, struct http_reply *reply)
{
	struct server_run *run = server_take_run(a->server, a->args[0], reply);
	struct artifacts all;
	struct err e = {0};
	struct json j;
	size_t i;

	if (!run)
		return;
	if (artifacts_read(&all, &run->v, &e) != 0) {
		if (e.code == -EUCLEAN)
			ask_failed(reply, &e);
		else
			reply_error(reply, 503, "folder", "%s", e.text);
		server_give_run(a->server, run);
		return;
	}
	reply_json(reply, &j);
	json_object(&j);
	json_kstr(&j, "run", run->id);
	json_key(&j, "artifacts");
	json_array(&j);
	for (i = 0; i < all.n; i++)
		files_one(&j, &all.list[i]);
	json_array_end(&j);
	json_kbool(&j, "is_cut", all.is_cut);
	json_object_end(&j);
	reply_etag(reply);
	artifacts_done(&all);
	server_give_run(a->server, run);
}

/* attachment; filename="safe"; filename*=UTF-8''as%20it%20is */
static void files_attachment(struct http_reply *reply, const char *file)
{
	char text[512];
	size_t n, i;

	n = (size_t)snprintf(text, sizeof(text), "attachment; filename=\"");
	for (i = 0; file[i] && i < 100; i++)
		text[n++] =
			isalnum((unsigned char)file[i]) || strchr("._-", file[i]) ? file[i] : '_';
	n += (size_t)snprintf(text + n, sizeof(text) - n, "\"; filename*=UTF-8''");
	for (i = 0; file[i] && n + 4 < sizeof(text); i++) {
		if (isalnum((unsigned char)file[i]) || strchr("._-", file[i]))
			text[n++] = file[i];
		else
			n += (size_t)snprintf(text + n, 4, "%%%02X", (unsigned char)file[i]);
	}
	text[n] = '\0';
	http_header(reply, "Content-Disposition", text);
}

/* Which bytes: false if there are none such. */
static bool files_range(const struct route_ask *a, struct http_reply *reply, uint64_t size)
{
	const char *range = http_field(a->request, "Range"), *only;
	uint64_t from = 0, bytes = size;
	char text[128];

	only = http_field(a->request, "If-Range");
	if (only && strcmp(only, reply->etag) != 0)
		range = NULL;
	reply->size = size;
	switch (byterange_parse(range, size, &from, &bytes)) {
	case BYTERANGE_ALL:
		return true;
	case BYTERANGE_PART:
		reply->status = 206;
		reply->offset = from;
		reply->size = bytes;
		snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from,
			 from + bytes - 1, size);
		http_header(reply, "Content-Range", text);
		return true;
	default:
		snprintf(text, sizeof(text), "bytes */%" PRIu64, size);
		reply_error(reply, 416, "bad-range", "The file has %" PRIu64 " bytes.", size);
		http_header(reply, "Content-Range", text);
		return false;
	}
}

static void files_give(const struct route_ask *a, struct http_reply *reply)
{
	struct server_run *run = server_take_run(a->server, a->args[0], reply);
	const char *file = strrchr(a->args[1], '/');
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (!run)
		return;
	fd = artifacts_open(&run->v, a->args[1], false, path, sizeof(path), &st);
	server_give_run(a->server, run);
	if (fd < 0) {
		reply_error(reply, 404, "no-such-file",
			    "The run has no file %.200s that is given; .../artifacts lists them.",
			    a->args[1]);
		return;
	}
	reply->has_fd = true;
	reply->fd = fd;
	reply->type = "application/octet-stream";
	snprintf(
		reply->etag, sizeof(reply->etag), "\"%llx-%llx-%llx\"",
		(unsigned long long)st.st_ino, (unsigned long long)st.st_size,
		(unsigned long long)(st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec));
	if (!files_range(a, reply, (uint64_t)st.st_size))
		return;
	http_header(reply, "Accept-Ranges", "bytes");
	files_attachment(reply, file ? file + 1 : a->args[1]);
}

const struct route route_files[] = {
	{"GET", "/api/v1/runs/{run}/artifacts",
	 "Traces, profiles, reports and other files of the run", NULL, files_list},
	{"GET", "/api/v1/runs/{run}/files/{name...}", "One of the run's files; Range is honoured",
	 NULL, files_give},
	{0},
};
