/* SPDX-License-Identifier: Apache-2.0
 *
 * column_priv.h - the stages of the column codec and the memory they share. A
 * column goes map (numbers to integers), diff (integers to residuals), pack
 * (residuals to symbols and raw bits), rans (symbols to bytes), and back.
 */
#ifndef STORE_COLUMN_PRIV_H
#define STORE_COLUMN_PRIV_H

#include <endian.h>
#include <string.h>

#include "store/column.h"

/* A hot loop is written once, as an inline body, and compiled twice where the
 * processor may have AVX2. Both make the same bytes and numbers. */
#define COLUMN_BODY static inline __attribute__((always_inline))
#if defined(__x86_64__)
#define COLUMN_FAST __attribute__((target("avx2,bmi,bmi2,lzcnt")))
#else
#define COLUMN_FAST
#endif

#define COLUMN_SYMBOLS 242u  /* of a residual: 128 small, 2 for each of 57 octaves */
#define COLUMN_DICT_MAX 256u /* different numbers in a dictionary */
#define COLUMN_FINE_LOG 4u   /* split points tried beyond the finest */
#define COLUMN_FINE (128u << COLUMN_FINE_LOG)
#define COLUMN_FINE_N (COLUMN_FINE + 2 * 64)
#define COLUMN_RANS_BITS 12u
#define COLUMN_RANS_LANES 8u

struct column_work {
	int64_t y[COLUMN_MAX]; /* mapped numbers */
	int64_t bank[2][COLUMN_MAX];
	int64_t *r;                      /* a bank: residuals of the plan that is tried */
	int64_t *best;                   /* the other: residuals of the best plan so far */
	int64_t spare[COLUMN_MAX];       /* the grid's quotients; windows; bytes for zstd */
	int64_t hold[COLUMN_MAX];        /* numbers or lengths of runs */
	uint8_t sym[COLUMN_MAX + 32];    /* symbols of residuals */
	uint8_t index[COLUMN_MAX];       /* positions in the dictionary */
	uint16_t words[COLUMN_MAX + 16]; /* of rANS, written backwards */
	double dict[COLUMN_DICT_MAX];
	uint32_t slots[1u << COLUMN_RANS_BITS]; /* decoder: frequency, offset, symbol */
	uint32_t hist[COLUMN_SYMBOLS];
	uint32_t fine[2][COLUMN_FINE_N];
	bool fast;  /* AVX2 */
	bool quick; /* as column_codec has it */
	bool plain; /* the same */
};

static inline int64_t column_add(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t column_sub(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

static inline uint64_t column_load(const unsigned char *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return le64toh(v);
}

static inline uint64_t column_bits(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, 8);
	return bits;
}

static inline double column_double(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, 8);
	return v;
}

/* (double)y, rounded to nearest even, without an instruction that AVX2 lacks: the
 * two halves as doubles of 2^52 and 2^84 with them as low bits. */
COLUMN_BODY double column_from_int(int64_t y)
{
	double low = column_double(0x4330000000000000u | ((uint64_t)y & 0xffffffffu));
	double high = column_double(0x4530000080000000u ^ (uint64_t)y >> 32);

	return high - column_double(0x4530000080100000u) + low;
}

/* Bits that v needs without its sign: 0 for 0 and -1. */
static inline unsigned column_width(int64_t v)
{
	uint64_t u = (uint64_t)(v ^ (v >> 63));

	return u ? 64 - (unsigned)__builtin_clzll(u) : 0;
}

/* Median of up to 16 of v[0..n), evenly spaced; n > 0. */
int64_t column_median(const struct column_work *w, const int64_t *v, size_t n);

/* ---- column_rans.c: symbols ---------------------------------------------- */

/* Append w->sym[0..n), whose counts are in w->hist: at least two symbols. */
void column_rans_put(struct column_work *w, struct buf *b, size_t n);
const char *column_rans_get(struct column_work *w, struct cur *c, size_t n);

/* ---- column_pack.c, column_unpack.c: residuals ---------------------------- */

#define COLUMN_PACK_SYMBOLS 0x40u /* of the first byte; bits 0-5: low */
#define COLUMN_PACK_LOW_MAX 56u
#define COLUMN_PACK_ZERO 64u   /* symbols below 128: quotient + 64 */
#define COLUMN_PACK_LARGE 128u /* 128 + 2 * (octave - 6) + sign */

/* Of a large symbol: its raw bits. */
static inline unsigned column_pack_octave(unsigned symbol)
{
	return 6 + (symbol - COLUMN_PACK_LARGE) / 2;
}

