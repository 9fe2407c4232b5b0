/* SPDX-License-Identifier: Apache-2.0
 *
 * hosts.c - the reader's connections: one a host's file, read-only, and what is
 * not folded yet kept in memory, since a committed row never changes.
 */
#include "store/hosts.h"

#include "base/mem.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HOSTS_WARNING_MAX (64u << 10)

/* Forget rows [from, to) of the tail. */
static void hosts_drop_tail(struct hosts_one *h, size_t from, size_t to)
{
	size_t i;

	for (i = from; i < to; i++) {
		free((void *)h->tail[i].blob.body);
		h->tail_bytes -= h->tail[i].blob.len;
	}
	if (to > from)
		memmove(h->tail + from, h->tail + to, (h->n_tail - to) * sizeof(*h->tail));
	h->n_tail -= to - from;
}

static void hosts_sql_done(struct hosts_one *h)
{
	size_t i;

	for (i = 0; i < HOSTS_SQL_N; i++) {
		sqlite3_finalize(h->sql[i]);
		h->sql[i] = NULL;
	}
}

int hosts_sql(struct hosts_one *h, enum hosts_sql which, struct err *e, sqlite3_stmt **ret)
{
	static const char *const texts[HOSTS_SQL_N] = {
		[HOSTS_KIND] = "SELECT kind FROM series WHERE id = ?1",
		[HOSTS_CHUNKS] =
			"SELECT " CHUNKROW_COLUMNS " FROM chunk WHERE series = ?1 ORDER BY ordinal",
		[HOSTS_CHUNK] =
			"SELECT " CHUNKROW_COLUMNS " FROM chunk WHERE series = ?1 AND ordinal = ?2",
		[HOSTS_SUMMARY] = "SELECT blob FROM summary WHERE id = ?1",
	};
	int r = 0;

	*ret = h->sql[which];
	if (!*ret)
		r = db_prepare(h->db, texts[which], e, ret);
	if (r == 0 && !h->moves)
		h->sql[which] = *ret;
	return r;
}

void hosts_sql_end(struct hosts_one *h, enum hosts_sql which, sqlite3_stmt *st)
{
	if (st && st == h->sql[which])
		sqlite3_reset(st);
	else
		sqlite3_finalize(st);
}

void store_reader_close(struct store_reader *r)
{
	size_t i;

	if (!r)
		return;
	for (i = 0; i < r->n_hosts; i++) {
		hosts_drop_tail(&r->hosts[i], 0, r->hosts[i].n_tail);
		free(r->hosts[i].tail);
		free(r->hosts[i].name);
		free(r->hosts[i].path);
		free(r->hosts[i].dir);
		free(r->hosts[i].file);
		hosts_sql_done(&r->hosts[i]);
		axis_cache_done(&r->hosts[i].axes);
		sqlite3_close_v2(r->hosts[i].db);
	}
	for (i = 0; i < ARRAY_LEN(r->run_text); i++)
		free(r->run_text[i]);
	free(r->hosts);
	blob_codec_done(&r->codec);
	column_codec_done(&r->columns);
	buf_done(&r->warning);
	free(r);
}

/* A host has a file, or only a pointer to one that has not been copied yet. */
static int hosts_is_db(const struct dirent *d)
{
	return d->d_name[0] != '.' &&
	       (text_ends(d->d_name, ".db") || text_ends(d->d_name, ".live"));
}

/* Open what is to be read of a host now. *ret_path is owned by the caller; NULL and 0:
 * there is nothing yet. */
static int hosts_open(const char *dir, const char *file, struct buf *warning, struct err *e,
		      struct place_view *ret, sqlite3 **ret_db)
{
	int code = 0;

	place_find(dir, file, warning, ret);
	if (!ret->path)
		return 0;
	code = ret->is_frozen ? db_open_frozen(ret->path, e, ret_db)
			      : db_open_reader(ret->path, warning, e, ret_db);
	if (code < 0) {
		free(ret->path);
		ret->path = NULL;
	} else if (!ret->is_live) {
		doubt_file(*ret_db, ret->path, warning);
	}
	return code;
}

static void hosts_set(struct hosts_one *h, struct place_view *view, sqlite3 *db)
{
	char *home = xasprintf("%s/%s", h->dir, h->file);
	struct stat st = {0};

	if (stat(view->path, &st) < 0)
		memset(&st, 0, sizeof(st));
	free(h->path);
	h->path = view->path;
	h->db = db;
	h->frozen = view->is_frozen;
	h->moves = view->is_frozen || strcmp(home, view->path) != 0;
	h->dev = st.st_dev;
	h->ino = st.st_ino;
	h->folds = -1;
	free(home);
}

