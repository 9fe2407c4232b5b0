/* SPDX-License-Identifier: Apache-2.0
 *
 * column_pack.c - residuals as symbols and raw bits. The low bits of noise cannot
 * be compressed and are packed as they are; what is above them is a symbol of few,
 * which the entropy coder takes; the rare large ones are symbols of their octave
 * and more raw bits.
 */
#include "store/column_priv.h"

#define PACK_MEDIAN 16u       /* numbers that a median is of */
#define PACK_BLOCKS 32u       /* of a long column, which are looked at */
#define PACK_BLOCK 64u        /* residuals of one that are counted */
#define PACK_BLOCK_WIDTHS 16u /* and whose widths are */
#define PACK_HEAVY 5u         /* widths between the usual and the middle that make a tail */
#define PACK_BIAS 0.72        /* bits by which counting a part makes a symbol look cheaper */
#define PACK_TABLE_MIN 64     /* bits: no table of symbols with its states is shorter */
#define PACK_SYMBOL_BITS 5.0  /* that a symbol takes in the table, about */

/* By how many numbers are smaller: branches that nobody can foresee cost more than
 * comparing all with all. */
COLUMN_BODY int64_t pack_median_body(const int64_t *few, size_t m)
{
	int64_t below, best = -1, ret = few[0];
	size_t i, k;

	for (i = 0; i < m; i++) {
		for (k = 0, below = 0; k < PACK_MEDIAN; k++)
			below += few[k] < few[i];
		if (below > best && below <= (int64_t)m / 2) {
			best = below;
			ret = few[i];
		}
	}
	return ret;
}

static int64_t pack_median_plain(const int64_t *few, size_t m)
{
	return pack_median_body(few, m);
}

COLUMN_FAST static int64_t pack_median_fast(const int64_t *few, size_t m)
{
	return pack_median_body(few, m);
}

int64_t column_median(const struct column_work *w, const int64_t *v, size_t n)
{
	size_t step = n > PACK_MEDIAN ? n / PACK_MEDIAN : 1, i, m = 0;
	int64_t few[PACK_MEDIAN];

	for (i = step / 2; i < n && m < PACK_MEDIAN; i += step)
		few[m++] = v[i];
	for (i = m; i < PACK_MEDIAN; i++)
		few[i] = INT64_MAX;
	return (w->fast ? pack_median_fast : pack_median_plain)(few, m);
}

/* ---- choice ---------------------------------------------------------------------- */

/* What is looked at of a column: len of each `by` numbers. */
struct pack_part {
	const int64_t *r;
	size_t n, len, by;
};

static struct pack_part pack_part(const int64_t *r, size_t n, size_t len)
{
	size_t by = n / PACK_BLOCKS;

	return n < 2 * PACK_BLOCKS * len ? (struct pack_part){r, n, n, n}
					 : (struct pack_part){r, n, len, by};
}

static inline size_t pack_part_end(const struct pack_part *p, size_t at)
{
	return p->n - at < p->len ? p->n : at + p->len;
}

