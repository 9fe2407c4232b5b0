/* SPDX-License-Identifier: Apache-2.0
 *
 * newerseries.c - what is new of one series: from its chunks if a fold has been there,
 * then from the tail.
 */
#include "base/mem.h"
#include "store/newer_priv.h"

#include <errno.h>

/* Definition of the series; strings are copied so that no transaction stays open. */
static int newerseries_define(struct newer *w, uint32_t id)
{
	sqlite3_stmt *st = w->sql[NEWER_SERIES];
	struct store_series *s = &w->series;
	const char **const texts[] = {&s->role, &s->name, &s->labels,
				      &s->unit, &s->help, &s->source};
	size_t at[ARRAY_LEN(texts)], i;
	int rc, r = 0;

	*s = (struct store_series){.host = w->host, .host_name = w->h->name, .id = id};
	s->kind = w->c->series[id - 1].kind;
	s->count = w->c->series[id - 1].given;
	sqlite3_bind_int64(st, 1, id);
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW) {
		s->process = (uint32_t)sqlite3_column_int64(st, 0);
		s->rank = sqlite3_column_type(st, 1) == SQLITE_NULL ? -1
								    : sqlite3_column_int64(st, 1);
		s->began_ns = sqlite3_column_int64(st, 2);
		buf_reset(&w->text);
		for (i = 0; i < ARRAY_LEN(texts); i++) {
			at[i] = w->text.len;
			buf_puts(&w->text, db_text(st, (int)i + 3));
			buf_append(&w->text, "", 1);
		}
		if (w->text.error)
			r = err_set(w->e, -EUCLEAN, "%s: table series, %u: too long", w->h->path,
				    id);
		for (i = 0; r == 0 && i < ARRAY_LEN(texts); i++)
			*texts[i] = w->text.data + at[i];
	} else {
		r = rc == SQLITE_DONE ? err_set(w->e, -EUCLEAN, "%s: no series %u", w->h->path, id)
				      : db_fail(w->h->db, rc, "reading table series", w->e);
	}
	sqlite3_reset(st);
	if (r < 0)
		s->id = 0;
	return r;
}

/* The next n points are only told of, if anybody wants to know. */
static int newerseries_pass(struct newer *w, uint32_t id, struct cursor_series *c,
			    int (*tell)(void *, const struct store_series *, uint64_t), uint64_t n)
{
	int r = w->series.id == id ? 0 : newerseries_define(w, id);

	if (r == 0 && tell)
		r = tell(w->arg, &w->series, n);
	c->given += n;
	return r;
}

static int newerseries_point(struct newer *w, size_t i, bool is_hist, uint32_t segment)
{
	const struct points *in = &w->points;
	struct store_point p = {.segment = segment};
	struct sink_hist h;

	if (!is_hist) {
		p.time_ns = in->time[i];
		p.step = in->step[i];
		p.value = in->value[i];
		p.thread = (uint32_t)in->thread[i];
		return w->f->point(w->arg, &w->series, &p);
	}
	p.value = hists_get(&w->hists, i, w->series.id, &h);
	p.time_ns = h.time_ns;
	p.step = h.step;
	p.hist = &h;
	return w->f->point(w->arg, &w->series, &p);
}

/* Give points [from, n) that have been decoded. Those of a chunk are of one segment,
 * which `at` is; those of the tail (at NULL) go on from where the series stands. */
static int newerseries_points(struct newer *w, uint32_t id, struct cursor_series *c, size_t from,
			      size_t n, const struct segment *at)
{
	bool is_hist = c->kind == SINK_HISTOGRAM;
	size_t i;
	int r = from < n && w->series.id != id ? newerseries_define(w, id) : 0;

	for (i = from; r == 0 && i < n; i++) {
		int64_t time = is_hist ? w->hists.rows[i].time : w->points.time[i];
		int64_t step = is_hist ? w->hists.rows[i].step : w->points.step[i];

		if (w->left == 0) {
			w->stopped = true;
			break;
		}
		w->left--;
		if (c->kind == SINK_SPAN)
			time = segment_span_end(time, w->points.value[i]);
		if (!at)
			segment_next(&c->at, time, step);
		if (w->f->point)
			r = newerseries_point(w, i, is_hist, at ? at->no : c->at.no);
		c->given++;
	}
	return r;
}

