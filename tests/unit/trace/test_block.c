/* SPDX-License-Identifier: Apache-2.0
 *
 * test_block.c - packed blocks come back as they were, and all kinds of vectors give the same
 * bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace/block_pack.h"

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
	return x ^ x >> 29;
}

/* So many low bits that are not 0, above or below a base. */
static uint64_t some(uint32_t row, unsigned column, unsigned bits)
{
	uint64_t v = mix(row * UINT64_C(131) + column * UINT64_C(7919));

	return bits ? v >> (64 - bits) : 0;
}

/* Values of up to `bits` bits; columns are as wide as they can be with 64. */
static void fill(struct trace_block *b, unsigned bits)
{
	for (uint32_t i = 0; i < TRACE_BLOCK_ROWS; i++) {
		unsigned word = bits < 32 ? bits : 32;

		b->ts[i] = (int64_t)some(i, 0, bits) - (bits == 64 ? 0 : 5);
		b->dur[i] = (int64_t)some(i, 1, bits);
		b->correlation[i] = -(int64_t)some(i, 2, bits < 63 ? bits : 63);
		b->external[i] = TRACE_NONE;
		b->index[i] = bits == 64 ? (uint32_t)some(i, 3, 32) : i * 3 + 7;
		b->name[i] = (uint32_t)some(i, 4, word);
		b->args[i] = (uint32_t)some(i, 5, word);
		b->stream[i] = (int32_t)some(i, 6, word);
		b->track[i] = (uint16_t)some(i, 7, bits < 16 ? bits : 16);
		b->cat[i] = (uint8_t)some(i, 8, bits < 8 ? bits : 8);
		b->flags[i] = (uint8_t)some(i, 9, bits < 8 ? bits : 8);
	}
}

static void test_come_back(void **state)
{
	static const unsigned bits[] = {0, 1, 7, 8, 9, 16, 20, 24, 31, 32, 33, 40, 48, 56, 63, 64};
	struct trace_block *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
	uint64_t *scratch = malloc(TRACE_BLOCK_ROWS * sizeof(*scratch));
	unsigned char *plain = malloc(BLOCK_PACK_MAX), *best = malloc(BLOCK_PACK_MAX), *exact;
	size_t n, m;

	(void)state;
	assert_true(a && b && scratch && plain && best);
	for (unsigned i = 0; i < sizeof(bits) / sizeof(*bits); i++) {
		fill(a, bits[i]);
		n = block_plain.pack(a, scratch, plain);
		m = block_set()->pack(a, scratch, best);
		assert_int_equal(n, m);
		assert_memory_equal(plain, best, n);
		exact = malloc(n); /* a sanitizer sees what lies behind it */
		assert_non_null(exact);
		memcpy(exact, plain, n);
		memset(b, 0x5a, sizeof(*b));
		block_plain.unpack(b, exact);
		assert_memory_equal(a, b, sizeof(*a));
		memset(b, 0xa5, sizeof(*b));
		block_set()->unpack(b, exact);
		assert_memory_equal(a, b, sizeof(*a));
		free(exact);
	}
	free(a);
	free(b);
	free(scratch);
	free(plain);
	free(best);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_come_back)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
