/* SPDX-License-Identifier: Apache-2.0
 *
 * view_filter.c - the rows that stay: HTA's way of leaving out the last step, with the
 * copies that its join makes, or a window of time and steps; then all by time.
 */
#include "trace/view_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bigmem.h"

#define COPIED_ROWS (1u << 22) /* 256 MiB */

/* Which host rows stay (a bit each), by HTA's rule: those that begin before the last step
 * does. With include_last it means to keep what begins before that step's end, but compares
 * times since the start with an end since the epoch: all stay (unless the clock began at 0). */
static void mark_hosts(const struct view_work *w, uint8_t *keep)
{
	const struct view *v = w->v;
	int64_t start = INT64_MIN, end = INT64_MIN;
	const struct view_row *r;
	size_t i;

	for (i = 0; i < w->n_marks; i++) {
		r = &v->rows[w->marks[i]];
		if (w->on_device[w->marks[i]])
			continue;
		start = r->ts > start ? r->ts : start;
		end = r->end > end ? r->end : end;
	}
	if (start == INT64_MIN)
		return;
	for (i = 0; i < v->n; i++)
		keep[i] = !w->on_device[i] &&
			  (w->o->include_last ? w->ts[i] - v->origin <= end : w->ts[i] < start);
}

/* One correlation of which a host row stays. */
struct joined {
	uint32_t group; /* its place in the index */
	uint32_t n;     /* how many rows */
};

/* Device rows in the order of HTA's join: by the first row of their correlation, each as
 * often as host rows that stay have it. Their ids go to ret, in *ret_total how many there are
 * with copies. by_first has a place for each row. */
static size_t join(const struct view_work *w, const uint8_t *keep, uint32_t *copies,
		   struct joined *by_first, uint32_t *ret, uint64_t *ret_total)
{
	const struct view *v = w->v;
	const struct view_index *x = w->groups;
	size_t i, k, n, out = 0;
	uint32_t hosts, first, id;

	*ret_total = 0;
	for (i = 0; i < x->n; i += n) {
		n = view_group(v, x, i);
		hosts = 0;
		first = VIEW_NO_ROW;
		for (k = n; k-- > 0;) {
			hosts += keep[x->rows[i + k]];
			if (w->on_device[x->rows[i + k]])
				first = x->rows[i + k];
		}
		if (!hosts || first == VIEW_NO_ROW)
			continue;
		by_first[first] = (struct joined){(uint32_t)i, (uint32_t)n};
		copies[first] = hosts;
	}
	for (i = 0; i < v->n; i++) {
		hosts = copies[i];
		for (k = 0; k < by_first[i].n; k++) {
			id = x->rows[by_first[i].group + k];
			if (!w->on_device[id])
				continue;
			copies[id] = hosts;
			*ret_total += hosts;
			ret[out++] = id;
		}
	}
	return out;
}

/* The rows that stay: those of the join, and behind them the host's. */
static int choose_rows(struct view_work *w, const uint32_t *joined, size_t n, uint64_t total,
		       const uint8_t *keep, const uint32_t *copies)
{
	struct view *v = w->v;
	size_t i, at = 0;
	uint32_t c;

	for (i = 0; i < v->n; i++)
		total += keep[i];
	if (total >= VIEW_ROWS_MAX)
		return -EOVERFLOW;
	w->kept = bigmem_alloc((total + 1) * sizeof(*w->kept));
	w->moved = bigmem_alloc((v->n + 1) * sizeof(*w->moved));
	if (!w->kept || !w->moved)
		return -ENOMEM;
	memset(w->moved, 255, (v->n + 1) * sizeof(*w->moved));
	for (i = 0; i < n; i++) {
		w->moved[joined[i]] = (uint32_t)at;
		for (c = 0; c < copies[joined[i]]; c++)
			w->kept[at++] = joined[i];
	}
	for (i = 0; i < v->n; i++) {
		if (!keep[i])
			continue;
		w->moved[i] = (uint32_t)at;
		w->kept[at++] = (uint32_t)i;
	}
	w->n_kept = at;
	return 0;
}

static int drop_last(struct view_work *w)
{
	struct view *v = w->v;
	uint8_t *keep = calloc(v->n + 1, 1);
	uint32_t *copies = bigmem_zeroed((v->n + 1) * sizeof(*copies));
	struct joined *by_first = bigmem_zeroed((v->n + 1) * sizeof(*by_first));
	uint32_t *joined = bigmem_alloc((w->groups->n + 1) * sizeof(*joined));
	uint64_t total;
	size_t n;
	int rc = -ENOMEM;

	if (keep && copies && by_first && joined) {
		mark_hosts(w, keep);
		n = join(w, keep, copies, by_first, joined, &total);
		rc = choose_rows(w, joined, n, total, keep, copies);
	}
	free(keep);
	free(copies);
	free(by_first);
	free(joined);
	view_index_free(w->groups);
	w->groups = NULL;
	return rc;
}

