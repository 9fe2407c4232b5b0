/* SPDX-License-Identifier: Apache-2.0
 *
 * fold.c - turns tail rows into chunks: read rows, group their blocks by
 * series, append to each series' last chunk or begin new ones, delete the rows.
 * One transaction for each batch of rows.
 */
#include "base/mem.h"
#include "store/store_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FOLD_REFS_MAX (16u << 10) /* blocks grouped at a time, but for one series */
#define FOLD_SMALL 8u             /* a last chunk below 1/8 of the maximum is rewritten */

struct fold_row {
	uint64_t seq;
	struct blob blob; /* body owned */
};

struct fold_ref {
	uint32_t row;
	struct points_base base;
	struct tail_block block;
};

struct fold {
	struct store *s;
	struct err *e;
	uint64_t bytes_max; /* of bodies to take, but at least one row */
	struct fold_row *rows;
	size_t n_rows, cap_rows;
	uint64_t bytes;   /* of their bodies */
	uint32_t *blocks; /* of each series, id - 1 */
	struct fold_ref *refs;
	size_t cap_refs;
	/* the series being folded */
	struct chunk chunk; /* open: its points are here */
	struct points points, in;
	struct hists hists, hists_in;
	size_t loaded; /* points of it that are stored already */
	struct buf body;
};

static struct blob_id fold_id(const struct fold *f, size_t row)
{
	return (struct blob_id){f->s->path, "tail", f->rows[row].seq, 0};
}

static void fold_done(struct fold *f)
{
	size_t i;

	for (i = 0; i < f->n_rows; i++)
		free((void *)f->rows[i].blob.body);
	free(f->rows);
	free(f->blocks);
	free(f->refs);
	points_done(&f->points);
	points_done(&f->in);
	hists_done(&f->hists);
	hists_done(&f->hists_in);
	buf_done(&f->body);
}

/* ---- rows ------------------------------------------------------------------- */

static int fold_take_row(struct fold *f, sqlite3_stmt *st)
{
	const struct blob_id id = {f->s->path, "tail", (uint64_t)sqlite3_column_int64(st, 0), 0};
	struct fold_row *row;
	struct blob blob;
	int r;

	r = blob_open(&f->s->codec, &id, sqlite3_column_blob(st, 1),
		      (size_t)sqlite3_column_bytes(st, 1), f->e, &blob);
	if (r < 0)
		return r;
	f->rows = xgrow(f->rows, f->n_rows, &f->cap_rows, sizeof(*f->rows));
	row = &f->rows[f->n_rows++];
	row->seq = id.a;
	row->blob = blob;
	row->blob.body = xcalloc(blob.len + 1, 1);
	memcpy((void *)row->blob.body, blob.body, blob.len);
	f->bytes += blob.len;
	return 0;
}

static int fold_take_rows(struct fold *f)
{
	sqlite3_stmt *st = f->s->sql[SQL_TAIL_READ];
	int rc = SQLITE_DONE, r = 0;

	sqlite3_bind_int64(st, 1, (int64_t)f->s->folded);
	while (r == 0 && f->bytes < f->bytes_max && f->n_rows < FOLD_ROWS &&
	       (rc = sqlite3_step(st)) == SQLITE_ROW)
		r = fold_take_row(f, st);
	if (r == 0 && rc != SQLITE_DONE && rc != SQLITE_ROW)
		r = db_fail(f->s->db, rc, "reading table tail", f->e);
	sqlite3_reset(st);
	return r;
}

/* How many blocks there are of each series. */
static int fold_count(struct fold *f)
{
	size_t i, n_series = f->s->catalog.n_series;
	struct tail_block block;
	struct tail_walk w;
	struct blob_id id;
	int r = 0;

	f->blocks = xcalloc(n_series + 1, sizeof(*f->blocks));
	for (i = 0; r == 0 && i < f->n_rows; i++) {
		id = fold_id(f, i);
		r = tail_begin(&w, &id, &f->rows[i].blob, f->e);
		while (r == 0 && (r = tail_block(&w, &block)) > 0) {
			r = 0;
			if (block.series > n_series ||
			    block.is_hist !=
				    (f->s->catalog.series[block.series - 1].kind == SINK_HISTOGRAM))
				r = blob_bad(&id, f->e, (size_t)(w.c.p - w.start),
					     "a series that is not defined, or of another kind");
			else
				f->blocks[block.series - 1]++;
		}
	}
	return r;
}

