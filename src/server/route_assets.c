/* SPDX-License-Identifier: Apache-2.0
 *
 * route_assets.c - routes: the dashboard's own files, which are in the program.
 */
#include "server/routes_priv.h"

#include "server/assets.h"

#include <string.h>

/* It writes styles into its page itself, has WebAssembly in its script (names of C++), and ours
 * shows it in a frame. */
#define ASSETS_SPEEDSCOPE_POLICY                                                                   \
	"default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' "              \
	"'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self' blob:; font-src 'self' "  \
	"data:; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"

static const struct asset *assets_find(const char *path)
{
	const struct asset *one;

	for (one = assets; one->path; one++)
		if (!strcmp(one->path, path))
			return one;
	return NULL;
}

static void assets_give(const char *path, struct http_reply *reply)
{
	const struct asset *one = assets_find(path);

	if (!one) {
		reply_error(reply, 404, "no-such-file",
			    "The dashboard has no file %.200s; reload the page if lapse was "
			    "updated.",
			    path);
		return;
	}
	reply->type = one->type;
	reply->text = one->data;
	reply->text_len = one->len;
	reply->text_is_gzip = true;
	reply->is_immutable = one->is_immutable;
	memcpy(reply->etag, one->etag, strlen(one->etag) + 1);
}

static void assets_index(const struct route_ask *a, struct http_reply *reply)
{
	static const char notice[] =
		"<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>lapse</title>"
		"<h1>lapse</h1><p>This lapse was built without the pages of its dashboard. In its "
		"source, <code>make web</code> builds them (that needs Node.js), then "
		"<code>make</code> puts them into the program.</p><p>What programs ask is there: "
		"<a href=\"api/v1/info\">/api/v1/info</a>, <a href=\"api/v1/runs\">/api/v1/runs"
		"</a>, <a href=\"metrics\">/metrics</a>. In a terminal: <code>lapse top</code>."
		"</p></html>\n";

	(void)a;
	if (assets_find("index.html")) {
		assets_give("index.html", reply);
		reply_policy(reply, assets_scripts);
		return;
	}
	reply->type = "text/html; charset=utf-8";
	reply->text = notice;
	reply->text_len = sizeof(notice) - 1;
}

/* The path as it was asked is that of the file. */
static void assets_file(const struct route_ask *a, struct http_reply *reply)
{
	assets_give(a->request->path + 1, reply);
}

static void assets_speedscope(const struct route_ask *a, struct http_reply *reply)
{
	assets_give(a->request->path + 1, reply);
	http_header(reply, "Content-Security-Policy", ASSETS_SPEEDSCOPE_POLICY);
}

static const struct param assets_index_params[] = {
	{.name = "token", .hi = 128, .help = "The server's token: sets the cookie, leads to /."},
	{0},
};

const struct route route_assets[] = {
	{.method = "GET",
	 .path = "/",
	 .summary = "The dashboard",
	 .params = assets_index_params,
	 .answer = assets_index},
	{.method = "GET",
	 .path = "/assets/{name...}",
	 .summary = "A file of the dashboard",
	 .answer = assets_file},
	{.method = "GET",
	 .path = "/speedscope/{name...}",
	 .summary = "A file of speedscope, which shows profiles",
	 .answer = assets_speedscope},
	{.method = "GET",
	 .path = "/favicon.svg",
	 .summary = "The dashboard's sign",
	 .answer = assets_file},
	{0},
};
