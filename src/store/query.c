/* SPDX-License-Identifier: Apache-2.0
 *
 * query.c - store_reader_query(): series host by host, those of one host in as
 * few transactions as time allows, their tails decoded together.
 */
#include "base/mem.h"
#include "store/query_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define QUERY_POINTS 1000u /* buckets if none are asked for */

static const char *const query_sql[QUERY_N] = {
	[QUERY_TREE] = "SELECT blob FROM summary WHERE id = ?1",
	[QUERY_KIND] = "SELECT kind FROM series WHERE id = ?1",
	[QUERY_FIRST] =
		"SELECT " CHUNKROW_COLUMNS " FROM chunk WHERE series = ?1 ORDER BY ordinal LIMIT 1",
	[QUERY_LAST] = "SELECT " CHUNKROW_COLUMNS
		       " FROM chunk WHERE series = ?1 ORDER BY ordinal DESC LIMIT 1",
	[QUERY_CHUNK] = "SELECT " CHUNKROW_COLUMNS " FROM chunk WHERE series = ?1 AND ordinal = ?2",
};

struct query {
	struct store_reader *r;
	struct err *e;
	struct queryone *series; /* by host and id */
	size_t n;
	struct query_host host; /* the one at hand */
	int64_t folds;          /* state of its tail that is decoded; -1: none */
	uint64_t last;
	long blocks; /* crew_blocks() when the question came */
};

/* ---- a host -------------------------------------------------------------------- */

void query_close(struct query_host *h)
{
	size_t i;

	chunkdata_done(&h->data);
	hosts_end(h->h);
	treewalk_done(&h->tree);
	for (i = 0; i < QUERY_N; i++)
		sqlite3_finalize(h->sql[i]);
	points_done(&h->points);
	hists_done(&h->hists);
}

int query_open(struct query_host *to, struct store_reader *r, struct hosts_one *h, struct err *e)
{
	size_t i;
	int code;

	*to = (struct query_host){.h = h};
	code = hosts_begin(h, e); /* before statements are made: the file may move */
	hosts_end(h);
	if (code < 0)
		return code;
	chunkdata_init(&to->data, h->db, h->path, &r->codec, &r->columns, &h->axes);
	for (i = 0; code == 0 && i < QUERY_N; i++)
		code = db_prepare(h->db, query_sql[i], e, &to->sql[i]);
	treewalk_init(&to->tree, r, h, to->sql[QUERY_TREE], e);
	return code;
}

int query_begin(struct query_host *h, struct err *e)
{
	chunkdata_end(&h->data);
	hosts_end(h->h);
	h->until = store_mono_ns() + HOSTS_HOLD_NS;
	h->synced = false;
	return hosts_begin(h->h, e);
}

int query_breathe(struct query_host *h, struct err *e)
{
	if (h->stop && atomic_load(h->stop))
		return -ECANCELED;
	return store_mono_ns() < h->until ? 0 : query_begin(h, e);
}

/* ---- the tail -------------------------------------------------------------------- */

