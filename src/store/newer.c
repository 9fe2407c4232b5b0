/* SPDX-License-Identifier: Apache-2.0
 *
 * newer.c - what is newer than a cursor, exactly once. The points of a series are
 * numbered; as long as commits behind the cursor are plain rows of the tail only
 * these rows are looked at, and if some have been folded, a series' chunks and
 * merged rows from the first number on that was not given.
 */
#include "base/mem.h"
#include "store/read_priv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEWER_TEXT_MAX (64u << 10) /* strings of a series' definition, several times over */

enum newer_sql {
	NEWER_FOLDS,
	NEWER_LAST, /* chunk of a series */
	NEWER_FROM, /* its first chunk from an ordinal on */
	NEWER_SERIES,
	NEWER_N
};

static const char *const newer_sql[NEWER_N] = {
	[NEWER_FOLDS] = "SELECT value FROM meta WHERE key = ?1",
	[NEWER_LAST] = "SELECT " CHUNKROW_COLUMNS
		       " FROM chunk WHERE series = ?1 ORDER BY ordinal DESC LIMIT 1",
	[NEWER_FROM] = "SELECT " CHUNKROW_COLUMNS
		       " FROM chunk WHERE series = ?1 AND ordinal >= ?2 ORDER BY ordinal LIMIT 1",
	[NEWER_SERIES] = "SELECT s.process, p.rank, p.role, s.name, s.labels, s.unit, s.help,"
			 " s.source FROM series s LEFT JOIN process p ON p.id = s.process"
			 " WHERE s.id = ?1",
};

struct newer_undo {
	uint32_t series;
	struct cursor_series old;
};

/* What a call has changed of one host's cursor, to take it back if it fails. */
struct newer_log {
	size_t host;               /* of the cursor */
	struct cursor_host before; /* series: live only if `fresh` */
	bool fresh;                /* the cursor has an array of series of its own since */
	struct newer_undo *undo;
	size_t n, cap;
};

struct newer {
	struct store_reader *r;
	struct hosts_one *h;
	unsigned host;
	struct cursor_host *c;
	const struct store_newer *f;
	void *arg;
	struct err *e;
	uint64_t left; /* points that may be given */
	bool stopped;  /* there are more points than that */
	bool stale;    /* the tail must be read again, and what follows from it */
	uint64_t seq;  /* last commit, as of when the tail was read */
	int64_t meta[META_N];
	sqlite3_stmt *sql[NEWER_N];
	struct chunkdata data;
	struct tailrows rows;
	struct points points;
	struct hists hists;
	struct newer_log *log;
	struct store_series series; /* the one whose points are given; id 0: none */
	struct buf text;
};

/* ---- a series ------------------------------------------------------------------ */

/* Definition of the series; strings are copied so that no transaction stays open. */
static int newer_define(struct newer *w, uint32_t id)
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
		buf_reset(&w->text);
		for (i = 0; i < ARRAY_LEN(texts); i++) {
			at[i] = w->text.len;
			buf_puts(&w->text, db_text(st, (int)i + 2));
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

static int newer_lose(struct newer *w, uint32_t id, struct cursor_series *c, uint64_t n)
{
	int r = w->series.id == id ? 0 : newer_define(w, id);

	if (r == 0 && w->f->lost)
		r = w->f->lost(w->arg, &w->series, n);
	c->given += n;
	return r;
}

static int newer_point(struct newer *w, size_t i, bool is_hist, uint32_t segment)
{
	const struct points *in = &w->points;
	struct store_point p = {.segment = segment};
	const struct hists_row *row;
	struct sink_hist h;

	if (!is_hist) {
		p.time_ns = in->time[i];
		p.step = in->step[i];
		p.value = in->value[i];
		p.thread = (uint32_t)in->thread[i];
		return w->f->point(w->arg, &w->series, &p);
	}
	row = &w->hists.rows[i];
	h = (struct sink_hist){.series = w->series.id,
			       .time_ns = row->time,
			       .step = row->step,
			       .count = row->count,
			       .nan = row->nan,
			       .sum = row->sum,
			       .min = row->min,
			       .max = row->max,
			       .bins = w->hists.bins + row->bins,
			       .n_bins = row->n_bins};
	p.time_ns = row->time;
	p.step = row->step;
	p.value = row->count ? row->sum / (double)row->count : NAN;
	p.hist = &h;
	return w->f->point(w->arg, &w->series, &p);
}

/* Give points [from, n) that have been decoded. Those of a chunk are of one segment,
 * which `at` is; those of the tail (at NULL) go on from where the series stands. */
static int newer_give(struct newer *w, uint32_t id, struct cursor_series *c, size_t from, size_t n,
		      const struct segment *at)
{
	bool is_hist = c->kind == SINK_HISTOGRAM;
	size_t i;
	int r = from < n && w->series.id != id ? newer_define(w, id) : 0;

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
			r = newer_point(w, i, is_hist, at ? at->no : c->at.no);
		c->given++;
	}
	return r;
}

