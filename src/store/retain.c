/* SPDX-License-Identifier: Apache-2.0
 *
 * retain.c - retention: raw points that are too old, or the oldest of a file that
 * is too large, are deleted; summaries and events stay. In slices, so that a
 * live file can be cleaned between commits.
 *
 * A pass looks at all chunks first: how many refer to each pack and axis, and how
 * many bytes end when. From that comes one moment for all series; then chunks
 * whose points are all before it go, and what nobody refers to any more goes
 * with them, in the same transaction. Chunks that are folded meanwhile refer to
 * new packs and axes only, so the counts stay right.
 */
#include "store/retain.h"

#include "base/mem.h"
#include "store/store_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RETAIN_SLICE_NS 20000000         /* of one call, about */
#define RETAIN_ROWS 64u                  /* rows between two looks at the clock */
#define RETAIN_PAGES 64                  /* given back between two looks at the clock */
#define RETAIN_AGE_PARTS 16              /* points may be older than the limit by a 16th of it, */
#define RETAIN_AGE_MIN_NS 1000000000LL   /* at least 1 s, */
#define RETAIN_AGE_MAX_NS 600000000000LL /* at most 10 min */
#define RETAIN_AGAIN_NS 60000000000LL    /* a pass that failed is not repeated before */
#define RETAIN_FREE_MAX 1024             /* free pages that a pass may leave for a while */

enum retain_sql {
	RETAIN_WALK,
	RETAIN_SUMMARY,
	RETAIN_DROP_CHUNK,
	RETAIN_DROP_PACK,
	RETAIN_DROP_AXIS,
	RETAIN_SQL_N
};

static const char *const retain_sql[RETAIN_SQL_N] = {
	[RETAIN_WALK] = ("SELECT " CHUNKROW_COLUMNS " FROM chunk WHERE (series, ordinal) > (?1, ?2)"
			 " ORDER BY series, ordinal LIMIT ?3"),
	[RETAIN_SUMMARY] = "SELECT blob FROM summary WHERE id = ?1",
	[RETAIN_DROP_CHUNK] = "DELETE FROM chunk WHERE series = ?1 AND ordinal = ?2",
	[RETAIN_DROP_PACK] = "DELETE FROM pack WHERE id = ?1",
	[RETAIN_DROP_AXIS] = "DELETE FROM axis WHERE id = ?1",
};

/* A chunk that is not the last of its series, and when its last point was, or that
 * of one before it: of a series the oldest chunks go first. The last one stays. */
struct retain_row {
	struct chunk c;
	bool is_last;
	int64_t end;
};

/* How many chunks refer to each id up to `last`. */
struct retain_refs {
	uint32_t *n; /* id - 1 */
	int64_t last;
};

struct retain {
	struct store *s;
	struct err *e;
	sqlite3_stmt *sql[RETAIN_SQL_N];
	struct sumtree_db db;
	struct summary *nodes; /* a page of level 1 */
	int64_t page_id;       /* 0: none */
	size_t n_nodes;
	struct retain_refs packs, axes;
	struct retain_span span;  /* bytes that may go */
	uint64_t all, axis_bytes; /* bytes of all chunks, of all axes */
	int64_t before;           /* chunks that end before it go; INT64_MIN: not known yet */
	uint32_t series;          /* last row that was walked */
	int64_t ordinal;
	int64_t end;                             /* of its series so far */
	struct retain_row rows[RETAIN_ROWS + 1]; /* n_rows, with the one to look ahead */
	size_t n_rows;
	int64_t free;     /* free pages when it began */
	uint64_t dropped; /* chunks */
	bool dry;         /* only count them */
};

/* ---- a pass ------------------------------------------------------------------ */

static void retain_free(struct retain *p)
{
	size_t i;

	if (!p)
		return;
	for (i = 0; i < RETAIN_SQL_N; i++)
		sqlite3_finalize(p->sql[i]);
	free(p->nodes);
	free(p->packs.n);
	free(p->axes.n);
	free(p);
}

void retain_stop(struct retain_state *st)
{
	retain_free(st->pass);
	st->pass = NULL;
}

