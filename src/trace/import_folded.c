/* SPDX-License-Identifier: Apache-2.0
 *
 * import_folded.c - collapsed stacks line by line, and speedscope's profiles, sampled or
 * evented, as the same.
 */
#include "trace/import_folded.h"

#include "trace/import_value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int import_folded_add(struct import_folded *f, size_t at, double weight)
{
	if (f->n == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 256;
		struct import_line *l = realloc(f->lines, cap * sizeof(*l));

		if (!l)
			return -ENOMEM;
		f->lines = l;
		f->cap = cap;
	}
	f->lines[f->n++] = (struct import_line){at, f->text.len - at, weight};
	f->total += weight;
	return f->text.error;
}

void import_folded_frame(struct import_folded *f, const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf_putc(&f->text, name[i] == ';'                 ? ':'
				   : (unsigned char)name[i] < ' ' ? ' '
								  : name[i]);
}

static void skip(struct import_folded *f, uint64_t number)
{
	if (!f->skipped++)
		f->first_skipped = number;
}

/* "a;b;c 12": the weight is behind the last blank. */
static int line(struct import_folded *f, char *p, size_t len, uint64_t number)
{
	size_t at = f->text.len, blank;
	char text[64], *end;
	double weight;

	while (len && (p[len - 1] == '\r' || p[len - 1] == ' '))
		len--;
	for (blank = len; blank && p[blank - 1] != ' '; blank--)
		;
	if (!len)
		return 0;
	if (!blank || len - blank >= sizeof(text)) {
		skip(f, number);
		return 0;
	}
	memcpy(text, p + blank, len - blank);
	text[len - blank] = '\0';
	weight = strtod(text, &end);
	if (*end || end == text || !isfinite(weight) || weight < 0 ||
	    !strspn(text, "0123456789.")) {
		skip(f, number);
		return 0;
	}
	while (blank && p[blank - 1] == ' ')
		blank--;
	if (!blank) {
		skip(f, number);
		return 0;
	}
	buf_append(&f->text, p, blank);
	return import_folded_add(f, at, weight);
}

static int collapsed(struct import_folded *f, char *p, size_t len)
{
	char *end = p + len;
	int rc = 0;

	snprintf(f->what, sizeof(f->what), "collapsed");
	for (uint64_t number = 1; p < end && !rc; number++) {
		char *stop = memchr(p, '\n', (size_t)(end - p));
		size_t n = stop ? (size_t)(stop - p) : (size_t)(end - p);

		rc = line(f, p, n, number);
		p += n + 1;
	}
	return rc;
}

/* ---- speedscope ---------------------------------------------------------------------------- */

struct speedscope {
	struct import_folded *f;
	struct import_tree *t;
	import_ref *frames; /* their names, by number */
	size_t n_frames;
	uint32_t stack[IMPORT_FRAMES_MAX];
	unsigned depth, deeper; /* deeper: open frames that do not fit */
};

static void put_frame(struct speedscope *s, uint32_t frame, bool is_first)
{
	size_t len = 0;
	const char *name = frame < s->n_frames ? import_text(s->t, s->frames[frame], &len) : NULL;

	if (!is_first)
		buf_putc(&s->f->text, ';');
	if (name)
		import_folded_frame(s->f, name, len);
	else
		buf_puts(&s->f->text, "?");
}

static int put_stack(struct speedscope *s, double weight)
{
	size_t at = s->f->text.len;

	if (!s->depth || !(weight > 0))
		return 0;
	for (unsigned i = 0; i < s->depth; i++)
		put_frame(s, s->stack[i], !i);
	return import_folded_add(s->f, at, weight);
}

static void open_frame(struct speedscope *s, int64_t frame)
{
	if (s->depth < IMPORT_FRAMES_MAX)
		s->stack[s->depth++] =
			frame >= 0 && frame < UINT32_MAX ? (uint32_t)frame : UINT32_MAX;
	else
		s->deeper++;
}

