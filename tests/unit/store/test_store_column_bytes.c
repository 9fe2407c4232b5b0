/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_column_bytes.c - the column codec: bytes worked out by hand from
 * docs/columns.md. With AVX2 and without, which must agree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/column.h"

static struct column_codec fast, plain = {.portable = true};
static struct buf out;

static int setup(void **unused)
{
	(void)unused;
	column_codec_init(&fast);
	buf_init(&out, 1 << 20);
	return 0;
}

static int teardown(void **unused)
{
	(void)unused;
	column_codec_done(&fast);
	column_codec_done(&plain);
	buf_done(&out);
	return 0;
}

/* ---- bytes by hand -------------------------------------------------------------------- */

#define INTS(...)                                                                                  \
	(const int64_t[])                                                                          \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define VALUES(...)                                                                                \
	(const double[])                                                                           \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define BYTES(...) (const unsigned char[]){__VA_ARGS__}, sizeof((unsigned char[]){__VA_ARGS__})

static void check_ints(const unsigned char *p, size_t len, const int64_t *want, size_t n)
{
	int64_t got[16];
	size_t i;

	assert_null(column_get_ints(&fast, p, len, n, got));
	assert_memory_equal(got, want, n * 8);
	assert_null(column_get_ints(&plain, p, len, n, got));
	assert_memory_equal(got, want, n * 8);
	for (i = 0; i < len; i++) /* no shorter one is a column */
		assert_non_null(column_get_ints(&fast, p, i, n, got));
}

static void check_values(const unsigned char *p, size_t len, const double *want, size_t n)
{
	double got[16];
	size_t i;

	assert_null(column_get_values(&fast, p, len, n, got));
	assert_memory_equal(got, want, n * 8);
	assert_null(column_get_values(&plain, p, len, n, got));
	assert_memory_equal(got, want, n * 8);
	for (i = 0; i < len; i++)
		assert_non_null(column_get_values(&fast, p, i, n, got));
}

static void test_int_bytes(void **unused)
{
	(void)unused;
	/* Constant: 7 three times. */
	check_ints(BYTES(0x00, 7, 0, 0, 0, 0, 0, 0, 0), INTS(7, 7, 7), 3);
	/* Raw. */
	check_ints(
		BYTES(0x01, 7, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f),
		INTS(7, INT64_MAX), 2);
	/* First differences: 10, then centre 2, no low bits, no symbols. */
	check_ints(BYTES(0x05, 0x01, 0x14, 0x00, 0x04), INTS(10, 12, 14, 16), 4);
	/* No differences, centre 5, two low bits: 0, 1, 2, 3. */
	check_ints(BYTES(0x05, 0x00, 0x02, 0x0a, 0xe4), INTS(5, 6, 7, 8), 4);
	/* Grid of 15 from 30; quotients 0, 1, 2, 3. */
	check_ints(BYTES(0x15, 15, 60, 0x00, 0x02, 0x00, 0xe4), INTS(30, 45, 60, 75), 4);
	/* Third differences 1 behind 0, 0, 0: their sums. */
	check_ints(BYTES(0x05, 0x03, 0, 0, 0, 0x00, 0x02), INTS(0, 0, 0, 1, 4, 10, 20), 7);
	/* Fourth ones 0 behind cubes. */
	check_ints(BYTES(0x05, 0x04, 0, 2, 14, 38, 0x00, 0x00), INTS(0, 1, 8, 27, 64, 125, 216), 7);
	/* Line from 100, slope 1.5 (98304 / 65536). */
	check_ints(BYTES(0x05, 0x05, 0xc8, 0x01, 0x80, 0x80, 0x0c, 0x00, 0x00),
		   INTS(100, 101, 103, 104, 106), 5);
	/* Mean of weight 1/2 from level 8: residuals 4, 0, 0, 0; sums 16, 20, 20, 20. */
	check_ints(BYTES(0x05, 0x08, 0x10, 0x03, 0x00, 0x04, 0x00), INTS(12, 10, 10, 10), 4);
	/* Exceptions: none, twice, from 1 on; elsewhere 9. */
	check_ints(BYTES(0x0d, 1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x00, 0x00, 0x12),
		   INTS(9, INT64_MIN, INT64_MIN, 9), 4);
	/* Two runs: lengths 1 and two low bits 2 and 0, numbers 4 and 4 + 1. */
	check_ints(BYTES(0x45, 2, 0x00, 0x02, 0x02, 0x02, 0x00, 0x01, 0x08, 0x02), INTS(4, 4, 4, 5),
		   4);
}

