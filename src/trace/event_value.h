/* SPDX-License-Identifier: Apache-2.0
 *
 * event_value.h - the values of an event, by the operation of their key. Part of event.c, which
 * alone includes it: all of it is inlined there, once for each kind of vectors.
 */
#ifndef TRACE_EVENT_VALUE_H
#define TRACE_EVENT_VALUE_H

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "trace/event_skip.h"

/* Behind a value of n bytes. Where it is as long as the one before it, that is taken for its
 * length: the processor goes on from there before it has seen the digits, and what comes next does
 * not wait for them. */
INLINED place behind(place p, unsigned n, struct stencil_node *node)
{
	unsigned width;

	if (!node)
		return p + n;
	width = node->width;
	if (n == width) {
		__asm__("" : "+r"(width)); /* or the compiler would add n */
		return p + width;
	}
	node->width = (uint8_t)n;
	return p + n;
}

/* ---- values ------------------------------------------------------------------------- */

static bool ends_number(unsigned char c)
{
	return !(c >= '0' && c <= '9') && c != '.' && (c | 0x20) != 'e';
}

static void note_number(struct reader *r, place p, size_t len, unsigned flags)
{
	char show[64];

	if (flags & DECIMAL_RANGE)
		notes_add(r->t, NOTES_NUMBER_RANGE, reading_offset(r, p),
			  "found %s, expected a number of 64 bits", notes_show(p, p + len, show));
}

/* What stands where a number should and is none. */
static place no_number(struct reader *r, place p)
{
	place end = skip_value(r, p);
	place text = p + (*p == '"');
	char show[64];
	double d;

	if (!end || *p == 'n' || (*p == '"' && end - p == 2))
		return end; /* null and the empty text are missing without a word */
	if (*p == '"' && decimal_double(text, (size_t)(end - text), &d) && !isfinite(d))
		notes_add(r->t, NOTES_NON_FINITE, reading_offset(r, p),
			  "found %s, expected a finite number", notes_show(p, end, show));
	else if (*p == '"' || *p == '[' || *p == '{')
		notes_add(r->t, NOTES_BAD_NUMBER, reading_offset(r, p),
			  "found %s, expected a number", notes_show(p, end, show));
	return end;
}

static place slow_number(struct reader *r, place p, int shift, int64_t *ret, bool *ret_has,
			 unsigned *ret_flags)
{
	bool quoted = *p == '"', escaped;
	place text = p + quoted;
	place end = quoted ? string_end(r, p, &escaped) : r->end;
	unsigned flags;
	int64_t v;
	size_t n;

	*ret_has = false;
	if (!end)
		return NULL;
	n = decimal_read(text, (size_t)(end - text), shift, &v, &flags);
	if (!quoted && text + n >= r->end)
		return bad(r, r->end, "the end of a number");
	if (!n || (quoted && text + n != end) || (!quoted && lex_is_word(text[n])))
		return no_number(r, p);
	note_number(r, text, n, flags);
	*ret = v;
	*ret_has = true;
	*ret_flags = flags;
	return text + n + quoted;
}

INLINED place read_int(struct reader *r, place p, int64_t *ret, bool *ret_has,
		       struct stencil_node *node)
{
	bool minus = *p == '-';
	uint64_t v;
	unsigned n = decimal_digits16(p + minus, &v), flags;

	if (n && n < 16 && !lex_is_word(p[minus + n]) && p + minus + n < r->end) {
		*ret = minus ? -(int64_t)v : (int64_t)v;
		*ret_has = true;
		return behind(p, minus + n, node);
	}
	return slow_number(r, p, 0, ret, ret_has, &flags);
}

/* Microseconds as nanoseconds. */
INLINED place read_time(struct reader *r, place p, int64_t *ret, bool *ret_has, bool *ret_fraction,
			struct stencil_node *node)
{
	uint64_t v, f;
	unsigned n = decimal_digits16(p, &v), m, flags = 0;

	*ret_fraction = false;
	if (n && v < INT64_MAX / 1000 - 1) {
		place q = p + n;

		if (*q == '.') {
			m = decimal_digits8(q + 1, &f);
			if (m && m <= 3 && ends_number(q[1 + m]) && q + 1 + m < r->end) {
				*ret = (int64_t)(v * 1000 + f * decimal_pow10[3 - m]);
				*ret_has = *ret_fraction = true;
				return behind(p, n + 1 + m, node);
			}
		} else if (ends_number(*q) && q < r->end) {
			*ret = (int64_t)(v * 1000);
			*ret_has = true;
			return behind(p, n, node);
		}
	}
	p = slow_number(r, p, 3, ret, ret_has, &flags);
	*ret_fraction = flags & DECIMAL_FRACTION;
	return p;
}

