/* SPDX-License-Identifier: Apache-2.0
 *
 * others.c - events as they stand in the file; only where traces are merged times, processes
 * and ids change.
 */
#include "trace/others.h"

#include "trace/member.h"
#include "trace/repair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FLUSH (256u << 10)

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

static int member_of(const char *key, size_t len)
{
	for (int i = 0; i < MEMBERS; i++)
		if (strlen(members[i]) == len && !memcmp(members[i], key, len))
			return i;
	return -1;
}

/* What the model holds: rows, pairs, metadata, memory. */
static bool is_held(const struct member_part *part)
{
	char phase = part[PHASE].len == 3 ? part[PHASE].p[1] : '\0';

	return !phase || strchr("XBEM", phase) ||
	       (phase == 'i' && member_is(&part[NAME], "[memory]"));
}

static bool is_flow(char phase)
{
	return phase == 's' || phase == 't' || phase == 'f';
}

/* Arrows from launches to work, by the names that they had over the years. */
static bool is_launch(const struct member_part *part)
{
	return member_is(&part[CAT], "ac2g") || member_is(&part[CAT], "async_cpu_to_gpu") ||
	       member_is(&part[CAT], "async_gpu") ||
	       (member_is(&part[CAT], "async") && member_is(&part[NAME], "launch"));
}

/* ---- writing -------------------------------------------------------------------------------- */

static void put_labelled(struct job *j, const struct member_part *v)
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
static bool put_number(struct job *j, int which, const struct member_part *v)
{
	const struct write_shift *s = j->s;
	int64_t n;

	if (!member_number(v, which == TS ? 3 : 0, &n))
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

static void put_value(struct job *j, int which, const struct member_part *v)
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
	struct member_part key, value;
	bool has = false;

	j->event.len = 0;
	if (!s->ts && !s->pid && !s->flow && !s->label) {
		buf_append(&j->event, text, len);
		return;
	}
	buf_putc(&j->event, '{');
	while (member_next(&text, &key, &value)) {
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

static uint64_t key_of(const struct member_part *part)
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

static void put_arrow(struct job *j, const struct member_part *part, char phase)
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
static bool read_members(const char *text, struct member_part *ret)
{
	struct member_part key, value;

	while (member_next(&text, &key, &value)) {
		int k = member_of(key.p, key.len);

		if (k >= 0)
			ret[k] = value;
		if (k == PHASE && value.len == 3 && strchr("XBEM", value.p[1]))
			return false;
	}
	return true;
}

/* Is it to be written? One that has no time cannot be in a window. */
static bool is_chosen(struct job *j, const struct member_part *part)
{
	const struct others_options *o = j->o;
	int64_t ts;

	if (is_flow(part[PHASE].p[1]) &&
	    (o->without_flows || (o->without_launches && is_launch(part))))
		return false;
	if (!o->is_cut)
		return true;
	if (!member_number(&part[TS], 3, &ts)) {
		j->ret->lost++;
		return false;
	}
	return ts >= o->from && ts < o->to;
}

static bool visit(void *arg, const void *text, size_t len)
{
	struct member_part part[MEMBERS] = {{0}};
	struct job *j = arg;

	if (!text || !read_members(text, part) || is_held(part))
		return true;
	j->ret->seen++;
	if (!is_chosen(j, part))
		return true;
	rewrite(j, text, len);
	if (j->event.error)
		j->rc = j->event.error;
	else if (j->o->is_cut && is_flow(part[PHASE].p[1]))
		put_arrow(j, part, part[PHASE].p[1]);
	else
		put(j, j->event.data, j->event.len, 1);
	return !j->rc;
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
