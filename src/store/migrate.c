/* SPDX-License-Identifier: Apache-2.0
 *
 * migrate.c - version 2 of a database of version 1: chunks of format 2 are read,
 * put onto axes and written anew, series by series; what fills no chunk becomes a
 * merged row. In the caller's transaction.
 */
#include "base/mem.h"
#include "store/store_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MIGRATE_BYTES (8u << 20) /* built before it is written */

struct migrate {
	struct store s; /* as much of one as sealing needs */
	struct err *e;
	struct build build;
	int64_t meta[META_N];
	sqlite3_stmt *chunks, *data;
	struct points points;
	struct hists hists;
};

/* The tables of version 2 that are new or have other columns; the rest is as it was. */
static const char migrate_before[] =
	"ALTER TABLE chunk RENAME TO chunk_1; ALTER TABLE chunk_data RENAME TO data_1;"
	"CREATE TABLE chunk (series INTEGER NOT NULL, ordinal INTEGER NOT NULL,"
	" start INTEGER NOT NULL, n INTEGER NOT NULL, segment INTEGER NOT NULL,"
	" segment_step INTEGER, segment_time INTEGER, axis INTEGER, pack INTEGER NOT NULL,"
	" at INTEGER NOT NULL, len INTEGER NOT NULL, PRIMARY KEY (series, ordinal)) WITHOUT ROWID;"
	"CREATE TABLE axis (id INTEGER PRIMARY KEY, blob BLOB NOT NULL);"
	"CREATE TABLE pack (id INTEGER PRIMARY KEY, blob BLOB NOT NULL);"
	"CREATE TABLE summary (id INTEGER PRIMARY KEY, blob BLOB NOT NULL);";
static const char migrate_after[] = "DROP TABLE chunk_1; DROP TABLE data_1;";

/* ---- a chunk of version 1 ------------------------------------------------------------ */

/* Points of the chunk whose row is in m->chunks, appended. */
static int migrate_chunk(struct migrate *m, bool is_hist)
{
	const struct blob_id id = {m->s.path, "chunk", (uint64_t)sqlite3_column_int64(m->chunks, 0),
				   (uint64_t)sqlite3_column_int64(m->chunks, 1)};
	const char *why = NULL;
	struct blob blob;
	int rc, r;

	sqlite3_bind_int64(m->data, 1, sqlite3_column_int64(m->chunks, 2));
	rc = sqlite3_step(m->data);
	if (rc == SQLITE_ROW)
		r = blob_open(&m->s.codec, &id, sqlite3_column_blob(m->data, 0),
			      (size_t)sqlite3_column_bytes(m->data, 0), m->e, &blob);
	else if (rc == SQLITE_DONE)
		r = blob_bad(&id, m->e, 0, "its data is missing");
	else
		r = db_fail(m->s.db, rc, "reading a chunk", m->e);
	if (r == 0 && (blob.format != (is_hist ? BLOB_HISTS : BLOB_POINTS) ||
		       blob.count != sqlite3_column_int64(m->chunks, 3)))
		r = blob_bad(&id, m->e, 0, "its data are not what its row states");
	if (r == 0)
		why = is_hist ? hists_get_body(blob.body, blob.len, blob.count, &m->hists)
			      : points_get_body(blob.body, blob.len, blob.count, &m->points);
	if (why)
		r = blob_bad(&id, m->e, BLOB_HEADER, why);
	sqlite3_reset(m->data);
	return r;
}

/* ---- all of them --------------------------------------------------------------------- */

/* Write what has been built: the last time only full entries as chunks. */
static int migrate_write(struct migrate *m, bool last)
{
	struct store_merged note = {0};
	struct build *b = &m->build;
	size_t i, n, full;
	int r = build_end(b);

	for (i = 0; r == 0 && i < b->n_entries; i += n) {
		for (full = 0, n = 0;
		     i + n < b->n_entries && b->entries[i + n].series == b->entries[i].series; n++)
			if (!last || b->entries[i + n].is_full)
				full = n + 1;
		while (full)
			b->entries[i + --full].sealed = true;
	}
	if (r == 0)
		r = seal_entries(&m->s, b, m->meta, m->e);
	if (r == 0)
		r = fold_write_merged(&m->s, b, (uint64_t)m->meta[META_FOLDED], 1, m->e, &note);
	free(note.series);
	build_done(b);
	build_init(b, m->s.path, &m->s.columns, m->e);
	return r;
}

static int migrate_series(struct migrate *m, uint32_t series)
{
	bool is_hist = m->s.catalog.series[series - 1].kind == SINK_HISTOGRAM;
	int rc = SQLITE_DONE, r = 0;

	m->points.n = 0;
	sqlite3_bind_int64(m->chunks, 1, series);
	while (r == 0 && (rc = sqlite3_step(m->chunks)) == SQLITE_ROW) {
		r = migrate_chunk(m, is_hist);
		if (r == 0)
			r = is_hist ? build_hists(&m->build, series, &m->hists, true)
				    : build_points(&m->build, series, &m->points, true);
	}
	if (r == 0 && rc != SQLITE_DONE)
		r = db_fail(m->s.db, rc, "reading table chunk", m->e);
	sqlite3_reset(m->chunks);
	if (r == 0)
		r = is_hist ? build_hists(&m->build, series, &m->hists, false)
			    : build_points(&m->build, series, &m->points, false);
	if (r == 0 && m->build.bytes.len > MIGRATE_BYTES)
		r = migrate_write(m, false);
	return r;
}

