/* SPDX-License-Identifier: Apache-2.0
 *
 * event_skip.h - values of an event that are passed over, whatever they are. Part of event.c as
 * event_value.h is, which includes it.
 */
#ifndef TRACE_EVENT_SKIP_H
#define TRACE_EVENT_SKIP_H

#include "trace/decimal.h"
#include "trace/reading.h"

typedef const unsigned char *place;

/* What most events come through. */
#define INLINED static inline __attribute__((always_inline))

static place bad(struct reader *r, place p, const char *expected)
{
	r->bad_at = p;
	r->bad_expected = expected;
	return NULL;
}

static bool is_after_value(unsigned char c)
{
	return c == ',' || c == '}' || c == ']' || c == ':' || lex_is_space(c);
}

/* p at the opening quote; result at the closing one. */
static place string_end(struct reader *r, place p, bool *ret_escaped)
{
	*ret_escaped = false;
	for (p = lex_string(p + 1, r->end); p < r->end && *p == '\\'; p = lex_string(p + 2, r->end))
		*ret_escaped = true;
	return p < r->end ? p : bad(r, r->end, "a quote that ends the text");
}

/* p at [ or {: behind its match. A text must be followed by what may follow one, so that a
 * stray quote is found at once. */
static place skip_nest(struct reader *r, place p)
{
	unsigned depth = 0;
	bool escaped;

	for (; p < r->end; p += LEX_STEP) {
		uint32_t m = lex_brackets(p);

		while (m) {
			place at = p + __builtin_ctz(m);

			if (*at == '"') {
				place end = string_end(r, at, &escaped);

				if (!end)
					return NULL;
				if (!is_after_value(end[1]))
					return bad(r, end + 1, "a comma or a bracket after a text");
				p = end + 1 - LEX_STEP;
				break;
			}
			if (*at == '[' || *at == '{')
				depth++;
			else if (!--depth)
				return at < r->end ? at + 1 : bad(r, r->end, "a bracket");
			m &= m - 1;
		}
	}
	return bad(r, r->end, "a closing bracket");
}

static place skip_word(struct reader *r, place p)
{
	static const char *const known[] = {"true", "false", "null"};
	place from = p;
	size_t len;
	char show[64];
	double d;

	while (lex_is_word(*p))
		p++;
	if (p >= r->end || p == from)
		return bad(r, p, "a value");
	if (*from == '-' || (*from >= '0' && *from <= '9'))
		return p;
	len = (size_t)(p - from);
	for (unsigned i = 0; i < 3; i++)
		if (len == strlen(known[i]) && !memcmp(from, known[i], len))
			return p;
	notes_add(r->t, decimal_double(from, len, &d) ? NOTES_NON_FINITE : NOTES_BARE_WORD,
		  reading_offset(r, from),
		  "found %s, expected a number, a text in quotes, true, false or null",
		  notes_show(from, p, show));
	return p;
}

static place skip_value(struct reader *r, place p)
{
	bool escaped;

	if (*p == '"') {
		p = string_end(r, p, &escaped);
		return p ? p + 1 : NULL;
	}
	if (*p == '[' || *p == '{')
		return skip_nest(r, p);
	return skip_word(r, p);
}

#endif
