/* SPDX-License-Identifier: Apache-2.0
 *
 * bandwidth.c - see bandwidth.h. Starts and ends are changes that are sorted by time and
 * added up, kind by kind.
 */
#include "analyse/bandwidth.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/numeric.h"
#include "analyse/room.h"

#define AHEAD 16 /* rows that are fetched before they are looked at */

struct change {
	int64_t ts;
	double us;   /* hta: HTA's double of ts */
	double gbps; /* to add */
	uint32_t row;
	uint32_t kind;
	bool is_end;
};

struct kinds {
	struct bandwidth_kind *list;
	size_t n;
};

/* HTA's get_memory_kernel_type(); exact knows AMD's names too. */
static void kind_name(const struct view *v, const struct view_row *r, char ret[16])
{
	static const char *const others[][2] = {{"CopyHostToDevice", "Memcpy HtoD"},
						{"CopyDeviceToHost", "Memcpy DtoH"},
						{"CopyDeviceToDevice", "Memcpy DtoD"},
						{"MemcpyH2D", "Memcpy HtoD"},
						{"MemcpyD2H", "Memcpy DtoH"},
						{"MemcpyD2D", "Memcpy DtoD"},
						{"FillBuffer", "Memset"},
						{"hipMemset", "Memset"}};
	const char *name = trace_text(v->trace, r->name, NULL);
	size_t i, len = 0;

	for (i = 0; v->rule == VIEW_EXACT && i < sizeof(others) / sizeof(others[0]); i++) {
		if (!strncmp(name, others[i][0], strlen(others[i][0]))) {
			strcpy(ret, others[i][1]);
			return;
		}
	}
	if (!strncmp(name, "Memset", 6)) {
		strcpy(ret, "Memset");
	} else if (strncmp(name, "Memcpy", 6) != 0) {
		strcpy(ret, "Memcpy Unknown");
	} else {
		len = strnlen(name, 11);
		memcpy(ret, name, len);
		ret[len] = '\0';
	}
}

static int by_kind_name(const void *a, const void *b)
{
	return strcmp(((const struct bandwidth_kind *)a)->name,
		      ((const struct bandwidth_kind *)b)->name);
}

static int32_t find_kind(const struct kinds *k, const char *name)
{
	size_t i;

	for (i = 0; i < k->n; i++)
		if (!strcmp(k->list[i].name, name))
			return (int32_t)i;
	return -1;
}

static bool is_copy(const struct view_row *r)
{
	return r->is_gpu && r->class == VIEW_MEMORY;
}

/* The kinds that there are, by name. Names are of 11 letters at most, so kinds stay few in
 * traces that people have; the list grows with them all the same. */
static int list_kinds(const struct view *v, const uint32_t *ids, size_t n, struct kinds *k)
{
	char name[16];
	struct bandwidth_kind *list;
	size_t i;

	for (i = 0; i < n; i++) {
		kind_name(v, &v->rows[ids[i]], name);
		if (find_kind(k, name) >= 0)
			continue;
		list = realloc(k->list, (k->n + 1) * sizeof(*list));
		if (!list)
			return -ENOMEM;
		k->list = list;
		memset(&list[k->n], 0, sizeof(*list));
		strcpy(list[k->n++].name, name);
	}
	if (k->n)
		qsort(k->list, k->n, sizeof(*k->list), by_kind_name);
	return 0;
}

static double rate_of(const struct view *v, const struct view_row *r)
{
	const struct trace_args *a = trace_args(v->trace, r->args);

	if (!isnan(a->bandwidth))
		return a->bandwidth;
	/* exact: bytes a ns are 1e9 bytes a second. */
	if (v->rule == VIEW_EXACT && a->bytes > 0 && r->end > r->ts)
		return (double)a->bytes / (double)(r->end - r->ts);
	return 0;
}

static void count_copy(const struct view *v, const struct view_row *r, struct bandwidth_kind *k)
{
	const struct trace_args *a = trace_args(v->trace, r->args);

	k->copies++;
	k->instant += r->end <= r->ts;
	k->bytes += a->bytes > 0 ? a->bytes : 0;
	k->time += r->end - r->ts;
}

/* Starts of all copies and behind them their ends, as HTA has them before it sorts. */
static size_t list_changes(const struct view *v, const uint32_t *ids, size_t n, struct kinds *k,
			   struct change *changes)
{
	const struct view_row *r;
	size_t i, m = 0, half;
	char name[16];
	int64_t dur;

	for (i = 0; i < n; i++) {
		r = &v->rows[ids[i]];
		kind_name(v, r, name);
		changes[m] = (struct change){r->ts,
					     view_ts_us(v, r),
					     rate_of(v, r),
					     ids[i],
					     (uint32_t)find_kind(k, name),
					     false};
		count_copy(v, r, &k->list[changes[m++].kind]);
	}
	for (half = m, i = 0; i < half; i++) {
		r = &v->rows[changes[i].row];
		dur = r->end - r->ts;
		changes[m] = changes[i];
		changes[m].ts += dur ? dur : 1000;
		changes[m].us += dur ? view_us(dur) : 1.0;
		changes[m].gbps = -changes[i].gbps;
		changes[m++].is_end = true;
	}
	return m;
}