/* The blocks of series from..to-1 (0-based), by series, then by row. first[] is
 * where each series' begin. */
static int fold_collect(struct fold *f, size_t from, size_t to, uint32_t *first)
{
	struct tail_block block;
	struct tail_walk w;
	struct blob_id id;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < f->n_rows; i++) {
		id = fold_id(f, i);
		r = tail_begin(&w, &id, &f->rows[i].blob, f->e);
		while (r == 0 && (r = tail_block(&w, &block)) > 0) {
			r = 0;
			if (block.series - 1 < from || block.series - 1 >= to)
				continue;
			f->refs[first[block.series - 1 - from]++] =
				(struct fold_ref){(uint32_t)i, w.base, block};
		}
	}
	return r;
}

/* ---- chunks ------------------------------------------------------------------- */

static size_t fold_open_points(const struct fold *f, bool is_hist)
{
	return is_hist ? f->hists.n : f->points.n;
}

static int fold_write_data(struct fold *f)
{
	sqlite3_stmt *st = f->s->sql[f->chunk.data ? SQL_DATA_SET : SQL_DATA_NEW];
	const struct buf *blob = &f->s->codec.out;
	int r;

	sqlite3_bind_blob64(st, 1, blob->data, blob->len, SQLITE_STATIC);
	if (f->chunk.data)
		sqlite3_bind_int64(st, 2, f->chunk.data);
	r = db_run(st, "writing a chunk", f->e);
	if (r == 0 && !f->chunk.data)
		f->chunk.data = sqlite3_last_insert_rowid(f->s->db);
	f->s->stats.chunk_bytes += blob->len;
	return r;
}

static int fold_write_chunk(struct fold *f, bool is_hist)
{
	const struct blob_id id = {f->s->path, "chunk", f->chunk.series, f->chunk.ordinal};
	struct points_view v = points_slice(&f->points, 0, f->points.n);
	sqlite3_stmt *st = f->s->sql[SQL_CHUNK];
	int r;

	if (is_hist) {
		chunk_sum_hists(&f->chunk, &f->hists);
		r = chunk_encode_hists(&f->body, &f->hists);
	} else {
		chunk_sum_points(&f->chunk, &v);
		r = chunk_encode_points(&f->body, &v);
	}
	if (r == 0)
		r = blob_seal(&f->s->codec, &id, is_hist ? BLOB_HISTS : BLOB_POINTS, f->chunk.n,
			      &f->body);
	if (r < 0)
		return err_errno(f->e, r, "%s: encoding a chunk of series %u", f->s->path,
				 f->chunk.series);
	r = fold_write_data(f);
	if (r < 0)
		return r;
	chunkrow_bind(st, &f->chunk);
	return db_run(st, "writing a chunk's row", f->e);
}

/* Seal the open chunk and begin the next, in the same segment. */
static int fold_flush(struct fold *f, bool is_hist)
{
	size_t n = fold_open_points(f, is_hist);
	int r = 0;

	if (n == 0)
		return 0;
	if (n > f->loaded)
		r = fold_write_chunk(f, is_hist);
	f->chunk.ordinal++;
	f->chunk.start += n;
	f->chunk.data = 0;
	f->points.n = 0;
	hists_reset(&f->hists);
	f->loaded = 0;
	return r;
}

/* Before a point: seal the chunk if it is full or the point begins a segment. */
static int fold_prepare(struct fold *f, bool is_hist, bool is_full, int64_t time, int64_t step,
			uint64_t seq)
{
	struct segment next = f->chunk.segment;
	bool is_new = segment_next(&next, time, step);
	int r = 0;

	if (is_full || is_new)
		r = fold_flush(f, is_hist);
	f->chunk.segment = next;
	if (fold_open_points(f, is_hist) == 0)
		f->chunk.seq_min = seq;
	f->chunk.seq_max = seq;
	return r;
}

static int fold_points(struct fold *f, const struct tail_walk *w, const struct tail_block *block,
		       uint64_t seq, bool is_span)
{
	struct points *in = &f->in, *p = &f->points;
	size_t i;
	int r;

	in->n = 0;
	r = tail_points(w, block, in);
	if (r == 0 && points_reserve(p, CHUNK_POINTS_MAX) < 0)
		r = err_set(f->e, -ENOMEM, "%s: no memory for a chunk", f->s->path);
	for (i = 0; r == 0 && i < in->n; i++) {
		int64_t time = in->time[i];

		if (is_span)
			time = segment_span_end(time, in->value[i]);
		r = fold_prepare(f, false, p->n == CHUNK_POINTS_MAX, time, in->step[i], seq);
		p->time[p->n] = in->time[i];
		p->step[p->n] = in->step[i];
		p->thread[p->n] = in->thread[i];
		p->value[p->n++] = in->value[i];
	}
	return r;
}

