/* SPDX-License-Identifier: Apache-2.0
 *
 * rowbody.c - bodies of tail rows while a fold walks them. Of a merged row only the
 * directory is read at once; the rest comes piece by piece into addresses that are
 * reserved for all of it, and what was passed is given back.
 */
#include "store/store_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROWBODY_STEP ((size_t)64 << 10) /* bytes passed that are given back together */

/* Bytes in front of the first axis, and of the first entry. */
static int rowbody_directory(const struct blob_id *id, const struct blob *b, struct err *e,
			     size_t *ret, size_t *ret_data)
{
	struct merged m;
	int r = merged_begin(&m, id, b, e);

	if (r < 0)
		return r;
	*ret = (size_t)((m.n_axes ? m.axes[0].p : m.data) - b->body);
	*ret_data = (size_t)(m.data - b->body);
	merged_done(&m);
	return 0;
}

static int rowbody_reserve(struct rowbody *y, sqlite3 *db, const struct blob_id *id,
			   const struct blob *b, size_t directory, struct err *e)
{
	void *map = mmap(NULL, b->len + 1, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int rc;

	if (map == MAP_FAILED)
		return err_set(e, -ENOMEM, "%s: no memory for the tail", id->path);
	rc = sqlite3_blob_open(db, "main", "tail", "blob", (sqlite3_int64)id->a, 0, &y->blob);
	if (rc != SQLITE_OK) {
		munmap(map, b->len + 1);
		return db_fail(db, rc, "opening a merged row", e);
	}
	y->map = map;
	y->len = b->len;
	memcpy(map, b->body, directory);
	return 0;
}

int rowbody_take(struct rowbody *y, sqlite3 *db, const struct blob_id *id, const struct blob *b,
		 bool expanded, struct err *e, const unsigned char **ret)
{
	size_t directory = 0;
	int r = 0;

	*y = (struct rowbody){0};
	if (!expanded && b->format == BLOB_MERGED) {
		r = rowbody_directory(id, b, e, &directory, &y->passed);
		if (r == 0)
			r = rowbody_reserve(y, db, id, b, directory, e);
		*ret = y->map;
		return r;
	}
	y->copy = malloc(b->len + 1);
	if (!y->copy)
		return err_set(e, -ENOMEM, "%s: no memory for the tail", id->path);
	memcpy(y->copy, b->body, b->len);
	*ret = y->copy;
	return 0;
}

int rowbody_load(struct rowbody *y, const unsigned char *p, size_t len, struct err *e)
{
	size_t at;
	int rc;

	if (!y->map || len == 0)
		return 0;
	at = (size_t)(p - y->map);
	rc = sqlite3_blob_read(y->blob, y->map + at, (int)len, (int)(BLOB_HEADER + at));
	return rc == SQLITE_OK ? 0 : db_fail(NULL, rc, "reading a merged row", e);
}

/* Pages that lie in [from, to) whole. */
static void rowbody_give_back(struct rowbody *y, size_t from, size_t to)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	from = (from + page - 1) / page * page;
	to = to / page * page;
	if (from < to)
		madvise(y->map + from, to - from, MADV_DONTNEED);
}

void rowbody_drop(struct rowbody *y, const unsigned char *p, size_t len)
{
	if (y->map)
		rowbody_give_back(y, (size_t)(p - y->map), (size_t)(p - y->map) + len);
}

void rowbody_pass(struct rowbody *y, const unsigned char *p)
{
	size_t at;

	if (!y->map)
		return;
	at = (size_t)(p - y->map);
	if (at < y->passed + ROWBODY_STEP)
		return;
	rowbody_give_back(y, y->passed, at);
	y->passed = at;
}

void rowbody_done(struct rowbody *y)
{
	sqlite3_blob_close(y->blob);
	if (y->map)
		munmap(y->map, y->len + 1);
	free(y->copy);
	*y = (struct rowbody){0};
}
