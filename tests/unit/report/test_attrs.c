/* SPDX-License-Identifier: Apache-2.0
 *
 * test_attrs.c - what is JSON by RFC 8259 passes, without its blanks; what is
 * not becomes a string. Looking things up in it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "report/attrs.h"
#include "report/jsonwalk.h"

static void test_good(void **state)
{
	static const struct {
		const char *text, *compact;
	} rows[] = {
		{"{}", "{}"},
		{" { \"a\" : 1 ,\n\t\"b\" : [ ] } ", "{\"a\":1,\"b\":[]}"},
		{"{\"a\":[1,-2.5e+3,true,false,null,\"x y\",{\"\":0}]}",
		 "{\"a\":[1,-2.5e+3,true,false,null,\"x y\",{\"\":0}]}"},
		{"{\"a\":\"\\u00e4 \\\" \\\\ \\n \xc3\xa4\"}",
		 "{\"a\":\"\\u00e4 \\\" \\\\ \\n \xc3\xa4\"}"},
		{"{\"a\":0,\"b\":-0.0,\"c\":1E5}", "{\"a\":0,\"b\":-0.0,\"c\":1E5}"},
	};
	struct buf b;
	size_t i;

	(void)state;
	buf_init(&b, 1024);
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		buf_reset(&b);
		assert_int_equal(attrs_compact(rows[i].text, &b), 0);
		assert_string_equal(buf_str(&b), rows[i].compact);
	}
	buf_done(&b);
}

static void test_bad(void **state)
{
	static const char *const rows[] = {
		"",
		"[]",
		"1",
		"{",
		"{\"a\"}",
		"{\"a\":}",
		"{\"a\":1,}",
		"{a:1}",
		"{\"a\":01}",
		"{\"a\":.5}",
		"{\"a\":1.}",
		"{\"a\":1e}",
		"{\"a\":+1}",
		"{\"a\":NaN}",
		"{\"a\":nul}",
		"{\"a\":\"\n\"}",
		"{\"a\":\"\\x\"}",
		"{\"a\":\"\\u12g4\"}",
		"{\"a\":\"\xff\"}",
		"{\"a\":\"",
		"{} {}",
		"{\"a\":1}x",
		"{\"a\":[1 2]}",
		"{\"a\":1]",
		"{'a':1}",
		"{\"a\":\"\\",
	};
	struct buf b;
	size_t i;

	(void)state;
	buf_init(&b, 1024);
	buf_puts(&b, "before");
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		if (attrs_compact(rows[i], &b) != -EBADMSG)
			fail_msg("accepted: %s", rows[i]);
		assert_string_equal(buf_str(&b), "before");
	}
	buf_done(&b);
}

/* An object of `depth` objects, one in the other. */
static int nested(int depth)
{
	struct buf text, out;
	int i, err;

	buf_init(&text, 1 << 20);
	buf_init(&out, 1 << 20);
	for (i = 1; i < depth; i++)
		buf_puts(&text, "{\"a\":");
	buf_puts(&text, "{}");
	for (i = 1; i < depth; i++)
		buf_putc(&text, '}');
	err = attrs_compact(buf_str(&text), &out);
	buf_done(&text);
	buf_done(&out);
	return err;
}

static void test_depth(void **state)
{
	(void)state;
	assert_int_equal(nested(ATTRS_DEPTH_MAX), 0);
	assert_int_equal(nested(ATTRS_DEPTH_MAX + 1), -EBADMSG);
	assert_int_equal(nested(100000), -EBADMSG);
}

static void test_json(void **state)
{
	struct json j;
	struct buf b;

	(void)state;
	buf_init(&b, 1024);
	json_init(&j, &b);
	json_object(&j);
	attrs_json(&j, "a", "{ \"x\" : 1 }");
	attrs_json(&j, "b", "");
	attrs_json(&j, "c", "{\"x\":NaN}");
	json_object_end(&j);
	assert_string_equal(buf_str(&b), "{\"a\":{\"x\":1},\"b\":{},\"c\":\"{\\\"x\\\":NaN}\"}");
	buf_done(&b);
}

/* A token that does not fit is left out of a buffer: what is left is no JSON. */
static void test_full(void **state)
{
	const char *text = "{\"a\":\"0123456789\",\"b\":{}}";
	size_t most;
	struct buf b;

	(void)state;
	for (most = 0; most <= strlen(text); most++) {
		buf_init(&b, most);
		assert_int_equal(attrs_compact(text, &b), most < strlen(text) ? -EFBIG : 0);
		assert_string_equal(buf_str(&b), most < strlen(text) ? "" : text);
		assert_int_equal(b.error, 0);
		buf_done(&b);
	}
}

static void test_walk(void **state)
{
	const char *text = "{\"a\":[1,{\"b\":\"]}\\\"\"},[],-7],\"ab\":\"x\\\\\\u00e4\\n\","
			   "\"\":{},\"n\":12,\"f\":1.5,\"e\":[],\"t\":true}";
	const char *p;
	char out[16];

	(void)state;
	p = jsonwalk_first(jsonwalk_get(text, "a"));
	assert_int_equal(jsonwalk_int(p, 0), 1);
	p = jsonwalk_next(p);
	assert_string_equal(jsonwalk_string(jsonwalk_get(p, "b"), out, sizeof(out)), "]}\"");
	p = jsonwalk_next(p);
	assert_null(jsonwalk_first(p));
	p = jsonwalk_next(p);
	assert_int_equal(jsonwalk_int(p, 0), -7);
	assert_null(jsonwalk_next(p));
	assert_string_equal(jsonwalk_string(jsonwalk_get(text, "ab"), out, sizeof(out)), "x\\??");
	assert_string_equal(jsonwalk_string(jsonwalk_get(text, "ab"), out, 2), "x");
	assert_string_equal(jsonwalk_string(jsonwalk_get(text, "n"), out, sizeof(out)), "");
	assert_int_equal(jsonwalk_int(jsonwalk_get(text, "n"), 0), 12);
	assert_int_equal(jsonwalk_int(jsonwalk_get(text, "f"), -1), -1);
	assert_int_equal(jsonwalk_int(jsonwalk_get(text, "t"), -1), -1);
	assert_null(jsonwalk_first(jsonwalk_get(text, "e")));
	assert_null(jsonwalk_get(text, "b"));
	assert_null(jsonwalk_get(jsonwalk_get(text, "n"), "a"));
	assert_null(jsonwalk_get("{}", "a"));
}

/* Nanoseconds to the last digit, which a double has not. */
static void test_ns(void **state)
{
	static const int64_t rows[] = {INT64_MAX, INT64_MIN, 1700000000123456789, -1, 0};
	struct buf b;
	struct json j;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		buf_init(&b, 1024);
		json_init(&j, &b);
		json_object(&j);
		attrs_put_ns(&j, "until", rows[i]);
		json_object_end(&j);
		assert_true(attrs_ns(buf_str(&b), "until") == rows[i]);
		assert_true(attrs_ns(buf_str(&b), "from") == 0);
		buf_done(&b);
	}
	assert_true(attrs_ns("{\"until\":\"1700000000123456789\"}", "until") ==
		    1700000000123456789);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),  cmocka_unit_test(test_bad),
		cmocka_unit_test(test_depth), cmocka_unit_test(test_json),
		cmocka_unit_test(test_walk),  cmocka_unit_test(test_full),
		cmocka_unit_test(test_ns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