static void hosts_add(struct store_reader *r, const char *dir, const char *file, struct err *first)
{
	struct place_view view = {0};
	struct err e = {0};
	struct hosts_one *h;
	sqlite3 *db = NULL;
	int code = r->n_hosts < HOSTS_MAX
			   ? hosts_open(dir, file, &r->warning, &e, &view, &db)
			   : err_set(&e, -E2BIG, "%s/%s: more than %u hosts", dir, file, HOSTS_MAX);

	if (code < 0) {
		buf_printf(&r->warning, "%s\n", e.text);
		err_set(first, code, "%s", e.text);
	}
	if (!view.path)
		return;
	r->hosts = xgrow(r->hosts, r->n_hosts, &r->cap_hosts, sizeof(*r->hosts));
	h = &r->hosts[r->n_hosts++];
	*h = (struct hosts_one){.name = xstrndup(file, strlen(file) - 3),
				.dir = xstrndup(dir, strlen(dir)),
				.file = xstrndup(file, strlen(file))};
	hosts_set(h, &view, db);
}

/* A live file is moved at its end, a copy is replaced by the next one: then that is
 * read. What is open is kept if the other cannot be opened. */
static void hosts_follow(struct hosts_one *h)
{
	struct place_view view;
	struct buf told; /* once is enough */
	struct stat st;
	sqlite3 *db = NULL;
	int r;

	if (!h->moves || sqlite3_next_stmt(h->db, NULL) ||
	    (stat(h->path, &st) == 0 && st.st_dev == h->dev && st.st_ino == h->ino))
		return;
	buf_init(&told, HOSTS_WARNING_MAX);
	r = hosts_open(h->dir, h->file, &told, NULL, &view, &db);
	buf_done(&told);
	if (r < 0 || !view.path)
		return;
	hosts_sql_done(h);
	axis_cache_done(&h->axes);
	sqlite3_close_v2(h->db);
	hosts_drop_tail(h, 0, h->n_tail);
	hosts_set(h, &view, db);
}

/* A pointer stands for the host's file if there is none. */
static void hosts_add_entry(struct store_reader *r, const char *dir, const char *name,
			    struct err *first)
{
	char *file, *path;

	if (text_ends(name, ".db")) {
		hosts_add(r, dir, name, first);
		return;
	}
	file = xasprintf("%.*s.db", (int)strlen(name) - 5, name);
	path = xasprintf("%s/%s", dir, file);
	if (!place_is(path, ""))
		hosts_add(r, dir, file, first);
	free(path);
	free(file);
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
	column_codec_init(&r->columns);
	for (i = 0; i < n; i++) {
		hosts_add_entry(r, dir, names[i]->d_name, &first);
		free(names[i]);
	}
	free(names);
	if (r->n_hosts == 0) {
		if (!first.code && r->warning.len)
			err_set(&first, -ENOENT, "%.*s", (int)r->warning.len - 1,
				store_reader_warning(r));
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

/* Rows with seq in [from, to] behind those that are here. */
static int hosts_take_range(struct store_reader *r, struct hosts_one *h, int64_t from, int64_t to,
			    struct err *e)
{
	sqlite3_stmt *st;
	int rc, code;

	code = db_prepare(h->db,
			  "SELECT seq, blob FROM tail WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq", e,
			  &st);
	if (code < 0)
		return code;
	sqlite3_bind_int64(st, 1, from);
	sqlite3_bind_int64(st, 2, to);
	while (code == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW)
		code = hosts_take_row(r, h, st, e);
	if (code == 0 && rc != SQLITE_DONE)
		code = db_fail(h->db, rc, "reading table tail", e);
	sqlite3_finalize(st);
	return code;
}

/* Take over a row that is here already: a merged one with this seq. */
static bool hosts_keep_merged(struct hosts_one *h, struct hosts_tail *old, size_t n, int64_t seq)
{
	size_t i;

	for (i = 0; i < n && old[i].blob.format == BLOB_MERGED; i++) {
		if ((int64_t)old[i].seq != seq || !old[i].blob.body)
			continue;
		h->tail = xgrow(h->tail, h->n_tail, &h->cap_tail, sizeof(*h->tail));
		h->tail[h->n_tail++] = old[i];
		h->tail_bytes += old[i].blob.len;
		old[i].blob.body = NULL;
		return true;
	}
	return false;
}

/* The merged rows, which folds replace by others with greater numbers. */
static int hosts_take_merged(struct store_reader *r, struct hosts_one *h, int64_t folded,
			     struct hosts_tail *old, size_t n, struct err *e)
{
	sqlite3_stmt *st;
	int rc, code;

	code = db_prepare(h->db, "SELECT seq FROM tail WHERE seq <= ?1 ORDER BY seq", e, &st);
	if (code < 0)
		return code;
	sqlite3_bind_int64(st, 1, folded);
	while (code == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		int64_t seq = sqlite3_column_int64(st, 0);

		if (!hosts_keep_merged(h, old, n, seq))
			code = hosts_take_range(r, h, seq, seq, e);
	}
	if (code == 0 && rc != SQLITE_DONE)
		code = db_fail(h->db, rc, "reading table tail", e);
	sqlite3_finalize(st);
	return code;
}

static void hosts_keep_plain(struct hosts_one *h, struct hosts_tail *old, size_t n, int64_t folded)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (old[i].blob.format == BLOB_MERGED || (int64_t)old[i].seq <= folded)
			continue;
		h->tail = xgrow(h->tail, h->n_tail, &h->cap_tail, sizeof(*h->tail));
		h->tail[h->n_tail++] = old[i];
		h->tail_bytes += old[i].blob.len;
		old[i].blob.body = NULL;
	}
}

