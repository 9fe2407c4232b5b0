/* SPDX-License-Identifier: Apache-2.0
 *
 * build.c - puts series onto axes: points that are rows of an axis made for
 * another series share it. Which series makes the axis matters if some missed a
 * few rounds, so that a few wait until a fuller one has come.
 */
#include "base/mem.h"
#include "store/store_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUILD_FLUSH (256u << 10)    /* bytes of new entries that are flushed together, */
#define BUILD_FLUSH_LOOP (1u << 20) /* or these: series of a loop tell each other's times */

void build_init(struct build *b, const char *path, struct column_codec *columns, struct err *e)
{
	*b = (struct build){.path = path, .columns = columns, .e = e};
	buf_init(&b->bytes, BUILD_BYTES_MAX);
	buf_init(&b->axis_bytes, BUILD_BYTES_MAX);
	buf_init(&b->group_bytes, BUILD_BYTES_MAX);
}

/* What is only needed while points come. */
static void build_drop_points(struct build *b)
{
	size_t i;

	for (i = 0; i < BUILD_WAITING; i++)
		points_done(&b->waiting[i].points);
}

void build_done(struct build *b)
{
	size_t i;

	build_drop_points(b);
	for (i = 0; i < BUILD_AXES; i++)
		axis_done(&b->slots[i].axis);
	free(b->axes);
	free(b->entries);
	free(b->groups);
	buf_done(&b->bytes);
	buf_done(&b->axis_bytes);
	buf_done(&b->group_bytes);
}

static int build_fail(const struct build *b, int r, uint32_t series)
{
	return err_errno(b->e, r, "%s: encoding points of series %u", b->path, series);
}

static struct build_entry *build_entry(struct build *b, uint32_t series, size_t n)
{
	struct build_entry *x;

	b->entries = xgrow(b->entries, b->n_entries, &b->cap_entries, sizeof(*b->entries));
	x = &b->entries[b->n_entries];
	*x = (struct build_entry){
		.series = series, .n = (uint32_t)n, .order = b->made++, .at = b->bytes.len};
	b->n_entries++;
	return x;
}

/* The n points of v on an axis, in the rows that b->presence says. */
static int build_put(struct build *b, uint32_t series, uint32_t axis, const struct points_view *v,
		     size_t n)
{
	struct build_entry *x = build_entry(b, series, n);
	int r;

	x->axis = axis;
	x->is_full = b->axes[axis].n == CHUNK_POINTS_MAX;
	b->columns->quick = b->quick && !x->is_full;
	r = values_encode(b->columns, &b->bytes, &b->presence, v->value, n);
	b->columns->quick = false;
	x->len = b->bytes.len - x->at;
	return r < 0 ? build_fail(b, r, series) : 0;
}

/* Put the first points of v onto an axis that is there; how many, or -errno. */
static ssize_t build_share(struct build *b, uint32_t series, const struct points_view *v)
{
	size_t i, n;
	int r;

	for (i = 0; i < b->n_slots; i++) {
		struct build_slot *s = &b->slots[i];

		n = axis_match(&s->axis, v, &b->presence);
		if (n == 0)
			continue;
		s->used = ++b->clock;
		r = build_put(b, series, s->index, v, n);
		return r < 0 ? r : (ssize_t)n;
	}
	return 0;
}

/* The slot used longest ago, or a new one. */
static struct build_slot *build_slot(struct build *b)
{
	struct build_slot *oldest = &b->slots[0];
	size_t i;

	if (b->n_slots < BUILD_AXES)
		return &b->slots[b->n_slots++];
	for (i = 1; i < BUILD_AXES; i++)
		if (b->slots[i].used < oldest->used)
			oldest = &b->slots[i];
	return oldest;
}

/* The first points of v make an axis of their own; how many, or -errno. */
static ssize_t build_own(struct build *b, uint32_t series, const struct points_view *v)
{
	struct points_view first = *v;
	struct build_slot *slot = build_slot(b);
	struct build_axis *a;
	int r;

	if (first.n > CHUNK_POINTS_MAX)
		first.n = CHUNK_POINTS_MAX;
	b->axes = xgrow(b->axes, b->n_axes, &b->cap_axes, sizeof(*b->axes));
	a = &b->axes[b->n_axes];
	*a = (struct build_axis){.n = (uint32_t)first.n, .at = b->axis_bytes.len};
	slot->index = (uint32_t)b->n_axes++;
	slot->used = ++b->clock;
	r = axis_set(&slot->axis, &first);
	b->is_loop = b->is_loop || first.step[0] != first.step[first.n - 1];
	b->columns->quick = b->quick && first.n < CHUNK_POINTS_MAX;
	if (r == 0)
		r = axis_encode(b->columns, &b->axis_bytes, &slot->axis);
	b->columns->quick = false;
	if (r < 0)
		return build_fail(b, r, series);
	a->len = b->axis_bytes.len - a->at;
	b->presence.n = 0;
	r = build_put(b, series, slot->index, &first, first.n);
	return r < 0 ? r : (ssize_t)first.n;
}

