/* SPDX-License-Identifier: Apache-2.0
 *
 * column_body.c - a column of integers: off its grid, then through a predictor, or
 * as runs of equal numbers, or through zstd if it repeats itself, whichever is the
 * shortest.
 */
#include <zstd.h>

#include "store/column_priv.h"

#define BODY_ZSTD_LEVEL 3
#define BODY_ZSTD_BITS 1.5 /* a value: what costs less is not tried */

/* ---- zstd -------------------------------------------------------------------------- */

/* Instead of a predictor: bytes of y less the smallest, through zstd, for what
 * repeats itself. False: no gain over `bits`. */
static bool body_put_zstd(struct column_codec *c, struct buf *b, size_t n, double bits)
{
	struct column_work *w = c->work;
	unsigned char *raw = (unsigned char *)w->spare, *to;
	size_t i, width, at = b->len, len, room;
	uint64_t range = 0, le;
	int64_t min = w->y[0];

	if (w->quick || bits < BODY_ZSTD_BITS * (double)n || !column_grid_repeats(w, n))
		return false;
	if (!c->cctx)
		c->cctx = ZSTD_createCCtx();
	for (i = 0; i < n; i++)
		min = w->y[i] < min ? w->y[i] : min;
	for (i = 0; i < n; i++)
		range |= (uint64_t)w->y[i] - (uint64_t)min;
	width = (71 - (unsigned)__builtin_clzll(range | 1)) / 8;
	for (i = 0; i < n; i++) {
		le = htole64((uint64_t)w->y[i] - (uint64_t)min);
		memcpy(raw + i * width, &le, width);
	}
	buf_svarint(b, min);
	buf_putc(b, (char)width);
	room = ZSTD_compressBound(n * width);
	to = buf_reserve(b, room);
	len = to && c->cctx ? ZSTD_compressCCtx(c->cctx, to, room, raw, n * width, BODY_ZSTD_LEVEL)
			    : (size_t)-1;
	if (ZSTD_isError(len) || 8 * (double)(len + b->len - at) >= bits) {
		b->len = at;
		return false;
	}
	b->len += len;
	return true;
}

static const char *body_get_zstd(struct column_codec *c, struct cur *cur, size_t n)
{
	int64_t min = cur_svarint(cur);
	const unsigned char *width = cur_bytes(cur, 1), *raw = (unsigned char *)c->work->spare;
	unsigned char last[8] = {0};
	uint64_t mask;
	size_t i, len;

	if (!width || cur->error || *width == 0 || *width > 8)
		return "the repeating numbers of a column have an impossible width";
	if (!c->dctx)
		c->dctx = ZSTD_createDCtx();
	if (!c->dctx)
		return "out of memory";
	len = ZSTD_decompressDCtx(c->dctx, c->work->spare, n * *width, cur->p,
				  (size_t)(cur->end - cur->p));
	if (len != n * *width)
		return "the repeating numbers of a column cannot be decompressed";
	cur->p = cur->end;
	mask = UINT64_MAX >> (64 - 8 * *width);
	for (i = 0; i + 8 <= n; i++)
		c->work->y[i] = column_add(min, (int64_t)(column_load(raw + i * *width) & mask));
	for (; i < n; i++) {
		memcpy(last, raw + i * *width, *width);
		c->work->y[i] = column_add(min, (int64_t)column_load(last));
	}
	return NULL;
}

/* ---- runs -------------------------------------------------------------------------- */

static void body_put_diff(struct column_work *w, struct buf *b, size_t n)
{
	struct column_diff d;

	column_diff_plan(w, n, &d);
	column_diff_put(w, b, n, &d);
}

COLUMN_BODY size_t body_runs_body(const int64_t *y, size_t n)
{
	size_t i, runs = 1;

	for (i = 1; i < n; i++)
		runs += y[i] != y[i - 1];
	return runs;
}

static size_t body_runs_plain(const int64_t *y, size_t n)
{
	return body_runs_body(y, n);
}

