/* SPDX-License-Identifier: Apache-2.0
 *
 * verify_tree.c - checks chunks and summary trees: rows follow each other, the
 * figures of a leaf are those of its points, those of a node its children's.
 */
#include "store/verify_priv.h"

#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One level of the tree of a series, all of it. */
struct verify_level {
	struct summary *nodes;
	size_t n, cap;
};

/* A page of leaves or quarters. */
struct verify_parts {
	unsigned level;
	uint64_t page; /* UINT64_MAX: none */
	struct summary nodes[SUMMARY_PAGE];
	size_t n;
	size_t at; /* first node of the next chunk in it */
};

struct verify_tree {
	struct verify *v;
	struct sumtree_db db;
	struct chunkdata data;
	struct chunk before;       /* series 0: none */
	uint32_t series;           /* whose tree is in level, if has_tree */
	bool has_tree, broken;     /* some tree could not be read */
	struct verify_level level; /* of the chunks, as stored */
	struct verify_parts leaves, quarters;
	int64_t pages; /* of the table summary, read so far */
};

static int verify_bad(const struct verify_tree *t, uint32_t series, const char *what)
{
	return err_set(t->v->e, -EUCLEAN, "%s: table summary, series %u: %s", t->v->path, series,
		       what);
}

static bool verify_is_same(double a, double b)
{
	return a == b || (isnan(a) && isnan(b));
}

static bool verify_is_values(const struct summary *a, const struct summary *b)
{
	return verify_is_same(a->sum, b->sum) && verify_is_same(a->min, b->min) &&
	       verify_is_same(a->max, b->max) && a->min_at == b->min_at && a->max_at == b->max_at &&
	       verify_is_same(a->first, b->first) && verify_is_same(a->last, b->last);
}

static bool verify_is_node(const struct summary *a, const struct summary *b)
{
	return a->n == b->n && a->nan == b->nan && a->observed == b->observed &&
	       verify_is_values(a, b) && a->time_min == b->time_min && a->time_max == b->time_max &&
	       a->step_min == b->step_min && a->step_max == b->step_max &&
	       a->segment_min == b->segment_min && a->segment_max == b->segment_max &&
	       a->mixed == b->mixed;
}

/* Add page `page` of a level to l. */
static int verify_page(struct verify_tree *t, uint32_t series, unsigned k, uint64_t page,
		       struct verify_level *l)
{
	size_t n = 0;
	int r;

	if (l->n + SUMMARY_PAGE > l->cap) {
		l->cap = 2 * l->cap + SUMMARY_PAGE;
		l->nodes = xrealloc(l->nodes, l->cap, sizeof(*l->nodes));
	}
	r = sumtree_get(&t->db, summary_id(series, k, page), t->v->e, l->nodes + l->n, &n);
	l->n += n;
	t->pages += r == 0;
	return r;
}

/* All n nodes of a level. */
static int verify_load(struct verify_tree *t, uint32_t series, unsigned k, uint64_t n,
		       struct verify_level *l)
{
	uint64_t page, pages = (n + SUMMARY_PAGE - 1) / SUMMARY_PAGE;
	int r = 0;

	l->n = 0;
	for (page = 0; r == 0 && page < pages; page++) {
		r = verify_page(t, series, k, page, l);
		if (r == 0 && l->n != (page + 1 < pages ? (page + 1) * SUMMARY_PAGE : n))
			r = verify_bad(t, series, "a page has another number of nodes");
	}
	return r;
}

/* The levels above that of the chunks, each from the one below. */
static int verify_upper(struct verify_tree *t, uint32_t series)
{
	struct verify_level below = t->level, l = {0};
	struct summary s;
	unsigned k;
	size_t i, c;
	int r = 0;

	for (k = 2; r == 0 && k < SUMMARY_LEVELS && below.n > SUMMARY_FAN; k++) {
		r = verify_load(t, series, k, (below.n + SUMMARY_FAN - 1) / SUMMARY_FAN, &l);
		for (i = 0; r == 0 && i < l.n; i++) {
			s.n = 0;
			for (c = i * SUMMARY_FAN; c < below.n && c < (i + 1) * SUMMARY_FAN; c++)
				summary_join(&s, &below.nodes[c]);
			if (!verify_is_node(&s, &l.nodes[i]))
				r = verify_bad(t, series, "a node is not the sum of its children");
		}
		if (below.nodes != t->level.nodes)
			free(below.nodes);
		below = l;
		l = (struct verify_level){0};
	}
	if (below.nodes != t->level.nodes)
		free(below.nodes);
	free(l.nodes);
	return r;
}

/* ---- chunks -------------------------------------------------------------------------- */