/* First of series [i, i + n) that has this id, or is behind it. */
static size_t query_find(const struct queryone *x, size_t n, uint32_t id)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (x[middle].ref.series < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int query_plain(struct query *q, struct queryone *x, size_t n, const struct blob_id *id,
		       const struct hosts_tail *row)
{
	struct tail_block block;
	struct tail_walk w;
	size_t i;
	int r = tail_begin(&w, id, &row->blob, q->e);

	while (r == 0 && (r = tail_block(&w, &block)) > 0) {
		r = 0;
		i = query_find(x, n, block.series);
		for (; r == 0 && i < n && x[i].ref.series == block.series; i++)
			r = block.is_hist ? tail_hists(&w, &block, &x[i].tail_hists)
					  : tail_points(&w, &block, &x[i].tail);
	}
	return r;
}

static int query_merged(struct query *q, struct queryone *x, size_t n, const struct blob_id *id,
			const struct hosts_tail *row)
{
	struct column_codec *columns = &q->r->columns;
	int64_t axis_index = -1;
	struct merged_entry entry;
	struct axis axis;
	struct merged m;
	size_t i;
	int r = merged_begin(&m, id, &row->blob, q->e);

	if (r < 0)
		return r;
	axis_init(&axis);
	while (r == 0 && (r = merged_next(&m, &entry)) > 0) {
		r = 0;
		i = query_find(x, n, entry.series);
		if (i == n || x[i].ref.series != entry.series)
			continue;
		if (!entry.is_hist && axis_index != entry.axis)
			r = merged_axis(&m, entry.axis, columns, &axis);
		axis_index = entry.is_hist ? axis_index : entry.axis;
		for (; r == 0 && i < n && x[i].ref.series == entry.series; i++)
			r = entry.is_hist ? merged_hists(&m, &entry, &x[i].tail_hists)
					  : merged_points(&m, &entry, columns, &axis, &x[i].tail);
	}
	axis_done(&axis);
	merged_done(&m);
	return r;
}

/* What the transaction shows of the tail, decoded for series [i, i + n) unless it is
 * what they have. */
static int query_tail(struct query *q, struct queryone *x, size_t n)
{
	struct hosts_one *h = q->host.h;
	uint64_t last;
	size_t i;
	int r = q->host.synced ? 0 : hosts_sync_tail(q->r, h, q->e);

	q->host.synced = true;
	last = h->n_tail ? h->tail[h->n_tail - 1].seq : 0;
	if (r < 0 || (h->folds == q->folds && last == q->last))
		return r;
	for (i = 0; i < n; i++) {
		x[i].tail.n = 0;
		hists_reset(&x[i].tail_hists);
	}
	for (i = 0; r == 0 && i < h->n_tail; i++) {
		const struct blob_id id = {h->path, "tail", h->tail[i].seq, 0};

		r = h->tail[i].blob.format == BLOB_MERGED ? query_merged(q, x, n, &id, &h->tail[i])
							  : query_plain(q, x, n, &id, &h->tail[i]);
	}
	q->folds = r == 0 ? h->folds : -1;
	q->last = last;
	return r;
}

/* ---- all series --------------------------------------------------------------------- */

static int query_one(struct query *q, struct queryone *x, size_t n, size_t i, struct crew *crew)
{
	int r = 0;

	if (store_mono_ns() >= q->host.until)
		r = query_begin(&q->host, q->e);
	if (r == 0)
		r = query_tail(q, x, n);
	x[i].host = &q->host;
	if (r == 0)
		r = queryone_begin(&x[i]);
	crew_look(crew, (size_t)(&x[i] - q->series));
	if (r == 0)
		r = crew->work->fn(&x[i], crew->ret);
	queryone_reset(&x[i]);
	return r;
}

/* Series [from, from + n), which are of one host, but for those that others have. */
static int query_host(struct query *q, size_t from, size_t n, struct crew *crew)
{
	struct queryone *x = &q->series[from];
	bool is_open = false;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < n; i++) {
		if (!crew_takes(crew, from + i))
			continue;
		if (!is_open) {
			r = query_open(&q->host, q->r, &q->r->hosts[x->ref.host], q->e);
			q->folds = -1;
			is_open = true;
		}
		if (r == 0)
			r = query_one(q, x, n, i, crew);
		if (r == 0)
			crew_answered(crew, from + i);
	}
	if (is_open)
		query_close(&q->host);
	return r;
}

/* Then once more those that others took, but could not answer. */
static int query_all(struct query *q, const struct query_work *work, void *ret)
{
	struct crew crew;
	size_t i, n;
	int round, r = 0;

	crew_init(&crew, q->r, q->series, q->n, q->blocks, work, ret);
	for (round = 0; r == 0 && round < 2; round++) {
		for (i = 0; r == 0 && i < q->n; i += n) {
			for (n = 1;
			     i + n < q->n && q->series[i + n].ref.host == q->series[i].ref.host;
			     n++)
				;
			r = query_host(q, i, n, &crew);
		}
		if (r == 0)
			crew_end(&crew);
	}
	crew_done(&crew);
	return r;
}

static int query_extent(struct queryone *x, void *ret)
{
	(void)ret;
	return queryone_extent(x);
}

static int query_answer(struct queryone *x, void *ret)
{
	return queryone_answer(x, (struct store_result *)ret + x->index);
}

static void query_forget(struct queryone *x, void *ret)
{
	store_results_free((struct store_result *)ret + x->index, 1);
}

static const struct query_work query_extents = {query_extent, NULL};
static const struct query_work query_answers = {query_answer, query_forget};

/* A width at which nodes are used that are a little wider than `width`, but fit into
 * twice as much: then their children need not be read. */
static uint64_t query_fit(const struct query *q, uint64_t span, uint64_t width)
{
	const struct queryone *x = &q->series[0];
	double nodes, each;
	uint64_t size;
	size_t i;

	for (i = 0; i < q->n; i++)
		if (q->series[i].count > x->count)
			x = &q->series[i];
	size = x->is_hist ? SUMMARY_LEAF_HISTS : SUMMARY_LEAF;
	for (; size < x->count; size *= SUMMARY_FAN) {
		nodes = (double)x->count / (double)size;
		each = (double)span / nodes * 1.25;
		if (each > (double)width && each <= 2 * (double)width)
			return (uint64_t)each;
	}
	return width;
}

/* Buckets of one width over all that is in the range. */
static void query_grid(const struct query *q, unsigned points, struct store_grid *ret)
{
	int64_t min = INT64_MAX, max = INT64_MIN;
	uint64_t width, span;
	size_t i;

	for (i = 0; i < q->n; i++) {
		min = q->series[i].axis_min < min ? q->series[i].axis_min : min;
		max = q->series[i].axis_max > max ? q->series[i].axis_max : max;
	}
	*ret = (struct store_grid){.width = 1};
	if (min > max)
		return;
	span = (uint64_t)max - (uint64_t)min;
	width = query_fit(q, span, span / points + 1);
	ret->x0 = min;
	ret->width = width > INT64_MAX ? INT64_MAX : (int64_t)width;
	ret->n = (size_t)(span / (uint64_t)ret->width) + 1;
}

