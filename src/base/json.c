/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "base/utf8.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_init(struct json *j, struct buf *out)
{
	*j = (struct json){.out = out};
}

static void json_item(struct json *j)
{
	if (j->after_key) {
		j->after_key = false;
		return;
	}
	if (j->has_item[j->depth])
		buf_putc(j->out, ',');
	j->has_item[j->depth] = true;
}

static void json_open(struct json *j, char c)
{
	json_item(j);
	buf_putc(j->out, c);
	assert(j->depth + 1 < JSON_DEPTH_MAX);
	j->has_item[++j->depth] = false;
}

static void json_close(struct json *j, char c)
{
	assert(j->depth > 0);
	j->depth--;
	buf_putc(j->out, c);
}

void json_object(struct json *j)
{
	json_open(j, '{');
}

void json_object_end(struct json *j)
{
	json_close(j, '}');
}

void json_array(struct json *j)
{
	json_open(j, '[');
}

void json_array_end(struct json *j)
{
	json_close(j, ']');
}

static void json_quote(struct buf *b, const char *s, size_t len)
{
	static const char escapes[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
				       ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\'};
	const unsigned char *p = (const unsigned char *)s;
	size_t i = 0, n;

	buf_putc(b, '"');
	while (i < len) {
		if (p[i] < sizeof(escapes) && escapes[p[i]]) {
			buf_putc(b, '\\');
			buf_putc(b, escapes[p[i++]]);
		} else if (p[i] < 0x20) {
			buf_printf(b, "\\u%04x", p[i++]);
		} else if ((n = utf8_valid(p + i, len - i)) > 0) {
			buf_append(b, p + i, n);
			i += n;
		} else {
			buf_puts(b, "\xef\xbf\xbd");
			i++;
		}
	}
	buf_putc(b, '"');
}

void json_key(struct json *j, const char *key)
{
	json_item(j);
	json_quote(j->out, key, strlen(key));
	buf_putc(j->out, ':');
	j->after_key = true;
}

void json_strn(struct json *j, const char *s, size_t len)
{
	json_item(j);
	json_quote(j->out, s, len);
}

void json_str(struct json *j, const char *s)
{
	if (s)
		json_strn(j, s, strlen(s));
	else
		json_null(j);
}

void json_int(struct json *j, int64_t v)
{
	json_item(j);
	buf_printf(j->out, "%lld", (long long)v);
}

void json_uint(struct json *j, uint64_t v)
{
	json_item(j);
	buf_printf(j->out, "%llu", (unsigned long long)v);
}

void json_bool(struct json *j, bool v)
{
	json_raw(j, v ? "true" : "false");
}

void json_null(struct json *j)
{
	json_raw(j, "null");
}

void json_raw(struct json *j, const char *text)
{
	json_item(j);
	buf_puts(j->out, text);
}

/* Most numbers in our documents are whole: counts, steps, NaNs of a bucket. */
static void json_put_whole(struct buf *b, int64_t v)
{
	char text[24], *p = text + sizeof(text);
	uint64_t rest = v < 0 ? -(uint64_t)v : (uint64_t)v;

	do
		*--p = (char)('0' + rest % 10);
	while (rest /= 10);
	if (v < 0)
		*--p = '-';
	buf_append(b, p, (size_t)(text + sizeof(text) - p));
}

void json_put_double(struct buf *b, double v)
{
	char text[40];
	int digits;

	if (isnan(v)) {
		buf_puts(b, "NaN");
		return;
	}
	if (isinf(v)) {
		buf_puts(b, v > 0 ? "Infinity" : "-Infinity");
		return;
	}
	if (fabs(v) < 1e15 && v == (double)(int64_t)v && !(v == 0 && signbit(v))) {
		json_put_whole(b, (int64_t)v);
		return;
	}
	/* 15 digits are exact for any normal double that has no more; the others
	 * (subnormal) may need only one. */
	for (digits = fabs(v) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	buf_puts(b, text);
}

void json_double(struct json *j, double v)
{
	json_item(j);
	if (!isfinite(v))
		buf_putc(j->out, '"');
	json_put_double(j->out, v);
	if (!isfinite(v))
		buf_putc(j->out, '"');
}

void json_kstr(struct json *j, const char *key, const char *s)
{
	json_key(j, key);
	json_str(j, s);
}

void json_kint(struct json *j, const char *key, int64_t v)
{
	json_key(j, key);
	json_int(j, v);
}

void json_kuint(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	json_uint(j, v);
}

void json_kdouble(struct json *j, const char *key, double v)
{
	json_key(j, key);
	json_double(j, v);
}

void json_kbool(struct json *j, const char *key, bool v)
{
	json_key(j, key);
	json_bool(j, v);
}
