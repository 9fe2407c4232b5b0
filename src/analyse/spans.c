/* SPDX-License-Identifier: Apache-2.0
 *
 * spans.c - see spans.h.
 */
#include "analyse/spans.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/numeric.h"

int spans_rows(const struct view *v, uint32_t **ret_ids, size_t *ret_n)
{
	uint32_t *ids, id;
	size_t i, n = 0;

	for (i = 0; i < v->n; i++)
		n += v->rows[i].is_gpu;
	ids = malloc((n + 1) * sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	for (i = n = 0; i < v->n; i++) {
		id = v->table ? v->table[i] : (uint32_t)i;
		if (v->rows[id].is_gpu)
			ids[n++] = id;
	}
	*ret_ids = ids;
	*ret_n = n;
	return 0;
}

static struct spans_one times(const struct view *v, uint32_t id)
{
	const struct view_row *r = &v->rows[id];

	if (v->rule == VIEW_EXACT)
		return (struct spans_one){(double)(r->ts - v->first), (double)(r->end - v->first)};
	return (struct spans_one){view_ts_us(v, r), view_end_us(v, r)};
}

/* The places of keys in HTA's order; NULL: no memory. The caller frees it. */
static uint32_t *order_of(const double *keys, size_t n)
{
	uint32_t *at = malloc((n + 1) * sizeof(*at));
	size_t i;

	if (!at)
		return NULL;
	for (i = 0; i < n; i++)
		at[i] = (uint32_t)i;
	numeric_order(keys, at, n);
	return at;
}

int spans_order(const struct view *v, uint32_t *ids, size_t n)
{
	double *keys;
	uint32_t *at = NULL;
	size_t i;

	if (v->rule == VIEW_EXACT)
		return 0;
	keys = calloc(n + 1, sizeof(*keys));
	for (i = 0; keys && i < n; i++)
		keys[i] = view_ts_us(v, &v->rows[ids[i]]);
	if (keys)
		at = order_of(keys, n);
	free(keys);
	if (!at)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		at[i] = ids[at[i]];
	memcpy(ids, at, n * sizeof(*ids));
	free(at);
	return 0;
}

static void merge_exact(struct spans *s, const struct spans_one *one)
{
	if (one->end < one->ts)
		return;
	if (s->n && one->ts <= s->list[s->n - 1].end)
		s->list[s->n - 1].end = fmax(s->list[s->n - 1].end, one->end);
	else
		s->list[s->n++] = *one;
}

/* latest: the greatest end so far, of all groups. */
static void merge_hta(struct spans *s, const struct spans_one *one, double *latest)
{
	if (s->n && !(one->ts > *latest))
		s->list[s->n - 1].end = fmax(s->list[s->n - 1].end, one->end);
	else
		s->list[s->n++] = *one;
	*latest = fmax(*latest, one->end);
}

/* HTA: all ends less all starts, each summed as numpy sums. */
static int total_hta(struct spans *s)
{
	double *x = malloc((s->n + 1) * sizeof(*x)), starts;
	size_t i;

	if (!x)
		return -ENOMEM;
	for (i = 0; i < s->n; i++)
		x[i] = s->list[i].ts;
	starts = numeric_sum(x, s->n);
	for (i = 0; i < s->n; i++)
		x[i] = s->list[i].end;
	s->total = numeric_sum(x, s->n) - starts;
	free(x);
	return 0;
}

static void merge_list(const struct view *v, const uint32_t *ids, size_t n, struct spans *s)
{
	double latest = -INFINITY;
	struct spans_one one;
	size_t i;

	for (i = 0; i < n; i++) {
		one = times(v, ids[i]);
		if (v->rule == VIEW_EXACT)
			merge_exact(s, &one);
		else
			merge_hta(s, &one, &latest);
	}
	for (i = 0; i < s->n; i++)
		s->total += s->list[i].end - s->list[i].ts;
}

int spans_merge(const struct view *v, const uint32_t *ids, size_t n, unsigned classes,
		struct spans *ret)
{
	uint32_t *mine = malloc((n + 1) * sizeof(*mine));
	struct spans s = {malloc((n + 1) * sizeof(*s.list)), 0, 0};
	size_t i, m = 0;
	int rc = mine && s.list ? 0 : -ENOMEM;

	for (i = 0; !rc && i < n; i++)
		if (classes & 1u << v->rows[ids[i]].class)
			mine[m++] = ids[i];
	if (!rc)
		rc = spans_order(v, mine, m);
	if (!rc)
		merge_list(v, mine, m, &s);
	if (!rc && v->rule != VIEW_EXACT)
		rc = total_hta(&s);
	free(mine);
	if (rc)
		spans_done(&s);
	else
		*ret = s;
	return rc;
}

void spans_done(struct spans *s)
{
	free(s->list);
	memset(s, 0, sizeof(*s));
}

/* A double as a key that sorts alike. */
static uint64_t key_of(double time)
{
	uint64_t bits;

	memcpy(&bits, &time, sizeof(bits));
	return bits >> 63 ? ~bits : bits | 1ull << 63;
}

static double time_of(uint64_t key)
{
	uint64_t bits = key >> 63 ? key & ~(1ull << 63) : ~key;
	double time;

	memcpy(&time, &bits, sizeof(time));
	return time;
}

int spans_sweep(const struct spans *sets, size_t n, bool whole, double ret[8])
{
	/* id: the set, and 8 for its end. */
	struct view_key *edges;
	size_t i, k, m = 0;
	int running = 0, weight;
	double length;

	for (k = 0; k < n; k++)
		m += 2 * sets[k].n;
	edges = malloc((2 * m + 1) * sizeof(*edges));
	if (!edges)
		return -ENOMEM;
	for (k = m = 0; k < n; k++) {
		for (i = 0; i < sets[k].n; i++) {
			edges[m++] = (struct view_key){key_of(sets[k].list[i].ts), (uint32_t)k};
			edges[m++] =
				(struct view_key){key_of(sets[k].list[i].end), (uint32_t)k | 8};
		}
	}
	view_sort(edges, edges + m, m);
	memset(ret, 0, 8 * sizeof(*ret));
	for (i = 0; i + 1 < m; i++) {
		weight = 1 << (edges[i].id & 7);
		running += edges[i].id & 8 ? -weight : weight;
		length = time_of(edges[i + 1].key) - time_of(edges[i].key);
		if (running > 0)
			ret[running & 7] += whole ? trunc(length) : length;
	}
	free(edges);
	return 0;
}

int64_t spans_ns(const struct view *v, double time)
{
	return llround(v->rule == VIEW_EXACT ? time : time * 1000);
}