static int by_ts(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->ts != y->ts)
		return x->ts < y->ts ? -1 : 1;
	if (x->is_end != y->is_end)
		return x->is_end ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

static int sort_changes(const struct view *v, struct change *changes, size_t n)
{
	struct numeric_key *keys;
	struct change *sorted;
	size_t i;
	int rc;

	if (v->rule == VIEW_EXACT) {
		qsort(changes, n, sizeof(*changes), by_ts);
		return 0;
	}
	sorted = malloc((n + 1) * sizeof(*sorted));
	keys = malloc((n + 1) * sizeof(*keys));
	rc = sorted && keys ? 0 : -ENOMEM;
	for (i = 0; !rc && i < n; i++)
		keys[i] = (struct numeric_key){changes[i].us, (uint32_t)i};
	if (!rc)
		numeric_order(keys, n);
	for (i = 0; !rc && i < n; i++)
		sorted[i] = changes[keys[i].id];
	if (!rc)
		memcpy(changes, sorted, n * sizeof(*changes));
	free(sorted);
	free(keys);
	return rc;
}

/* Points of one kind behind those that are there; exact: a true 0 when nothing runs, where
 * sums of doubles would leave a rest. */
static void add_up(const struct view *v, const struct change *changes, size_t n, uint32_t kind,
		   struct bandwidth *b, size_t *at)
{
	struct bandwidth_kind *k = &b->kinds[kind];
	double sum = 0;
	int64_t open = 0;
	size_t i;

	k->first = *at;
	for (i = 0; i < n; i++) {
		if (changes[i].kind != kind)
			continue;
		open += changes[i].is_end ? -1 : 1;
		sum += changes[i].gbps;
		if (v->rule == VIEW_EXACT && !open)
			sum = 0;
		b->points[(*at)++] =
			(struct bandwidth_point){changes[i].ts, changes[i].us, sum, changes[i].row};
	}
	k->n = *at - k->first;
}

static int describe(struct bandwidth *b, struct bandwidth_kind *k)
{
	double *x = malloc((k->n + 1) * sizeof(*x));
	size_t i, n = 0;

	if (!x)
		return -ENOMEM;
	for (i = 0; i < k->n; i++)
		if (b->points[k->first + i].gbps > 0)
			x[n++] = b->points[k->first + i].gbps;
	numeric_describe(x, n, &k->gbps);
	free(x);
	return 0;
}

static int build(const struct view *v, const uint32_t *ids, size_t n, struct bandwidth *b)
{
	struct kinds k = {NULL, 0};
	struct change *changes = malloc((2 * n + 1) * sizeof(*changes));
	size_t i, m, at = 0;
	int rc = changes ? list_kinds(v, ids, n, &k) : -ENOMEM;

	b->kinds = k.list;
	b->n = k.n;
	if (!rc && !k.n)
		rc = -ENODATA;
	if (!rc) {
		m = list_changes(v, ids, n, &k, changes);
		b->points = malloc((m + 1) * sizeof(*b->points));
		rc = b->points ? sort_changes(v, changes, m) : -ENOMEM;
		for (i = 0; i < k.n && !rc; i++) {
			add_up(v, changes, m, (uint32_t)i, b, &at);
			rc = describe(b, &b->kinds[i]);
		}
	}
	free(changes);
	return rc;
}

/* The copies in the order of HTA's table, or by time. */
static int find_copies(const struct view *v, uint32_t **ret_ids, size_t *ret_n)
{
	size_t i, n = 0, cap = 0, all;
	/* view_devices() keeps its list in the view. */
	const uint32_t *devices = view_devices((struct view *)v, true, &all);
	uint32_t *ids = NULL;

	if (!devices)
		return -ENOMEM;
	for (i = 0; i < all; i++) {
		if (i + AHEAD < all)
			__builtin_prefetch(&v->rows[devices[i + AHEAD]]);
		if (!is_copy(&v->rows[devices[i]]))
			continue;
		if (room_for(&ids, n, &cap, sizeof(*ids))) {
			free(ids);
			return -ENOMEM;
		}
		ids[n++] = devices[i];
	}
	*ret_ids = ids;
	*ret_n = n;
	return 0;
}

int bandwidth_new(const struct view *v, struct bandwidth *ret)
{
	struct bandwidth b = {0};
	uint32_t *ids = NULL;
	size_t n = 0;
	int rc = find_copies(v, &ids, &n);

	if (!rc)
		rc = build(v, ids, n, &b);
	free(ids);
	if (rc)
		bandwidth_done(&b);
	else
		*ret = b;
	return rc;
}

void bandwidth_done(struct bandwidth *b)
{
	free(b->points);
	free(b->kinds);
	memset(b, 0, sizeof(*b));
}
