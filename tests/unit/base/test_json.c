/* SPDX-License-Identifier: Apache-2.0
 *
 * test_json.c - JSON as RFC 8259 wants it, and doubles that read back the same
 * from the shortest text.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"

static void test_structure(void **state)
{
	struct buf b;
	struct json j;

	(void)state;
	buf_init(&b, 4096);
	json_init(&j, &b);
	json_object(&j);
	json_kstr(&j, "name", "a");
	json_kint(&j, "least", INT64_MIN);
	json_kuint(&j, "most", UINT64_MAX);
	json_kbool(&j, "yes", true);
	json_kstr(&j, "none", NULL);
	json_key(&j, "list");
	json_array(&j);
	json_int(&j, 1);
	json_array(&j);
	json_array_end(&j);
	json_object(&j);
	json_object_end(&j);
	json_bool(&j, false);
	json_raw(&j, "{\"k\":[1]}");
	json_array_end(&j);
	json_kdouble(&j, "x", 0.5);
	json_object_end(&j);
	assert_int_equal(b.error, 0);
	assert_string_equal(buf_str(&b), "{\"name\":\"a\",\"least\":-9223372036854775808,"
					 "\"most\":18446744073709551615,\"yes\":true,\"none\":null,"
					 "\"list\":[1,[],{},false,{\"k\":[1]}],\"x\":0.5}");
	assert_int_equal(j.depth, 0);
	buf_done(&b);
}

static const struct {
	const char *in;
	size_t len;
	const char *out;
} text_rows[] = {
	{"", 0, "\"\""},
	{"a/b", 3, "\"a/b\""},
	{"\"\\\b\f\n\r\t", 7, "\"\\\"\\\\\\b\\f\\n\\r\\t\""},
	{"\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\x7f\""},
	{"\xc3\xa9\xf0\x9f\x98\x80", 6, "\"\xc3\xa9\xf0\x9f\x98\x80\""},
	{"a\xff"
	 "b",
	 3,
	 "\"a\xef\xbf\xbd"
	 "b\""},
	{"\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\""},
	{"\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
};

static void test_texts(void **state)
{
	struct buf b;
	struct json j;
	size_t i;

	(void)state;
	buf_init(&b, 4096);
	for (i = 0; i < sizeof(text_rows) / sizeof(text_rows[0]); i++) {
		buf_reset(&b);
		json_init(&j, &b);
		json_strn(&j, text_rows[i].in, text_rows[i].len);
		assert_string_equal(buf_str(&b), text_rows[i].out);
	}
	/* A key is quoted like any text. */
	buf_reset(&b);
	json_init(&j, &b);
	json_object(&j);
	json_kint(&j, "a\"b\n", 1);
	json_object_end(&j);
	assert_string_equal(buf_str(&b), "{\"a\\\"b\\n\":1}");
	buf_done(&b);
}

/* The shortest text of each is known from its definition or from print tables
 * of other languages (Python's repr uses the same form). */
static const struct {
	double value;
	const char *text;
} number_rows[] = {
	{0, "0"},
	{-0.0, "-0"},
	{1, "1"},
	{-1.5, "-1.5"},
	{0.1, "0.1"},
	{0.3, "0.3"},
	{0.1 + 0.2, "0.30000000000000004"},
	{1.0 / 3, "0.3333333333333333"},
	{2.0 / 3, "0.6666666666666666"},
	{100, "100"},
	{123456789, "123456789"},
	{9007199254740992.0, "9007199254740992"}, /* 2^53 */
	{0x1p-1074, "5e-324"},                    /* least subnormal */
	{0x1.8p-1073, "1.5e-323"},
	{0x1p-1022, "2.2250738585072014e-308"}, /* least normal */
	{0x1.fffffffffffffp1023, "1.7976931348623157e+308"},
	{3.141592653589793, "3.141592653589793"},
	{1e22, "1e+22"},
	{5e-5, "5e-05"},
};

static void test_numbers(void **state)
{
	struct buf b;
	size_t i;

	(void)state;
	buf_init(&b, 64);
	for (i = 0; i < sizeof(number_rows) / sizeof(number_rows[0]); i++) {
		buf_reset(&b);
		json_put_double(&b, number_rows[i].value);
		assert_string_equal(buf_str(&b), number_rows[i].text);
	}
	buf_done(&b);
}

static void test_numbers_read_back(void **state)
{
	uint64_t bits = 1, back;
	struct buf b;
	double v, w;
	int i;

	(void)state;
	buf_init(&b, 64);
	for (i = 0; i < 200000; i++) {
		bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		memcpy(&v, &bits, sizeof(v));
		if (!isfinite(v))
			continue;
		buf_reset(&b);
		json_put_double(&b, v);
		w = strtod(buf_str(&b), NULL);
		memcpy(&back, &w, sizeof(back));
		if (back != bits)
			fail_msg("%a was written as %s", v, buf_str(&b));
	}
	buf_done(&b);
}

static void test_not_finite(void **state)
{
	struct buf b;
	struct json j;

	(void)state;
	buf_init(&b, 64);
	json_init(&j, &b);
	json_array(&j);
	json_double(&j, (double)NAN);
	json_double(&j, (double)INFINITY);
	json_double(&j, -(double)INFINITY);
	json_array_end(&j);
	assert_string_equal(buf_str(&b), "[\"NaN\",\"Infinity\",\"-Infinity\"]");
	buf_reset(&b);
	json_put_double(&b, -(double)NAN);
	assert_string_equal(buf_str(&b), "NaN");
	buf_done(&b);
}

static void test_maximum(void **state)
{
	struct buf b;
	struct json j;

	(void)state;
	buf_init(&b, 8);
	json_init(&j, &b);
	json_array(&j);
	json_str(&j, "123456789");
	json_array_end(&j);
	assert_int_equal(b.error, -EFBIG);
	assert_true(b.len <= 8);
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_structure),  cmocka_unit_test(test_texts),
		cmocka_unit_test(test_numbers),    cmocka_unit_test(test_numbers_read_back),
		cmocka_unit_test(test_not_finite), cmocka_unit_test(test_maximum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