/* A page of leaves or quarters, at least one chunk of which is known. */
static int verify_parts_page(struct verify_tree *t, struct verify_parts *p, uint32_t series,
			     uint64_t page)
{
	bool is_hist = t->v->kinds[series - 1] == SINK_HISTOGRAM;
	uint64_t each = sumtree_part_chunks(p->level), first = page * each;
	size_t n = t->level.n - first < each ? t->level.n - first : each;
	int r;

	p->page = page;
	p->n = 0;
	r = sumtree_get_parts(&t->db, series, p->level, is_hist, page, &t->level.nodes[first], n,
			      t->v->e, p->nodes, &p->n);
	t->pages += r == 0 && p->n > n;
	return r;
}

/* The page that a chunk is in, read; where the chunk's nodes are in it. */
static int verify_parts(struct verify_tree *t, struct verify_parts *p, const struct chunk *c)
{
	bool is_hist = t->v->kinds[c->series - 1] == SINK_HISTOGRAM;
	uint64_t each = sumtree_part_chunks(p->level), page = c->ordinal / each, i;
	int r = 0;

	if (page != p->page) {
		r = verify_parts_page(t, p, c->series, page);
		t->broken |= r < 0;
	}
	for (p->at = 0, i = page * each; i < c->ordinal; i++)
		p->at += sumtree_parts(p->level, is_hist, t->level.nodes[i].n);
	return r;
}

/* Is this the next node of a page? */
static bool verify_is_next(struct verify_parts *p, const struct summary *s)
{
	return p->at < p->n && verify_is_node(s, &p->nodes[p->at++]);
}

/* The figures of the chunk's points beside its leaves, its quarters and its node. */
static int verify_figures(struct verify_tree *t, const struct chunk *c)
{
	struct verify *v = t->v;
	bool is_hist = v->kinds[c->series - 1] == SINK_HISTOGRAM;
	size_t leaf = is_hist ? SUMMARY_LEAF_HISTS : SUMMARY_LEAF, i, n;
	struct summary s, quarter = {0}, whole = {0};
	struct points_view view;

	if (t->leaves.n == 0 || t->quarters.n == 0)
		return 0; /* its page cannot be read, which has been told */
	for (i = 0; i < c->n; i += n) {
		n = c->n - i < leaf ? c->n - i : leaf;
		if (is_hist) {
			summary_hists(&s, &v->hists, i, n, c->segment.no);
		} else {
			view = points_slice(&v->points, i, n);
			summary_points(&s, &view, c->segment.no);
		}
		if (!verify_is_next(&t->leaves, &s))
			return verify_bad(t, c->series, "a leaf is not what its points say");
		summary_join(&whole, &s);
		summary_join(&quarter, &s);
		if ((i / leaf + 1) % SUMMARY_QUARTER_LEAVES && i + n < c->n)
			continue;
		if (!verify_is_next(&t->quarters, &quarter))
			return verify_bad(t, c->series, "a quarter is not the sum of its leaves");
		quarter.n = 0;
	}
	if (!verify_is_node(&whole, &t->level.nodes[c->ordinal]))
		return verify_bad(t, c->series, "a node is not what its chunk's points say");
	return 0;
}

/* Do the points stay in one segment, and lead to where the row says? */
static bool verify_segment(const struct verify_tree *t, const struct chunk *c)
{
	const struct verify *v = t->v;
	bool is_hist = v->kinds[c->series - 1] == SINK_HISTOGRAM;
	struct segment s = {.step = SINK_STEP_NONE};
	size_t i;

	if (t->before.series == c->series)
		s = t->before.segment;
	else if (c->ordinal)
		return true; /* retention has dropped what came before */
	for (i = 0; i < c->n; i++) {
		int64_t time = is_hist ? v->hists.rows[i].time : v->points.time[i];
		int64_t step = is_hist ? v->hists.rows[i].step : v->points.step[i];

		if (v->kinds[c->series - 1] == SINK_SPAN)
			time = segment_span_end(time, v->points.value[i]);
		if (segment_next(&s, time, step) && i)
			return false;
	}
	return s.no == c->segment.no && s.step == c->segment.step &&
	       (s.step == SINK_STEP_NONE || s.time == c->segment.time);
}

/* The series' tree into t->level, and its upper levels held against it. */
static int verify_load_tree(struct verify_tree *t, uint32_t series)
{
	sqlite3_stmt *st;
	int64_t last = -1;
	int rc, r;

	r = db_prepare(t->v->db, "SELECT max(ordinal) FROM chunk WHERE series = ?1", t->v->e, &st);
	if (r < 0)
		return r;
	sqlite3_bind_int64(st, 1, series);
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		last = sqlite3_column_int64(st, 0);
	else
		r = db_fail(t->v->db, rc, "reading table chunk", t->v->e);
	sqlite3_finalize(st);
	if (r < 0)
		return r;
	if (last < 0 || last >= UINT32_MAX)
		return verify_bad(t, series, "impossible number of chunks");
	r = verify_load(t, series, 1, (uint64_t)last + 1, &t->level);
	return r < 0 ? r : verify_upper(t, series);
}

