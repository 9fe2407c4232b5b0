/* SPDX-License-Identifier: Apache-2.0
 *
 * verify.c - checks a whole database: SQLite's own check, every row of the tail
 * and every chunk decoded, rows that must follow each other or belong to another.
 */
#include "base/mem.h"
#include "store/verify_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int verify_integrity(struct verify *v)
{
	sqlite3_stmt *st;
	int rc, r = db_prepare(v->db, "PRAGMA integrity_check(1)", v->e, &st);

	if (r < 0)
		return r;
	rc = sqlite3_step(st);
	if (rc != SQLITE_ROW)
		r = db_fail(v->db, rc, "checking", v->e);
	else if (strcmp(db_text(st, 0), "ok") != 0)
		r = err_set(v->e, -EUCLEAN, "%s: %.400s", v->path, db_text(st, 0));
	sqlite3_finalize(st);
	return r;
}

int verify_rows(struct verify *v, const char *sql, verify_fn fn)
{
	sqlite3_stmt *st;
	int rc, r = db_prepare(v->db, sql, v->e, &st);

	if (r < 0)
		return r;
	while (r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW)
		r = fn(v, st);
	if (r == 0 && rc != SQLITE_DONE)
		r = db_fail(v->db, rc, sql, v->e);
	sqlite3_finalize(st);
	return r;
}

static int verify_series(struct verify *v, sqlite3_stmt *st)
{
	int kind = sqlite3_column_int(st, 1);

	if (sqlite3_column_int64(st, 0) != (int64_t)v->n_series + 1 ||
	    v->n_series >= CATALOG_SERIES_MAX || kind < SINK_GAUGE || kind > SINK_SPAN ||
	    sqlite3_column_type(st, 2) == SQLITE_NULL)
		return err_set(v->e, -EUCLEAN,
			       "%s: table series: row %zu is missing, of unknown kind or without a "
			       "process",
			       v->path, v->n_series + 1);
	v->kinds = xgrow(v->kinds, v->n_series, &v->cap_series, 1);
	v->kinds[v->n_series++] = (uint8_t)kind;
	return 0;
}

static int verify_block(struct verify *v, const struct tail_walk *w, const struct tail_block *b)
{
	v->points.n = 0;
	hists_reset(&v->hists);
	if (b->series > v->n_series || b->is_hist != (v->kinds[b->series - 1] == SINK_HISTOGRAM))
		return blob_bad(w->id, v->e, (size_t)(w->c.p - w->start),
				"a series that is not defined, or of another kind");
	return b->is_hist ? tail_hists(w, b, &v->hists) : tail_points(w, b, &v->points);
}

static int verify_plain(struct verify *v, const struct blob_id *id, const struct blob *blob)
{
	struct tail_block block;
	struct tail_walk w;
	int r;

	if (id->a != v->seq + 1)
		return blob_bad(id, v->e, 0, "a commit is missing before it");
	r = tail_begin(&w, id, blob, v->e);
	while (r == 0 && (r = tail_block(&w, &block)) > 0)
		r = verify_block(v, &w, &block);
	return r;
}

static int verify_entry(struct verify *v, const struct merged *m, const struct merged_entry *x)
{
	int r;

	v->points.n = 0;
	hists_reset(&v->hists);
	if (x->series > v->n_series || x->is_hist != (v->kinds[x->series - 1] == SINK_HISTOGRAM))
		return blob_bad(m->id, v->e, 0, "a series that is not defined, or of another kind");
	if (x->is_hist)
		return merged_hists(m, x, &v->hists);
	r = merged_axis(m, x->axis, &v->columns, &v->axis);
	return r < 0 ? r : merged_points(m, x, &v->columns, &v->axis, &v->points);
}

static int verify_merged(struct verify *v, const struct blob_id *id, const struct blob *blob)
{
	struct merged_entry x;
	struct merged m;
	int r = merged_begin(&m, id, blob, v->e);

	if (r < 0)
		return r;
	if (m.first <= v->seq || m.first > id->a)
		r = blob_bad(id, v->e, 0, "its commits are in the row before");
	while (r == 0 && (r = merged_next(&m, &x)) > 0)
		r = verify_entry(v, &m, &x);
	merged_done(&m);
	return r;
}

