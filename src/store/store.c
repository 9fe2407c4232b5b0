/* SPDX-License-Identifier: Apache-2.0
 *
 * store.c - the writer's life: open (and set a corrupt file aside), load what
 * was left, close into one plain file.
 */
#include "store/store.h"

#include "base/file.h"
#include "base/mem.h"
#include "store/store_priv.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STORE_PLAIN_AGAIN_NS 20000000L

static const char *const store_statements[SQL_N] = {
	[SQL_BEGIN] = "BEGIN IMMEDIATE",
	[SQL_COMMIT] = "COMMIT",
	[SQL_ROLLBACK] = "ROLLBACK",
	[SQL_PROCESS] =
		"INSERT OR REPLACE INTO process(id, seq, uid, pid, ppid, start_time, role,"
		" program, rank, local_rank, world_size, start_ns, end_ns, dropped, refused)"
		" VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15)",
	[SQL_SERIES] =
		"INSERT INTO series(id, seq, process, name, labels, unit, help, kind, source)"
		" VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9)",
	[SQL_EVENT] = "INSERT INTO event(seq, process, time_ns, step, severity, kind, text, attrs)"
		      " VALUES(?1,?2,?3,?4,?5,?6,?7,?8)",
	[SQL_ATTR] = "INSERT OR REPLACE INTO attr(seq, process, key, value) VALUES(?1,?2,?3,?4)",
	[SQL_TAIL] = "INSERT INTO tail(seq, blob) VALUES(?1,?2)",
	[SQL_TAIL_READ] = "SELECT seq, blob FROM tail WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq",
	[SQL_TAIL_DELETE] = "DELETE FROM tail WHERE seq BETWEEN ?1 AND ?2",
	[SQL_LANE] = "INSERT OR REPLACE INTO lane(ring, lane, seq, pos, rec, stored, overwritten,"
		     " broken, dropped, process) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)",
	[SQL_META] = "INSERT OR REPLACE INTO meta(key, value) VALUES(?1, ?2)",
	[SQL_CHUNK] = "INSERT INTO chunk(" CHUNKROW_COLUMNS ")"
		      " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)",
	[SQL_CHUNK_LAST] = "SELECT " CHUNKROW_COLUMNS
			   " FROM chunk WHERE series = ?1 ORDER BY ordinal DESC LIMIT 1",
	[SQL_AXIS] = "INSERT INTO axis(id, blob) VALUES(?1, ?2)",
	[SQL_PACK] = "INSERT INTO pack(id, blob) VALUES(?1, ?2)",
	[SQL_SUMMARY_GET] = "SELECT blob FROM summary WHERE id = ?1",
	[SQL_SUMMARY_SET] = "INSERT OR REPLACE INTO summary(id, blob) VALUES(?1, ?2)",
};

const char *const store_meta_names[META_N] = {
	[META_FOLDED] = "folded",
	[META_FOLDS] = "folds",
	[META_AXIS] = "axis",
	[META_PACK] = "pack",
};

int store_meta_read(sqlite3 *db, struct err *e, int64_t ret[META_N])
{
	sqlite3_stmt *st;
	size_t i;
	int rc, r = db_prepare(db, "SELECT value FROM meta WHERE key = ?1", e, &st);

	for (i = 0; r == 0 && i < META_N; i++) {
		sqlite3_bind_text(st, 1, store_meta_names[i], -1, SQLITE_STATIC);
		rc = sqlite3_step(st);
		ret[i] = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
		if (rc != SQLITE_ROW && rc != SQLITE_DONE)
			r = db_fail(db, rc, "reading table meta", e);
		if (r == 0 && ret[i] < 0)
			r = err_set(e, -EUCLEAN, "%s: table meta: %s is negative",
				    sqlite3_db_filename(db, "main"), store_meta_names[i]);
		sqlite3_reset(st);
	}
	sqlite3_finalize(st);
	return r;
}

int store_meta_write(struct store *s, const int64_t meta[META_N], struct err *e)
{
	sqlite3_stmt *st = s->sql[SQL_META];
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < META_N; i++) {
		if (meta[i] == s->meta[i])
			continue;
		sqlite3_bind_text(st, 1, store_meta_names[i], -1, SQLITE_STATIC);
		sqlite3_bind_int64(st, 2, meta[i]);
		r = db_run(st, "writing table meta", e);
	}
	return r;
}

int store_prepare(struct store *s, struct err *e)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < SQL_N; i++)
		r = db_prepare(s->db, store_statements[i], e, &s->sql[i]);
	return r;
}

void store_unprepare(struct store *s)
{
	size_t i;

	for (i = 0; i < SQL_N; i++) {
		sqlite3_finalize(s->sql[i]);
		s->sql[i] = NULL;
	}
}

