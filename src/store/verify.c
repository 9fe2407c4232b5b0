/* SPDX-License-Identifier: Apache-2.0
 *
 * verify.c - checks a whole database: SQLite's own check, every row of every table
 * read and decoded, rows that must follow each other or belong to another. Goes on
 * behind what is wrong.
 */
#include "base/mem.h"
#include "store/verify_priv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is found --------------------------------------------------------------------- */

/* The sentence without the path before it, which is told apart. */
static const char *verify_what(const struct verify *v)
{
	size_t n = strlen(v->path);

	return strncmp(v->e->text, v->path, n) == 0 && strncmp(v->e->text + n, ": ", 2) == 0
		       ? v->e->text + n + 2
		       : v->e->text;
}

int verify_found(struct verify *v, int r, const char *table, const char *format, ...)
{
	struct store_finding f = {.path = v->path, .table = table};
	char row[128], name[32];
	va_list ap;

	if (r != -EUCLEAN)
		return r;
	va_start(ap, format);
	vsnprintf(row, sizeof(row), format, ap);
	va_end(ap);
	f.row = row;
	f.what = verify_what(v);
	/* What is wrong with a row may lie in another table. */
	if (sscanf(f.what, "table %31[a-z]", name) == 1)
		f.table = name;
	r = v->to->found(v->to->arg, &f);
	err_clear(v->e);
	if (r == 0 && ++v->findings >= STORE_FINDINGS_MAX)
		r = err_set(v->e, -E2BIG, "%s: more than %u things are wrong; the check ends here",
			    v->path, STORE_FINDINGS_MAX);
	return r;
}

static int verify_progress(struct verify *v)
{
	if (++v->done % 64 || !v->to->progress)
		return 0;
	return v->to->progress(v->to->arg, v->done, v->total);
}

/* Called by SQLite while it looks through the file by itself. */
static int verify_tick(void *arg)
{
	struct verify *v = arg;

	return v->to->progress(v->to->arg, 0, v->total) != 0;
}

static int verify_integrity(struct verify *v)
{
	sqlite3_stmt *st;
	int rc, r = db_prepare(v->db, "PRAGMA integrity_check(100)", v->e, &st);

	if (r < 0)
		return verify_found(v, r, "", "%s", "");
	if (v->to->progress)
		sqlite3_progress_handler(v->db, 1000000, verify_tick, v);
	while (r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		if (strcmp(db_text(st, 0), "ok") == 0)
			continue;
		r = err_set(v->e, -EUCLEAN, "%s: %.400s", v->path, db_text(st, 0));
		r = verify_found(v, r, "", "%s", "");
	}
	sqlite3_progress_handler(v->db, 0, NULL, NULL);
	if (r == 0 && rc != SQLITE_DONE)
		r = verify_found(v, db_fail(v->db, rc, "checking", v->e), "", "%s", "");
	sqlite3_finalize(st);
	return r;
}

/* Which row a statement is at. */
static void verify_key(sqlite3_stmt *st, const char *key, char out[96])
{
	const char *second = strchr(key, ' ');

	if (second)
		snprintf(out, 96, "%.*s %lld, %s %lld", (int)(second - key) - 1, key,
			 sqlite3_column_int64(st, 0), second + 1, sqlite3_column_int64(st, 1));
	else
		snprintf(out, 96, "%s %lld", key, sqlite3_column_int64(st, 0));
}

int verify_rows(struct verify *v, const char *table, const char *key, const char *sql, verify_fn fn)
{
	char row[96] = "the first row";
	sqlite3_stmt *st;
	int rc, r = db_prepare(v->db, sql, v->e, &st);

	if (r < 0)
		return verify_found(v, r, table, "%s", "");
	while (r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		verify_key(st, key, row);
		r = verify_found(v, fn(v, st), table, "%s", row);
		if (r == 0)
			r = verify_progress(v);
	}
	if (r == 0 && rc != SQLITE_DONE)
		r = verify_found(v, db_fail(v->db, rc, "reading", v->e), table, "what follows %s",
				 row);
	sqlite3_finalize(st);
	return r;
}

