/* SPDX-License-Identifier: Apache-2.0
 *
 * decimal.c - any JSON number, exactly: digits are collected up to 19, the
 * point is moved by the exponent, the rest is rounded.
 */
#include "trace/decimal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

struct parts {
	uint64_t digits; /* the first 19 significant ones */
	int kept;        /* how many */
	int point;       /* value = digits * 10^(point - kept) */
	bool rest;       /* digits other than 0 followed */
	bool negative, any, fraction;
};

static void take(struct parts *d, unsigned digit, bool after_point)
{
	d->any = true;
	if (d->kept == 0 && digit == 0) {
		d->point -= after_point;
		return;
	}
	if (d->kept < 19) {
		d->digits = d->digits * 10 + digit;
		d->kept++;
	} else {
		d->rest |= digit != 0;
	}
	d->point += !after_point;
}

/* Digits at p; how many. */
static size_t take_all(const unsigned char *p, size_t len, struct parts *d, bool after_point)
{
	size_t i = 0;

	for (; i < len && isdigit(p[i]); i++)
		take(d, p[i] - '0', after_point);
	return i;
}

/* An exponent at p (its e): its bytes; 0: it is none. */
static size_t exponent(const unsigned char *p, size_t len, struct parts *d)
{
	size_t i = 1;
	bool minus = false;
	int value = 0;

	if (i < len && (p[i] == '-' || p[i] == '+'))
		minus = p[i++] == '-';
	if (i >= len || !isdigit(p[i]))
		return 0;
	for (; i < len && isdigit(p[i]); i++)
		if (value < 100000)
			value = value * 10 + (p[i] - '0');
	d->point += minus ? -value : value;
	d->fraction = true;
	return i;
}

static size_t split(const unsigned char *p, size_t len, struct parts *d)
{
	size_t i = 0;

	if (len && (*p == '-' || *p == '+'))
		d->negative = p[i++] == '-';
	i += take_all(p + i, len - i, d, false);
	if (i < len && p[i] == '.') {
		d->fraction = true;
		i++;
		i += take_all(p + i, len - i, d, true);
	}
	if (!d->any)
		return 0;
	if (i < len && (p[i] == 'e' || p[i] == 'E'))
		i += exponent(p + i, len - i, d);
	return i;
}

static int64_t scale(const struct parts *d, int point, unsigned *flags)
{
	uint64_t v = d->digits;
	int drop = d->kept - point; /* digits behind the point */
	uint64_t limit = d->negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
	unsigned last = 0;

	if (!d->kept)
		return 0;
	if (drop > 0 || d->rest)
		*flags |= DECIMAL_ROUNDED;
	if (drop > 20)
		return 0;
	for (; drop > 0; drop--) {
		last = v % 10;
		v /= 10;
	}
	v += last >= 5;
	for (; drop < 0; drop++) {
		if (__builtin_mul_overflow(v, 10, &v)) {
			*flags |= DECIMAL_RANGE;
			return d->negative ? INT64_MIN : INT64_MAX;
		}
	}
	if (v > limit) {
		*flags |= DECIMAL_RANGE;
		return d->negative ? INT64_MIN : INT64_MAX;
	}
	return d->negative ? (int64_t)(0 - v) : (int64_t)v;
}

/* Whole numbers of 20 digits up to 2^64 - 1 are ids: their bits are kept. */
static bool is_unsigned(const unsigned char *p, size_t len, int64_t *ret)
{
	uint64_t v = 0;

	for (size_t i = 0; i < len; i++) {
		if (!isdigit(p[i]) || __builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(p[i] - '0'), &v))
			return false;
	}
	*ret = (int64_t)v;
	return v > INT64_MAX;
}

size_t decimal_read(const unsigned char *p, size_t len, int shift, int64_t *ret,
		    unsigned *ret_flags)
{
	struct parts d = {0};
	unsigned flags = 0;
	size_t used = split(p, len, &d);

	if (!used)
		return 0;
	if (shift == 0 && d.point >= 19 && is_unsigned(p, used, ret)) {
		*ret_flags = DECIMAL_UNSIGNED;
		return used;
	}
	*ret = scale(&d, d.point + shift, &flags);
	if (d.fraction)
		flags |= DECIMAL_FRACTION;
	*ret_flags = flags;
	return used;
}

size_t decimal_double(const unsigned char *p, size_t len, double *ret)
{
	static const char *const words[] = {"infinity", "inf", "nan"};
	char text[64];
	char *end;
	size_t sign = len && (p[0] == '-' || p[0] == '+');

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		size_t n = strlen(words[i]);

		if (len - sign >= n && !strncasecmp((const char *)p + sign, words[i], n)) {
			*ret = i == 2 ? NAN : p[0] == '-' ? -INFINITY : INFINITY;
			return sign + n;
		}
	}
	if (len == sign || !(isdigit(p[sign]) || p[sign] == '.'))
		return 0;
	if (len > sizeof(text) - 1)
		len = sizeof(text) - 1;
	for (size_t i = 0; i < len; i++) {
		if (!isdigit(p[i]) && !strchr("+-.eE", p[i])) {
			len = i;
			break;
		}
	}
	memcpy(text, p, len);
	text[len] = '\0';
	*ret = strtod(text, &end);
	return (size_t)(end - text);
}