/* ---- by time ------------------------------------------------------------------------- */

/* The row that is i-th in HTA's table. */
static uint32_t kept(const struct view_work *w, size_t i)
{
	return w->kept ? w->kept[i] : (uint32_t)i;
}

/* Rows of one time by their place in traceEvents. */
static int order_tie(const struct view_work *w, uint32_t *order, size_t n)
{
	int64_t *index = malloc(n * sizeof(*index));
	uint32_t *by_index = NULL, *was = malloc(n * sizeof(*was));
	size_t i;
	int rc = index && was ? 0 : -ENOMEM;

	if (!rc) {
		memcpy(was, order, n * sizeof(*was));
		for (i = 0; i < n; i++)
			index[i] = w->v->rows[kept(w, order[i])].index;
		rc = view_order(index, n, false, &by_index);
	}
	for (i = 0; !rc && by_index && i < n; i++)
		order[i] = was[by_index[i]];
	free(index);
	free(was);
	free(by_index);
	return rc;
}

static int order_ties(const struct view_work *w, uint32_t *order)
{
	const struct view_row *rows = w->v->rows;
	bool ordered = true;
	uint32_t at, last = 0;
	size_t i, from = 0;
	int rc = 0;

	for (i = 0; i < w->n_kept && !rc; i++, last = at) {
		at = kept(w, order[i]);
		if (i && w->ts[at] == w->ts[last]) {
			ordered = ordered && rows[at].index >= rows[last].index;
			continue;
		}
		if (!ordered)
			rc = order_tie(w, order + from, i - from);
		ordered = true;
		from = i;
	}
	return rc || ordered ? rc : order_tie(w, order + from, i - from);
}

/* order: by (ts, index), as far as these are equal as the rows are kept. The caller frees it. */
static int order_rows(const struct view_work *w, uint32_t **ret_order)
{
	int64_t *ts = bigmem_alloc((w->n_kept + 1) * sizeof(*ts));
	uint32_t *order = NULL;
	size_t i;
	int rc = ts ? 0 : -ENOMEM;

	for (i = 0; !rc && i < w->n_kept; i++)
		ts[i] = w->ts[kept(w, i)];
	if (!rc)
		rc = view_order(ts, w->n_kept, false, &order);
	free(ts);
	if (!rc && !order) {
		order = bigmem_alloc((w->n_kept + 1) * sizeof(*order));
		rc = order ? 0 : -ENOMEM;
		for (i = 0; !rc && i < w->n_kept; i++)
			order[i] = (uint32_t)i;
	}
	if (!rc)
		rc = order_ties(w, order);
	if (rc)
		free(order);
	else
		*ret_order = order;
	return rc;
}

/* Move each row i to to[i], within the array. */
static int permute(struct view *v, const uint32_t *to)
{
	uint8_t *done = calloc(v->n + 1, 1);
	struct view_row carried, swap;
	size_t i, at;

	if (!done)
		return -ENOMEM;
	for (i = 0; i < v->n; i++) {
		if (done[i])
			continue;
		carried = v->rows[i];
		at = i;
		do {
			done[at] = 1;
			swap = v->rows[to[at]];
			v->rows[to[at]] = carried;
			carried = swap;
			at = to[at];
		} while (!done[at]);
	}
	free(done);
	return 0;
}

static int copy_rows(struct view_work *w, const uint32_t *order)
{
	struct view *v = w->v;
	struct view_row *rows = bigmem_alloc((w->n_kept + 1) * sizeof(*rows));
	size_t i;

	if (!rows)
		return -ENOMEM;
	for (i = 0; i < w->n_kept; i++) {
		if (i + 8 < w->n_kept)
			__builtin_prefetch(&v->rows[kept(w, order[i + 8])]);
		rows[i] = v->rows[kept(w, order[i])];
	}
	free(v->rows);
	v->rows = rows;
	v->n = w->n_kept;
	return 0;
}

/* Times are since the origin from here on, and pairs are where rows now are. The span of what is
 * left: with devices_only and nothing dropped it is that of all, and stays. */
