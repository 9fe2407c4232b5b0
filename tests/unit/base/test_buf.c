/* SPDX-License-Identifier: Apache-2.0
 *
 * test_buf.c - the buffer keeps its maximum and its first error; numbers follow
 * LEB128 (values and bytes from its definition, by hand).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

static void test_empty(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 10);
	assert_string_equal(buf_str(&b), "");
	assert_null(b.data);
	buf_append(&b, NULL, 0);
	assert_int_equal(b.error, 0);
	assert_int_equal(b.len, 0);
	/* Reserved but not used: still an empty string. */
	assert_non_null(buf_reserve(&b, 10));
	assert_string_equal(buf_str(&b), "");
	buf_done(&b);
	assert_null(b.data);
	assert_int_equal(b.max, 10);
}

static void test_maximum(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 5);
	buf_puts(&b, "12345");
	assert_int_equal(b.error, 0);
	assert_string_equal(buf_str(&b), "12345");
	buf_putc(&b, '6');
	assert_int_equal(b.error, -EFBIG);
	assert_string_equal(buf_str(&b), "12345");
	assert_int_equal(b.len, 5);
	buf_reset(&b);
	assert_int_equal(b.error, 0);
	assert_string_equal(buf_str(&b), "");
	/* What does not fit is left out whole. */
	buf_puts(&b, "123");
	buf_puts(&b, "456");
	assert_string_equal(buf_str(&b), "123");
	assert_int_equal(b.error, -EFBIG);
	buf_done(&b);
}

static void test_error_sticks(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 4);
	buf_puts(&b, "12345");
	assert_int_equal(b.error, -EFBIG);
	/* This would fit, but something before it is missing. */
	buf_puts(&b, "1");
	buf_printf(&b, "%d", 2);
	buf_uvarint(&b, 3);
	assert_null(buf_reserve(&b, 0));
	assert_int_equal(b.len, 0);
	assert_int_equal(b.error, -EFBIG);
	buf_done(&b);
}

static void test_huge_request(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, SIZE_MAX);
	buf_puts(&b, "x");
	assert_null(buf_reserve(&b, SIZE_MAX - 1));
	assert_int_equal(b.error, -ENOMEM);
	buf_done(&b);
	buf_init(&b, SIZE_MAX);
	buf_puts(&b, "x");
	assert_null(buf_reserve(&b, SIZE_MAX));
	assert_int_equal(b.error, -EFBIG);
	buf_done(&b);
}

static void test_printf(void **state)
{
	char long_text[1001];
	struct buf b;

	(void)state;
	memset(long_text, 'y', 1000);
	long_text[1000] = '\0';
	buf_init(&b, 1010);
	buf_printf(&b, "%d-%s-", 42, "x");
	assert_string_equal(buf_str(&b), "42-x-");
	/* Longer than any inner buffer, and to the byte the maximum. */
	buf_printf(&b, "%s%s", long_text, "12345");
	assert_int_equal(b.error, 0);
	assert_int_equal(b.len, 1010);
	assert_string_equal(buf_str(&b) + 1005, "12345");
	assert_memory_equal(buf_str(&b), "42-x-yyyy", 9);
	buf_reset(&b);
	buf_printf(&b, "%s%s", long_text, "12345678901");
	assert_int_equal(b.error, -EFBIG);
	assert_int_equal(b.len, 0);
	buf_done(&b);
}

static void test_grows(void **state)
{
	struct buf b;
	size_t i;

	(void)state;
	buf_init(&b, 100000);
	for (i = 0; i < 100000; i++)
		buf_putc(&b, (char)('a' + i % 26));
	assert_int_equal(b.error, 0);
	assert_int_equal(b.len, 100000);
	for (i = 0; i < 100000; i++)
		assert_int_equal(b.data[i], 'a' + i % 26);
	assert_int_equal(b.data[100000], '\0');
	buf_done(&b);
}

