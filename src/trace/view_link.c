/* SPDX-License-Identifier: Apache-2.0
 *
 * view_link.c - launches and their work found in each other by correlation, and the step
 * that each row belongs to.
 */
#include "trace/view_priv.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bigmem.h"

#define AHEAD 16 /* rows that are fetched before they are looked at */

bool view_on_device(const struct view_work *w, const struct view_row *r)
{
	if (w->v->rule == VIEW_EXACT)
		return r->is_gpu;
	return (r->stream >= 0 && r->correlation >= 0) || w->names[r->name].is_sync;
}

/* Rows that have a correlation as keys, sorted: rows of one correlation are neighbours, in
 * the order of rows. *ret_keys is one block that the caller frees. */
static int by_correlation(const struct view *v, struct view_key **ret_keys, size_t *ret_n)
{
	struct view_key *keys;
	size_t i, n = 0;

	for (i = 0; i < v->n; i++)
		n += v->rows[i].correlation != TRACE_NONE;
	keys = malloc((2 * n + 1) * sizeof(*keys));
	if (!keys)
		return -ENOMEM;
	n = 0;
	for (i = 0; i < v->n; i++) {
		if (v->rows[i].correlation == TRACE_NONE)
			continue;
		keys[n].key = view_key_of(v->rows[i].correlation);
		keys[n++].id = (uint32_t)i;
	}
	view_sort(keys, keys + n, n);
	*ret_keys = keys;
	*ret_n = n;
	return 0;
}

/* How many there are, and their range. */
static void measure_links(const struct view *v, struct view_index *x)
{
	int64_t high = INT64_MIN, c;
	size_t i;

	x->low = INT64_MAX;
	for (i = 0; i < v->n; i++) {
		c = v->rows[i].correlation;
		if (c == TRACE_NONE)
			continue;
		x->n++;
		x->low = c < x->low ? c : x->low;
		high = c > high ? c : high;
	}
	x->span = x->n ? (uint64_t)high - (uint64_t)x->low + 1 : 0;
}

static int index_dense(const struct view *v, struct view_index *x)
{
	size_t i;
	int64_t c;

	x->starts = bigmem_zeroed((x->span + 2) * sizeof(*x->starts));
	if (!x->starts)
		return -ENOMEM;
	for (i = 0; i < v->n; i++)
		if (v->rows[i].correlation != TRACE_NONE)
			x->starts[v->rows[i].correlation - x->low + 2]++;
	for (i = 2; i < x->span + 2; i++)
		x->starts[i] += x->starts[i - 1];
	for (i = 0; i < v->n; i++) {
		c = v->rows[i].correlation;
		if (c != TRACE_NONE)
			x->rows[x->starts[c - x->low + 1]++] = (uint32_t)i;
	}
	return 0;
}

static int index_sorted(const struct view *v, struct view_index *x)
{
	struct view_key *keys;
	size_t i;
	int rc = by_correlation(v, &keys, &x->n);

	for (i = 0; !rc && i < x->n; i++)
		x->rows[i] = keys[i].id;
	if (!rc)
		free(keys);
	return rc;
}

int view_index_new(const struct view *v, struct view_index **ret)
{
	struct view_index *x = calloc(1, sizeof(*x));
	int rc;

	if (!x)
		return -ENOMEM;
	measure_links(v, x);
	x->rows = malloc((x->n + 1) * sizeof(*x->rows));
	if (!x->rows)
		rc = -ENOMEM;
	else if (x->span / 8 <= x->n)
		rc = index_dense(v, x);
	else
		rc = index_sorted(v, x);
	if (rc)
		view_index_free(x);
	else
		*ret = x;
	return rc;
}

void view_index_free(struct view_index *x)
{
	if (x) {
		free(x->rows);
		free(x->starts);
	}
	free(x);
}

/* A call that may launch work; host rows that only carry the number do not. */
static bool is_call(uint8_t cat)
{
	switch (cat) {
	case TRACE_CAT_CUDA_RUNTIME:
	case TRACE_CAT_CUDA_DRIVER:
	case TRACE_CAT_MTIA_RUNTIME:
	case TRACE_CAT_XPU_RUNTIME:
	case TRACE_CAT_XPU_DRIVER:
	case TRACE_CAT_PRIVATEUSE1_RUNTIME:
	case TRACE_CAT_PRIVATEUSE1_DRIVER:
	case TRACE_CAT_OTHER:
		return true;
	default:
		return false;
	}
}

/* hta: with several partners the last pair of pandas' join stays, which is the last row of
 * the file on either side. */
static void pair_hta(struct view_work *w, const uint32_t *ids, size_t n)
{
	struct view_row *rows = w->v->rows, *r;
	uint32_t device = VIEW_NO_ROW, host = VIEW_NO_ROW;
	size_t i;

	for (i = 0; i < n; i++) {
		if (view_on_device(w, &rows[ids[i]]))
			device = ids[i];
		else
			host = ids[i];
	}
	for (i = 0; i < n; i++) {
		r = &rows[ids[i]];
		r->pair = view_on_device(w, r) ? host : device;
		r->partner = r->pair == VIEW_NO_ROW ? 0 : rows[r->pair].index;
	}
}

