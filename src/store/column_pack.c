/* SPDX-License-Identifier: Apache-2.0
 *
 * column_pack.c - residuals as symbols and raw bits. The low bits of noise cannot
 * be compressed and are packed as they are; what is above them is a symbol of few,
 * which the entropy coder takes; the rare large ones are symbols of their octave
 * and more raw bits.
 */
#include "store/column_priv.h"

#define PACK_SYMBOLS 0x40u /* of the first byte; bits 0-5: low */
#define PACK_MEDIAN 32u    /* numbers that a median is of */
#define PACK_LOW_MAX 56u
#define PACK_ZERO 64u        /* symbols below 128: quotient + 64 */
#define PACK_LARGE 128u      /* 128 + 2 * (octave - 6) + sign */
#define PACK_HEAVY 5u        /* widths between the usual and the middle that make a tail */
#define PACK_SYMBOL_BITS 5.0 /* that a symbol takes in the table, about */

int64_t column_median(const int64_t *v, size_t n)
{
	size_t step = n > PACK_MEDIAN ? n / PACK_MEDIAN : 1, i, k, m = 0;
	int64_t few[PACK_MEDIAN] = {0}, x;

	for (i = step / 2; i < n && m < PACK_MEDIAN; i += step) {
		x = v[i];
		for (k = m++; k > 0 && few[k - 1] > x; k--)
			few[k] = few[k - 1];
		few[k] = x;
	}
	return few[m / 2];
}

/* ---- choice ---------------------------------------------------------------------- */

/* log2 of a number of 1 to 2^24, to 0.01. */
static inline double pack_log2(uint32_t v)
{
	float f = (float)v, m;
	uint32_t bits;

	memcpy(&bits, &f, 4);
	m = (float)(bits & 0x7fffff) * 0x1p-23f;
	return (double)((float)(bits >> 23) - 127 + m * (1.3465f - 0.3465f * m));
}

/* The smallest widths that all but one in 64, and three in four, have; of a quarter
 * of many. */
static void pack_usual_widths(const int64_t *r, size_t n, int64_t centre, unsigned width[2])
{
	size_t step = n < 2048 ? 1 : 4, seen = 0, i;
	uint32_t count[65] = {0}, over = 0;
	unsigned k = 64;

	for (i = 0; i < n; i += step, seen++)
		count[column_width(column_sub(r[i], centre))]++;
	for (; k > 0 && over + count[k] <= seen / 64; k--)
		over += count[k];
	width[0] = k;
	for (; k > 0 && over + count[k] <= seen / 4; k--)
		over += count[k];
	width[1] = k;
}

struct pack_range {
	int64_t min, max;
};

COLUMN_BODY struct pack_range pack_range_body(const int64_t *r, size_t n)
{
	int64_t min = r[0], max = r[0];
	size_t i;

	for (i = 1; i < n; i++) {
		min = r[i] < min ? r[i] : min;
		max = r[i] > max ? r[i] : max;
	}
	return (struct pack_range){min, max};
}

static struct pack_range pack_range_plain(const int64_t *r, size_t n)
{
	return pack_range_body(r, n);
}

COLUMN_FAST static struct pack_range pack_range_fast(const int64_t *r, size_t n)
{
	return pack_range_body(r, n);
}

/* Count quotients: small ones each, others by octave and sign. */
static void pack_count(struct column_work *w, const int64_t *r, size_t n, int64_t centre,
		       unsigned low)
{
	uint32_t *fine = w->fine;
	int64_t q, u;
	size_t i;

	memset(fine, 0, sizeof(w->fine));
	for (i = 0; i < n; i++) {
		q = column_sub(r[i], centre) >> low;
		u = q ^ (q >> 63);
		if (u < COLUMN_FINE / 2)
			fine[q + (int64_t)COLUMN_FINE / 2]++;
		else
			fine[COLUMN_FINE + 2 * (63 - (unsigned)__builtin_clzll((uint64_t)u)) +
			     (q < 0)]++;
	}
}

struct pack_sum {
	double bits; /* of raw bits of large ones, and minus those that symbols save */
	unsigned kinds;
};

static inline void pack_sum(struct pack_sum *s, uint32_t count, unsigned raw)
{
	if (!count)
		return;
	s->bits += count * (raw - pack_log2(count));
	s->kinds++;
}

