/* SPDX-License-Identifier: Apache-2.0
 *
 * import_nsys_db.c - SQLite with everything turned off that a hostile file could use.
 */
#include "trace/import_nsys_db.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TEXT_MAX (16 << 20)    /* bytes of one text */
#define TEXTS_MAX (1ull << 30) /* bytes of all */
#define ROW_BYTES 2            /* the least that a row takes in a file */
#define QUERY_MAX 4096

static int fail(struct import_nsys_db *db, struct err *e)
{
	int code = sqlite3_errcode(db->sqlite) & 0xff;

	if (code == SQLITE_NOMEM)
		return err_set(e, -ENOMEM, "out of memory");
	return err_set(e, -EBADMSG, "the database cannot be read: %s", sqlite3_errmsg(db->sqlite));
}

bool import_nsys_db_has(struct import_nsys_db *db, const char *table)
{
	sqlite3_stmt *s = NULL;
	bool has = false;

	if (sqlite3_prepare_v2(db->sqlite,
			       "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1 AND "
			       "sql NOT LIKE 'CREATE VIRTUAL%'",
			       -1, &s, NULL) == SQLITE_OK) {
		sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
		has = sqlite3_step(s) == SQLITE_ROW;
	}
	sqlite3_finalize(s);
	return has;
}

static bool has_column(struct import_nsys_db *db, const char *table, const char *column)
{
	return sqlite3_table_column_metadata(db->sqlite, "main", table, column, NULL, NULL, NULL,
					     NULL, NULL) == SQLITE_OK;
}

int import_nsys_db_begin(struct import_nsys_db *db, const char *table, const char *const columns[],
			 size_t n, sqlite3_stmt **ret, struct err *e)
{
	struct buf query;
	int rc;

	*ret = NULL;
	if (!import_nsys_db_has(db, table))
		return 0;
	buf_init(&query, QUERY_MAX);
	buf_puts(&query, "SELECT ");
	for (size_t i = 0; i < n; i++)
		if (has_column(db, table, columns[i]))
			buf_printf(&query, "%s\"%s\"", i ? "," : "", columns[i]);
		else
			buf_printf(&query, "%sNULL", i ? "," : "");
	/* In the order of the file, whatever indexes it says that it has. */
	buf_printf(&query, " FROM main.\"%s\" NOT INDEXED", table);
	rc = query.error ? query.error : 1;
	if (rc > 0 && sqlite3_prepare_v2(db->sqlite, buf_str(&query), -1, ret, NULL) != SQLITE_OK)
		rc = fail(db, e);
	buf_done(&query);
	return rc;
}

int import_nsys_db_next(struct import_nsys_db *db, sqlite3_stmt *row, struct err *e)
{
	int code = sqlite3_step(row);

	if (code == SQLITE_DONE)
		return 0;
	if (code != SQLITE_ROW)
		return fail(db, e);
	if (!db->rows_left)
		return err_set(e, -EBADMSG, "the database is damaged: more rows than bytes");
	db->rows_left--;
	return 1;
}

int64_t import_nsys_db_int(sqlite3_stmt *row, int column, int64_t none)
{
	int type = sqlite3_column_type(row, column);

	return type == SQLITE_INTEGER || type == SQLITE_FLOAT ? sqlite3_column_int64(row, column)
							      : none;
}

const char *import_nsys_db_name(struct import_nsys_db *db, sqlite3_stmt *row, int column,
				size_t *ret_len)
{
	size_t low = 0, high = db->n, mid;
	int64_t id;

	if (sqlite3_column_type(row, column) == SQLITE_TEXT) {
		const char *text = (const char *)sqlite3_column_text(row, column);

		*ret_len = (size_t)sqlite3_column_bytes(row, column);
		return text;
	}
	if (sqlite3_column_type(row, column) != SQLITE_INTEGER)
		return NULL;
	id = sqlite3_column_int64(row, column);
	while (low < high) {
		mid = low + (high - low) / 2;
		if (db->list[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == db->n || db->list[low].id != id)
		return NULL;
	*ret_len = db->list[low].len;
	return db->texts.data + db->list[low].at;
}

/* ---- the table of texts --------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
	const struct import_nsys_text *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int add_text(struct import_nsys_db *db, sqlite3_stmt *row)
{
	const void *text;
	size_t len;

	if (db->n == db->cap) {
		size_t cap = db->cap ? db->cap * 2 : 1024;
		struct import_nsys_text *list = realloc(db->list, cap * sizeof(*list));

		if (!list)
			return -ENOMEM;
		db->list = list;
		db->cap = cap;
	}
	text = sqlite3_column_text(row, 1);
	len = (size_t)sqlite3_column_bytes(row, 1);
	db->list[db->n++] =
		(struct import_nsys_text){sqlite3_column_int64(row, 0), db->texts.len, len};
	if (text && len)
		buf_append(&db->texts, text, len);
	buf_putc(&db->texts, '\0');
	return db->texts.error;
}

static int read_texts(struct import_nsys_db *db, struct err *e)
{
	static const char *const columns[] = {"id", "value"};
	sqlite3_stmt *row;
	int rc = import_nsys_db_begin(db, "StringIds", columns, 2, &row, e);

	if (rc <= 0)
		return rc;
	while ((rc = import_nsys_db_next(db, row, e)) > 0) {
		rc = add_text(db, row);
		if (rc) {
			err_set(e, rc, "the database has more than 1 GiB of names");
			break;
		}
	}
	sqlite3_finalize(row);
	if (!rc && db->n)
		qsort(db->list, db->n, sizeof(*db->list), by_id);
	return rc;
}

/* ---- opening -------------------------------------------------------------------------------- */

static void harden(sqlite3 *s, uint64_t bytes)
{
	int most = bytes < TEXT_MAX ? (int)bytes : TEXT_MAX;

	sqlite3_db_config(s, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(s, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(s, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_db_config(s, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	sqlite3_db_config(s, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
	sqlite3_limit(s, SQLITE_LIMIT_LENGTH, most < 4096 ? 4096 : most);
	sqlite3_limit(s, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_exec(s, "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0", NULL, NULL, NULL);
}

int import_nsys_db_open(const char *path, void *data, size_t len, struct import_nsys_db *ret,
			struct err *e)
{
	struct import_nsys_db db = {.n = 0};
	uint64_t bytes = len;
	struct stat st;
	int rc = 0;

	buf_init(&db.texts, TEXTS_MAX);
	if (path && stat(path, &st))
		return err_errno(e, -errno, "%s cannot be read", path);
	if (path)
		bytes = (uint64_t)st.st_size;
	if (sqlite3_open_v2(path ? path : ":memory:", &db.sqlite,
			    path ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
		rc = db.sqlite ? fail(&db, e) : err_set(e, -ENOMEM, "out of memory");
	if (!rc) {
		db.rows_left = bytes / ROW_BYTES;
		harden(db.sqlite, bytes);
	}
	if (!rc && !path &&
	    sqlite3_deserialize(db.sqlite, "main", data, (sqlite3_int64)len, (sqlite3_int64)len,
				SQLITE_DESERIALIZE_READONLY) != SQLITE_OK)
		rc = fail(&db, e);
	if (!rc)
		rc = read_texts(&db, e);
	if (rc) {
		import_nsys_db_close(&db);
		return rc;
	}
	*ret = db;
	return 0;
}

void import_nsys_db_close(struct import_nsys_db *db)
{
	sqlite3_close(db->sqlite);
	db->sqlite = NULL;
	buf_done(&db->texts);
	free(db->list);
	db->list = NULL;
	db->n = db->cap = 0;
}
