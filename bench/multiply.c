/* SPDX-License-Identifier: Apache-2.0
 *
 * multiply.c - the text is cut once into pieces, each with a number at its end that moves;
 * a copy is the pieces and the numbers moved.
 */
#include "multiply.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum kind {
	TIME,
	CORRELATION, /* also of flows */
	EXTERNAL,
	SEQUENCE,
	PYTHON,
	STEP,
	KINDS,
	NOTHING = KINDS
};

static const struct {
	const char *key;
	enum kind kind;
} keys[] = {
	{"ts", TIME},
	{"correlation", CORRELATION},
	{"id", CORRELATION},
	{"External id", EXTERNAL},
	{"external id", EXTERNAL},
	{"Sequence number", SEQUENCE},
	{"Python id", PYTHON},
	{"Python parent id", PYTHON},
};

struct piece {
	const char *text;
	size_t len;
	uint64_t number; /* the whole part; digits after a point are in the next piece */
	enum kind kind;
};

struct multiply {
	const char *text;
	size_t len, head, tail; /* text before the first event, and from behind the last */
	struct piece *pieces;
	size_t n, cap;
	uint64_t least[KINDS], most[KINDS], events;
};

static void add(struct multiply *m, const char *from, const char *to, uint64_t number,
		enum kind kind)
{
	if (m->n == m->cap) {
		m->cap = m->cap * 2 + 1024;
		m->pieces = realloc(m->pieces, m->cap * sizeof(*m->pieces));
		if (!m->pieces)
			abort();
	}
	m->pieces[m->n++] = (struct piece){from, (size_t)(to - from), number, kind};
	if (kind == NOTHING)
		return;
	if (number < m->least[kind])
		m->least[kind] = number;
	if (number > m->most[kind])
		m->most[kind] = number;
}

static enum kind kind_of(const char *key, size_t len)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (strlen(keys[i].key) == len && !memcmp(keys[i].key, key, len))
			return keys[i].kind;
	return NOTHING;
}

/* p at a quote: behind the closing one. */
static const char *string_end(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		p += *p == '\\';
	return p < end ? p + 1 : end;
}

/* p at a quote: a piece ends before a number that moves. */
static const char *one_string(struct multiply *m, const char *p, const char *end, const char **from)
{
	static const char step[] = "ProfilerStep#";
	const char *key = p + 1, *at = string_end(p, end), *number = NULL;
	enum kind kind = NOTHING;
	char *behind;

	if ((size_t)(at - key) > sizeof(step) && !memcmp(key, step, sizeof(step) - 1)) {
		number = key + sizeof(step) - 1;
		kind = STEP;
	} else if (at + 2 < end && *at == ':') {
		kind = kind_of(key, (size_t)(at - 1 - key));
		for (number = at + 1; *number == ' '; number++)
			;
	}
	if (kind == NOTHING || !isdigit((unsigned char)*number))
		return at;
	add(m, *from, number, strtoull(number, &behind, 10), kind);
	*from = behind;
	return kind == STEP ? at : behind;
}

struct multiply *multiply_new(const char *text, size_t len)
{
	static const char key[] = "\"traceEvents\"";
	struct multiply *m = calloc(1, sizeof(*m));
	const char *p = memmem(text, len, key, sizeof(key) - 1), *end = text + len, *from;
	unsigned depth = 1;

	if (!m || !p || !(p = memchr(p, '[', (size_t)(end - p)))) {
		free(m);
		return NULL;
	}
	memset(m->least, 0xff, sizeof(m->least));
	from = ++p;
	m->text = text;
	m->len = len;
	m->head = (size_t)(p - text);
	while (p < end && depth) {
		if (*p == '"') {
			p = one_string(m, p, end, &from);
			continue;
		}
		m->events += *p == '{' && depth == 1;
		depth += *p == '{' || *p == '[';
		depth -= *p == '}' || *p == ']';
		p++;
	}
	for (p--; isspace((unsigned char)p[-1]); p--)
		;
	m->tail = (size_t)(p - text);
	add(m, from, p, 0, NOTHING);
	return m;
}

void multiply_free(struct multiply *m)
{
	free(m->pieces);
	free(m);
}

uint64_t multiply_events(const struct multiply *m)
{
	return m->events;
}

uint64_t multiply_write(const struct multiply *m, unsigned copies, FILE *out)
{
	uint64_t step[KINDS], bytes = m->head + (m->len - m->tail);

	for (int k = 0; k < KINDS; k++)
		step[k] =
			m->most[k] < m->least[k]
				? 0
				: m->most[k] + 1 -
					  (k == PYTHON || k == TIME || k == STEP ? m->least[k] : 0);
	step[TIME] += 1000; /* the last event's duration and a pause, more or less */
	fwrite(m->text, 1, m->head, out);
	for (unsigned c = 0; c < copies; c++) {
		for (size_t i = 0; i < m->n; i++) {
			const struct piece *p = &m->pieces[i];
			char digits[24];
			int n;

			fwrite(p->text, 1, p->len, out);
			bytes += p->len;
			if (p->kind == NOTHING)
				continue;
			n = snprintf(digits, sizeof(digits), "%llu",
				     (unsigned long long)p->number + c * step[p->kind]);
			fwrite(digits, 1, (size_t)n, out);
			bytes += (size_t)n;
		}
		if (c + 1 < copies) {
			fputc(',', out);
			bytes++;
		}
	}
	fwrite(m->text + m->tail, 1, m->len - m->tail, out);
	return fflush(out) || ferror(out) ? 0 : bytes;
}