/* A fold replaced rows: read only what is not here. */
static int hosts_sync_folded(struct store_reader *r, struct hosts_one *h, int64_t folded,
			     struct err *e)
{
	struct hosts_tail *old = h->tail;
	size_t i, n = h->n_tail;
	int code;

	h->tail = NULL;
	h->n_tail = h->cap_tail = h->tail_bytes = 0;
	code = hosts_take_merged(r, h, folded, old, n, e);
	if (code == 0)
		hosts_keep_plain(h, old, n, folded);
	for (i = 0; i < n; i++)
		free((void *)old[i].blob.body);
	free(old);
	return code;
}

/* Rows never change. A plain one may go into a fold, which writes merged ones
 * with numbers that no merged row had. */
int hosts_sync_tail(struct store_reader *r, struct hosts_one *h, struct err *e)
{
	int64_t meta[META_N], last;
	int code = store_meta_read(h->db, e, meta);

	if (code == 0 && h->folds != meta[META_FOLDS]) {
		code = hosts_sync_folded(r, h, meta[META_FOLDED], e);
		h->folds = meta[META_FOLDS];
	}
	if (code == 0) {
		last = meta[META_FOLDED];
		if (h->n_tail && (int64_t)h->tail[h->n_tail - 1].seq > last)
			last = (int64_t)h->tail[h->n_tail - 1].seq;
		code = hosts_take_range(r, h, last + 1, INT64_MAX, e);
	}
	if (code < 0) {
		hosts_drop_tail(h, 0, h->n_tail);
		h->folds = -1;
	}
	return code;
}

static int hosts_plain_points(const struct hosts_tail *row, const struct blob_id *id,
			      uint32_t series, bool is_hist, struct err *e, struct points *points,
			      struct hists *hists)
{
	struct tail_block block;
	struct tail_walk w;
	int r = tail_begin(&w, id, &row->blob, e);

	while (r == 0 && (r = tail_block(&w, &block)) > 0) {
		r = 0;
		if (block.is_hist != is_hist || block.series < series)
			continue;
		if (block.series > series)
			break;
		return is_hist ? tail_hists(&w, &block, hists) : tail_points(&w, &block, points);
	}
	return r;
}

static int hosts_merged_points(struct store_reader *r, const struct hosts_tail *row,
			       const struct blob_id *id, uint32_t series, bool is_hist,
			       struct err *e, struct points *points, struct hists *hists)
{
	struct merged_entry x;
	struct axis axis;
	struct merged m;
	int code = merged_begin(&m, id, &row->blob, e);

	if (code < 0)
		return code;
	axis_init(&axis);
	while (code == 0 && (code = merged_next(&m, &x)) > 0) {
		code = 0;
		if (x.is_hist != is_hist || x.series < series)
			continue;
		if (x.series > series)
			break;
		if (is_hist) {
			code = merged_hists(&m, &x, hists);
			continue;
		}
		code = merged_axis(&m, x.axis, &r->columns, &axis);
		if (code == 0)
			code = merged_points(&m, &x, &r->columns, &axis, points);
	}
	axis_done(&axis);
	merged_done(&m);
	return code;
}

int hosts_points(struct store_reader *r, const struct hosts_one *h, const struct hosts_tail *row,
		 uint32_t series, bool is_hist, struct err *e, struct points *points,
		 struct hists *hists)
{
	const struct blob_id id = {h->path, "tail", row->seq, 0};

	if (row->blob.format == BLOB_MERGED)
		return hosts_merged_points(r, row, &id, series, is_hist, e, points, hists);
	return hosts_plain_points(row, &id, series, is_hist, e, points, hists);
}

void hosts_end(struct hosts_one *h)
{
	if (!sqlite3_get_autocommit(h->db))
		sqlite3_exec(h->db, "ROLLBACK", NULL, NULL, NULL);
}

int hosts_begin(struct hosts_one *h, struct err *e)
{
	hosts_end(h); /* the last time it may have failed for want of memory */
	hosts_follow(h);
	return db_exec(h->db, "BEGIN", e);
}

int hosts_forgive(struct store_reader *r, struct hosts_one *h, int code, const struct err *why,
		  struct err *e)
{
	if (code != -EUCLEAN || why->code != -EUCLEAN) {
		if (why->code)
			err_set(e, code, "%s", why->text);
		return code;
	}
	if (!h->damaged)
		buf_printf(
			&r->warning,
			"%s; this file is damaged and not all of it is shown: `lapse fsck` tells "
			"what is wrong, with --repair it keeps what can be read\n",
			why->text);
	h->damaged = true;
	return 0;
}