/* As far as it goes with the axes that are there. *from is moved on. */
static int build_shared(struct build *b, uint32_t series, const struct points *p, size_t *from,
			size_t keep)
{
	ssize_t n = 1;

	while (n > 0 && p->n - *from > keep) {
		struct points_view v = points_slice(p, *from, p->n - *from);

		n = build_share(b, series, &v);
		if (n > 0)
			*from += (size_t)n;
	}
	return n < 0 ? (int)n : 0;
}

/* Those that wait look at the axes again. */
static int build_settle(struct build *b)
{
	size_t i, kept = 0;
	int r = 0;

	for (i = 0; r == 0 && i < b->n_waiting; i++) {
		struct build_wait *w = &b->waiting[i], swap;

		r = build_shared(b, w->series, &w->points, &w->from, 0);
		if (w->from == w->points.n)
			continue;
		swap = b->waiting[kept];
		b->waiting[kept++] = *w;
		*w = swap;
	}
	b->n_waiting = kept;
	return r;
}

/* Who waits and has most points makes an axis. */
static int build_decide(struct build *b)
{
	struct build_wait *most = &b->waiting[0];
	struct points_view v;
	size_t i;
	ssize_t n;
	int r = build_settle(b);

	if (r < 0 || b->n_waiting == 0)
		return r;
	for (i = 1; i < b->n_waiting; i++)
		if (b->waiting[i].points.n - b->waiting[i].from > most->points.n - most->from)
			most = &b->waiting[i];
	v = points_slice(&most->points, most->from, most->points.n - most->from);
	n = build_own(b, most->series, &v);
	if (n < 0)
		return (int)n;
	most->from += (size_t)n;
	return build_settle(b);
}

static void build_shift(struct points *p, size_t from)
{
	size_t left = p->n - from;

	if (from) {
		memmove(p->time, p->time + from, left * sizeof(*p->time));
		memmove(p->step, p->step + from, left * sizeof(*p->step));
		memmove(p->thread, p->thread + from, left * sizeof(*p->thread));
		memmove(p->value, p->value + from, left * sizeof(*p->value));
	}
	p->n = left;
}

/* ---- what is complete ------------------------------------------------------------ */

static int build_order(const void *a, const void *b)
{
	const struct build_entry *x = a, *y = b;

	if (x->is_hist != y->is_hist)
		return x->is_hist - y->is_hist;
	if (x->series != y->series)
		return (x->series > y->series) - (x->series < y->series);
	return (x->order > y->order) - (x->order < y->order);
}

static void build_sort(struct build *b)
{
	if (b->n_entries)
		qsort(b->entries, b->n_entries, sizeof(*b->entries), build_order);
}

static int build_order_made(const void *a, const void *b)
{
	const struct build_entry *x = a, *y = b;

	return (x->order > y->order) - (x->order < y->order);
}

/* Move bytes that are used down to *to, which goes on. */
static void build_move(struct buf *b, size_t *at, size_t len, size_t *to)
{
	memmove(b->data + *to, b->data + *at, len);
	*at = *to;
	*to += len;
}

static void build_cut(struct buf *b, size_t len)
{
	b->len = len;
	if (b->data)
		b->data[len] = '\0';
}

/* Axes that neither an entry nor a slot has any more lose their bytes. */
static void build_drop_axes(struct build *b)
{
	uint8_t *used = xcalloc(b->n_axes + 1, 1);
	size_t i, to = 0;

	for (i = 0; i < b->n_entries; i++)
		if (!b->entries[i].is_hist)
			used[b->entries[i].axis] = 1;
	for (i = 0; i < b->n_slots; i++)
		used[b->slots[i].index] = 1;
	for (i = 0; i < b->n_axes; i++) {
		if (!used[i])
			b->axes[i].len = 0;
		else
			build_move(&b->axis_bytes, &b->axes[i].at, b->axes[i].len, &to);
	}
	build_cut(&b->axis_bytes, to);
	free(used);
}

