/* SPDX-License-Identifier: Apache-2.0
 *
 * newer.c - what is newer than a cursor, exactly once. The points of a series are
 * numbered; as long as commits behind the cursor are plain rows of the tail only
 * these rows are looked at, and if some have been folded, a series' chunks and
 * merged rows from the first number on that was not given.
 */
#include "base/mem.h"
#include "store/newer_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NEWER_TEXT_MAX (64u << 10) /* strings of a series' definition, several times over */

static const char *const newer_sql[NEWER_N] = {
	[NEWER_FOLDS] = "SELECT value FROM meta WHERE key = ?1",
	[NEWER_LAST] = "SELECT " CHUNKROW_COLUMNS
		       " FROM chunk WHERE series = ?1 ORDER BY ordinal DESC LIMIT 1",
	[NEWER_FROM] = "SELECT " CHUNKROW_COLUMNS
		       " FROM chunk WHERE series = ?1 AND ordinal >= ?2 ORDER BY ordinal LIMIT 1",
	[NEWER_SERIES] =
		"SELECT s.process, p.rank, p.start_ns, p.role, s.name, s.labels, s.unit, s.help,"
		" s.source FROM series s LEFT JOIN process p ON p.id = s.process"
		" WHERE s.id = ?1",
};

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
			r = newerseries_give(w, id);
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
	chunkdata_init(&w->data, w->h->db, w->h->path, &w->r->codec, &w->r->columns, &w->h->axes);
	for (i = 0; r == 0 && i < NEWER_N; i++)
		r = db_prepare(w->h->db, newer_sql[i], w->e, &w->sql[i]);
	return r;
}

static void newer_done(struct newer *w)
{
	size_t i;

	chunkdata_done(&w->data);
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
		if (r == 0 && (w->f->point || w->f->lost || w->skip))
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

/* f NULL: skip. */
static int newer_hosts(struct store_reader *r, struct store_cursor *c, const struct store_newer *f,
		       void *arg, uint64_t max_points, struct err *e)
{
	static const struct store_newer nothing;
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
				  .f = f ? f : &nothing,
				  .skip = !f,
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

int store_reader_newer(struct store_reader *r, struct store_cursor *c, const struct store_newer *f,
		       void *arg, uint64_t max_points, struct err *e)
{
	return newer_hosts(r, c, f, arg, max_points, e);
}

int store_reader_skip(struct store_reader *r, struct store_cursor *c, struct err *e)
{
	return newer_hosts(r, c, NULL, NULL, 0, e);
}