static void retain_rewind(struct retain *p)
{
	p->series = 0;
	p->ordinal = -1;
	p->end = INT64_MIN;
}

static int retain_refs_init(struct retain *p, struct retain_refs *r, int64_t last)
{
	r->last = last;
	r->n = last < (int64_t)(SIZE_MAX / sizeof(*r->n)) ? calloc((size_t)last + 1, sizeof(*r->n))
							  : NULL;
	return r->n ? 0
		    : err_set(p->e, -ENOMEM, "%s: no memory for retention over %lld rows",
			      p->s->path, (long long)last);
}

static int retain_new(struct store *s, struct err *e)
{
	struct retain *p = xcalloc(1, sizeof(*p));
	int64_t bytes = 0;
	size_t i;
	int r = 0;

	p->s = s;
	p->e = e;
	p->before = INT64_MIN;
	p->nodes = xcalloc(SUMMARY_PAGE, sizeof(*p->nodes));
	retain_rewind(p);
	for (i = 0; r == 0 && i < RETAIN_SQL_N; i++)
		r = db_prepare(s->db, retain_sql[i], e, &p->sql[i]);
	p->db = (struct sumtree_db){.path = s->path,
				    .codec = &s->codec,
				    .columns = &s->columns,
				    .get = p->sql[RETAIN_SUMMARY]};
	if (r == 0)
		r = retain_refs_init(p, &p->packs, s->meta[META_PACK]);
	if (r == 0)
		r = retain_refs_init(p, &p->axes, s->meta[META_AXIS]);
	if (r == 0)
		r = db_int(s->db, "SELECT ifnull(sum(length(blob)), 0) FROM axis", e, &bytes);
	p->axis_bytes = (uint64_t)bytes;
	if (r < 0)
		retain_free(p);
	else
		s->retain.pass = p;
	return r;
}

/* ---- walking over the chunks ------------------------------------------------------ */

/* When the chunk's last point was: in the node of level 1. */
static int retain_end(struct retain *p, const struct chunk *c, int64_t *ret)
{
	int64_t id = summary_id(c->series, 1, c->ordinal / SUMMARY_PAGE);
	size_t at = c->ordinal % SUMMARY_PAGE;
	int r = 0;

	if (id != p->page_id || at >= p->n_nodes) {
		p->page_id = 0;
		r = sumtree_get(&p->db, id, p->e, p->nodes, &p->n_nodes);
	}
	if (r == 0 && at >= p->n_nodes)
		r = err_set(p->e, -EUCLEAN, "%s: table summary: series %u lacks chunk %u",
			    p->s->path, c->series, c->ordinal);
	if (r < 0)
		return r;
	p->page_id = id;
	*ret = p->nodes[at].time_max;
	return 0;
}

/* Rows of the table behind the last one that was walked, and one more, to see
 * whether the last of them is the last of its series. */
static int retain_fetch(struct retain *p)
{
	sqlite3_stmt *st = p->sql[RETAIN_WALK];
	int rc = SQLITE_DONE, r = 0;

	p->n_rows = 0;
	sqlite3_bind_int64(st, 1, p->series);
	sqlite3_bind_int64(st, 2, p->ordinal);
	sqlite3_bind_int64(st, 3, RETAIN_ROWS + 1);
	while (r == 0 && p->n_rows <= RETAIN_ROWS && (rc = sqlite3_step(st)) == SQLITE_ROW)
		r = chunkrow_read(st, p->s->path, p->e, &p->rows[p->n_rows++].c);
	if (r == 0 && rc != SQLITE_DONE && rc != SQLITE_ROW)
		r = db_fail(p->s->db, rc, "reading table chunk", p->e);
	sqlite3_reset(st);
	return r;
}

