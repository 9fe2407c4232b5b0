/* SPDX-License-Identifier: Apache-2.0
 *
 * others.c - events as they stand in the file; only where traces are merged times, processes
 * and ids change.
 */
#include "trace/others.h"

#include "trace/decimal.h"
#include "trace/repair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FLUSH (256u << 10)

struct part {
	const char *p;
	size_t len;
};

/* The members of an event that matter, as they are written; p NULL: not there. */
enum member {
	PHASE,
	CAT,
	NAME,
	TS,
	PID,
	ID,
	MEMBERS
};
static const char *const members[MEMBERS] = {"ph", "cat", "name", "ts", "pid", "id"};

/* An arrow of which not both ends were there yet, or one that was written. */
struct arrow {
	uint64_t key;   /* 0: a free place */
	size_t at, len; /* what waits */
	unsigned n;     /* events in it */
	bool begins, ends, is_written;
};

struct job {
	const struct others_options *o;
	const struct write_shift *s;
	struct write_sink *sink;
	bool *has_event;
	struct others_result *ret;
	struct buf out, event, waiting;
	struct arrow *arrows;
	size_t n_arrows, n_slots;
	int rc;
};

/* ---- an event, which is well-formed JSON ---------------------------------------------------- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static const char *blanks(const char *p)
{
	while (is_blank(*p))
		p++;
	return p;
}

/* Behind the text that begins at p, with its quotes. */
static const char *text_end(const char *p)
{
	for (p++; *p != '"'; p++)
		if (*p == '\\')
			p++;
	return p + 1;
}

/* Behind the array or object that begins at p. */
static const char *block_end(const char *p)
{
	unsigned depth = 0;

	for (;; p++) {
		if (*p == '"')
			p = text_end(p) - 1;
		else if (*p == '{' || *p == '[')
			depth++;
		else if ((*p == '}' || *p == ']') && !--depth)
			return p + 1;
	}
}

static const char *value_end(const char *p)
{
	if (*p == '"')
		return text_end(p);
	if (*p == '{' || *p == '[')
		return block_end(p);
	while (*p != ',' && *p != '}' && !is_blank(*p))
		p++;
	return p;
}

static int member_of(const char *key, size_t len)
{
	for (int i = 0; i < MEMBERS; i++)
		if (strlen(members[i]) == len && !memcmp(members[i], key, len))
			return i;
	return -1;
}

/* The next member behind *p, which is at { or a comma: its key and value. false: no more. */
static bool next_member(const char **p, struct part *key, struct part *value)
{
	const char *q = blanks(*p + 1);

	if (*q != '"')
		return false;
	key->p = q + 1;
	q = text_end(q);
	key->len = (size_t)(q - 1 - key->p);
	value->p = blanks(blanks(q) + 1);
	q = value_end(value->p);
	value->len = (size_t)(q - value->p);
	*p = blanks(q);
	return true;
}

static bool is_text(const struct part *v, const char *text)
{
	size_t n = strlen(text);

	return v->p && v->len == n + 2 && *v->p == '"' && !memcmp(v->p + 1, text, n);
}

/* What the model holds: rows, pairs, metadata, memory. */
static bool is_held(const struct part *part)
{
	char phase = part[PHASE].len == 3 ? part[PHASE].p[1] : '\0';

	return !phase || strchr("XBEM", phase) ||
	       (phase == 'i' && is_text(&part[NAME], "[memory]"));
}

static bool is_flow(char phase)
{
	return phase == 's' || phase == 't' || phase == 'f';
}

/* Arrows from launches to work, by the names that they had over the years. */
static bool is_launch(const struct part *part)
{
	return is_text(&part[CAT], "ac2g") || is_text(&part[CAT], "async_cpu_to_gpu") ||
	       is_text(&part[CAT], "async_gpu") ||
	       (is_text(&part[CAT], "async") && is_text(&part[NAME], "launch"));
}

/* A number, in quotes too. */
static bool number_of(const struct part *v, int shift, int64_t *ret)
{
	unsigned char text[64 + LEX_PAD] = {0};
	const char *p = v->p;
	size_t len = v->len;
	unsigned flags;

	if (p && len >= 2 && *p == '"') {
		p++;
		len -= 2;
	}
	if (!p || !len || len >= 64)
		return false;
	memcpy(text, p, len);
	return decimal_read(text, len, shift, ret, &flags) == len;
}

