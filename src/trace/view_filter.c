/* SPDX-License-Identifier: Apache-2.0
 *
 * view_filter.c - the rows that stay: HTA's way of leaving out the last step, with the
 * copies that its join makes, or a window of time and steps; then all by time.
 */
#include "trace/view_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

	for (i = 0; i < v->n; i++) {
		r = &v->rows[i];
		if (view_on_device(w, r) || w->names[r->name].step < 0)
			continue;
		start = r->ts > start ? r->ts : start;
		end = r->end > end ? r->end : end;
	}
	if (start == INT64_MIN)
		return;
	for (i = 0; i < v->n; i++) {
		r = &v->rows[i];
		if (view_on_device(w, r))
			continue;
		keep[i] = w->o->include_last ? r->ts <= end + v->origin : r->ts < start;
	}
}

/* Device rows in the order of HTA's join: by the first row of their correlation, each as
 * often as host rows that stay have it. keys holds rows with a correlation, sorted; returns
 * how many device rows are left at its front, and in *ret_total how many with copies. */
static size_t join(const struct view_work *w, struct view_key *keys, size_t n, const uint8_t *keep,
		   uint32_t *copies, uint64_t *ret_total)
{
	size_t i, j, k, out = 0;
	uint32_t hosts, first;

	*ret_total = 0;
	for (i = 0; i < n; i = j) {
		hosts = 0;
		first = VIEW_NO_ROW;
		for (j = i; j < n && w->v->rows[keys[j].id].correlation ==
					     w->v->rows[keys[i].id].correlation;
		     j++) {
			hosts += keep[keys[j].id];
			if (first == VIEW_NO_ROW && view_on_device(w, &w->v->rows[keys[j].id]))
				first = keys[j].id;
		}
		for (k = i; k < j && hosts; k++) {
			if (!view_on_device(w, &w->v->rows[keys[k].id]))
				continue;
			copies[keys[k].id] = hosts;
			*ret_total += hosts;
			keys[out++] = (struct view_key){first, keys[k].id};
		}
	}
	return out;
}

/* Put the rows of the join and behind them the host's that stay in place of all. */
static int replace_rows(struct view_work *w, const struct view_key *joined, size_t n,
			uint64_t total, const uint8_t *keep, const uint32_t *copies)
{
	struct view *v = w->v;
	uint32_t *moved = malloc((v->n + 1) * sizeof(*moved)), c;
	struct view_row *rows;
	size_t i, at = 0;

	for (i = 0; i < v->n; i++)
		total += keep[i];
	rows = total < VIEW_ROWS_MAX ? malloc((total + 1) * sizeof(*rows)) : NULL;
	if (!moved || !rows) {
		free(moved);
		free(rows);
		return total < VIEW_ROWS_MAX ? -ENOMEM : -EOVERFLOW;
	}
	memset(moved, 255, (v->n + 1) * sizeof(*moved));
	for (i = 0; i < n; i++) {
		moved[joined[i].id] = (uint32_t)at;
		for (c = 0; c < copies[joined[i].id]; c++)
			rows[at++] = v->rows[joined[i].id];
	}
	for (i = 0; i < v->n; i++) {
		if (!keep[i])
			continue;
		moved[i] = (uint32_t)at;
		rows[at++] = v->rows[i];
	}
	for (i = 0; i < at; i++)
		if (rows[i].pair != VIEW_NO_ROW)
			rows[i].pair = moved[rows[i].pair];
	free(moved);
	free(v->rows);
	v->rows = rows;
	v->n = at;
	return 0;
}

static int drop_last(struct view_work *w)
{
	struct view *v = w->v;
	uint8_t *keep = calloc(v->n + 1, 1);
	uint32_t *copies = calloc(v->n + 1, sizeof(*copies));
	struct view_key *keys = malloc((2 * v->n + 1) * sizeof(*keys));
	size_t i, n = 0;
	uint64_t total;
	int rc = -ENOMEM;

	if (keep && copies && keys) {
		mark_hosts(w, keep);
		for (i = 0; i < v->n; i++)
			if (v->rows[i].correlation != TRACE_NONE)
				keys[n++] = (struct view_key){view_key_of(v->rows[i].correlation),
							      (uint32_t)i};
		view_sort(keys, keys + v->n, n);
		n = join(w, keys, n, keep, copies, &total);
		view_sort(keys, keys + v->n, n);
		rc = replace_rows(w, keys, n, total, keep, copies);
	}
	free(keep);
	free(copies);
	free(keys);
	return rc;
}

/* The span of what is left; with devices_only and nothing dropped it is that of all. */
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

int view_filter(struct view_work *w, bool drop)
{
	struct view *v = w->v;
	int rc;

	if (!drop)
		return 0;
	rc = drop_last(w);
	if (rc)
		return rc;
	v->dropped_last = !w->o->include_last;
	measure(v);
	return 0;
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

/* Move each row i to to[i], within the array. */
static void permute(struct view_row *rows, const uint32_t *to, uint8_t *done, size_t n)
{
	struct view_row carried, swap;
	size_t i, at;

	for (i = 0; i < n; i++) {
		if (done[i])
			continue;
		carried = rows[i];
		at = i;
		do {
			done[at] = 1;
			swap = rows[to[at]];
			rows[to[at]] = carried;
			carried = swap;
			at = to[at];
		} while (!done[at]);
	}
}

/* The rows in their order; keys[i].id says which comes to place i. A second array is fast;
 * where it would be large the rows move within their own, in the order of chains. */
static int reorder(struct view *v, const struct view_key *keys, const uint32_t *to)
{
	struct view_row *rows;
	uint8_t *done;
	size_t i;

	if (v->n <= COPIED_ROWS) {
		rows = malloc((v->n + 1) * sizeof(*rows));
		if (!rows)
			return -ENOMEM;
		for (i = 0; i < v->n; i++) {
			if (i + 8 < v->n)
				__builtin_prefetch(&v->rows[keys[i + 8].id]);
			rows[i] = v->rows[keys[i].id];
		}
		free(v->rows);
		v->rows = rows;
		return 0;
	}
	done = calloc(v->n + 1, 1);
	if (!done)
		return -ENOMEM;
	permute(v->rows, to, done, v->n);
	free(done);
	return 0;
}

int view_sort_rows(struct view_work *w)
{
	struct view *v = w->v;
	struct view_key *keys = malloc((2 * v->n + 1) * sizeof(*keys));
	uint32_t *to = malloc((v->n + 1) * sizeof(*to));
	size_t i;
	int rc = keys && to ? 0 : -ENOMEM;

	if (!rc) {
		for (i = 0; i < v->n; i++)
			keys[i] = (struct view_key){v->rows[i].index, (uint32_t)i};
		view_sort(keys, keys + v->n, v->n);
		for (i = 0; i < v->n; i++)
			keys[i].key = view_key_of(v->rows[keys[i].id].ts);
		view_sort(keys, keys + v->n, v->n);
		for (i = 0; i < v->n; i++)
			to[keys[i].id] = (uint32_t)i;
		for (i = 0; i < v->n; i++)
			if (v->rows[i].pair != VIEW_NO_ROW)
				v->rows[i].pair = to[v->rows[i].pair];
		rc = reorder(v, keys, to);
	}
	free(keys);
	if (!rc && v->rule != VIEW_EXACT) {
		v->table = to;
		return 0;
	}
	free(to);
	return rc;
}
