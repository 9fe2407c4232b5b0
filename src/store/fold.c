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

#define FOLD_LAZY_ROWS 15u  /* merged rows that large commits leave before they take them, */
#define FOLD_LAZY_PART 4u   /* unless they have at most this part of a commit's points */
#define FOLD_ROW_PART 6u    /* of all merged rows' bytes: those of rows that are merged again */
#define FOLD_PLAN_STEPS 13u /* powers of 2 up to CHUNK_POINTS_MAX */

struct fold {
	struct store *s;
	struct err *e;
	uint64_t bytes_max;                 /* of plain bodies to take, but at least one row */
	bool all;                           /* seal all, if this takes the last rows */
	bool much;                          /* take all merged rows and seal what is long */
	uint32_t rows_min;                  /* then: so many points of a series are long */
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
		rowbody_done(&f->rows[i].body);
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
	struct blob_codec *codec = &f->s->codec;
	struct fold_row row = {.seq = id.a};
	bool expanded;
	int r;

	r = blob_open(codec, &id, sqlite3_column_blob(st, 1), (size_t)sqlite3_column_bytes(st, 1),
		      f->e, &row.blob);
	if (r < 0)
		return r;
	expanded = row.blob.body == (const unsigned char *)codec->body.data;
	r = rowbody_take(&row.body, f->s->db, &id, &row.blob, expanded, f->e, &row.blob.body);
	if (r < 0)
		return r;
	f->rows = xgrow(f->rows, f->n_rows, &f->cap_rows, sizeof(*f->rows));
	f->rows[f->n_rows++] = row;
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

	if (f->memory->points->n / f->memory->n >= CHUNK_POINTS_MAX)
		return n;
	for (i = 0; i < n; i++) {
		points += s->merged[s->n_merged - 1 - i].points;
		if (points > f->points / FOLD_LAZY_PART)
			break;
	}
	return i;
}

/* Is it time to seal what the merged rows have? They have become too large together,
 * or their series have enough points for whole chunks; large commits wait until there
 * are many rows. */
static bool fold_is_ripe(const struct fold *f)
{
	const struct store *s = f->s;
	uint64_t points = 0, bytes = 0;
	size_t i;

	for (i = 0; i < s->n_merged; i++) {
		bytes += s->merged[i].bytes;
		points += s->merged[i].points;
	}
	if (bytes > store_merged_max(s))
		return true;
	return f->memory ? s->n_merged >= FOLD_LAZY_ROWS
			 : points / CHUNK_POINTS_MAX >= s->catalog.n_series;
}

/* The merged rows to take with f->points from plain ones: each, from the newest
 * on, that has no more points than what is taken so far, as long as they are small
 * together; all of them if much is to be sealed. */
static size_t fold_choose_merged(const struct fold *f)
{
	const struct store *s = f->s;
	uint64_t points = f->points, left = store_merged_max(s) / FOLD_ROW_PART;
	size_t n;

	if (f->much)
		return s->n_merged;
	for (n = 0; n < s->n_merged; n++) {
		const struct store_merged *m = &s->merged[s->n_merged - 1 - n];

		if (m->points > points || m->bytes > left)
			break;
		points += m->points;
		left -= m->bytes;
	}
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
	f->much = f->all || fold_is_ripe(f);
	f->n_merged = fold_choose_merged(f);
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
		if (!fold_is_blocked(f, x->series) && !build_is_waiting(b, x->series))
			fold_mark(x, n, rows);
	}
	return fold_kept_bytes(b);
}

static void fold_choose_sealed(struct fold *f)
{
	uint64_t max = store_merged_max(f->s);
	uint32_t rows = f->rows_min;
	size_t kept = fold_mark_all(f, rows);

	/* Half, so that the next folds need not seal early again. */
	if (kept > max)
		for (; kept > max / 2 && rows; kept = fold_mark_all(f, rows))
			rows /= 2;
}

struct fold_amount {
	uint32_t points, bytes; /* of a series in the merged rows */
};

static int fold_count(struct fold *f, const struct fold_row *row, struct fold_amount *all)
{
	const struct blob_id id = {f->s->path, "tail", row->seq, 0};
	struct merged_entry x;
	struct merged m;
	int r = merged_begin(&m, &id, &row->blob, f->e);

	if (r < 0)
		return r;
	while ((r = merged_next(&m, &x)) > 0) {
		if (x.series > f->s->catalog.n_series)
			continue; /* gather_rows() says so */
		all[x.series - 1].points += x.n;
		all[x.series - 1].bytes += (uint32_t)x.len;
	}
	merged_done(&m);
	return r;
}

/* Which series are long? Bytes of the others are to fit into one small row. What the
 * plain rows add is not known yet, and little. */
static int fold_plan(struct fold *f)
{
	uint64_t bytes[FOLD_PLAN_STEPS] = {0}, left = store_merged_max(f->s) / FOLD_ROW_PART;
	struct fold_amount *all = xcalloc(f->s->catalog.n_series + 1, sizeof(*all));
	unsigned step;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < f->n_merged; i++)
		r = fold_count(f, &f->rows[i], all);
	for (i = 0; i < f->s->catalog.n_series; i++) {
		const struct fold_amount *x = &all[i];
		uint32_t rest = x->points % CHUNK_POINTS_MAX;

		if (rest)
			bytes[31 - __builtin_clz(rest)] += (uint64_t)x->bytes * rest / x->points;
	}
	free(all);
	f->rows_min = 1;
	for (step = 0; step < FOLD_PLAN_STEPS && bytes[step] <= left; step++) {
		left -= bytes[step];
		f->rows_min *= 2;
	}
	return r;
}

/* Seal what is long already, so that little of it is in memory. */
static int fold_flush(void *arg)
{
	struct fold *f = arg;
	int r;

	fold_mark_all(f, f->rows_min);
	r = seal_entries(f->s, &f->build, f->meta, f->e);
	build_drop_sealed(&f->build);
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
	f->rows_min = f->all ? 0 : CHUNK_POINTS_MAX;
	if (r == 0 && f->much && !f->all)
		r = fold_plan(f);
	if (f->much)
		build_on_flush(&f->build, fold_flush, f);
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
