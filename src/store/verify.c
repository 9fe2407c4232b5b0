/* SPDX-License-Identifier: Apache-2.0
 *
 * verify.c - checks a whole database: SQLite's own check, every tail row and
 * every chunk decoded and compared with what its row states.
 */
#include "base/mem.h"
#include "store/store_priv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct verify {
	const char *path;
	sqlite3 *db;
	struct err *e;
	struct blob_codec codec;
	uint8_t *kinds; /* of series, id - 1 */
	size_t n_series, cap_series;
	struct points points;
	struct hists hists;
	struct chunk before; /* chunk row before, series 0: none */
	uint64_t folded;
};

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

typedef int (*verify_fn)(struct verify *v, sqlite3_stmt *st);

static int verify_rows(struct verify *v, const char *sql, verify_fn fn)
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

static int verify_tail(struct verify *v, sqlite3_stmt *st)
{
	const struct blob_id id = {v->path, "tail", (uint64_t)sqlite3_column_int64(st, 0), 0};
	struct tail_block block;
	struct tail_walk w;
	struct blob blob;
	int r;

	if (id.a <= v->folded)
		return blob_bad(&id, v->e, 0, "the row is folded already");
	r = blob_open(&v->codec, &id, sqlite3_column_blob(st, 1),
		      (size_t)sqlite3_column_bytes(st, 1), v->e, &blob);
	if (r == 0)
		r = tail_begin(&w, &id, &blob, v->e);
	while (r == 0 && (r = tail_block(&w, &block)) > 0)
		r = verify_block(v, &w, &block);
	return r;
}

static bool verify_is_same(double a, double b)
{
	return a == b || (isnan(a) && isnan(b));
}

static bool verify_is_summary(const struct chunk *a, const struct chunk *b)
{
	return a->n == b->n && a->time_min == b->time_min && a->time_max == b->time_max &&
	       a->step_min == b->step_min && a->step_max == b->step_max && a->nan == b->nan &&
	       a->observed == b->observed && a->min_at == b->min_at && a->max_at == b->max_at &&
	       verify_is_same(a->sum, b->sum) && verify_is_same(a->min, b->min) &&
	       verify_is_same(a->max, b->max) && verify_is_same(a->first, b->first) &&
	       verify_is_same(a->last, b->last);
}

/* Does the row follow the one before: ordinals, points, segments, commits? */
static bool verify_follows(const struct verify *v, const struct chunk *c)
{
	const struct chunk *b = &v->before;

	if (c->seq_min > c->seq_max || c->seq_max > v->folded)
		return false;
	if (b->series != c->series)
		return c->ordinal == 0 && c->start == 0;
	return c->ordinal == b->ordinal + 1 && c->start == b->start + b->n &&
	       c->segment.no >= b->segment.no && c->segment.no <= b->segment.no + 1 &&
	       c->seq_min >= b->seq_max;
}

static int verify_chunk_data(struct verify *v, sqlite3_stmt *st, const struct blob_id *id,
			     struct chunk *c)
{
	struct points_view view;
	struct blob blob;
	int r;

	v->points.n = 0;
	hists_reset(&v->hists);
	if (sqlite3_column_type(st, CHUNKROW_N) != SQLITE_BLOB)
		return blob_bad(id, v->e, 0, "its data is missing");
	r = blob_open(&v->codec, id, sqlite3_column_blob(st, CHUNKROW_N),
		      (size_t)sqlite3_column_bytes(st, CHUNKROW_N), v->e, &blob);
	if (r < 0)
		return r;
	if (v->kinds[c->series - 1] == SINK_HISTOGRAM) {
		r = chunk_decode_hists(id, &blob, v->e, &v->hists);
		chunk_sum_hists(c, &v->hists);
	} else {
		r = chunk_decode_points(id, &blob, v->e, &v->points);
		view = points_slice(&v->points, 0, v->points.n);
		chunk_sum_points(c, &view);
	}
	return r;
}

static int verify_chunk(struct verify *v, sqlite3_stmt *st)
{
	struct chunk row, found;
	struct blob_id id = {v->path, "chunk", 0, 0};
	int r = chunkrow_read(st, v->path, v->e, &row);

	if (r < 0)
		return r;
	id.a = row.series;
	id.b = row.ordinal;
	if (row.series > v->n_series)
		return blob_bad(&id, v->e, 0, "a series that is not defined");
	found = row;
	r = verify_chunk_data(v, st, &id, &found);
	if (r < 0)
		return r;
	if (!verify_is_summary(&row, &found))
		return blob_bad(&id, v->e, 0, "its row states other figures than its data");
	if (!verify_follows(v, &row))
		return blob_bad(&id, v->e, 0, "its row does not follow the one before");
	v->before = row;
	return 0;
}

static int verify_all(struct verify *v)
{
	int64_t folded = 0, lost = 0;
	int r = verify_integrity(v);

	if (r == 0)
		r = db_int(v->db, "SELECT value FROM meta WHERE key = 'folded'", v->e, &folded);
	if (r < 0 && r != -ENODATA)
		return r;
	v->folded = (uint64_t)folded;
	r = verify_rows(v,
			"SELECT s.id, s.kind, p.id FROM series s LEFT JOIN process p"
			" ON p.id = s.process ORDER BY s.id",
			verify_series);
	if (r == 0)
		r = verify_rows(v, "SELECT seq, blob FROM tail ORDER BY seq", verify_tail);
	if (r == 0)
		r = verify_rows(v,
				"SELECT " CHUNKROW_COLUMNS ", blob FROM chunk LEFT JOIN chunk_data"
				" ON id = data ORDER BY series, ordinal",
				verify_chunk);
	if (r == 0)
		r = db_int(
			v->db,
			"SELECT (SELECT count(*) FROM chunk_data) - (SELECT count(*) FROM chunk)",
			v->e, &lost);
	if (r == 0 && lost)
		r = err_set(v->e, -EUCLEAN, "%s: %lld rows of chunk_data belong to no chunk",
			    v->path, (long long)lost);
	return r;
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
	if (r == 0)
		r = db_exec(v.db, "BEGIN", e);
	if (r == 0)
		r = verify_all(&v);
	sqlite3_close_v2(v.db);
	blob_codec_done(&v.codec);
	points_done(&v.points);
	hists_done(&v.hists);
	free(v.kinds);
	buf_done(&warning);
	return r;
}
