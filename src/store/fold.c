/* SPDX-License-Identifier: Apache-2.0
 *
 * fold.c - takes rows of the tail, oldest first, and puts them into what takes
 * less room: full chunks, and one merged row of what remains. One transaction
 * for each batch of rows.
 */
#include "base/mem.h"
#include "store/store_priv.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define FOLD_LAZY_ROWS 15u /* merged rows that large commits leave before they take them, */
#define FOLD_LAZY_PART 4u  /* unless they have at most this part of a commit's points */

struct fold {
	struct store *s;
	struct err *e;
	uint64_t bytes_max;                 /* of plain bodies to take, but at least one row */
	bool all;                           /* seal all, if this takes the last rows */
	const struct gather_memory *memory; /* a commit that is folded at once; NULL: none */
	uint64_t seq;                       /* last commit, with that */
	struct fold_row *rows;
	size_t n_rows, cap_rows, n_merged; /* merged ones come first */
	uint64_t bytes, points;            /* bodies of plain rows; points of all rows */
	uint64_t first;                    /* commit in the rows */
	struct build build;
	struct store_merged merged; /* the row that is written; seq 0: none */
	int64_t meta[META_N];
};

static void fold_free_bodies(struct fold *f)
{
	size_t i;

	for (i = 0; i < f->n_rows; i++) {
		free((void *)f->rows[i].blob.body);
		f->rows[i].blob.body = NULL;
	}
}

static void fold_done(struct fold *f)
{
	fold_free_bodies(f);
	free(f->rows);
	build_done(&f->build);
	blob_trim(&f->s->codec);
}

/* ---- rows ------------------------------------------------------------------- */

static int fold_take_row(struct fold *f, sqlite3_stmt *st)
{
	const struct blob_id id = {f->s->path, "tail", (uint64_t)sqlite3_column_int64(st, 0), 0};
	struct fold_row *row;
	struct blob blob;
	void *body;
	int r;

	r = blob_open(&f->s->codec, &id, sqlite3_column_blob(st, 1),
		      (size_t)sqlite3_column_bytes(st, 1), f->e, &blob);
	if (r < 0)
		return r;
	body = malloc(blob.len + 1);
	if (!body)
		return err_set(f->e, -ENOMEM, "%s: no memory for the tail", f->s->path);
	memcpy(body, blob.body, blob.len);
	f->rows = xgrow(f->rows, f->n_rows, &f->cap_rows, sizeof(*f->rows));
	row = &f->rows[f->n_rows++];
	row->seq = id.a;
	row->blob = blob;
	row->blob.body = body;
	return 0;
}

/* Rows with seq in [from, to], as long as the plain ones' bytes are not enough. */
static int fold_take_range(struct fold *f, uint64_t from, uint64_t to)
{
	sqlite3_stmt *st = f->s->sql[SQL_TAIL_READ];
	bool plain = to > (uint64_t)f->s->meta[META_FOLDED];
	int rc = SQLITE_DONE, r = 0;

	sqlite3_bind_int64(st, 1, (int64_t)from);
	sqlite3_bind_int64(st, 2, (int64_t)to);
	while (r == 0 && (!plain || (f->bytes < f->bytes_max && f->n_rows < FOLD_ROWS)) &&
	       (rc = sqlite3_step(st)) == SQLITE_ROW) {
		r = fold_take_row(f, st);
		if (r == 0)
			f->points += f->rows[f->n_rows - 1].blob.count;
		if (r == 0 && plain)
			f->bytes += f->rows[f->n_rows - 1].blob.len;
	}
	if (r == 0 && rc != SQLITE_DONE && rc != SQLITE_ROW)
		r = db_fail(f->s->db, rc, "reading table tail", f->e);
	sqlite3_reset(st);
	return r;
}

/* Of n merged rows, the newest, that might be taken with a large commit, those that
 * are worth it now: few points beside its own, or all of many rows. */
static size_t fold_choose_lazily(const struct fold *f, size_t n)
{
	const struct store *s = f->s;
	uint64_t points = 0;
	size_t i;

	if (n >= FOLD_LAZY_ROWS || f->memory->points->n / f->memory->n >= CHUNK_POINTS_MAX)
		return n;
	for (i = 0; i < n; i++) {
		points += s->merged[s->n_merged - 1 - i].points;
		if (points > f->points / FOLD_LAZY_PART)
			break;
	}
	return i;
}

