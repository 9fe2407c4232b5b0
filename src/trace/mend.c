/* SPDX-License-Identifier: Apache-2.0
 *
 * mend.c - an event that is not JSON, written anew as JSON as far as its parts can be
 * told apart, and parsed again. The event's end is where the next event begins:
 * "}, {" followed by a key that events have.
 */
#include "trace/mend.h"

#include <errno.h>
#include <stdlib.h>

#include "trace/key.h"

#define AHEAD 256

typedef const unsigned char *place;

/* p at a quote: is it `"key":` with a key that events have (or any key)? Behind the colon, or
 * NULL. */
static place key_at(place p, place end, bool any, place *ret_key, size_t *ret_len)
{
	place from = p + 1, q;

	if (p >= end || *p != '"')
		return NULL;
	for (q = from; q < end && *q != '"' && *q != '\\' && *q != '\n'; q++)
		;
	if (q >= end || *q != '"' || q - from > 64)
		return NULL;
	if (!any && !key_is_event((const char *)from, (size_t)(q - from)))
		return NULL;
	*ret_key = from;
	*ret_len = (size_t)(q - from);
	q = lex_space(q + 1);
	return q < end && *q == ':' ? q + 1 : NULL;
}

static place space_back(place p, place from)
{
	while (p > from && lex_is_space(p[-1]))
		p--;
	return p;
}

/* p at {: does an event begin there, after another that began at `from`? */
static bool begins_event(place p, place from, place end)
{
	place key, before = space_back(p, from);
	size_t len;

	if (before > from && before[-1] == ',')
		before = space_back(before - 1, from);
	if (before <= from || before[-1] != '}')
		return false;
	return key_at(lex_space(p + 1), end, false, &key, &len);
}

/* p at ]: does it close the events? at_end: no text comes behind `end`. */
static bool closes_events(place p, place from, place end, bool at_end)
{
	place before = space_back(p, from), after = lex_space(p + 1), key;
	size_t len;

	if (before > from && before[-1] == ',')
		before = space_back(before - 1, from);
	if (before <= from || before[-1] != '}')
		return false;
	if (after >= end)
		return at_end;
	if (*after == '}')
		return at_end && lex_space(after + 1) >= end;
	return *after == ',' && key_at(lex_space(after + 1), end, true, &key, &len) &&
	       !key_is_event((const char *)key, len);
}

/* Each question is answered by the AHEAD bytes from there on, so that the answer does not
 * depend on how much text happens to be at hand. */
place mend_boundary(place p, place end, bool at_end)
{
	place from = p;

	for (p++; p < end; p++) {
		bool last = end - p <= AHEAD;
		place limit = last ? end : p + AHEAD, q;

		if (*p != '{' && *p != ']')
			continue;
		if (last && !at_end)
			return NULL;
		if (*p == '{' && begins_event(p, from, limit)) {
			q = space_back(p, from);
			return q[-1] == ',' ? q - 1 : q;
		}
		if (*p == ']' && closes_events(p, from, limit, last))
			return p;
	}
	return at_end ? end : NULL;
}

/* ---- writing anew --------------------------------------------------------------------- */

struct mend {
	struct trace *t;
	uint64_t offset; /* of `from` */
	place from, end;
	unsigned char *out;
	size_t n, cap;
	unsigned depth;
	bool failed;
};

static void put(struct mend *m, const void *data, size_t len)
{
	if (m->cap - m->n < len + LEX_PAD) {
		size_t cap = (m->n + len + LEX_PAD) * 2;
		unsigned char *out = realloc(m->out, cap);

		if (!out) {
			m->failed = true;
			return;
		}
		m->out = out;
		m->cap = cap;
	}
	memcpy(m->out + m->n, data, len);
	m->n += len;
}

/* What may follow a text that is a value: the next key, or closing brackets. */
static bool value_ends(place p, place end, bool in_array)
{
	place key;
	size_t len;

	p = lex_space(p);
	if (p >= end)
		return true;
	if (*p == '}' || (in_array && *p == ']'))
		return true;
	if (*p != ',')
		return false;
	p = lex_space(p + 1);
	if (in_array)
		return *p == '"' || *p == ',';
	return *p == '}' || key_at(p, end, true, &key, &len);
}

static void put_text(struct mend *m, place p, place end)
{
	put(m, "\"", 1);
	for (; p < end; p++) {
		if (*p == '"')
			put(m, "\\\"", 2);
		else if (*p == '\\' && p + 1 < end && p[1] != '"')
			put(m, p++, 2);
		else if (*p == '\\')
			put(m, "\\\\", 2);
		else
			put(m, p, 1);
	}
	put(m, "\"", 1);
}

