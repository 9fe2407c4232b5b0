/* SPDX-License-Identifier: Apache-2.0
 *
 * tbtags.c - tags of event files. What a walk brings is sorted by step, joined
 * to one value a tag and step, and written with all that has the same step and
 * time in one event. A value that was written and then grew, and the first one
 * of another attempt, are preceded by a restart (docs/export.md).
 */
#include "export/tensorboard_priv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define TBTAGS_ARENA_MAX (512u << 20)
#define TBTAGS_ALIGN 16u
#define TBTAGS_NAME_MAX 16384u /* bytes of a tag in a state file */

void tbtags_init(struct tbtags *t)
{
	*t = (struct tbtags){0};
	map_init(&t->by_name);
	buf_init(&t->arena, TBTAGS_ARENA_MAX);
	buf_init(&t->payload, TBTAGS_ARENA_MAX);
	buf_init(&t->scratch, TBTAGS_ARENA_MAX);
}

void tbtags_done(struct tbtags *t)
{
	size_t i;

	for (i = 0; i < t->n; i++) {
		free(t->tags[i].name);
		free(t->tags[i].about);
		tbhist_done(&t->tags[i].hist);
		buf_done(&t->tags[i].text);
	}
	free(t->tags);
	free(t->in.v);
	free(t->out.v);
	map_done(&t->by_name);
	buf_done(&t->arena);
	buf_done(&t->payload);
	buf_done(&t->scratch);
}

/* ---- tags --------------------------------------------------------------------- */

static uint32_t tbtags_new(struct tbtags *t, unsigned file, const char *name, enum tbtag_join join)
{
	struct tbtag *tag;

	t->tags = xgrow(t->tags, t->n, &t->cap, sizeof(*t->tags));
	tag = &t->tags[t->n];
	*tag = (struct tbtag){.name = xstrdup(name), .file = file, .join = join};
	buf_init(&tag->text, TBTAGS_TEXT_MAX);
	tbhist_reset(&tag->hist);
	return (uint32_t)t->n++;
}

uint32_t tbtags_find(struct tbtags *t, unsigned file, const char *name, enum tbtag_join join,
		     const char *about)
{
	char *key = xasprintf("%u/%s", file, name);
	uint64_t found = UINT32_MAX;

	if (!map_get(&t->by_name, key, strlen(key), &found) && t->n < TBTAGS_MAX) {
		found = tbtags_new(t, file, name, join);
		map_put(&t->by_name, key, strlen(key), found);
	}
	free(key);
	if (found != UINT32_MAX && about && !t->tags[found].described && !t->tags[found].about)
		t->tags[found].about = xstrdup(about);
	return (uint32_t)found;
}

/* ---- what comes ----------------------------------------------------------------- */

static struct tbrow *tbtags_row(struct tbrows *rows)
{
	rows->v = xgrow(rows->v, rows->n, &rows->cap, sizeof(*rows->v));
	return &rows->v[rows->n++];
}

/* Where the next thing in the arena begins, aligned. */
static size_t tbtags_arena(struct tbtags *t)
{
	while (t->arena.len % TBTAGS_ALIGN != 0 && !t->arena.error)
		buf_putc(&t->arena, 0);
	return t->arena.len;
}

/* The attempt, in this batch, that a point belongs to. */
static uint32_t tbtags_attempt(struct tbtags *t, struct tbtag *tag, uint64_t owner)
{
	if (tag->batch != t->batch) {
		tag->batch = t->batch;
		tag->attempt = tag->pass = 0;
	}
	if (tag->used && tag->owner != owner)
		tag->attempt++;
	tag->used = true;
	tag->owner = owner;
	return tag->attempt;
}

void tbtags_add(struct tbtags *t, uint32_t tag, const struct tbpoint *p)
{
	struct tbrow row = {.tag = tag,
			    .seq = (uint32_t)t->in.n,
			    .file = t->tags[tag].file,
			    .step = p->step,
			    .time_ns = p->time_ns,
			    .value = p->value};

	row.attempt = tbtags_attempt(t, &t->tags[tag], p->owner);
	if (p->hist) {
		row.at = tbtags_arena(t);
		buf_append(&t->arena, p->hist, sizeof(*p->hist));
		buf_append(&t->arena, p->hist->bins, p->hist->n_bins * sizeof(*p->hist->bins));
	} else if (p->text) {
		row.at = t->arena.len;
		row.len = strnlen(p->text, TBTAGS_TEXT_MAX);
		buf_append(&t->arena, p->text, row.len);
	}
	*tbtags_row(&t->in) = row;
}

void tbtags_set_text(struct tbtags *t, uint32_t tag, int64_t time_ns, const char *text)
{
	struct tbtag *g = &t->tags[tag];
	size_t len = strnlen(text, TBTAGS_TEXT_MAX);

	if (g->used && g->text.len == len && memcmp(buf_str(&g->text), text, len) == 0)
		return;
	tbtags_add(t, tag, &(struct tbpoint){.time_ns = time_ns, .text = text});
}

/* ---- joining -------------------------------------------------------------------- */