/* The merged rows to take with f->points from plain ones: each, from the newest
 * on, that has no more points than what is taken so far; all of them if all is
 * to be sealed or they have become too large together. */
static size_t fold_choose_merged(const struct fold *f, bool all)
{
	const struct store *s = f->s;
	uint64_t points = f->points, bytes = 0;
	size_t i, n = 0;

	for (i = 0; i < s->n_merged; i++)
		bytes += s->merged[i].bytes;
	if (all || bytes > store_merged_max(s))
		return s->n_merged;
	while (n < s->n_merged && s->merged[s->n_merged - 1 - n].points <= points)
		points += s->merged[s->n_merged - 1 - n++].points;
	return f->memory ? fold_choose_lazily(f, n) : n;
}

static void fold_put_in_front(struct fold *f, size_t n_plain)
{
	struct fold_row *copy;
	size_t n = f->n_rows - n_plain;

	if (n == 0 || n_plain == 0)
		return;
	copy = xcalloc(f->n_rows, sizeof(*copy));
	memcpy(copy, f->rows + n_plain, n * sizeof(*copy));
	memcpy(copy + n, f->rows, n_plain * sizeof(*copy));
	free(f->rows);
	f->rows = copy;
	f->cap_rows = f->n_rows;
}

static int fold_take_rows(struct fold *f)
{
	struct store *s = f->s;
	uint64_t folded = (uint64_t)s->meta[META_FOLDED];
	size_t n_plain;
	int r = 0;

	if (s->tail_rows)
		r = fold_take_range(f, folded + 1, INT64_MAX);
	if (r < 0)
		return r;
	n_plain = f->n_rows;
	if (s->tail_rows && n_plain == 0)
		return err_set(f->e, -EUCLEAN, "%s: table tail lacks rows", s->path);
	if (f->memory && n_plain != s->tail_rows)
		return err_set(f->e, -EUCLEAN, "%s: table tail has other rows", s->path);
	f->points += f->memory ? f->memory->points->n : 0;
	f->all = f->all && n_plain == s->tail_rows;
	f->n_merged = fold_choose_merged(f, f->all);
	if (f->n_merged)
		r = fold_take_range(f, s->merged[s->n_merged - f->n_merged].seq, folded);
	if (r == 0 && f->n_rows != n_plain + f->n_merged)
		r = err_set(f->e, -EUCLEAN, "%s: table tail lacks rows", s->path);
	if (r == 0)
		fold_put_in_front(f, n_plain);
	return r;
}

/* ---- what to seal ------------------------------------------------------------- */

static bool fold_has(const struct store_merged *m, uint32_t series)
{
	return series - 1 < m->n_series && (m->series[(series - 1) / 8] >> ((series - 1) % 8) & 1);
}

/* Is there an older merged row, not taken, with points of the series? */
static bool fold_is_blocked(const struct fold *f, uint32_t series)
{
	size_t i;

	for (i = 0; i < f->s->n_merged - f->n_merged; i++)
		if (fold_has(&f->s->merged[i], series))
			return true;
	return false;
}

/* Mark a series' entries up to its last one with `rows` points or more (0: all;
 * CHUNK_POINTS_MAX: full ones). */
static void fold_mark(struct build_entry *x, size_t n, uint32_t rows)
{
	size_t i, last = 0;

	for (i = 0; i < n; i++)
		if (x[i].is_full || x[i].n >= rows)
			last = i + 1;
	for (i = 0; i < last; i++)
		x[i].sealed = true;
}

/* Bytes of the entries that are not marked, and of their axes. */
static size_t fold_kept_bytes(const struct build *b)
{
	uint8_t *used = xcalloc(b->n_axes + 1, 1);
	size_t i, kept = 0;

	for (i = 0; i < b->n_entries; i++) {
		const struct build_entry *x = &b->entries[i];

		if (x->sealed)
			continue;
		kept += x->len;
		if (!x->is_hist && !used[x->axis]) {
			used[x->axis] = 1;
			kept += b->axes[x->axis].len;
		}
	}
	free(used);
	return kept;
}

