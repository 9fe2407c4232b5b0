/* SPDX-License-Identifier: Apache-2.0
 *
 * member.c - see member.h. The text is known to be well-formed, so that its ends are found by
 * quotes and brackets alone.
 */
#include "trace/member.h"

#include <string.h>

#include "trace/decimal.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static const char *blanks(const char *p)
{
	while (is_blank(*p))
		p++;
	return p;
}

/* Behind the text that begins at p, with its quotes. */
static const char *text_end(const char *p)
{
	for (p++; *p != '"'; p++)
		if (*p == '\\')
			p++;
	return p + 1;
}

/* Behind the array or object that begins at p. */
static const char *block_end(const char *p)
{
	unsigned depth = 0;

	for (;; p++) {
		if (*p == '"')
			p = text_end(p) - 1;
		else if (*p == '{' || *p == '[')
			depth++;
		else if ((*p == '}' || *p == ']') && !--depth)
			return p + 1;
	}
}

static const char *value_end(const char *p)
{
	if (*p == '"')
		return text_end(p);
	if (*p == '{' || *p == '[')
		return block_end(p);
	while (*p != ',' && *p != '}' && !is_blank(*p))
		p++;
	return p;
}

bool member_next(const char **p, struct member_part *key, struct member_part *value)
{
	const char *q = *p;

	if (*q == '}') /* what is behind it is no part of the event */
		return false;
	q = blanks(q + 1);
	if (*q != '"')
		return false;
	key->p = q + 1;
	q = text_end(q);
	key->len = (size_t)(q - 1 - key->p);
	value->p = blanks(blanks(q) + 1);
	q = value_end(value->p);
	value->len = (size_t)(q - value->p);
	*p = blanks(q);
	return true;
}

bool member_is(const struct member_part *v, const char *text)
{
	size_t n = strlen(text);

	return v->p && v->len == n + 2 && *v->p == '"' && !memcmp(v->p + 1, text, n);
}

bool member_number(const struct member_part *v, int shift, int64_t *ret)
{
	unsigned char text[64 + LEX_PAD] = {0};
	const char *p = v->p;
	size_t len = v->len;
	unsigned flags;

	if (p && len >= 2 && *p == '"') {
		p++;
		len -= 2;
	}
	if (!p || !len || len >= 64)
		return false;
	memcpy(text, p, len);
	return decimal_read(text, len, shift, ret, &flags) == len;
}
