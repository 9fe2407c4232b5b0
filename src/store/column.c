/* SPDX-License-Identifier: Apache-2.0
 *
 * column.c - the column codec's surface: which form a column has, exceptions kept
 * aside, dictionaries. docs/columns.md has the bytes.
 */
#include "store/column.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

#include "store/column_priv.h"

#define COLUMN_MAP_BITS 0x07u

void column_codec_init(struct column_codec *c)
{
	*c = (struct column_codec){0};
}

void column_codec_done(struct column_codec *c)
{
	free(c->work);
	ZSTD_freeCCtx(c->cctx);
	ZSTD_freeDCtx(c->dctx);
	c->work = NULL;
	c->cctx = c->dctx = NULL;
}

static bool column_start(struct column_codec *c)
{
	if (!c->work)
		c->work = calloc(1, sizeof(*c->work));
	if (!c->work)
		return false;
	c->work->r = c->work->bank[0];
	c->work->best = c->work->bank[1];
	c->work->quick = c->quick;
	c->work->plain = c->plain;
#if defined(__x86_64__)
	c->work->fast =
		!c->portable && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
#endif
	return true;
}

/* ---- exceptions ------------------------------------------------------------------ */

/* Does a run of equal exceptions begin at i? back: the bits that come back without. */
static inline bool column_run_at(const uint64_t *bits, const uint64_t *back, size_t i)
{
	return bits[i] != back[i] &&
	       (i == 0 || bits[i - 1] == back[i - 1] || bits[i - 1] != bits[i]);
}

/* Runs of exceptions; y becomes there what it is beside them. */
static void column_put_patches(struct column_work *w, struct buf *b, const uint64_t *bits,
			       const uint64_t *back, size_t n)
{
	size_t i, k, end = 0, runs = 0, first = 0;
	uint64_t last = 0, le;
	int64_t near;

	for (i = 0; i < n; i++)
		runs += column_run_at(bits, back, i);
	buf_uvarint(b, runs);
	while (first < n && bits[first] != back[first])
		first++;
	near = first < n ? w->y[first] : 0;
	for (i = 0; i < n; i = k) {
		k = i + 1;
		if (bits[i] == back[i]) {
			near = w->y[i];
			continue;
		}
		while (k < n && bits[k] == bits[i] && bits[k] != back[k])
			k++;
		buf_uvarint(b, i - end);
		buf_uvarint(b, 2 * (k - i - 1) + (end > 0 && bits[i] == last));
		le = htole64(bits[i]);
		if (end == 0 || bits[i] != last)
			buf_append(b, &le, sizeof(le));
		last = bits[i];
		for (end = k; i < k; i++)
			w->y[i] = near;
	}
}

static const char *column_get_patches(struct cur *c, uint64_t *out, size_t n)
{
	uint64_t runs = cur_uvarint(c), gap, len, bits = 0;
	const unsigned char *p;
	size_t at = 0, i;

	for (i = 0; i < runs; i++) {
		gap = cur_uvarint(c);
		len = cur_uvarint(c);
		if (!(len & 1)) {
			p = cur_bytes(c, 8);
			bits = p ? column_load(p) : 0;
		}
		len = len / 2 + 1;
		if (c->error || gap > n - at || len > n - at - gap)
			return "an exception of a column is outside it";
		at += gap;
		for (; len > 0; len--)
			out[at++] = bits;
	}
	return c->error ? "the exceptions of a column are cut short" : NULL;
}

/* ---- forms ------------------------------------------------------------------------- */

/* The number of 64 bits that all n are, as a column; false: they are not. */
static bool column_put_constant(struct buf *b, const void *v, size_t n)
{
	uint64_t bits;

	if (n > 1 && memcmp(v, (const char *)v + 8, 8 * (n - 1)) != 0)
		return false;
	memcpy(&bits, v, 8);
	bits = htole64(bits);
	buf_putc(b, COLUMN_MAP_CONSTANT);
	buf_append(b, &bits, 8);
	return true;
}

static bool column_constant(const unsigned char *p, size_t len, uint64_t *ret)
{
	if (len != 9 || p[0] != COLUMN_MAP_CONSTANT)
		return false;
	*ret = column_load(p + 1);
	return true;
}

/* What was written from `at` on stays unless 8 bytes each are less. */
static int column_finish(struct buf *b, size_t at, const void *v, size_t n)
{
	unsigned char *to;
	uint64_t bits;
	size_t i;

	if (!b->error && b->len - at > 1 + 8 * n) {
		b->len = at;
		to = buf_reserve(b, 1 + 8 * n);
		if (to) {
			*to++ = COLUMN_MAP_RAW;
			for (i = 0; i < n; i++, to += 8) {
				memcpy(&bits, (const char *)v + 8 * i, 8);
				bits = htole64(bits);
				memcpy(to, &bits, 8);
			}
			b->len += 1 + 8 * n;
		}
	}
	if (b->error)
		b->len = at;
	else
		b->data[b->len] = '\0';
	return b->error;
}