/* Digits with a point, of at most 15 digits in all: exact as a quotient of two doubles. */
static place plain_double(place p, double *ret)
{
	static const double powers[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8};
	uint64_t v, f;
	unsigned n = decimal_digits8(p, &v), m;

	if (!n || n > 7)
		return NULL;
	p += n;
	*ret = (double)v;
	if (*p != '.')
		return ends_number(*p) ? p : NULL;
	m = decimal_digits8(p + 1, &f);
	if (!m || !ends_number(p[1 + m]))
		return NULL;
	*ret = (double)(v * decimal_pow10[m] + f) / powers[m];
	return p + 1 + m;
}

static place read_double(struct reader *r, place p, enum argset_field field)
{
	bool quoted = *p == '"', escaped;
	place text = p + quoted, end;
	double d;

	end = plain_double(p, &d);
	if (end && end < r->end) {
		argset_double(&r->e.pack, field, d);
		return end;
	}
	end = quoted ? string_end(r, p, &escaped) : skip_value(r, p);
	if (!end)
		return NULL;
	if (decimal_double(text, (size_t)(end - text), &d)) {
		if (!isfinite(d) && quoted)
			notes_add(r->t, NOTES_NON_FINITE, reading_offset(r, p),
				  "a number that is not finite");
		argset_double(&r->e.pack, field, d);
	}
	return end + quoted;
}

static place read_grid(struct reader *r, place p, enum argset_field field)
{
	place at = p, end;
	int64_t v;
	bool has;

	for (unsigned i = 0; *at == (i ? ',' : '[') && i < 3; i++) {
		at = lex_space(at + 1);
		if (!((*at >= '0' && *at <= '9') || *at == '-'))
			break;
		end = read_int(r, at, &v, &has, NULL);
		if (!end || !has)
			return end;
		argset_int(&r->e.pack, field + i, v);
		at = lex_space(end);
	}
	return *at == ']' && at < r->end ? at + 1 : skip_value(r, p);
}

/* ---- numbers that nobody wants --------------------------------------------------------- */

INLINED place past_int(struct reader *r, place p, struct stencil_node *node)
{
	unsigned minus = *p == '-', n;
	uint64_t v;
	int64_t none;
	bool has;

	n = decimal_digits16(p + minus, &v);
	if (n && n < 16 && !lex_is_word(p[minus + n]) && p + minus + n < r->end)
		return behind(p, minus + n, node);
	return read_int(r, p, &none, &has, NULL);
}

/* p behind digits: behind a point and its digits, at most so many; NULL: look closer. */
INLINED place past_digits(const struct reader *r, place p, unsigned most)
{
	uint64_t v;
	unsigned m;

	if (*p == '.') {
		m = decimal_digits8(p + 1, &v);
		if (!m || m > most)
			return NULL;
		p += 1 + m;
	}
	return ends_number(*p) && p < r->end ? p : NULL;
}

/* The event has a ts: that tells what can be mended. */
INLINED place past_time(struct reader *r, place p, struct stencil_node *node)
{
	uint64_t v;
	unsigned n = decimal_digits16(p, &v);
	place end = n && (n < 16 || *p < '9') ? past_digits(r, p + n, 3) : NULL;
	int64_t none;
	bool fraction;

	if (!end)
		return read_time(r, p, &none, &r->e.has_ts, &fraction, NULL);
	r->e.has_ts = true;
	return behind(p, (unsigned)(end - p), node);
}

static place past_double(struct reader *r, place p, struct stencil_node *node)
{
	uint64_t v;
	unsigned n = decimal_digits8(p, &v), shared = r->e.pack.n_shared;
	place end = n && n < 8 ? past_digits(r, p + n, 8) : NULL;

	if (end)
		return behind(p, (unsigned)(end - p), node);
	end = read_double(r, p, ARGSET_OCCUPANCY);
	r->e.pack.n_shared = shared;
	return end;
}

static place past_grid(struct reader *r, place p, struct stencil_node *node)
{
	unsigned n, shared = r->e.pack.n_shared;
	place at = p;
	uint64_t v;

	for (unsigned i = 0; i < 3 && *at == (i ? ',' : '['); i++) {
		at = lex_space(at + 1);
		n = decimal_digits8(at, &v);
		if (!n || n > 7)
			break;
		at += n;
	}
	if (*at == ']' && at < r->end && at - p < UINT8_MAX)
		return behind(p, (unsigned)(at + 1 - p), node);
	at = read_grid(r, p, ARGSET_GRID);
	r->e.pack.n_shared = shared;
	return at;
}