static void test_symbol_bytes(void **unused)
{
	(void)unused;
	/* Symbols 64 and 65, each 512 of 1024. The encoder begins with 65536 and the
	 * last: (65536 / 512) * 1024 + 512 = 131584; then (131584 / 512) * 1024 =
	 * 263168 = 0x40400. Table: from 64 to 65, Golomb code 0 (two bits), changes of
	 * the level from 1 by 0 and 0: two ones. */
	check_ints(BYTES(0x05, 0x00, 0x40, 0x0e, 0x40, 0x41, 0x0c, 0x00, 0x00, 0x04, 0x04, 0x00),
		   INTS(7, 8), 2);
	/* Symbols 64 and 128 (octave 6, so 64 + six bits): level 1, 63 times 0, level
	 * 1: changes 0, -1 (number 1), 62 of 0, +1 (number 2). Number 1 and 2 of code 0
	 * are 010 and 011 with the leading bit first: bits 0, 1, 0 and 0, 1, 1. The bits
	 * are 00 1 010 1{62} 011, 71 in all. Six raw bits: 36, so 7 and 7 + 100. */
	check_ints(BYTES(0x05, 0x00, 0x40, 0x0e, 0x40, 0x80, 0xd4, 0xff, 0xff, 0xff, 0xff, 0xff,
			 0xff, 0xff, 0x6f, 0x00, 0x00, 0x04, 0x04, 0x00, 0x24),
		   INTS(7, 107), 2);
}

static void test_value_bytes(void **unused)
{
	(void)unused;
	check_values(BYTES(0x00, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f), VALUES(1, 1), 2);
	/* Tenths: centre 570, two low bits. */
	check_values(BYTES(0x02, 1, 0x00, 0x02, 0xf4, 0x08, 0xe4), VALUES(57.0, 57.1, 57.2, 57.3),
		     4);
	/* Exceptions NaN 0x7ff8000000000001 at 1, then the same at 3; else 2. */
	check_values(BYTES(0x0a, 0, 2, 1, 0, 1, 0, 0, 0, 0, 0, 0xf8, 0x7f, 1, 1, 0x00, 0x00, 0x04),
		     (const double *)(const uint64_t[]){0x4000000000000000, 0x7ff8000000000001,
							0x4000000000000000, 0x7ff8000000000001},
		     4);
	/* Floats: 1.0f is 0x3f800000, the next 0x3f800001; -1.5f is -0x3fc00000. */
	check_values(BYTES(0x03, 0x00, 0x01, 0x80, 0x80, 0x80, 0xf8, 0x07, 0x02),
		     VALUES(1.0, 1.00000011920928955078125), 2);
	check_values(BYTES(0x03, 0x00, 0x00, 0xff, 0xff, 0xff, 0xfb, 0x07), VALUES(-1.5, -1.5), 2);
	/* Doubles: 1.0 is 0x3ff0000000000000. */
	check_values(
		BYTES(0x04, 0x00, 0x01, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0xf0, 0x7f, 0x02),
		VALUES(1.0, 1.0 + 0x1p-52), 2);
	/* Dictionary of 2: a raw column of 17 bytes, 0.5 and 3; positions 1, 0, 1. */
	check_values(BYTES(0x06, 1, 17, 0, 0x01, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f, 0, 0, 0, 0, 0, 0,
			   0x08, 0x40, 0x00, 0x01, 0x00, 0x05),
		     VALUES(3, 0.5, 3), 3);
}

static void test_constant(void **unused)
{
	static const double v[] = {-0.0, -0.0, -0.0};
	static const int64_t none[] = {COLUMN_NONE, COLUMN_NONE};
	int64_t i = 0;
	double d = 1;

	(void)unused;
	buf_reset(&out);
	assert_int_equal(column_put_values(&fast, &out, v, 3), 0);
	assert_int_equal(out.len, 9);
	assert_true(column_constant_value((unsigned char *)out.data, out.len, &d));
	assert_memory_equal(&d, v, 8);
	buf_reset(&out);
	assert_int_equal(column_put_ints(&fast, &out, none, 2), 0);
	assert_true(column_constant_int((unsigned char *)out.data, out.len, &i));
	assert_true(i == COLUMN_NONE);
	assert_false(column_constant_int((unsigned char *)out.data, 8, &i));
	buf_reset(&out);
	assert_int_equal(column_put_ints(&fast, &out, INTS(1, 2, 3), 3), 0);
	assert_false(column_constant_int((unsigned char *)out.data, out.len, &i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_int_bytes),
		cmocka_unit_test(test_symbol_bytes),
		cmocka_unit_test(test_value_bytes),
		cmocka_unit_test(test_constant),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
