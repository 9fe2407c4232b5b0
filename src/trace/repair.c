/* SPDX-License-Identifier: Apache-2.0
 *
 * repair.c - a file through the repair, in pieces: the top object or array, its members, and
 * the events one after the other.
 */
#include "trace/repair.h"

#include "trace/mend.h"
#include "trace/repair_priv.h"
#include "trace/source.h"
#include "trace/write.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct repair_row repair_rows[REPAIR_KINDS] = {
	[REPAIR_QUOTE] = {"quote",
			  "A quote within a text got its backslash, a missing one was added.",
			  false},
	[REPAIR_CONTROL] = {"control-character", "A raw control character became an escape.",
			    false},
	[REPAIR_UTF8] = {"not-utf8", "Bytes that are not UTF-8 became U+FFFD.", true},
	[REPAIR_ESCAPE] = {"escape", "A backslash before no escape became two.", false},
	[REPAIR_WORD] = {"bare-word", "NaN, N/A and other words without quotes became texts.",
			 false},
	[REPAIR_COMMA] = {"comma", "A comma too many was left out, a missing one added.", false},
	[REPAIR_MISSING] = {"missing-value", "A value that is not there became null.", false},
	[REPAIR_LOST] = {"event-lost", "An event could not be mended and was left out.", true},
	[REPAIR_BETWEEN] = {"between-events", "Text between events was left out.", true},
	[REPAIR_MEMBER] = {"member-lost", "A member of the top object was left out.", true},
	[REPAIR_TRUNCATED] = {"truncated",
			      "The text ends early; it was closed behind the last whole event.",
			      true},
	[REPAIR_COMPRESSION] = {"compression", "The compressed data ends early or is damaged.",
				true},
	[REPAIR_BOM] = {"byte-order-mark", "A byte order mark was left out.", false},
	[REPAIR_TRAILING] = {"trailing", "Text behind the end was left out.", true},
};

void repair_note(struct repair_result *r, enum repair_kind kind, uint64_t offset, repair_place p,
		 repair_place end)
{
	struct repair_mend *m = &r->mends[kind];
	size_t n = 0;

	if (m->count++)
		return;
	m->offset = offset;
	for (; p < end && n < 60; p++)
		m->text[n++] = *p >= ' ' && *p < 127 ? (char)*p : '.';
	m->text[n] = '\0';
}

#define PIECE (1u << 20)

struct file {
	struct source *in;
	struct write_sink *out; /* NULL: each event goes to visit */
	bool (*visit)(void *arg, const void *event, size_t len);
	void *arg;
	struct repair_result *r;
	struct err *e;
	unsigned char *data; /* n bytes and LEX_PAD zeroes, at at the next to look at */
	size_t n, cap, at;
	uint64_t base; /* of data[0] */
	bool at_end, is_array, has_events;
	bool is_over;    /* visit has seen enough */
	bool has_member; /* a comma is due in the top object */
	struct buf mended;
};

static uint64_t offset(const struct file *f, repair_place p)
{
	return f->base + (uint64_t)(p - f->data);
}

static void note(struct file *f, enum repair_kind kind, repair_place p)
{
	repair_note(f->r, kind, offset(f, p), p, f->data + f->n);
}

/* More text behind what is there; what lies before at goes. at_end when there is none. */
static int fill(struct file *f)
{
	size_t got = 0;
	int rc;

	if (f->at) {
		memmove(f->data, f->data + f->at, f->n - f->at);
		f->base += f->at;
		f->n -= f->at;
		f->at = 0;
	}
	if (f->cap - f->n < PIECE + LEX_PAD) {
		size_t cap = f->cap ? f->cap * 2 : 4u * PIECE;
		unsigned char *data = cap <= 4ull * REPAIR_EVENT_MAX ? realloc(f->data, cap) : NULL;

		if (!data)
			return err_set(f->e, -ENOMEM, "out of memory at byte %llu",
				       (unsigned long long)f->base);
		f->data = data;
		f->cap = cap;
	}
	do { /* -EAGAIN: nothing came for a while */
		rc = source_read(f->in, f->data + f->n, PIECE, &got);
	} while (rc == -EAGAIN);
	if (rc)
		return err_errno(f->e, rc, "the trace cannot be read");
	f->n += got;
	f->at_end = !got;
	memset(f->data + f->n, 0, LEX_PAD);
	return 0;
}

static repair_place here(const struct file *f)
{
	return f->data + f->at;
}

static repair_place end(const struct file *f)
{
	return f->data + f->n;
}

/* The next byte that is no blank, or -1 at the end, or -errno - 1. */
static int peek(struct file *f)
{
	for (;;) {
		f->at = (size_t)(repair_blanks(here(f), end(f)) - f->data);
		if (f->at < f->n)
			return *here(f);
		if (f->at_end)
			return -1;
		if (fill(f))
			return -2;
	}
}

static void put(struct file *f, const void *p, size_t len)
{
	if (f->out)
		write_put(f->out, p, len);
}