/* How to write residuals: less the centre, low bits raw, the rest as symbols or,
 * if it is 0 throughout, not at all. */
struct column_pack {
	int64_t centre;
	unsigned low;
	bool symbols;
	double bits; /* that it takes, about */
};
void column_pack_plan(struct column_work *w, const int64_t *r, size_t n, struct column_pack *ret);
void column_pack_put(struct column_work *w, struct buf *b, const int64_t *r, size_t n,
		     const struct column_pack *p);
const char *column_pack_get(struct column_work *w, struct cur *c, size_t n, int64_t *r);

/* ---- column_diff.c: predictors ------------------------------------------- */

#define COLUMN_ORDER_MAX 4u
#define COLUMN_LINE 5u /* in place of an order: less a straight line */
#define COLUMN_SMOOTH_MAX 6u

struct column_diff {
	unsigned order;  /* differences taken: 0 to 4, or COLUMN_LINE */
	unsigned smooth; /* 0, or less a mean that takes 2^-smooth of each new value */
	int64_t slope;   /* of the line, 2^-16 a value */
	int64_t level;   /* where the mean begins */
	struct column_pack pack;
};

/* Choose for w->y[0..n); its residuals are then in w->best. n >= 1. */
void column_diff_plan(struct column_work *w, size_t n, struct column_diff *ret);
/* Append the predictor and the residuals of w->y. */
void column_diff_put(struct column_work *w, struct buf *b, size_t n, const struct column_diff *d);
/* The reverse, into w->y. */
const char *column_diff_get(struct column_work *w, struct cur *c, size_t n);

/* ---- column_map.c: doubles ----------------------------------------------- */

enum column_map {
	COLUMN_MAP_CONSTANT, /* one number */
	COLUMN_MAP_RAW,      /* 8 bytes each */
	COLUMN_MAP_DECIMAL,  /* y / 10^exponent */
	COLUMN_MAP_F32,      /* sign and magnitude of the float's bits */
	COLUMN_MAP_F64,      /* of the double's */
	COLUMN_MAP_INT,      /* y itself */
	COLUMN_MAP_DICT,     /* position in a dictionary, which is a column itself */
	COLUMN_MAPS
};

#define COLUMN_EXPONENT_MAX 18u

/* Find a mapping of v[0..n) that leaves few exceptions, fill w->y by it and count
 * them. */
enum column_map column_map_choose(struct column_work *w, const double *v, size_t n,
				  unsigned *exponent, size_t *odd);
/* Fill w->y by a mapping. Exceptions get any y. Returns their number. */
size_t column_map_values(struct column_work *w, const double *v, size_t n, enum column_map map,
			 unsigned exponent);
/* Numbers out of y. */
void column_map_back(const struct column_work *w, const int64_t *y, size_t n, enum column_map map,
		     unsigned exponent, double *out);
/* The different numbers of v, in order, to w->dict, positions to w->index; returns
 * how many, 0 if more than COLUMN_DICT_MAX. */
size_t column_map_dict(struct column_work *w, const double *v, size_t n);

/* Is the double with these bits an exception wherever it occurs: NaN, infinite, -0? */
static inline bool column_odd(uint64_t bits)
{
	return (bits & 0x7ff0000000000000u) == 0x7ff0000000000000u || bits == 1ull << 63;
}

/* ---- column_body.c: integers ---------------------------------------------- */

/* Of the first byte of a column, above its mapping. */
#define COLUMN_F_PATCHES 0x08u
#define COLUMN_F_GRID 0x10u
#define COLUMN_F_ZSTD 0x20u
#define COLUMN_F_RUNS 0x40u
#define COLUMN_F_ALL 0x7fu

/* Append w->y[0..n), n >= 2, which it changes; returns flags for the first byte. */
unsigned column_body_put(struct column_codec *c, struct buf *b, size_t n);
/* The reverse, to the end of the bytes. */
const char *column_body_get(struct column_codec *c, struct cur *cur, unsigned flags, size_t n);

/* ---- column_grid.c: the step of integers --------------------------------------------- */

/* If all of w->y[0..n) are offset + step * something, step > 1: replace them by the
 * somethings. Returns whether so. */
bool column_grid_take(struct column_work *w, size_t n, uint64_t *step, int64_t *offset);

/* Would zstd find more than a predictor does? (The same few numbers again and again.) */
bool column_grid_repeats(const struct column_work *w, size_t n);

#endif