static int fold_hists(struct fold *f, const struct tail_walk *w, const struct tail_block *block,
		      uint64_t seq)
{
	struct hists *in = &f->hists_in, *h = &f->hists;
	size_t i;
	int r;

	hists_reset(in);
	r = tail_hists(w, block, in);
	for (i = 0; r == 0 && i < in->n; i++) {
		const struct hists_row *row = &in->rows[i];

		r = fold_prepare(f, true, h->n == CHUNK_HISTS_MAX || h->n_bins >= CHUNK_BINS_MAX,
				 row->time, row->step, seq);
		if (r == 0 && hists_add(h, row, in->bins + row->bins) < 0)
			r = err_set(f->e, -ENOMEM, "%s: no memory for a chunk", f->s->path);
	}
	return r;
}

/* Open the last chunk again: its points are here, ready for more. */
static int fold_reopen(struct fold *f, bool is_hist)
{
	const struct blob_id id = {f->s->path, "chunk", f->chunk.series, f->chunk.ordinal};
	sqlite3_stmt *st = f->s->sql[SQL_DATA_GET];
	struct blob blob;
	int rc, r;

	sqlite3_bind_int64(st, 1, f->chunk.data);
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		r = blob_open(&f->s->codec, &id, sqlite3_column_blob(st, 0),
			      (size_t)sqlite3_column_bytes(st, 0), f->e, &blob);
	else if (rc == SQLITE_DONE)
		r = blob_bad(&id, f->e, 0, "its data is missing");
	else
		r = db_fail(f->s->db, rc, "reading a chunk", f->e);
	if (r == 0)
		r = is_hist ? chunk_decode_hists(&id, &blob, f->e, &f->hists)
			    : chunk_decode_points(&id, &blob, f->e, &f->points);
	sqlite3_reset(st);
	f->loaded = fold_open_points(f, is_hist);
	if (r == 0 && f->loaded != f->chunk.n)
		r = blob_bad(&id, f->e, 12, "its row states another number of points");
	return r;
}

/* Where the series stands: its last chunk, opened again if small. */
static int fold_load(struct fold *f, uint32_t series, bool is_hist)
{
	sqlite3_stmt *st = f->s->sql[SQL_CHUNK_LAST];
	struct chunk *c = &f->chunk;
	int rc, r = 0;

	*c = (struct chunk){.series = series, .segment = {.step = SINK_STEP_NONE}};
	f->points.n = 0;
	hists_reset(&f->hists);
	f->loaded = 0;
	sqlite3_bind_int64(st, 1, series);
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		r = chunkrow_read(st, f->s->path, f->e, c);
	else if (rc != SQLITE_DONE)
		r = db_fail(f->s->db, rc, "reading table chunk", f->e);
	sqlite3_reset(st);
	if (r < 0 || !c->data)
		return r;
	if (c->n < (is_hist ? CHUNK_HISTS_MAX : CHUNK_POINTS_MAX) / FOLD_SMALL)
		return fold_reopen(f, is_hist);
	c->ordinal++;
	c->start += c->n;
	c->data = 0;
	return 0;
}

static int fold_series(struct fold *f, uint32_t series, const struct fold_ref *refs, size_t n)
{
	enum sink_kind kind = f->s->catalog.series[series - 1].kind;
	bool is_hist = kind == SINK_HISTOGRAM;
	struct blob_id id;
	struct tail_walk w;
	size_t i;
	int r = fold_load(f, series, is_hist);

	for (i = 0; r == 0 && i < n; i++) {
		uint64_t seq = f->rows[refs[i].row].seq;

		id = fold_id(f, refs[i].row);
		w = (struct tail_walk){.id = &id, .e = f->e, .base = refs[i].base};
		r = is_hist ? fold_hists(f, &w, &refs[i].block, seq)
			    : fold_points(f, &w, &refs[i].block, seq, kind == SINK_SPAN);
	}
	return r < 0 ? r : fold_flush(f, is_hist);
}

