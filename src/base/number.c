/* SPDX-License-Identifier: Apache-2.0
 *
 * number.c - see number.h. strtod() alone would take "inf" and "0x10" too.
 */
#include "base/number.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct number_unit {
	const char *name;
	double factor;
};

static const struct number_unit number_durations[] = {
	{"ns", 1},     {"us", 1e3},   {"ms", 1e6},    {"s", 1e9}, {"m", 60e9},
	{"min", 60e9}, {"h", 3600e9}, {"d", 86400e9}, {"", 1e9},  {NULL, 0},
};

static const struct number_unit number_sizes[] = {
	{"", 1},       {"b", 1},        {"k", 0x1p10}, {"kib", 0x1p10},
	{"m", 0x1p20}, {"mib", 0x1p20}, {"g", 0x1p30}, {"gib", 0x1p30},
	{"t", 0x1p40}, {"tib", 0x1p40}, {NULL, 0},
};

/* "1h30m": numbers with units, added up. */
static int number_scaled(const char *text, const struct number_unit *units, bool fold, int64_t *ret)
{
	const struct number_unit *u;
	double sum = 0, v;
	const char *p = text;
	size_t n;
	char *end;

	do {
		n = strspn(p, "0123456789.");
		if (n == 0)
			return -EINVAL;
		v = strtod(p, &end);
		if (end != p + n)
			return -EINVAL;
		p = end;
		n = strcspn(p, "0123456789.");
		for (u = units; u->name; u++)
			if (strlen(u->name) == n &&
			    (fold ? strncasecmp(p, u->name, n) == 0 : memcmp(p, u->name, n) == 0))
				break;
		if (!u->name)
			return -EINVAL;
		sum += v * u->factor;
		p += n;
	} while (*p);
	if (!(sum < 0x1p63))
		return -ERANGE;
	*ret = llround(sum);
	return 0;
}

int number_duration(const char *text, int64_t *ret_ns)
{
	return number_scaled(text, number_durations, false, ret_ns);
}

int number_bytes(const char *text, int64_t *ret_bytes)
{
	return number_scaled(text, number_sizes, true, ret_bytes);
}

int number_int(const char *text, int64_t *ret)
{
	char *end;
	long long v;

	if (!strchr("+-0123456789", text[0]) || text[0] == '\0')
		return -EINVAL;
	errno = 0;
	v = strtoll(text, &end, 10);
	if (end == text || *end != '\0')
		return -EINVAL;
	if (errno)
		return -ERANGE;
	*ret = v;
	return 0;
}

int number_double(const char *text, double *ret)
{
	const char *digits = text + (text[0] == '+' || text[0] == '-');
	char *end;
	double v;

	if (digits[strspn(digits, "0123456789.eE+-")] != '\0' || !strpbrk(digits, "0123456789"))
		return -EINVAL;
	v = strtod(text, &end);
	if (*end != '\0')
		return -EINVAL;
	if (isinf(v))
		return -ERANGE;
	*ret = v;
	return 0;
}

int number_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int number_order_int(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

void number_add(double *sum, double v)
{
	*sum = isnan(*sum) ? v : *sum + v;
}
