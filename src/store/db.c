/* SPDX-License-Identifier: Apache-2.0
 *
 * db.c - the connection to a database: settings, errors as errnos and
 * sentences, schema check, versions.
 */
#include "base/mem.h"
#include "store/schema_sql.h" /* SCHEMA_SQL: schema.sql as a string, made by the build */
#include "store/store_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DB_BUSY_MS 500

/* Migrations: [v] leads from version v to v + 1. There is none before 1. */
static const struct db_step db_steps[DB_VERSION] = {{NULL, NULL}, {NULL, migrate_from_1}};

/* Tables of each version. */
static const char *const db_tables[DB_VERSION][16] = {
	{"attr", "chunk", "chunk_data", "event", "lane", "meta", "process", "run", "series",
	 "tail"},
	{"attr", "axis", "chunk", "event", "lane", "meta", "pack", "process", "run", "series",
	 "summary", "tail"},
};

int db_errno(sqlite3 *db, int rc)
{
	static const struct {
		int rc, code;
	} table[] = {
		{SQLITE_FULL, -ENOSPC},
		{SQLITE_CORRUPT, -EUCLEAN},
		{SQLITE_NOTADB, -EUCLEAN},
		{SQLITE_BUSY, -EBUSY},
		{SQLITE_LOCKED, -EBUSY},
		{SQLITE_NOMEM, -ENOMEM},
		{SQLITE_READONLY, -EROFS},
		{SQLITE_PERM, -EACCES},
		{SQLITE_TOOBIG, -EFBIG},
		{SQLITE_CANTOPEN, -EACCES},
		{SQLITE_PROTOCOL, -EBUSY},
		/* Our SQL is fixed: these mean that the tables are not ours. */
		{SQLITE_ERROR, -EUCLEAN},
		{SQLITE_CONSTRAINT, -EUCLEAN},
		{SQLITE_MISMATCH, -EUCLEAN},
	};
	int os = db ? sqlite3_system_errno(db) : 0;
	size_t i;

	if ((rc & 0xff) == SQLITE_IOERR && (os == ENOSPC || os == EDQUOT))
		return -ENOSPC;
	if ((rc & 0xff) == SQLITE_CANTOPEN && os)
		return -os;
	for (i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].rc == (rc & 0xff))
			return table[i].code;
	return -EIO;
}

int db_fail(sqlite3 *db, int rc, const char *what, struct err *e)
{
	const char *path = db ? sqlite3_db_filename(db, "main") : NULL;
	int code = db_errno(db, rc);
	const char *advice = "";

	if (code == -ENOSPC)
		advice = "; free some space";
	else if (code == -EUCLEAN)
		advice = "; the database is corrupt";
	return err_set(e, code, "%s: %s: %s (%d)%s", path && *path ? path : "database", what,
		       db ? sqlite3_errmsg(db) : sqlite3_errstr(rc), rc, advice);
}

int db_exec(sqlite3 *db, const char *sql, struct err *e)
{
	int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : db_fail(db, sqlite3_extended_errcode(db), sql, e);
}

int db_prepare(sqlite3 *db, const char *sql, struct err *e, sqlite3_stmt **ret)
{
	int rc = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL);

	return rc == SQLITE_OK ? 0 : db_fail(db, sqlite3_extended_errcode(db), sql, e);
}

int db_run(sqlite3_stmt *st, const char *what, struct err *e)
{
	sqlite3 *db = sqlite3_db_handle(st);
	int rc, r = 0;

	do
		rc = sqlite3_step(st);
	while (rc == SQLITE_ROW);
	if (rc != SQLITE_DONE)
		r = db_fail(db, sqlite3_extended_errcode(db), what, e);
	sqlite3_reset(st);
	sqlite3_clear_bindings(st);
	return r;
}

int db_int(sqlite3 *db, const char *sql, struct err *e, int64_t *ret)
{
	sqlite3_stmt *st;
	int rc, r = db_prepare(db, sql, e, &st);

	if (r < 0)
		return r;
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		*ret = sqlite3_column_int64(st, 0);
	else
		r = rc == SQLITE_DONE ? -ENODATA : db_fail(db, rc, sql, e);
	sqlite3_finalize(st);
	return r;
}

const char *db_text(sqlite3_stmt *st, int column)
{
	const char *s = (const char *)sqlite3_column_text(st, column);

	return s ? s : "";
}

static void db_guard(sqlite3 *db)
{
	sqlite3_extended_result_codes(db, 1);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, DB_BLOB_MAX);
	sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
}

/* SQLite would make the file 0644. Never opened by us again: closing any
 * descriptor of it would drop SQLite's locks. */
static int db_make_file(const char *path, struct err *e)
{
	struct stat st;
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd >= 0) {
		close(fd);
		return 0;
	}
	if (errno != EEXIST)
		return err_errno(e, -errno, "cannot make %s", path);
	if (lstat(path, &st) < 0)
		return err_errno(e, -errno, "cannot look at %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, -EINVAL, "%s is not a plain file; move it away", path);
	return 0;
}