int64_t store_mono_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

int64_t store_utc_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

int store_abort(struct store *s, int r)
{
	if (r == 0)
		return 0;
	if (!sqlite3_get_autocommit(s->db))
		db_run(s->sql[SQL_ROLLBACK], "rolling back", NULL);
	if (r == -EUCLEAN)
		s->corrupt = true;
	return r;
}

/* ---- the database of an open store --------------------------------------- */

void store_disconnect(struct store *s)
{
	place_stop(&s->place);
	checkpoint_stop(s);
	retain_stop(&s->retain);
	store_unprepare(s);
	if (s->db && s->corrupt)
		sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	sqlite3_close_v2(s->db);
	s->db = NULL;
	catalog_done(&s->catalog);
	commit_done(&s->commit);
	while (s->n_merged)
		free(s->merged[--s->n_merged].series);
	s->seq = s->tail_rows = s->tail_body = 0;
}

static int store_load_lanes(struct store *s, struct err *e)
{
	struct sink_position p;
	sqlite3_stmt *st;
	int rc, r;

	r = db_prepare(s->db,
		       "SELECT ring, lane, pos, rec, stored, overwritten, broken, dropped, process"
		       " FROM lane",
		       e, &st);
	if (r < 0)
		return r;
	while (r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		if (sqlite3_column_bytes(st, 0) != 16) {
			r = err_set(e, -EUCLEAN, "%s: table lane: a ring is not 16 bytes", s->path);
			break;
		}
		memcpy(p.ring, sqlite3_column_blob(st, 0), 16);
		p.lane = (uint32_t)sqlite3_column_int64(st, 1);
		p.pos = (uint64_t)sqlite3_column_int64(st, 2);
		p.rec = (uint64_t)sqlite3_column_int64(st, 3);
		p.stored = (uint64_t)sqlite3_column_int64(st, 4);
		p.overwritten = (uint64_t)sqlite3_column_int64(st, 5);
		p.broken = (uint64_t)sqlite3_column_int64(st, 6);
		p.dropped = (uint64_t)sqlite3_column_int64(st, 7);
		p.process = (uint32_t)sqlite3_column_int64(st, 8);
		r = commit_load_lane(s, &p, true, e);
	}
	if (r == 0 && rc != SQLITE_DONE)
		r = db_fail(s->db, rc, "reading table lane", e);
	sqlite3_finalize(st);
	return r;
}

static int store_load_plain(struct store *s, const struct blob_id *id, const struct blob *blob,
			    struct err *e)
{
	struct sink_position p;
	struct tail_block block;
	struct tail_walk w;
	int r = tail_begin(&w, id, blob, e);

	while (r == 0 && (r = tail_position(&w, &p)) > 0)
		r = commit_load_lane(s, &p, false, e);
	while (r == 0 && (r = tail_block(&w, &block)) > 0)
		r = block.series > s->catalog.n_series
			    ? blob_bad(id, e, 0, "a series that is not defined")
			    : 0;
	if (r < 0)
		return r;
	s->tail_rows++;
	s->tail_body += blob->len;
	return 0;
}

static int store_load_row(struct store *s, sqlite3_stmt *st, struct err *e)
{
	const struct blob_id id = {s->path, "tail", (uint64_t)sqlite3_column_int64(st, 0), 0};
	struct store_merged note;
	struct blob blob;
	int r;

	r = blob_open(&s->codec, &id, sqlite3_column_blob(st, 1),
		      (size_t)sqlite3_column_bytes(st, 1), e, &blob);
	if (r < 0)
		return r;
	if (id.a > (uint64_t)s->meta[META_FOLDED]) {
		s->seq = id.a;
		return store_load_plain(s, &id, &blob, e);
	}
	r = fold_note_merged(s, &id, &blob, e, &note);
	if (r < 0)
		return r;
	s->merged = xgrow(s->merged, s->n_merged, &s->cap_merged, sizeof(*s->merged));
	s->merged[s->n_merged++] = note;
	return 0;
}

static int store_load_tail(struct store *s, struct err *e)
{
	sqlite3_stmt *st = s->sql[SQL_TAIL_READ];
	int rc, r;

	r = store_meta_read(s->db, e, s->meta);
	if (r < 0)
		return r;
	s->seq = (uint64_t)s->meta[META_FOLDED];
	s->tail_since = store_mono_ns();
	sqlite3_bind_int64(st, 1, INT64_MIN);
	sqlite3_bind_int64(st, 2, INT64_MAX);
	while (r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW)
		r = store_load_row(s, st, e);
	if (r == 0 && rc != SQLITE_DONE)
		r = db_fail(s->db, rc, "reading table tail", e);
	sqlite3_reset(st);
	return r;
}

