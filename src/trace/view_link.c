/* SPDX-License-Identifier: Apache-2.0
 *
 * view_link.c - launches and their work found in each other by correlation, and the step
 * that each row belongs to.
 */
#include "trace/view_priv.h"

#include <errno.h>
#include <stdlib.h>

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
static void pair_hta(struct view_work *w, const struct view_key *keys, size_t n)
{
	struct view_row *rows = w->v->rows, *r;
	uint32_t device = VIEW_NO_ROW, host = VIEW_NO_ROW;
	size_t i;

	for (i = 0; i < n; i++) {
		if (view_on_device(w, &rows[keys[i].id]))
			device = keys[i].id;
		else
			host = keys[i].id;
	}
	for (i = 0; i < n; i++) {
		r = &rows[keys[i].id];
		r->pair = view_on_device(w, r) ? host : device;
		r->partner = r->pair == VIEW_NO_ROW ? 0 : rows[r->pair].index;
	}
}

/* exact: correlation 0 is the tracer's "none". */
static void pair_exact(struct view_work *w, const struct view_key *keys, size_t n)
{
	struct view_row *rows = w->v->rows, *r;
	uint32_t work = VIEW_NO_ROW, call = VIEW_NO_ROW;
	size_t i;

	if (rows[keys[0].id].correlation <= 0)
		return;
	for (i = 0; i < n; i++) {
		r = &rows[keys[i].id];
		if (r->is_gpu && (work == VIEW_NO_ROW || r->ts < rows[work].ts))
			work = keys[i].id;
		else if (!r->is_gpu && is_call(r->cat) &&
			 (call == VIEW_NO_ROW || r->ts >= rows[call].ts))
			call = keys[i].id;
	}
	for (i = 0; i < n; i++) {
		r = &rows[keys[i].id];
		if (!r->is_gpu && !is_call(r->cat))
			continue;
		r->pair = r->is_gpu ? call : work;
		r->partner = r->pair == VIEW_NO_ROW ? 0 : rows[r->pair].index;
	}
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
	struct view_key *keys;
	size_t i, j, n;
	int rc = by_correlation(v, &keys, &n);

	if (rc)
		return rc;
	for (i = 0; i < n; i = j) {
		for (j = i + 1; j < n && keys[j].key == keys[i].key; j++)
			;
		if (v->rule == VIEW_EXACT)
			pair_exact(w, keys + i, j - i);
		else
			pair_hta(w, keys + i, j - i);
	}
	free(keys);
	if (v->rule != VIEW_EXACT)
		pair_with_first(v);
	return 0;
}

/* ---- rows of one correlation, for analyses ------------------------------------------ */

struct view_index {
	uint32_t *rows;
	size_t n;
};

static int index_new(const struct view *v, struct view_index **ret)
{
	struct view_index *x = calloc(1, sizeof(*x));
	struct view_key *keys;
	size_t i;
	int rc = x ? by_correlation(v, &keys, &x->n) : -ENOMEM;

	if (!rc) {
		x->rows = malloc((x->n + 1) * sizeof(*x->rows));
		for (i = 0; x->rows && i < x->n; i++)
			x->rows[i] = keys[i].id;
		free(keys);
		rc = x->rows ? 0 : -ENOMEM;
	}
	if (rc)
		free(x);
	else
		*ret = x;
	return rc;
}

struct view_link view_linked(struct view *v, int64_t correlation)
{
	struct view_link ret = {NULL, 0};
	const struct view_index *x;
	size_t low = 0, high, middle;

	if (correlation == TRACE_NONE || (!v->linked && index_new(v, &v->linked)))
		return ret;
	x = v->linked;
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

void view_unlink(struct view *v)
{
	if (v->linked)
		free(v->linked->rows);
	free(v->linked);
	v->linked = NULL;
}