/* ---- events ------------------------------------------------------------------------------ */

static void put_event(struct file *f, const void *p, size_t len)
{
	if (f->visit)
		f->is_over = !f->visit(f->arg, p, len);
	if (f->r->events + f->r->mended)
		put(f, ",\n", 2);
	put(f, p, len);
}

/* The event at here that is not strict: mended or lost. -EAGAIN: more text is needed. */
static int broken_event(struct file *f)
{
	repair_place p = here(f), stop = mend_boundary(p, end(f), f->at_end);
	repair_place last;

	if (!stop && f->n - f->at < REPAIR_EVENT_MAX)
		return -EAGAIN;
	if (!stop)
		stop = end(f);
	for (last = stop; last > p && (repair_is_blank(last[-1]) || last[-1] == ','); last--)
		;
	if (repair_value(p, (size_t)(last - p), offset(f, p), &f->mended, f->r)) {
		put_event(f, f->mended.data, f->mended.len);
		f->r->mended++;
	} else {
		/* Cut off by the end of the text, or beyond hope. */
		note(f, f->at_end && stop == end(f) ? REPAIR_TRUNCATED : REPAIR_LOST, p);
		if (f->visit)
			f->is_over = !f->visit(f->arg, NULL, 0);
		f->r->lost++;
	}
	f->at = (size_t)(stop - f->data);
	return 0;
}

static int one_event(struct file *f)
{
	for (;;) {
		bool more;
		repair_place p = here(f), stop = repair_strict(p, end(f), &more);
		int rc;

		if (stop) {
			put_event(f, p, (size_t)(stop - p));
			f->r->events++;
			f->at = (size_t)(stop - f->data);
			return 0;
		}
		rc = more && !f->at_end && f->n - f->at < REPAIR_EVENT_MAX ? -EAGAIN
									   : broken_event(f);
		if (rc != -EAGAIN)
			return rc;
		rc = fill(f);
		if (rc)
			return rc;
	}
}

/* Text between events that is none: up to the next brace, bracket or comma. */
static int between(struct file *f)
{
	repair_place p = here(f);

	note(f, REPAIR_BETWEEN, p);
	for (p++; p < end(f) && *p != '{' && *p != ']' && *p != ','; p++)
		;
	f->at = (size_t)(p - f->data);
	return 0;
}

/* As peek(). When visit has seen enough, the text is as if it ended here. */
static int peek_event(struct file *f)
{
	if (f->is_over) {
		f->at = f->n;
		f->at_end = true;
	}
	return peek(f);
}

/* Behind the [ of the events, up to behind their ]. */
static int events(struct file *f)
{
	unsigned commas = 0;

	f->has_events = true;
	for (;;) {
		int c = peek_event(f), rc = 0;
		bool due = f->r->events + f->r->mended + f->r->lost > 0;

		if (c == -2)
			return -EIO;
		if (c == -1) {
			if (!f->r->mends[REPAIR_TRUNCATED].count)
				note(f, REPAIR_TRUNCATED, here(f));
			return 0;
		}
		if (c == ',') {
			if (commas++ >= due)
				note(f, REPAIR_COMMA, here(f));
			f->at++;
			continue;
		}
		if (c == ']') {
			if (commas && due && commas == 1)
				note(f, REPAIR_COMMA, here(f));
			f->at++;
			return 0;
		}
		if (c == '{') {
			if (due && !commas)
				note(f, REPAIR_COMMA, here(f));
			commas = 0;
			rc = one_event(f);
		} else {
			rc = between(f);
		}
		if (rc)
			return rc;
	}
}

/* ---- the top ----------------------------------------------------------------------------- */

/* The value at here as a whole in the text at hand; *ret_len 0: it does not end. */
static int whole_value(struct file *f, size_t *ret_len)
{
	for (;;) {
		bool more;
		repair_place stop = repair_strict(here(f), end(f), &more);
		int rc;

		*ret_len = stop ? (size_t)(stop - here(f)) : 0;
		if (stop || !more || f->at_end || f->n - f->at >= REPAIR_EVENT_MAX)
			return 0;
		rc = fill(f);
		if (rc)
			return rc;
	}
}

/* Where a broken value of the top object ends: before the comma that a key follows, or the
 * closing brace. */
static size_t loose_end(struct file *f)
{
	repair_place p = here(f), stop = end(f);
	unsigned depth = 0;

	for (; p < stop; p++) {
		if (*p == '{' || *p == '[')
			depth++;
		else if ((*p == '}' || *p == ']') && depth)
			depth--;
		else if (*p == '}' || ((*p == ',' || *p == '\n') && !depth))
			break;
	}
	return (size_t)(p - here(f));
}

