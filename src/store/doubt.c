/* SPDX-License-Identifier: Apache-2.0
 *
 * doubt.c - a file that nobody writes although its run has not ended may have been
 * copied while it was written: without its log, or with that of another moment.
 * Neither is seen by opening it.
 */
#include "base/mem.h"
#include "store/place.h"
#include "store/store_priv.h"
#include "wire/rendezvous.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DOUBT_CHECK_MAX (256ll << 20) /* a larger file is not looked through */

/* Does the file say that it has a log? Read through SQLite's own descriptor: closing
 * another one would drop its locks. */
static bool doubt_has_log(sqlite3 *db)
{
	sqlite3_file *file = NULL;
	char version = 0;

	return sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK &&
	       file && file->pMethods &&
	       file->pMethods->xRead(file, &version, 1, 18) == SQLITE_OK && version == 2;
}

static bool doubt_is_written(const char *path)
{
	char *lock = xasprintf("%s.lock", path);
	bool is = rendezvous_is_locked(AT_FDCWD, lock) == 1;

	free(lock);
	return is;
}

/* The first thing that SQLite finds wrong, into why. */
static bool doubt_is_sound(sqlite3 *db, struct buf *why)
{
	sqlite3_stmt *st;
	bool is = true;
	int rc;

	if (db_prepare(db, "PRAGMA quick_check(1)", NULL, &st) < 0)
		return true;
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW && strcmp(db_text(st, 0), "ok") != 0) {
		is = false;
		buf_printf(why, "%.200s", db_text(st, 0));
	} else if ((rc & 0xff) == SQLITE_CORRUPT) {
		is = false;
		buf_puts(why, "it is malformed");
	}
	sqlite3_finalize(st);
	return is;
}

void doubt_file(sqlite3 *db, const char *path, struct buf *warning)
{
	struct stat st = {0};
	int64_t ended = 0;
	struct buf why;

	if (!doubt_has_log(db) || doubt_is_written(path) ||
	    (db_int(db, "SELECT count(*) FROM run WHERE end_ns <> 0", NULL, &ended) == 0 && ended))
		return;
	if (!place_is(path, "-wal")) {
		buf_printf(warning,
			   "%s: copied without its log (%s-wal) while it was written: what was "
			   "recorded last is missing\n",
			   path, path);
		return;
	}
	if (stat(path, &st) < 0 || st.st_size > DOUBT_CHECK_MAX)
		return;
	buf_init(&why, 1024);
	if (!doubt_is_sound(db, &why))
		buf_printf(warning,
			   "%s: it and its log are damaged, or copies of different moments (%s); "
			   "some of it cannot be read: `lapse fsck` tells what\n",
			   path, buf_str(&why));
	buf_done(&why);
}
