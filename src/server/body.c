/* SPDX-License-Identifier: Apache-2.0 */
#include "server/body.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/utf8.h"
#include "server/routes.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY_NUMBER_MAX 64

/* Where in the text we are; what: why it goes no further. */
struct body_walk {
	const char *p, *end;
	const char *what;
};

static bool body_fail(struct body_walk *w, const char *what)
{
	if (!w->what)
		w->what = what;
	return false;
}

static void body_blanks(struct body_walk *w)
{
	while (w->p < w->end && strchr(" \t\r\n", *w->p) && *w->p)
		w->p++;
}

/* The next character, if it is that one. */
static bool body_take(struct body_walk *w, char c)
{
	body_blanks(w);
	if (w->p == w->end || *w->p != c)
		return false;
	w->p++;
	return true;
}

static bool body_word(struct body_walk *w, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(w->end - w->p) < n || memcmp(w->p, word, n))
		return false;
	w->p += n;
	return true;
}

/* ---- strings -------------------------------------------------------------------------- */

static int body_hex(struct body_walk *w)
{
	int v = w->end - w->p < 4 ? -1 : utf8_hex4(w->p);

	if (v >= 0)
		w->p += 4;
	return v;
}

/* Behind "\u": a character, or two halves of one. */
static bool body_unicode(struct body_walk *w, struct buf *out)
{
	int c = body_hex(w), low;
	char text[4];

	if (c >= 0xd800 && c < 0xdc00) {
		if (!body_word(w, "\\u"))
			return body_fail(w, "half of a character");
		low = body_hex(w);
		if (low < 0xdc00 || low > 0xdfff)
			return body_fail(w, "half of a character");
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	if (c <= 0 || (c >= 0xdc00 && c <= 0xdfff))
		return body_fail(w, "an escape that is no character");
	buf_append(out, text, utf8_put(text, (uint32_t)c));
	return true;
}

static bool body_escape(struct body_walk *w, struct buf *out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at;

	if (w->p == w->end)
		return body_fail(w, "a string without an end");
	if (*w->p == 'u') {
		w->p++;
		return body_unicode(w, out);
	}
	at = *w->p ? strchr(from, *w->p) : NULL;
	if (!at)
		return body_fail(w, "an escape that JSON does not know");
	buf_putc(out, to[at - from]);
	w->p++;
	return true;
}

/* A string, behind its first quote. */
static bool body_string(struct body_walk *w, struct buf *out)
{
	size_t n;

	while (w->p < w->end && *w->p != '"') {
		if (*w->p == '\\') {
			w->p++;
			if (!body_escape(w, out))
				return false;
			continue;
		}
		n = utf8_valid((const unsigned char *)w->p, (size_t)(w->end - w->p));
		if (!n || (unsigned char)*w->p < 0x20)
			return body_fail(w, "a string that is no UTF-8, or has control characters");
		buf_append(out, w->p, n);
		w->p += n;
	}
	if (w->p == w->end)
		return body_fail(w, "a string without an end");
	w->p++;
	return true;
}

/* ---- values ----------------------------------------------------------------------------- */

static bool body_text(struct body_walk *w, struct body_field *f)
{
	struct buf b;
	size_t i;

	if (!body_take(w, '"'))
		return body_fail(w, "it is no string");
	buf_init(&b, f->max);
	if (!body_string(w, &b)) {
		buf_done(&b);
		return false;
	}
	for (i = 0; i < b.len; i++)
		if (((unsigned char)b.data[i] < 0x20 && !strchr("\n\t", b.data[i])) ||
		    b.data[i] == 0x7f)
			body_fail(w, "it has control characters");
	if (b.error)
		body_fail(w, "it is too long");
	else if (!w->what)
		f->text = xstrdup(buf_str(&b));
	buf_done(&b);
	return !w->what;
}

static bool body_number(struct body_walk *w, struct body_field *f)
{
	char text[BODY_NUMBER_MAX];
	size_t n = 0;

	body_blanks(w);
	while (w->p + n < w->end && n + 1 < sizeof(text) && w->p[n] &&
	       strchr("+-.0123456789eE", w->p[n])) {
		text[n] = w->p[n];
		n++;
	}
	text[n] = '\0';
	if (!n || number_double(text, &f->number))
		return body_fail(w, "it is no number");
	w->p += n;
	if (f->number < f->lo || f->number > f->hi)
		return body_fail(w, "it is out of its range");
	return true;
}

static bool body_flag(struct body_walk *w, struct body_field *f)
{
	body_blanks(w);
	f->flag = body_word(w, "true");
	if (!f->flag && !body_word(w, "false"))
		return body_fail(w, "it is neither true nor false");
	return true;
}

static bool (*const body_values[])(struct body_walk *, struct body_field *) = {
	[BODY_TEXT] = body_text,
	[BODY_NUMBER] = body_number,
	[BODY_FLAG] = body_flag,
};

static struct body_field *body_find(struct body_field *fields, size_t n, const char *name)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!strcmp(fields[i].name, name))
			return &fields[i];
	return NULL;
}

/* "key": value. name (128 bytes) is the key that is wrong, if one is. */
static bool body_pair(struct body_walk *w, struct body_field *fields, size_t n, char *name)
{
	struct body_field *f;
	struct buf b;
	bool is;

	buf_init(&b, 127);
	is = body_take(w, '"') && body_string(w, &b) && body_take(w, ':');
	snprintf(name, 128, "%s", is ? buf_str(&b) : "");
	f = is ? body_find(fields, n, b.error ? "" : buf_str(&b)) : NULL;
	buf_done(&b);
	if (!is)
		return body_fail(w, "it is no JSON object of names and values");
	if (!f || f->has)
		return body_fail(w, f ? "it is there twice" : "it is not known here");
	f->has = true;
	return body_values[f->type](w, f);
}

static bool body_object(struct body_walk *w, struct body_field *fields, size_t n, char *name)
{
	if (!body_take(w, '{'))
		return body_fail(w, "it is no JSON object");
	if (!body_take(w, '}')) {
		do {
			if (!body_pair(w, fields, n, name))
				return false;
		} while (body_take(w, ','));
		name[0] = '\0';
		if (!body_take(w, '}'))
			return body_fail(w, "it is no JSON object, or has values of other kinds");
	}
	body_blanks(w);
	return w->p == w->end || body_fail(w, "there is more behind the object");
}

bool body_read(const struct http_request *r, struct body_field *fields, size_t n,
	       struct http_reply *reply)
{
	struct body_walk w = {.p = r->body, .end = r->body + r->body_len};
	char name[128] = "";
	size_t i;

	if (!body_object(&w, fields, n, name)) {
		reply_error(reply, 400, "bad-body", "The body%s%.100s%s: %s.",
			    name[0] ? "'s \"" : "", name, name[0] ? "\"" : "", w.what);
		return false;
	}
	for (i = 0; i < n; i++) {
		if (!fields[i].is_needed || fields[i].has)
			continue;
		reply_error(reply, 400, "bad-body", "The body lacks \"%s\".", fields[i].name);
		return false;
	}
	return true;
}

void body_done(struct body_field *fields, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		free(fields[i].text);
		fields[i].text = NULL;
	}
}