/* ---- chunks ------------------------------------------------------------------------ */

/* 1 and a row of table chunk, or 0: there is none. */
static int newerseries_chunk(struct newer *w, enum newer_sql which, uint32_t id, uint64_t ordinal,
			     struct chunk *ret)
{
	sqlite3_stmt *st = w->sql[which];
	int rc, r;

	sqlite3_bind_int64(st, 1, id);
	if (which == NEWER_FROM)
		sqlite3_bind_int64(st, 2, (int64_t)ordinal);
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		r = chunkrow_read(st, w->h->path, w->e, ret);
	else
		r = rc == SQLITE_DONE ? 0 : db_fail(w->h->db, rc, "reading table chunk", w->e);
	sqlite3_reset(st);
	return r < 0 ? r : rc == SQLITE_ROW;
}

/* The last chunk of a series, if no fold came since the tail was read: what is now
 * in chunks could be in that tail too. 1, or 0: none, or stale. */
static int newerseries_last(struct newer *w, uint32_t id, struct chunk *ret)
{
	sqlite3_stmt *st = w->sql[NEWER_FOLDS];
	int64_t folds = 0;
	int rc, r = hosts_begin(w->h, w->e);

	if (r < 0)
		return r;
	sqlite3_bind_text(st, 1, store_meta_names[META_FOLDS], -1, SQLITE_STATIC);
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		folds = sqlite3_column_int64(st, 0);
	else if (rc != SQLITE_DONE)
		r = db_fail(w->h->db, rc, "reading table meta", w->e);
	sqlite3_reset(st);
	w->stale = r == 0 && folds != w->meta[META_FOLDS];
	if (r == 0 && !w->stale)
		r = newerseries_chunk(w, NEWER_LAST, id, 0, ret);
	hosts_end(w->h);
	return r;
}

/* The ordinal at which to begin: of the chunk that has point number `point`, or one
 * before it that is no longer there. */
static int newerseries_find(struct newer *w, uint32_t id, uint64_t point, uint64_t last,
			    uint64_t *ret)
{
	uint64_t low = 0, high = last;
	struct chunk c;
	int r;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		r = newerseries_chunk(w, NEWER_FROM, id, middle, &c);
		if (r < 0)
			return r;
		/* A later one is not what is asked for, but may be the first that is left. */
		if (r > 0 && c.start + c.n <= point)
			low = (uint64_t)c.ordinal + 1;
		else
			high = middle;
	}
	*ret = low;
	return 0;
}

/* The next chunk from *ordinal on, its points decoded; row and points in one
 * transaction, since retention may be at work. 0: none. */
static int newerseries_decode(struct newer *w, uint32_t id, uint64_t ordinal, bool is_hist,
			      struct chunk *c)
{
	int r = hosts_begin(w->h, w->e);

	if (r < 0)
		return r;
	w->points.n = 0;
	hists_reset(&w->hists);
	r = newerseries_chunk(w, NEWER_FROM, id, ordinal, c);
	if (r > 0) {
		int code = chunkdata_read(&w->data, c, is_hist, w->e, &w->points, &w->hists);

		r = code < 0 ? code : r;
	}
	chunkdata_end(&w->data);
	hosts_end(w->h);
	return r;
}

/* Pass over what need not be read of chunks up to `last`; where reading begins. */
static int newerseries_begin(struct newer *w, uint32_t id, struct cursor_series *s,
			     const struct chunk *last, uint64_t *ret)
{
	uint64_t end = last->start + last->n;
	int r = 0;

	if (w->skip && s->given < end) {
		s->at = last->segment;
		s->given = end;
	}
	/* Not without a point to follow: a gauge whose older ones alone are told has no value. */
	if (w->f->older && w->left > 0 && s->kind == SINK_GAUGE && s->given < last->start)
		r = newerseries_pass(w, id, s, w->f->older, last->start - s->given);
	return r == 0 && s->given < end ? newerseries_find(w, id, s->given, last->ordinal, ret) : r;
}

