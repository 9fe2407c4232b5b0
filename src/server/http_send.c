/* SPDX-License-Identifier: Apache-2.0
 *
 * http_send.c - answers as libmicrohttpd wants them: fields, 304, gzip, heads only.
 */
#include "server/http_priv.h"

#include <isa-l/igzip_lib.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define HTTP_GZIP_LEAST 1024u

void http_header(struct http_reply *reply, const char *name, const char *value)
{
	if (reply->n_headers == HTTP_HEADERS_MAX)
		return;
	reply->headers[reply->n_headers].name = name;
	snprintf(reply->headers[reply->n_headers].value, sizeof(reply->headers->value), "%s",
		 value);
	reply->n_headers++;
}

/* Is the word in a list like "gzip, br;q=0"? One with q=0 is not. */
static bool http_lists(const char *list, const char *word)
{
	size_t n = strlen(word);
	const char *p = list, *q;

	while (p && *p) {
		p += strspn(p, " \t,");
		if (!strncasecmp(p, word, n) && strchr(" \t,;", p[n])) {
			q = p + n + strspn(p + n, " \t;");
			return strncasecmp(q, "q=", 2) || strtod(q + 2, NULL) > 0;
		}
		p += strcspn(p, ",");
	}
	return false;
}

/* Tags are compared weakly, as If-None-Match is. */
bool http_knows(const struct http_request *r, const char *tag)
{
	const char *have = http_field(r, "If-None-Match"), *p;
	size_t n = strlen(tag);

	if (!have || !*tag)
		return false;
	if (!strcmp(have, "*"))
		return true;
	for (p = strstr(have, tag); p; p = strstr(p + 1, tag))
		if (!p[n] || strchr(" ,", p[n]))
			return true;
	return false;
}

static bool http_is_known(const struct http_call *call)
{
	return call->reply.status == 200 && http_knows(&call->request, call->reply.etag);
}

/* Compress in one call; false: it is left as it is. */
static bool http_gzip(struct buf *b)
{
	uint8_t level[ISAL_DEF_LVL1_DEFAULT];
	struct isal_zstream z;
	struct buf out;
	char *to;

	buf_init(&out, b->len + b->len / 8 + 4096);
	to = buf_reserve(&out, out.max);
	if (!to)
		return false;
	isal_deflate_stateless_init(&z);
	z.level = 1;
	z.level_buf = level;
	z.level_buf_size = sizeof(level);
	z.gzip_flag = IGZIP_GZIP;
	z.end_of_stream = 1;
	z.next_in = (uint8_t *)b->data;
	z.avail_in = (uint32_t)b->len;
	z.next_out = (uint8_t *)to;
	z.avail_out = (uint32_t)out.max;
	if (isal_deflate_stateless(&z) != COMP_OK || z.total_out >= b->len) {
		buf_done(&out);
		return false;
	}
	out.len = z.total_out;
	buf_done(b);
	*b = out;
	return true;
}

/* Bytes that are compressed, for a client that does not want them so. */
static bool http_gunzip(struct http_reply *r)
{
	const uint8_t *in = r->text;
	struct inflate_state z;
	uint32_t plain;
	struct buf out;
	char *to;

	if (r->text_len < 18)
		return false;
	memcpy(&plain, in + r->text_len - 4, 4);
	buf_init(&out, (size_t)plain + 1);
	to = buf_reserve(&out, plain);
	if (!to)
		return false;
	isal_inflate_init(&z);
	z.crc_flag = ISAL_GZIP;
	z.next_in = (uint8_t *)in;
	z.avail_in = (uint32_t)r->text_len;
	z.next_out = (uint8_t *)to;
	z.avail_out = plain;
	if (isal_inflate_stateless(&z) != ISAL_DECOMP_OK || z.total_out != plain) {
		buf_done(&out);
		return false;
	}
	out.len = plain;
	buf_done(&r->body);
	r->body = out;
	r->text = NULL;
	return true;
}