static void settle_rows(const struct view_work *w, const uint32_t *to, bool drop)
{
	struct view *v = w->v;
	int64_t last = INT64_MIN;
	struct view_row *r;
	size_t i;

	v->n_devices = 0;
	for (i = 0; i < v->n; i++) {
		r = &v->rows[i];
		r->ts -= v->origin;
		r->end -= v->origin;
		last = r->end > last ? r->end : last;
		if (r->pair != VIEW_NO_ROW && w->moved)
			r->pair = w->moved[r->pair];
		if (r->pair != VIEW_NO_ROW)
			r->pair = to[r->pair];
		v->devices[v->n_devices] = (uint32_t)i;
		v->n_devices += r->is_gpu;
	}
	if (!drop)
		return;
	v->first = v->n ? v->rows[0].ts : 0;
	v->last_ts = v->n ? v->rows[v->n - 1].ts : 0;
	v->last = v->n ? last : 0;
}

/* The rows that are kept, by time; to: where each comes to. A second array is fast; where it
 * would be large, rows of which all are kept move within their own, in the order of chains. */
static int put_rows(struct view_work *w, const uint32_t *order, const uint32_t *to, bool drop)
{
	struct view *v = w->v;
	int rc = !w->kept && v->n > COPIED_ROWS ? permute(v, to) : copy_rows(w, order);

	if (rc)
		return rc;
	v->devices = bigmem_alloc((v->n + 1) * sizeof(*v->devices));
	if (!v->devices)
		return -ENOMEM;
	settle_rows(w, to, drop);
	return 0;
}

/* The device's rows as HTA's table has them. */
static int order_devices(struct view *v)
{
	uint64_t *is_device = calloc(v->n / 64 + 1, sizeof(*is_device)); /* a bit each */
	uint32_t id;
	size_t i, n = 0;

	v->devices_table = bigmem_alloc((v->n_devices + 1) * sizeof(*v->devices_table));
	if (!is_device || !v->devices_table) {
		free(is_device);
		return -ENOMEM;
	}
	for (i = 0; i < v->n_devices; i++)
		is_device[v->devices[i] / 64] |= 1ull << v->devices[i] % 64;
	for (i = 0; i < v->n; i++) {
		id = v->table[i];
		v->devices_table[n] = id;
		n += is_device[id / 64] >> id % 64 & 1;
	}
	free(is_device);
	return 0;
}

static int sort_rows(struct view_work *w, bool drop)
{
	uint32_t *order, *to;
	size_t i;
	int rc;

	w->n_kept = w->kept ? w->n_kept : w->v->n;
	to = bigmem_alloc((w->n_kept + 1) * sizeof(*to));
	rc = to ? order_rows(w, &order) : -ENOMEM;
	if (!rc) {
		for (i = 0; i < w->n_kept; i++)
			to[order[i]] = (uint32_t)i;
		rc = put_rows(w, order, to, drop);
		free(order);
	}
	if (rc) {
		free(to);
		return rc;
	}
	w->v->table = to;
	return order_devices(w->v);
}

int view_filter(struct view_work *w, bool drop)
{
	int rc = drop ? drop_last(w) : 0;

	if (!rc)
		rc = sort_rows(w, drop);
	if (!rc && drop)
		w->v->dropped_last = !w->o->include_last;
	return rc;
}

static void measure(struct view *v)
{
	size_t i;

	v->first = v->last = v->last_ts = 0;
	for (i = 0; i < v->n; i++) {
		v->first = !i || v->rows[i].ts < v->first ? v->rows[i].ts : v->first;
		v->last = !i || v->rows[i].end > v->last ? v->rows[i].end : v->last;
		v->last_ts = !i || v->rows[i].ts > v->last_ts ? v->rows[i].ts : v->last_ts;
	}
}

static bool is_in_time(const struct view_options *o, int64_t ts)
{
	return (!o->from && !o->to) || (ts >= o->from && ts < o->to);
}

static bool is_in_steps(const struct view_options *o, int64_t step)
{
	return (!o->step_from && !o->step_to) || (step >= o->step_from && step < o->step_to);
}

bool view_has_window(const struct view_options *o)
{
	return o->from || o->to || o->step_from || o->step_to;
}

void view_window(struct view_work *w)
{
	const struct view_options *o = w->o;
	struct view *v = w->v;
	size_t i, n = 0;

	for (i = 0; i < v->n; i++)
		if (is_in_time(o, v->rows[i].ts) && is_in_steps(o, v->rows[i].step))
			v->rows[n++] = v->rows[i];
	v->n = n;
	measure(v);
	for (i = n = 0; i < v->n_steps; i++)
		if (is_in_time(o, v->steps[i].ts) && is_in_steps(o, v->steps[i].number))
			v->steps[n++] = v->steps[i];
	v->n_steps = n;
}