/* ---- texts, by guess ------------------------------------------------------------------ */

/* Training repeats itself: the same texts before are followed by the same text. */
static uint32_t *guess_of(struct reader *r, uint64_t history, uint32_t more)
{
	uint64_t h = (history + more * 0x100000001b3u) * 0x9e3779b97f4a7c15u;

	return &r->guesses[(h >> 32) & (READING_GUESSES - 1)];
}

static void remember(struct stencil_node *node, uint32_t *guess, uint32_t id)
{
	*guess = id;
	node->history = node->history << 8 | (id & 0xff);
}

/* Is the guess at the quote p? It may be one of other texts: then it is no more than wrong. */
INLINED bool is_text(const struct reader *r, place p, uint32_t guess, size_t *ret_len)
{
	const struct intern_text *x = &r->t->texts.texts[guess < r->t->texts.n ? guess : 0];

	*ret_len = x->len;
	return lex_equal(p + 1, (place)x->text, x->len) && p[1 + x->len] == '"' && x->len;
}

/* A text of the event itself. p at its quote. The guess by many texts before comes first, then
 * that by three. */
static place read_text(struct reader *r, place p, uint32_t *ret, struct stencil_node *node)
{
	uint32_t *guess = NULL, *second = NULL;
	bool escaped;
	size_t len;
	place end;

	if (*p != '"')
		return skip_value(r, p);
	if (node) {
		guess = guess_of(r, node->history, 0);
		if (is_text(r, p, *guess, &len)) {
			*ret = *guess;
			remember(node, guess, *guess);
			return p + len + 2;
		}
		second = guess_of(r, node->history & 0xffffff, 1);
		if (is_text(r, p, *second, &len)) {
			*ret = *second;
			remember(node, guess, *second);
			return p + len + 2;
		}
	}
	end = string_end(r, p, &escaped);
	if (!end)
		return NULL;
	*ret = words_text(r, p + 1, (size_t)(end - p - 1), escaped);
	if (node && !escaped && (size_t)(end - p - 1) <= TRACE_TEXT_MAX) {
		*second = *ret;
		remember(node, guess, *ret);
	}
	return end + 1;
}

/* The text of args that stands from p to end: a text with its quotes, or a JSON value. */
static uint32_t args_text(struct reader *r, place p, place end, bool is_text, bool escaped)
{
	size_t len = (size_t)(end - p);

	if (is_text)
		return words_args(r, p + 1, len - 2, escaped);
	return memchr(p, '\n', len) ? words_flat(r, p, len) : words_args(r, p, len, false);
}

/* Which group a collective is of is needed to match ranks; there are few of these texts. */
static bool is_left_out(const struct reader *r, enum argset_field field)
{
	return r->o->only_columns && (field < ARGSET_COLLECTIVE || field > ARGSET_COLLECTIVE_DTYPE);
}

/* A value of args that is kept as a text. Guesses are places in r->raws: the text as it stood
 * in the file, beside its id. */
static place read_raw(struct reader *r, place p, enum argset_field field, bool is_text,
		      struct stencil_node *node)
{
	const struct intern_text *x;
	uint32_t *guess = NULL, id = 0, raw = 0;
	bool escaped = false;
	place end;

	if (is_left_out(r, field) || (is_text && *p != '"'))
		return skip_value(r, p);
	if (node) {
		guess = guess_of(r, node->history & 0xffff, r->e.name);
		x = &r->raws.texts[*guess < r->raws.n ? *guess : 0];
		if (x->len && lex_equal(p, (place)x->text, x->len) && p + x->len < r->end) {
			id = r->raw_ids[*guess];
			remember(node, guess, *guess);
			p += x->len;
			goto found;
		}
	}
	end = *p == '"' ? string_end(r, p, &escaped) : skip_value(r, p);
	if (!end)
		return NULL;
	end += *p == '"';
	if (end >= r->end)
		return bad(r, r->end, "more behind a value");
	id = args_text(r, p, end, is_text, escaped);
	if (node && words_raw(r, p, (size_t)(end - p), id, &raw))
		remember(node, guess, raw);
	p = end;
found:
	if (id) {
		argset_int(&r->e.pack, field, id);
		r->t->text_fields |= 1ull << field;
	}
	return p;
}

