/* SPDX-License-Identifier: Apache-2.0
 *
 * spark.c - a chart one line high.
 */
#include "report/spark.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const char *const spark_blocks[] = {"\u2581", "\u2582", "\u2583", "\u2584",
					   "\u2585", "\u2586", "\u2587", "\u2588"};
static const char *const spark_signs[] = {"_", ".", "-", "=", "+", "*", "%", "#"};

/* Of the environment, not of the process: main() has it read UTF-8 in any case. */
bool spark_is_utf8(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
	const char *v = NULL;
	size_t i;

	for (i = 0; i < ARRAY_LEN(names) && (!v || !*v); i++)
		v = getenv(names[i]);
	return v && (strcasestr(v, "UTF-8") || strcasestr(v, "utf8"));
}

void spark_draw(char *out, const double *v, size_t n, bool utf8)
{
	const char *const *signs = utf8 ? spark_blocks : spark_signs;
	double min = INFINITY, max = -INFINITY, at;
	size_t i, k;

	for (i = 0; i < n; i++) {
		if (isfinite(v[i])) {
			min = fmin(min, v[i]);
			max = fmax(max, v[i]);
		}
	}
	for (i = 0; i < n; i++) {
		if (isnan(v[i])) {
			*out++ = ' ';
			continue;
		}
		/* Halves, so that the distance of two doubles is one. */
		at = max > min ? (v[i] / 2 - min / 2) / (max / 2 - min / 2) : 0;
		at = at < 0 ? 0 : at > 1 ? 1 : at;
		k = (size_t)(at * (double)(ARRAY_LEN(spark_blocks) - 1) + 0.5);
		memcpy(out, signs[k], strlen(signs[k]));
		out += strlen(signs[k]);
	}
	*out = '\0';
}