/* ---- rows ------------------------------------------------------------------------------- */

static int verify_process(struct verify *v, sqlite3_stmt *st)
{
	if (sqlite3_column_bytes(st, 1) != 16)
		return err_set(v->e, -EUCLEAN, "%s: its identity is not 16 bytes", v->path);
	return sqlite3_column_int64(st, 2)
		       ? 0
		       : err_set(v->e, -EUCLEAN, "%s: the row before is missing", v->path);
}

static int verify_series(struct verify *v, sqlite3_stmt *st)
{
	int64_t id = sqlite3_column_int64(st, 0), before = (int64_t)v->n_series;
	int kind = sqlite3_column_int(st, 1);

	if (id <= before || id > CATALOG_SERIES_MAX)
		return err_set(v->e, -EUCLEAN, "%s: impossible number of a series", v->path);
	while ((int64_t)v->n_series < id) {
		v->kinds = xgrow(v->kinds, v->n_series, &v->cap_series, 1);
		v->kinds[v->n_series++] = 0;
	}
	if (kind < SINK_GAUGE || kind > SINK_SPAN)
		return err_set(v->e, -EUCLEAN, "%s: unknown kind %d", v->path, kind);
	v->kinds[id - 1] = (uint8_t)kind;
	if (sqlite3_column_type(st, 2) == SQLITE_NULL)
		return err_set(v->e, -EUCLEAN, "%s: its process is missing", v->path);
	return id == before + 1 ? 0
				: err_set(v->e, -EUCLEAN, "%s: %lld rows before it are missing",
					  v->path, (long long)(id - before - 1));
}

static int verify_lane(struct verify *v, sqlite3_stmt *st)
{
	return sqlite3_column_bytes(st, 1) == 16
		       ? 0
		       : err_set(v->e, -EUCLEAN, "%s: a ring is not 16 bytes", v->path);
}

static int verify_text(struct verify *v, sqlite3_stmt *st)
{
	(void)v;
	(void)st;
	return 0;
}

/* Of which kind a series is; SINK_HISTOGRAM or another. False: it is not defined. */
static bool verify_is_kind(const struct verify *v, uint32_t series, bool is_hist)
{
	return series && series <= v->n_series && v->kinds[series - 1] &&
	       is_hist == (v->kinds[series - 1] == SINK_HISTOGRAM);
}

static int verify_block(struct verify *v, const struct tail_walk *w, const struct tail_block *b)
{
	v->points.n = 0;
	hists_reset(&v->hists);
	if (!verify_is_kind(v, b->series, b->is_hist))
		return blob_bad(w->id, v->e, (size_t)(w->c.p - w->start),
				"a series that is not defined, or of another kind");
	v->points_seen += b->n;
	return b->is_hist ? tail_hists(w, b, &v->hists) : tail_points(w, b, &v->points);
}

static int verify_plain(struct verify *v, const struct blob_id *id, const struct blob *blob)
{
	struct tail_block block;
	struct tail_walk w;
	int r;

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
	if (!verify_is_kind(v, x->series, x->is_hist))
		return blob_bad(m->id, v->e, 0, "a series that is not defined, or of another kind");
	v->points_seen += x->n;
	if (x->is_hist)
		return merged_hists(m, x, &v->hists);
	r = merged_axis(m, x->axis, &v->columns, &v->axis);
	return r < 0 ? r : merged_points(m, x, &v->columns, &v->axis, &v->points);
}

static int verify_merged(struct verify *v, const struct blob_id *id, const struct blob *blob,
			 uint64_t *ret_first)
{
	struct merged_entry x;
	struct merged m;
	int r = merged_begin(&m, id, blob, v->e);

	if (r < 0)
		return r;
	*ret_first = m.first;
	while (r == 0 && (r = merged_next(&m, &x)) > 0)
		r = verify_entry(v, &m, &x);
	merged_done(&m);
	return r;
}