COLUMN_FAST static size_t body_runs_fast(const int64_t *y, size_t n)
{
	return body_runs_body(y, n);
}

/* Lengths of runs of equal numbers, then the numbers, instead of what is in b from
 * at on; false: that stays. */
static bool body_put_runs(struct column_work *w, struct buf *b, size_t n, size_t at)
{
	size_t runs = (w->fast ? body_runs_fast : body_runs_plain)(w->y, n), i, from = b->len, len;

	if (runs * 2 > n || runs < 2)
		return false;
	for (i = runs = 0, len = 1; i < n; i++, len++) {
		if (i + 1 < n && w->y[i + 1] == w->y[i])
			continue;
		w->hold[runs] = w->y[i];
		w->y[runs++] = (int64_t)len;
		len = 0;
	}
	buf_uvarint(b, runs);
	body_put_diff(w, b, runs);
	memcpy(w->y, w->hold, runs * sizeof(w->y[0]));
	body_put_diff(w, b, runs);
	len = b->len - from;
	if (b->error || len >= from - at) {
		b->len = from;
		return false;
	}
	memmove(b->data + at, b->data + from, len);
	b->len = at + len;
	return true;
}

static const char *body_get_runs(struct column_work *w, struct cur *c, size_t n)
{
	uint64_t runs = cur_uvarint(c), sum = 0;
	size_t i, at = n, len;
	const char *why;

	if (c->error || runs == 0 || runs > n)
		return "the runs of a column are impossible";
	why = column_diff_get(w, c, (size_t)runs);
	for (i = 0; !why && i < runs; i++) {
		if ((uint64_t)w->y[i] > n || w->y[i] == 0)
			return "a run of a column has an impossible length";
		sum += (uint64_t)w->y[i];
	}
	if (!why && sum != n)
		return "the runs of a column do not add up";
	if (why)
		return why;
	memcpy(w->hold, w->y, runs * sizeof(w->y[0]));
	why = column_diff_get(w, c, (size_t)runs);
	if (why)
		return why;
	/* From the end, in place: no run is shorter than 1. */
	for (i = (size_t)runs; i-- > 0;)
		for (len = (size_t)w->hold[i]; len > 0; len--)
			w->y[--at] = w->y[i];
	return NULL;
}

/* ---- all --------------------------------------------------------------------------- */

unsigned column_body_put(struct column_codec *c, struct buf *b, size_t n)
{
	struct column_work *w = c->work;
	struct column_diff d;
	unsigned flags = 0;
	uint64_t step;
	int64_t offset;
	size_t at;

	if (column_grid_take(w, n, &step, &offset)) {
		buf_uvarint(b, step);
		buf_svarint(b, offset);
		flags |= COLUMN_F_GRID;
	}
	column_diff_plan(w, n, &d);
	if (body_put_zstd(c, b, n, d.pack.bits))
		return flags | COLUMN_F_ZSTD;
	at = b->len;
	column_diff_put(w, b, n, &d);
	return flags | (body_put_runs(w, b, n, at) ? COLUMN_F_RUNS : 0);
}

const char *column_body_get(struct column_codec *c, struct cur *cur, unsigned flags, size_t n)
{
	struct column_work *w = c->work;
	uint64_t step = 1;
	int64_t offset = 0;
	const char *why;
	size_t i;

	if (flags & COLUMN_F_GRID) {
		step = cur_uvarint(cur);
		offset = cur_svarint(cur);
	}
	if (flags & COLUMN_F_ZSTD)
		why = flags & COLUMN_F_RUNS ? "a column has two forms" : body_get_zstd(c, cur, n);
	else if (flags & COLUMN_F_RUNS)
		why = body_get_runs(w, cur, n);
	else
		why = column_diff_get(w, cur, n);
	if (why)
		return why;
	for (i = 0; flags & COLUMN_F_GRID && i < n; i++)
		w->y[i] = column_add(offset, (int64_t)((uint64_t)w->y[i] * step));
	if (cur->error)
		return "a column is cut short";
	return cur->p == cur->end ? NULL : "a column is longer than its numbers";
}
