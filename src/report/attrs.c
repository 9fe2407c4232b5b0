/* SPDX-License-Identifier: Apache-2.0
 *
 * attrs.c - see attrs.h. A recursive descent over the eight productions of
 * JSON that copies tokens as it goes.
 */
#include "report/attrs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "report/jsonwalk.h"

struct attrs_walk {
	const char *p, *end;
	struct buf *out;
	int depth;
};

static bool attrs_value(struct attrs_walk *w);

static char attrs_peek(struct attrs_walk *w)
{
	while (w->p < w->end && strchr(" \t\r\n", *w->p))
		w->p++;
	return w->p < w->end ? *w->p : '\0';
}

static bool attrs_take(struct attrs_walk *w, char c)
{
	if (attrs_peek(w) != c)
		return false;
	buf_putc(w->out, c);
	w->p++;
	return true;
}

/* Length of one character of a string, escapes whole; 0 if it is none. */
static size_t attrs_char(const char *p, size_t len)
{
	if (p[0] != '\\')
		return (unsigned char)p[0] < 0x20 ? 0 : utf8_valid((const unsigned char *)p, len);
	if (len >= 2 && p[1] != '\0' && strchr("\"\\/bfnrt", p[1]))
		return 2;
	if (len >= 6 && p[1] == 'u' && strspn(p + 2, "0123456789abcdefABCDEF") >= 4)
		return 6;
	return 0;
}

static bool attrs_string(struct attrs_walk *w)
{
	const char *start;
	size_t n;

	if (attrs_peek(w) != '"')
		return false;
	start = w->p++;
	while (w->p < w->end && *w->p != '"') {
		n = attrs_char(w->p, (size_t)(w->end - w->p));
		if (n == 0)
			return false;
		w->p += n;
	}
	if (w->p >= w->end)
		return false;
	w->p++;
	buf_append(w->out, start, (size_t)(w->p - start));
	return true;
}

static size_t attrs_digits(const char *p)
{
	return strspn(p, "0123456789");
}

static bool attrs_number(struct attrs_walk *w)
{
	const char *p = w->p;
	size_t n;

	p += *p == '-';
	n = attrs_digits(p);
	if (n == 0 || (n > 1 && *p == '0'))
		return false;
	p += n;
	if (*p == '.') {
		n = attrs_digits(p + 1);
		if (n == 0)
			return false;
		p += 1 + n;
	}
	if (*p == 'e' || *p == 'E') {
		p++;
		p += *p == '+' || *p == '-';
		n = attrs_digits(p);
		if (n == 0)
			return false;
		p += n;
	}
	buf_append(w->out, w->p, (size_t)(p - w->p));
	w->p = p;
	return true;
}

static bool attrs_word(struct attrs_walk *w)
{
	static const char *const words[] = {"true", "false", "null"};
	size_t i, n;

	for (i = 0; i < 3; i++) {
		n = strlen(words[i]);
		if (strncmp(w->p, words[i], n) == 0) {
			buf_append(w->out, w->p, n);
			w->p += n;
			return true;
		}
	}
	return false;
}

/* The members of an object or the items of an array, with both brackets. */
static bool attrs_list(struct attrs_walk *w, char open, char close)
{
	if (++w->depth > ATTRS_DEPTH_MAX || !attrs_take(w, open))
		return false;
	if (!attrs_take(w, close)) {
		do {
			if (open == '{' && !(attrs_string(w) && attrs_take(w, ':')))
				return false;
			if (!attrs_value(w))
				return false;
		} while (attrs_take(w, ','));
		if (!attrs_take(w, close))
			return false;
	}
	w->depth--;
	return true;
}

static bool attrs_value(struct attrs_walk *w)
{
	switch (attrs_peek(w)) {
	case '{':
		return attrs_list(w, '{', '}');
	case '[':
		return attrs_list(w, '[', ']');
	case '"':
		return attrs_string(w);
	case 't':
	case 'f':
	case 'n':
		return attrs_word(w);
	default:
		return attrs_number(w);
	}
}

int attrs_compact(const char *text, struct buf *out)
{
	struct attrs_walk w = {.p = text, .end = text + strlen(text), .out = out};
	size_t before = out->len;
	int error = out->error;
	bool is = attrs_peek(&w) == '{' && attrs_list(&w, '{', '}') && attrs_peek(&w) == '\0';

	if (is && !out->error)
		return 0;
	/* With a token missing it is well-formed no more. */
	is = is || out->error != error;
	out->error = error;
	out->len = before;
	if (out->data)
		out->data[before] = '\0';
	return is ? -EFBIG : -EBADMSG;
}

void attrs_json(struct json *j, const char *key, const char *text)
{
	struct buf b;

	if (!text || text[0] == '\0')
		text = "{}";
	buf_init(&b, strlen(text));
	json_key(j, key);
	if (attrs_compact(text, &b) == 0)
		json_raw(j, buf_str(&b));
	else
		json_str(j, text);
	buf_done(&b);
}

void attrs_put_ns(struct json *j, const char *key, int64_t ns)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)ns);
	json_kstr(j, key, text);
}

int64_t attrs_ns(const char *object, const char *key)
{
	char text[32];

	return strtoll(jsonwalk_string(jsonwalk_get(object, key), text, sizeof(text)), NULL, 10);
}