/* The connection knows no name yet. */
static int db_open_failed(sqlite3 *db, int rc, const char *path, struct err *e)
{
	int code = db_errno(db, rc), os = db ? sqlite3_system_errno(db) : 0;

	if ((rc & 0xff) == SQLITE_CANTOPEN && os)
		return err_errno(e, code, "cannot open %s", path);
	return err_set(e, code, "cannot open %s: %s", path, sqlite3_errstr(rc));
}

int db_open_writer(const char *path, bool wal, struct err *e, sqlite3 **ret)
{
	sqlite3 *db = NULL;
	int rc, r = db_make_file(path, e);

	if (r < 0)
		return r;
	rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc != SQLITE_OK) {
		r = db_open_failed(db, rc, path, e);
		sqlite3_close(db);
		return r;
	}
	db_guard(db);
	sqlite3_busy_timeout(db, DB_BUSY_MS);
	r = db_exec(db,
		    "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY;"
		    "PRAGMA cache_size=-512; PRAGMA page_size=1024; PRAGMA auto_vacuum=INCREMENTAL;"
		    "PRAGMA secure_delete=OFF; PRAGMA wal_autocheckpoint=0;",
		    e);
	if (r == 0)
		r = db_exec(db, wal ? "PRAGMA journal_mode=WAL" : "PRAGMA journal_mode=TRUNCATE",
			    e);
	if (r == 0)
		r = db_exec(db, "PRAGMA synchronous=NORMAL", e);
	if (r < 0) {
		sqlite3_close(db);
		return r;
	}
	*ret = db;
	return 0;
}