static int verify_tail(struct verify *v, sqlite3_stmt *st)
{
	const struct blob_id id = {v->path, "tail", (uint64_t)sqlite3_column_int64(st, 0), 0};
	uint64_t folded = (uint64_t)v->meta[META_FOLDED];
	struct blob blob;
	int r;

	r = blob_open(&v->codec, &id, sqlite3_column_blob(st, 1),
		      (size_t)sqlite3_column_bytes(st, 1), v->e, &blob);
	if (r == 0 && id.a > folded && v->seq < folded)
		v->seq = folded;
	if (r == 0 && (blob.format == BLOB_MERGED) != (id.a <= folded))
		r = blob_bad(&id, v->e, 0, "the row is folded already, or not yet");
	if (r == 0)
		r = blob.format == BLOB_MERGED ? verify_merged(v, &id, &blob)
					       : verify_plain(v, &id, &blob);
	v->seq = id.a;
	return r;
}

/* ---- what belongs to something ------------------------------------------------------ */

static int verify_no_rows(struct verify *v, const char *sql, const char *what)
{
	int64_t n = 0;
	int r = db_int(v->db, sql, v->e, &n);

	if (r == 0 && n)
		r = err_set(v->e, -EUCLEAN, "%s: %lld %s", v->path, (long long)n, what);
	return r;
}

/* Slices of a pack lie one behind the other. */
static int verify_slice(struct verify *v, sqlite3_stmt *st)
{
	int64_t pack = sqlite3_column_int64(st, 0), at = sqlite3_column_int64(st, 1);

	if (pack == v->pack && at < v->pack_end)
		return err_set(v->e, -EUCLEAN, "%s: table pack, id %lld: chunks overlap at %lld",
			       v->path, (long long)pack, (long long)at);
	v->pack = pack;
	v->pack_end = at + sqlite3_column_int64(st, 2);
	return 0;
}

static int verify_belonging(struct verify *v)
{
	int r = verify_rows(v, "SELECT pack, at, len FROM chunk ORDER BY pack, at", verify_slice);

	if (r == 0)
		r = verify_no_rows(v,
				   "SELECT count(*) FROM pack WHERE id NOT IN (SELECT pack FROM"
				   " chunk) OR id > (SELECT value FROM meta WHERE key = 'pack')",
				   "rows of pack belong to no chunk, or are newer than meta says");
	if (r == 0)
		r = verify_no_rows(v,
				   "SELECT count(*) FROM axis WHERE id NOT IN (SELECT axis FROM"
				   " chunk WHERE axis NOT NULL) OR"
				   " id > (SELECT value FROM meta WHERE key = 'axis')",
				   "rows of axis belong to no chunk, or are newer than meta says");
	return r;
}

static int verify_all(struct verify *v)
{
	int r = verify_integrity(v);

	if (r == 0)
		r = store_meta_read(v->db, v->e, v->meta);
	if (r == 0)
		r = verify_rows(v,
				"SELECT s.id, s.kind, p.id FROM series s LEFT JOIN process p"
				" ON p.id = s.process ORDER BY s.id",
				verify_series);
	if (r == 0)
		r = verify_rows(v, "SELECT seq, blob FROM tail ORDER BY seq", verify_tail);
	if (r == 0)
		r = verify_chunks(v);
	return r < 0 ? r : verify_belonging(v);
}

int store_check(const char *db_path, struct err *e)
{
	struct verify v = {.path = db_path, .e = e};
	struct buf warning;
	int r;

	buf_init(&warning, 4096);
	r = db_open_reader(db_path, &warning, e, &v.db);
	if (r == 0 && warning.len)
		r = err_set(e, -EROFS, "%s", buf_str(&warning));
	blob_codec_init(&v.codec);
	column_codec_init(&v.columns);
	if (r == 0)
		r = db_exec(v.db, "BEGIN", e);
	if (r == 0)
		r = verify_all(&v);
	sqlite3_close_v2(v.db);
	blob_codec_done(&v.codec);
	column_codec_done(&v.columns);
	points_done(&v.points);
	hists_done(&v.hists);
	axis_done(&v.axis);
	free(v.kinds);
	buf_done(&warning);
	return r;
}