/* p behind the opening quote of a value: its text goes out; behind it. */
static place mend_text(struct mend *m, place p, bool in_array)
{
	place from = p, key, comma;
	size_t len;

	for (; p < m->end; p++) {
		if (*p == '\\') {
			p++;
			continue;
		}
		if (*p != '"')
			continue;
		if (value_ends(p + 1, m->end, in_array)) {
			put_text(m, from, p);
			return p + 1;
		}
		comma = space_back(p, from);
		if (!in_array && comma > from && comma[-1] == ',' &&
		    key_at(p, m->end, true, &key, &len)) {
			notes_add(m->t, NOTES_MISSING_QUOTE,
				  m->offset + (size_t)(comma - 1 - m->from),
				  "the key %.*s follows a text without end", (int)len,
				  (const char *)key);
			put_text(m, from, comma - 1);
			return comma - 1;
		}
		notes_add(m->t, NOTES_UNESCAPED_QUOTE, m->offset + (size_t)(p - m->from),
			  "a quote within a text, expected \\\"");
	}
	/* No quote ended it: the line does. */
	for (p = from; p < m->end && *p != '\n'; p++)
		;
	comma = space_back(p, from);
	while (comma > from && (comma[-1] == ',' || comma[-1] == '}' || comma[-1] == ']'))
		comma = space_back(comma - 1, from);
	notes_add(m->t, NOTES_MISSING_QUOTE, m->offset + (size_t)(comma - m->from),
		  "a text without end");
	put_text(m, from, comma);
	return p;
}

/* An array: its texts mended, brackets closed. */
static place mend_array(struct mend *m, place p)
{
	unsigned depth = 0;

	while (p < m->end) {
		if (*p == '"') {
			p = mend_text(m, p + 1, true);
			continue;
		}
		if (*p == '[') {
			depth++;
		} else if (*p == ']') {
			put(m, "]", 1);
			p++;
			if (!--depth)
				return p;
			continue;
		} else if (*p == '}' || *p == '{' || *p == ':') {
			break;
		}
		put(m, p++, 1);
	}
	for (; depth; depth--)
		put(m, "]", 1);
	return p;
}

static place mend_object(struct mend *m, place p);

/* A word or number: as it is if it is one, else null. */
static place mend_word(struct mend *m, place p)
{
	place from = p, q;

	while (p < m->end && !lex_is_space(*p) && !strchr(",}]\"", *p))
		p++;
	for (q = from; q < p && lex_is_word(*q); q++)
		;
	if (q < p || from == p)
		put(m, "null", 4);
	else
		put(m, from, (size_t)(p - from));
	return p;
}

static place mend_value(struct mend *m, place p)
{
	p = lex_space(p);
	if (p >= m->end) {
		put(m, "null", 4);
		return m->end;
	}
	switch (*p) {
	case '"':
		return mend_text(m, p + 1, false);
	case '[':
		return mend_array(m, p);
	case '{':
		return mend_object(m, p);
	default:
		return mend_word(m, p);
	}
}

/* p at {: keys and values up to }; what is between is passed over. At most
 * MEND_DEPTH objects within one another. */
static place mend_object(struct mend *m, place p)
{
	bool first = true;

	if (m->depth++ > MEND_DEPTH) {
		put(m, "null", 4);
		return m->end;
	}
	put(m, "{", 1);
	for (p++; p < m->end && *p != '}';) {
		place key, value;
		size_t len;

		value = key_at(p, m->end, true, &key, &len);
		if (!value) {
			p++;
			continue;
		}
		if (!first)
			put(m, ",", 1);
		first = false;
		put(m, "\"", 1);
		put(m, key, len);
		put(m, "\":", 2);
		p = mend_value(m, value);
	}
	put(m, "}", 1);
	m->depth--;
	return p < m->end ? p + 1 : p;
}

enum event_result mend_event(struct reader *r, const unsigned char *p, const unsigned char **ret_p,
			     bool *ret_lost)
{
	struct mend m = {.t = r->t, .offset = reading_offset(r, p), .from = p};
	struct reader saved = *r;
	const unsigned char *rest;
	enum event_result got = EVENT_BAD;
	char show[64];

	m.end = mend_boundary(p, r->end, r->at_end);
	if (!m.end)
		return EVENT_MORE;
	*ret_p = m.end;
	if (m.end - p > MEND_MAX) {
		*ret_lost = true;
		notes_add(r->t, NOTES_EVENT_LOST, reading_offset(r, p),
			  "an event of %zu bytes that is no JSON", (size_t)(m.end - p));
		return EVENT_OK;
	}
	mend_object(&m, p);
	put(&m, " ", 1);
	if (m.failed) {
		free(m.out);
		r->rc = -ENOMEM;
		return EVENT_BAD;
	}
	memset(m.out + m.n, 0, LEX_PAD);
	r->text = m.out;
	r->end = m.out + m.n;
	r->base = m.offset;
	r->at_end = true;
	got = r->set->parse(r, m.out, &rest);
	*ret_lost = got != EVENT_OK || !r->e.phase || (!r->e.has_ts && r->e.phase != 'M');
	r->offset = m.offset;
	if (!*ret_lost)
		take_event(r);
	notes_add(r->t, *ret_lost ? NOTES_EVENT_LOST : NOTES_EVENT_MENDED,
		  reading_offset(&saved, saved.bad_at), "found %s, expected %s",
		  notes_show(saved.bad_at, saved.end, show), saved.bad_expected);
	free(m.out);
	r->text = saved.text;
	r->end = saved.end;
	r->base = saved.base;
	r->at_end = saved.at_end;
	return EVENT_OK;
}
