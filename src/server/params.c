/* SPDX-License-Identifier: Apache-2.0
 *
 * params.c - parameters of a request, held against the table of its route.
 */
#include "server/routes_priv.h"

#include "base/mem.h"
#include "base/near.h"
#include "base/number.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PARAMS_TEXT_MAX 1024

static const struct param *params_find(const struct param *p, const char *name)
{
	for (; p && p->name; p++)
		if (!strcmp(p->name, name))
			return p;
	return NULL;
}

static bool params_unknown(const struct route *route, const char *name, struct http_reply *reply)
{
	struct near near = {0};
	const struct param *p;
	char all[1024] = "";
	size_t n = 0;

	for (p = route->params; p && p->name; p++) {
		near_try(&near, name, p->name);
		if (n < sizeof(all))
			n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", n ? ", " : "",
					      p->name);
	}
	reply_error(reply, 400, "bad-parameter", "%s takes no \"%.64s\"%s%s%s. It takes %s.",
		    route->path, name, near.best ? "; did you mean \"" : "",
		    near.best ? near.best : "", near.best ? "\"?" : "", n ? all : "none");
	return false;
}

/* ---- values ---------------------------------------------------------------------------- */

static bool params_text(const struct param *p, const char *v, struct http_reply *reply)
{
	size_t max = p->hi ? (size_t)p->hi : PARAMS_TEXT_MAX, len = strlen(v), i, n;

	if (len > max || len < (size_t)p->lo) {
		reply_error(reply, 400, "bad-parameter",
			    "%s has %zu bytes; it may have %" PRId64 " to %zu.", p->name, len,
			    p->lo, max);
		return false;
	}
	for (i = 0; i < len; i += n) {
		n = utf8_valid((const unsigned char *)v + i, len - i);
		if (n && (unsigned char)v[i] >= 0x20 && v[i] != 0x7f)
			continue;
		reply_error(reply, 400, "bad-parameter",
			    "%s has, at byte %zu, what is no printable UTF-8.", p->name, i);
		return false;
	}
	return true;
}

static bool params_int(const struct param *p, const char *v, struct http_reply *reply)
{
	int64_t n;

	if (!number_int(v, &n) && n >= p->lo && n <= p->hi)
		return true;
	reply_error(reply, 400, "bad-parameter",
		    "%s is \"%.64s\"; it may be a whole number from %" PRId64 " to %" PRId64 ".",
		    p->name, v, p->lo, p->hi);
	return false;
}

static bool params_is_yes(const char *v)
{
	return !strcmp(v, "1") || !strcmp(v, "true");
}

static bool params_flag(const struct param *p, const char *v, struct http_reply *reply)
{
	if (params_is_yes(v) || !strcmp(v, "0") || !strcmp(v, "false"))
		return true;
	reply_error(reply, 400, "bad-parameter", "%s is \"%.64s\"; it may be 0, 1, true or false.",
		    p->name, v);
	return false;
}

static bool params_choice(const struct param *p, const char *v, struct http_reply *reply)
{
	const char *c = p->choices;
	size_t n = strlen(v), len;

	for (; *c; c += len + (c[len] == '|')) {
		len = strcspn(c, "|");
		if (len == n && !memcmp(c, v, n))
			return true;
	}
	reply_error(reply, 400, "bad-parameter", "%s is \"%.64s\"; it may be one of %s.", p->name,
		    v, p->choices);
	return false;
}

static bool (*const params_checks[])(const struct param *, const char *, struct http_reply *) = {
	[PARAM_TEXT] = params_text,
	[PARAM_INT] = params_int,
	[PARAM_FLAG] = params_flag,
	[PARAM_CHOICE] = params_choice,
};

/* ---- all of them ------------------------------------------------------------------------ */

static bool params_is_earlier(const struct http_request *r, size_t i)
{
	size_t k;

	for (k = 0; k < i; k++)
		if (!strcmp(r->params[k].name, r->params[i].name))
			return true;
	return false;
}

static bool params_given(const struct http_request *r, const char *name)
{
	size_t i;

	for (i = 0; i < r->n_params; i++)
		if (!strcmp(r->params[i].name, name))
			return true;
	return false;
}

bool params_check(const struct route *route, const struct http_request *r, struct http_reply *reply)
{
	const struct param *p;
	size_t i;

	if (r->has_more_params) {
		reply_error(reply, 400, "bad-parameter",
			    "More than %u parameters, or a NUL in one of them.", HTTP_PARAMS_MAX);
		return false;
	}
	for (i = 0; i < r->n_params; i++) {
		p = params_find(route->params, r->params[i].name);
		if (!p)
			return params_unknown(route, r->params[i].name, reply);
		if (!p->is_many && params_is_earlier(r, i)) {
			reply_error(reply, 400, "bad-parameter", "%s is there twice.", p->name);
			return false;
		}
		if (!params_checks[p->type](p, r->params[i].value, reply))
			return false;
	}
	for (p = route->params; p && p->name; p++) {
		if (!p->is_needed || params_given(r, p->name))
			continue;
		reply_error(reply, 400, "bad-parameter", "%s needs the parameter %s: %s",
			    route->path, p->name, p->help);
		return false;
	}
	return true;
}

/* ---- for handlers ------------------------------------------------------------------------ */

const char *param_nth(const struct route_ask *a, const char *name, size_t n)
{
	const struct http_request *r = a->request;
	size_t i;

	for (i = 0; i < r->n_params; i++)
		if (!strcmp(r->params[i].name, name) && !n--)
			return r->params[i].value;
	return NULL;
}

const char *param_text(const struct route_ask *a, const char *name)
{
	return param_nth(a, name, 0);
}

int64_t param_int(const struct route_ask *a, const char *name, int64_t missing)
{
	const char *v = param_nth(a, name, 0);
	int64_t n;

	return v && !number_int(v, &n) ? n : missing;
}

bool param_flag(const struct route_ask *a, const char *name)
{
	const char *v = param_nth(a, name, 0);

	return v && params_is_yes(v);
}
