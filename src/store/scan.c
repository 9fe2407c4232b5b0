/* SPDX-License-Identifier: Apache-2.0
 *
 * scan.c - reading the points of a series: first its chunks, then its tail. The
 * rows of the chunks, their summaries and the tail are taken in one transaction;
 * a chunk's data are read later, one by one, which is safe since a chunk never
 * changes; it may only go.
 */
#include "base/mem.h"
#include "store/hosts.h"

#include <errno.h>
#include <stdlib.h>

/* Steps that a segment has. */
struct scan_cover {
	int64_t min, max; /* SINK_STEP_NONE: none */
};

/* A chunk and what its summary says. */
struct scan_chunk {
	struct chunk c;
	int64_t time_min, time_max, step_min, step_max;
};

struct scan {
	struct store_reader *r;
	struct hosts_one *h;
	struct err *e;
	const struct store_range *range;
	int (*fn)(void *arg, const struct store_point *p);    /* either this */
	int (*block)(void *arg, const struct store_block *b); /* or this */
	void *arg;
	uint32_t series;
	enum sink_kind kind;
	struct scan_chunk *chunks;
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

static bool scan_wants_chunk(const struct scan *s, const struct scan_chunk *c)
{
	const struct store_range *g = s->range;

	if (g->by_time && (c->time_max < g->time_min || c->time_min > g->time_max))
		return false;
	return !g->by_step || (c->step_max != SINK_STEP_NONE && c->step_max >= g->step_min &&
			       c->step_min <= g->step_max);
}

static bool scan_wants(const struct scan *s, uint32_t segment, int64_t time, int64_t step)
{
	const struct store_range *g = s->range;

	if (g->by_time && (time < g->time_min || time > g->time_max))
		return false;
	if (g->by_step && (step == SINK_STEP_NONE || step < g->step_min || step > g->step_max))
		return false;
	return !scan_is_repeated(s, segment, step);
}

/* Of the points of v those that are wanted, copied to s->points, which may be where v
 * is. */
static void scan_filter(struct scan *s, uint32_t segment, struct points_view *v)
{
	const struct store_range *g = s->range;
	struct points *p = &s->points;
	size_t i, to = 0;

	if (!g->by_time && !g->by_step && (g->all_segments || segment + 1 >= s->n_covers))
		return;
	for (i = 0; i < v->n; i++) {
		if (!scan_wants(s, segment, v->time[i], v->step[i]))
			continue;
		p->time[to] = v->time[i];
		p->step[to] = v->step[i];
		p->thread[to] = v->thread[i];
		p->value[to++] = v->value[i];
	}
	*v = points_slice(p, 0, to);
}

/* Points of one segment. */
static int scan_give_points(struct scan *s, uint32_t segment, const struct points_view *all)
{
	struct points_view v = *all;
	size_t i;
	int r = 0;

	scan_filter(s, segment, &v);
	if (s->block) {
		const struct store_block b = {v.n, v.time, v.step, v.thread, v.value, segment};

		return v.n ? s->block(s->arg, &b) : 0;
	}
	for (i = 0; r == 0 && i < v.n; i++) {
		const struct store_point p = {
			v.time[i], v.step[i], v.value[i], (uint32_t)v.thread[i], segment, NULL};

		r = s->fn(s->arg, &p);
	}
	return r;
}

static int scan_give_hist(const struct scan *s, size_t i, uint32_t segment)
{
	struct sink_hist h;
	double mean = hists_get(&s->hists, i, s->series, &h);
	const struct store_point p = {h.time_ns, h.step, mean, 0, segment, &h};

	return scan_wants(s, segment, h.time_ns, h.step) ? s->fn(s->arg, &p) : 0;
}

/* ---- what there is --------------------------------------------------------------- */

static int scan_load_kind(struct scan *s)
{
	sqlite3_stmt *st;
	int rc, r = hosts_sql(s->h, HOSTS_KIND, s->e, &st);

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
	hosts_sql_end(s->h, HOSTS_KIND, st);
	return r;
}

static int scan_load_chunks(struct scan *s)
{
	struct chunk c;
	sqlite3_stmt *st;
	int rc, r;

	r = hosts_sql(s->h, HOSTS_CHUNKS, s->e, &st);
	if (r < 0)
		return r;
	sqlite3_bind_int64(st, 1, s->series);
	while (r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		r = chunkrow_read(st, s->h->path, s->e, &c);
		if (r < 0)
			break;
		s->chunks = xgrow(s->chunks, s->n_chunks, &s->cap_chunks, sizeof(*s->chunks));
		s->chunks[s->n_chunks++] = (struct scan_chunk){.c = c};
	}
	if (r == 0 && rc != SQLITE_DONE)
		r = db_fail(s->h->db, rc, "reading table chunk", s->e);
	hosts_sql_end(s->h, HOSTS_CHUNKS, st);
	return r;
}

/* One page of level 1, whose first node is of chunk `first`: into the chunks. */
static size_t scan_take_page(struct scan *s, const struct summary *nodes, size_t n, uint64_t first,
			     size_t at)
{
	for (; at < s->n_chunks; at++) {
		struct scan_chunk *c = &s->chunks[at];
		const struct summary *node;

		if (c->c.ordinal < first || c->c.ordinal >= first + n)
			break;
		node = &nodes[c->c.ordinal - first];
		c->time_min = node->time_min;
		c->time_max = node->time_max;
		c->step_min = node->step_min;
		c->step_max = node->step_max;
		scan_cover(s, c->c.segment.no, node->step_min, node->step_max);
	}
	return at;
}

static int scan_load_nodes(struct scan *s)
{
	struct summary *nodes;
	struct sumtree_db db = {
		.path = s->h->path, .codec = &s->r->codec, .columns = &s->r->columns};
	size_t n = 0, at = 0, before;
	int r = 0;

	if (s->n_chunks == 0)
		return 0;
	nodes = xcalloc(SUMMARY_PAGE, sizeof(*nodes));
	r = hosts_sql(s->h, HOSTS_SUMMARY, s->e, &db.get);
	while (r == 0 && at < s->n_chunks) {
		uint64_t page = s->chunks[at].c.ordinal / SUMMARY_PAGE;

		before = at;
		r = sumtree_get(&db, summary_id(s->series, 1, page), s->e, nodes, &n);
		if (r == 0)
			at = scan_take_page(s, nodes, n, page * SUMMARY_PAGE, at);
		if (r == 0 && at == before)
			r = err_set(s->e, -EUCLEAN, "%s: table summary: series %u lacks chunks",
				    s->h->path, s->series);
	}
	hosts_sql_end(s->h, HOSTS_SUMMARY, db.get);
	free(nodes);
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
		r = scan_load_nodes(s);
	if (r == 0)
		r = hosts_sync_tail(s->r, s->h, s->e);
	hosts_end(s->h);
	return r;
}

/* ---- chunks ------------------------------------------------------------------------ */

/* The points of a chunk, by its row as it is now: since the row was read, retention
 * may have deleted it, or its data moved. 1, or 0: it is gone. */
static int scan_read_chunk(struct scan *s, struct chunkdata *d, sqlite3_stmt *st, struct chunk *c,
			   struct points_view *ret)
{
	bool is_hist = s->kind == SINK_HISTOGRAM;
	int rc, r = hosts_begin(s->h, s->e);

