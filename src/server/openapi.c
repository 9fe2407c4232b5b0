/* SPDX-License-Identifier: Apache-2.0
 *
 * openapi.c - the table of routes as an OpenAPI 3.1 document. Texts are written as JSON
 * strings, which YAML reads as they are.
 */
#include "server/routes_priv.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void openapi_text(struct buf *out, const char *text)
{
	struct json j;

	json_init(&j, out);
	json_str(&j, text);
}

/* ---- parameters ----------------------------------------------------------------------- */

static void openapi_schema_text(struct buf *out, const struct param *p)
{
	buf_printf(out, "{type: string, maxLength: %" PRId64 "}", p->hi ? p->hi : 1024);
}

static void openapi_schema_int(struct buf *out, const struct param *p)
{
	buf_printf(out,
		   "{type: integer, format: int64, minimum: %" PRId64 ", maximum: %" PRId64 "}",
		   p->lo, p->hi);
}

static void openapi_schema_flag(struct buf *out, const struct param *p)
{
	(void)p;
	buf_puts(out, "{enum: [\"0\", \"1\", \"false\", \"true\"]}");
}

static void openapi_schema_choice(struct buf *out, const struct param *p)
{
	const char *c = p->choices;
	size_t len;

	buf_puts(out, "{enum: [");
	for (; *c; c += len + (c[len] == '|')) {
		len = strcspn(c, "|");
		buf_printf(out, "%s\"%.*s\"", c == p->choices ? "" : ", ", (int)len, c);
	}
	buf_puts(out, "]}");
}

static void (*const openapi_schemas[])(struct buf *, const struct param *) = {
	[PARAM_TEXT] = openapi_schema_text,
	[PARAM_INT] = openapi_schema_int,
	[PARAM_FLAG] = openapi_schema_flag,
	[PARAM_CHOICE] = openapi_schema_choice,
};

static void openapi_param(struct buf *out, const struct param *p)
{
	buf_printf(out, "        - name: %s\n          in: query\n", p->name);
	if (p->is_needed)
		buf_puts(out, "          required: true\n");
	if (p->help) {
		buf_puts(out, "          description: ");
		openapi_text(out, p->help);
		buf_putc(out, '\n');
	}
	buf_puts(out, "          schema: ");
	if (p->is_many)
		buf_puts(out, "{type: array, items: ");
	openapi_schemas[p->type](out, p);
	buf_puts(out, p->is_many ? "}\n" : "\n");
}

/* What stands for the {} of a path. */
static void openapi_args(struct buf *out, const char *path)
{
	const char *p = path;
	size_t n, dots;

	while ((p = strchr(p, '{'))) {
		p++;
		n = strcspn(p, "}");
		dots = n > 3 && !memcmp(p + n - 3, "...", 3) ? 3 : 0;
		buf_printf(out,
			   "        - name: %.*s\n          in: path\n          required: true\n",
			   (int)(n - dots), p);
		if (dots)
			buf_puts(out, "          description: \"May have slashes.\"\n");
		buf_puts(out, "          schema: {type: string}\n");
	}
}

/* ---- routes --------------------------------------------------------------------------- */

static void openapi_path(struct buf *out, const char *path)
{
	for (; *path; path++)
		if (strncmp(path, "...}", 4))
			buf_putc(out, *path);
		else
			path += 2;
}

static void openapi_route(struct buf *out, const struct route *r)
{
	bool acts = !strcmp(r->method, "POST");
	const struct param *p;

	buf_printf(out, "    %s:\n      summary: ", acts ? "post" : "get");
	openapi_text(out, r->summary);
	buf_putc(out, '\n');
	if (strchr(r->path, '{') || (r->params && r->params->name))
		buf_puts(out, "      parameters:\n");
	openapi_args(out, r->path);
	for (p = r->params; p && p->name; p++)
		openapi_param(out, p);
	if (acts)
		buf_puts(out, "      security: [{page: []}, {token: []}]\n"
			      "      requestBody:\n"
			      "        required: true\n"
			      "        content: {application/json: {schema: {type: object}}}\n");
	buf_puts(out, "      responses:\n"
		      "        \"200\": {description: \"docs/http.md says what it holds.\"}\n"
		      "        default: {$ref: \"#/components/responses/error\"}\n");
}

static int openapi_order(const void *a, const void *b)
{
	const struct route *const *x = a, *const *y = b;
	int r = strcmp((*x)->path, (*y)->path);

	return r ? r : strcmp((*x)->method, (*y)->method);
}

static const char openapi_head[] =
	"# Made by `lapse serve --openapi`; docs/http.md is the page for people.\n"
	"openapi: 3.1.0\n"
	"info:\n"
	"  title: lapse\n"
	"  version: \"1\"\n"
	"  license: {name: Apache-2.0, identifier: Apache-2.0}\n"
	"  description: \"What `lapse serve` answers. Everything looks but what is POST.\"\n"
	"servers:\n"
	"  - url: http://127.0.0.1:8080\n"
	"components:\n"
	"  securitySchemes:\n"
	"    token: {type: http, scheme: bearer, description: \"Of --token-file, or made at the "
	"start "
	"where others than this machine may ask.\"}\n"
	"    page: {type: apiKey, in: header, name: X-Lapse-Token, description: \"act_token of "
	"/api/v1/info.\"}\n"
	"  responses:\n"
	"    error:\n"
	"      description: \"What is wrong, and what to do.\"\n"
	"      content:\n"
	"        application/json:\n"
	"          schema:\n"
	"            type: object\n"
	"            required: [error]\n"
	"            properties:\n"
	"              error:\n"
	"                type: object\n"
	"                required: [code, message]\n"
	"                properties: {code: {type: string}, message: {type: string}}\n"
	"security: [{}, {token: []}]\n"
	"paths:\n";

void routes_openapi(struct buf *out)
{
	const struct route *const *group, *r, **all = NULL;
	size_t n = 0, cap = 0, i;

	for (group = routes_groups; *group; group++)
		for (r = *group; r->path; r++) {
			all = xgrow(all, n, &cap, sizeof(*all));
			all[n++] = r;
		}
	if (n)
		qsort(all, n, sizeof(*all), openapi_order);
	buf_puts(out, openapi_head);
	for (i = 0; i < n; i++) {
		if (i == 0 || strcmp(all[i]->path, all[i - 1]->path)) {
			buf_puts(out, "  ");
			openapi_path(out, all[i]->path);
			buf_puts(out, ":\n");
		}
		openapi_route(out, all[i]);
	}
	free(all);
}
