/* SPDX-License-Identifier: Apache-2.0
 *
 * import_nsys_db.h - a foreign SQLite database read with care: which tables and columns there
 * are, rows of a table, the table of texts. Nothing of its schema is run.
 */
#ifndef TRACE_IMPORT_NSYS_DB_H
#define TRACE_IMPORT_NSYS_DB_H

#include "base/buf.h"
#include "base/err.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct import_nsys_text {
	int64_t id;
	size_t at, len; /* in texts */
};

struct import_nsys_db {
	sqlite3 *sqlite;
	uint64_t rows_left; /* a damaged file cannot have more rows than bytes */
	struct buf texts;
	struct import_nsys_text *list; /* by id */
	size_t n, cap;
};

/* One of path and data. Reads the texts (StringIds) too. */
int import_nsys_db_open(const char *path, void *data, size_t len, struct import_nsys_db *ret,
			struct err *e);
void import_nsys_db_close(struct import_nsys_db *db);

/* Is there a table (no view) of this name? */
bool import_nsys_db_has(struct import_nsys_db *db, const char *table);

/* Begin to read these columns of a table, NULL for those that it lacks. 1; 0: no such table;
 * -EBADMSG, -ENOMEM. */
int import_nsys_db_begin(struct import_nsys_db *db, const char *table, const char *const columns[],
			 size_t n, sqlite3_stmt **ret, struct err *e);
/* The next row: 1; 0: that was the last; -EBADMSG. */
int import_nsys_db_next(struct import_nsys_db *db, sqlite3_stmt *row, struct err *e);

/* A whole number of a column; none if it is NULL or no number. */
int64_t import_nsys_db_int(sqlite3_stmt *row, int column, int64_t none);
/* A text, or the text that a number names; NULL: none. Valid until the next row. */
const char *import_nsys_db_name(struct import_nsys_db *db, sqlite3_stmt *row, int column,
				size_t *ret_len);

#endif
