/* SPDX-License-Identifier: Apache-2.0
 *
 * salvage_points.c - points of a damaged database: chunks that pass their checks
 * are put onto axes and sealed anew, series by series, rows of the tail are copied.
 */
#include "store/salvage.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SALVAGE_BYTES (8u << 20)   /* built before it is written */
#define SALVAGE_STAND_IN INT64_MAX /* pack of a row that stands for dropped chunks */
#define SALVAGE_SEQ_MAX (1ll << 60)

/* ---- what retention dropped ------------------------------------------------------------- */

/* Summaries of chunks [0, n) of a series, whose data are gone, from the old tree into
 * the new one. A row of chunk stands for them until the series is sealed. */
struct salvage_dropped {
	struct salvage *w;
	struct sumtree_db from, to;
	struct sumtree tree;
	struct summary chunks[SUMMARY_PAGE], leaves[SUMMARY_PAGE];
	uint64_t start; /* points so far */
};

static int salvage_drop_group(struct salvage_dropped *d, uint32_t series, bool is_hist,
			      uint64_t page, const struct summary *chunks, size_t n, size_t all)
{
	size_t i, at = 0, leaves = 0;
	int r = sumtree_get_parts(&d->from, series, 0, is_hist, page, chunks, all, d->w->v.e,
				  d->leaves, &leaves);

	for (i = 0; r == 0 && i < n; i++) {
		size_t k = sumtree_parts(0, is_hist, chunks[i].n);

		r = sumtree_add(&d->tree, d->leaves + at, k, d->w->e);
		at += k;
		d->start += chunks[i].n;
	}
	return r;
}

static int salvage_drop_pages(struct salvage_dropped *d, uint32_t series, bool is_hist, uint64_t n,
			      struct summary *last)
{
	uint64_t page, g, i;
	size_t have = 0;
	int r = 0;

	for (page = 0; r == 0 && page * SUMMARY_PAGE < n; page++) {
		r = sumtree_get(&d->from, summary_id(series, 1, page), d->w->v.e, d->chunks, &have);
		for (g = 0; r == 0 && g < have && page * SUMMARY_PAGE + g < n;
		     g += SUMMARY_LEAF_CHUNKS) {
			size_t all =
				have - g < SUMMARY_LEAF_CHUNKS ? have - g : SUMMARY_LEAF_CHUNKS;
			uint64_t left = n - page * SUMMARY_PAGE - g;

			i = left < all ? left : all;
			r = salvage_drop_group(d, series, is_hist,
					       (page * SUMMARY_PAGE + g) / SUMMARY_LEAF_CHUNKS,
					       d->chunks + g, i, all);
			*last = d->chunks[g + i - 1];
		}
		if (r == 0 && have < SUMMARY_PAGE && (page + 1) * SUMMARY_PAGE < n)
			r = -EUCLEAN;
	}
	return r;
}

static int salvage_stand_in(struct salvage *w, const struct chunk *c, const struct summary *last,
			    uint64_t start)
{
	struct chunk row = *c;

	row.ordinal = c->ordinal - 1;
	row.n = (uint32_t)last->n;
	row.start = start - last->n;
	row.segment.step = SINK_STEP_NONE;
	row.pack = SALVAGE_STAND_IN;
	chunkrow_bind(w->s.sql[SQL_CHUNK], &row);
	return db_run(w->s.sql[SQL_CHUNK], "writing a chunk", w->e);
}

/* c is the first chunk of its series that can be read, and not the first there was.
 * If the old summaries cannot be read the series begins with c. */
static int salvage_dropped(struct salvage *w, const struct chunk *c, bool is_hist)
{
	struct salvage_dropped *d = xcalloc(1, sizeof(*d));
	struct summary last = {0};
	int r, done;

	d->w = w;
	d->from = (struct sumtree_db){
		.path = w->v.path, .codec = &w->v.codec, .columns = &w->v.columns};
	d->to = (struct sumtree_db){.path = w->s.path,
				    .codec = &w->s.codec,
				    .columns = &w->s.columns,
				    .get = w->s.sql[SQL_SUMMARY_GET],
				    .set = w->s.sql[SQL_SUMMARY_SET]};
	sumtree_init(&d->tree, &d->to);
	r = db_exec(w->s.db, "SAVEPOINT dropped", w->e);
	done = db_prepare(w->from, "SELECT blob FROM summary WHERE id = ?1", w->v.e, &d->from.get);
	if (done == 0)
		done = sumtree_open(&d->tree, c->series, is_hist, 0, w->e);
	if (done == 0)
		done = salvage_drop_pages(d, c->series, is_hist, c->ordinal, &last);
	if (done == 0)
		done = sumtree_close(&d->tree, w->e);
	if (done == 0 && (last.n == 0 || last.n > CHUNK_POINTS_MAX))
		done = -EUCLEAN;
	if (done == 0)
		done = salvage_stand_in(w, c, &last, d->start);
	if (r == 0 && done < 0)
		r = db_exec(w->s.db, "ROLLBACK TO dropped", w->e);
	if (r == 0)
		r = db_exec(w->s.db, "RELEASE dropped", w->e);
	sqlite3_finalize(d->from.get);
	sumtree_done(&d->tree);
	free(d);
	err_clear(w->v.e);
	if (done == -ENOMEM)
		return err_set(w->e, done, "%s: no memory for summaries", w->s.path);
	return r;
}

