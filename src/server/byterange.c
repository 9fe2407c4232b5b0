/* SPDX-License-Identifier: Apache-2.0 */
#include "server/byterange.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* Digits; a number beyond 64 bits is the largest one. false: there are none. */
static bool byterange_number(const char **at, uint64_t *ret)
{
	const char *p = *at;
	uint64_t n = 0;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n))
			n = UINT64_MAX;
	if (p == *at)
		return false;
	*at = p;
	*ret = n;
	return true;
}

/* Of a file of this size: from `from` (or so many last bytes) to `last`. */
static enum byterange byterange_cut(bool has_from, uint64_t from, uint64_t last, uint64_t size,
				    uint64_t *ret_from, uint64_t *ret_bytes)
{
	if (!has_from) {
		if (last == 0 || size == 0)
			return BYTERANGE_NONE;
		*ret_bytes = last < size ? last : size;
		*ret_from = size - *ret_bytes;
		return BYTERANGE_PART;
	}
	if (from >= size)
		return BYTERANGE_NONE;
	*ret_from = from;
	*ret_bytes = (last < size ? last : size - 1) - from + 1;
	return BYTERANGE_PART;
}

enum byterange byterange_parse(const char *text, uint64_t size, uint64_t *ret_from,
			       uint64_t *ret_bytes)
{
	uint64_t from = 0, last = UINT64_MAX;
	bool has_from, has_last;

	if (!text || strncasecmp(text, "bytes=", 6) != 0)
		return BYTERANGE_ALL;
	text += 6;
	text += strspn(text, " \t");
	has_from = byterange_number(&text, &from);
	if (*text++ != '-')
		return BYTERANGE_ALL;
	has_last = byterange_number(&text, &last);
	text += strspn(text, " \t");
	if (*text || (!has_from && !has_last) || (has_from && has_last && last < from))
		return BYTERANGE_ALL;
	return byterange_cut(has_from, from, last, size, ret_from, ret_bytes);
}
