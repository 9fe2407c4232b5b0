/* SPDX-License-Identifier: Apache-2.0
 *
 * test_repair.c - each way in which trace files are broken in the wild, what the repair makes
 * of it and what it says; the result is JSON to the letter, always.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "trace/repair.h"
#include "trace/write.h"

static char dir[] = "/tmp/lapse-test-repair-XXXXXX";
static char in[64], out[64], zipped[64];

#define A "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":2,\"ts\":1,\"dur\":5}"
#define B "{\"ph\":\"X\",\"name\":\"b\",\"pid\":1,\"tid\":2,\"ts\":2,\"dur\":5}"
#define NAMED(name) "{\"ph\":\"X\",\"name\":" name ",\"pid\":1,\"tid\":2,\"ts\":3,\"dur\":5}"
#define TOP(events) "{\"traceEvents\":[" events "]}"

static const struct row {
	const char *text;
	uint64_t events, mended, lost;
	int kind; /* the one kind of mend; -1 none */
	uint64_t count, offset;
	const char *holds; /* in the result */
} rows[] = {
	{TOP(A "," B), 2, 0, 0, -1, 0, 0, A ",\n" B},
	{TOP(""), 0, 0, 0, -1, 0, 0, "\"traceEvents\":[\n\n]"},
	{"[" A "," B "]", 2, 0, 0, -1, 0, 0, "[\n" A},
	{TOP(A "," NAMED("\"say \"hi\" now\"") "," B), 2, 1, 0, REPAIR_QUOTE, 2, 91,
	 "\"say \\\"hi\\\" now\""},
	{TOP(A "," NAMED("\"abc") "," B), 2, 1, 0, REPAIR_QUOTE, 1, 91, "\"abc\",\"pid\":1"},
	{TOP(NAMED("\"a\001b\nc\"")), 0, 1, 0, REPAIR_CONTROL, 2, 35, "\"a\\u0001b\\u000ac\""},
	{TOP(NAMED("\"a\377b\"")), 0, 1, 0, REPAIR_UTF8, 1, 35,
	 "\"a\xef\xbf\xbd"
	 "b\""},
	{TOP(NAMED("\"C:\\qux\"")), 0, 1, 0, REPAIR_ESCAPE, 1, 36, "\"C:\\\\qux\""},
	{TOP("{\"ts\":1,\"args\":{\"x\":N/A,\"y\":NaN,\"z\":-Infinity}}"), 0, 1, 0, REPAIR_WORD, 3,
	 36, "{\"x\":\"N/A\",\"y\":\"NaN\",\"z\":\"-Infinity\"}"},
	{TOP("{\"ts\":01.5}"), 0, 1, 0, REPAIR_WORD, 1, 22, "{\"ts\":\"01.5\"}"},
	{TOP("{\"ts\":1,}"), 0, 1, 0, REPAIR_COMMA, 1, 23, "{\"ts\":1}"},
	{TOP("{\"ts\":1 \"b\":[1 2]}"), 0, 1, 0, REPAIR_COMMA, 2, 24, "{\"ts\":1,\"b\":[1,2]}"},
	{TOP("{\"ts\":,\"b\":2}"), 0, 1, 0, REPAIR_MISSING, 1, 22, "{\"ts\":null,\"b\":2}"},
	{TOP(A "," B ","), 2, 0, 0, REPAIR_COMMA, 1, 122, A ",\n" B "\n]"},
	{TOP(A ",," B), 2, 0, 0, REPAIR_COMMA, 1, 69, A ",\n" B},
	{TOP(A "\n" B), 2, 0, 0, REPAIR_COMMA, 1, 69, A ",\n" B},
	{TOP(A ",xyz"
	       "," B),
	 2, 0, 0, -2, 0, 0, A ",\n" B},
	{"\xef\xbb\xbf" TOP(A), 1, 0, 0, REPAIR_BOM, 1, 0, A},
	{TOP(A) "foo", 1, 0, 0, REPAIR_TRAILING, 1, 70, A},
	{"{\"traceEvents\":[" A "," B, 2, 0, 0, REPAIR_TRUNCATED, 1, 121, B "\n]\n}"},
	{"{\"traceEvents\":[" A ",{\"ph\":\"X\",\"na", 1, 0, 1, REPAIR_TRUNCATED, 1, 69,
	 A "\n]\n}"},
	{"[" A ",", 1, 0, 0, REPAIR_TRUNCATED, 1, 54, "[\n" A "\n]"},
	{"{\"x\":nope,\"traceEvents\":[" A "],\"y\":{\"a\":1}}", 1, 0, 0, REPAIR_WORD, 1, 5,
	 "\"x\":\"nope\""},
	{"{\"traceEvents\":[" A "],\"traceEvents\":7}", 1, 0, 0, -1, 0, 0, "\"traceEvents\":7"},
};