static int tbtags_compare_in(const void *a, const void *b)
{
	const struct tbrow *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->attempt != y->attempt)
		return x->attempt < y->attempt ? -1 : 1;
	if (x->tag != y->tag)
		return x->tag < y->tag ? -1 : 1;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return (x->seq > y->seq) - (x->seq < y->seq);
}

static int tbtags_compare_out(const void *a, const void *b)
{
	const struct tbrow *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->attempt != y->attempt)
		return x->attempt < y->attempt ? -1 : 1;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return (x->seq > y->seq) - (x->seq < y->seq);
}

/* Points of one series come sorted: then there is nothing to do. */
static void tbtags_sort(struct tbrows *rows, int (*compare)(const void *, const void *))
{
	size_t i;

	for (i = 1; i < rows->n; i++)
		if (compare(&rows->v[i - 1], &rows->v[i]) > 0)
			break;
	if (i < rows->n)
		qsort(rows->v, rows->n, sizeof(*rows->v), compare);
}

static void tbtags_join(struct tbtags *t, struct tbtag *tag, const struct tbrow *row)
{
	const struct sink_hist *stored;
	struct sink_hist hist;

	switch (tag->join) {
	case TBTAG_TOTAL:
	case TBTAG_SUM:
		tag->value += row->value;
		break;
	case TBTAG_HIST:
		stored = (const void *)(t->arena.data + row->at);
		hist = *stored;
		hist.bins = (const void *)(stored + 1);
		tbhist_add(&tag->hist, &hist);
		break;
	case TBTAG_TEXT:
	case TBTAG_LINES:
		if (tag->join == TBTAG_TEXT)
			buf_reset(&tag->text);
		else if (tag->text.len)
			buf_puts(&tag->text, "\n\n");
		buf_append(&tag->text, t->arena.data + row->at, row->len);
		break;
	case TBTAG_LAST:
		tag->value = row->value;
		break;
	}
	tag->time_ns = row->time_ns;
}

/* The open step begins with this row. */
static void tbtags_open(struct tbtag *tag, const struct tbrow *row)
{
	tag->step = row->step;
	tag->written = false;
	if (tag->join == TBTAG_SUM)
		tag->value = 0;
	tbhist_reset(&tag->hist);
	if (tag->join == TBTAG_LINES)
		buf_reset(&tag->text);
}

/* The open step, as far as it has come, goes out. */
static void tbtags_emit(struct tbtags *t, uint32_t index)
{
	struct tbtag *tag = &t->tags[index];
	struct tbrow *row = tbtags_row(&t->out);

	*row = (struct tbrow){.tag = index,
			      .attempt = tag->pass,
			      .seq = (uint32_t)t->out.n,
			      .file = tag->file,
			      .step = tag->step,
			      .time_ns = tag->time_ns,
			      .value = tag->value,
			      .at = t->payload.len,
			      .again = tag->again || tag->written || !tag->in_file};
	if (tag->join == TBTAG_HIST)
		tbhist_proto(&tag->hist, &t->payload);
	else if (tag->join == TBTAG_TEXT || tag->join == TBTAG_LINES)
		buf_append(&t->payload, buf_str(&tag->text), tag->text.len);
	row->len = t->payload.len - row->at;
	tag->in_file = tag->written = true;
	tag->again = false;
}

/* One row; returns whether the tag's open step has grown. */
static bool tbtags_take(struct tbtags *t, const struct tbrow *row, bool grown)
{
	struct tbtag *tag = &t->tags[row->tag];
	bool lines = tag->join == TBTAG_LINES || tag->join == TBTAG_TOTAL;

	if (row->attempt != tag->pass) {
		tag->pass = row->attempt;
		tag->again = true;
		tbtags_open(tag, row);
	} else if (!tag->in_file && !grown) {
		tbtags_open(tag, row);
	} else if (row->step > tag->step) {
		if (grown)
			tbtags_emit(t, row->tag);
		tbtags_open(tag, row);
	} else if (row->step < tag->step && !lines) {
		t->late++;
		return grown;
	}
	tbtags_join(t, tag, row);
	return true;
}

static void tbtags_join_all(struct tbtags *t)
{
	const struct tbrow *row, *next;
	bool grown = false;
	size_t i;

	for (i = 0; i < t->in.n; i++) {
		row = &t->in.v[i];
		next = i + 1 < t->in.n ? row + 1 : NULL;
		grown = tbtags_take(t, row, grown);
		if (next && next->tag == row->tag && next->attempt == row->attempt)
			continue;
		if (grown)
			tbtags_emit(t, row->tag);
		grown = false;
	}
}

/* ---- writing ------------------------------------------------------------------- */

#define TBTAGS_EVENT_VALUES 256u /* values of one event */

static struct tbevent_value tbtags_value(struct tbtags *t, const struct tbrow *row)
{
	struct tbtag *tag = &t->tags[row->tag];
	struct tbevent_value v = {.tag = tag->name,
				  .kind = TBEVENT_SCALAR,
				  .first = !tag->described,
				  .about = tag->about,
				  .scalar = row->value,
				  .data = buf_str(&t->payload) + row->at,
				  .len = row->len};

