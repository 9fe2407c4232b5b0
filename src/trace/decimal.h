/* SPDX-License-Identifier: Apache-2.0
 *
 * decimal.h - numbers of a trace from their decimal text: whole numbers, and
 * microseconds as whole nanoseconds, never through a double.
 */
#ifndef TRACE_DECIMAL_H
#define TRACE_DECIMAL_H

#include "trace/lex.h"

#include <stddef.h>

/* What of a number could not be kept. */
enum decimal_flag {
	DECIMAL_FRACTION = 1, /* it had a decimal point or an exponent */
	DECIMAL_RANGE = 2,    /* does not fit: the nearest number that does */
	DECIMAL_ROUNDED = 4,  /* had more digits than kept: rounded half away from 0 */
	DECIMAL_UNSIGNED = 8  /* between 2^63 and 2^64: its bits as int64 */
};

/* A JSON number of len bytes at p times 10^shift as int64. Returns bytes read; 0: no number
 * there. *ret_flags is written whenever the result is not 0. Rounded to a whole one. */
size_t decimal_read(const unsigned char *p, size_t len, int shift, int64_t *ret,
		    unsigned *ret_flags);

/* A double from text, also NaN, inf, Infinity with sign in any case. 0: none there. */
size_t decimal_double(const unsigned char *p, size_t len, double *ret);

/* Up to 8 digits at p: their count and value. Reads 8 bytes. */
static inline unsigned decimal_digits8(const unsigned char *p, uint64_t *ret)
{
	uint64_t v = lex_load64(p);
	uint64_t not_digit =
		((v & 0xf0f0f0f0f0f0f0f0u) ^ 0x3030303030303030u) |
		(((v + 0x0606060606060606u) & 0xf0f0f0f0f0f0f0f0u) ^ 0x3030303030303030u);
	unsigned n = not_digit ? (unsigned)__builtin_ctzll(not_digit) >> 3 : 8;

	if (!n) {
		*ret = 0;
		return 0;
	}
	v <<= 64 - 8 * n; /* leading zeros: the low bytes become 0 */
	v &= 0x0f0f0f0f0f0f0f0fu;
	v = (v * 10 + (v >> 8)) & 0x00ff00ff00ff00ffu;
	v = (v * 100 + (v >> 16)) & 0x0000ffff0000ffffu;
	v = (v * 10000 + (v >> 32)) & 0xffffffffu;
	*ret = v;
	return n;
}

static const uint32_t decimal_pow10[9] = {1,      10,      100,      1000,     10000,
					  100000, 1000000, 10000000, 100000000};

/* Up to 16 digits at p: returns their count, value in *ret. */
static inline unsigned decimal_digits16(const unsigned char *p, uint64_t *ret)
{
	uint64_t low;
	unsigned n = decimal_digits8(p, ret);

	if (n < 8)
		return n;
	n = decimal_digits8(p + 8, &low);
	*ret = *ret * decimal_pow10[n] + low;
	return 8 + n;
}

#endif