/* Fold series from..to-1 (0-based), n blocks in all. */
static int fold_group(struct fold *f, size_t from, size_t to, size_t n)
{
	uint32_t *first = xcalloc(to - from + 1, sizeof(*first)), at = 0;
	size_t i;
	int r;

	if (n > f->cap_refs) {
		f->refs = xrealloc(f->refs, n, sizeof(*f->refs));
		f->cap_refs = n;
	}
	for (i = from; i < to; i++) {
		first[i - from] = at;
		at += f->blocks[i];
	}
	r = fold_collect(f, from, to, first);
	for (at = 0, i = from; r == 0 && i < to; i++) {
		if (f->blocks[i])
			r = fold_series(f, (uint32_t)i + 1, f->refs + at, f->blocks[i]);
		at += f->blocks[i];
	}
	free(first);
	return r;
}

static int fold_groups(struct fold *f)
{
	size_t from = 0, to, n, n_series = f->s->catalog.n_series;
	int r = fold_count(f);

	while (r == 0 && from < n_series) {
		n = f->blocks[from];
		for (to = from + 1; to < n_series && n + f->blocks[to] <= FOLD_REFS_MAX; to++)
			n += f->blocks[to];
		if (n)
			r = fold_group(f, from, to, n);
		from = to;
	}
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
		const struct sink_position *p = &f->s->commit.lanes[i].committed;

		if (!f->s->commit.lanes[i].unfolded)
			continue;
		sqlite3_bind_blob(st, 1, p->ring, sizeof(p->ring), SQLITE_STATIC);
		sqlite3_bind_int64(st, 2, p->lane);
		sqlite3_bind_int64(st, 3, (int64_t)f->s->seq);
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

static int fold_finish(struct fold *f)
{
	int64_t last = (int64_t)f->rows[f->n_rows - 1].seq;
	struct store *s = f->s;
	int r = fold_lanes(f);

	if (r < 0)
		return r;
	sqlite3_bind_int64(s->sql[SQL_META], 1, last);
	r = db_run(s->sql[SQL_META], "writing table meta", f->e);
	if (r < 0)
		return r;
	sqlite3_bind_int64(s->sql[SQL_TAIL_DELETE], 1, last);
	r = db_run(s->sql[SQL_TAIL_DELETE], "deleting folded rows", f->e);
	return r < 0 ? r : db_run(s->sql[SQL_COMMIT], "committing a fold", f->e);
}

static void fold_succeeded(struct fold *f)
{
	struct store *s = f->s;
	size_t i;

	s->folded = f->rows[f->n_rows - 1].seq;
	s->tail_rows -= f->n_rows;
	s->tail_body -= f->bytes;
	s->tail_since = store_mono_ns();
	for (i = 0; i < s->commit.n_lanes; i++)
		s->commit.lanes[i].unfolded = false;
}

static int fold_batch(struct store *s, uint64_t bytes_max, struct err *e)
{
	struct fold f = {.s = s, .e = e, .bytes_max = bytes_max};
	int r;

	buf_init(&f.body, BLOB_BODY_MAX);
	r = db_run(s->sql[SQL_BEGIN], "beginning a fold", e);
	if (r == 0)
		r = fold_take_rows(&f);
	if (r == 0)
		r = f.n_rows ? fold_groups(&f)
			     : err_set(e, -EUCLEAN, "%s: table tail lacks rows", s->path);
	if (r == 0)
		r = fold_finish(&f);
	r = store_abort(s, r);
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

static bool fold_is_due(const struct store *s)
{
	return s->tail_rows &&
	       (s->tail_body > fold_scaled(s, FOLD_BYTES) || s->tail_rows >= FOLD_ROWS ||
		store_mono_ns() - s->tail_since > (int64_t)FOLD_SECONDS * 1000000000);
}

int store_fold(struct store *s, bool all, struct err *e)
{
	int r = 0;

	if (s->corrupt)
		return err_set(e, -EUCLEAN, "%s is corrupt; close and open it again", s->path);
	if (all) {
		while (r == 0 && s->tail_rows)
			r = fold_batch(s, FOLD_BYTES_MAX, e);
		return r;
	}
	r = store_check_header(s, e);
	if (r < 0)
		return r;
	s->folding = s->folding || fold_is_due(s);
	if (s->folding && s->tail_rows)
		r = fold_batch(s, fold_scaled(s, FOLD_SLICE), e);
	if (r < 0 || !s->tail_rows)
		s->folding = false;
	return r < 0 ? r : s->folding;
}