/* exact: correlation 0 is the tracer's "none". */
static bool is_linked(const struct view_row *r)
{
	return r->correlation > 0 && (r->is_gpu || is_call(r->cat));
}

/* Rows that take part: their correlations, and their places as words. */
struct links {
	int64_t *numbers;
	uint32_t *rows, *order; /* order NULL: as they come */
	size_t n;
};

static int find_links(const struct view *v, struct links *l)
{
	size_t i;

	/* What is not touched takes no memory. */
	l->numbers = bigmem_alloc((v->n + 1) * sizeof(*l->numbers));
	l->rows = bigmem_alloc((v->n + 1) * sizeof(*l->rows));
	if (!l->numbers || !l->rows)
		return -ENOMEM;
	for (i = 0; i < v->n; i++) {
		if (!is_linked(&v->rows[i]))
			continue;
		l->numbers[l->n] = v->rows[i].correlation;
		l->rows[l->n++] = (uint32_t)i;
	}
	return view_order(l->numbers, l->n, false, &l->order);
}

static uint32_t linked_row(const struct links *l, size_t i)
{
	return l->rows[l->order ? l->order[i] : i];
}

/* The first work and the last call of each correlation; rows are by time. */
static void pair_links(struct view_row *rows, const struct links *l)
{
	struct view_row *r;
	size_t i, j, k;

	for (i = 0; i < l->n; i = j) {
		uint32_t work = VIEW_NO_ROW, call = VIEW_NO_ROW, at = linked_row(l, i);
		int64_t number = rows[at].correlation;

		for (j = i; at != VIEW_NO_ROW && rows[at].correlation == number;) {
			if (j + AHEAD < l->n)
				__builtin_prefetch(&rows[linked_row(l, j + AHEAD)], 1);
			if (!rows[at].is_gpu)
				call = at;
			else if (work == VIEW_NO_ROW)
				work = at;
			at = ++j < l->n ? linked_row(l, j) : VIEW_NO_ROW;
		}
		for (k = i; k < j; k++) {
			r = &rows[linked_row(l, k)];
			r->pair = r->is_gpu ? call : work;
			r->partner = r->pair == VIEW_NO_ROW ? 0 : rows[r->pair].index;
		}
	}
}

static int pair_exactly(struct view *v)
{
	struct links l = {0};
	int rc = find_links(v, &l);

	if (!rc)
		pair_links(v->rows, &l);
	free(l.numbers);
	free(l.rows);
	free(l.order);
	return rc;
}

/* HTA looks up partner 0, which says "none", as the row at place 0 of the file. */
static void pair_with_first(struct view *v)
{
	uint32_t first = VIEW_NO_ROW;
	size_t i;

	for (i = 0; i < v->n && first == VIEW_NO_ROW; i++)
		if (v->rows[i].index == 0)
			first = (uint32_t)i;
	for (i = 0; i < v->n; i++)
		if (v->rows[i].partner == 0 && v->rows[i].pair == VIEW_NO_ROW)
			v->rows[i].pair = first;
}

int view_pair(struct view_work *w)
{
	struct view *v = w->v;
	const struct view_index *x;
	size_t i, n;
	int rc;

	if (v->rule == VIEW_EXACT)
		return pair_exactly(v);
	rc = view_index_new(v, &w->groups);
	if (rc)
		return rc;
	x = w->groups;
	for (i = 0; i < x->n; i += n) {
		n = view_group(v, x, i);
		pair_hta(w, x->rows + i, n);
	}
	pair_with_first(v);
	return 0;
}

/* ---- rows of one correlation, for analyses ------------------------------------------ */

static struct view_link search(const struct view *v, const struct view_index *x,
			       int64_t correlation)
{
	struct view_link ret = {NULL, 0};
	size_t low = 0, high, middle;

	for (high = x->n; low < high;) {
		middle = low + (high - low) / 2;
		if (v->rows[x->rows[middle]].correlation < correlation)
			low = middle + 1;
		else
			high = middle;
	}
	ret.rows = x->rows + low;
	while (low + ret.n < x->n && v->rows[ret.rows[ret.n]].correlation == correlation)
		ret.n++;
	return ret;
}

struct view_link view_linked(struct view *v, int64_t correlation)
{
	struct view_link ret = {NULL, 0};
	const struct view_index *x;
	uint64_t at;

	if (correlation == TRACE_NONE || (!v->linked && view_index_new(v, &v->linked)))
		return ret;
	x = v->linked;
	if (!x->starts)
		return search(v, x, correlation);
	at = (uint64_t)correlation - (uint64_t)x->low;
	if (correlation < x->low || at >= x->span)
		return ret;
	ret.rows = x->rows + x->starts[at];
	ret.n = x->starts[at + 1] - x->starts[at];
	return ret;
}

void view_unlink(struct view *v)
{
	view_index_free(v->linked);
	v->linked = NULL;
}