/* The same for all series; bytes that are not sealed then. */
static size_t fold_mark_all(struct fold *f, uint32_t rows)
{
	struct build *b = &f->build;
	size_t i, n;

	for (i = 0; i < b->n_entries; i += n) {
		struct build_entry *x = &b->entries[i];

		for (n = 1; i + n < b->n_entries && x[n].series == x->series; n++)
			;
		if (!fold_is_blocked(f, x->series))
			fold_mark(x, n, rows);
	}
	return fold_kept_bytes(b);
}

static void fold_choose_sealed(struct fold *f)
{
	uint64_t max = store_merged_max(f->s);
	uint32_t rows = CHUNK_POINTS_MAX;
	size_t kept;

	if (f->all) {
		fold_mark_all(f, 0);
		return;
	}
	kept = fold_mark_all(f, rows);
	/* Half, so that the next folds need not seal early again. */
	if (kept > max)
		for (; kept > max / 2 && rows; kept = fold_mark_all(f, rows))
			rows /= 2;
}

/* ---- the merged row ------------------------------------------------------------- */

int fold_note_merged(struct store *s, const struct blob_id *id, const struct blob *b, struct err *e,
		     struct store_merged *ret)
{
	struct store_merged note = {.seq = id->a, .points = b->count, .bytes = b->len};
	struct merged_entry x;
	struct merged m;
	int r = merged_begin(&m, id, b, e);

	if (r < 0)
		return r;
	note.n_series = s->catalog.n_series;
	note.series = xcalloc(note.n_series / 8 + 1, 1);
	while (r == 0 && (r = merged_next(&m, &x)) > 0) {
		r = 0;
		if (x.series > note.n_series)
			r = blob_bad(id, e, 0, "a series that is not defined");
		else
			note.series[(x.series - 1) / 8] |= (uint8_t)(1 << (x.series - 1) % 8);
	}
	merged_done(&m);
	if (r < 0)
		free(note.series);
	else
		*ret = note;
	return r;
}

/* The entries that are kept, and their axes numbered anew. */
static size_t fold_kept(const struct build *b, struct merged_entry *entries,
			struct merged_axis *axes, size_t *n_axes, uint32_t *count)
{
	uint32_t *number = xcalloc(b->n_axes + 1, sizeof(*number));
	size_t i, n = 0;

	for (i = 0; i < b->n_entries; i++) {
		const struct build_entry *x = &b->entries[i];

		if (x->sealed)
			continue;
		if (!x->is_hist && !number[x->axis]) {
			axes[*n_axes] = build_axis_at(b, x->axis);
			number[x->axis] = (uint32_t)++ * n_axes;
		}
		entries[n++] = (struct merged_entry){
			x->series,  x->is_hist ? 0 : number[x->axis] - 1,         x->n,
			x->is_hist, (const unsigned char *)b->bytes.data + x->at, x->len};
		*count += x->n;
	}
	free(number);
	return n;
}

/* s->codec holds the row, sealed. */
static int fold_put_merged(struct store *s, const struct blob_id *id, uint32_t count, struct err *e,
			   struct store_merged *ret)
{
	const struct buf *out = &s->codec.out;
	const struct blob blob = {BLOB_MERGED, count,
				  (const unsigned char *)out->data + BLOB_HEADER,
				  out->len - BLOB_HEADER};
	sqlite3_stmt *st = s->sql[SQL_TAIL];
	int r;

	sqlite3_bind_int64(st, 1, (int64_t)id->a);
	sqlite3_bind_blob64(st, 2, out->data, out->len, SQLITE_STATIC);
	r = db_run(st, "writing a merged row", e);
	return r < 0 ? r : fold_note_merged(s, id, &blob, e, ret);
}

int fold_write_merged(struct store *s, const struct build *b, uint64_t seq, uint64_t first,
		      struct err *e, struct store_merged *ret)
{
	const struct blob_id id = {s->path, "tail", seq, 0};
	struct merged_entry *entries = xcalloc(b->n_entries, sizeof(*entries));
	struct merged_axis *axes = xcalloc(b->n_axes, sizeof(*axes));
	size_t n_axes = 0, n;
	uint32_t count = 0;
	int r = 0;

