/* SPDX-License-Identifier: Apache-2.0
 *
 * hosts.c - the reader's connections: one a host's file, read-only, and what is
 * not folded yet kept in memory, since a committed row never changes.
 */
#include "base/mem.h"
#include "store/store_priv.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS_WARNING_MAX (64u << 10)

static void hosts_drop_tail(struct hosts_one *h, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		free((void *)h->tail[i].blob.body);
		h->tail_bytes -= h->tail[i].blob.len;
	}
	h->n_tail -= n;
	if (n)
		memmove(h->tail, h->tail + n, h->n_tail * sizeof(*h->tail));
}

void store_reader_close(struct store_reader *r)
{
	size_t i;

	if (!r)
		return;
	for (i = 0; i < r->n_hosts; i++) {
		hosts_drop_tail(&r->hosts[i], r->hosts[i].n_tail);
		free(r->hosts[i].tail);
		free(r->hosts[i].name);
		free(r->hosts[i].path);
		sqlite3_close_v2(r->hosts[i].db);
	}
	for (i = 0; i < ARRAY_LEN(r->run_text); i++)
		free(r->run_text[i]);
	free(r->hosts);
	blob_codec_done(&r->codec);
	buf_done(&r->warning);
	free(r);
}

static int hosts_is_db(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return n > 3 && d->d_name[0] != '.' && strcmp(d->d_name + n - 3, ".db") == 0;
}

static void hosts_add(struct store_reader *r, const char *dir, const char *file, struct err *first)
{
	char *path = xasprintf("%s/%s", dir, file);
	struct err e = {0};
	struct hosts_one *h;
	sqlite3 *db;
	int code = r->n_hosts < HOSTS_MAX
			   ? db_open_reader(path, &r->warning, &e, &db)
			   : err_set(&e, -E2BIG, "%s: more than %u hosts", path, HOSTS_MAX);

	if (code < 0) {
		buf_printf(&r->warning, "%s\n", e.text);
		err_set(first, code, "%s", e.text);
		free(path);
		return;
	}
	r->hosts = xgrow(r->hosts, r->n_hosts, &r->cap_hosts, sizeof(*r->hosts));
	h = &r->hosts[r->n_hosts++];
	*h = (struct hosts_one){.path = path, .name = xstrndup(file, strlen(file) - 3), .db = db};
}

int store_reader_open(const char *dir, struct err *e, struct store_reader **ret)
{
	struct err first = {0};
	struct dirent **names;
	struct store_reader *r;
	int i, n = scandir(dir, &names, hosts_is_db, alphasort);

	if (n < 0)
		return err_errno(e, -errno, "cannot read the folder %s", dir);
	r = xcalloc(1, sizeof(*r));
	buf_init(&r->warning, HOSTS_WARNING_MAX);
	blob_codec_init(&r->codec);
	for (i = 0; i < n; i++) {
		hosts_add(r, dir, names[i]->d_name, &first);
		free(names[i]);
	}
	free(names);
	if (r->n_hosts == 0) {
		store_reader_close(r);
		if (first.code)
			return err_set(e, first.code, "%s", first.text);
		return err_set(e, -ENOENT, "%s: no run is stored there (no HOST.db)", dir);
	}
	*ret = r;
	return 0;
}

const char *store_reader_warning(const struct store_reader *r)
{
	return buf_str(&r->warning);
}

static int hosts_take_row(struct store_reader *r, struct hosts_one *h, sqlite3_stmt *st,
			  struct err *e)
{
	const struct blob_id id = {h->path, "tail", (uint64_t)sqlite3_column_int64(st, 0), 0};
	struct hosts_tail *row;
	struct blob blob;
	int code;

	code = blob_open(&r->codec, &id, sqlite3_column_blob(st, 1),
			 (size_t)sqlite3_column_bytes(st, 1), e, &blob);
	if (code < 0)
		return code;
	if (h->tail_bytes + blob.len > HOSTS_TAIL_MAX)
		return err_set(
			e, -EFBIG,
			"%s: more than %u MiB are not folded; let the agent run, or open and "
			"close the store for writing",
			h->path, HOSTS_TAIL_MAX >> 20);
	h->tail = xgrow(h->tail, h->n_tail, &h->cap_tail, sizeof(*h->tail));
	row = &h->tail[h->n_tail];
	row->seq = id.a;
	row->blob = blob;
	row->blob.body = malloc(blob.len + 1);
	if (!row->blob.body)
		return err_set(e, -ENOMEM, "%s: no memory for the tail", h->path);
	memcpy((void *)row->blob.body, blob.body, blob.len);
	h->n_tail++;
	h->tail_bytes += blob.len;
	return 0;
}

int hosts_sync_tail(struct store_reader *r, struct hosts_one *h, struct err *e)
{
	int64_t folded = 0;
	sqlite3_stmt *st;
	size_t n = 0;
	int rc, code;

	code = db_int(h->db, "SELECT value FROM meta WHERE key = 'folded'", e, &folded);
	if (code < 0 && code != -ENODATA)
		return code;
	while (n < h->n_tail && h->tail[n].seq <= (uint64_t)folded)
		n++;
	hosts_drop_tail(h, n);
	if (h->n_tail)
		folded = (int64_t)h->tail[h->n_tail - 1].seq;
	code = db_prepare(h->db, "SELECT seq, blob FROM tail WHERE seq > ?1 ORDER BY seq", e, &st);
	if (code < 0)
		return code;
	sqlite3_bind_int64(st, 1, folded);
	while (code == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW)
		code = hosts_take_row(r, h, st, e);
	if (code == 0 && rc != SQLITE_DONE)
		code = db_fail(h->db, rc, "reading table tail", e);
	sqlite3_finalize(st);
	return code;
}

int hosts_begin(struct hosts_one *h, struct err *e)
{
	return db_exec(h->db, "BEGIN", e);
}

void hosts_end(struct hosts_one *h)
{
	if (!sqlite3_get_autocommit(h->db))
		sqlite3_exec(h->db, "ROLLBACK", NULL, NULL, NULL);
}