/* Constants and raw columns, for both kinds of numbers. True: done, or *why. */
static bool column_get_simple(const unsigned char *p, size_t len, size_t n, void *out,
			      const char **why)
{
	uint64_t bits;
	size_t i;

	*why = NULL;
	if (n == 0 || n > COLUMN_MAX || len == 0) {
		*why = "a column is empty or too long";
		return true;
	}
	if (p[0] != COLUMN_MAP_CONSTANT && p[0] != COLUMN_MAP_RAW)
		return false;
	if (len != (p[0] == COLUMN_MAP_RAW ? 1 + 8 * n : 9)) {
		*why = "a column has an impossible length";
		return true;
	}
	bits = column_load(p + 1);
	for (i = 0; i < n; i++) {
		if (p[0] == COLUMN_MAP_RAW)
			bits = column_load(p + 1 + 8 * i);
		memcpy((char *)out + 8 * i, &bits, 8);
	}
	return true;
}

int column_put_ints(struct column_codec *c, struct buf *b, const int64_t *v, size_t n)
{
	size_t at = b->len, i, none = 0;
	struct column_work *w;
	unsigned flags = COLUMN_MAP_INT;

	if (n == 0 || n > COLUMN_MAX)
		return -EINVAL;
	if (column_put_constant(b, v, n))
		return column_finish(b, at, v, n);
	if (!column_start(c))
		return -ENOMEM;
	w = c->work;
	buf_putc(b, 0);
	memcpy(w->y, v, n * sizeof(*v));
	for (i = 0; i < n; i++)
		none += v[i] == COLUMN_NONE;
	if (none) {
		for (i = 0; i < n; i++)
			w->r[i] = v[i] == COLUMN_NONE ? 0 : v[i];
		column_put_patches(w, b, (const uint64_t *)v, (const uint64_t *)w->r, n);
		flags |= COLUMN_F_PATCHES;
	}
	flags |= column_body_put(c, b, n);
	if (!b->error)
		b->data[at] = (char)flags;
	return column_finish(b, at, v, n);
}

const char *column_get_ints(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			    int64_t *out)
{
	struct cur cur = {p, p + len, 0}, patches;
	const char *why;

	if (column_get_simple(p, len, n, out, &why))
		return why;
	if ((p[0] & COLUMN_MAP_BITS) != COLUMN_MAP_INT || p[0] & ~COLUMN_F_ALL)
		return "a column of integers has an unknown form";
	if (!column_start(c))
		return "out of memory";
	cur.p++;
	patches = cur;
	if (p[0] & COLUMN_F_PATCHES)
		why = column_get_patches(&cur, (uint64_t *)out, n);
	if (!why)
		why = column_body_get(c, &cur, p[0], n);
	if (why)
		return why;
	memcpy(out, c->work->y, n * sizeof(*out));
	return p[0] & COLUMN_F_PATCHES ? column_get_patches(&patches, (uint64_t *)out, n) : NULL;
}

bool column_constant_int(const unsigned char *p, size_t len, int64_t *ret)
{
	return column_constant(p, len, (uint64_t *)ret);
}

bool column_constant_value(const unsigned char *p, size_t len, double *ret)
{
	uint64_t bits;

	if (!column_constant(p, len, &bits))
		return false;
	*ret = column_double(bits);
	return true;
}

/* ---- doubles ----------------------------------------------------------------------- */

#define COLUMN_DICT_BITS 12 /* a value: what costs less needs no dictionary */

/* A column by the mapping that w->y was filled by. */
static void column_put_mapped(struct column_codec *c, struct buf *b, const double *v, size_t n,
			      enum column_map map, unsigned exponent, size_t odd)
{
	struct column_work *w = c->work;
	unsigned flags = map;
	size_t at = b->len;

	buf_putc(b, 0);
	if (map == COLUMN_MAP_DECIMAL)
		buf_putc(b, (char)exponent);
	if (odd) {
		column_map_back(w, w->y, n, map, exponent, (double *)w->r);
		column_put_patches(w, b, (const uint64_t *)v, (const uint64_t *)w->r, n);
		flags |= COLUMN_F_PATCHES;
	}
	flags |= column_body_put(c, b, n);
	if (!b->error)
		b->data[at] = (char)flags;
}

