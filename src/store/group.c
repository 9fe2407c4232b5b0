/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - which axes of a fold become one row of moments, and what each column of
 * times is told by: a tree of small differences, by an estimate from a few rows. What
 * turns out larger than the axes alone is not used.
 */
#include "base/mem.h"
#include "store/store_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_ROWS 64u   /* of fewer it does not pay */
#define GROUP_SAMPLE 64u /* pairs of rows that an estimate looks at */
#define GROUP_DEPTH 8u   /* columns that one column needs, itself too */
#define GROUP_DEEP 0.1   /* bits a time that one less of them may cost */
#define GROUP_GAIN 1.0   /* bits a time that another column must save */
#define GROUP_SAVES 8u   /* 1 of so many bytes must be saved */
#define GROUP_EXACT (1ll << 53)
#define GROUP_NONE UINT32_MAX

/* An axis that may be in a group: its columns. Steps and threads must be equal. */
struct group_axis {
	uint32_t axis, n;
	struct moments_bytes times, steps, threads;
};

/* A column of times: those of an axis, or the ends of an entry's spans. */
struct group_column {
	uint32_t axis;
	struct build_entry *entry; /* NULL: the axis' times */
	int64_t *time;
	struct moments_bytes alone; /* what it is without a group */
};

struct group {
	struct build *b;
	const uint32_t *spans; /* by axis: an entry of spans that has all rows, or GROUP_NONE */
	struct axis rows;      /* the last axis that was decoded */
	struct points points;
	struct group_column columns[MOMENTS_MAX];
	size_t n;
	/* Bits a time: alone, and told by another column. */
	float own[MOMENTS_MAX], cost[MOMENTS_MAX][MOMENTS_MAX];
	int8_t shift[MOMENTS_MAX][MOMENTS_MAX];
};

/* A way to tell all columns. */
struct group_tree {
	size_t order[MOMENTS_MAX], from[MOMENTS_MAX]; /* MOMENTS_MAX: itself */
	double bits;
};

/* ---- estimates ------------------------------------------------------------------------ */

/* log2(1 + magnitude), straight between powers of two. */
static float group_log2(uint64_t v)
{
	uint64_t u = 1 + ((int64_t)v < 0 ? 0 - v : v);
	unsigned top = 63 - (unsigned)__builtin_clzll(u);

	return (float)top + (float)(u - (1ull << top)) / (float)(1ull << top);
}

/* How much a[i] - b[i + shift] varies from row to row. */
static float group_varies(const int64_t *a, const int64_t *b, int shift, size_t n)
{
	size_t rows = n - 3, i, at;
	float sum = 0;

	for (i = 0; i < GROUP_SAMPLE; i++) {
		at = 1 + i * rows / GROUP_SAMPLE;
		sum += group_log2(((uint64_t)a[at + 1] - (uint64_t)b[at + 1 + (size_t)shift]) -
				  ((uint64_t)a[at] - (uint64_t)b[at + (size_t)shift]));
	}
	return sum / GROUP_SAMPLE;
}

/* The same of the differences from row to row: what a column costs alone. */
static float group_alone(const int64_t *a, size_t n)
{
	return group_varies(a, a, -1, n);
}

static void group_estimate(struct group *g)
{
	size_t n = g->rows.n, i, k;
	int shift;

	for (i = 0; i < g->n; i++) {
		g->own[i] = group_alone(g->columns[i].time, n);
		g->cost[i][i] = 1e9f;
		for (k = 0; k < i; k++) {
			g->cost[i][k] = 1e9f;
			for (shift = -1; shift <= 1; shift++) {
				float bits = group_varies(g->columns[i].time, g->columns[k].time,
							  shift, n);

				if (bits >= g->cost[i][k])
					continue;
				g->cost[i][k] = g->cost[k][i] = bits;
				g->shift[i][k] = (int8_t)shift;
				g->shift[k][i] = (int8_t)-shift;
			}
		}
	}
}

/* ---- the tree --------------------------------------------------------------------------- */

