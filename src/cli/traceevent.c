/* SPDX-License-Identifier: Apache-2.0
 *
 * traceevent.c - see traceevent.h. Arguments are as they stand in the file, each as a text:
 * readers of JSON would round large numbers, and join keys that are there twice.
 */
#include "cli/traceevent.h"

#include "analyse/oneevent.h"
#include "base/json.h"
#include "cli/tracelines.h"
#include "trace/eventtext.h"
#include "trace/member.h"
#include "trace/write.h"

#include <errno.h>
#include <string.h>

static const char *const traceevent_roles[ONEEVENT_ROLES] = {
	[ONEEVENT_LAUNCH] = "launch",
	[ONEEVENT_WORK] = "work",
	[ONEEVENT_FORWARD] = "forward",
	[ONEEVENT_BACKWARD] = "backward",
};

/* How much of what stands between the quotes of a JSON text, `most` at most, ends between two
 * characters. */
static size_t traceevent_whole(const char *p, size_t len, size_t most)
{
	size_t at = 0, n;

	if (len <= most)
		return len;
	for (;;) {
		n = 1;
		if (p[at] == '\\')
			n = p[at + 1] == 'u' ? 6 : 2;
		else
			while (at + n < len && ((unsigned char)p[at + n] & 0xc0) == 0x80)
				n++;
		if (at + n > most)
			return at;
		at += n;
	}
}

/* A JSON text of the file as one; p without quotes. */
static void traceevent_literal(struct json *j, const char *p, size_t len, size_t most)
{
	struct buf text;

	buf_init(&text, most + 3);
	buf_putc(&text, '"');
	buf_append(&text, p, traceevent_whole(p, len, most));
	buf_putc(&text, '"');
	json_raw(j, buf_str(&text));
	buf_done(&text);
}

static void traceevent_arg(struct json *j, const struct member_part *key,
			   const struct member_part *value)
{
	bool is_text = *value->p == '"';
	size_t len = is_text ? value->len - 2 : value->len;

	json_object(j);
	json_key(j, "key");
	traceevent_literal(j, key->p, key->len, TRACEEVENT_KEY);
	json_key(j, "value");
	if (is_text)
		traceevent_literal(j, value->p + 1, len, TRACEEVENT_TEXT);
	else
		json_strn(j, value->p, len < TRACEEVENT_TEXT ? len : TRACEEVENT_TEXT);
	if (len > TRACEEVENT_TEXT)
		json_kuint(j, "bytes", len);
	json_object_end(j);
}

/* The members "cat" and "args" of an event's text. */
static void traceevent_args(struct json *j, const char *text)
{
	struct member_part key, value, cat = {0}, args = {0};
	uint64_t left_out = 0;
	unsigned n = 0;

	while (member_next(&text, &key, &value)) {
		if (key.len == 3 && !memcmp(key.p, "cat", 3))
			cat = value;
		else if (key.len == 4 && !memcmp(key.p, "args", 4))
			args = value;
	}
	json_key(j, "cat");
	if (cat.p && *cat.p == '"')
		traceevent_literal(j, cat.p + 1, cat.len - 2, TRACEEVENT_KEY);
	else
		json_null(j);
	json_key(j, "args");
	json_array(j);
	for (text = args.p; text && *args.p == '{' && member_next(&text, &key, &value);) {
		if (n++ < TRACEEVENT_ARGS)
			traceevent_arg(j, &key, &value);
		else
			left_out++;
	}
	json_array_end(j);
	json_kuint(j, "args_left_out", left_out);
}

/* What is known of any event: of the one, and of the other ends of its arrows. */
static void traceevent_head(struct json *j, const struct trace *t, const struct oneevent *e,
			    const struct oneevent_link *x)
{
	enum trace_cat cat = (enum trace_cat)x->cat;
	const char *name;
	size_t len;

	name = trace_text(t, x->name, &len);
	json_kuint(j, "event", x->index);
	json_key(j, "name");
	json_strn(j, name, len < TRACEEVENT_TEXT ? len : TRACEEVENT_TEXT);
	json_kstr(j, "category", tracelines_names[tracelines_category_of(t, x->name, cat)]);
	tracelines_place(j, t, x->track, lanes_kind_of(cat));
	json_kdouble(j, "start_ms", (double)(x->ts - e->first) / 1e6);
	json_kint(j, "dur_ns", x->dur);
}

static void traceevent_links(struct json *j, const struct trace *t, const struct oneevent *e)
{
	size_t i;

	json_key(j, "links");
	json_array(j);
	for (i = 0; i < e->n_links; i++) {
		json_object(j);
		json_kstr(j, "role", traceevent_roles[e->links[i].role]);
		traceevent_head(j, t, e, &e->links[i]);
		json_object_end(j);
	}
	json_array_end(j);
	json_kuint(j, "links_left_out", e->links_left_out);
}

int traceevent_write(struct trace *t, uint32_t index, struct buf *out, struct err *e)
{
	static const struct write_shift as_it_is = {0};
	const struct trace_block *b;
	struct oneevent one;
	struct err ignored = {0};
	struct buf text;
	struct json j;
	int rc;

	rc = oneevent_find(t, index, &one);
	if (rc == -ENOENT)
		return err_set(e, rc, "there is no event with a begin and an end at place %u",
			       index);
	if (rc)
		return rc;
	b = trace_block(t, one.row / TRACE_BLOCK_ROWS);
	if (!b)
		return -EIO;
	buf_init(&text, TRACEEVENT_EVENT);
	if (eventtext_read(t, b, one.row % TRACE_BLOCK_ROWS, &text, &ignored)) {
		/* What the model holds of it is still known. */
		buf_reset(&text);
		write_row(t, b, one.row % TRACE_BLOCK_ROWS, &as_it_is, &text);
		if (text.error) {
			buf_reset(&text);
			buf_puts(&text, "{}");
		}
	}
	json_init(&j, out);
	json_object(&j);
	traceevent_head(&j, t, &one,
			&(struct oneevent_link){.index = index,
						.name = one.name,
						.track = one.track,
						.cat = one.cat,
						.ts = one.ts,
						.dur = one.dur});
	json_kint(&j, "self_ns", one.self);
	traceevent_args(&j, buf_str(&text));
	traceevent_links(&j, t, &one);
	json_object_end(&j);
	buf_done(&text);
	return 0;
}