/* A column of few different numbers, if that is shorter than what is in b from at on. */
static void column_put_dict(struct column_codec *c, struct buf *b, size_t at, const double *v,
			    size_t n)
{
	struct column_work *w = c->work;
	size_t kinds = column_map_dict(w, v, n), from = b->len, i, len;
	enum column_map map;
	unsigned exponent, flags;
	size_t odd;

	if (kinds < 2 || kinds * 2 > n)
		return;
	buf_putc(b, 0);
	buf_putc(b, (char)(kinds - 1));
	buf_append(b, "", 1);
	buf_append(b, "", 1);
	len = b->len;
	map = column_map_choose(w, w->dict, kinds, &exponent, &odd);
	column_put_mapped(c, b, w->dict, kinds, map, exponent, odd);
	column_finish(b, len, w->dict, kinds);
	len = b->len - len;
	for (i = 0; i < n; i++)
		w->y[i] = w->index[i];
	flags = COLUMN_MAP_DICT | column_body_put(c, b, n);
	if (b->error)
		return;
	b->data[from] = (char)flags;
	b->data[from + 2] = (char)(len & 0xff);
	b->data[from + 3] = (char)(len >> 8);
	len = b->len - from;
	if (len < from - at)
		memmove(b->data + at, b->data + from, len);
	b->len = len < from - at ? at + len : from;
}

int column_put_values(struct column_codec *c, struct buf *b, const double *v, size_t n)
{
	enum column_map map;
	size_t at = b->len, odd;
	unsigned exponent;

	if (n == 0 || n > COLUMN_MAX)
		return -EINVAL;
	if (column_put_constant(b, v, n))
		return column_finish(b, at, v, n);
	if (!column_start(c))
		return -ENOMEM;
	map = column_map_choose(c->work, v, n, &exponent, &odd);
	column_put_mapped(c, b, v, n, map, exponent, odd);
	if (!b->error && (b->len - at) * 8 > COLUMN_DICT_BITS * n)
		column_put_dict(c, b, at, v, n);
	return column_finish(b, at, v, n);
}

static const char *column_get_mapped(struct column_codec *c, const unsigned char *p, size_t len,
				     size_t n, double *out)
{
	struct cur cur = {p + 1, p + len, 0}, patches;
	unsigned map = *p & COLUMN_MAP_BITS;
	const unsigned char *exponent = p;
	const char *why = NULL;

	if (*p & ~COLUMN_F_ALL || map < COLUMN_MAP_DECIMAL || map > COLUMN_MAP_F64)
		return "a column of numbers has an unknown form";
	if (map == COLUMN_MAP_DECIMAL)
		exponent = cur_bytes(&cur, 1);
	if (!exponent || (map == COLUMN_MAP_DECIMAL && *exponent > COLUMN_EXPONENT_MAX))
		return "a column of decimals has an impossible exponent";
	patches = cur;
	if (*p & COLUMN_F_PATCHES)
		why = column_get_patches(&cur, (uint64_t *)out, n);
	if (!why)
		why = column_body_get(c, &cur, *p, n);
	if (why)
		return why;
	column_map_back(c->work, c->work->y, n, (enum column_map)map, *exponent, out);
	return *p & COLUMN_F_PATCHES ? column_get_patches(&patches, (uint64_t *)out, n) : NULL;
}

static const char *column_get_dict(struct column_codec *c, const unsigned char *p, size_t len,
				   size_t n, double *out)
{
	struct column_work *w = c->work;
	struct cur cur = {p + 1, p + len, 0};
	const unsigned char *head = cur_bytes(&cur, 3), *dict;
	size_t kinds, bytes, i;
	const char *why;

	if (!head || *p & ~(COLUMN_F_ALL & ~COLUMN_F_PATCHES))
		return "a column with a dictionary has an unknown form";
	kinds = head[0] + 1u;
	bytes = head[1] | (size_t)head[2] << 8;
	dict = cur_bytes(&cur, bytes);
	if (!dict)
		return "the dictionary of a column is cut short";
	if (!column_get_simple(dict, bytes, kinds, w->dict, &why))
		why = column_get_mapped(c, dict, bytes, kinds, w->dict);
	if (!why)
		why = column_body_get(c, &cur, *p, n);
	if (why)
		return why;
	for (i = 0; i < n; i++) {
		if ((uint64_t)w->y[i] >= kinds)
			return "a number of a column is not in its dictionary";
		out[i] = w->dict[w->y[i]];
	}
	return NULL;
}

const char *column_get_values(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			      double *out)
{
	const char *why;

	if (column_get_simple(p, len, n, out, &why))
		return why;
	if (!column_start(c))
		return "out of memory";
	if ((p[0] & COLUMN_MAP_BITS) == COLUMN_MAP_DICT)
		return column_get_dict(c, p, len, n, out);
	return column_get_mapped(c, p, len, n, out);
}