static uint32_t pack_total(const uint32_t *p, size_t n)
{
	uint32_t sum = 0;

	while (n--)
		sum += *p++;
	return sum;
}

/* Counts of quotients, and between which there are any; large: beyond them too. */
struct pack_fine {
	const uint32_t *mid;
	int lo, hi;
	bool large;
};

/* Where a residual's quotient is among the counts; beyond them: the nearest. */
static int pack_clamp(int64_t v, int64_t centre, unsigned low)
{
	int64_t q = column_sub(v, centre) >> low, half = COLUMN_FINE / 2;

	return (int)(q < -half ? -half : q >= half ? half - 1 : q);
}

/* Bits that symbols and raw bits of large residuals take if `more` bits more are low. */
static double pack_cost(const struct pack_fine *f, size_t n, unsigned more)
{
	int from, i, hi = f->hi >> more, lo = f->lo >> more;
	struct pack_sum s = {0};
	unsigned octave, k;

	for (i = lo < -64 ? -64 : lo; i <= (hi > 63 ? 63 : hi); i++)
		pack_sum(&s, pack_total(f->mid + i * (1 << more), 1u << more), 0);
	for (octave = 6; octave < 6 + COLUMN_FINE_LOG - more; octave++) {
		from = 1 << (octave + more);
		if (f->hi >= from)
			pack_sum(&s, pack_total(f->mid + from, (size_t)from), octave);
		if (f->lo < -from)
			pack_sum(&s, pack_total(f->mid - 2 * from, (size_t)from), octave);
	}
	for (k = 2 * (6 + COLUMN_FINE_LOG); f->large && k < 128; k++)
		pack_sum(&s, f->mid[COLUMN_FINE / 2 + k], k / 2 - more);
	return s.bits + (double)n * pack_log2((uint32_t)n) + s.kinds * PACK_SYMBOL_BITS +
	       (n < 1024 ? 64 : 190);
}

/* Try to split at the finest point and above. */
static void pack_plan_from(struct column_work *w, const int64_t *r, size_t n,
			   struct pack_range range, int64_t centre, unsigned finest,
			   struct column_pack *ret)
{
	bool all = column_sub(range.max, range.min) < 0; /* differences may wrap */
	struct pack_fine f = {w->fine + COLUMN_FINE / 2, -(int)COLUMN_FINE / 2, COLUMN_FINE / 2 - 1,
			      true};
	unsigned more;
	double bits;

	pack_count(w, r, n, centre, finest);
	if (!all) {
		f.lo = pack_clamp(range.min, centre, finest);
		f.hi = pack_clamp(range.max, centre, finest);
		f.large = f.lo == -(int)COLUMN_FINE / 2 || f.hi == COLUMN_FINE / 2 - 1;
	}
	for (more = 0; more <= COLUMN_FINE_LOG; more++) {
		bits = pack_cost(&f, n, more) + (double)(finest + more) * (double)n;
		if (bits < ret->bits)
			*ret = (struct column_pack){centre, finest + more, true, bits};
	}
}

void column_pack_plan(struct column_work *w, const int64_t *r, size_t n, struct column_pack *ret)
{
	struct pack_range range = (w->fast ? pack_range_fast : pack_range_plain)(r, n);
	uint64_t span = (uint64_t)range.max - (uint64_t)range.min;
	unsigned width = span ? 64 - (unsigned)__builtin_clzll(span) : 0;
	int64_t centre = column_median(r, n);
	unsigned usual[2], finest, i;

	*ret = (struct column_pack){range.min, width, false, (double)width * (double)n};
	if (width > PACK_LOW_MAX)
		ret->bits = 1e9;
	if (width == 0)
		return;
	pack_usual_widths(r, n, centre, usual);
	for (i = 0; i < 2; i++) {
		finest = usual[i] > 7 ? usual[i] - 7 : 0;
		if (finest > PACK_LOW_MAX - COLUMN_FINE_LOG)
			finest = PACK_LOW_MAX - COLUMN_FINE_LOG;
		if ((double)finest * (double)n < ret->bits)
			pack_plan_from(w, r, n, range, centre, finest, ret);
		if (usual[1] + PACK_HEAVY > usual[0])
			break;
	}
}

