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

/* Correlations as keys, sorted: rows of one are neighbours, in the order of rows. */
static int index_sorted(const int64_t *numbers, size_t n, struct view_index *x)
{
	struct view_key *keys = bigmem_alloc((2 * x->n + 1) * sizeof(*keys));
	size_t i, k = 0;

	if (!keys)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		if (numbers[i] != TRACE_NONE)
			keys[k++] = (struct view_key){view_key_of(numbers[i]), (uint32_t)i};
	view_sort(keys, keys + k, k);
	for (i = 0; i < k; i++)
		x->rows[i] = keys[i].id;
	free(keys);
	return 0;
}

/* How many there are, and their range. */
static void measure_links(const int64_t *numbers, size_t n, struct view_index *x)
{
	int64_t high = INT64_MIN, c;
	size_t i;

	x->low = INT64_MAX;
	for (i = 0; i < n; i++) {
		c = numbers[i];
		if (c == TRACE_NONE)
			continue;
		x->n++;
		x->low = c < x->low ? c : x->low;
		high = c > high ? c : high;
	}
	x->span = x->n ? (uint64_t)high - (uint64_t)x->low + 1 : 0;
}

static int index_dense(const int64_t *numbers, size_t n, struct view_index *x)
{
	size_t i;

	x->starts = bigmem_zeroed((x->span + 2) * sizeof(*x->starts));
	if (!x->starts)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		if (numbers[i] != TRACE_NONE)
			x->starts[numbers[i] - x->low + 2]++;
	for (i = 2; i < x->span + 2; i++)
		x->starts[i] += x->starts[i - 1];
	for (i = 0; i < n; i++)
		if (numbers[i] != TRACE_NONE)
			x->rows[x->starts[numbers[i] - x->low + 1]++] = (uint32_t)i;
	return 0;
}

int view_index_new(const int64_t *numbers, size_t n, struct view_index **ret)
{
	struct view_index *x = calloc(1, sizeof(*x));
	int rc;

	if (!x)
		return -ENOMEM;
	measure_links(numbers, n, x);
	x->rows = bigmem_alloc((x->n + 1) * sizeof(*x->rows));
	if (!x->rows)
		rc = -ENOMEM;
	else if (x->span / 8 <= x->n)
		rc = index_dense(numbers, n, x);
	else
		rc = index_sorted(numbers, n, x);
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

bool view_is_call(enum trace_cat cat)
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
 * the file on either side. A row without has partner 0, which says "none", and which HTA looks up
 * as the row at place 0 of the file. */
static void pair_hta(struct view_work *w, const uint32_t *ids, size_t n, uint32_t first)
{
	struct view_row *rows = w->v->rows, *r;
	uint32_t device = VIEW_NO_ROW, host = VIEW_NO_ROW;
	size_t i;

	for (i = 0; i < n; i++) {
		if (w->on_device[ids[i]])
			device = ids[i];
		else
			host = ids[i];
	}
	for (i = 0; i < n; i++) {
		r = &rows[ids[i]];
		r->pair = w->on_device[ids[i]] ? host : device;
		r->partner = r->pair == VIEW_NO_ROW ? 0 : rows[r->pair].index;
		r->pair = r->pair == VIEW_NO_ROW ? first : r->pair;
	}
}

/* exact: correlation 0 is the tracer's "none". */
static bool is_linked(const struct view_row *r)
{
	return r->correlation > 0 && (r->is_gpu || view_is_call((enum trace_cat)r->cat));
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

/* The row at place 0 of the file; VIEW_NO_ROW. Mostly that is the first. */
static uint32_t find_first(const struct view *v)
{
	size_t i;

	for (i = 0; i < v->n && v->rows[i].index; i++)
		;
	return i < v->n ? (uint32_t)i : VIEW_NO_ROW;
}

int view_pair(struct view_work *w)
{
	struct view *v = w->v;
	const struct view_index *x;
	uint32_t first;
	size_t i, n;
	int rc;

	if (v->rule == VIEW_EXACT)
		return pair_exactly(v);
	rc = view_index_new(w->numbers, v->n, &w->groups);
	if (rc)
		return rc;
	x = w->groups;
	first = find_first(v);
	for (i = 0; i < x->n; i += n) {
		n = view_group(v, x, i);
		pair_hta(w, x->rows + i, n, first);
	}
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

static int make_links(struct view *v)
{
	int64_t *numbers = bigmem_alloc((v->n + 1) * sizeof(*numbers));
	size_t i;
	int rc;

	if (!numbers)
		return -ENOMEM;
	for (i = 0; i < v->n; i++)
		numbers[i] = v->rows[i].correlation;
	rc = view_index_new(numbers, v->n, &v->linked);
	free(numbers);
	return rc;
}

struct view_link view_linked(struct view *v, int64_t correlation)
{
	struct view_link ret = {NULL, 0};
	const struct view_index *x;
	uint64_t at;

	if (correlation == TRACE_NONE || (!v->linked && make_links(v)))
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

/* ---- the device's rows, for analyses -------------------------------------------------- */

static int list_devices(struct view *v)
{
	size_t i;

	v->devices = bigmem_alloc((v->n + 1) * sizeof(*v->devices));
	if (!v->devices)
		return -ENOMEM;
	v->n_devices = 0;
	for (i = 0; i < v->n; i++)
		if (v->rows[i].is_gpu)
			v->devices[v->n_devices++] = (uint32_t)i;
	return 0;
}

const uint32_t *view_devices(struct view *v, bool by_table, size_t *ret_n)
{
	if (!v->devices && list_devices(v))
		return NULL;
	*ret_n = v->n_devices;
	return by_table && v->devices_table ? v->devices_table : v->devices;
}

void view_unlink(struct view *v)
{
	free(v->devices);
	free(v->devices_table);
	v->devices = v->devices_table = NULL;
	view_index_free(v->linked);
	v->linked = NULL;
}