	if (r < 0)
		return r;
	s->points.n = 0;
	hists_reset(&s->hists);
	sqlite3_bind_int64(st, 1, s->series);
	sqlite3_bind_int64(st, 2, c->ordinal);
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		r = chunkrow_read(st, s->h->path, s->e, c);
	else if (rc != SQLITE_DONE)
		r = db_fail(s->h->db, rc, "reading table chunk", s->e);
	sqlite3_reset(st);
	if (r == 0 && rc == SQLITE_ROW)
		r = is_hist ? chunkdata_read(d, c, true, s->e, NULL, &s->hists)
			    : chunkdata_view(d, c, s->e, &s->points, ret);
	chunkdata_end(d); /* the caller's function may take its time */
	hosts_end(s->h);
	return r < 0 ? r : rc == SQLITE_ROW;
}

static int scan_chunks(struct scan *s)
{
	bool is_hist = s->kind == SINK_HISTOGRAM;
	sqlite3_stmt *st = NULL;
	struct chunkdata d;
	struct points_view v;
	size_t i, k;
	int r;

	chunkdata_init(&d, s->h->db, s->h->path, &s->r->codec, &s->r->columns, &s->h->axes);
	r = hosts_sql(s->h, HOSTS_CHUNK, s->e, &st);
	for (i = 0; r == 0 && i < s->n_chunks; i++) {
		struct chunk *c = &s->chunks[i].c;

		if (!scan_wants_chunk(s, &s->chunks[i]))
			continue;
		r = scan_read_chunk(s, &d, st, c, &v);
		if (r <= 0)
			continue;
		r = is_hist ? 0 : scan_give_points(s, c->segment.no, &v);
		for (k = 0; is_hist && r == 0 && k < c->n; k++)
			r = scan_give_hist(s, k, c->segment.no);
	}
	hosts_sql_end(s->h, HOSTS_CHUNK, st);
	chunkdata_done(&d);
	return r;
}

/* ---- the tail ------------------------------------------------------------------------- */

/* Of point i of what was decoded: when it was recorded, its step. */
static int64_t scan_when(const struct scan *s, size_t i, int64_t *step)
{
	if (s->kind == SINK_HISTOGRAM) {
		*step = s->hists.rows[i].step;
		return s->hists.rows[i].time;
	}
	*step = s->points.step[i];
	if (s->kind == SINK_SPAN)
		return segment_span_end(s->points.time[i], s->points.value[i]);
	return s->points.time[i];
}

/* Note the steps of a block's segments. */
static void scan_cover_block(struct scan *s, struct segment *at, size_t n)
{
	int64_t time, step;
	size_t i;

	for (i = 0; i < n; i++) {
		time = scan_when(s, i, &step);
		segment_next(at, time, step);
		scan_cover(s, at->no, step, step);
	}
}

/* Give a block's points, those of a segment together. */
static int scan_give_block(struct scan *s, struct segment *at, size_t n)
{
	bool is_hist = s->kind == SINK_HISTOGRAM;
	uint32_t segment = at->no;
	struct points_view v;
	size_t i, from = 0;
	int64_t time, step;
	int r = 0;

	for (i = 0; r == 0 && i < n; i++) {
		time = scan_when(s, i, &step);
		segment_next(at, time, step);
		if (is_hist) {
			r = scan_give_hist(s, i, at->no);
		} else if (at->no != segment) {
			v = points_slice(&s->points, from, i - from);
			r = scan_give_points(s, segment, &v);
			from = i;
			segment = at->no;
		}
	}
	if (r || is_hist)
		return r;
	v = points_slice(&s->points, from, n - from);
	return scan_give_points(s, segment, &v);
}

static int scan_tail(struct scan *s, bool give)
{
	struct segment at = {.step = SINK_STEP_NONE};
	bool is_hist = s->kind == SINK_HISTOGRAM;
	size_t i, n;
	int r = 0;

	if (s->n_chunks)
		at = s->chunks[s->n_chunks - 1].c.segment;
	for (i = 0; r == 0 && i < s->h->n_tail; i++) {
		s->points.n = 0;
		hists_reset(&s->hists);
		r = hosts_points(s->r, s->h, &s->h->tail[i], s->series, is_hist, s->e, &s->points,
				 &s->hists);
		n = is_hist ? s->hists.n : s->points.n;
		if (r == 0 && give)
			r = scan_give_block(s, &at, n);
		else if (r == 0)
			scan_cover_block(s, &at, n);
	}
	return r;
}

static int scan_run(struct scan *s, unsigned host)
{
	int code;

	if (host >= s->r->n_hosts)
		return err_set(s->e, -EINVAL, "host %u of %zu: no such file in the run", host,
			       s->r->n_hosts);
	s->h = &s->r->hosts[host];
	code = scan_load(s);
	if (code == 0 && s->block && s->kind == SINK_HISTOGRAM)
		code = err_set(s->e, -EINVAL, "%s: series %u has histograms, no values", s->h->path,
			       s->series);
	if (code == 0 && !s->range->all_segments)
		code = scan_tail(s, false);
	if (code == 0)
		code = scan_chunks(s);
	if (code == 0)
		code = scan_tail(s, true);
	free(s->chunks);
	free(s->covers);
	points_done(&s->points);
	hists_done(&s->hists);
	return code;
}

static const struct store_range scan_everything;

int store_reader_points(struct store_reader *r, unsigned host, uint32_t series,
			const struct store_range *range,
			int (*fn)(void *arg, const struct store_point *p), void *arg, struct err *e)
{
	struct scan s = {.r = r,
			 .e = e,
			 .range = range ? range : &scan_everything,
			 .fn = fn,
			 .arg = arg,
			 .series = series};

	return scan_run(&s, host);
}

int store_reader_blocks(struct store_reader *r, unsigned host, uint32_t series,
			const struct store_range *range,
			int (*fn)(void *arg, const struct store_block *b), void *arg, struct err *e)
{
	struct scan s = {.r = r,
			 .e = e,
			 .range = range ? range : &scan_everything,
			 .block = fn,
			 .arg = arg,
			 .series = series};

	return scan_run(&s, host);
}