/* ---- chunks ------------------------------------------------------------------------------- */

struct salvage_series {
	uint32_t id;
	bool is_hist, begun, missed; /* a row could not be read */
	uint64_t end;                /* points up to the last chunk whose row was read */
};

static int salvage_write(struct salvage *w)
{
	struct build *b = &w->build;
	size_t i;
	int r = build_end(b);

	for (i = 0; i < b->n_entries; i++)
		b->entries[i].sealed = true;
	if (r == 0)
		r = seal_entries(&w->s, b, w->meta, w->e);
	build_done(b);
	build_init(b, w->s.path, &w->s.columns, w->e);
	return r;
}

/* The row, and what it says about points that are missing before it. */
static int salvage_chunk_row(struct salvage *w, sqlite3_stmt *st, struct chunk *c)
{
	struct salvage_series *now = w->series;
	int r = chunkrow_read(st, w->v.path, w->v.e, c);

	if (r < 0) {
		now->missed = true;
		return r;
	}
	/* Before the first one that can be read retention may have dropped some. */
	if (c->start > now->end && (now->begun || now->missed))
		w->ret->points_lost += c->start - now->end;
	now->end = c->start + c->n;
	return 0;
}

/* Points of c, all or none. */
static int salvage_chunk_points(struct salvage *w, const struct chunk *c)
{
	size_t points = w->points.n, rows = w->hists.n, bins = w->hists.n_bins;
	bool is_hist = w->series->is_hist;
	int r = -EUCLEAN;

	if ((c->axis == 0) == is_hist)
		r = chunkdata_read(&w->data, c, is_hist, w->v.e, &w->points, &w->hists);
	if (r == 0)
		return 0;
	w->points.n = points; /* half of them may have been appended */
	w->hists.n = rows;
	w->hists.n_bins = bins;
	w->ret->points_lost += c->n;
	return r;
}

static int salvage_chunk(struct salvage *w, sqlite3_stmt *st)
{
	struct salvage_series *now = w->series;
	struct chunk c;
	int r = salvage_chunk_row(w, st, &c);

	if (r == 0)
		r = salvage_chunk_points(w, &c);
	err_clear(w->v.e);
	if (r == -ENOMEM)
		return err_set(w->e, r, "%s: no memory for a chunk", w->v.path);
	if (r < 0) {
		w->ret->chunks_lost++;
		return 0;
	}
	w->ret->points += c.n;
	if (!now->begun && c.ordinal > 0)
		r = salvage_dropped(w, &c, now->is_hist);
	now->begun = true;
	if (r == 0)
		r = now->is_hist ? build_hists(&w->build, c.series, &w->hists, true)
				 : build_points(&w->build, c.series, &w->points, true);
	return r < 0 || !w->to->progress ? r : w->to->progress(w->to->arg, ++w->ret->rows, 0);
}

static int salvage_one_series(struct salvage *w, uint32_t id)
{
	struct salvage_series now = {.id = id};
	int r;

	now.is_hist = w->s.catalog.series[id - 1].kind == SINK_HISTOGRAM;
	w->series = &now;
	w->points.n = 0;
	hists_reset(&w->hists);
	r = salvage_walk(w,
			 "SELECT " CHUNKROW_COLUMNS " FROM chunk WHERE series = ?3 AND"
			 " ordinal BETWEEN ?1 AND ?2 ORDER BY ordinal",
			 1, id, 0, UINT32_MAX - 1, salvage_chunk);
	w->ret->chunks_lost += w->lost;
	w->series = NULL;
	if (r == 0)
		r = now.is_hist ? build_hists(&w->build, id, &w->hists, false)
				: build_points(&w->build, id, &w->points, false);
	if (r == 0 && w->build.bytes.len > SALVAGE_BYTES)
		r = salvage_write(w);
	return r;
}

