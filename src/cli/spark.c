/* SPDX-License-Identifier: Apache-2.0
 *
 * spark.c - a chart one line high.
 */
#include "cli/spark.h"

#include <langinfo.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"

static const char *const spark_blocks[] = {"\u2581", "\u2582", "\u2583", "\u2584",
					   "\u2585", "\u2586", "\u2587", "\u2588"};
static const char *const spark_signs[] = {"_", ".", "-", "=", "+", "*", "%", "#"};

bool spark_is_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
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