void build_drop_sealed(struct build *b)
{
	size_t i, n = 0, to = 0;

	if (b->n_entries)
		qsort(b->entries, b->n_entries, sizeof(*b->entries), build_order_made);
	for (i = 0; i < b->n_entries; i++) {
		struct build_entry x = b->entries[i];

		if (x.sealed)
			continue;
		build_move(&b->bytes, &x.at, x.len, &to);
		b->entries[n++] = x;
	}
	b->n_entries = n;
	build_cut(&b->bytes, to);
	build_drop_axes(b);
}

void build_on_flush(struct build *b, int (*flush)(void *arg), void *arg)
{
	b->flush = flush;
	b->flush_arg = arg;
}

static int build_flush(struct build *b)
{
	size_t enough = b->is_loop ? BUILD_FLUSH_LOOP : BUILD_FLUSH;
	int r;

	if (!b->flush || b->bytes.len + b->axis_bytes.len < b->flushed + enough)
		return 0;
	build_sort(b);
	r = b->flush(b->flush_arg);
	b->flushed = b->bytes.len + b->axis_bytes.len;
	b->is_loop = false;
	return r;
}

bool build_is_waiting(const struct build *b, uint32_t series)
{
	size_t i;

	for (i = 0; i < b->n_waiting; i++)
		if (b->waiting[i].series == series)
			return true;
	return false;
}

int build_points(struct build *b, uint32_t series, struct points *p, bool more)
{
	struct build_wait *w;
	struct points swap;
	size_t from = 0;
	ssize_t n = 0;
	int r;

	/* With more to come, fewer than a chunk's points are no prefix to judge by. */
	r = build_shared(b, series, p, &from, more ? CHUNK_POINTS_MAX - 1 : 0);
	while (r == 0 && p->n - from >= BUILD_POINTS - 1) {
		struct points_view v = points_slice(p, from, p->n - from);

		n = build_own(b, series, &v);
		if (n < 0)
			return (int)n;
		from += (size_t)n;
		r = build_shared(b, series, p, &from, more ? CHUNK_POINTS_MAX - 1 : 0);
	}
	while (r == 0 && !more && p->n > from && b->n_waiting == BUILD_WAITING) {
		r = build_decide(b);
		if (r == 0)
			r = build_shared(b, series, p, &from, 0);
	}
	build_shift(p, from);
	if (r < 0 || more)
		return r;
	if (p->n == 0)
		return build_flush(b);
	w = &b->waiting[b->n_waiting++];
	w->series = series;
	w->from = 0;
	swap = w->points;
	w->points = *p;
	swap.n = 0;
	*p = swap;
	return build_flush(b);
}

/* ---- histograms ---------------------------------------------------------------- */

static int build_put_hists(struct build *b, uint32_t series, struct hists *h, size_t from, size_t n,
			   bool full)
{
	struct build_entry *x = build_entry(b, series, n);

	hists_put_body(&b->bytes, h, from, n);
	x->is_hist = true;
	x->is_full = full;
	x->len = b->bytes.len - x->at;
	return b->bytes.error ? build_fail(b, b->bytes.error, series) : 0;
}

static int build_take_hists(struct build *b, uint32_t series, struct hists *h, bool more)
{
	size_t i, from = 0, bins = 0;
	struct hists rest;
	int r = 0;

	for (i = 0; r == 0 && i < h->n; i++) {
		bins += h->rows[i].n_bins;
		if (i + 1 - from < CHUNK_HISTS_MAX && bins < CHUNK_BINS_MAX)
			continue;
		r = build_put_hists(b, series, h, from, i + 1 - from, true);
		from = i + 1;
		bins = 0;
	}
	if (r == 0 && !more && from < h->n)
		r = build_put_hists(b, series, h, from, h->n - from, false);
	hists_init(&rest);
	for (i = from; r == 0 && more && i < h->n; i++)
		if (hists_add(&rest, &h->rows[i], h->bins + h->rows[i].bins) < 0)
			r = build_fail(b, -ENOMEM, series);
	if (from || !more) {
		hists_done(h);
		*h = rest;
	} else {
		hists_done(&rest);
	}
	return r;
}

int build_hists(struct build *b, uint32_t series, struct hists *h, bool more)
{
	int r = build_take_hists(b, series, h, more);

	return r < 0 || more ? r : build_flush(b);
}

/* ---- the end ---------------------------------------------------------------------- */

int build_end(struct build *b)
{
	int r = 0;

	while (r == 0 && b->n_waiting)
		r = build_decide(b);
	if (r == 0)
		build_sort(b);
	build_drop_points(b);
	return r;
}

struct merged_axis build_axis_at(const struct build *b, size_t i)
{
	const struct build_axis *a = &b->axes[i];

	return (struct merged_axis){a->n, (const unsigned char *)b->axis_bytes.data + a->at,
				    a->len};
}
