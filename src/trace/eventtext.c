/* SPDX-License-Identifier: Apache-2.0
 *
 * eventtext.c - see eventtext.h. Where events were lost it is not sure which places they have,
 * so an event is known by its times and name, not far before its place.
 */
#include "trace/eventtext.h"

#include "trace/member.h"
#include "trace/repair.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

struct search {
	int64_t ts, dur;
	const char *name;
	size_t name_len;
	bool is_pair;
	uint64_t from, to; /* places where it may be, both included */
	uint64_t at;
	uint64_t found; /* how many have its times */
	bool is_named;  /* the one in out has its name */
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

/* Members of an event that matter here; of one that is there twice the last. */
enum {
	PHASE,
	TS,
	DUR,
	NAME,
	MEMBERS
};

static const char *const keys[MEMBERS] = {"ph", "ts", "dur", "name"};

static void read_members(const char *text, struct member_part *ret)
{
	struct member_part key, value;

	while (member_next(&text, &key, &value))
		for (int i = 0; i < MEMBERS; i++)
			if (key.len == strlen(keys[i]) && !memcmp(key.p, keys[i], key.len))
				ret[i] = value;
}

/* Has it the times, and the name? A name with escapes is not compared. */
static bool is_same(const struct search *s, const char *text, bool *ret_named)
{
	struct member_part part[MEMBERS] = {{0}};
	const struct member_part *name = &part[NAME];
	int64_t n;

	read_members(text, part);
	*ret_named = name->len == s->name_len + 2 && *name->p == '"' &&
		     !memcmp(name->p + 1, s->name, s->name_len);
	if (!member_is(&part[PHASE], s->is_pair ? "B" : "X") || !member_number(&part[TS], 3, &n) ||
	    n != s->ts)
		return false;
	return s->is_pair || (member_number(&part[DUR], 3, &n) && n == s->dur);
}

static bool look(void *arg, const void *text, size_t len)
{
	struct search *s = arg;
	uint64_t at = s->at++;
	bool is_named;

	if (text && at >= s->from && is_same(s, text, &is_named)) {
		s->found++;
		if (is_named || !s->is_named) {
			s->out->len = s->out_len; /* the last one is it */
			buf_append(s->out, text, len);
			s->is_named = is_named;
		}
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

	s.name = trace_text(t, b->name[i], &s.name_len);
	if (!strcmp(path, "-") || stat(path, &st) || !S_ISREG(st.st_mode))
		return -ESPIPE;
	rc = repair_each(path, look, &s, e);
	if (!rc && out->error)
		rc = -EFBIG;
	if (!rc && s.found > 1 && !s.is_named)
		out->len = s.out_len;
	return rc ? rc : out->len > s.out_len ? 0 : -ENOENT;
}