static int sampled(struct speedscope *s, import_ref profile)
{
	struct import_tree *t = s->t;
	import_ref samples = import_get(t, profile, "samples");
	uint32_t w = import_first(t, import_get(t, profile, "weights"));
	int rc = 0;

	for (uint32_t c = import_first(t, samples); c != IMPORT_NULL && !rc;
	     c = import_next(t, c)) {
		import_ref stack = import_item(t, c);

		s->depth = s->deeper = 0;
		for (uint32_t k = import_first(t, stack); k != IMPORT_NULL; k = import_next(t, k))
			open_frame(s, import_int(t, import_item(t, k), -1));
		rc = put_stack(s, w == IMPORT_NULL ? 1 : import_float(t, import_item(t, w), 0));
		w = w == IMPORT_NULL ? w : import_next(t, w);
	}
	return rc;
}

static int evented(struct speedscope *s, import_ref profile)
{
	struct import_tree *t = s->t;
	import_ref events = import_get(t, profile, "events");
	double at = import_float(t, import_get(t, profile, "startValue"), 0);
	uint64_t number = 0;
	int rc = 0;

	s->depth = s->deeper = 0;
	for (uint32_t c = import_first(t, events); c != IMPORT_NULL && !rc; c = import_next(t, c)) {
		import_ref x = import_item(t, c);
		double now = import_float(t, import_get(t, x, "at"), at);

		number++;
		rc = put_stack(s, now - at);
		at = now;
		if (import_is(t, import_get(t, x, "type"), "O"))
			open_frame(s, import_int(t, import_get(t, x, "frame"), -1));
		else if (s->deeper)
			s->deeper--;
		else if (s->depth)
			s->depth--;
		else
			skip(s->f, number);
	}
	return rc;
}

static int read_frames(struct speedscope *s)
{
	import_ref list = import_get(s->t, import_get(s->t, s->t->root, "shared"), "frames");

	s->n_frames = import_count(s->t, list);
	s->frames = malloc((s->n_frames + 1) * sizeof(*s->frames));
	if (!s->frames)
		return -ENOMEM;
	s->n_frames = 0;
	for (uint32_t c = import_first(s->t, list); c != IMPORT_NULL; c = import_next(s->t, c))
		s->frames[s->n_frames++] = import_get(s->t, import_item(s->t, c), "name");
	return 0;
}

static int speedscope(struct import_folded *f, struct import_tree *t)
{
	struct speedscope *s = calloc(1, sizeof(*s));
	import_ref profiles = import_get(t, t->root, "profiles");
	const char *unit;
	size_t len;
	int rc;

	if (!s)
		return -ENOMEM;
	s->f = f;
	s->t = t;
	snprintf(f->what, sizeof(f->what), "speedscope");
	rc = read_frames(s);
	for (uint32_t c = import_first(t, profiles); c != IMPORT_NULL && !rc;
	     c = import_next(t, c)) {
		import_ref p = import_item(t, c);

		unit = import_text(t, import_get(t, p, "unit"), &len);
		if (unit && !f->unit[0])
			snprintf(f->unit, sizeof(f->unit), "%.*s", (int)(len < 23 ? len : 23),
				 unit);
		rc = import_is(t, import_get(t, p, "type"), "evented") ? evented(s, p)
								       : sampled(s, p);
	}
	free(s->frames);
	free(s);
	return rc;
}

int import_folded(char *data, size_t len, struct import_folded *ret, struct err *e)
{
	struct import_folded f = {.n = 0};
	struct import_tree t;
	size_t at = 0;
	int rc;

	buf_init(&f.text, 4ull * IMPORT_FILE_MAX);
	while (at < len && strchr(" \t\r\n", data[at]) && data[at])
		at++;
	if (at < len && data[at] == '{') {
		rc = import_json(data, len, &t, e);
		if (!rc) {
			rc = speedscope(&f, &t);
			import_tree_done(&t);
		}
	} else {
		rc = collapsed(&f, data, len);
	}
	if (!rc && !f.n)
		rc = err_set(
			e, -EBADMSG,
			"no stacks: expected lines \"frame;frame;frame number\" or speedscope's "
			"JSON");
	if (rc) {
		import_folded_done(&f);
		return err_set(e, rc, "stacks cannot be read");
	}
	*ret = f;
	return 0;
}

void import_folded_done(struct import_folded *f)
{
	buf_done(&f->text);
	free(f->lines);
	f->lines = NULL;
	f->n = f->cap = 0;
}