static const struct {
	uint64_t value;
	const char *bytes;
	size_t len;
} unsigned_rows[] = {
	{0, "\x00", 1},
	{1, "\x01", 1},
	{127, "\x7f", 1},
	{128, "\x80\x01", 2},
	{300, "\xac\x02", 2},
	{16383, "\xff\x7f", 2},
	{16384, "\x80\x80\x01", 3},
	{624485, "\xe5\x8e\x26", 3}, /* the worked example of the DWARF standard */
	{UINT64_C(1) << 63, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 10},
	{UINT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10},
};

static const struct {
	int64_t value;
	uint64_t zigzag;
} signed_rows[] = {
	{0, 0},
	{-1, 1},
	{1, 2},
	{-2, 3},
	{2147483647, 4294967294u},
	{-2147483648, 4294967295u},
	{INT64_MAX, UINT64_MAX - 1},
	{INT64_MIN, UINT64_MAX},
};

static void test_unsigned_numbers(void **state)
{
	struct buf b;
	struct cur c;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(unsigned_rows) / sizeof(unsigned_rows[0]); i++) {
		buf_init(&b, unsigned_rows[i].len); /* exactly fits */
		buf_uvarint(&b, unsigned_rows[i].value);
		assert_int_equal(b.error, 0);
		assert_int_equal(b.len, unsigned_rows[i].len);
		assert_memory_equal(b.data, unsigned_rows[i].bytes, b.len);
		c = (struct cur){(unsigned char *)b.data, (unsigned char *)b.data + b.len, 0};
		assert_true(cur_uvarint(&c) == unsigned_rows[i].value);
		assert_int_equal(c.error, 0);
		assert_ptr_equal(c.p, c.end);
		buf_done(&b);
	}
}

static void test_signed_numbers(void **state)
{
	struct buf b, u;
	struct cur c;
	size_t i;

	(void)state;
	buf_init(&b, 10);
	buf_init(&u, 10);
	for (i = 0; i < sizeof(signed_rows) / sizeof(signed_rows[0]); i++) {
		buf_reset(&b);
		buf_reset(&u);
		buf_svarint(&b, signed_rows[i].value);
		buf_uvarint(&u, signed_rows[i].zigzag);
		assert_int_equal(b.len, u.len);
		assert_memory_equal(b.data, u.data, u.len);
		c = (struct cur){(unsigned char *)b.data, (unsigned char *)b.data + b.len, 0};
		assert_true(cur_svarint(&c) == signed_rows[i].value);
		assert_int_equal(c.error, 0);
	}
	buf_done(&b);
	buf_done(&u);
}

static void test_malformed_numbers(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} rows[] = {
		{"", 0},
		{"\x80", 1},                                          /* cut short */
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9},          /* cut short */
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10},     /* bit 64 */
		{"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11}, /* too long */
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x00", 11}, /* too long */
	};
	struct cur c;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const unsigned char *p = (const unsigned char *)rows[i].bytes;

		c = (struct cur){p, p + rows[i].len, 0};
		assert_true(cur_uvarint(&c) == 0);
		assert_int_equal(c.error, -EBADMSG);
		/* Nothing can be read after an error. */
		assert_ptr_equal(c.p, c.end);
		assert_null(cur_bytes(&c, 1));
	}
}

static void test_bytes(void **state)
{
	static const unsigned char data[] = "abcdef";
	struct cur c = {data, data + 6, 0};

	(void)state;
	assert_ptr_equal(cur_bytes(&c, 2), data);
	assert_ptr_equal(cur_bytes(&c, 4), data + 2);
	assert_int_equal(c.error, 0);
	assert_ptr_equal(cur_bytes(&c, 0), data + 6);
	assert_int_equal(c.error, 0);
	assert_null(cur_bytes(&c, 1));
	assert_int_equal(c.error, -EBADMSG);
	c = (struct cur){data, data + 6, 0};
	assert_null(cur_bytes(&c, SIZE_MAX));
	assert_int_equal(c.error, -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_maximum),
		cmocka_unit_test(test_error_sticks),
		cmocka_unit_test(test_huge_request),
		cmocka_unit_test(test_printf),
		cmocka_unit_test(test_grows),
		cmocka_unit_test(test_unsigned_numbers),
		cmocka_unit_test(test_signed_numbers),
		cmocka_unit_test(test_malformed_numbers),
		cmocka_unit_test(test_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
