/* SPDX-License-Identifier: Apache-2.0
 *
 * top.c - the text in pieces: the top object or array, its keys, and the events one
 * after the other. A piece ends anywhere: what is not whole is kept for the next one.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "trace/mend.h"
#include "trace/reading.h"
#include "trace/source.h"

#define PIECE (256u << 10) /* bytes read at a time, which stay in the processor's cache */
#define SPARE (64u << 10)  /* for what is kept from one piece to the next */
#define FIND_KEY (1 << 20) /* bytes to look for the next key in */
#define UNCLEAR (1u << 20) /* an event longer than this is looked at for its end */

typedef const unsigned char *place;

enum state {
	START,
	IN_OBJECT,
	IN_EVENTS,
	SKIPPING, /* a value of the top object too large to hold */
	AFTER
};

struct top {
	struct reader *r;
	struct source *s;
	struct err *e;
	enum state state;
	unsigned char *buf;
	size_t cap;
	bool has_events; /* the events' array was met */
	place rest;      /* what must be kept for the next piece */
	bool after_comma, after_event, in_gap, in_text;
	uint64_t gap;   /* what lay between two events: a comma and blanks */
	unsigned n_gap; /* its bytes, 8 at most; 0 not known */
	unsigned depth; /* SKIPPING */
	int64_t told;   /* progress: when last, ns */
};

/* ---- pieces --------------------------------------------------------------------------- */

static int tell(struct top *x)
{
	const struct trace_progress *g = &x->r->o->progress;
	struct timespec now;
	uint64_t bytes, of;
	int64_t ns;

	if (!g->fn)
		return 0;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	ns = now.tv_sec * 1000000000LL + now.tv_nsec;
	if (x->told && ns - x->told < 100000000)
		return 0;
	x->told = ns;
	source_progress(x->s, &bytes, &of);
	if (g->fn(g->arg, bytes, of, x->r->t->blocks.rows))
		return err_set(x->e, -EINTR, "%s: stopped", x->r->t->path);
	return 0;
}

/* Keep the text from p on, and read more behind it. */
static int more(struct top *x, place p)
{
	struct reader *r = x->r;
	size_t keep = (size_t)(r->end - p), got = 0, want = PIECE;
	int rc;

	r->base += (uint64_t)(p - r->text);
	if (keep)
		memmove(x->buf, p, keep);
	if (keep > want)
		want = keep; /* the larger it is, the more at once, so that looking again is cheap
			      */
	if (x->cap < keep + want + LEX_PAD) {
		size_t cap = 2 * keep + want + SPARE + LEX_PAD;
		unsigned char *buf = realloc(x->buf, cap);

		if (!buf)
			return -ENOMEM;
		r->buffers += cap - x->cap;
		x->buf = buf;
		x->cap = cap;
	}
	while ((rc = source_read(x->s, x->buf + keep, want, &got)) == -EAGAIN) {
		rc = tell(x);
		if (rc)
			return rc;
	}
	if (rc)
		return err_errno(x->e, rc, "%s", r->t->path);
	r->t->json += got;
	r->at_end = !got;
	memset(x->buf + keep + got, 0, LEX_PAD);
	r->text = x->buf;
	r->end = x->buf + keep + got;
	return tell(x);
}

/* ---- what is at p: each returns where it went on, NULL: needs more text ---------------- */

static place lose(struct top *x, place p, place to)
{
	struct reader *r = x->r;
	char show[64];

	notes_add(r->t, NOTES_BETWEEN, reading_offset(r, p), "found %s, expected an event or ]",
		  notes_show(p, r->end, show));
	return to;
}

/* p where no event begins: the next {, or ]. Told once until something else comes. */
static place find_event(struct top *x, place p)
{
	place q = p;

	while (q < x->r->end && *q != '{' && *q != ']' && *q != ',')
		q++;
	if (x->in_gap)
		return q;
	x->in_gap = true;
	return lose(x, p, q);
}

static place one_event(struct top *x, place p)
{
	struct reader *r = x->r;
	place next = p;
	bool lost;
	uint64_t noted = r->t->n_noted;
	enum event_result got = r->set->parse(r, p, &next);

	if (got == EVENT_OK) {
		take_event(r);
		return next;
	}
	if (r->rc)
		return NULL;
	notes_undo(r->t, noted);
	if (got == EVENT_MORE) {
		if (r->end - p < UNCLEAR || !mend_boundary(p, r->end, false))
			return NULL;
	}
	got = mend_event(r, p, &next, &lost);
	if (got != EVENT_OK)
		return NULL;
	r->index += lost;
	return next;
}

/* p behind an event: at the next one, if between them is what was between others. */
static inline place pass_gap(struct top *x, place p)
{
	unsigned n = x->n_gap;

	if (!n || (lex_load64(p) ^ x->gap) << (64 - 8 * n) || p[n] != '{' || p + n >= x->r->end)
		return p;
	x->after_comma = true;
	return p + n;
}

