/* SPDX-License-Identifier: Apache-2.0
 *
 * repair_value.c - one broken value written anew: read as its writer must have meant it, with
 * each doubt decided for the reading that keeps most.
 */
#include "trace/repair_priv.h"

#include "base/utf8.h"

#include <string.h>

struct mender {
	repair_place base, end;
	uint64_t offset; /* of base */
	struct buf *out;
	struct repair_result *r;
	unsigned depth;
};

static void note(struct mender *m, enum repair_kind kind, repair_place p)
{
	repair_note(m->r, kind, m->offset + (uint64_t)(p - m->base), p, m->end);
}

/* May a quote before p end a text? What must follow is a comma, a bracket or a colon, and
 * behind a comma in an object a key, which is a text that a colon follows. */
static bool may_end(struct mender *m, repair_place p, bool in_object)
{
	p = repair_blanks(p, m->end);
	if (p == m->end || *p == ']' || *p == '}' || *p == ':')
		return true;
	if (*p != ',')
		return false;
	p = repair_blanks(p + 1, m->end);
	if (p == m->end || !in_object)
		return true;
	if (*p == '}' || *p == ',')
		return true;
	if (*p != '"')
		return false;
	for (p++; p < m->end && *p != '"' && *p != '\n'; p++)
		p += *p == '\\' && p + 1 < m->end;
	if (p < m->end)
		p = repair_blanks(p + 1, m->end);
	return p == m->end || *p == ':';
}

static repair_place escape(struct mender *m, repair_place p)
{
	static const char known[] = "\"\\/bfnrt";
	bool whole = m->end - p >= 6 && p[1] == 'u';

	for (int i = 2; whole && i < 6; i++)
		whole = (p[i] >= '0' && p[i] <= '9') || ((p[i] | 32) >= 'a' && (p[i] | 32) <= 'f');
	if (whole) {
		buf_append(m->out, p, 6);
		return p + 6;
	}
	if (p + 1 < m->end && p[1] && strchr(known, p[1])) {
		buf_append(m->out, p, 2);
		return p + 2;
	}
	note(m, REPAIR_ESCAPE, p);
	buf_puts(m->out, "\\\\");
	return p + 1;
}

static repair_place odd_byte(struct mender *m, repair_place p)
{
	size_t n;

	if (*p < 0x20) {
		note(m, REPAIR_CONTROL, p);
		buf_printf(m->out, "\\u%04x", *p);
		return p + 1;
	}
	n = *p < 0x80 ? 1 : utf8_valid(p, (size_t)(m->end - p));
	if (!n) {
		note(m, REPAIR_UTF8, p);
		buf_puts(m->out, "\xef\xbf\xbd");
		return p + 1;
	}
	buf_append(m->out, p, n);
	return p + n;
}

/* Is the quote at p the first of a key, a comma before it? Then the text before lacks its
 * own closing quote. */
static bool opens_key(struct mender *m, repair_place p)
{
	repair_place q = p + 1;

	if (p[-1] != ',')
		return false;
	while (q < m->end && (*q == ' ' || *q == '_' || (unsigned)((*q | 32) - 'a') < 26))
		q++;
	return q > p + 1 && q < m->end && *q == '"' &&
	       (q = repair_blanks(q + 1, m->end)) < m->end && *q == ':';
}

/* p at the opening quote. */
static repair_place string(struct mender *m, repair_place p, bool in_object)
{
	buf_putc(m->out, '"');
	for (p++; p < m->end;) {
		if (*p == '\\') {
			p = escape(m, p);
		} else if (*p != '"') {
			p = odd_byte(m, p);
		} else if (may_end(m, p + 1, in_object)) {
			break;
		} else if (in_object && opens_key(m, p)) {
			note(m, REPAIR_QUOTE, p);
			m->out->len--; /* the comma */
			buf_putc(m->out, '"');
			return p - 1;
		} else {
			note(m, REPAIR_QUOTE, p);
			buf_puts(m->out, "\\\"");
			p++;
		}
	}
	buf_putc(m->out, '"');
	return p < m->end ? p + 1 : NULL;
}

static bool ends_word(unsigned char c)
{
	return c == ',' || c == '}' || c == ']' || c == ':' || c == '"' || repair_is_blank(c);
}

/* A number, true, false or null as it is; any other word as a text. */
static repair_place word(struct mender *m, repair_place p)
{
	repair_place from = p;

	while (p < m->end && !ends_word(*p))
		p++;
	if (p == from) {
		note(m, REPAIR_MISSING, p);
		buf_puts(m->out, "null");
		return p;
	}
	if (repair_is_json(from, (size_t)(p - from))) {
		buf_append(m->out, from, (size_t)(p - from));
		return p;
	}
	note(m, REPAIR_WORD, from);
	buf_putc(m->out, '"');
	while (from < p)
		from = *from == '\\' ? escape(m, from) : odd_byte(m, from);
	buf_putc(m->out, '"');
	return p;
}

static repair_place value(struct mender *m, repair_place p, bool in_object);

/* Commas before the next member. first: none is due. */
static repair_place separator(struct mender *m, repair_place p, bool first, char close)
{
	unsigned commas = 0;
	repair_place at = p = repair_blanks(p, m->end);

	for (; p < m->end && *p == ','; commas++)
		p = repair_blanks(p + 1, m->end);
	if (p == m->end)
		return NULL;
	if (*p == (unsigned char)close ? commas > 0 : commas != !first)
		note(m, REPAIR_COMMA, at);
	if (*p != (unsigned char)close && !first)
		buf_putc(m->out, ',');
	return p;
}

static repair_place key(struct mender *m, repair_place p)
{
	p = *p == '"' ? string(m, p, true) : word(m, p);
	if (!p)
		return NULL;
	p = repair_blanks(p, m->end);
	buf_putc(m->out, ':');
	if (p == m->end)
		return NULL;
	if (*p != ':') {
		note(m, REPAIR_MISSING, p);
		buf_puts(m->out, "null");
		return p;
	}
	return value(m, repair_blanks(p + 1, m->end), true);
}

static repair_place members(struct mender *m, repair_place p, bool is_object)
{
	char close = is_object ? '}' : ']';

	if (m->depth++ == REPAIR_DEPTH_MAX)
		return NULL;
	buf_putc(m->out, is_object ? '{' : '[');
	p++;
	for (bool first = true;; first = false) {
		repair_place from;

		p = separator(m, p, first, close);
		if (!p || m->out->error)
			return NULL;
		if (*p == (unsigned char)close)
			break;
		from = p;
		p = is_object ? key(m, p) : value(m, p, false);
		if (!p || p == from) /* no step forward: a bracket of the other kind */
			return NULL;
	}
	buf_putc(m->out, close);
	m->depth--;
	return p + 1;
}

static repair_place value(struct mender *m, repair_place p, bool in_object)
{
	if (p >= m->end)
		return NULL;
	if (*p == '{' || *p == '[')
		return members(m, p, *p == '{');
	return *p == '"' ? string(m, p, in_object) : word(m, p);
}

bool repair_value(const void *text, size_t len, uint64_t offset, struct buf *out,
		  struct repair_result *r)
{
	repair_place p = text;
	struct repair_result before = *r;
	struct mender m = {p, p + len, offset, out, r, 0};

	buf_reset(out);
	p = value(&m, repair_blanks(p, m.end), false);
	if (p && !out->error && repair_blanks(p, m.end) == m.end &&
	    repair_is_json(out->data, out->len))
		return true;
	*r = before; /* nothing was mended */
	return false;
}