/* From this column on, always what costs least next. */
static void group_grow(const struct group *g, size_t root, struct group_tree *t)
{
	size_t from[MOMENTS_MAX], depth[MOMENTS_MAX] = {0}, i, k, best = root;
	float cost[MOMENTS_MAX];

	t->bits = 0;
	for (i = 0; i < g->n; i++) {
		from[i] = MOMENTS_MAX;
		cost[i] = g->own[i];
	}
	for (k = 0; k < g->n; k++) {
		t->order[k] = best;
		t->from[best] = from[best];
		depth[best] = from[best] < MOMENTS_MAX ? depth[from[best]] + 1 : 1;
		t->bits += (double)cost[best] + GROUP_DEEP * (double)depth[best];
		for (i = 0; i < g->n; i++)
			if (!depth[i] && depth[best] < GROUP_DEPTH && g->cost[i][best] < cost[i] &&
			    g->cost[i][best] < g->own[i] - (float)GROUP_GAIN) {
				cost[i] = g->cost[i][best];
				from[i] = best;
			}
		for (best = i = 0; i < g->n; i++)
			if (!depth[i] && (depth[best] || cost[i] < cost[best]))
				best = i;
	}
}

static void group_choose(const struct group *g, struct group_tree *ret)
{
	struct group_tree t;
	size_t root;

	group_grow(g, 0, ret);
	for (root = 1; root < g->n; root++) {
		group_grow(g, root, &t);
		if (t.bits < ret->bits)
			*ret = t;
	}
}

/* ---- columns ------------------------------------------------------------------------------ */