/* from: where an event ended, p: where the next begins; NULL: that is known. */
static void learn_gap(struct top *x, place from, place p)
{
	size_t n = from ? (size_t)(p - from) : SIZE_MAX;
	unsigned commas = 0;

	if (n > sizeof(x->gap))
		return;
	for (; from < p && (*from == ',' || lex_is_space(*from)); from++)
		commas += *from == ',';
	if (from != p || commas != 1)
		return;
	x->gap = lex_load64(p - n);
	x->n_gap = (unsigned)n;
}

static place in_events(struct top *x, place p)
{
	struct reader *r = x->r;
	place from = NULL; /* where an event ended */

	while (!r->rc) {
		p = lex_space(p);
		if (p >= r->end)
			return p;
		if (*p == '{') {
			place next = one_event(x, p);

			learn_gap(x, from, p);
			if (next && !x->after_comma && x->after_event)
				notes_add(r->t, NOTES_COMMA, reading_offset(r, p),
					  "no comma between events");

			if (!next) {
				x->rest = p;
				return NULL;
			}
			x->after_comma = x->in_gap = false;
			x->after_event = true;
			p = pass_gap(x, next);
			from = p == next ? p : NULL;
		} else if (*p == ',') {
			if (x->after_comma)
				notes_add(r->t, NOTES_COMMA, reading_offset(r, p),
					  "a comma too many between events");
			x->after_comma = true;
			x->in_gap = false;
			p++;
		} else if (*p == ']') {
			if (x->after_comma)
				notes_add(r->t, NOTES_COMMA, reading_offset(r, p),
					  "a comma after the last event");
			x->state = r->t->meta.has_object ? IN_OBJECT : AFTER;
			x->in_gap = false;
			r->t->meta.is_complete = !r->t->meta.has_object;
			return p + 1;
		} else {
			p = find_event(x, p);
		}
	}
	return p;
}

/* A value of the top object that is longer than can be held: passed over as it comes. */
static place skipping(struct top *x, place p)
{
	struct reader *r = x->r;

	for (; p < r->end; p++) {
		if (x->in_text) {
			if (*p == '\\')
				p++;
			else if (*p == '"')
				x->in_text = false;
			continue;
		}
		if (*p == '"') {
			x->in_text = true;
		} else if (*p == '[' || *p == '{') {
			x->depth++;
		} else if ((*p == ']' || *p == '}') && !--x->depth) {
			x->state = IN_OBJECT;
			return p + 1;
		}
	}
	return p < r->end ? p : r->end;
}

/* The last character before p that is no blank; a line break counts as none. */
static place before_space(place p, place from)
{
	for (p--; p > from && (*p == ' ' || *p == '\t'); p--)
		;
	return p;
}

/* The value at p is no JSON: where the next key of the top object may be. */
static place find_key(struct top *x, place p)
{
	static const char events[] = "\"traceEvents\"";
	struct reader *r = x->r;
	place q = p + 1, limit = r->end - p > FIND_KEY ? p + FIND_KEY : r->end;
	char show[64];

	for (; q < limit; q++)
		if ((*q == '"' && !memcmp(q, events, sizeof(events) - 1)) ||
		    (*q == '"' && *before_space(q, p) == '\n'))
			break;
	if (q >= limit && r->end - p <= FIND_KEY && !r->at_end)
		return NULL;
	notes_add(r->t, NOTES_META, reading_offset(r, r->bad_at), "found %s, expected %s",
		  notes_show(r->bad_at, r->end, show), r->bad_expected);
	return q < r->end ? q : r->end;
}

/* The value at p of the top object's key; key is without quotes. */
static place one_value(struct top *x, place key, size_t len, place p)
{
	struct reader *r = x->r;
	place end;

	if (len == 11 && !memcmp(key, "traceEvents", 11) && *p == '[') {
		x->state = IN_EVENTS;
		x->has_events = true;
		return p + 1;
	}
	end = r->set->skip(r, p);
	if (end && end >= r->end && !r->at_end)
		return NULL; /* a number may go on */
	if (end) {
		meta_value(r, key, len, p, end);
		return end;
	}
	if (r->bad_at < r->end || r->at_end)
		return find_key(x, key);
	if (r->end - p > READING_EVENT_MAX && (*p == '[' || *p == '{')) {
		notes_add(r->t, NOTES_META, reading_offset(r, p),
			  "the value of %.*s is over 64 MiB", len > 80 ? 80 : (int)len,
			  (const char *)key);
		x->state = SKIPPING;
		x->depth = 0;
		x->in_text = false;
		return p;
	}
	return NULL;
}

static place one_key(struct top *x, place p)
{
	struct reader *r = x->r;
	place behind = r->set->skip(r, p), value;

	if (!behind)
		return r->bad_at >= r->end && !r->at_end ? NULL : find_key(x, p + 1);
	value = lex_space(behind);
	if (value < r->end && *value != ':') {
		r->bad_at = value;
		r->bad_expected = "a colon";
		return find_key(x, value);
	}
	value = lex_space(value + 1);
	return value < r->end ? one_value(x, p + 1, (size_t)(behind - 2 - p), value) : NULL;
}