/* ---- writing -------------------------------------------------------------------------------- */

static void put_labelled(struct job *j, const struct part *v)
{
	struct buf label;

	buf_putc(&j->event, '"');
	buf_init(&label, 256);
	write_text(&label, j->s->label, strlen(j->s->label));
	buf_append(&j->event, label.data + 1, label.len - 2);
	buf_done(&label);
	buf_putc(&j->event, ' ');
	buf_append(&j->event, v->p + 1, v->len - 1);
}

/* A time, a process or an id that is a number, changed; false: it stays as it is. */
static bool put_number(struct job *j, int which, const struct part *v)
{
	const struct write_shift *s = j->s;
	int64_t n;

	if (!number_of(v, which == TS ? 3 : 0, &n))
		return false;
	if (which == TS)
		write_us(&j->event, (int64_t)((uint64_t)n + (uint64_t)s->ts), true);
	else if (which == PID)
		buf_printf(&j->event, "%lld", (long long)((uint64_t)n + (uint64_t)s->pid));
	else if (*v->p != '"')
		buf_printf(&j->event, "%lld", (long long)((uint64_t)n + (uint64_t)s->flow));
	else
		return false;
	return true;
}

static void put_value(struct job *j, int which, const struct part *v)
{
	bool is_known = which == TS || which == PID || which == ID;

	if (is_known && put_number(j, which, v))
		return;
	if (is_known && which != TS && j->s->label && *v->p == '"')
		put_labelled(j, v);
	else
		buf_append(&j->event, v->p, v->len);
}

/* The event as it goes into the new file, into j->event. */
static void rewrite(struct job *j, const char *text, size_t len)
{
	const struct write_shift *s = j->s;
	struct part key, value;
	bool has = false;

	j->event.len = 0;
	if (!s->ts && !s->pid && !s->flow && !s->label) {
		buf_append(&j->event, text, len);
		return;
	}
	buf_putc(&j->event, '{');
	while (next_member(&text, &key, &value)) {
		if (has)
			buf_putc(&j->event, ',');
		has = true;
		buf_append(&j->event, key.p - 1, key.len + 2);
		buf_putc(&j->event, ':');
		put_value(j, member_of(key.p, key.len), &value);
	}
	buf_putc(&j->event, '}');
}

static void flush(struct job *j, size_t least)
{
	if (j->out.error && !j->rc)
		j->rc = j->out.error;
	if (j->rc || j->out.len < least)
		return;
	write_put(j->sink, j->out.data, j->out.len);
	j->out.len = 0;
}

/* n events with commas between them. */
static void put(struct job *j, const void *text, size_t len, unsigned n)
{
	if (*j->has_event)
		buf_puts(&j->out, ",\n");
	*j->has_event = true;
	buf_append(&j->out, text, len);
	j->ret->written += n;
	flush(j, FLUSH);
}

/* ---- arrows of a cut: both ends or none ------------------------------------------------------ */

static uint64_t key_of(const struct part *part)
{
	uint64_t h = 14695981039346656037ull;

	for (int k = CAT; k <= ID; k += ID - CAT)
		for (size_t i = 0; i < part[k].len; i++)
			h = (h ^ (unsigned char)part[k].p[i]) * 1099511628211ull;
	h ^= h >> 29;
	return h ? h : 1;
}

static int grow(struct job *j)
{
	size_t n = j->n_slots ? j->n_slots * 2 : 1024;
	struct arrow *list = calloc(n, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < j->n_slots; i++) {
		size_t at = j->arrows[i].key & (n - 1);

		if (!j->arrows[i].key)
			continue;
		while (list[at].key)
			at = (at + 1) & (n - 1);
		list[at] = j->arrows[i];
	}
	free(j->arrows);
	j->arrows = list;
	j->n_slots = n;
	return 0;
}

static struct arrow *arrow_of(struct job *j, uint64_t key)
{
	size_t at;

	if (j->n_arrows * 2 >= j->n_slots && grow(j)) {
		j->rc = -ENOMEM;
		return NULL;
	}
	for (at = key & (j->n_slots - 1); j->arrows[at].key && j->arrows[at].key != key;
	     at = (at + 1) & (j->n_slots - 1))
		;
	if (!j->arrows[at].key) {
		j->arrows[at].key = key;
		j->n_arrows++;
	}
	return &j->arrows[at];
}