static uint64_t group_bits(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

/* The ends of spans, if what comes back from them are the durations, bit for bit. */
static bool group_ends(const int64_t *start, const double *v, size_t n, int64_t *ret)
{
	size_t i;

	for (i = 0; i < n; i++) {
		int64_t whole = v[i] > -GROUP_EXACT && v[i] < GROUP_EXACT ? (int64_t)v[i] : 0;

		if (group_bits((double)whole) != group_bits(v[i]))
			return false;
		ret[i] = (int64_t)((uint64_t)start[i] + (uint64_t)whole);
	}
	return true;
}

static int group_add(struct group *g, uint32_t axis, struct build_entry *entry,
		     const struct moments_bytes *alone)
{
	int64_t *time = malloc(g->rows.n * sizeof(*time));

	if (!time)
		return -ENOMEM;
	g->columns[g->n++] = (struct group_column){axis, entry, time, *alone};
	return 0;
}

/* The columns of an axis: its times, and the ends of its spans. */
static int group_take(struct group *g, const struct group_axis *from)
{
	struct build *b = g->b;
	struct merged_axis body = build_axis_at(b, from->axis);
	uint32_t span = g->spans[from->axis];
	struct build_entry *x = span == GROUP_NONE ? NULL : &b->entries[span];
	const char *why = axis_decode(b->columns, body.p, body.len, body.n, &g->rows);
	struct moments_bytes values;

	if (why || group_add(g, from->axis, NULL, &from->times) < 0)
		return -ENOMEM;
	memcpy(g->columns[g->n - 1].time, g->rows.time, g->rows.n * sizeof(int64_t));
	if (!x)
		return 0;
	g->points.n = 0;
	values = (struct moments_bytes){(const unsigned char *)b->bytes.data + x->at, x->len};
	why = values_points(b->columns, values.p, values.len, x->n, &g->rows, &g->points);
	if (why || group_add(g, from->axis, x, &values) < 0)
		return -ENOMEM;
	if (!group_ends(g->rows.time, g->points.value, g->rows.n, g->columns[g->n - 1].time))
		free(g->columns[--g->n].time);
	return 0;
}

static void group_drop(struct group *g)
{
	while (g->n)
		free(g->columns[--g->n].time);
}

/* ---- a group ------------------------------------------------------------------------------ */

/* It is worth it: note which columns are in it, in this order. */
static void group_keep(struct group *g, const size_t *which, size_t n, size_t at)
{
	struct build *b = g->b;
	size_t i;

	b->groups = xgrow(b->groups, b->n_groups, &b->cap_groups, sizeof(*b->groups));
	b->groups[b->n_groups++] = (struct build_group){
		.n = (uint32_t)g->rows.n, .at = at, .len = b->group_bytes.len - at};
	for (i = 0; i < n; i++) {
		const struct group_column *x = &g->columns[which[i]];

		if (x->entry) {
			x->entry->end = (uint32_t)i + 1;
		} else {
			b->axes[x->axis].group = (uint32_t)b->n_groups;
			b->axes[x->axis].column = (uint32_t)i;
		}
	}
}

/* Write what in->n columns say, if that is less than they are alone; `saved` bits a row
 * are expected to be. */
static int group_try(struct group *g, const struct moments_in *in, const size_t *which,
		     double saved)
{
	size_t at = g->b->group_bytes.len, bytes = 0, i;
	int r;

	for (i = 0; i < in->n; i++)
		bytes += g->columns[which[i]].alone.len;
	if (saved * (double)in->rows / 8 < (double)bytes / GROUP_SAVES)
		return 0;
	r = moments_encode(g->b->columns, &g->b->group_bytes, in);
	if (r == 0 && g->b->group_bytes.len - at < bytes - bytes / GROUP_SAVES)
		group_keep(g, which, in->n, at);
	else
		g->b->group_bytes.len = at;
	return r;
}

/* Bits a time that column x saves by being told by `from`. */
static double group_saves(const struct group *g, size_t x, size_t from)
{
	float alone = g->own[x];

	if (g->columns[x].entry) /* a span's duration is what it is alone, from its start on */
		alone = g->cost[x][x - 1];
	return (double)(alone - g->cost[x][from]);
}

static void group_unite(const struct group *g, size_t *set, size_t a, size_t b)
{
	size_t old, now, i;

	if (a >= g->n || b >= g->n)
		return;
	old = set[a];
	now = set[b];
	for (i = 0; i < g->n; i++)
		if (set[i] == old)
			set[i] = now;
}

/* Columns that one row must have: those that tell each other, and starts and ends of
 * spans. By column, a number for its row. */
static void group_join(const struct group *g, const struct group_tree *t, size_t *ret)
{
	size_t i;

	for (i = 0; i < g->n; i++)
		ret[i] = i;
	for (i = 0; i < g->n; i++) {
		if (t->from[i] < MOMENTS_MAX)
			group_unite(g, ret, i, t->from[i]);
		if (g->columns[i].entry)
			group_unite(g, ret, i, i - 1); /* its starts */
	}
}

/* The columns of row `to`. */
static int group_put(struct group *g, const struct group_axis *shared, const struct group_tree *t,
		     const size_t *joined, size_t to)
{
	struct moments_in in = {
		.rows = g->rows.n, .steps = shared->steps, .threads = shared->threads};
	size_t place[MOMENTS_MAX] = {0}, which[MOMENTS_MAX], i; /* place: 1 + where it is */
	double saved = 0;

	for (i = 0; i < g->n; i++) {
		size_t x = t->order[i], from = t->from[x];

		if (joined[x] != to)
			continue;
		in.times[in.n] = g->columns[x].time;
		if (from < MOMENTS_MAX) {
			in.from[in.n] =
				(struct moments_source){(unsigned)place[from], g->shift[x][from]};
			saved += group_saves(g, x, from);
		} else if (!g->columns[x].entry) {
			in.own[in.n] = g->columns[x].alone;
		}
		which[in.n++] = x;
		place[x] = in.n;
	}
	return saved > 0 ? group_try(g, &in, which, saved) : 0;
}

static int group_put_all(struct group *g, const struct group_axis *shared)
{
	size_t joined[MOMENTS_MAX], i;
	struct group_tree t;
	int r = 0;

	group_estimate(g);
	group_choose(g, &t);
	group_join(g, &t, joined);
	for (i = 0; r == 0 && i < g->n; i++)
		r = group_put(g, shared, &t, joined, i);
	return r;
}

/* n axes of one kind, as many of them at a time as one row takes. */
static int group_run(struct group *g, const struct group_axis *x, size_t n)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < n; i++) {
		r = group_take(g, &x[i]);
		if (r == 0 && g->n > 1 && (i + 1 == n || g->n > MOMENTS_MAX - 2))
			r = group_put_all(g, &x[i]);
		if (r < 0 || i + 1 == n || g->n > MOMENTS_MAX - 2)
			group_drop(g);
	}
	return r;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static int group_bytes(const struct moments_bytes *a, const struct moments_bytes *b)
{
	if (a->len != b->len)
		return (a->len > b->len) - (a->len < b->len);
	return memcmp(a->p, b->p, a->len);
}

