/* SPDX-License-Identifier: Apache-2.0
 *
 * when.c - see when.h.
 */
#include "report/when.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/number.h"

#define WHEN_S 1000000000LL

/* Digits behind a point, to nanoseconds; further ones are cut. */
static const char *when_fraction(const char *p, int64_t *ret_ns)
{
	int64_t unit = WHEN_S / 10;

	*ret_ns = 0;
	if (*p != '.')
		return p;
	for (p++; *p >= '0' && *p <= '9'; p++) {
		*ret_ns += (*p - '0') * unit;
		unit /= 10;
	}
	return p;
}

static int when_epoch(const char *text, int64_t *ret_ns)
{
	int64_t fraction;
	char *end;
	long long s;

	errno = 0;
	s = strtoll(text, &end, 10);
	if (end == text || errno || s < 0 || s > INT64_MAX / WHEN_S - 1)
		return -EINVAL;
	if (*when_fraction(end, &fraction) != '\0')
		return -EINVAL;
	*ret_ns = s * WHEN_S + fraction;
	return 0;
}

static int when_date(const char *text, int64_t *ret_ns)
{
	static const char *const formats[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
					      "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"};
	const char *end = NULL;
	int64_t fraction = 0;
	struct tm tm;
	bool utc;
	time_t s;
	size_t i;

	for (i = 0; i < ARRAY_LEN(formats) && !end; i++) {
		tm = (struct tm){.tm_isdst = -1};
		end = strptime(text, formats[i], &tm);
	}
	if (!end)
		return -EINVAL;
	end = when_fraction(end, &fraction);
	utc = *end == 'Z';
	if (end[utc] != '\0')
		return -EINVAL;
	s = utc ? timegm(&tm) : mktime(&tm);
	if (s < 0 || s > INT64_MAX / WHEN_S - 1)
		return -EINVAL;
	*ret_ns = s * WHEN_S + fraction;
	return 0;
}

int when_parse(const char *text, int64_t start_ns, int64_t end_ns, int64_t *ret_ns)
{
	int64_t span;

	if (text[0] == '@')
		return when_epoch(text + 1, ret_ns);
	if (text[0] != '+' && text[0] != '-')
		return when_date(text, ret_ns);
	if (number_duration(text + 1, &span) != 0)
		return -EINVAL;
	*ret_ns = text[0] == '+' ? start_ns + span : end_ns - span;
	return 0;
}
