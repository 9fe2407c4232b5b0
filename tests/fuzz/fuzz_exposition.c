/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_exposition.c - Prometheus text and OpenMetrics on any bytes. The first byte says
 * which: 'o' OpenMetrics. What was read must read the same once more when it is
 * written line by line, and the labels of a sample must be sound.
 */
#include "probe/scrape/exposition.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_require(bool ok)
{
	if (!ok)
		abort();
}

struct fuzz_again {
	const struct exposition_sample *first;
	size_t n;
};

static bool fuzz_same(double a, double b)
{
	return memcmp(&a, &b, sizeof(a)) == 0 || (isnan(a) && isnan(b));
}

static void fuzz_second(void *arg, const struct exposition_sample *s)
{
	struct fuzz_again *a = arg;

	a->n++;
	fuzz_require(s->series.len == a->first->series.len &&
		     memcmp(s->series.p, a->first->series.p, s->series.len) == 0);
	fuzz_require(s->name.len == a->first->name.len && s->labels.len == a->first->labels.len);
	fuzz_require(fuzz_same(s->value, a->first->value));
}

/* name{labels} value, written anew. */
static void fuzz_reread(const struct exposition_sample *s)
{
	struct exposition_summary out;
	struct fuzz_again again = {s, 0};
	char *line = malloc(s->series.len + 64);
	int n;

	fuzz_require(line);
	memcpy(line, s->series.p, s->series.len);
	if (isnan(s->value))
		n = snprintf(line + s->series.len, 64, " NaN\n");
	else if (isinf(s->value))
		n = snprintf(line + s->series.len, 64, " %cInf\n", s->value < 0 ? '-' : '+');
	else
		n = snprintf(line + s->series.len, 64, " %.17g\n", s->value);
	exposition_read(line, s->series.len + (size_t)n, false, fuzz_second, &again, &out);
	fuzz_require(again.n == 1 && out.wrong == 0);
	free(line);
}

static void fuzz_sample(void *arg, const struct exposition_sample *s)
{
	struct exposition_str rest = s->labels, key, value;
	size_t *n = arg, labels = 0, len;
	char text[32];

	++*n;
	fuzz_require(s->name.len > 0 && s->series.len >= s->name.len);
	while (exposition_label(&rest, &key, &value)) {
		labels++;
		fuzz_require(key.len > 0 && value.p + value.len <= s->labels.p + s->labels.len);
		len = exposition_unescape(value, text, sizeof(text));
		fuzz_require(len <= value.len && strlen(text) < sizeof(text));
	}
	fuzz_require(labels <= EXPOSITION_LABELS_MAX);
	fuzz_reread(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct exposition_summary out;
	size_t n = 0;
	char *copy;

	if (size == 0)
		return 0;
	/* A copy of the exact size: reading one byte past it is then seen. */
	copy = malloc(size > 1 ? size - 1 : 1);
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	exposition_read(copy, size - 1, data[0] == 'o', fuzz_sample, &n, &out);
	fuzz_require(out.samples == n && (out.wrong > 0) == (out.why[0] != '\0'));
	free(copy);
	return 0;
}
