/* SPDX-License-Identifier: Apache-2.0
 *
 * eventtext.c - see eventtext.h. Events that were lost have no text but a place, so an event
 * is known by its times, not far before its place.
 */
#include "trace/eventtext.h"

#include "trace/member.h"
#include "trace/repair.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

struct search {
	int64_t ts, dur;
	bool is_pair;
	uint64_t from, to; /* places where it may be, both included */
	uint64_t at;
	struct buf *out;
	size_t out_len; /* before anything was found */
};

/* How many events have a place and no text, at most. */
static uint64_t lost_of(const struct trace *t)
{
	const struct trace_note *notes;
	size_t n, i;

	notes = trace_notes(t, &n);
	for (i = 0; i < n; i++)
		if (!strcmp(trace_note_rows[notes[i].kind].name, "event-lost"))
			return notes[i].count;
	return 0;
}

static bool is_same(const struct search *s, const char *text)
{
	struct member_part key, value, phase = {0}, ts = {0}, dur = {0};
	int64_t n;

	while (member_next(&text, &key, &value)) {
		if (key.len == 2 && !memcmp(key.p, "ph", 2))
			phase = value;
		else if (key.len == 2 && !memcmp(key.p, "ts", 2))
			ts = value;
		else if (key.len == 3 && !memcmp(key.p, "dur", 3))
			dur = value;
	}
	if (!member_is(&phase, s->is_pair ? "B" : "X") || !member_number(&ts, 3, &n) || n != s->ts)
		return false;
	return s->is_pair || (member_number(&dur, 3, &n) && n == s->dur);
}

static bool look(void *arg, const void *text, size_t len)
{
	struct search *s = arg;
	uint64_t at = s->at++;

	if (at >= s->from && is_same(s, text)) {
		s->out->len = s->out_len; /* the last one is it */
		buf_append(s->out, text, len);
	}
	return at < s->to && !s->out->error;
}

int eventtext_read(struct trace *t, const struct trace_block *b, uint32_t i, struct buf *out,
		   struct err *e)
{
	uint64_t lost = lost_of(t);
	struct search s = {
		.ts = b->ts[i],
		.dur = b->dur[i],
		.is_pair = b->flags[i] & TRACE_PAIRED,
		.from = b->index[i] > lost ? b->index[i] - lost : 0,
		.to = b->index[i],
		.out = out,
		.out_len = out->len,
	};
	const char *path = trace_path(t);
	struct stat st;
	int rc;

	if (!strcmp(path, "-") || stat(path, &st) || !S_ISREG(st.st_mode))
		return -ESPIPE;
	rc = repair_each(path, look, &s, e);
	if (!rc && out->error)
		rc = -EFBIG;
	return rc ? rc : out->len > s.out_len ? 0 : -ENOENT;
}