/* The next rows, *ret_n of them; 0 at the end. */
static int retain_next(struct retain *p, size_t *ret_n)
{
	int r = retain_fetch(p);
	size_t i, n = p->n_rows > RETAIN_ROWS ? RETAIN_ROWS : p->n_rows;

	for (i = 0; r == 0 && i < n; i++) {
		struct retain_row *row = &p->rows[i];

		row->is_last = i + 1 >= p->n_rows || row[1].c.series != row->c.series;
		row->end = INT64_MAX;
		if (!row->is_last)
			r = retain_end(p, &row->c, &row->end);
		if (row->c.series == p->series && row->end < p->end)
			row->end = p->end;
		p->series = row->c.series;
		p->ordinal = row->c.ordinal;
		p->end = row->end;
	}
	*ret_n = n;
	return r;
}

static void retain_refer(struct retain_refs *r, int64_t id)
{
	if (id > 0 && id <= r->last)
		r->n[id - 1]++;
}

/* Note some chunks. 1: there are more. */
static int retain_look(struct retain *p)
{
	size_t i, n;
	int r = retain_next(p, &n);

	for (i = 0; r == 0 && i < n; i++) {
		const struct retain_row *row = &p->rows[i];

		retain_refer(&p->packs, row->c.pack);
		retain_refer(&p->axes, row->c.axis);
		p->all += row->c.len;
		if (!row->is_last)
			retain_span_add(&p->span, row->end, row->c.len);
	}
	return r < 0 ? r : n > 0;
}

/* ---- deleting ------------------------------------------------------------------------ */

static int retain_delete(struct retain *p, enum retain_sql which, int64_t a, int64_t b)
{
	sqlite3_stmt *st = p->sql[which];

	sqlite3_bind_int64(st, 1, a);
	if (which == RETAIN_DROP_CHUNK)
		sqlite3_bind_int64(st, 2, b);
	return db_run(st, "deleting raw points", p->e);
}

/* One less refers to a row; delete it if it was the last. */
static int retain_release(struct retain *p, enum retain_sql which, struct retain_refs *refs,
			  int64_t id)
{
	if (id <= 0 || id > refs->last || refs->n[id - 1] == 0 || --refs->n[id - 1])
		return 0;
	return retain_delete(p, which, id, 0);
}

static int retain_drop_row(struct retain *p, const struct chunk *c)
{
	struct store_retained *done = &p->s->retain.done;
	int r = 0;

	if (!p->dry) {
		r = retain_delete(p, RETAIN_DROP_CHUNK, c->series, c->ordinal);
		if (r == 0)
			r = retain_release(p, RETAIN_DROP_PACK, &p->packs, c->pack);
		if (r == 0)
			r = retain_release(p, RETAIN_DROP_AXIS, &p->axes, c->axis);
	}
	if (r < 0)
		return r;
	p->dropped++;
	done->chunks++;
	done->points += c->n;
	done->bytes += c->len;
	return 0;
}

/* Does it stay? So does what was folded since the pass began: who else refers to its
 * pack is not known. */
static bool retain_is_kept(const struct retain *p, const struct retain_row *row)
{
	return row->is_last || row->end >= p->before || row->c.pack > p->packs.last ||
	       row->c.axis > p->axes.last;
}

/* Delete some chunks, in the transaction that is open. 1: there are more. */
static int retain_drop(struct retain *p)
{
	uint32_t stays = 0; /* series whose other chunks are younger */
	size_t i, n;
	int r = retain_next(p, &n);

	for (i = 0; r == 0 && i < n; i++) {
		const struct retain_row *row = &p->rows[i];

		if (retain_is_kept(p, row))
			stays = row->c.series;
		else if (row->c.series != stays)
			r = retain_drop_row(p, &row->c);
	}
	if (stays == p->series)
		p->ordinal = INT64_MAX;
	return r < 0 ? r : n > 0;
}

/* ---- what is due ------------------------------------------------------------------------ */

struct retain_size {
	int64_t page, pages, free; /* bytes of one; all; free ones */
};

static int retain_measure(struct store *s, struct err *e, struct retain_size *ret)
{
	int r = db_int(s->db, "PRAGMA page_size", e, &ret->page);

	if (r == 0)
		r = db_int(s->db, "PRAGMA page_count", e, &ret->pages);
	return r < 0 ? r : db_int(s->db, "PRAGMA freelist_count", e, &ret->free);
}