/* ---- chunks ------------------------------------------------------------------------ */

/* 1 and a row of table chunk, or 0: there is none. */
static int newer_chunk(struct newer *w, enum newer_sql which, uint32_t id, uint64_t ordinal,
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
static int newer_last(struct newer *w, uint32_t id, struct chunk *ret)
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
		r = newer_chunk(w, NEWER_LAST, id, 0, ret);
	hosts_end(w->h);
	return r;
}

/* The ordinal at which to begin: of the chunk that has point number `point`, or one
 * before it that is no longer there. */
static int newer_find(struct newer *w, uint32_t id, uint64_t point, uint64_t last, uint64_t *ret)
{
	uint64_t low = 0, high = last;
	struct chunk c;
	int r;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		r = newer_chunk(w, NEWER_FROM, id, middle, &c);
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
static int newer_decode(struct newer *w, uint32_t id, uint64_t ordinal, bool is_hist,
			struct chunk *c)
{
	int r = hosts_begin(w->h, w->e);

	if (r < 0)
		return r;
	w->points.n = 0;
	hists_reset(&w->hists);
	r = newer_chunk(w, NEWER_FROM, id, ordinal, c);
	if (r > 0) {
		int code = chunkdata_read(&w->data, c, is_hist, w->e, &w->points, &w->hists);

		r = code < 0 ? code : r;
	}
	chunkdata_end(&w->data);
	hosts_end(w->h);
	return r;
}

/* Points in chunks up to `last`, which is the newest. */
static int newer_chunks(struct newer *w, uint32_t id, struct cursor_series *s,
			const struct chunk *last)
{
	uint64_t end = last->start + last->n, ordinal = 0;
	struct chunk c;
	int r = 0;

	if (s->given < end)
		r = newer_find(w, id, s->given, last->ordinal, &ordinal);
	while (r == 0 && !w->stopped && s->given < end) {
		r = newer_decode(w, id, ordinal, s->kind == SINK_HISTOGRAM, &c);
		if (r < 0)
			return r;
		if (r == 0 || c.start >= end) { /* also the last one is gone by now */
			s->at = last->segment;
			return newer_lose(w, id, s, end - s->given);
		}
		r = 0;
		ordinal = (uint64_t)c.ordinal + 1;
		if (c.start + c.n <= s->given)
			continue;
		if (c.start > s->given)
			r = newer_lose(w, id, s, c.start - s->given);
		if (r == 0)
			r = newer_give(w, id, s, (size_t)(s->given - c.start), c.n, &c.segment);
		if (!w->stopped)
			s->at = c.segment;
	}
	return r;
}

/* ---- the tail --------------------------------------------------------------------------- */

/* The blocks of a series. counted: *at is the number of the first point; else only
 * rows behind commit `after` have new points, and all of theirs are. */
static int newer_tail(struct newer *w, uint32_t id, struct cursor_series *s, bool counted,
		      uint64_t at, uint64_t after)
{
	bool is_hist = s->kind == SINK_HISTOGRAM;
	const struct tailrows_row *row;
	int r = 0;

	while (r == 0 && !w->stopped && (row = tailrows_next(&w->rows)) && row->series == id) {
		uint32_t n = row->n;
		bool wanted = counted ? at + n > s->given : row->id.a > after;
		size_t from = counted && s->given > at ? (size_t)(s->given - at) : 0;

		w->points.n = 0;
		hists_reset(&w->hists);
		r = tailrows_take(&w->rows, wanted && !is_hist ? &w->points : NULL,
				  wanted && is_hist ? &w->hists : NULL);
		if (r == 0 && wanted)
			r = newer_give(w, id, s, from, n, NULL);
		at += n;
	}
	/* Commits that had been given were lost with the power. */
	if (r == 0 && !w->stopped && counted && s->given > at)
		s->given = at;
	return r;
}

static int newer_skip(struct newer *w, uint32_t id)
{
	const struct tailrows_row *row;
	int r = 0;

	while (r == 0 && (row = tailrows_next(&w->rows)) && row->series == id)
		r = tailrows_take(&w->rows, NULL, NULL);
	return r;
}

static int newer_series(struct newer *w, uint32_t id)
{
	struct cursor_series *to = &w->c->series[id - 1], s = *to;
	uint64_t after = s.seq > w->c->seq ? s.seq : w->c->seq;
	bool counted =
		(uint64_t)w->meta[META_FOLDED] > after || w->c->partial == id || w->c->recount;
	struct chunk last;
	uint64_t at = 0;
	int r = 0;

	if (after >= w->c->target)
		return newer_skip(w, id);
	if (counted) {
		r = newer_last(w, id, &last);
		if (r < 0 || w->stale)
			return r;
		if (r > 0) {
			at = last.start + last.n;
			r = newer_chunks(w, id, &s, &last);
		}
	}
	if (r == 0 && !w->stopped)
		r = newer_tail(w, id, &s, counted, at, after);
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

/* ---- a host --------------------------------------------------------------------------------- */

/* The series that comes after `id`: the next that the tail has, or (all) the next
 * of the kind. 0: none, or an error. */
static int newer_next(struct newer *w, bool all, uint32_t *id)
{
	const struct tailrows_row *row = tailrows_next(&w->rows);
	const struct cursor_host *c = w->c;

	if (row && (row->series > c->n_series ||
		    row->is_hist != (c->series[row->series - 1].kind == SINK_HISTOGRAM)))
		return blob_bad(&row->id, w->e, 0,
				"a series that is not defined, or of another kind");
	if (!all)
		return *id = row ? row->series : 0, 0;
	do
		++*id;
	while (*id <= c->n_series &&
	       (c->series[*id - 1].kind == SINK_HISTOGRAM) != w->rows.is_hist);
	if (*id > c->n_series)
		*id = 0;
	return 0;
}

static int newer_walk(struct newer *w, bool all, bool is_hist)
{
	uint32_t id = 0;
	int r;

	tailrows_begin(&w->rows, is_hist);
	do {
		r = newer_next(w, all, &id);
		if (r == 0 && id)
			r = newer_series(w, id);
	} while (r == 0 && id && !w->stopped && !w->stale);
	return r;
}

/* Points. A pass that max_points cuts short goes on in the next call: its series are
 * those that have not come as far as `target`. */
static int newer_points(struct newer *w)
{
	struct cursor_host *c = w->c;
	bool all = (uint64_t)w->meta[META_FOLDED] > c->seq || c->partial || c->recount;
	size_t from = 0;
	int r;

	if (!c->target)
		c->target = w->seq;
	while (!all && from < w->h->n_tail && w->h->tail[from].seq <= c->seq)
		from++;
	r = tailrows_open(&w->rows, w->r, w->h, from, w->e);
	if (r == 0)
		r = newer_walk(w, all, false);
	if (r == 0 && !w->stopped && !w->stale)
		r = newer_walk(w, all, true);
	tailrows_done(&w->rows);
	if (r == 0 && !w->stopped && !w->stale) {
		c->seq = c->target;
		c->target = 0;
		c->recount = false;
		w->stale = c->seq < w->seq; /* this was the end of an earlier call's pass */
	}
	return r;
}

static int newer_new_series(void *arg, const struct store_series *s)
{
	struct newer *w = arg;

	if (s->id != w->c->n_series + 1)
		return err_set(w->e, -EUCLEAN, "%s: table series: %u follows %u", w->h->path, s->id,
			       w->c->n_series);
	cursor_add(w->c, s->kind);
	return w->f->series ? w->f->series(w->arg, s) : 0;
}

/* All but points. What is defined later than the tail was read waits; what changes
 * may come early, and once more. */
static int newer_tell(struct newer *w)
{
	const struct store_newer *f = w->f;
	uint64_t told = w->c->told;
	int r = 0;

	if (told == w->seq)
		return 0;
	if (f->process)
		r = lists_new_processes(w->r, w->host, told, f->process, w->arg, w->e);
	if (r == 0 && f->attr)
		r = lists_new_attrs(w->r, w->host, told, f->attr, w->arg, w->e);
	if (r == 0 && f->event)
		r = lists_new_events(w->r, w->host, told, w->seq, f->event, w->arg, w->e);
	if (r == 0)
		r = lists_new_series(w->r, w->host, w->c->n_series, w->seq, newer_new_series, w,
				     w->e);
	w->c->told = w->seq;
	return r;
}

/* When the file took the place of a corrupt one: the first event says so. */
static int newer_born(struct newer *w, int64_t *ret)
{
	int r = db_int(w->h->db,
		       "SELECT time_ns FROM event WHERE id = 1 AND kind = 'store-corrupt'", w->e,
		       ret);

	return r == -ENODATA ? 0 : r;
}

/* Give the cursor an array of series of its own: the first n, as they are. */
static void newer_refresh(struct newer *w, uint32_t n)
{
	struct cursor_host *c = w->c;
	struct cursor_series *old = c->series;

	c->series = n ? xcalloc(n, sizeof(*c->series)) : NULL;
	if (n)
		memcpy(c->series, old, n * sizeof(*c->series));
	c->cap_series = c->n_series = n;
	if (w->log->fresh)
		free(old);
	w->log->fresh = true;
}

/* The file is another one than the cursor knows, or power failed and its newest
 * commits are gone: then what is there is counted anew. */
static int newer_rewind(struct newer *w, bool other)
{
	struct cursor_host *c = w->c;
	int64_t n = 0;
	size_t i;
	int r = other ? 0 : db_int(w->h->db, "SELECT ifnull(max(id), 0) FROM series", w->e, &n);

	if (r < 0)
		return r;
	newer_refresh(w, n < (int64_t)c->n_series ? (uint32_t)n : c->n_series);
	for (i = 0; i < c->n_series; i++)
		c->series[i].seq = 0;
	c->seq = c->target = 0;
	c->told = other ? 0 : w->seq;
	c->partial = 0;
	c->recount = !other;
	return 0;
}

/* Bring the tail up to date, and the cursor to this file. */
static int newer_sync(struct newer *w)
{
	struct cursor_host *c = w->c;
	int64_t born = 0;
	int r = hosts_begin(w->h, w->e);

	if (r == 0)
		r = store_meta_read(w->h->db, w->e, w->meta);
	if (r == 0)
		r = hosts_sync_tail(w->r, w->h, w->e);
	if (r == 0)
		r = newer_born(w, &born);
	hosts_end(w->h);
	if (r < 0)
		return r;
	w->seq = (uint64_t)w->meta[META_FOLDED];
	if (w->h->n_tail && w->h->tail[w->h->n_tail - 1].seq > w->seq)
		w->seq = w->h->tail[w->h->n_tail - 1].seq;
	if (born != c->born || c->told > w->seq || c->seq > w->seq)
		r = newer_rewind(w, born != c->born);
	c->born = born;
	return r;
}

static int newer_prepare(struct newer *w)
{
	size_t i;
	int r = hosts_begin(w->h, w->e); /* before statements are made: the file may move */

	hosts_end(w->h);
	if (r < 0)
		return r;
	r = chunkdata_open(&w->data, w->h->db, w->h->path, &w->r->codec, &w->r->columns, w->e);
	for (i = 0; r == 0 && i < NEWER_N; i++)
		r = db_prepare(w->h->db, newer_sql[i], w->e, &w->sql[i]);
	return r;
}

static void newer_done(struct newer *w)
{
	size_t i;

	chunkdata_close(&w->data);
	for (i = 0; i < NEWER_N; i++)
		sqlite3_finalize(w->sql[i]);
	points_done(&w->points);
	hists_done(&w->hists);
	buf_done(&w->text);
}

/* A host's news. The cursor has moved, also on failure: see newer_end(). */
static int newer_host(struct newer *w)
{
	int r = newer_prepare(w);

	buf_init(&w->text, NEWER_TEXT_MAX);
	while (r == 0) {
		w->stale = false;
		w->series.id = 0;
		r = newer_sync(w);
		if (r == 0)
			r = newer_tell(w);
		if (r == 0 && (w->f->point || w->f->lost))
			r = newer_points(w);
		if (!w->stale)
			break;
	}
	newer_done(w);
	return r;
}

/* Keep what the cursors are now, or take it back. */
static void newer_end(struct store_cursor *c, struct newer_log *logs, size_t n, bool keep)
{
	size_t i;

	for (i = 0; i < n; i++) {
		struct newer_log *log = &logs[i];
		struct cursor_host *h = &c->hosts[log->host];

		if (!keep && log->fresh) {
			free(h->series);
			*h = log->before;
		} else if (!keep) {
			while (log->n--)
				h->series[log->undo[log->n].series - 1] = log->undo[log->n].old;
			log->before.series = h->series;
			log->before.cap_series = h->cap_series;
			*h = log->before;
		} else if (log->fresh) {
			free(log->before.series);
		}
		free(log->undo);
	}
	free(logs);
}

int store_reader_newer(struct store_reader *r, struct store_cursor *c, const struct store_newer *f,
		       void *arg, uint64_t max_points, struct err *e)
{
	struct newer_log *logs = xcalloc(r->n_hosts, sizeof(*logs));
	uint64_t left = max_points ? max_points : UINT64_MAX;
	bool stopped = false;
	int code = 0;
	size_t i;

	for (i = 0; code == 0 && i < r->n_hosts; i++) {
		struct newer w = {.r = r,
				  .h = &r->hosts[i],
				  .host = (unsigned)i,
				  .c = cursor_host(c, r->hosts[i].name),
				  .f = f,
				  .arg = arg,
				  .e = e,
				  .left = left,
				  .log = &logs[i]};

		logs[i].host = (size_t)(w.c - c->hosts);
		logs[i].before = *w.c;
		code = newer_host(&w);
		left = w.left;
		stopped = stopped || w.stopped;
	}
	newer_end(c, logs, i, code == 0);
	return code == 0 ? stopped : code;
}
