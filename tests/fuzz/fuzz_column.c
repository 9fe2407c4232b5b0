/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_column.c - columns of the store from any bytes, by both decoders with and
 * without AVX2, which must agree; and, from the same bytes taken as numbers, columns
 * that must come back bit for bit. Input: u16 number of numbers, the column.
 */
#include "store/column.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct column_codec fuzz_fast, fuzz_plain = {.portable = true};
static uint64_t fuzz_a[COLUMN_MAX], fuzz_b[COLUMN_MAX];

static void fuzz_agree(const char *a, const char *b, size_t n)
{
	if (!a != !b || (!a && memcmp(fuzz_a, fuzz_b, n * 8) != 0))
		abort();
}

static void fuzz_decode(const uint8_t *p, size_t len, size_t n)
{
	const char *why;
	double value;
	int64_t number;

	why = column_get_ints(&fuzz_fast, p, len, n, (int64_t *)fuzz_a);
	fuzz_agree(why, column_get_ints(&fuzz_plain, p, len, n, (int64_t *)fuzz_b), n);
	if (!why && column_constant_int(p, len, &number) && (uint64_t)number != fuzz_a[n - 1])
		abort();
	why = column_get_values(&fuzz_fast, p, len, n, (double *)fuzz_a);
	fuzz_agree(why, column_get_values(&fuzz_plain, p, len, n, (double *)fuzz_b), n);
	if (!why && column_constant_value(p, len, &value) && memcmp(&value, &fuzz_a[n - 1], 8) != 0)
		abort();
}

static void fuzz_encode(const uint64_t *v, size_t n, struct buf *b)
{
	const unsigned char *p = (const unsigned char *)b->data;

	buf_reset(b);
	if (column_put_values(&fuzz_fast, b, (const double *)v, n) < 0)
		abort();
	p = (const unsigned char *)b->data;
	if (b->len > 1 + 8 * n || column_get_values(&fuzz_fast, p, b->len, n, (double *)fuzz_b) ||
	    memcmp(v, fuzz_b, n * 8) != 0)
		abort();
	buf_reset(b);
	if (column_put_ints(&fuzz_fast, b, (const int64_t *)v, n) < 0)
		abort();
	p = (const unsigned char *)b->data;
	if (b->len > 1 + 8 * n || column_get_ints(&fuzz_fast, p, b->len, n, (int64_t *)fuzz_b) ||
	    memcmp(v, fuzz_b, n * 8) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint64_t v[COLUMN_MAX];
	struct buf b;
	size_t n;

	if (size < 3)
		return 0;
	n = 1 + (data[0] | (size_t)data[1] << 8) % COLUMN_MAX;
	fuzz_decode(data + 2, size - 2, n);
	buf_init(&b, 1 << 20);
	n = size / 8 < COLUMN_MAX ? size / 8 : COLUMN_MAX;
	memcpy(v, data, n * 8);
	if (n > 0)
		fuzz_encode(v, n, &b);
	buf_done(&b);
	return 0;
}
