/* SPDX-License-Identifier: Apache-2.0
 *
 * words.c - texts of events from JSON to interned ones: escapes undone, what is odd in them
 * noted once a text.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "trace/reading.h"

#define WORDS_RAW_LEN 4096u         /* longer texts are not guessed */
#define WORDS_RAW_BYTES (16u << 20) /* held at most for guesses */

typedef const unsigned char *place;

/* \uXXXX at p (behind the u), perhaps the first of two; half a pair is U+FFFD. */
static place unescape_u(place p, place end, unsigned char **out)
{
	int32_t c = end - p >= 4 ? utf8_hex4((const char *)p) : -1;
	int32_t low;

	if (c < 0)
		return NULL;
	p += 4;
	if (c >= 0xd800 && c < 0xe000) {
		low = c < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u'
			      ? utf8_hex4((const char *)p + 2)
			      : -1;
		if (low >= 0xdc00 && low < 0xe000) {
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
			p += 6;
		} else {
			c = 0xfffd;
		}
	}
	*out += utf8_put((char *)*out, (uint32_t)c);
	return p;
}

static size_t unescape(struct reader *r, place p, size_t len, unsigned char *to)
{
	static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
	place end = p + len;
	unsigned char *out = to;

	while (p < end) {
		const char *which;
		place next;

		if (*p != '\\' || p + 1 == end) {
			*out++ = *p++;
			continue;
		}
		which = memchr(from, p[1], sizeof(from) - 1);
		if (which) {
			*out++ = (unsigned char)into[which - from];
			p += 2;
			continue;
		}
		next = p[1] == 'u' ? unescape_u(p + 2, end, &out) : NULL;
		if (next) {
			p = next;
			continue;
		}
		notes_add(r->t, NOTES_BAD_ESCAPE, reading_offset(r, p),
			  "a backslash before byte 0x%02x, expected one of \"\\/bfnrtu", p[1]);
		*out++ = *p++;
	}
	return (size_t)(out - to);
}

static void check_text(struct reader *r, place p, size_t len, uint64_t offset)
{
	bool control = false;

	for (size_t i = 0; i < len;) {
		size_t n = 1;

		if (p[i] < 0x20) {
			control = true;
		} else if (p[i] >= 0x80) {
			n = utf8_valid(p + i, len - i);
			if (!n) {
				notes_add(r->t, NOTES_NOT_UTF8, offset,
					  "byte 0x%02x in a text, expected UTF-8", p[i]);
				break;
			}
		}
		i += n;
	}
	if (control)
		notes_add(r->t, NOTES_CONTROL, offset, "a raw control character in a text");
}

bool words_scratch(struct reader *r, size_t len)
{
	if (r->scratch_cap < len) {
		unsigned char *s = realloc(r->scratch, len * 2);

		if (!s) {
			r->rc = -ENOMEM;
			return false;
		}
		r->scratch = s;
		r->scratch_cap = len * 2;
	}
	return true;
}

/* offset: of the text in the JSON, which p may be a copy of. */
static uint32_t put_text(struct reader *r, place p, size_t len, bool escaped, uint64_t offset)
{
	place raw = p;
	size_t raw_len;
	uint32_t id = 0;
	int fresh = 0;

	if (len > TRACE_TEXT_MAX) {
		notes_add(r->t, NOTES_TEXT_CUT, offset, "a text of %zu bytes", len);
		len = TRACE_TEXT_MAX;
	}
	raw_len = len;
	if (escaped) {
		if (!words_scratch(r, len + 1))
			return 0;
		len = unescape(r, p, len, r->scratch);
		p = r->scratch;
	}
	if (r->names_full) {
		id = intern_find(&r->t->texts, p, len);
		if (!id && len)
			notes_add(r->t, NOTES_MEMORY_FULL, offset, "texts fill the budget here");
		return id;
	}
	if (intern_put(&r->t->texts, p, len, &id, &fresh)) {
		r->rc = -ENOMEM;
		return 0;
	}
	if (fresh)
		check_text(r, raw, raw_len, offset);
	return id;
}

static uint32_t put_args(struct reader *r, place p, size_t len, bool escaped, uint64_t offset)
{
	uint32_t id;

	if (!r->texts_full)
		return put_text(r, p, len, escaped, offset);
	id = escaped ? 0 : intern_find(&r->t->texts, p, len);
	if (!id && len)
		notes_add(r->t, NOTES_MEMORY_FULL, offset,
			  "texts and arguments fill the budget here");
	return id;
}

uint32_t words_text(struct reader *r, const unsigned char *p, size_t len, bool escaped)
{
	return put_text(r, p, len, escaped, reading_offset(r, p));
}

uint32_t words_args(struct reader *r, const unsigned char *p, size_t len, bool escaped)
{
	return put_args(r, p, len, escaped, reading_offset(r, p));
}

/* Line breaks and indents go, so that the same value is the same text however the file is
 * laid out. */
uint32_t words_flat(struct reader *r, const unsigned char *p, size_t len)
{
	const unsigned char *end = p + len;
	uint64_t offset = reading_offset(r, p);
	bool in_text = false;
	unsigned char *out;

	if (!words_scratch(r, len * 2))
		return 0;
	out = r->scratch;
	for (; p < end; p++) {
		if (*p == '"')
			in_text = !in_text;
		if (in_text && *p == '\\' && p + 1 < end)
			*out++ = *p++;
		if (in_text || !lex_is_space(*p)) {
			*out++ = *p;
			if (!in_text && (*p == ',' || *p == ':'))
				*out++ = ' ';
		}
	}
	return put_args(r, r->scratch, (size_t)(out - r->scratch), false, offset);
}

bool words_raw(struct reader *r, const unsigned char *p, size_t len, uint32_t id, uint32_t *ret)
{
	int fresh;

	if (len > WORDS_RAW_LEN || r->raws.bytes > WORDS_RAW_BYTES)
		return false;
	if (intern_put(&r->raws, p, len, ret, &fresh)) {
		r->rc = -ENOMEM;
		return false;
	}
	if (!fresh)
		return r->raw_ids[*ret] == id;
	if (*ret >= r->raw_cap) {
		uint32_t cap = r->raw_cap * 2 + 1024;
		uint32_t *ids = realloc(r->raw_ids, cap * sizeof(*ids));

		if (!ids) {
			r->rc = -ENOMEM;
			return false;
		}
		r->raw_ids = ids;
		r->raw_cap = cap;
	}
	r->raw_ids[*ret] = id;
	return true;
}