/* Points in chunks up to `last`, which is the newest. */
static int newerseries_chunks(struct newer *w, uint32_t id, struct cursor_series *s,
			      const struct chunk *last)
{
	uint64_t end = last->start + last->n, ordinal = 0;
	struct chunk c;
	int r = newerseries_begin(w, id, s, last, &ordinal);

	while (r == 0 && !w->stopped && s->given < end) {
		r = newerseries_decode(w, id, ordinal, s->kind == SINK_HISTOGRAM, &c);
		if (r < 0)
			return r;
		if (r == 0 || c.start >= end) { /* also the last one is gone by now */
			s->at = last->segment;
			return newerseries_pass(w, id, s, w->f->lost, end - s->given);
		}
		r = 0;
		ordinal = (uint64_t)c.ordinal + 1;
		if (c.start + c.n <= s->given)
			continue;
		if (c.start > s->given)
			r = newerseries_pass(w, id, s, w->f->lost, c.start - s->given);
		if (r == 0)
			r = newerseries_points(w, id, s, (size_t)(s->given - c.start), c.n,
					       &c.segment);
		if (!w->stopped)
			s->at = c.segment;
	}
	return r;
}

/* ---- the tail --------------------------------------------------------------------------- */

/* The next block of the tail, points from `from` on. */
static int newerseries_block(struct newer *w, uint32_t id, struct cursor_series *s, size_t from)
{
	bool is_hist = s->kind == SINK_HISTOGRAM;
	uint32_t n = tailrows_next(&w->rows)->n;
	int r;

	w->points.n = 0;
	hists_reset(&w->hists);
	r = tailrows_take(&w->rows, is_hist ? NULL : &w->points, is_hist ? &w->hists : NULL);
	return r < 0 ? r : newerseries_points(w, id, s, from, n, NULL);
}

/* The blocks of a series. counted: *at is the number of the first point; else only
 * rows behind commit `after` have new points, and all of theirs are. */
static int newerseries_tail(struct newer *w, uint32_t id, struct cursor_series *s, bool counted,
			    uint64_t at, uint64_t after)
{
	const struct tailrows_row *row;
	int r = 0;

	while (r == 0 && !w->stopped && (row = tailrows_next(&w->rows)) && row->series == id) {
		uint32_t n = row->n;

		if (counted ? at + n > s->given : row->id.a > after)
			r = newerseries_block(
				w, id, s, counted && s->given > at ? (size_t)(s->given - at) : 0);
		else
			r = tailrows_take(&w->rows, NULL, NULL);
		at += n;
	}
	/* Commits that had been given were lost with the power. */
	if (r == 0 && !w->stopped && counted && s->given > at)
		s->given = at;
	return r;
}

static int newerseries_skip(struct newer *w, uint32_t id)
{
	const struct tailrows_row *row;
	int r = 0;

	while (r == 0 && (row = tailrows_next(&w->rows)) && row->series == id)
		r = tailrows_take(&w->rows, NULL, NULL);
	return r;
}

int newerseries_give(struct newer *w, uint32_t id)
{
	struct cursor_series *to = &w->c->series[id - 1], s = *to;
	uint64_t after = s.seq > w->c->seq ? s.seq : w->c->seq;
	bool counted =
		(uint64_t)w->meta[META_FOLDED] > after || w->c->partial == id || w->c->recount;
	struct chunk last;
	uint64_t at = 0;
	int r = 0;

	if (after >= w->c->target)
		return newerseries_skip(w, id);
	if (counted) {
		r = newerseries_last(w, id, &last);
		if (r < 0 || w->stale)
			return r;
		if (r > 0) {
			at = last.start + last.n;
			r = newerseries_chunks(w, id, &s, &last);
		}
	}
	if (r == 0 && !w->stopped)
		r = newerseries_tail(w, id, &s, counted, at, after);
	if (r != 0)
		return r;
	if (w->stopped)
		w->c->partial = id;
	else if (w->c->partial == id)
		w->c->partial = 0;
	s.seq = w->stopped ? after : w->seq;
	w->log->undo = xgrow(w->log->undo, w->log->n, &w->log->cap, sizeof(*w->log->undo));
	w->log->undo[w->log->n++] = (struct newer_undo){id, *to};
	*to = s;
	return 0;
}