	n = fold_kept(b, entries, axes, &n_axes, &count);
	if (n) {
		r = merged_encode(blob_begin(&s->codec), first, axes, n_axes, entries, n);
		if (r == 0)
			r = blob_end(&s->codec, &id, BLOB_MERGED, count);
		r = r < 0 ? err_errno(e, r, "%s: encoding a merged row", s->path)
			  : fold_put_merged(s, &id, count, e, ret);
	}
	free(entries);
	free(axes);
	return r;
}

/* ---- the transaction ------------------------------------------------------------ */

/* Positions may be ahead of what is folded: the tail that remains repeats them. */
static int fold_lanes(struct fold *f)
{
	sqlite3_stmt *st = f->s->sql[SQL_LANE];
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < f->s->commit.n_lanes; i++) {
		const struct commit_lane *lane = &f->s->commit.lanes[i];
		bool next = f->memory && lane->has_next;
		const struct sink_position *p = next ? &lane->next : &lane->committed;

		if (!lane->unfolded && !next)
			continue;
		sqlite3_bind_blob(st, 1, p->ring, sizeof(p->ring), SQLITE_STATIC);
		sqlite3_bind_int64(st, 2, p->lane);
		sqlite3_bind_int64(st, 3, (int64_t)f->seq);
		sqlite3_bind_int64(st, 4, (int64_t)p->pos);
		sqlite3_bind_int64(st, 5, (int64_t)p->rec);
		sqlite3_bind_int64(st, 6, (int64_t)p->stored);
		sqlite3_bind_int64(st, 7, (int64_t)p->overwritten);
		sqlite3_bind_int64(st, 8, (int64_t)p->broken);
		sqlite3_bind_int64(st, 9, (int64_t)p->dropped);
		sqlite3_bind_int64(st, 10, p->process);
		r = db_run(st, "writing a lane's position", f->e);
	}
	return r;
}

static int fold_write(struct fold *f)
{
	struct store *s = f->s;
	int64_t last = (int64_t)(f->memory ? f->seq : f->rows[f->n_rows - 1].seq);
	sqlite3_stmt *st = s->sql[SQL_TAIL_DELETE];
	int r;

	/* Merged rows alone may all be older than what was folded last. */
	if (f->meta[META_FOLDED] < last)
		f->meta[META_FOLDED] = last;
	fold_choose_sealed(f);
	r = seal_entries(s, &f->build, f->meta, f->e);
	if (r < 0)
		return r;
	if (f->n_rows) {
		sqlite3_bind_int64(st, 1, (int64_t)f->rows[0].seq);
		sqlite3_bind_int64(st, 2, f->meta[META_FOLDED]);
		r = db_run(st, "deleting folded rows", f->e);
	}
	if (r == 0)
		r = fold_write_merged(s, &f->build, (uint64_t)f->meta[META_FOLDED], f->first, f->e,
				      &f->merged);
	if (r == 0)
		r = fold_lanes(f);
	f->meta[META_FOLDS]++;
	if (r == 0)
		r = store_meta_write(s, f->meta, f->e);
	return r < 0 ? r : db_run(s->sql[SQL_COMMIT], "committing a fold", f->e);
}

static void fold_succeeded(struct fold *f)
{
	struct store *s = f->s;
	size_t i;

	memcpy(s->meta, f->meta, sizeof(s->meta));
	for (i = 0; i < f->n_merged; i++)
		free(s->merged[--s->n_merged].series);
	if (f->merged.seq) {
		s->merged = xgrow(s->merged, s->n_merged, &s->cap_merged, sizeof(*s->merged));
		s->merged[s->n_merged++] = f->merged;
	}
	s->tail_rows -= f->n_rows - f->n_merged;
	s->tail_body -= f->bytes;
	s->tail_since = store_mono_ns();
	for (i = 0; i < s->commit.n_lanes; i++)
		s->commit.lanes[i].unfolded = false;
}

/* The first commit in the oldest row. */
static int fold_first(struct fold *f)
{
	const struct blob_id id = {f->s->path, "tail", f->n_rows ? f->rows[0].seq : f->seq, 0};
	struct merged m;
	int r = 0;

	f->first = id.a;
	if (f->n_merged) {
		r = merged_begin(&m, &id, &f->rows[0].blob, f->e);
		if (r == 0)
			f->first = m.first;
		merged_done(&m);
	}
	return r;
}