static uint64_t retain_used(const struct retain_size *z)
{
	return (uint64_t)(z->pages - z->free) * (uint64_t)z->page;
}

static bool retain_is_large(const struct retain_size *z, const struct store_limits *l)
{
	return l->max_bytes && retain_used(z) > l->max_bytes;
}

/* The moment before which raw points go. Of a file that is too large an eighth more
 * than need be, so that the next pass is not due at once. */
static int retain_decide(struct retain *p, const struct store_limits *l)
{
	uint64_t goal = l->max_bytes - l->max_bytes / 8;
	struct retain_size z;
	int64_t before;
	double share;
	int r = retain_measure(p->s, p->e, &z);

	if (r < 0)
		return r;
	p->before = l->keep_raw_ns ? store_utc_ns() - l->keep_raw_ns : INT64_MIN + 1;
	if (retain_is_large(&z, l) && p->all) {
		/* With a chunk goes its share of the axes. */
		share = (double)p->all / ((double)p->all + (double)p->axis_bytes);
		before = retain_span_before(&p->span, (double)(retain_used(&z) - goal) * share);
		p->before = before > p->before ? before : p->before;
	}
	retain_rewind(p);
	return 0;
}

static int64_t retain_age_period(const struct store_limits *l)
{
	int64_t period = l->keep_raw_ns / RETAIN_AGE_PARTS;

	if (period < RETAIN_AGE_MIN_NS)
		return RETAIN_AGE_MIN_NS;
	return period > RETAIN_AGE_MAX_NS ? RETAIN_AGE_MAX_NS : period;
}

/* Until the time is up or the phase is done. 1: more of it. */
static int retain_work(struct retain *p, int (*step)(struct retain *p), int64_t until)
{
	int r;

	do
		r = step(p);
	while (r > 0 && store_mono_ns() < until);
	return r;
}

static void retain_finish(struct store *s, const struct store_limits *l)
{
	int64_t now = store_mono_ns();

	/* Nothing may go until something is folded. */
	if (s->retain.pass->dropped == 0)
		s->retain.pack = s->retain.pass->packs.last;
	s->retain.age_ns = now + retain_age_period(l);
	retain_stop(&s->retain);
}

/* Delete for a slice, in one transaction. */
static int retain_drop_slice(struct retain *p, int64_t until)
{
	struct store_retained before = p->s->retain.done;
	int code, r = db_run(p->s->sql[SQL_BEGIN], "beginning retention", p->e);

	if (r == 0)
		r = retain_work(p, retain_drop, until);
	if (r >= 0) {
		code = db_run(p->s->sql[SQL_COMMIT], "committing retention", p->e);
		r = code < 0 ? code : r;
	}
	if (r < 0)
		p->s->retain.done = before;
	return r;
}

/* A slice of the pass. 1: more of it. */
static int retain_slice(struct store *s, const struct store_limits *l, struct err *e, int64_t until)
{
	struct retain *p = s->retain.pass;
	int r;

	p->e = e;
	if (p->before == INT64_MIN) {
		r = retain_work(p, retain_look, until);
		if (r == 0)
			r = retain_decide(p, l);
		return r < 0 ? r : 1;
	}
	r = retain_drop_slice(p, until);
	if (r == 0)
		retain_finish(s, l);
	return r < 0 ? r : 1; /* the file may be cut now */
}

/* Should the file be cut? Looking for a free page takes longer the more there are: so
 * what a pass frees is given back as it goes; what folds free is used again. */
static bool retain_is_loose(const struct store *s, const struct retain_size *z,
			    const struct store_limits *l)
{
	if (s->retain.pass && z->free > s->retain.pass->free + RETAIN_FREE_MAX)
		return true;
	return l->max_bytes && z->free && (uint64_t)z->pages * (uint64_t)z->page > l->max_bytes;
}

