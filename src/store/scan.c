/* SPDX-License-Identifier: Apache-2.0
 *
 * scan.c - reading the points of a series: first its chunks, then what is not
 * folded. The rows of the chunks and the tail are taken in one transaction; a
 * chunk's data are read later, one by one, which is safe since a chunk that is
 * written again only grows at its end.
 */
#include "base/mem.h"
#include "store/store_priv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Steps that a segment has. */
struct scan_cover {
	int64_t min, max; /* SINK_STEP_NONE: none */
};

struct scan {
	struct store_reader *r;
	struct hosts_one *h;
	struct err *e;
	const struct store_range *range;
	int (*fn)(void *arg, const struct store_point *p);
	void *arg;
	uint32_t series;
	enum sink_kind kind;
	struct chunk *chunks;
	size_t n_chunks, cap_chunks;
	struct scan_cover *covers; /* of each segment */
	size_t n_covers, cap_covers;
	struct points points;
	struct hists hists;
};

static void scan_cover(struct scan *s, uint32_t segment, int64_t min, int64_t max)
{
	struct scan_cover *c;

	while (s->n_covers <= segment) {
		s->covers = xgrow(s->covers, s->n_covers, &s->cap_covers, sizeof(*s->covers));
		s->covers[s->n_covers++] = (struct scan_cover){SINK_STEP_NONE, SINK_STEP_NONE};
	}
	if (min == SINK_STEP_NONE)
		return;
	c = &s->covers[segment];
	if (c->min == SINK_STEP_NONE || min < c->min)
		c->min = min;
	if (c->max == SINK_STEP_NONE || max > c->max)
		c->max = max;
}

/* Does a newer segment have the step? Then its points are shown instead. */
static bool scan_is_repeated(const struct scan *s, uint32_t segment, int64_t step)
{
	size_t i;

	if (s->range->all_segments || step == SINK_STEP_NONE)
		return false;
	for (i = (size_t)segment + 1; i < s->n_covers; i++)
		if (s->covers[i].min != SINK_STEP_NONE && step >= s->covers[i].min &&
		    step <= s->covers[i].max)
			return true;
	return false;
}

static bool scan_wants_chunk(const struct scan *s, const struct chunk *c)
{
	const struct store_range *g = s->range;

	if (g->by_time && (c->time_max < g->time_min || c->time_min > g->time_max))
		return false;
	return !g->by_step || (c->step_max != SINK_STEP_NONE && c->step_max >= g->step_min &&
			       c->step_min <= g->step_max);
}

static int scan_give(const struct scan *s, const struct store_point *p)
{
	const struct store_range *g = s->range;

	if (g->by_time && (p->time_ns < g->time_min || p->time_ns > g->time_max))
		return 0;
	if (g->by_step &&
	    (p->step == SINK_STEP_NONE || p->step < g->step_min || p->step > g->step_max))
		return 0;
	return scan_is_repeated(s, p->segment, p->step) ? 0 : s->fn(s->arg, p);
}

static int scan_give_point(const struct scan *s, size_t i, uint32_t segment)
{
	const struct points *in = &s->points;
	const struct store_point p = {
		in->time[i], in->step[i], in->value[i], (uint32_t)in->thread[i], segment, NULL};

	return scan_give(s, &p);
}

static int scan_give_hist(const struct scan *s, size_t i, uint32_t segment)
{
	const struct hists_row *row = &s->hists.rows[i];
	const struct sink_hist h = {.series = s->series,
				    .time_ns = row->time,
				    .step = row->step,
				    .count = row->count,
				    .nan = row->nan,
				    .sum = row->sum,
				    .min = row->min,
				    .max = row->max,
				    .bins = s->hists.bins + row->bins,
				    .n_bins = row->n_bins};
	const struct store_point p = {
		row->time, row->step, row->count ? row->sum / (double)row->count : NAN,
		0,         segment,   &h};

	return scan_give(s, &p);
}

/* ---- what there is --------------------------------------------------------------- */

static int scan_load_kind(struct scan *s)
{
	sqlite3_stmt *st;
	int rc, r = db_prepare(s->h->db, "SELECT kind FROM series WHERE id = ?1", s->e, &st);

	if (r < 0)
		return r;
	sqlite3_bind_int64(st, 1, s->series);
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		s->kind = (enum sink_kind)sqlite3_column_int(st, 0);
	else if (rc == SQLITE_DONE)
		r = err_set(s->e, -ENOENT, "%s: no series %u", s->h->path, s->series);
	else
		r = db_fail(s->h->db, rc, "reading table series", s->e);
	sqlite3_finalize(st);
	return r;
}

static int scan_load_chunks(struct scan *s)
{
	struct chunk c;
	sqlite3_stmt *st;
	int rc, r;

	r = db_prepare(s->h->db,
		       "SELECT " CHUNKROW_COLUMNS " FROM chunk WHERE series = ?1 ORDER BY ordinal",
		       s->e, &st);
	if (r < 0)
		return r;
	sqlite3_bind_int64(st, 1, s->series);
	while (r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		r = chunkrow_read(st, s->h->path, s->e, &c);
		if (r < 0)
			break;
		s->chunks = xgrow(s->chunks, s->n_chunks, &s->cap_chunks, sizeof(*s->chunks));
		s->chunks[s->n_chunks++] = c;
		scan_cover(s, c.segment.no, c.step_min, c.step_max);
	}
	if (r == 0 && rc != SQLITE_DONE)
		r = db_fail(s->h->db, rc, "reading table chunk", s->e);
	sqlite3_finalize(st);
	return r;
}