static int verify_begin_series(struct verify_tree *t, uint32_t series)
{
	uint64_t before = t->v->findings;
	int r;

	t->series = series;
	t->leaves.page = t->quarters.page = UINT64_MAX;
	r = verify_found(t->v, verify_load_tree(t, series), "summary", "series %u", series);
	t->has_tree = t->v->findings == before;
	t->broken |= !t->has_tree;
	return r;
}

/* Pages before c's, whose chunks retention has dropped. */
static int verify_dropped(struct verify_tree *t, struct verify_parts *p, const struct chunk *c)
{
	uint64_t page, before = c->ordinal / sumtree_part_chunks(p->level);
	int r = 0;

	for (page = 0; r == 0 && page < before; page++)
		r = verify_parts_page(t, p, c->series, page);
	return r;
}

static int verify_follows(struct verify_tree *t, const struct blob_id *id, const struct chunk *c)
{
	const struct chunk *b = &t->before;
	uint64_t start = 0, i;
	int r;

	if (b->series == c->series)
		return c->ordinal == b->ordinal + 1 && c->start == b->start + b->n
			       ? 0
			       : blob_bad(id, t->v->e, 0, "its row does not follow the one before");
	if (!t->has_tree)
		return 0;
	for (i = 0; i < c->ordinal; i++)
		start += t->level.nodes[i].n;
	if (c->start != start)
		return blob_bad(id, t->v->e, 0, "points before it are missing");
	r = verify_dropped(t, &t->leaves, c);
	return r < 0 ? r : verify_dropped(t, &t->quarters, c);
}

/* The points of c, and what its row and its tree say of them. */
static int verify_points(struct verify_tree *t, const struct blob_id *id, const struct chunk *c)
{
	struct verify *v = t->v;
	int r;

	v->points.n = 0;
	hists_reset(&v->hists);
	r = chunkdata_read(&t->data, c, v->kinds[c->series - 1] == SINK_HISTOGRAM, v->e, &v->points,
			   &v->hists);
	if (r == 0 && !verify_segment(t, c))
		r = blob_bad(id, v->e, 0, "its row states another segment");
	if (r < 0 || !t->has_tree)
		return r;
	r = verify_parts(t, &t->leaves, c);
	if (r == 0)
		r = verify_parts(t, &t->quarters, c);
	return r < 0 ? r : verify_figures(t, c);
}

static int verify_chunk(struct verify *v, sqlite3_stmt *st)
{
	struct verify_tree *t = v->tree;
	struct blob_id id = {v->path, "chunk", 0, 0};
	struct chunk c;
	int r = chunkrow_read(st, v->path, v->e, &c);

	if (r < 0)
		return r;
	id.a = c.series;
	id.b = c.ordinal;
	if (c.series > v->n_series || !v->kinds[c.series - 1])
		return blob_bad(&id, v->e, 0, "a series that is not defined");
	if (c.series != t->series)
		r = verify_begin_series(t, c.series);
	if (r == 0)
		r = verify_found(v, verify_follows(t, &id, &c), "chunk", "series %u, ordinal %u",
				 c.series, c.ordinal);
	if (r == 0)
		r = verify_points(t, &id, &c);
	t->before = c;
	return r;
}

static int verify_walk(struct verify_tree *t)
{
	struct verify *v = t->v;
	int64_t pages = 0;
	int r;

	v->tree = t;
	r = verify_rows(v, "chunk", "series, ordinal",
			"SELECT " CHUNKROW_COLUMNS " FROM chunk ORDER BY series, ordinal",
			verify_chunk);
	v->tree = NULL;
	if (r < 0 || t->broken || v->findings)
		return r;
	r = db_int(v->db, "SELECT count(*) FROM summary", v->e, &pages);
	if (r == 0 && pages != t->pages)
		r = err_set(v->e, -EUCLEAN, "%s: table summary has %lld pages, %lld are known",
			    v->path, (long long)pages, (long long)t->pages);
	return verify_found(v, r, "summary", "%s", "");
}

int verify_chunks(struct verify *v)
{
	struct verify_tree t = {.v = v};
	int r;

	t.leaves.page = t.quarters.page = UINT64_MAX;
	t.quarters.level = SUMMARY_QUARTER;
	t.db = (struct sumtree_db){.path = v->path, .codec = &v->codec, .columns = &v->columns};
	chunkdata_init(&t.data, v->db, v->path, &v->codec, &v->columns, NULL);
	r = db_prepare(v->db, "SELECT blob FROM summary WHERE id = ?1", v->e, &t.db.get);
	r = r == 0 ? verify_walk(&t) : verify_found(v, r, "chunk", "%s", "");
	sqlite3_finalize(t.db.get);
	chunkdata_done(&t.data);
	free(t.level.nodes);
	return r;
}