/* Series whose definition was made up are histograms if their chunks are. */
static int salvage_kinds(struct salvage *w)
{
	sqlite3_stmt *made, *kind = NULL;
	int rc = SQLITE_DONE, r;

	r = db_prepare(w->s.db, "SELECT id FROM series WHERE source = 'repair'", w->e, &made);
	if (r == 0 &&
	    db_prepare(w->from, "SELECT axis IS NULL FROM chunk WHERE series = ?1 LIMIT 1", NULL,
		       &kind) < 0)
		kind = NULL;
	while (r == 0 && kind && (rc = sqlite3_step(made)) == SQLITE_ROW) {
		int64_t id = sqlite3_column_int64(made, 0);
		char *sql = xasprintf("UPDATE series SET kind = %d WHERE id = %lld", SINK_HISTOGRAM,
				      (long long)id);

		sqlite3_bind_int64(kind, 1, id);
		if (sqlite3_step(kind) == SQLITE_ROW && sqlite3_column_int(kind, 0))
			r = db_exec(w->s.db, sql, w->e);
		sqlite3_reset(kind);
		free(sql);
	}
	if (r == 0 && rc != SQLITE_DONE)
		r = db_fail(w->s.db, rc, "reading table series", w->e);
	sqlite3_finalize(made);
	sqlite3_finalize(kind);
	return r;
}

int salvage_chunks(struct salvage *w)
{
	size_t i, n;
	int r = salvage_kinds(w);

	if (r == 0)
		r = catalog_load(&w->s, w->e);
	n = w->s.catalog.n_series;
	w->v.kinds = xcalloc(n + 1, 1);
	w->v.n_series = n;
	for (i = 0; i < n; i++)
		w->v.kinds[i] = w->s.catalog.series[i].kind;
	if (r < 0)
		return r;
	chunkdata_init(&w->data, w->from, w->v.path, &w->v.codec, &w->v.columns, NULL);
	for (i = 0; r == 0 && i < n; i++)
		r = salvage_one_series(w, (uint32_t)i + 1);
	if (r == 0)
		r = salvage_write(w);
	chunkdata_done(&w->data);
	if (r == 0)
		r = db_exec(w->s.db, "DELETE FROM chunk WHERE pack = 9223372036854775807", w->e);
	return r;
}

/* ---- the tail ------------------------------------------------------------------------------- */

static int salvage_row(struct salvage *w, sqlite3_stmt *st)
{
	const struct blob_id id = {w->v.path, "tail", (uint64_t)sqlite3_column_int64(st, 0), 0};
	sqlite3_stmt *to = w->s.sql[SQL_TAIL];
	uint64_t first, seen = w->v.points_seen;
	bool is_merged;
	int r = verify_tail_row(&w->v, &id, sqlite3_column_blob(st, 1),
				(size_t)sqlite3_column_bytes(st, 1), &first, &is_merged);

	err_clear(w->v.e);
	if (r == -ENOMEM)
		return err_set(w->e, r, "%s: no memory for a row of the tail", w->v.path);
	/* Merged rows come before plain ones, none says anything twice. */
	if (r < 0 || first <= w->v.seq || (is_merged && (int64_t)w->v.seq > w->merged)) {
		w->ret->commits_lost++;
		return 0;
	}
	if (!is_merged && w->plain == 0)
		w->plain = (int64_t)id.a;
	if (is_merged)
		w->merged = (int64_t)id.a;
	w->ret->points += w->v.points_seen - seen;
	w->v.seq = id.a;
	sqlite3_bind_int64(to, 1, (int64_t)id.a);
	sqlite3_bind_value(to, 2, sqlite3_column_value(st, 1));
	return db_run(to, "writing table tail", w->e);
}

int salvage_tail(struct salvage *w)
{
	int64_t last = 0, *folded = &w->meta[META_FOLDED];
	int r = salvage_walk(w,
			     "SELECT seq, blob FROM tail WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq",
			     0, 0, 1, SALVAGE_SEQ_MAX, salvage_row);

	w->ret->commits_lost += w->lost;
	if (r == 0)
		r = db_int(w->s.db,
			   "SELECT max(ifnull((SELECT max(seq) FROM process), 0),"
			   " ifnull((SELECT max(seq) FROM series), 0),"
			   " ifnull((SELECT max(seq) FROM event), 0),"
			   " ifnull((SELECT max(seq) FROM lane), 0))",
			   w->e, &last);
	if (r < 0)
		return r;
	if (*folded > SALVAGE_SEQ_MAX || *folded < w->merged || (w->plain && *folded >= w->plain))
		*folded = w->merged;
	if (w->plain == 0 && *folded < last && last <= SALVAGE_SEQ_MAX)
		*folded = last;
	return 0;
}
