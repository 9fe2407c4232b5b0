/* SPDX-License-Identifier: Apache-2.0
 *
 * test_utf8.c - well-formedness against the definition of UTF-8 (Unicode, D92):
 * a sequence is right if it decodes to a code point that is not a surrogate,
 * not above U+10FFFF, and could not be written shorter. Writing one, and the digits of JSON's
 * escapes (RFC 8259, 7).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"

/* The oracle, by arithmetic: length of the character at p, or 0. */
static size_t oracle(const unsigned char *p, size_t len)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = p[0] < 0x80       ? 1
		   : p[0] >> 5 == 6  ? 2
		   : p[0] >> 4 == 14 ? 3
		   : p[0] >> 3 == 30 ? 4
				     : 0;
	uint32_t point;
	size_t i;

	if (n == 0 || n > len)
		return 0;
	point = n == 1 ? p[0] : p[0] & (0x7fu >> n);
	for (i = 1; i < n; i++) {
		if (p[i] >> 6 != 2)
			return 0;
		point = point << 6 | (p[i] & 0x3f);
	}
	if (point < least[n] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
		return 0;
	return n;
}

static void test_up_to_three_bytes(void **state)
{
	unsigned char p[3];
	uint32_t i;

	(void)state;
	for (i = 0; i < 1u << 24; i++) {
		p[0] = (unsigned char)(i >> 16);
		p[1] = (unsigned char)(i >> 8);
		p[2] = (unsigned char)i;
		if (utf8_valid(p, 3) != oracle(p, 3))
			fail_msg("%02x %02x %02x", p[0], p[1], p[2]);
	}
}

static void test_four_bytes(void **state)
{
	static const unsigned char ends[] = {0x00, 0x7f, 0x80, 0x81, 0xbf, 0xc0, 0xff};
	unsigned char p[4];
	unsigned a, b, c, d;

	(void)state;
	for (a = 0xe0; a < 0x100; a++)
		for (b = 0; b < 0x100; b++)
			for (c = 0; c < sizeof(ends); c++)
				for (d = 0; d < sizeof(ends); d++) {
					memcpy(p,
					       (unsigned char[]){(unsigned char)a, (unsigned char)b,
								 ends[c], ends[d]},
					       4);
					if (utf8_valid(p, 4) != oracle(p, 4))
						fail_msg("%02x %02x %02x %02x", a, b, ends[c],
							 ends[d]);
				}
}

/* The rows of the standard's table 3-7, first and last of each. */
static void test_table(void **state)
{
	static const struct {
		const char *bytes;
		size_t len, valid;
	} rows[] = {
		{"", 0, 0},
		{"\x00", 1, 1},
		{"\x7f", 1, 1},
		{"\x80", 1, 0},
		{"\xc1\xbf", 2, 0},
		{"\xc2\x80", 2, 2},
		{"\xdf\xbf", 2, 2},
		{"\xe0\x9f\xbf", 3, 0},
		{"\xe0\xa0\x80", 3, 3},
		{"\xed\x9f\xbf", 3, 3},
		{"\xed\xa0\x80", 3, 0},
		{"\xee\x80\x80", 3, 3},
		{"\xef\xbf\xbf", 3, 3},
		{"\xf0\x8f\xbf\xbf", 4, 0},
		{"\xf0\x90\x80\x80", 4, 4},
		{"\xf4\x8f\xbf\xbf", 4, 4},
		{"\xf4\x90\x80\x80", 4, 0},
		{"\xf5\x80\x80\x80", 4, 0},
		{"\xe2\x82", 2, 0},     /* cut short */
		{"\xf0\x9f\x98", 3, 0}, /* cut short */
		{"ab", 2, 1},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (utf8_valid((const unsigned char *)rows[i].bytes, rows[i].len) != rows[i].valid)
			fail_msg("row %zu", i);
}

static void test_clean(void **state)
{
	static const struct {
		const char *dirty, *clean;
	} rows[] = {
		{"plain text, 100 %", "plain text, 100 %"},
		{"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
		 "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
		{"a\nb\tc\rd", "a?b?c?d"},
		{"\x1b[31mred\x1b[0m\x07", "?[31mred?[0m?"},
		{"\x7f", "?"},
		{"\xc2\x9b"
		 "31m",
		 "??31m"},                /* CSI as a C1 control */
		{"\xc2\xa0", "\xc2\xa0"}, /* the first that is none */
		{"a\xff"
		 "b\xe2\x82",
		 "a?b??"},
		{"\xed\xa0\x80", "???"},
	};
	char text[64];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		strcpy(text, rows[i].dirty);
		utf8_clean(text, strlen(text));
		assert_string_equal(text, rows[i].clean);
	}
	memcpy(text, "a\0b", 3);
	utf8_clean(text, 3);
	assert_memory_equal(text, "a?b", 3);
}

/* Every code point is written as the definition's table of lengths has it, and read back. */
static void test_put(void **state)
{
	unsigned char p[4];
	uint32_t c, point;
	size_t i, n;

	(void)state;
	for (c = 0; c < 0x110000; c++) {
		if (c >= 0xd800 && c <= 0xdfff)
			continue;
		n = utf8_put((char *)p, c);
		if (n != (c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4) || oracle(p, n) != n)
			fail_msg("U+%04X has %zu bytes", c, n);
		point = n == 1 ? p[0] : p[0] & (0x7fu >> n);
		for (i = 1; i < n; i++)
			point = point << 6 | (p[i] & 0x3f);
		if (point != c)
			fail_msg("U+%04X is read as U+%04X", c, point);
	}
}

static void test_hex4(void **state)
{
	static const char *const bad[] = {"",     "123",  "12g4", "/000", ":000", "@000",
					  "G000", "`000", "-001", " 001", "0x01", "00\xc3\xa4"};
	size_t i;

	(void)state;
	assert_int_equal(utf8_hex4("0000"), 0);
	assert_int_equal(utf8_hex4("00e4"), 0xe4);
	assert_int_equal(utf8_hex4("d83D"), 0xd83d);
	assert_int_equal(utf8_hex4("09aF"), 0x9af);
	assert_int_equal(utf8_hex4("fFfF0"), 0xffff);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(utf8_hex4(bad[i]), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_up_to_three_bytes),
		cmocka_unit_test(test_four_bytes),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_clean),
		cmocka_unit_test(test_put),
		cmocka_unit_test(test_hex4),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