/* A member's value, key already read into key (with quotes and colon). */
static int member_value(struct file *f, const struct buf *key)
{
	const void *text;
	size_t len, used;
	int rc = whole_value(f, &len);

	if (rc)
		return rc;
	text = here(f);
	used = len;
	if (!len) {
		used = loose_end(f);
		if (!repair_value(text, used, offset(f, here(f)), &f->mended, f->r)) {
			note(f,
			     f->at_end && f->at + used == f->n ? REPAIR_TRUNCATED : REPAIR_MEMBER,
			     here(f));
			f->at += used;
			return 0;
		}
		text = f->mended.data;
		len = f->mended.len;
	}
	put(f, f->has_member ? ",\n" : "\n", f->has_member ? 2 : 1);
	put(f, key->data, key->len);
	put(f, text, len);
	f->has_member = true;
	f->at += used;
	return 0;
}

static int member(struct file *f, struct buf *key)
{
	size_t len;
	int c, rc = whole_value(f, &len);

	if (rc)
		return rc;
	if (!len || *here(f) != '"') {
		note(f, REPAIR_MEMBER, here(f));
		len = loose_end(f);
		f->at += len ? len : 1;
		return 0;
	}
	buf_reset(key);
	buf_append(key, here(f), len);
	buf_putc(key, ':');
	f->at += len;
	c = peek(f);
	if (c != ':') {
		if (c >= 0)
			note(f, REPAIR_MEMBER, here(f));
		return c == -2 ? -EIO : 0;
	}
	f->at++;
	c = peek(f);
	if (c == '[' && !strcmp(buf_str(key), "\"traceEvents\":") && !f->has_events) {
		put(f, f->has_member ? ",\n" : "\n", f->has_member ? 2 : 1);
		put(f, "\"traceEvents\":[\n", 16);
		f->has_member = true;
		f->at++;
		rc = events(f);
		put(f, "\n]", 2);
		return rc;
	}
	return c == -2 ? -EIO : c == -1 ? 0 : member_value(f, key);
}

static int members(struct file *f)
{
	struct buf key;
	int rc = 0;

	buf_init(&key, REPAIR_EVENT_MAX);
	put(f, "{", 1);
	while (!rc) {
		int c = peek(f);

		if (c == -2) {
			rc = -EIO;
		} else if (c == -1) {
			if (!f->r->mends[REPAIR_TRUNCATED].count)
				note(f, REPAIR_TRUNCATED, here(f));
			break;
		} else if (c == '}') {
			f->at++;
			break;
		} else if (c == ',') {
			f->at++;
		} else {
			rc = member(f, &key);
		}
	}
	put(f, "\n}\n", 3);
	buf_done(&key);
	return rc;
}

static int whole(struct file *f)
{
	int c = peek(f), rc;

	if (c >= 0 && f->n - f->at >= 3 && !memcmp(here(f), "\xef\xbb\xbf", 3)) {
		note(f, REPAIR_BOM, here(f));
		f->at += 3;
		c = peek(f);
	}
	if (c == -2)
		return -EIO;
	if (c != '{' && c != '[')
		return err_set(f->e, -EBADMSG,
			       "no trace: byte %llu is %s, expected { or [ at the top",
			       (unsigned long long)offset(f, here(f)),
			       c == -1 ? "the end" : "neither { nor [");
	f->at++;
	if (c == '[') {
		put(f, "[\n", 2);
		rc = events(f);
		put(f, "\n]\n", 3);
	} else {
		rc = members(f);
	}
	if (!rc && !f->has_events)
		return err_set(f->e, -EBADMSG, "no trace: no \"traceEvents\" array in it");
	if (!rc && peek(f) >= 0)
		note(f, REPAIR_TRAILING, here(f));
	return rc;
}

/* From opening to the end of the text; the sink, if any, stays open. */
static int run(struct file *f, const char *in)
{
	int rc;

	buf_init(&f->mended, 2ull * REPAIR_EVENT_MAX);
	rc = fill(f);
	if (!rc)
		rc = whole(f);
	if (source_damage(f->in))
		note(f, REPAIR_COMPRESSION, here(f));
	f->r->bytes_in = f->base + f->n;
	source_close(f->in);
	free(f->data);
	buf_done(&f->mended);
	return rc ? err_set(f->e, rc, "%s cannot be repaired", in) : 0;
}

int repair_file(const char *in, const char *out, struct repair_result *ret, struct err *e)
{
	struct repair_result result = {.events = 0};
	struct file f = {.r = &result, .e = e};
	int rc = source_open(in, &f.in, e);

	if (rc)
		return rc;
	rc = write_open(out, &f.out, e);
	if (rc) {
		source_close(f.in);
		return rc;
	}
	rc = run(&f, in);
	if (rc) {
		write_abort(f.out);
		return rc;
	}
	rc = write_close(f.out, &result.bytes_out, e);
	if (!rc)
		*ret = result;
	return rc;
}

int repair_each(const char *in, bool (*fn)(void *arg, const void *event, size_t len), void *arg,
		struct err *e)
{
	struct repair_result result = {.events = 0};
	struct file f = {.r = &result, .e = e, .visit = fn, .arg = arg};
	int rc = source_open(in, &f.in, e);

	return rc ? rc : run(&f, in);
}