/* The smallest widths that all but one in 64, and three in four, have. */
static void pack_usual_widths(const struct pack_part *p, int64_t centre, unsigned width[2])
{
	uint32_t count[65] = {0}, over = 0;
	size_t seen = 0, at, end, i;
	unsigned k = 64;

	for (at = 0; at < p->n; at += p->by) {
		end = pack_part_end(p, at);
		for (i = at; i < end; i++)
			count[column_width(column_sub(p->r[i], centre))]++;
		seen += end - at;
	}
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

/* Where a quotient is counted: small ones each, others by octave and sign. */
static inline size_t pack_fine_at(int64_t q)
{
	int64_t u = q ^ (q >> 63);

	if (u < COLUMN_FINE / 2)
		return (size_t)(q + (int64_t)COLUMN_FINE / 2);
	return COLUMN_FINE + 2 * (63 - (unsigned)__builtin_clzll((uint64_t)u)) + (q < 0);
}

/* Count quotients; returns how many. In two tables by turns: a number that comes
 * again at once would wait for its count. */
static size_t pack_count(struct column_work *w, const struct pack_part *p, int64_t centre,
			 unsigned low)
{
	uint32_t *fine = w->fine[0], *other = w->fine[1];
	size_t i, at, end, seen = 0;

	memset(w->fine, 0, sizeof(w->fine));
	for (at = 0; at < p->n; at += p->by) {
		end = pack_part_end(p, at);
		seen += end - at;
		for (i = at; i + 1 < end; i += 2) {
			fine[pack_fine_at(column_sub(p->r[i], centre) >> low)]++;
			other[pack_fine_at(column_sub(p->r[i + 1], centre) >> low)]++;
		}
		if (i < end)
			fine[pack_fine_at(column_sub(p->r[i], centre) >> low)]++;
	}
	for (i = 0; i < COLUMN_FINE_N; i++)
		fine[i] += other[i];
	return seen;
}

/* Sums over counts, eight at a time: bits, how many are not 0. */
typedef float pack_lanes __attribute__((vector_size(32)));
typedef int32_t pack_lanes_int __attribute__((vector_size(32)));
#define PACK_LANES 8u

struct pack_sum {
	pack_lanes bits;
	pack_lanes_int kinds;
};

/* Add count * (raw - log2(count)), log2 to 0.01; counts are at most 2^24. */
COLUMN_BODY void pack_sum(struct pack_sum *s, const uint32_t *count, const float *raw)
{
	pack_lanes_int n, bits;
	pack_lanes f, m, r = {0};

	memcpy(&n, count, sizeof(n));
	if (raw)
		memcpy(&r, raw, sizeof(r));
	f = __builtin_convertvector(n, pack_lanes);
	bits = (pack_lanes_int)f;
	m = __builtin_convertvector(bits & 0x7fffff, pack_lanes) * 0x1p-23f;
	m = __builtin_convertvector((bits >> 23) - 127, pack_lanes) + m * (1.3465f - 0.3465f * m);
	s->bits += f * (r - m);
	s->kinds -= n != 0;
}

/* What symbols take, less what the number of residuals says, if so many more bits
 * are low than the finest. */
struct pack_cost {
	double bits[COLUMN_FINE_LOG + 1];
	int kinds[COLUMN_FINE_LOG + 1];
};

#define PACK_BEYOND 16u /* before them there are no octaves beyond single counts */

/* mid: in the middle of counts of quotients; octave: of those above 64, by pairs. */
COLUMN_BODY void pack_cost_at(const uint32_t *mid, const uint32_t *large, const uint32_t *octave,
			      unsigned more, struct pack_cost *ret)
{
	struct pack_sum s = {{0}, {0}};
	float raw[PACK_LANES];
	double bits = 0;
	int kinds = 0;
	unsigned i, k;

	for (i = 0; i < 2 * COLUMN_PACK_ZERO; i += PACK_LANES)
		pack_sum(&s, mid - COLUMN_PACK_ZERO + i, NULL);
	for (k = 0; k < PACK_LANES; k++)
		raw[k] = (float)(6 + k / 2) - (float)more;
	pack_sum(&s, octave, raw);
	for (i = PACK_BEYOND; large && i < 128; i += PACK_LANES) {
		for (k = 0; k < PACK_LANES; k++)
			raw[k] = (float)((i + k) / 2) - (float)more;
		pack_sum(&s, large + i, raw);
	}
	for (k = 0; k < PACK_LANES; k++) {
		bits += (double)s.bits[k];
		kinds += s.kinds[k];
	}
	ret->bits[more] = bits;
	ret->kinds[more] = kinds;
}

COLUMN_BODY void pack_costs_body(struct column_work *w, bool beyond, struct pack_cost *ret)
{
	const uint32_t *large = beyond ? w->fine[0] + COLUMN_FINE : NULL, *from = w->fine[0];
	uint32_t octave[2 * COLUMN_FINE_LOG] = {0}, *to = w->fine[1];
	const uint32_t *mid = from + COLUMN_FINE / 2;
	size_t half = COLUMN_FINE / 2, i, k;
	unsigned more;

	for (k = 0; k < COLUMN_FINE_LOG; k++) {
		for (i = (size_t)COLUMN_PACK_ZERO << k; i < (size_t)COLUMN_PACK_ZERO << (k + 1);
		     i++) {
			octave[2 * k] += mid[i];
			octave[2 * k + 1] += *(mid - 1 - i);
		}
	}
	for (more = 0;; more++) {
		pack_cost_at(from + half, large, octave, more, ret);
		if (more == COLUMN_FINE_LOG)
			return;
		for (i = 0; i < half; i++)
			to[i] = from[2 * i] + from[2 * i + 1];
		octave[2 * more] = octave[2 * more + 1] = 0; /* now among the small ones */
		from = to;
		to += half;
		half /= 2;
	}
}

static void pack_costs_plain(struct column_work *w, bool beyond, struct pack_cost *ret)
{
	pack_costs_body(w, beyond, ret);
}

COLUMN_FAST static void pack_costs_fast(struct column_work *w, bool beyond, struct pack_cost *ret)
{
	pack_costs_body(w, beyond, ret);
}

static double pack_log2(uint32_t count)
{
	const uint32_t one[PACK_LANES] = {count};
	struct pack_sum s = {{0}, {0}};

	pack_sum(&s, one, NULL);
	return -(double)s.bits[0] / count;
}

/* Is there a residual whose quotient is not counted by itself? Differences may wrap. */
static bool pack_is_beyond(struct pack_range range, int64_t centre, unsigned low)
{
	int64_t half = COLUMN_FINE / 2;

	return column_sub(range.max, range.min) < 0 ||
	       column_sub(range.max, centre) >> low >= half ||
	       column_sub(range.min, centre) >> low < -half;
}

/* Try to split at the finest point and above. */
static void pack_plan_from(struct column_work *w, const struct pack_part *p,
			   struct pack_range range, int64_t centre, unsigned finest,
			   struct column_pack *ret)
{
	size_t n = p->n, seen = pack_count(w, p, centre, finest);
	double times = (double)n / (double)seen, kind, bits;
	struct pack_cost cost;
	unsigned more;

	(w->fast ? pack_costs_fast : pack_costs_plain)(w, pack_is_beyond(range, centre, finest),
						       &cost);
	kind = PACK_SYMBOL_BITS + (seen < n ? PACK_BIAS * times : 0);
	for (more = 0; more <= COLUMN_FINE_LOG; more++) {
		bits = (cost.bits[more] + (double)seen * pack_log2((uint32_t)seen)) * times +
		       cost.kinds[more] * kind + (n < 1024 ? PACK_TABLE_MIN : 190) +
		       (double)(finest + more) * (double)n;
		if (bits < ret->bits)
			*ret = (struct column_pack){centre, finest + more, true, bits};
	}
}

#define PACK_PLAIN 1.25 /* so many times the bits are taken for a fast decoder */

void column_pack_plan(struct column_work *w, const int64_t *r, size_t n, struct column_pack *ret)
{
	struct pack_range range = (w->fast ? pack_range_fast : pack_range_plain)(r, n);
	uint64_t span = (uint64_t)range.max - (uint64_t)range.min;
	unsigned width = span ? 64 - (unsigned)__builtin_clzll(span) : 0;
	struct pack_part part = pack_part(r, n, PACK_BLOCK);
	struct pack_part few = pack_part(r, n, PACK_BLOCK_WIDTHS);
	int64_t centre = column_median(w, r, n);
	struct column_pack plain = {range.min, width, false, (double)width * (double)n};
	unsigned usual[2], finest, i;

	if (width > COLUMN_PACK_LOW_MAX)
		plain.bits = 1e9;
	*ret = plain;
	if (width == 0)
		return;
	pack_usual_widths(&few, centre, usual);
	for (i = 0; i < 2; i++) {
		finest = usual[i] > 7 ? usual[i] - 7 : 0;
		if (finest > COLUMN_PACK_LOW_MAX - COLUMN_FINE_LOG)
			finest = COLUMN_PACK_LOW_MAX - COLUMN_FINE_LOG;
		if ((double)finest * (double)n + PACK_TABLE_MIN < ret->bits)
			pack_plan_from(w, &part, range, centre, finest, ret);
		if (usual[1] + PACK_HEAVY > usual[0])
			break;
	}
	if (w->plain && ret->symbols)
		ret->bits *= PACK_PLAIN; /* so plans are compared by what decoding costs, too */
	if (w->plain && plain.bits < ret->bits)
		*ret = plain;
}

/* ---- writing --------------------------------------------------------------------- */

/* The symbol of a quotient. */
static inline unsigned pack_symbol(int64_t q)
{
	uint64_t u = (uint64_t)(q ^ (q >> 63));

	if (u < 64)
		return (unsigned)(q + (int64_t)COLUMN_PACK_ZERO);
	return COLUMN_PACK_LARGE + 2 * (57 - (unsigned)__builtin_clzll(u)) + (q < 0);
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
	uint32_t other[COLUMN_SYMBOLS] = {0}; /* counts of every second: the same again is common */
	size_t i;

	memset(w->hist, 0, sizeof(w->hist));
	for (i = 0; i + 1 < n; i += 2) {
		w->sym[i] = (uint8_t)pack_symbol(column_sub(r[i], centre) >> low);
		w->sym[i + 1] = (uint8_t)pack_symbol(column_sub(r[i + 1], centre) >> low);
		w->hist[w->sym[i]]++;
		other[w->sym[i + 1]]++;
	}
	if (i < n) {
		w->sym[i] = (uint8_t)pack_symbol(column_sub(r[i], centre) >> low);
		w->hist[w->sym[i]]++;
	}
	for (i = 0; i < COLUMN_SYMBOLS; i++)
		w->hist[i] += other[i];
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
		if (w->sym[i] < COLUMN_PACK_LARGE)
			continue;
		octave = column_pack_octave(w->sym[i]);
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
		symbols = w->hist[COLUMN_PACK_ZERO] < n; /* a code needs two kinds */
	}
	buf_putc(b, (char)(p->low | (symbols ? COLUMN_PACK_SYMBOLS : 0)));
	buf_svarint(b, p->centre);
	pack_put_low(b, r, n, p->centre, p->low);
	if (!symbols)
		return;
	column_rans_put(w, b, n);
	pack_put_large(w, b, r, n, p);
}
