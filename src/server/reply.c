/* SPDX-License-Identifier: Apache-2.0
 *
 * reply.c - what all answers have in common: errors, JSON, tags of what stays the same, and
 * the fields that tell a browser what our page may do.
 */
#include "server/routes_priv.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

void reply_json(struct http_reply *reply, struct json *j)
{
	reply->type = "application/json";
	reply->body.max = ROUTE_JSON_MAX;
	json_init(j, &reply->body);
}

void reply_error(struct http_reply *reply, int status, const char *code, const char *fmt, ...)
{
	char message[1536];
	struct json j;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	if (reply->has_fd)
		close(reply->fd);
	buf_done(&reply->body);
	*reply = (struct http_reply){.status = status, .body = reply->body};
	reply_json(reply, &j);
	json_object(&j);
	json_key(&j, "error");
	json_object(&j);
	json_kstr(&j, "code", code);
	json_kstr(&j, "message", message);
	json_object_end(&j);
	json_object_end(&j);
}

/* Eight bytes at a time: answers may be large. */
static uint64_t reply_hash(const char *data, size_t len)
{
	uint64_t h = 0x9e3779b97f4a7c15u ^ len, word;
	size_t i;

	for (i = 0; i + 8 <= len; i += 8) {
		memcpy(&word, data + i, 8);
		h = (h ^ word) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	word = 0;
	if (len > i)
		memcpy(&word, data + i, len - i);
	h = (h ^ word) * 0xc4ceb9fe1a85ec53u;
	return h ^ h >> 29;
}

void reply_etag(struct http_reply *reply)
{
	if (!reply->body.error && (!reply->status || reply->status == 200))
		snprintf(reply->etag, sizeof(reply->etag), "W/\"%016llx\"",
			 (unsigned long long)reply_hash(buf_str(&reply->body), reply->body.len));
}

static bool reply_has(const struct http_reply *reply, const char *name)
{
	size_t i;

	for (i = 0; i < reply->n_headers; i++)
		if (!strcasecmp(reply->headers[i].name, name))
			return true;
	return false;
}

void reply_policy(struct http_reply *reply, const char *scripts)
{
	char policy[sizeof(reply->headers[0].value)];

	snprintf(policy, sizeof(policy),
		 "default-src 'none'; script-src 'self'%s; style-src 'self'; "
		 "img-src 'self' data: blob:; connect-src 'self'; font-src 'none'; "
		 "frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
		 scripts);
	http_header(reply, "Content-Security-Policy", policy);
}

void reply_secure(struct http_reply *reply)
{
	static const struct {
		const char *name, *value;
	} fields[] = {
		{"X-Content-Type-Options", "nosniff"},
		{"Referrer-Policy", "no-referrer"},
		{"Cross-Origin-Opener-Policy", "same-origin"},
		{"Cross-Origin-Resource-Policy", "same-origin"},
	};
	size_t i;

	if (!reply_has(reply, "Content-Security-Policy"))
		reply_policy(reply, "");
	for (i = 0; i < ARRAY_LEN(fields); i++)
		if (!reply_has(reply, fields[i].name))
			http_header(reply, fields[i].name, fields[i].value);
}