/* Give free pages back, in one transaction, down to as many as the pass found. */
static int retain_shrink(struct store *s, const struct store_limits *l, struct retain_size *z,
			 int64_t until, struct err *e)
{
	int64_t keep = s->retain.pass ? s->retain.pass->free : 0;
	bool more = true;
	char sql[64];
	int r = db_run(s->sql[SQL_BEGIN], "beginning to cut the file", e);

	sqlite3_snprintf(sizeof(sql), sql, "PRAGMA incremental_vacuum(%d)", RETAIN_PAGES);
	while (r == 0 && more) {
		r = db_exec(s->db, sql, e);
		if (r == 0)
			r = retain_measure(s, e, z);
		more = retain_is_loose(s, z, l) || (s->retain.pass && z->free > keep);
		if (store_mono_ns() >= until)
			break;
	}
	if (r == 0)
		r = db_run(s->sql[SQL_COMMIT], "cutting the file", e);
	return r;
}

static int retain_step(struct store *s, const struct store_limits *l, struct err *e)
{
	int64_t now = store_mono_ns(), until = now + RETAIN_SLICE_NS;
	struct retain_size z;
	bool due;
	int r = retain_measure(s, e, &z);

	if (r < 0)
		return r;
	if (retain_is_loose(s, &z, l)) {
		r = retain_shrink(s, l, &z, until, e);
		return r < 0 ? r : 1;
	}
	if (s->retain.pass)
		return retain_slice(s, l, e, until);
	due = l->keep_raw_ns && now >= s->retain.age_ns;
	due = due || (retain_is_large(&z, l) && now >= s->retain.size_ns &&
		      s->meta[META_PACK] != s->retain.pack);
	if (!due)
		return 0;
	r = retain_new(s, e);
	if (r == 0)
		s->retain.pass->free = z.free;
	return r < 0 ? r : 1;
}

/* What a failed slice has counted is no longer true: the pass begins anew. */
static void retain_fail(struct store *s)
{
	retain_stop(&s->retain);
	s->retain.age_ns = s->retain.size_ns = store_mono_ns() + RETAIN_AGAIN_NS;
}

int store_retain(struct store *s, const struct store_limits *l, struct err *e)
{
	int r;

	if (!l->keep_raw_ns && !l->max_bytes)
		return 0;
	if (s->corrupt)
		return err_set(e, -EUCLEAN, "%s is corrupt; close and open it again", s->path);
	r = retain_step(s, l, e);
	if (r < 0) {
		retain_fail(s);
		store_abort(s, r);
	}
	return r;
}

void store_retained(const struct store *s, struct store_retained *out)
{
	*out = s->retain.done;
}

/* ---- only looking ------------------------------------------------------------------- */

static int retain_dry(struct store *s, const struct store_limits *l, struct err *e)
{
	int r = retain_new(s, e);

	if (r < 0)
		return r;
	s->retain.pass->dry = true;
	r = retain_work(s->retain.pass, retain_look, INT64_MAX);
	if (r == 0)
		r = retain_decide(s->retain.pass, l);
	if (r == 0)
		r = retain_work(s->retain.pass, retain_drop, INT64_MAX);
	if (r == 0 && s->retain.pass->all)
		s->retain.done.bytes += (uint64_t)((double)s->retain.done.bytes *
						   (double)s->retain.pass->axis_bytes /
						   (double)s->retain.pass->all);
	retain_stop(&s->retain);
	return r;
}

int store_retain_look(const char *db_path, const struct store_limits *l, struct err *e,
		      struct store_retained *ret)
{
	struct store *s = xcalloc(1, sizeof(*s)); /* as much of one as a pass needs */
	struct buf warning;
	int r;

	buf_init(&warning, 4096);
	blob_codec_init(&s->codec);
	column_codec_init(&s->columns);
	s->path = xstrdup(db_path);
	r = db_open_reader(db_path, &warning, e, &s->db);
	if (r == 0)
		r = db_exec(s->db, "BEGIN", e);
	if (r == 0)
		r = store_meta_read(s->db, e, s->meta);
	if (r == 0)
		r = retain_dry(s, l, e);
	if (r == 0)
		*ret = s->retain.done;
	sqlite3_close_v2(s->db);
	blob_codec_done(&s->codec);
	column_codec_done(&s->columns);
	buf_done(&warning);
	free(s->path);
	free(s);
	return r;
}
