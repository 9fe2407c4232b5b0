/* SPDX-License-Identifier: Apache-2.0
 *
 * column_map.c - doubles as integers: decimals (57.3 is 573 / 10), floats and
 * doubles by sign and magnitude of their bits, or positions in a dictionary. What
 * does not come back bit for bit is an exception, which the caller keeps aside.
 */
#include "store/column_priv.h"

#include <stdlib.h>

#define MAP_SAMPLE 32u
#define MAP_SPARE 2u           /* of the sample may be exceptions */
#define MAP_DECIMAL_MAX 0x1p51 /* magnitude of decimals that are found */
#define MAP_ROUND 0x1.8p52     /* added: the integer is in the low bits */
#define MAP_HASH 1024u

static const double map_power[COLUMN_EXPONENT_MAX + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,
							  1e7,  1e8,  1e9,  1e10, 1e11, 1e12, 1e13,
							  1e14, 1e15, 1e16, 1e17, 1e18};

/* ---- one number ------------------------------------------------------------------ */

COLUMN_BODY int64_t map_round(double scaled)
{
	return (int64_t)(column_bits(scaled + MAP_ROUND) - column_bits(MAP_ROUND));
}

/* Sign and magnitude as an integer; -0 becomes 0. */
COLUMN_BODY int64_t map_signed(uint64_t bits, unsigned sign)
{
	uint64_t magnitude = bits & ((1ull << sign) - 1), minus = 0 - (bits >> sign);

	return (int64_t)((magnitude ^ minus) - minus);
}

COLUMN_BODY uint64_t map_magnitude(int64_t y, unsigned sign)
{
	uint64_t minus = (uint64_t)(y >> 63);

	return (((uint64_t)y ^ minus) - minus) | (minus & 1ull << sign);
}

COLUMN_BODY float map_float(int64_t y)
{
	uint32_t bits = (uint32_t)map_magnitude(y, 31);
	float f;

	memcpy(&f, &bits, 4);
	return f;
}

COLUMN_BODY int64_t map_from_float(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, 4);
	return map_signed(bits, 31);
}

/* ---- whole columns --------------------------------------------------------------- */

/* y and the number of exceptions. The power is 1 for integers. */
COLUMN_BODY size_t map_decimal_body(const double *v, size_t n, double power, int64_t *y)
{
	size_t i, odd = 0;

	for (i = 0; i < n; i++) {
		y[i] = map_round(v[i] * power);
		odd += column_bits(column_from_int(y[i]) / power) != column_bits(v[i]);
	}
	return odd;
}

static size_t map_decimal_plain(const double *v, size_t n, double power, int64_t *y)
{
	return map_decimal_body(v, n, power, y);
}

COLUMN_FAST static size_t map_decimal_fast(const double *v, size_t n, double power, int64_t *y)
{
	return map_decimal_body(v, n, power, y);
}

static size_t map_f32(const double *v, size_t n, int64_t *y)
{
	size_t i, odd = 0;

	for (i = 0; i < n; i++) {
		float f = column_odd(column_bits(v[i])) ? 0 : (float)v[i];

		y[i] = map_from_float(f);
		odd += column_bits((double)f) != column_bits(v[i]);
	}
	return odd;
}

static size_t map_f64(const double *v, size_t n, int64_t *y)
{
	size_t i, odd = 0;

	for (i = 0; i < n; i++) {
		y[i] = map_signed(column_bits(v[i]), 63);
		odd += column_odd(column_bits(v[i]));
	}
	return odd;
}

size_t column_map_values(struct column_work *w, const double *v, size_t n, enum column_map map,
			 unsigned exponent)
{
	if (map == COLUMN_MAP_DECIMAL)
		return (w->fast ? map_decimal_fast : map_decimal_plain)(v, n, map_power[exponent],
									w->y);
	return map == COLUMN_MAP_F32 ? map_f32(v, n, w->y) : map_f64(v, n, w->y);
}

COLUMN_BODY void map_back_body(const int64_t *y, size_t n, double power, double *out)
{
	size_t i;

	for (i = 0; i < n; i++)
		out[i] = column_from_int(y[i]) / power;
}

static void map_back_plain(const int64_t *y, size_t n, double power, double *out)
{
	map_back_body(y, n, power, out);
}

COLUMN_FAST static void map_back_fast(const int64_t *y, size_t n, double power, double *out)
{
	map_back_body(y, n, power, out);
}

void column_map_back(const struct column_work *w, const int64_t *y, size_t n, enum column_map map,
		     unsigned exponent, double *out)
{
	size_t i;

	if (map == COLUMN_MAP_DECIMAL) {
		(w->fast ? map_back_fast : map_back_plain)(y, n, map_power[exponent], out);
		return;
	}
	if (map == COLUMN_MAP_F32)
		for (i = 0; i < n; i++)
			out[i] = (double)map_float(y[i]);
	else
		for (i = 0; i < n; i++)
			out[i] = column_double(map_magnitude(y[i], 63));
}