static int scan_load(struct scan *s)
{
	int r = hosts_begin(s->h, s->e);

	if (r == 0)
		r = scan_load_kind(s);
	if (r == 0)
		r = scan_load_chunks(s);
	if (r == 0)
		r = hosts_sync_tail(s->r, s->h, s->e);
	hosts_end(s->h);
	return r;
}

/* ---- chunks ------------------------------------------------------------------------ */

static int scan_read_chunk(struct scan *s, const struct chunk *c, sqlite3_stmt *st)
{
	const struct blob_id id = {s->h->path, "chunk", c->series, c->ordinal};
	struct blob blob;
	int rc, r;

	s->points.n = 0;
	hists_reset(&s->hists);
	sqlite3_bind_int64(st, 1, c->data);
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		r = blob_open(&s->r->codec, &id, sqlite3_column_blob(st, 0),
			      (size_t)sqlite3_column_bytes(st, 0), s->e, &blob);
	else if (rc == SQLITE_DONE)
		r = blob_bad(&id, s->e, 0, "its data is missing");
	else
		r = db_fail(s->h->db, rc, "reading a chunk", s->e);
	if (r == 0)
		r = s->kind == SINK_HISTOGRAM ? chunk_decode_hists(&id, &blob, s->e, &s->hists)
					      : chunk_decode_points(&id, &blob, s->e, &s->points);
	if (r == 0 && blob.count < c->n)
		r = blob_bad(&id, s->e, 12, "fewer points than its row states");
	sqlite3_reset(st);
	return r;
}

static int scan_chunks(struct scan *s)
{
	sqlite3_stmt *st;
	size_t i, k;
	int r;

	r = db_prepare(s->h->db, "SELECT blob FROM chunk_data WHERE id = ?1", s->e, &st);
	for (i = 0; r == 0 && i < s->n_chunks; i++) {
		const struct chunk *c = &s->chunks[i];

		if (!scan_wants_chunk(s, c))
			continue;
		r = scan_read_chunk(s, c, st);
		for (k = 0; r == 0 && k < c->n; k++)
			r = s->kind == SINK_HISTOGRAM ? scan_give_hist(s, k, c->segment.no)
						      : scan_give_point(s, k, c->segment.no);
	}
	sqlite3_finalize(st);
	return r;
}

/* ---- the tail ------------------------------------------------------------------------- */

/* One block: note the steps of its segments, or give its points. */
static int scan_block(struct scan *s, struct segment *at, bool give)
{
	bool is_hist = s->kind == SINK_HISTOGRAM;
	size_t i, n = is_hist ? s->hists.n : s->points.n;
	int r = 0;

	for (i = 0; r == 0 && i < n; i++) {
		int64_t time = is_hist ? s->hists.rows[i].time : s->points.time[i];
		int64_t step = is_hist ? s->hists.rows[i].step : s->points.step[i];

		if (s->kind == SINK_SPAN)
			time = segment_span_end(time, s->points.value[i]);
		segment_next(at, time, step);
		if (!give)
			scan_cover(s, at->no, step, step);
		else
			r = is_hist ? scan_give_hist(s, i, at->no) : scan_give_point(s, i, at->no);
	}
	return r;
}

static int scan_row(struct scan *s, const struct hosts_tail *row, struct segment *at, bool give)
{
	const struct blob_id id = {s->h->path, "tail", row->seq, 0};
	bool is_hist = s->kind == SINK_HISTOGRAM;
	struct tail_block block;
	struct tail_walk w;
	int r = tail_begin(&w, &id, &row->blob, s->e);

	while (r == 0 && (r = tail_block(&w, &block)) > 0) {
		r = 0;
		if (block.is_hist != is_hist || block.series < s->series)
			continue;
		if (block.series > s->series)
			break;
		s->points.n = 0;
		hists_reset(&s->hists);
		r = is_hist ? tail_hists(&w, &block, &s->hists)
			    : tail_points(&w, &block, &s->points);
		return r < 0 ? r : scan_block(s, at, give);
	}
	return r;
}

static int scan_tail(struct scan *s, bool give)
{
	struct segment at = {.step = SINK_STEP_NONE};
	size_t i;
	int r = 0;

	if (s->n_chunks)
		at = s->chunks[s->n_chunks - 1].segment;
	for (i = 0; r == 0 && i < s->h->n_tail; i++)
		r = scan_row(s, &s->h->tail[i], &at, give);
	return r;
}

int store_reader_points(struct store_reader *r, unsigned host, uint32_t series,
			const struct store_range *range,
			int (*fn)(void *arg, const struct store_point *p), void *arg, struct err *e)
{
	static const struct store_range everything;
	struct scan s = {.r = r,
			 .e = e,
			 .range = range ? range : &everything,
			 .fn = fn,
			 .arg = arg,
			 .series = series};
	int code;

	if (host >= r->n_hosts)
		return err_set(e, -EINVAL, "host %u of %zu: no such file in the run", host,
			       r->n_hosts);
	s.h = &r->hosts[host];
	code = scan_load(&s);
	if (code == 0 && !s.range->all_segments)
		code = scan_tail(&s, false);
	if (code == 0)
		code = scan_chunks(&s);
	if (code == 0)
		code = scan_tail(&s, true);
	free(s.chunks);
	free(s.covers);
	points_done(&s.points);
	hists_done(&s.hists);
	return code;
}