int verify_tail_row(struct verify *v, const struct blob_id *id, const void *data, size_t len,
		    uint64_t *ret_first, bool *ret_merged)
{
	struct blob blob;
	int r = blob_open(&v->codec, id, data, len, v->e, &blob);

	if (r < 0)
		return r;
	*ret_first = id->a;
	*ret_merged = blob.format == BLOB_MERGED;
	return *ret_merged ? verify_merged(v, id, &blob, ret_first) : verify_plain(v, id, &blob);
}

static int verify_tail(struct verify *v, sqlite3_stmt *st)
{
	const struct blob_id id = {v->path, "tail", (uint64_t)sqlite3_column_int64(st, 0), 0};
	uint64_t folded = (uint64_t)v->meta[META_FOLDED], before = v->seq, first;
	bool is_merged;
	int r;

	v->seq = id.a;
	r = verify_tail_row(v, &id, sqlite3_column_blob(st, 1), (size_t)sqlite3_column_bytes(st, 1),
			    &first, &is_merged);
	if (r < 0)
		return r;
	if (is_merged != (id.a <= folded))
		return blob_bad(&id, v->e, 0, "the row is folded already, or not yet");
	if (is_merged)
		return first > before && first <= id.a
			       ? 0
			       : blob_bad(&id, v->e, 0, "its commits are in the row before");
	return id.a == (before > folded ? before : folded) + 1
		       ? 0
		       : blob_bad(&id, v->e, 0, "a commit is missing before it");
}

/* ---- what belongs to something ------------------------------------------------------ */

static int verify_no_rows(struct verify *v, const char *table, const char *sql, const char *what)
{
	int64_t n = 0;
	int r = db_int(v->db, sql, v->e, &n);

	if (r == 0 && n)
		r = err_set(v->e, -EUCLEAN, "%s: %lld %s", v->path, (long long)n, what);
	return verify_found(v, r, table, "%s", "");
}

/* Slices of a pack lie one behind the other. */
static int verify_slice(struct verify *v, sqlite3_stmt *st)
{
	int64_t pack = sqlite3_column_int64(st, 0), at = sqlite3_column_int64(st, 1);

	if (pack == v->pack && at < v->pack_end)
		return err_set(v->e, -EUCLEAN, "%s: chunks overlap at byte %lld", v->path,
			       (long long)at);
	v->pack = pack;
	v->pack_end = at + sqlite3_column_int64(st, 2);
	return 0;
}

static int verify_belonging(struct verify *v)
{
	int r = verify_rows(v, "pack", "id", "SELECT pack, at, len FROM chunk ORDER BY pack, at",
			    verify_slice);

	if (r == 0)
		r = verify_no_rows(v, "pack",
				   "SELECT count(*) FROM pack WHERE id NOT IN (SELECT pack FROM"
				   " chunk) OR id > (SELECT value FROM meta WHERE key = 'pack')",
				   "rows of pack belong to no chunk, or are newer than meta says");
	if (r == 0)
		r = verify_no_rows(v, "axis",
				   "SELECT count(*) FROM axis WHERE id NOT IN (SELECT axis FROM"
				   " chunk WHERE axis NOT NULL) OR"
				   " id > (SELECT value FROM meta WHERE key = 'axis')",
				   "rows of axis belong to no chunk, or are newer than meta says");
	return r;
}

/* How much there is to look at, as far as it can be counted. */
static int verify_count(struct verify *v)
{
	int64_t n = 0;

	if (v->to->progress &&
	    db_int(v->db,
		   "SELECT (SELECT count(*) FROM series) + (SELECT count(*) FROM event) +"
		   " (SELECT count(*) FROM tail) + 2 * (SELECT count(*) FROM chunk)",
		   NULL, &n) == 0)
		v->total = (uint64_t)n;
	return 0;
}