/* ---- writing --------------------------------------------------------------------- */

/* The symbol of a quotient. */
static inline unsigned pack_symbol(int64_t q)
{
	uint64_t u = (uint64_t)(q ^ (q >> 63));

	if (u < 64)
		return (unsigned)(q + (int64_t)PACK_ZERO);
	return PACK_LARGE + 2 * (57 - (unsigned)__builtin_clzll(u)) + (q < 0);
}

static inline unsigned pack_octave(unsigned symbol)
{
	return 6 + (symbol - PACK_LARGE) / 2;
}

/* Bits from the lowest up, in bytes from the first. */
struct pack_bits {
	unsigned char *p;
	uint64_t acc;
	unsigned fill; /* below 64 */
};

static inline void pack_write(struct pack_bits *b, uint64_t v, unsigned bits)
{
	uint64_t acc = b->acc | v << b->fill, le;

	if (b->fill + bits < 64) {
		b->acc = acc;
		b->fill += bits;
		return;
	}
	le = htole64(acc);
	memcpy(b->p, &le, 8);
	b->p += 8;
	b->acc = b->fill ? v >> (64 - b->fill) : 0;
	b->fill = b->fill + bits - 64;
}

static void pack_finish(struct pack_bits *b)
{
	for (; b->fill > 0; b->fill = b->fill > 8 ? b->fill - 8 : 0) {
		*b->p++ = (unsigned char)b->acc;
		b->acc >>= 8;
	}
}

/* Symbols to w->sym, their counts to w->hist. */
static void pack_symbols(struct column_work *w, const int64_t *r, size_t n, int64_t centre,
			 unsigned low)
{
	size_t i;

	memset(w->hist, 0, sizeof(w->hist));
	for (i = 0; i < n; i++) {
		w->sym[i] = (uint8_t)pack_symbol(column_sub(r[i], centre) >> low);
		w->hist[w->sym[i]]++;
	}
}

static void pack_put_low(struct buf *b, const int64_t *r, size_t n, int64_t centre, unsigned low)
{
	struct pack_bits to = {buf_reserve(b, n * 7 + 16), 0, 0};
	uint64_t mask = (1ull << low) - 1;
	unsigned char *start = to.p;
	size_t i;

	if (!start || !low)
		return;
	for (i = 0; i < n; i++)
		pack_write(&to, (uint64_t)column_sub(r[i], centre) & mask, low);
	pack_finish(&to);
	b->len += (size_t)(to.p - start);
}

static void pack_put_large(const struct column_work *w, struct buf *b, const int64_t *r, size_t n,
			   const struct column_pack *p)
{
	struct pack_bits to = {buf_reserve(b, n * 8 + 16), 0, 0};
	unsigned char *start = to.p;
	unsigned octave;
	int64_t q;
	size_t i;

	if (!start)
		return;
	for (i = 0; i < n; i++) {
		if (w->sym[i] < PACK_LARGE)
			continue;
		octave = pack_octave(w->sym[i]);
		q = column_sub(r[i], p->centre) >> p->low;
		pack_write(&to, (uint64_t)(q ^ (q >> 63)) & ((1ull << octave) - 1), octave);
	}
	pack_finish(&to);
	b->len += (size_t)(to.p - start);
}

void column_pack_put(struct column_work *w, struct buf *b, const int64_t *r, size_t n,
		     const struct column_pack *p)
{
	bool symbols = p->symbols;

	if (symbols) {
		pack_symbols(w, r, n, p->centre, p->low);
		symbols = w->hist[PACK_ZERO] < n; /* a code needs two kinds */
	}
	buf_putc(b, (char)(p->low | (symbols ? PACK_SYMBOLS : 0)));
	buf_svarint(b, p->centre);
	pack_put_low(b, r, n, p->centre, p->low);
	if (!symbols)
		return;
	column_rans_put(w, b, n);
	pack_put_large(w, b, r, n, p);
}

/* ---- reading --------------------------------------------------------------------- */

