/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fmt.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

static int fmt_decimals(double v)
{
	v = fabs(v);
	return v < 9.995 ? 2 : v < 99.95 ? 1 : 0;
}

static char *fmt_scaled(char out[FMT_MAX], double v, double base, const char *const *units,
			unsigned n)
{
	unsigned i = 0;

	if (!isfinite(v)) {
		snprintf(out, FMT_MAX, "%g%s", v, units[0]);
		return out;
	}
	while (i + 1 < n && fabs(v) >= base * 0.9995) {
		v /= base;
		i++;
	}
	if (i == 0 && v == floor(v))
		snprintf(out, FMT_MAX, "%.0f%s", v, units[0]);
	else
		snprintf(out, FMT_MAX, "%.*f%s", fmt_decimals(v), v, units[i]);
	return out;
}

char *fmt_bytes(char out[FMT_MAX], double bytes)
{
	static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB"};

	return fmt_scaled(out, bytes, 1024, units, 6);
}

char *fmt_count(char out[FMT_MAX], double n)
{
	static const char *const units[] = {"", " k", " M", " G", " T"};

	return fmt_scaled(out, n, 1000, units, 5);
}

char *fmt_seconds(char out[FMT_MAX], double s)
{
	static const char *const units[] = {" ns", " us", " ms", " s"};
	const char *sign = s < 0 ? "-" : "";
	long long whole;

	if (!(fabs(s) < 1e18)) {
		snprintf(out, FMT_MAX, "%g s", s);
		return out;
	}
	whole = llround(fabs(s));
	if (fabs(s) < 60)
		return fmt_scaled(out, s * 1e9, 1000, units, 4);
	if (whole < 3600)
		snprintf(out, FMT_MAX, "%s%lld min %02lld s", sign, whole / 60, whole % 60);
	else if (whole < 86400)
		snprintf(out, FMT_MAX, "%s%lld h %02lld min", sign, whole / 3600, whole / 60 % 60);
	else
		snprintf(out, FMT_MAX, "%s%lld d %02lld h", sign, whole / 86400, whole / 3600 % 24);
	return out;
}

static void fmt_split(int64_t utc_ns, time_t *ret_s, int *ret_ms)
{
	int64_t ns = utc_ns % 1000000000;

	*ret_s = (time_t)(utc_ns / 1000000000 - (ns < 0));
	*ret_ms = (int)((ns < 0 ? ns + 1000000000 : ns) / 1000000);
}

char *fmt_utc(char out[FMT_MAX], int64_t utc_ns)
{
	struct tm tm;
	char text[40];
	time_t s;
	int ms;

	fmt_split(utc_ns, &s, &ms);
	gmtime_r(&s, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out, FMT_MAX, "%s.%03dZ", text, ms);
	return out;
}

char *fmt_local(char out[FMT_MAX], int64_t utc_ns)
{
	struct tm tm;
	time_t s;
	int ms;

	fmt_split(utc_ns, &s, &ms);
	localtime_r(&s, &tm);
	strftime(out, FMT_MAX, "%Y-%m-%d %H:%M:%S", &tm);
	return out;
}