static int verify_all(struct verify *v)
{
	static const struct {
		const char *table, *key, *sql;
		verify_fn fn;
	} tables[] = {
		{"run", "one", "SELECT * FROM run", verify_text},
		{"process", "id",
		 "SELECT id, uid, id = 1 OR lag(id) OVER (ORDER BY id) = id - 1 FROM process"
		 " ORDER BY id",
		 verify_process},
		{"series", "id",
		 "SELECT s.id, s.kind, p.id FROM series s LEFT JOIN process p"
		 " ON p.id = s.process ORDER BY s.id",
		 verify_series},
		{"event", "id", "SELECT * FROM event ORDER BY id", verify_text},
		{"attr", "process", "SELECT * FROM attr", verify_text},
		{"lane", "process", "SELECT process, ring FROM lane", verify_lane},
		{"tail", "seq", "SELECT seq, blob FROM tail ORDER BY seq", verify_tail},
	};
	int r = verify_count(v);
	size_t i;

	if (r == 0)
		r = verify_integrity(v);
	if (r == 0)
		r = verify_found(v, store_meta_read(v->db, v->e, v->meta), "meta", "%s", "");
	for (i = 0; r == 0 && i < ARRAY_LEN(tables); i++)
		r = verify_rows(v, tables[i].table, tables[i].key, tables[i].sql, tables[i].fn);
	if (r == 0)
		r = verify_chunks(v);
	return r < 0 ? r : verify_belonging(v);
}

/* Open; what keeps it from being opened is a finding if it is the file's fault. */
static int verify_open(struct verify *v)
{
	struct buf warning;
	int r;

	buf_init(&warning, 4096);
	r = db_open_reader(v->path, &warning, v->e, &v->db);
	if (r == 0 && warning.len) { /* not all of it is seen */
		r = err_set(v->e, -EUCLEAN, "%.*s", (int)warning.len - 1, buf_str(&warning));
		r = verify_found(v, r, "", "%s", "");
	}
	buf_done(&warning);
	return r ? r : db_exec(v->db, "BEGIN", v->e);
}

int store_check_all(const char *db_path, const struct store_checker *c, struct err *e,
		    uint64_t *ret)
{
	struct err one = {0};
	struct verify v = {.path = db_path, .e = &one, .to = c};
	int r;

	blob_codec_init(&v.codec);
	column_codec_init(&v.columns);
	r = verify_open(&v);
	if (r == 0)
		r = verify_all(&v);
	else
		r = verify_found(&v, r, "", "%s", "");
	sqlite3_close_v2(v.db);
	blob_codec_done(&v.codec);
	column_codec_done(&v.columns);
	points_done(&v.points);
	hists_done(&v.hists);
	axis_done(&v.axis);
	free(v.kinds);
	if (r == -E2BIG)
		r = 0;
	if (r == 0)
		*ret = v.findings;
	else if (one.code)
		err_set(e, r, "%s", one.text);
	return r;
}

/* The first finding, as an error. */
static int verify_first(void *arg, const struct store_finding *f)
{
	const bool is_named = strncmp(f->what, "table ", 6) == 0 || !*f->table;

	if (is_named)
		err_set(arg, -EUCLEAN, "%s: %s", f->path, f->what);
	else
		err_set(arg, -EUCLEAN, "%s: table %s%s%s: %s", f->path, f->table,
			*f->row ? ", " : "", f->row, f->what);
	return -ECANCELED;
}

int store_check(const char *db_path, struct err *e)
{
	struct err first = {0};
	const struct store_checker c = {.found = verify_first, .arg = &first};
	uint64_t n;
	int r = store_check_all(db_path, &c, e, &n);

	if (!first.code)
		return r;
	return err_set(e, -EUCLEAN, "%s", first.text);
}