/* Low bits of the i-th residual, near the end of the bytes. */
static uint64_t pack_low_at(const unsigned char *p, size_t len, size_t i, unsigned low)
{
	unsigned char last[8] = {0};
	size_t at = i * low / 8;

	memcpy(last, p + at, len - at < 8 ? len - at : 8);
	return column_load(last) >> (i * low % 8) & ((1ull << low) - 1);
}

/* r[i] = centre + quotient * 2^low + low bits, for quotients of small symbols. */
COLUMN_BODY void pack_join_body(const uint8_t *sym, const unsigned char *p, size_t n, unsigned low,
				int64_t centre, int64_t *r)
{
	uint64_t mask = (1ull << low) - 1, base = (uint64_t)centre - ((uint64_t)PACK_ZERO << low);
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

static void pack_join_plain(const uint8_t *sym, const unsigned char *p, size_t n, unsigned low,
			    int64_t centre, int64_t *r)
{
	pack_join_body(sym, p, n, low, centre, r);
}

COLUMN_FAST static void pack_join_fast(const uint8_t *sym, const unsigned char *p, size_t n,
				       unsigned low, int64_t centre, int64_t *r)
{
	pack_join_body(sym, p, n, low, centre, r);
}

static void pack_join(const struct column_work *w, const unsigned char *p, size_t len, size_t n,
		      unsigned low, int64_t centre, int64_t *r)
{
	static const unsigned char nothing[8];
	/* Eights whose last load of 8 bytes stays inside. */
	size_t whole = low ? (len < 8 ? 0 : (len - 8) / low * 8) : n, i;
	uint64_t bits;

	p = low ? p : nothing;
	whole = whole < n / 8 * 8 ? whole : n / 8 * 8;
	(w->fast ? pack_join_fast : pack_join_plain)(w->sym, p, whole, low, centre, r);
	for (i = whole; i < n; i++) {
		bits = low ? pack_low_at(p, len, i, low) : 0;
		bits += ((uint64_t)w->sym[i] - PACK_ZERO) << low;
		r[i] = column_add(centre, (int64_t)bits);
	}
}

/* Bits that the large ones of w->sym[0..n) have in all. */
static size_t pack_large_bits(const struct column_work *w, size_t n)
{
	size_t i, k, sum = 0;

	for (i = 0; i < n; i += 8) {
		if (!(column_load(w->sym + i) & 0x8080808080808080u))
			continue;
		for (k = i; k < i + 8 && k < n; k++)
			if (w->sym[k] >= PACK_LARGE)
				sum += pack_octave(w->sym[k]);
	}
	return sum;
}

/* bits (at most 62) from position at of len bytes. */
static inline uint64_t pack_read(const unsigned char *p, size_t len, size_t at, unsigned bits)
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

/* Make good what pack_join() did with symbols of large quotients. */
static const char *pack_get_large(const struct column_work *w, struct cur *c, size_t n,
				  unsigned low, int64_t *r)
{
	size_t bits = pack_large_bits(w, n), len = (bits + 7) / 8, at = 0, i, k;
	const unsigned char *p = cur_bytes(c, len);
	unsigned octave;
	uint64_t q;

	if (!p)
		return "the large residuals of a column are cut short";
	for (i = 0; bits && i < n; i += 8) {
		if (!(column_load(w->sym + i) & 0x8080808080808080u))
			continue;
		for (k = i; k < i + 8 && k < n; k++) {
			if (w->sym[k] < PACK_LARGE)
				continue;
			octave = pack_octave(w->sym[k]);
			q = 1ull << octave | pack_read(p, len, at, octave);
			at += octave;
			q = w->sym[k] & 1 ? ~q : q;
			q -= (uint64_t)w->sym[k] - PACK_ZERO;
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

	if (!kind || c->error || *kind & 0x80 || low > PACK_LOW_MAX)
		return "the residuals of a column have an unknown form";
	len = (n * low + 7) / 8;
	p = cur_bytes(c, len);
	if (!p)
		return "the low bits of a column are cut short";
	if (!(*kind & PACK_SYMBOLS)) {
		memset(w->sym, PACK_ZERO, n);
		pack_join(w, p, len, n, low, centre, r);
		return NULL;
	}
	why = column_rans_get(w, c, n);
	if (why)
		return why;
	pack_join(w, p, len, n, low, centre, r);
	return pack_get_large(w, c, n, low, r);
}
