/* SPDX-License-Identifier: Apache-2.0
 *
 * repair_strict.c - a check of JSON to the letter (RFC 8259), so that what is copied is what
 * every reader takes.
 */
#include "trace/repair_priv.h"

#include "base/utf8.h"

#include <string.h>

static repair_place more(bool *ret_more)
{
	*ret_more = true;
	return NULL;
}

static bool is_hex(unsigned char c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

static repair_place escape(repair_place p, repair_place end, bool *ret_more)
{
	if (p + 1 >= end)
		return more(ret_more);
	if (p[1] != 'u')
		return strchr("\"\\/bfnrt", p[1]) && p[1] ? p + 2 : NULL;
	for (int i = 2; i < 6; i++) {
		if (p + i >= end)
			return more(ret_more);
		if (!is_hex(p[i]))
			return NULL;
	}
	return p + 6;
}

static repair_place string(repair_place p, repair_place end, bool *ret_more)
{
	for (p++; p < end;) {
		size_t n;

		if (*p == '"')
			return p + 1;
		if (*p == '\\') {
			p = escape(p, end, ret_more);
			if (!p)
				return NULL;
			continue;
		}
		if (*p < 0x20)
			return NULL;
		n = *p < 0x80 ? 1 : utf8_valid(p, (size_t)(end - p));
		if (!n) {
			*ret_more = end - p < 4;
			return NULL;
		}
		p += n;
	}
	return more(ret_more);
}

static repair_place digits(repair_place p, repair_place end)
{
	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p;
}

static repair_place number(repair_place p, repair_place end, bool *ret_more)
{
	repair_place from;

	p += *p == '-';
	from = p;
	p = digits(p, end);
	if (p == from || (*from == '0' && p > from + 1))
		return p == end ? more(ret_more) : NULL;
	if (p < end && *p == '.') {
		from = ++p;
		p = digits(p, end);
		if (p == from)
			return p == end ? more(ret_more) : NULL;
	}
	if (p < end && (*p | 32) == 'e') {
		p++;
		if (p < end && (*p == '-' || *p == '+'))
			p++;
		from = p;
		p = digits(p, end);
		if (p == from)
			return p == end ? more(ret_more) : NULL;
	}
	return p == end ? more(ret_more) : p;
}

static repair_place word(repair_place p, repair_place end, bool *ret_more)
{
	static const char *const words[] = {"true", "false", "null"};

	for (int i = 0; i < 3; i++) {
		size_t n = strlen(words[i]), have = (size_t)(end - p) < n ? (size_t)(end - p) : n;

		if (memcmp(p, words[i], have) != 0)
			continue;
		return have < n ? more(ret_more) : p + n;
	}
	return NULL;
}

static repair_place scalar(repair_place p, repair_place end, bool *ret_more)
{
	if (*p == '"')
		return string(p, end, ret_more);
	if (*p == '-' || (*p >= '0' && *p <= '9'))
		return number(p, end, ret_more);
	return word(p, end, ret_more);
}

/* After [, { or a comma: the key, if any, then blanks. p at the value, or, where closed is not
 * NULL and becomes true, at the closing bracket. */
static repair_place member(repair_place p, repair_place end, bool is_object, bool *closed,
			   bool *ret_more)
{
	p = repair_blanks(p, end);
	if (p == end)
		return more(ret_more);
	if (closed) {
		*closed = *p == (is_object ? '}' : ']');
		if (*closed)
			return p;
	}
	if (!is_object)
		return p;
	if (*p != '"')
		return NULL;
	p = string(p, end, ret_more);
	if (!p)
		return NULL;
	p = repair_blanks(p, end);
	if (p == end)
		return more(ret_more);
	if (*p != ':')
		return NULL;
	p = repair_blanks(p + 1, end);
	return p == end ? more(ret_more) : p;
}

repair_place repair_strict(repair_place p, repair_place end, bool *ret_more)
{
	bool is_object[REPAIR_DEPTH_MAX], closed = false;
	unsigned depth = 0;

	*ret_more = false;
	for (;;) {
		if (p == end)
			return more(ret_more);
		if (closed) { /* nothing in it */
			closed = false;
			p++;
			depth--;
		} else if (*p == '{' || *p == '[') {
			if (depth == REPAIR_DEPTH_MAX)
				return NULL;
			is_object[depth++] = *p == '{';
			p = member(p + 1, end, is_object[depth - 1], &closed, ret_more);
			if (!p)
				return NULL;
			continue;
		} else {
			p = scalar(p, end, ret_more);
		}
		if (!p)
			return NULL;
		/* A value has ended: what follows it on its level? */
		for (;;) {
			if (!depth)
				return p;
			p = repair_blanks(p, end);
			if (p == end)
				return more(ret_more);
			if (*p == ',')
				break;
			if (*p != (is_object[depth - 1] ? '}' : ']'))
				return NULL;
			p++;
			depth--;
		}
		p = member(p + 1, end, is_object[depth - 1], NULL, ret_more);
		if (!p)
			return NULL;
	}
}

bool repair_is_json(const void *text, size_t len)
{
	repair_place p = text, end = p + len, from = repair_blanks(p, end);
	bool is_more;

	p = from < end ? repair_strict(from, end, &is_more) : NULL;
	/* A number at the very end is whole. */
	if (!p && from < end && is_more && (*from == '-' || (*from >= '0' && *from <= '9'))) {
		unsigned char copy[64] = {0};
		size_t n = (size_t)(end - from);

		if (n + 1 >= sizeof(copy))
			return false;
		memcpy(copy, from, n);
		copy[n] = ' ';
		p = repair_strict(copy, copy + n + 1, &is_more);
		return p == copy + n;
	}
	return p && repair_blanks(p, end) == end;
}