/* In a transaction that is open; ends it if it goes well. */
static int fold_run(struct fold *f)
{
	struct store *s = f->s;
	int r;

	memcpy(f->meta, s->meta, sizeof(f->meta));
	build_init(&f->build, s->path, &s->columns, f->e);
	r = fold_take_rows(f);
	f->build.quick = !f->all;
	if (r == 0)
		r = fold_first(f);
	if (r == 0)
		r = gather_rows(s, f->rows, f->n_rows, f->memory, &f->build, f->e);
	fold_free_bodies(f); /* all is in f->build */
	if (r == 0)
		r = fold_write(f);
	if (r < 0)
		free(f->merged.series);
	return r;
}

int fold_batch(struct store *s, uint64_t bytes_max, bool all, struct err *e)
{
	struct fold f = {.s = s, .e = e, .bytes_max = bytes_max, .all = all, .seq = s->seq};
	int r;

	if (!s->tail_rows && !(all && s->n_merged))
		return 0;
	r = db_run(s->sql[SQL_BEGIN], "beginning a fold", e);
	if (r == 0) {
		r = store_abort(s, fold_run(&f));
		if (r == 0)
			fold_succeeded(&f);
		fold_done(&f);
	}
	return r;
}

bool fold_takes_commit(const struct store *s, size_t samples, size_t series)
{
	return samples >= FOLD_DIRECT && samples / FOLD_DIRECT_SERIES >= series &&
	       s->tail_rows < FOLD_ROWS && s->tail_body <= FOLD_BYTES;
}

int fold_commit(struct store *s, uint64_t seq, const struct gather_memory *memory, struct err *e)
{
	struct fold f = {.s = s, .e = e, .bytes_max = UINT64_MAX, .memory = memory, .seq = seq};
	int r = fold_run(&f);

	if (r == 0)
		fold_succeeded(&f);
	fold_done(&f);
	return r;
}

/* bytes, or FOLD_SERIES_BYTES a series if that is more, but not without limit. */
static uint64_t fold_scaled(const struct store *s, uint64_t bytes)
{
	uint64_t by_series = (uint64_t)s->catalog.n_series * FOLD_SERIES_BYTES;

	if (bytes < by_series)
		bytes = by_series;
	return bytes < FOLD_BYTES_MAX ? bytes : FOLD_BYTES_MAX;
}

uint64_t store_merged_max(const struct store *s)
{
	uint64_t by_series = (uint64_t)s->catalog.n_series * FOLD_MERGED_SERIES_BYTES;

	if (by_series > FOLD_BYTES_MAX)
		by_series = FOLD_BYTES_MAX;
	return by_series > FOLD_MERGED_BYTES ? by_series : FOLD_MERGED_BYTES;
}

static bool fold_is_due(const struct store *s)
{
	return s->tail_rows &&
	       (s->tail_body > fold_scaled(s, FOLD_BYTES) || s->tail_rows >= FOLD_ROWS ||
		store_mono_ns() - s->tail_since > (int64_t)FOLD_SECONDS * 1000000000);
}

/* Megabytes in small pieces are not needed for minutes: back to the system. */
static void fold_trim(void)
{
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

int store_fold(struct store *s, bool all, struct err *e)
{
	int r = 0;

	if (s->corrupt)
		return err_set(e, -EUCLEAN, "%s is corrupt; close and open it again", s->path);
	if (all) {
		while (r == 0 && (s->tail_rows || s->n_merged))
			r = fold_batch(s, fold_scaled(s, 2 * FOLD_SLICE), true, e);
		fold_trim();
		return r;
	}
	r = store_check_header(s, e);
	if (r < 0)
		return r;
	s->folding = s->folding || fold_is_due(s);
	if (s->folding && s->tail_rows)
		r = fold_batch(s, fold_scaled(s, FOLD_SLICE), false, e);
	if (s->folding && (r < 0 || !s->tail_rows)) {
		s->folding = false;
		fold_trim();
	}
	return r < 0 ? r : s->folding;
}