static int migrate_open(struct migrate *m)
{
	struct store *s = &m->s;
	int64_t strays = 0;
	int r = db_exec(s->db, migrate_before, m->e);

	if (r == 0)
		r = store_prepare(s, m->e);
	if (r == 0)
		r = db_prepare(s->db,
			       "SELECT series, ordinal, data, n FROM chunk_1 WHERE series = ?1"
			       " ORDER BY ordinal",
			       m->e, &m->chunks);
	if (r == 0)
		r = db_prepare(s->db, "SELECT blob FROM data_1 WHERE id = ?1", m->e, &m->data);
	if (r == 0)
		r = catalog_load(s, m->e);
	if (r == 0)
		r = db_int(
			s->db,
			"SELECT count(*) FROM chunk_1 WHERE series NOT IN (SELECT id FROM series)",
			m->e, &strays);
	if (r == 0 && strays)
		r = err_set(m->e, -EUCLEAN, "%s: table chunk: a series that is not defined",
			    s->path);
	if (r == 0)
		r = store_meta_read(s->db, m->e, s->meta);
	memcpy(m->meta, s->meta, sizeof(m->meta));
	return r;
}

static int migrate_all(struct migrate *m)
{
	struct store *s = &m->s;
	size_t i;
	int r = migrate_open(m);

	for (i = 0; r == 0 && i < s->catalog.n_series; i++)
		r = migrate_series(m, (uint32_t)i + 1);
	if (r == 0)
		r = migrate_write(m, true);
	m->meta[META_FOLDS]++;
	if (r == 0)
		r = store_meta_write(s, m->meta, m->e);
	sqlite3_finalize(m->chunks);
	sqlite3_finalize(m->data);
	store_unprepare(s);
	return r < 0 ? r : db_exec(s->db, migrate_after, m->e);
}

int migrate_from_1(sqlite3 *db, const char *path, struct err *e)
{
	struct migrate m = {.e = e};
	int version, r;

	r = db_check_schema(db, path, e, &version);
	if (r < 0)
		return r;
	m.s.db = db;
	m.s.path = (char *)path;
	catalog_init(&m.s.catalog);
	blob_codec_init(&m.s.codec);
	column_codec_init(&m.s.columns);
	build_init(&m.build, path, &m.s.columns, e);
	r = migrate_all(&m);
	build_done(&m.build);
	points_done(&m.points);
	hists_done(&m.hists);
	column_codec_done(&m.s.columns);
	blob_codec_done(&m.s.codec);
	catalog_done(&m.s.catalog);
	return r;
}

/* ---- a copy for readers -------------------------------------------------------------------- */

static int migrate_backup(sqlite3 *from, sqlite3 *to, const char *path, struct err *e)
{
	sqlite3_backup *b = sqlite3_backup_init(to, "main", from, "main");
	int rc;

	if (!b)
		return db_fail(to, sqlite3_extended_errcode(to), "copying into memory", e);
	rc = sqlite3_backup_step(b, -1);
	sqlite3_backup_finish(b);
	if (rc == SQLITE_DONE)
		return 0;
	return err_set(e, db_errno(from, rc), "%s: copying into memory: %s", path,
		       sqlite3_errstr(rc));
}

int migrate_copy(sqlite3 *db, const char *path, struct err *e, sqlite3 **ret)
{
	int64_t pages = 0, size = 0;
	sqlite3 *to = NULL;
	int rc, r;

	r = db_int(db, "PRAGMA page_count", e, &pages);
	if (r == 0)
		r = db_int(db, "PRAGMA page_size", e, &size);
	if (r == 0 && pages * size > MIGRATE_COPY_MAX)
		r = err_set(e, -EFBIG,
			    "%s: an older version's file of more than %d MiB; read it with the "
			    "lapse that wrote it",
			    path, MIGRATE_COPY_MAX >> 20);
	if (r == 0) {
		rc = sqlite3_open_v2(":memory:", &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
				     NULL);
		r = rc == SQLITE_OK ? migrate_backup(db, to, path, e)
				    : db_fail(to, rc, "opening memory", e);
	}
	if (r == 0)
		r = db_exec(to, "PRAGMA cell_size_check=ON; PRAGMA journal_mode=OFF", e);
	if (r == 0)
		r = db_create(to, path, e);
	if (r == 0)
		r = db_exec(to, "PRAGMA query_only=ON", e);
	sqlite3_close(db);
	if (r < 0)
		sqlite3_close(to);
	else
		*ret = to;
	return r;
}