/* Open the database, make or migrate its tables, load what the writer needs:
 * this reads the schema and the tables process, series, lane and tail. */
int store_connect(struct store *s, struct err *e)
{
	int r;

	catalog_init(&s->catalog);
	commit_init(&s->commit);
	r = db_open_writer(s->path, s->wal, e, &s->db);
	if (r == 0)
		r = db_create(s->db, s->path, e);
	if (r == 0)
		r = store_prepare(s, e);
	if (r == 0)
		r = catalog_load(s, e);
	if (r == 0)
		r = store_load_lanes(s, e);
	if (r == 0)
		r = store_load_tail(s, e);
	if (r == 0 && s->wal)
		r = checkpoint_start(s, e);
	if (r == 0)
		r = place_start(&s->place, s->path, e);
	if (r < 0) {
		s->corrupt = r == -EUCLEAN;
		store_disconnect(s);
		s->corrupt = false;
	}
	return r;
}

/* ---- files ------------------------------------------------------------------ */

static char *store_host_file(const char *host)
{
	char *name = xasprintf("%.200s.db", host && *host ? host : "host"), *p;

	for (p = name; *p; p++)
		if (*p == '/' || (unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '_';
	if (*name == '.')
		*name = '_';
	return name;
}

/* One writer a file: an OFD lock on HOST.db.lock, gone with the process. The
 * file may have been unlinked by the last writer between open and lock. */
static int store_lock(struct store *s, struct err *e)
{
	struct stat mine, there;
	int fd;

	for (;;) {
		fd = rendezvous_lock(AT_FDCWD, s->lock_path);
		if (fd == -EAGAIN)
			return err_set(e, -EBUSY, "%s is being written by another process",
				       s->home);
		if (fd < 0)
			return err_errno(e, fd,
					 "cannot lock %s; if its file system has no locks, store "
					 "elsewhere ($LAPSE_DIR)",
					 s->lock_path);
		if (fstat(fd, &mine) == 0 && stat(s->lock_path, &there) == 0 &&
		    mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
			break;
		close(fd);
	}
	s->lock_fd = fd;
	return 0;
}

static void store_unlock(struct store *s)
{
	struct stat mine, there;

	if (s->lock_fd < 0)
		return;
	if (fstat(s->lock_fd, &mine) == 0 && stat(s->lock_path, &there) == 0 &&
	    mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
		unlink(s->lock_path);
	close(s->lock_fd);
	s->lock_fd = -1;
}

/* What is to be known of where the file lies. */
static int store_say_place(struct store *s, struct err *e)
{
	int r = 0;

	if (s->place.lost)
		r = store_say(s, "store-live-lost", s->place.lost, e);
	if (r == 0 && s->place.slow && s->seq == 0)
		r = store_say(s, "store-slow", s->place.slow, e);
	return r;
}

static int store_open_files(struct store *s, bool no_replace, struct err *e)
{
	struct err why = {0};
	char *mark = store_bad_mark(s);
	struct stat st;
	int r;

	if (lstat(mark, &st) == 0)
		r = err_set(&why, -EUCLEAN, "found while it was written");
	else
		r = store_connect(s, &why);
	free(mark);
	if (r == -EUCLEAN && !no_replace)
		r = store_replace(s, &why, e);
	else if (r < 0)
		err_set(e, r, "%s", why.text);
	if (r == 0)
		r = store_say_place(s, e);
	if (r < 0)
		return r;
	if (stat(s->path, &st) < 0)
		return err_errno(e, -errno, "cannot look at %s", s->path);
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return 0;
}

static void store_free(struct store *s)
{
	store_disconnect(s);
	place_done(&s->place);
	store_unlock(s);
	blob_codec_done(&s->codec);
	column_codec_done(&s->columns);
	free(s->merged);
	free(s->dir);
	free(s->file);
	free(s->home);
	free(s->path);
	free(s->lock_path);
	free(s);
}

int store_open(const struct store_options *o, struct err *e, struct store **ret)
{
	struct store *s;
	char *dir;
	int r;

	r = file_mkdirs(o->dir, 0700);
	if (r < 0)
		return err_errno(e, r, "cannot make the folder %s", o->dir);
	dir = realpath(o->dir, NULL);
	if (!dir)
		return err_errno(e, -errno, "cannot find the folder %s", o->dir);
	s = xcalloc(1, sizeof(*s));
	s->sink.ops = &commit_ops;
	s->lock_fd = -1;
	s->patience_ns = o->patience_ns ? o->patience_ns : STORE_PATIENCE_NS;
	s->dir = dir;
	s->file = store_host_file(o->host);
	s->home = xasprintf("%s/%s", dir, s->file);
	s->lock_path = xasprintf("%s.lock", s->home);
	s->place.dir = s->dir;
	s->place.file = s->file;
	s->place.home = s->home;
	s->place.lock_fd = -1;
	blob_codec_init(&s->codec);
	column_codec_init(&s->columns);
	r = store_lock(s, e);
	if (r == 0)
		r = place_settle(&s->place, o, e, &s->path, &s->wal);
	if (r == 0)
		r = store_open_files(s, o->no_replace, e);
	if (r < 0) {
		store_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

/* ---- the open store ------------------------------------------------------------ */

struct sink *store_sink(struct store *s)
{
	return &s->sink;
}

const struct err *store_error(const struct store *s)
{
	return &s->err;
}

/* Does the file still begin like a database? Read through SQLite's own
 * descriptor: closing another one would drop its locks. With a WAL nothing else
 * looks at the first page until the end. */
int store_check_header(struct store *s, struct err *e)
{
	static const char magic[16] = "SQLite format 3";
	sqlite3_file *file = NULL;
	char head[16];

	if (sqlite3_file_control(s->db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK ||
	    !file || !file->pMethods)
		return 0;
	if (file->pMethods->xRead(file, head, sizeof(head), 0) != SQLITE_OK ||
	    memcmp(head, magic, sizeof(head)) == 0)
		return 0;
	s->corrupt = true;
	return err_set(e, -EUCLEAN, "%s: its first page was overwritten", s->path);
}

bool store_is_alive(const struct store *s)
{
	struct stat st;

	return stat(s->path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino;
}

void store_stats(struct store *s, struct store_stats *out)
{
	char *wal = xasprintf("%s-wal", s->path);
	struct stat st;

	*out = s->stats;
	out->file_bytes = stat(s->path, &st) == 0 ? (uint64_t)st.st_size : 0;
	if (stat(wal, &st) == 0)
		out->file_bytes += (uint64_t)st.st_size;
	free(wal);
}

/* One plain file. 1: a reader that has it open keeps us from leaving WAL mode: the log
 * stays, empty, or the journal. */
static int store_make_plain(struct store *s, struct err *e)
{
	int r = db_exec(s->db, "PRAGMA incremental_vacuum", e);

	if (r == 0 && s->wal)
		r = db_exec(s->db, "PRAGMA wal_checkpoint(TRUNCATE)", e);
	if (r == 0)
		r = db_exec(s->db, "PRAGMA journal_mode=DELETE", NULL) == -EBUSY;
	return r;
}

/* Readers that only wait for what comes next go soon. */
static int store_wait_plain(struct store *s, struct err *e)
{
	const struct timespec again = {0, STORE_PLAIN_AGAIN_NS};
	int64_t until = store_mono_ns() + (s->settled ? s->patience_ns / 10 : s->patience_ns);
	int r;

	while ((r = store_make_plain(s, e)) > 0 && store_mono_ns() < until)
		nanosleep(&again, NULL);
	return r < 0 ? r : 0;
}

int store_settle(struct store *s, struct err *e)
{
	int r;

	if (s->corrupt || !store_is_alive(s))
		return 0;
	place_stop(&s->place);
	r = store_fold(s, true, e);
	checkpoint_stop(s);
	s->settled = true;
	sqlite3_busy_timeout(s->db, 0);
	if (r == 0)
		r = store_make_plain(s, e);
	if (r == -EBUSY)
		return 1;
	return r > 0 ? r : store_abort(s, r);
}

static int store_finish(struct store *s, struct err *e)
{
	char *mark;
	int fd, r;

	if (!store_is_alive(s))
		return err_set(e, -ESTALE, "%s was deleted or replaced while it was written",
			       s->path);
	place_stop(&s->place);
	r = s->corrupt ? err_set(e, -EUCLEAN, "%s is corrupt; it will be set aside", s->path)
		       : store_fold(s, true, e);
	checkpoint_stop(s);
	if (r == 0)
		r = store_abort(s, store_wait_plain(s, e));
	if (s->corrupt) {
		mark = store_bad_mark(s);
		fd = open(mark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd >= 0)
			close(fd);
		free(mark);
	}
	return r;
}

static int store_end_of(struct store *s, bool move, struct err *e)
{
	int r;

	if (!s)
		return 0;
	r = store_finish(s, e);
	store_disconnect(s);
	if (r == 0 && move)
		r = place_finish(&s->place, s->path, e);
	store_free(s);
	return r;
}

int store_close(struct store *s, struct err *e)
{
	return store_end_of(s, true, e);
}

int store_leave(struct store *s, struct err *e)
{
	return store_end_of(s, false, e);
}