static int query_check(const struct store_reader *r, const struct store_query *q,
		       const struct store_ref *refs, size_t n, struct err *e)
{
	const struct store_range *g = &q->range;
	size_t i;

	if (n > STORE_REFS_MAX)
		return err_set(e, -EINVAL, "%zu series at once; at most %u", n, STORE_REFS_MAX);
	if (q->points > STORE_BUCKETS_MAX)
		return err_set(e, -EINVAL, "%u points; at most %u", q->points, STORE_BUCKETS_MAX);
	if (q->axis != STORE_BY_TIME && q->axis != STORE_BY_STEP)
		return err_set(e, -EINVAL, "there is no axis %d", (int)q->axis);
	if ((g->by_time && g->time_min > g->time_max) || (g->by_step && g->step_min > g->step_max))
		return err_set(e, -EINVAL, "the range ends before it begins");
	for (i = 0; i < n; i++)
		if (refs[i].host >= r->n_hosts)
			return err_set(e, -EINVAL, "host %u of %zu: no such file in the run",
				       refs[i].host, r->n_hosts);
	return 0;
}

static int query_compare(const void *a, const void *b)
{
	const struct store_ref *x = &((const struct queryone *)a)->ref;
	const struct store_ref *y = &((const struct queryone *)b)->ref;

	if (x->host != y->host)
		return x->host < y->host ? -1 : 1;
	return x->series < y->series ? -1 : x->series > y->series;
}

static void query_series(struct query *q, const struct store_query *ask,
			 const struct store_ref *refs)
{
	size_t i;

	q->series = xcalloc(q->n, sizeof(*q->series));
	for (i = 0; i < q->n; i++)
		q->series[i] = (struct queryone){.r = q->r,
						 .ask = ask,
						 .points = ask->points ? ask->points : QUERY_POINTS,
						 .e = q->e,
						 .ref = refs[i],
						 .index = i,
						 .axis_min = INT64_MAX,
						 .axis_max = INT64_MIN};
	qsort(q->series, q->n, sizeof(*q->series), query_compare);
}

static void query_series_done(struct query *q)
{
	size_t i;

	for (i = 0; i < q->n; i++)
		queryone_done(&q->series[i]);
	free(q->series);
}

int store_reader_query(struct store_reader *r, const struct store_query *ask,
		       const struct store_ref *refs, size_t n, struct err *e,
		       struct store_grid *ret_grid, struct store_result *ret)
{
	struct query q = {.r = r, .e = e, .n = n, .blocks = crew_blocks()};
	struct store_result *results;
	struct store_grid grid = {.width = 1};
	size_t i;
	int code = query_check(r, ask, refs, n, e);

	if (code < 0)
		return code;
	results = xcalloc(n, sizeof(*results));
	query_series(&q, ask, refs);
	if (ask->aligned && n) {
		code = query_all(&q, &query_extents, NULL);
		query_grid(&q, q.series[0].points, &grid);
		for (i = 0; i < n; i++)
			q.series[i].grid = &grid;
	}
	if (code == 0)
		code = query_all(&q, &query_answers, results);
	query_series_done(&q);
	if (code == 0) {
		memcpy(ret, results, n * sizeof(*ret));
		if (ret_grid)
			*ret_grid = grid;
	} else {
		store_results_free(results, n);
	}
	free(results);
	return code;
}

static int query_point(struct queryone *x, void *ret)
{
	return queryat_point(x, (struct store_point *)ret + x->index);
}

static const struct query_work query_points = {query_point, NULL};

int store_reader_at(struct store_reader *r, const struct store_place *places, size_t n,
		    struct err *e, struct store_point *ret)
{
	const struct store_query ask = {.range = {.all_segments = true}};
	struct query q = {.r = r, .e = e, .n = n, .blocks = crew_blocks()};
	struct store_ref *refs = xcalloc(n, sizeof(*refs));
	size_t i;
	int code;

	for (i = 0; i < n; i++)
		refs[i] = places[i].ref;
	code = query_check(r, &ask, refs, n, e);
	if (code == 0) {
		query_series(&q, &ask, refs);
		for (i = 0; i < n; i++)
			q.series[i].at = places[q.series[i].index].at;
		code = query_all(&q, &query_points, ret);
		query_series_done(&q);
	}
	free(refs);
	return code;
}

void store_results_free(struct store_result *results, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		free(results[i].points);
		free(results[i].buckets);
		results[i] = (struct store_result){0};
	}
}

int store_reader_total(struct store_reader *r, const struct store_ref *ref, bool all_segments,
		       struct err *e, struct store_bucket *ret)
{
	const struct store_query ask = {
		.range = {.all_segments = all_segments}, .points = 1, .no_raw = true};
	struct store_result result;
	int code = store_reader_query(r, &ask, ref, 1, e, NULL, &result);

	if (code < 0)
		return code;
	*ret = result.n ? result.buckets[0] : (struct store_bucket){0};
	store_results_free(&result, 1);
	return 0;
}
