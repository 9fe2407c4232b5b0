/* SPDX-License-Identifier: Apache-2.0
 *
 * copy.c - copies of databases: of one that may be written meanwhile, as one plain
 * file; and giving a copy another run's id.
 */
#include "store/hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define COPY_BUSY_MS 10000

size_t store_reader_hosts(const struct store_reader *r)
{
	return r->n_hosts;
}

const char *store_reader_file(const struct store_reader *r, unsigned host)
{
	return host < r->n_hosts ? r->hosts[host].file : "";
}

/* A new, empty file that only we may read, opened. */
static int copy_make(const char *to, struct err *e, sqlite3 **ret)
{
	int fd = open(to, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600), rc;

	if (fd < 0)
		return err_errno(e, -errno, "cannot make %s", to);
	close(fd);
	rc = sqlite3_open_v2(to, ret, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc == SQLITE_OK)
		return 0;
	db_fail(*ret, rc, "cannot open", e);
	sqlite3_close(*ret);
	unlink(to);
	return e ? e->code : -EIO;
}

static int copy_pages(sqlite3 *from, sqlite3 *to, struct err *e)
{
	sqlite3_backup *b = sqlite3_backup_init(to, "main", from, "main");
	int rc;

	if (!b)
		return db_fail(to, sqlite3_errcode(to), "copying", e);
	/* In one step: a copy in several begins anew with each commit. */
	rc = sqlite3_backup_step(b, -1);
	sqlite3_backup_finish(b);
	return rc == SQLITE_DONE ? 0 : db_fail(to, rc, "copying", e);
}

int store_reader_copy(struct store_reader *r, unsigned host, const char *to, struct err *e)
{
	sqlite3 *db = NULL;
	int code;

	if (host >= r->n_hosts)
		return err_set(e, -EINVAL, "host %u of %zu: no such file in the run", host,
			       r->n_hosts);
	code = copy_make(to, e, &db);
	if (code < 0)
		return code;
	sqlite3_busy_timeout(r->hosts[host].db, COPY_BUSY_MS);
	code = db_exec(db, "PRAGMA synchronous=OFF", e);
	if (code == 0)
		code = copy_pages(r->hosts[host].db, db, e);
	/* The copy says "WAL" if its origin did. */
	if (code == 0)
		code = db_exec(db, "PRAGMA journal_mode=DELETE", e);
	sqlite3_close(db);
	if (code < 0)
		unlink(to);
	return code;
}

int store_file_id(const char *db_path, struct err *e, char ret[RUN_ID_MAX + 1])
{
	struct buf warning;
	sqlite3_stmt *st = NULL;
	sqlite3 *db = NULL;
	int rc, r;

	buf_init(&warning, 4096);
	r = db_open_reader(db_path, &warning, e, &db);
	buf_done(&warning);
	if (r < 0)
		return r;
	r = db_prepare(db, "SELECT id FROM run", e, &st);
	if (r == 0) {
		rc = sqlite3_step(st);
		ret[0] = '\0';
		if (rc == SQLITE_ROW)
			snprintf(ret, RUN_ID_MAX + 1, "%s", db_text(st, 0));
		else if (rc != SQLITE_DONE)
			r = db_fail(db, rc, "reading table run", e);
	}
	sqlite3_finalize(st);
	sqlite3_close_v2(db);
	return r;
}

int store_file_set_id(const char *db_path, const char *id, struct err *e)
{
	sqlite3_stmt *st = NULL;
	sqlite3 *db = NULL;
	int r = db_open_writer(db_path, false, e, &db);

	if (r < 0)
		return r;
	r = db_prepare(db, "UPDATE run SET id = ?1", e, &st);
	if (r == 0) {
		sqlite3_bind_text(st, 1, id, -1, SQLITE_STATIC);
		r = db_run(st, "writing the run's id", e);
	}
	sqlite3_finalize(st);
	if (r == 0)
		r = db_exec(db, "PRAGMA journal_mode=DELETE", e);
	sqlite3_close_v2(db);
	return r;
}