void http_prepare(struct http_call *call)
{
	bool wants_gzip = http_lists(http_field(&call->request, "Accept-Encoding"), "gzip");
	struct http_reply *r = &call->reply;

	if (r->stream || r->has_fd)
		return;
	if (http_is_known(call)) {
		buf_done(&r->body);
		return;
	}
	if (r->text)
		call->is_gzip = r->text_is_gzip && (wants_gzip || !http_gunzip(r));
	else if (r->body.len > HTTP_GZIP_LEAST && wants_gzip)
		call->is_gzip = http_gzip(&r->body);
}

/* ---- answers that wait ------------------------------------------------------------------ */

static atomic_uint_least64_t http_held; /* by all clients of all servers */

static void http_refuse(struct http_reply *r)
{
	static const char text[] =
		"{\"error\":{\"code\":\"busy\",\"message\":\"Too much of other answers waits for "
		"slow clients; ask again, or for less.\"}}";

	buf_done(&r->body);
	r->status = MHD_HTTP_SERVICE_UNAVAILABLE;
	r->type = "application/json";
	r->text = text;
	r->text_len = sizeof(text) - 1;
	r->etag[0] = '\0';
	r->is_immutable = false;
	http_header(r, "Retry-After", "10");
}

void http_hold(struct http_call *call)
{
	uint64_t most = call->http->o.held_max ? call->http->o.held_max : HTTP_HELD_MAX;
	size_t n = call->reply.body.len;

	if (atomic_fetch_add(&http_held, n) + n <= most || n <= HTTP_HELD_SMALL) {
		call->held = n;
		return;
	}
	atomic_fetch_sub(&http_held, n);
	call->is_gzip = false;
	http_refuse(&call->reply);
}

void http_unhold(struct http_call *call)
{
	atomic_fetch_sub(&http_held, call->held);
	call->held = 0;
}

/* ---- giving them ------------------------------------------------------------------------- */

static struct MHD_Response *http_bytes(struct http_call *call)
{
	const struct mhd_api *api = call->http->api;
	struct http_reply *r = &call->reply;
	struct MHD_Response *response;

	if (r->text)
		return api->create_response_from_buffer(r->text_len, (void *)r->text,
							MHD_RESPMEM_PERSISTENT);
	response =
		api->create_response_from_buffer(r->body.len, r->body.data, MHD_RESPMEM_MUST_FREE);
	if (response)
		r->body = (struct buf){.max = r->body.max};
	return response;
}

static struct MHD_Response *http_response(struct http_call *call)
{
	const struct mhd_api *api = call->http->api;
	struct http_reply *r = &call->reply;
	struct MHD_Response *response;

	if (http_is_known(call)) {
		r->status = MHD_HTTP_NOT_MODIFIED;
		return api->create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
	}
	if (r->stream)
		return http_stream_response(api, call->mhd, r->stream);
	if (r->has_fd) {
		response = api->create_response_from_fd_at_offset64(r->size, r->fd, r->offset);
		r->has_fd = !response;
		return response;
	}
	return http_bytes(call);
}

static void http_fields(struct http_call *call, struct MHD_Response *to)
{
	const struct mhd_api *api = call->http->api;
	const struct http_reply *r = &call->reply;
	size_t i;

	if (r->type && r->status != MHD_HTTP_NOT_MODIFIED)
		api->add_response_header(to, "Content-Type", r->type);
	if (call->is_gzip)
		api->add_response_header(to, "Content-Encoding", "gzip");
	if (r->etag[0])
		api->add_response_header(to, "ETag", r->etag);
	api->add_response_header(to, "Cache-Control",
				 r->is_immutable ? "public, max-age=31536000, immutable"
				 : r->stream     ? "no-store"
						 : "no-cache");
	api->add_response_header(to, "Vary", "Accept-Encoding");
	for (i = 0; i < r->n_headers; i++)
		api->add_response_header(to, r->headers[i].name, r->headers[i].value);
}

enum MHD_Result http_send(struct http_call *call)
{
	const struct mhd_api *api = call->http->api;
	struct MHD_Response *response;
	enum MHD_Result sent;

	response = http_response(call);
	if (!response)
		return MHD_NO;
	http_fields(call, response);
	sent = api->queue_response(call->mhd, (unsigned)call->reply.status, response);
	api->destroy_response(response);
	return sent;
}
