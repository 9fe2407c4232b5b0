/* SPDX-License-Identifier: Apache-2.0
 *
 * column_unpack.c - residuals back from symbols and raw bits: what column_pack.c
 * wrote.
 */
#include "store/column_priv.h"

/* Low bits of the i-th residual, near the end of the bytes. */
static uint64_t unpack_low_at(const unsigned char *p, size_t len, size_t i, unsigned low)
{
	unsigned char last[8] = {0};
	size_t at = i * low / 8;

	memcpy(last, p + at, len - at < 8 ? len - at : 8);
	return column_load(last) >> (i * low % 8) & ((1ull << low) - 1);
}

/* r[i] = centre + quotient * 2^low + low bits, for quotients of small symbols. */
COLUMN_BODY void unpack_join_body(const uint8_t *sym, const unsigned char *p, size_t n,
				  unsigned low, int64_t centre, int64_t *r)
{
	uint64_t mask = (1ull << low) - 1,
		 base = (uint64_t)centre - ((uint64_t)COLUMN_PACK_ZERO << low);
	size_t i, k, at[8];
	unsigned by[8];

	for (k = 0; k < 8; k++) {
		at[k] = k * low / 8;
		by[k] = (unsigned)(k * low % 8);
	}
	for (i = 0; i < n; i += 8, p += low) {
#pragma GCC unroll 8
		for (k = 0; k < 8; k++)
			r[i + k] = (int64_t)(base + ((uint64_t)sym[i + k] << low) +
					     (column_load(p + at[k]) >> by[k] & mask));
	}
}

static void unpack_join_plain(const uint8_t *sym, const unsigned char *p, size_t n, unsigned low,
			      int64_t centre, int64_t *r)
{
	unpack_join_body(sym, p, n, low, centre, r);
}

COLUMN_FAST static void unpack_join_fast(const uint8_t *sym, const unsigned char *p, size_t n,
					 unsigned low, int64_t centre, int64_t *r)
{
	unpack_join_body(sym, p, n, low, centre, r);
}

static void unpack_join(const struct column_work *w, const unsigned char *p, size_t len, size_t n,
			unsigned low, int64_t centre, int64_t *r)
{
	static const unsigned char nothing[8];
	/* Eights whose last load of 8 bytes stays inside. */
	size_t whole = low ? (len < 8 ? 0 : (len - 8) / low * 8) : n, i;
	uint64_t bits;

	p = low ? p : nothing;
	whole = whole < n / 8 * 8 ? whole : n / 8 * 8;
	(w->fast ? unpack_join_fast : unpack_join_plain)(w->sym, p, whole, low, centre, r);
	for (i = whole; i < n; i++) {
		bits = low ? unpack_low_at(p, len, i, low) : 0;
		bits += ((uint64_t)w->sym[i] - COLUMN_PACK_ZERO) << low;
		r[i] = column_add(centre, (int64_t)bits);
	}
}

/* Bits that the large ones of w->sym[0..n) have in all. */
static size_t unpack_large_bits(const struct column_work *w, size_t n)
{
	size_t i, k, sum = 0;

	for (i = 0; i < n; i += 8) {
		if (!(column_load(w->sym + i) & 0x8080808080808080u))
			continue;
		for (k = i; k < i + 8 && k < n; k++)
			if (w->sym[k] >= COLUMN_PACK_LARGE)
				sum += column_pack_octave(w->sym[k]);
	}
	return sum;
}

/* bits (at most 62) from position at of len bytes. */
static inline uint64_t unpack_read(const unsigned char *p, size_t len, size_t at, unsigned bits)
{
	unsigned char last[16] = {0};
	size_t byte = at / 8;
	uint64_t v;

	if (len - byte < 9) {
		memcpy(last, p + byte, len - byte);
		p = last;
		byte = 0;
	}
	v = column_load(p + byte) >> at % 8;
	if (at % 8)
		v |= (uint64_t)p[byte + 8] << (64 - at % 8);
	return v & ((1ull << bits) - 1);
}

/* Make good what unpack_join() did with symbols of large quotients. */
static const char *unpack_get_large(const struct column_work *w, struct cur *c, size_t n,
				    unsigned low, int64_t *r)
{
	size_t bits = unpack_large_bits(w, n), len = (bits + 7) / 8, at = 0, i, k;
	const unsigned char *p = cur_bytes(c, len);
	unsigned octave;
	uint64_t q;

	if (!p)
		return "the large residuals of a column are cut short";
	for (i = 0; bits && i < n; i += 8) {
		if (!(column_load(w->sym + i) & 0x8080808080808080u))
			continue;
		for (k = i; k < i + 8 && k < n; k++) {
			if (w->sym[k] < COLUMN_PACK_LARGE)
				continue;
			octave = column_pack_octave(w->sym[k]);
			q = 1ull << octave | unpack_read(p, len, at, octave);
			at += octave;
			q = w->sym[k] & 1 ? ~q : q;
			q -= (uint64_t)w->sym[k] - COLUMN_PACK_ZERO;
			r[k] = column_add(r[k], (int64_t)(q << low));
		}
	}
	return NULL;
}

const char *column_pack_get(struct column_work *w, struct cur *c, size_t n, int64_t *r)
{
	const unsigned char *kind = cur_bytes(c, 1), *p;
	int64_t centre = cur_svarint(c);
	unsigned low = kind ? *kind & 63u : 0;
	const char *why;
	size_t len;

	if (!kind || c->error || *kind & 0x80 || low > COLUMN_PACK_LOW_MAX)
		return "the residuals of a column have an unknown form";
	len = (n * low + 7) / 8;
	p = cur_bytes(c, len);
	if (!p)
		return "the low bits of a column are cut short";
	if (!(*kind & COLUMN_PACK_SYMBOLS)) {
		memset(w->sym, COLUMN_PACK_ZERO, n);
		unpack_join(w, p, len, n, low, centre, r);
		return NULL;
	}
	why = column_rans_get(w, c, n);
	if (why)
		return why;
	unpack_join(w, p, len, n, low, centre, r);
	return unpack_get_large(w, c, n, low, r);
}
