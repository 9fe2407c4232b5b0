/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/runid.h"

#include <stdio.h>

void runid_make(char out[RUNID_LEN + 1], int64_t utc_ns, const uint8_t random[3])
{
	/* Base 32 of RFC 4648, in small letters. */
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
	uint32_t bits = (uint32_t)random[0] << 16 | (uint32_t)random[1] << 8 | random[2];
	int64_t s = utc_ns / 1000000000, days = s / 86400, rest = s % 86400;
	int64_t z, era, doe, yoe, doy, mp, year, month, day;
	char text[64];
	int i;

	/* Civil date from days since 1970-01-01: Howard Hinnant, "chrono-
	 * Compatible Low-Level Date Algorithms". gmtime_r() takes a lock. */
	z = days + 719468;
	era = z / 146097;
	doe = z - era * 146097;
	yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	mp = (5 * doy + 2) / 153;
	day = doy - (153 * mp + 2) / 5 + 1;
	month = mp < 10 ? mp + 3 : mp - 9;
	year = yoe + era * 400 + (month <= 2);
	snprintf(text, sizeof(text), "%04d%02d%02d-%02d%02d%02d-", (int)year, (int)month, (int)day,
		 (int)(rest / 3600), (int)(rest / 60 % 60), (int)(rest % 60));
	for (i = 0; i < 16; i++)
		out[i] = text[i];
	for (i = 0; i < 4; i++)
		out[16 + i] = letters[bits >> (5 * i) & 31];
	out[RUNID_LEN] = '\0';
}