static place in_object(struct top *x, place p)
{
	struct reader *r = x->r;

	while (!r->rc && x->state == IN_OBJECT) {
		uint64_t noted;
		place next;

		p = lex_space(p);
		if (p >= r->end)
			return p;
		if (*p == '}') {
			r->t->meta.is_complete = true;
			x->state = AFTER;
			x->in_gap = false;
			return p + 1;
		}
		if (*p != '"') {
			if (*p != ',' && !x->in_gap)
				lose(x, p, p);
			x->in_gap = *p != ',';
			p++;
			continue;
		}
		r->bad_at = NULL;
		noted = r->t->n_noted;
		next = one_key(x, p);
		if (!next) {
			notes_undo(r->t, noted);
			x->rest = p;
			return NULL;
		}
		x->in_gap = false;
		p = next;
	}
	return p;
}

static place start(struct top *x, place p)
{
	struct reader *r = x->r;
	char show[64];

	if (r->end - p < 3 && !r->at_end) {
		x->rest = p;
		return NULL;
	}
	if (!memcmp(p, "\xef\xbb\xbf", 3)) {
		notes_add(r->t, NOTES_BOM, 0, "EF BB BF");
		p += 3;
	}
	p = lex_space(p);
	if (p >= r->end)
		return p;
	if (*p != '{' && *p != '[') {
		r->rc = err_set(x->e, -EBADMSG,
				"%s is no trace: found %s at byte %llu, expected { or [",
				r->t->path, notes_show(p, r->end, show),
				(unsigned long long)reading_offset(r, p));
		return p;
	}
	r->t->meta.has_object = *p == '{';
	x->state = *p == '{' ? IN_OBJECT : IN_EVENTS;
	x->has_events = *p == '[';
	return p + 1;
}

static place after(struct top *x, place p)
{
	struct reader *r = x->r;
	char show[64];

	p = lex_space(p);
	if (p < r->end && !x->in_gap)
		notes_add(r->t, NOTES_BETWEEN, reading_offset(r, p),
			  "found %s behind the end of the trace", notes_show(p, r->end, show));
	x->in_gap = x->in_gap || p < r->end;
	return r->end;
}

/* All of the text at hand; returns what must be kept. */
static place digest(struct top *x)
{
	struct reader *r = x->r;
	place p = r->text;

	while (!r->rc && p < r->end) {
		place next = NULL;

		x->rest = p;
		switch (x->state) {
		case START:
			next = start(x, p);
			break;
		case IN_OBJECT:
			next = in_object(x, p);
			break;
		case IN_EVENTS:
			next = in_events(x, p);
			break;
		case SKIPPING:
			next = skipping(x, p);
			break;
		case AFTER:
			next = after(x, p);
			break;
		}
		if (!next)
			return x->rest;
		p = next;
	}
	return p < r->end ? p : r->end;
}

/* An event that does not end within READING_EVENT_MAX is lost; so is what it hides. */
static place drop_large(struct top *x, place p)
{
	struct reader *r = x->r;

	if (r->end - p <= 2 * (ptrdiff_t)READING_EVENT_MAX)
		return p;
	notes_add(r->t, NOTES_EVENT_LOST, reading_offset(r, p), "an event of more than %u bytes",
		  READING_EVENT_MAX);
	r->index++;
	return r->end - 1;
}

static int end_of(struct top *x, place rest)
{
	struct reader *r = x->r;
	struct trace *t = r->t;
	const char *damage = source_damage(x->s);
	char show[64];

	if (damage)
		notes_add(t, NOTES_COMPRESSION, t->json, "%s", damage);
	if (x->state == START)
		return err_set(x->e, -EBADMSG, "%s is no trace: it is empty%s%s", t->path,
			       damage ? ", " : "", damage ? damage : "");
	if (!x->has_events)
		return err_set(
			x->e, -EBADMSG,
			"%s is no trace: the object has no array traceEvents (%llu bytes read)",
			t->path, (unsigned long long)t->json);
	if (!t->meta.is_complete)
		notes_add(t, NOTES_TRUNCATED, reading_offset(r, rest),
			  "%llu bytes from %s on are lost, expected %s",
			  (unsigned long long)(r->end - rest), notes_show(rest, r->end, show),
			  x->state == IN_EVENTS ? "] at the end of the events" : "}");
	return 0;
}

int top_read(struct reader *r, struct source *s, struct err *e)
{
	struct top x = {.r = r, .s = s, .e = e};
	static const unsigned char nothing[LEX_PAD];
	place rest;
	int rc;

	r->text = r->end = rest = nothing;
	r->buffers = source_held(s);
	do {
		rc = more(&x, rest);
		if (rc)
			break;
		rest = digest(&x);
		rc = r->rc;
		if (!rc)
			rest = drop_large(&x, rest);
	} while (!rc && !r->at_end);
	if (!rc)
		rc = end_of(&x, rest);
	r->buffers = 0;
	free(x.buf);
	return rc;
}