static int group_kinds(const struct group_axis *a, const struct group_axis *b)
{
	int r = (a->n > b->n) - (a->n < b->n);

	if (r == 0)
		r = group_bytes(&a->steps, &b->steps);
	return r ? r : group_bytes(&a->threads, &b->threads);
}

static int group_order(const void *a, const void *b)
{
	const struct group_axis *x = a, *y = b;
	int r = group_kinds(x, y);

	return r ? r : (x->axis > y->axis) - (x->axis < y->axis);
}

static void group_split(const struct build *b, size_t i, struct group_axis *ret)
{
	struct merged_axis body = build_axis_at(b, i);
	struct cur c = {.p = body.p, .end = body.p + body.len};
	size_t times = (size_t)cur_uvarint(&c), steps = (size_t)cur_uvarint(&c);

	ret->axis = (uint32_t)i;
	ret->n = body.n;
	ret->times = (struct moments_bytes){c.p, times};
	ret->steps = (struct moments_bytes){c.p + times, steps};
	ret->threads =
		(struct moments_bytes){c.p + times + steps, (size_t)(c.end - c.p) - times - steps};
}

/* Axes that entries to seal have, and spans that have all rows of one. */
static size_t group_list(const struct catalog *d, const struct build *b, struct group_axis *list,
			 uint32_t *spans, bool *used)
{
	size_t i, n = 0;
	int64_t step;

	for (i = 0; i < b->n_axes; i++)
		spans[i] = GROUP_NONE;
	for (i = 0; i < b->n_entries; i++) {
		const struct build_entry *x = &b->entries[i];

		if (!x->sealed || x->is_hist || b->axes[x->axis].n < GROUP_ROWS ||
		    b->axes[x->axis].id || b->axes[x->axis].group)
			continue; /* also if its times are in a row already */
		used[x->axis] = true;
		if (d->series[x->series - 1].kind == SINK_SPAN && x->n == b->axes[x->axis].n)
			spans[x->axis] = (uint32_t)i;
	}
	for (i = 0; i < b->n_axes; i++) {
		if (!used[i])
			continue;
		group_split(b, i, &list[n]);
		/* Without steps nothing says which rows belong together: equal numbers of them
		 * may be from different hours. */
		n += !column_constant_int(list[n].steps.p, list[n].steps.len, &step);
	}
	return n;
}

void group_forget(struct build *b)
{
	size_t i;

	for (i = 0; i < b->n_axes; i++)
		if (b->axes[i].group && !b->groups[b->axes[i].group - 1].id)
			b->axes[i].group = 0;
	buf_done(&b->group_bytes);
	buf_init(&b->group_bytes, BUILD_BYTES_MAX);
}

int group_axes(const struct catalog *d, struct build *b)
{
	struct group_axis *list = calloc(b->n_axes + 1, sizeof(*list));
	uint32_t *spans = calloc(b->n_axes + 1, sizeof(*spans));
	bool *used = calloc(b->n_axes + 1, sizeof(*used));
	struct group g = {.b = b, .spans = spans};
	size_t i, k, n;
	int r = list && spans && used ? 0 : -ENOMEM;

	if (r == 0) {
		n = group_list(d, b, list, spans, used);
		qsort(list, n, sizeof(*list), group_order);
		for (i = 0; r == 0 && i < n; i = k) {
			for (k = i + 1; k < n && group_kinds(&list[i], &list[k]) == 0; k++)
				;
			if (k - i > 1 || spans[list[i].axis] != GROUP_NONE)
				r = group_run(&g, &list[i], k - i);
		}
	}
	group_drop(&g);
	axis_done(&g.rows);
	points_done(&g.points);
	free(list);
	free(spans);
	free(used);
	return r;
}