/* how: "ro", "rw" to roll back what a killed writer left, "ro&immutable=1". */
static int db_open_uri(const char *path, const char *how, struct err *e, sqlite3 **ret)
{
	char *quoted, *uri;
	sqlite3 *db = NULL;
	int64_t n;
	int rc, r = 0;

	quoted = xcalloc(3 * strlen(path) + 1, 1);
	for (const char *p = path; *p; p++) {
		char *to = quoted + strlen(quoted);

		if (*p == '%' || *p == '?' || *p == '#')
			sqlite3_snprintf(4, to, "%%%02x", (unsigned char)*p);
		else
			*to = *p;
	}
	uri = xasprintf("file:%s?mode=%s", quoted, how);
	rc = sqlite3_open_v2(uri, &db,
			     SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
	free(uri);
	free(quoted);
	if (rc == SQLITE_OK) {
		db_guard(db);
		sqlite3_busy_timeout(db, DB_BUSY_MS);
		r = db_exec(
			db,
			"PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA cache_size=-1024;"
			"PRAGMA temp_store=MEMORY; PRAGMA query_only=ON",
			e);
		if (r == 0)
			r = db_int(db, "SELECT count(*) FROM sqlite_master", e, &n);
	} else {
		r = db_open_failed(db, rc, path, e);
	}
	if (r < 0) {
		sqlite3_close(db);
		return r;
	}
	*ret = db;
	return 0;
}

/* Is there something in PATH-SUFFIX? */
static bool db_has_part(const char *path, const char *suffix)
{
	char *part = xasprintf("%s-%s", path, suffix);
	struct stat st;
	bool has = stat(part, &st) == 0 && st.st_size > 0;

	free(part);
	return has;
}

/* A folder that cannot be written: without a WAL the file alone is whole; with
 * one, all up to its last checkpoint is there. An unfinished transaction of a
 * rollback journal has changed the file itself. */
static int db_open_without_help(const char *path, struct buf *warning, struct err *e, sqlite3 **ret)
{
	if (db_has_part(path, "journal")) {
		if (db_open_uri(path, "rw", NULL, ret) == 0)
			return 0;
		return err_set(
			e, -EROFS,
			"%s: a killed writer left an unfinished commit, and the folder cannot be "
			"written to undo it; copy the folder to one of yours",
			path);
	}
	if (db_open_uri(path, "ro&immutable=1", NULL, ret) < 0)
		return -EIO;
	if (db_has_part(path, "wal"))
		buf_printf(
			warning,
			"%s: its folder cannot be written, so the last commits, in %s-wal, are not "
			"seen; copy the folder to one of yours\n",
			path, path);
	return 0;
}

/* Of this version, or a copy in memory that is. */
static int db_accept(sqlite3 *db, const char *path, struct err *e, sqlite3 **ret)
{
	int version, r = db_check_schema(db, path, e, &version);

	if (r < 0) {
		sqlite3_close(db);
		return r;
	}
	if (version < DB_VERSION)
		return migrate_copy(db, path, e, ret);
	*ret = db;
	return 0;
}

int db_open_frozen(const char *path, struct err *e, sqlite3 **ret)
{
	sqlite3 *db;
	int r = db_open_uri(path, "ro&immutable=1", e, &db);

	return r < 0 ? r : db_accept(db, path, e, ret);
}

int db_open_reader(const char *path, struct buf *warning, struct err *e, sqlite3 **ret)
{
	struct err first = {0};
	sqlite3 *db;
	int r = db_open_uri(path, "ro", &first, &db);

	/* SQLite's errno is that of its own helper files: ENOENT may mean the index. */
	if (r < 0 && r != -EUCLEAN && r != -EBUSY && r != -ENOMEM && access(path, R_OK) == 0 &&
	    db_open_without_help(path, warning, e, &db) == 0)
		r = 0;
	if (r < 0)
		return err_set(e, r, "%s", first.text);
	return db_accept(db, path, e, ret);
}

static int db_has_table(sqlite3 *db, const char *name, struct err *e, bool *ret)
{
	sqlite3_stmt *st;
	int rc, r;

	r = db_prepare(db, "SELECT 1 FROM sqlite_master WHERE type='table' AND name=?1", e, &st);
	if (r < 0)
		return r;
	sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
	rc = sqlite3_step(st);
	*ret = rc == SQLITE_ROW;
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		r = db_fail(db, rc, "reading the schema", e);
	sqlite3_finalize(st);
	return r;
}

int db_check_schema(sqlite3 *db, const char *path, struct err *e, int *ret_version)
{
	int64_t id = 0, version = 0, others = 0;
	bool has = true;
	size_t i;
	int r;

	r = db_int(db, "PRAGMA application_id", e, &id);
	if (r == 0)
		r = db_int(db, "PRAGMA user_version", e, &version);
	if (r == 0)
		r = db_int(db,
			   "SELECT count(*) FROM sqlite_master WHERE type IN ('view', 'trigger')"
			   " OR rootpage IS NULL OR rootpage < 1",
			   e, &others);
	if (r < 0)
		return r;
	if (id != DB_APPLICATION_ID)
		return err_set(e, -EUCLEAN, "%s: not a database of lapse", path);
	if (version > DB_VERSION)
		return err_set(e, -EPROTO,
			       "%s: version %d, this lapse reads up to %d: use a newer one", path,
			       (int)version, DB_VERSION);
	if (version < 1 || others)
		return err_set(e, -EUCLEAN, "%s: the schema is not one that lapse makes", path);
	for (i = 0; db_tables[version - 1][i]; i++) {
		r = db_has_table(db, db_tables[version - 1][i], e, &has);
		if (r < 0)
			return r;
		if (!has)
			return err_set(e, -EUCLEAN, "%s: table %s is missing", path,
				       db_tables[version - 1][i]);
	}
	*ret_version = (int)version;
	return 0;
}

/* From version `now` on, step by step. */
static int db_steps_from(sqlite3 *db, const char *path, const struct db_step *steps, int64_t now,
			 int version, struct err *e)
{
	int r = 0;

	for (; r == 0 && now < version; now++) {
		if (now < 0 || (!steps[now].sql && !steps[now].run))
			return err_set(e, -EUCLEAN, "%s: there was no version %d", path, (int)now);
		if (steps[now].sql)
			r = db_exec(db, steps[now].sql, e);
		if (r == 0 && steps[now].run)
			r = steps[now].run(db, path, e);
	}
	return r;
}

static int db_migrate_in(sqlite3 *db, const char *path, const char *schema,
			 const struct db_step *steps, int version, struct err *e)
{
	int64_t tables, now, id;
	char pragma[96];
	int r;

	r = db_int(db, "SELECT count(*) FROM sqlite_master", e, &tables);
	if (r == 0)
		r = db_int(db, "PRAGMA user_version", e, &now);
	if (r == 0)
		r = db_int(db, "PRAGMA application_id", e, &id);
	if (r < 0)
		return r;
	if (tables && id != DB_APPLICATION_ID)
		return err_set(e, -EUCLEAN, "%s: not a database of lapse", path);
	if (now > version)
		return err_set(e, -EPROTO, "%s: version %d, this lapse writes %d: use a newer one",
			       path, (int)now, version);
	if (tables && now == version)
		return 0;
	r = tables ? db_steps_from(db, path, steps, now, version, e) : db_exec(db, schema, e);
	sqlite3_snprintf(sizeof(pragma), pragma, "PRAGMA application_id=%d; PRAGMA user_version=%d",
			 DB_APPLICATION_ID, version);
	return r < 0 ? r : db_exec(db, pragma, e);
}

int db_migrate(sqlite3 *db, const char *path, const char *schema, const struct db_step *steps,
	       int version, struct err *e)
{
	int r = db_exec(db, "BEGIN IMMEDIATE", e);

	if (r == 0)
		r = db_migrate_in(db, path, schema, steps, version, e);
	if (r == 0)
		r = db_exec(db, "COMMIT", e);
	if (r < 0 && !sqlite3_get_autocommit(db))
		sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	return r;
}

int db_create(sqlite3 *db, const char *path, struct err *e)
{
	int version, r = db_migrate(db, path, SCHEMA_SQL, db_steps, DB_VERSION, e);

	return r < 0 ? r : db_check_schema(db, path, e, &version);
}