static void check_row(const struct row *row, const char *result, size_t len,
		      const struct repair_result *r)
{
	if (!repair_is_json(result, len))
		fail_msg("%s became no JSON: %.*s", row->text, (int)len, result);
	if (r->events != row->events || r->mended != row->mended || r->lost != row->lost)
		fail_msg("%s: %llu events, %llu mended, %llu lost", row->text,
			 (unsigned long long)r->events, (unsigned long long)r->mended,
			 (unsigned long long)r->lost);
	if (!memmem(result, len, row->holds, strlen(row->holds)))
		fail_msg("%s: no %s in %.*s", row->text, row->holds, (int)len, result);
	for (int k = 0; k < REPAIR_KINDS && row->kind != -2; k++) {
		uint64_t want = k == row->kind ? row->count : 0;

		if (r->mends[k].count != want || (want && r->mends[k].offset != row->offset))
			fail_msg("%s: %llu of %s, first at %llu", row->text,
				 (unsigned long long)r->mends[k].count, repair_rows[k].name,
				 (unsigned long long)r->mends[k].offset);
	}
}

static void test_rows(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 1 << 20);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct repair_result r;
		struct err e = {0};

		assert_int_equal(
			file_write_atomic(AT_FDCWD, in, rows[i].text, strlen(rows[i].text), 0600),
			0);
		if (repair_file(in, out, &r, &e))
			fail_msg("%s: %s", rows[i].text, e.text);
		buf_reset(&b);
		assert_int_equal(file_read(AT_FDCWD, out, &b), 0);
		check_row(&rows[i], b.data, b.len, &r);
	}
	buf_done(&b);
}

static void test_refused(void **state)
{
	static const char *const texts[] = {"", "  ", "x", "{\"a\":1}", "{", "7"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct repair_result r;
		struct err e = {0};

		unlink(out);
		assert_int_equal(file_write_atomic(AT_FDCWD, in, texts[i], strlen(texts[i]), 0600),
				 0);
		assert_int_equal(repair_file(in, out, &r, &e), -EBADMSG);
		assert_true(strlen(e.text) > 10);
		assert_int_equal(access(out, F_OK), -1);
	}
}

/* More than a piece of text, compressed, cut in the middle: all whole events stay. */
static void test_large(void **state)
{
	struct write_sink *s;
	struct repair_result r;
	struct err e = {0};
	struct buf b;
	uint64_t n = 60000;

	(void)state;
	assert_int_equal(write_open(zipped, &s, &e), 0);
	write_put(s, "{\"traceEvents\":[", 16);
	for (uint64_t i = 0; i < n; i++) {
		write_put(s, ",\n" A, strlen(",\n" A));
		if (i % 20000 == 5)
			write_put(s, "," NAMED("\"q\"q\""), strlen("," NAMED("\"q\"q\"")));
	}
	write_put(s, "],\"k\":1}", 8);
	assert_int_equal(write_close(s, NULL, &e), 0);
	assert_int_equal(repair_file(zipped, out, &r, &e), 0);
	assert_int_equal(r.events, n);
	assert_int_equal(r.mended, 3);
	assert_int_equal(r.lost, 0);
	assert_int_equal(r.mends[REPAIR_COMMA].count, 1); /* before the first */
	buf_init(&b, 64 << 20);
	assert_int_equal(file_read(AT_FDCWD, out, &b), 0);
	assert_true(repair_is_json(b.data, b.len));
	buf_reset(&b);
	assert_int_equal(file_read(AT_FDCWD, zipped, &b), 0);
	assert_int_equal(truncate(zipped, (off_t)b.len / 2), 0);
	assert_int_equal(repair_file(zipped, out, &r, &e), 0);
	assert_true(r.events > 1000 && r.events < n);
	assert_int_equal(r.mends[REPAIR_COMPRESSION].count, 1);
	assert_int_equal(r.mends[REPAIR_TRUNCATED].count, 1);
	buf_reset(&b);
	assert_int_equal(file_read(AT_FDCWD, out, &b), 0);
	assert_true(repair_is_json(b.data, b.len));
	buf_done(&b);
}

static void test_json(void **state)
{
	static const char *const good[] = {"1",    " -0.5e+3 ", "\"\\u00e9\\\"\"",
					   "[]",   "[[],{}]",   "{\"a\":[1,{\"b\":null}]}",
					   "true", "0"};
	static const char *const bad[] = {"",      "01",         "1.",         "[1,]", "{\"a\"}",
					  "{a:1}", "\"\t\"",     "[1 2]",      "nul",  "\"\\x\"",
					  "[}",    "{\"a\":}",   "\"\xff\"",   "1 2",  "[",
					  "-",     "{\"a\":1,}", "\"\\u12g4\""};
	char deep[200];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		if (!repair_is_json(good[i], strlen(good[i])))
			fail_msg("%s was refused", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (repair_is_json(bad[i], strlen(bad[i])))
			fail_msg("%s was taken", bad[i]);
	memset(deep, '[', 100);
	memset(deep + 100, ']', 100);
	assert_true(repair_is_json(deep + 100 - REPAIR_DEPTH_MAX, 2 * REPAIR_DEPTH_MAX));
	assert_false(repair_is_json(deep + 99 - REPAIR_DEPTH_MAX, 2 * REPAIR_DEPTH_MAX + 2));
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(in, sizeof(in), "%s/in.json", dir);
	snprintf(out, sizeof(out), "%s/out.json", dir);
	snprintf(zipped, sizeof(zipped), "%s/in.json.gz", dir);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(in);
	unlink(out);
	unlink(zipped);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_json),
	};

	return cmocka_run_group_tests_name("trace-repair", tests, set_up, tear_down);
}