	if (tag->join == TBTAG_HIST)
		v.kind = TBEVENT_HISTOGRAM;
	else if (tag->join == TBTAG_TEXT || tag->join == TBTAG_LINES)
		v.kind = TBEVENT_TEXT;
	tag->described = true;
	return v;
}

/* Rows from `at` on that fit one event; returns their number. */
static size_t tbtags_event(struct tbtags *t, struct exporter *x, size_t at)
{
	struct tbevent_value v[TBTAGS_EVENT_VALUES];
	const struct tbrow *first = &t->out.v[at], *row = first;
	struct buf *out = exporter_out(x, first->file);
	bool again = false;
	size_t n = 0;

	while (at + n < t->out.n && n < TBTAGS_EVENT_VALUES && row->file == first->file &&
	       row->attempt == first->attempt && row->step == first->step &&
	       row->time_ns == first->time_ns) {
		again = again || row->again;
		v[n++] = tbtags_value(t, row++);
	}
	if (again)
		tbevent_restart(out, &t->scratch, first->time_ns);
	tbevent_append(out, &t->scratch, first->time_ns, first->step, v, n);
	return n;
}

void tbtags_flush(struct tbtags *t, struct exporter *x)
{
	size_t at = 0;

	tbtags_sort(&t->in, tbtags_compare_in);
	tbtags_join_all(t);
	tbtags_sort(&t->out, tbtags_compare_out);
	while (at < t->out.n)
		at += tbtags_event(t, x, at);
	t->in.n = t->out.n = 0;
	buf_reset(&t->arena);
	buf_reset(&t->payload);
	t->batch++;
}

/* ---- state ---------------------------------------------------------------------- */

/* Between batches every tag has been used. */
void tbtags_save(const struct tbtags *t, struct buf *b)
{
	size_t i;

	buf_uvarint(b, t->late);
	buf_uvarint(b, t->n);
	for (i = 0; i < t->n; i++) {
		const struct tbtag *g = &t->tags[i];

		buf_uvarint(b, strlen(g->name));
		buf_puts(b, g->name);
		buf_uvarint(b, g->file);
		buf_uvarint(b, g->join);
		buf_putc(b, (char)(g->in_file | g->described << 1 | g->written << 2));
		buf_uvarint(b, g->owner);
		buf_svarint(b, g->step);
		buf_svarint(b, g->time_ns);
		buf_append(b, &g->value, sizeof(g->value));
		if (g->join == TBTAG_HIST)
			tbhist_save(&g->hist, b);
		buf_uvarint(b, g->text.len);
		buf_append(b, buf_str(&g->text), g->text.len);
	}
}

static struct tbtag *tbtags_load_name(struct tbtags *t, struct cur *c, unsigned files)
{
	uint64_t len = cur_uvarint(c), file, join;
	const char *p = len <= TBTAGS_NAME_MAX ? cur_bytes(c, (size_t)len) : NULL;
	uint32_t index;
	char *name;

	file = cur_uvarint(c);
	join = cur_uvarint(c);
	if (!p || memchr(p, '\0', (size_t)len) || file >= files || join < TBTAG_LAST ||
	    join > TBTAG_LINES)
		return NULL;
	name = xstrndup(p, (size_t)len);
	index = tbtags_find(t, (unsigned)file, name, (enum tbtag_join)join, NULL);
	free(name);
	/* Each once. */
	return index + 1 == t->n && !t->tags[index].used ? &t->tags[index] : NULL;
}

static int tbtags_load_one(struct tbtags *t, struct cur *c, unsigned files)
{
	struct tbtag *g = tbtags_load_name(t, c, files);
	const unsigned char *flags = g ? cur_bytes(c, 1) : NULL;
	const void *value, *text;
	uint64_t len;

	if (!flags)
		return -EUCLEAN;
	g->used = true;
	g->in_file = *flags & 1;
	g->described = *flags >> 1 & 1;
	g->written = *flags >> 2 & 1;
	g->owner = cur_uvarint(c);
	g->step = cur_svarint(c);
	g->time_ns = cur_svarint(c);
	value = cur_bytes(c, sizeof(g->value));
	if (value)
		memcpy(&g->value, value, sizeof(g->value));
	if (g->join == TBTAG_HIST && tbhist_load(&g->hist, c) < 0)
		return -EUCLEAN;
	len = cur_uvarint(c);
	text = len <= TBTAGS_TEXT_MAX ? cur_bytes(c, (size_t)len) : NULL;
	if (text)
		buf_append(&g->text, text, (size_t)len);
	return text && !c->error ? 0 : -EUCLEAN;
}

int tbtags_load(struct tbtags *t, struct cur *c, unsigned files)
{
	uint64_t n, i;

	t->late = cur_uvarint(c);
	n = cur_uvarint(c);
	if (n > TBTAGS_MAX)
		return -EUCLEAN;
	t->batch = 1; /* tags were last used in another one */
	for (i = 0; i < n; i++)
		if (c->error || tbtags_load_one(t, c, files) < 0)
			return -EUCLEAN;
	return c->error ? -EUCLEAN : 0;
}