/* ---- choice ---------------------------------------------------------------------- */

/* The smallest exponent with which v is a decimal; more than COLUMN_EXPONENT_MAX:
 * it is none. */
static unsigned map_exponent(double v)
{
	unsigned e;
	double scaled;

	for (e = 0; e <= COLUMN_EXPONENT_MAX; e++) {
		scaled = v * map_power[e];
		if (!(__builtin_fabs(scaled) < MAP_DECIMAL_MAX))
			break;
		if (column_from_int(map_round(scaled)) / map_power[e] == v)
			return e;
	}
	return COLUMN_EXPONENT_MAX + 1;
}

/* Exponent that does for the sample but for a few. */
static unsigned map_usual_exponent(const double *v, size_t n)
{
	unsigned seen[COLUMN_EXPONENT_MAX + 2] = {0}, e, over = 0, sample = 0;
	size_t step = n > MAP_SAMPLE ? n / MAP_SAMPLE : 1, i;

	for (i = step / 2; i < n; i += step) {
		if (column_odd(column_bits(v[i])))
			continue;
		e = map_exponent(v[i]);
		seen[e]++;
		sample++;
		if (seen[COLUMN_EXPONENT_MAX + 1] > MAP_SPARE)
			return COLUMN_EXPONENT_MAX + 1;
	}
	for (e = COLUMN_EXPONENT_MAX + 1; e > 0; e--) {
		over += seen[e];
		if (over * MAP_SAMPLE > MAP_SPARE * sample)
			return e;
	}
	return 0;
}

/* NaN and the like cost no more in one mapping than in another. */
static size_t map_always_odd(const double *v, size_t n)
{
	size_t i, odd = 0;

	for (i = 0; i < n; i++)
		odd += column_odd(column_bits(v[i]));
	return odd;
}

/* Few enough, not counting what is one in every mapping? */
static bool map_few(const double *v, size_t n, size_t odd)
{
	return odd <= n / 32 || odd - map_always_odd(v, n) <= n / 32;
}

enum column_map column_map_choose(struct column_work *w, const double *v, size_t n,
				  unsigned *exponent, size_t *odd)
{
	unsigned e = map_usual_exponent(v, n);

	*exponent = 0;
	if (e <= COLUMN_EXPONENT_MAX) {
		*exponent = e;
		*odd = column_map_values(w, v, n, COLUMN_MAP_DECIMAL, e);
		if (map_few(v, n, *odd))
			return COLUMN_MAP_DECIMAL;
	}
	*odd = column_map_values(w, v, n, COLUMN_MAP_F32, 0);
	if (map_few(v, n, *odd))
		return COLUMN_MAP_F32;
	*odd = column_map_values(w, v, n, COLUMN_MAP_F64, 0);
	return COLUMN_MAP_F64;
}

/* ---- dictionary ------------------------------------------------------------------ */

struct map_entry {
	int64_t key; /* in the order of numbers */
	uint64_t bits;
	unsigned nth;
};

struct map_dict {
	struct map_entry entry[COLUMN_DICT_MAX];
	uint16_t hash[MAP_HASH]; /* 1 + position in entry */
	size_t n;
};

/* Position of a number, added if it is new; COLUMN_DICT_MAX: full. */
static size_t map_intern(struct map_dict *d, uint64_t bits)
{
	size_t at = (bits * 0x9e3779b97f4a7c15u) >> 54;

	for (; d->hash[at]; at = (at + 1) % MAP_HASH)
		if (d->entry[d->hash[at] - 1].bits == bits)
			return d->hash[at] - 1u;
	if (d->n == COLUMN_DICT_MAX)
		return COLUMN_DICT_MAX;
	d->entry[d->n] = (struct map_entry){map_signed(bits, 63), bits, (unsigned)d->n};
	d->hash[at] = (uint16_t)++d->n;
	return d->n - 1;
}

static int map_compare(const void *a, const void *b)
{
	const struct map_entry *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->bits > y->bits) - (x->bits < y->bits);
}

size_t column_map_dict(struct column_work *w, const double *v, size_t n)
{
	struct map_dict d = {.n = 0};
	uint8_t rank[COLUMN_DICT_MAX];
	size_t i, at;

	for (i = 0; i < n; i++) {
		at = map_intern(&d, column_bits(v[i]));
		/* Noise is told early: one in three may be new at first. */
		if (at == COLUMN_DICT_MAX || (i >= 128 && i < 512 && d.n > 64 && d.n > i / 3))
			return 0;
		w->index[i] = (uint8_t)at;
	}
	qsort(d.entry, d.n, sizeof(d.entry[0]), map_compare);
	for (i = 0; i < d.n; i++) {
		rank[d.entry[i].nth] = (uint8_t)i;
		w->dict[i] = column_double(d.entry[i].bits);
	}
	for (i = 0; i < n; i++)
		w->index[i] = rank[w->index[i]];
	return d.n;
}