/* Keep the text behind that of other ends of the same arrow. */
static void wait_for_end(struct job *j, struct arrow *a)
{
	size_t at = j->waiting.len;

	if (a->len) {
		char *p = buf_reserve(&j->waiting, a->len + 2);

		if (p) {
			memcpy(p, j->waiting.data + a->at, a->len);
			memcpy(p + a->len, ",\n", 2);
			j->waiting.len += a->len + 2;
		}
	}
	buf_append(&j->waiting, j->event.data, j->event.len);
	if (j->waiting.error) {
		/* No room: it is written without knowing of the other end. */
		j->waiting.error = 0;
		j->waiting.len = at;
		a->is_written = true;
		if (a->len)
			put(j, j->waiting.data + a->at, a->len, a->n);
		put(j, j->event.data, j->event.len, 1);
		return;
	}
	a->n++;
	a->at = at;
	a->len = j->waiting.len - at;
}

static void put_arrow(struct job *j, const struct part *part, char phase)
{
	struct arrow *a = arrow_of(j, key_of(part));

	if (!a)
		return;
	a->begins |= phase == 's';
	a->ends |= phase == 'f';
	if (!a->is_written && !(a->begins && a->ends)) {
		wait_for_end(j, a);
		return;
	}
	if (!a->is_written && a->len) {
		put(j, j->waiting.data + a->at, a->len, a->n);
		a->len = 0;
	}
	a->is_written = true;
	put(j, j->event.data, j->event.len, 1);
}

/* ---- the file ------------------------------------------------------------------------------- */

/* The members of an event; false: its phase says early that the model holds it. */
static bool read_members(const char *text, struct part *ret)
{
	struct part key, value;

	while (next_member(&text, &key, &value)) {
		int k = member_of(key.p, key.len);

		if (k >= 0)
			ret[k] = value;
		if (k == PHASE && value.len == 3 && strchr("XBEM", value.p[1]))
			return false;
	}
	return true;
}

/* Is it to be written? One that has no time cannot be in a window. */
static bool is_chosen(struct job *j, const struct part *part)
{
	const struct others_options *o = j->o;
	int64_t ts;

	if (is_flow(part[PHASE].p[1]) &&
	    (o->without_flows || (o->without_launches && is_launch(part))))
		return false;
	if (!o->is_cut)
		return true;
	if (!number_of(&part[TS], 3, &ts)) {
		j->ret->lost++;
		return false;
	}
	return ts >= o->from && ts < o->to;
}

static void visit(void *arg, const void *text, size_t len)
{
	struct part part[MEMBERS] = {{0}};
	struct job *j = arg;

	if (j->rc || !read_members(text, part) || is_held(part))
		return;
	j->ret->seen++;
	if (!is_chosen(j, part))
		return;
	rewrite(j, text, len);
	if (j->event.error)
		j->rc = j->event.error;
	else if (j->o->is_cut && is_flow(part[PHASE].p[1]))
		put_arrow(j, part, part[PHASE].p[1]);
	else
		put(j, j->event.data, j->event.len, 1);
}

int others_write(const char *path, const struct others_options *o, const struct write_shift *s,
		 struct write_sink *sink, bool *has_event, struct others_result *ret, struct err *e)
{
	struct job j = {.o = o, .s = s, .sink = sink, .has_event = has_event, .ret = ret};
	struct stat st;
	int rc;

	*ret = (struct others_result){0};
	if (!strcmp(path, "-") || stat(path, &st) || !S_ISREG(st.st_mode))
		return -ESPIPE;
	buf_init(&j.out, 4ull * REPAIR_EVENT_MAX);
	buf_init(&j.event, 2ull * REPAIR_EVENT_MAX);
	buf_init(&j.waiting, OTHERS_WAITING_MAX);
	rc = repair_each(path, visit, &j, e);
	flush(&j, 0);
	if (!rc && j.rc)
		rc = err_set(e, j.rc, "out of memory");
	buf_done(&j.out);
	buf_done(&j.event);
	buf_done(&j.waiting);
	free(j.arrows);
	return rc;
}