/* ---- the rest -------------------------------------------------------------------------- */

static place read_phase(struct reader *r, place p)
{
	if (p[0] == '"' && p[1] != '"' && p[1] != '\\' && p[2] == '"' && p + 2 < r->end) {
		r->e.phase = p[1];
		return p + 3;
	}
	return skip_value(r, p);
}

/* pid or tid: where it stands is remembered, take_event() looks for the track. */
INLINED place read_place(struct reader *r, place p, place *ret_text, size_t *ret_len,
			 struct stencil_node *node)
{
	bool quoted = *p == '"';
	uint64_t v;
	unsigned n = decimal_digits16(p, &v);
	place end;

	if (n && !lex_is_word(p[n]) && p + n < r->end) {
		*ret_text = p;
		*ret_len = n;
		return behind(p, n, node);
	}
	end = skip_value(r, p);
	if (!end)
		return NULL;
	*ret_text = p + quoted;
	*ret_len = (size_t)(end - p) - 2 * quoted;
	return end;
}

static place skip_plain(struct reader *r, place p, struct stencil_node *node)
{
	uint64_t v;
	unsigned n = decimal_digits16(p, &v);

	return n && !lex_is_word(p[n]) && p + n < r->end ? behind(p, n, node) : skip_value(r, p);
}

/* A text that is no number (AMD's "0x0") is no stream. */
static place read_stream(struct reader *r, place p, struct stencil_node *node)
{
	int64_t v = TRACE_NONE;
	bool has = false;

	if (*p == '"' && p[1] == '0' && p[2] == 'x')
		return skip_value(r, p);
	p = read_int(r, p, &v, &has, node);
	if (!has || v < TRACE_NONE)
		v = TRACE_NONE;
	r->e.stream = v > INT32_MAX ? INT32_MAX : (int32_t)v;
	return p;
}

INLINED place read_past(struct reader *r, place p, unsigned op, struct stencil_node *node)
{
	switch (op) {
	case KEY_PAST_INT:
		return past_int(r, p, node);
	case KEY_PAST_TIME:
		return past_time(r, p, node);
	case KEY_PAST_DOUBLE:
		return past_double(r, p, node);
	case KEY_PAST_GRID:
		return past_grid(r, p, node);
	default:
		return skip_plain(r, p, node);
	}
}

/* The value at p of the key with this op. node: where it is in the tree, for guesses; NULL. */
static place read_value(struct reader *r, place p, unsigned op, unsigned at,
			struct stencil_node *node)
{
	struct event *e = &r->e;
	int64_t v = 0;
	bool has = false, fraction = false;

	switch (op) {
	case KEY_PHASE:
		return read_phase(r, p);
	case KEY_NAME:
		return read_text(r, p, &e->name, node);
	case KEY_CAT:
		e->flags |= *p == '"' ? TRACE_HAS_CAT : 0;
		return read_text(r, p, &e->cat_text, NULL);
	case KEY_PID:
		return read_place(r, p, &r->pid, &r->pid_len, node);
	case KEY_TID:
		return read_place(r, p, &r->tid, &r->tid_len, node);
	case KEY_TS:
		p = read_time(r, p, &v, &e->has_ts, &fraction, node);
		e->ts = e->has_ts ? v : 0;
		e->flags |= fraction ? TRACE_TS_FRACTION : 0;
		return p;
	case KEY_DUR:
		p = read_time(r, p, &v, &has, &fraction, NULL); /* of any length */
		e->dur = has ? v : 0;
		e->flags = has ? e->flags | TRACE_HAS_DUR : e->flags & ~TRACE_HAS_DUR;
		return p;
	case KEY_COLUMN:
		p = read_int(r, p, &v, &has, node);
		if (has)
			*(int64_t *)((char *)e + at) = v;
		return p;
	case KEY_STREAM:
		return read_stream(r, p, node);
	case KEY_LABEL:
		return read_text(r, p, &e->label, NULL);
	case KEY_INT:
		p = read_int(r, p, &v, &has, node);
		if (has)
			argset_int(&e->pack, at, v);
		return p;
	case KEY_DOUBLE:
		return read_double(r, p, at);
	case KEY_TEXT:
	case KEY_JSON:
		return read_raw(r, p, at, op == KEY_TEXT, node);
	case KEY_GRID:
		return read_grid(r, p, at);
	default:
		return read_past(r, p, op, node);
	}
}

#endif
