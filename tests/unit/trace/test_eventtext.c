/* SPDX-License-Identifier: Apache-2.0
 *
 * test_eventtext.c - members of an event's text, and the text of a row found again in its file:
 * the file's own bytes are what is expected.
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
#include "trace/eventtext.h"
#include "trace/member.h"

static char dir[] = "/tmp/lapse-test-eventtext-XXXXXX";
static char in[64];

#define AT(ts, more)                                                                               \
	"{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":2,\"ts\":" ts ",\"dur\":5" more "}"
#define NAMED(name, ts)                                                                            \
	"{\"ph\":\"X\",\"name\":\"" name "\",\"pid\":1,\"tid\":2,\"ts\":" ts ",\"dur\":5}"
#define TOP(events) "{\"traceEvents\":[" events "]}"

static void test_members(void **state)
{
	static const struct {
		const char *key, *value;
	} want[] = {
		{"a", "\"x\\\"},{\""}, {"", "[1,{\"b\":\"]\"},[]]"}, {"n", "-1.5e3"}, {"a", "null"},
		{"o", "{ }"},
	};
	const char *text = "{ \"a\" : \"x\\\"},{\" ,\n\"\":[1,{\"b\":\"]\"},[]],\"n\":-1.5e3,"
			   "\"a\":null\t, \"o\":{ } }";
	struct member_part key, value;
	size_t n = 0;

	(void)state;
	while (member_next(&text, &key, &value)) {
		assert_true(n < 5);
		assert_int_equal(key.len, strlen(want[n].key));
		assert_memory_equal(key.p, want[n].key, key.len);
		assert_int_equal(value.len, strlen(want[n].value));
		assert_memory_equal(value.p, want[n].value, value.len);
		n++;
	}
	assert_int_equal(n, 5);
	text = "{ }";
	assert_false(member_next(&text, &key, &value));
	/* What follows the event is none of it: a file that is broken there may go on anyhow. */
	text = "{\"a\":1}\"b\":2,\"c";
	assert_true(member_next(&text, &key, &value));
	assert_false(member_next(&text, &key, &value));
	text = "{}\"b";
	assert_false(member_next(&text, &key, &value));
}

static void test_numbers(void **state)
{
	struct member_part v = {.p = "1.5", .len = 3};
	int64_t n;

	(void)state;
	assert_true(member_number(&v, 3, &n));
	assert_int_equal(n, 1500);
	v = (struct member_part){.p = "\"2\"", .len = 3};
	assert_true(member_number(&v, 3, &n));
	assert_int_equal(n, 2000);
	assert_true(member_is(&v, "2"));
	assert_false(member_is(&v, "22"));
	v = (struct member_part){.p = "null", .len = 4};
	assert_false(member_number(&v, 3, &n));
	assert_false(member_is(&v, "null"));
	v.p = NULL;
	assert_false(member_number(&v, 3, &n));
	assert_false(member_is(&v, ""));
}

/* Row i of a file of this text: what eventtext_read() says, and the text. */
static int read_row(const char *text, uint32_t i, size_t most, char *ret, size_t size)
{
	struct trace_options o = {0};
	struct err e = {0};
	struct trace *t;
	struct buf out;
	int rc;

	assert_int_equal(file_write_atomic(AT_FDCWD, in, text, strlen(text), 0600), 0);
	if (trace_read(in, &o, &t, &e))
		fail_msg("%s: %s", text, e.text);
	assert_true(i < trace_rows(t));
	buf_init(&out, most);
	rc = eventtext_read(t, trace_block(t, 0), i, &out, &e);
	assert_true(rc || out.len < size);
	if (!rc)
		memcpy(ret, buf_str(&out), out.len + 1);
	buf_done(&out);
	trace_free(t);
	return rc;
}

static void check_row(const char *text, uint32_t i, const char *want)
{
	char got[512];

	assert_int_equal(read_row(text, i, 4096, got, sizeof(got)), 0);
	assert_string_equal(got, want);
}

static void test_found(void **state)
{
	static const char *const same =
		TOP(AT("1", ",\"args\":{\"k\":1}") "," AT("1", ",\"args\":{\"k\":2}") "," AT(
			"2", ",\"args\":{\"big\":12345678901234567890}"));

	(void)state;
	/* Two of equal times are told apart by their place. */
	check_row(same, 0, AT("1", ",\"args\":{\"k\":1}"));
	check_row(same, 1, AT("1", ",\"args\":{\"k\":2}"));
	check_row(same, 2, AT("2", ",\"args\":{\"big\":12345678901234567890}"));
	/* Events of other kinds count among the places. */
	check_row(TOP("{\"ph\":\"i\",\"name\":\"i\",\"ts\":1}," AT("1", "") "," AT("3", "")), 1,
		  AT("3", ""));
	/* Of a pair its begin. */
	check_row(
		TOP("{\"ph\":\"B\",\"name\":\"p\",\"pid\":1,\"tid\":2,\"ts\":4,\"args\":{\"q\":1}},"
		    "{\"ph\":\"E\",\"name\":\"p\",\"pid\":1,\"tid\":2,\"ts\":9}"),
		0, "{\"ph\":\"B\",\"name\":\"p\",\"pid\":1,\"tid\":2,\"ts\":4,\"args\":{\"q\":1}}");
}

/* As JSON to the letter, and behind an event that nothing could be made of. */
static void test_mended(void **state)
{
	(void)state;
	check_row(TOP(AT("1", "") "," AT("7", ",\"args\":{\"x\":NaN}")), 1,
		  AT("7", ",\"args\":{\"x\":\"NaN\"}"));
	check_row(TOP(AT("1", "") ",{\"ph\":\"X\",:,]}," AT("7", "")), 1, AT("7", ""));
	check_row("[" AT("1", "") "\"x\":{", 0, AT("1", ""));
	check_row("[" AT("1", "") "\"", 0, AT("1", ""));
}

/* Behind a lost event places are not sure: one of equal times is known by its name. */
static void test_among_equals(void **state)
{
	static const char *const lost = "{\"ph\":\"X\",\"name\":]]}}{{,\"ts\":1}";
	char text[1024], deep[512] = "";
	int i;

	(void)state;
	snprintf(text, sizeof(text), "[%s,%s,%s]", lost, NAMED("outer", "1"), NAMED("inner", "1"));
	check_row(text, 0, NAMED("outer", "1"));
	check_row(text, 1, NAMED("inner", "1"));
	/* The model keeps what is nested too deep to be mended; places stay. */
	for (i = 0; i < 70; i++)
		strcat(deep, "[");
	for (i = 0; i < 70; i++)
		strcat(deep, "]");
	snprintf(text, sizeof(text),
		 "[{\"ph\":\"X\",\"name\":\"d\",\"pid\":1,\"tid\":2,\"ts\":1,\"dur\":5,\"args\":{"
		 "\"x\":%s}},%s,%s]",
		 deep, NAMED("outer", "1"), NAMED("inner", "1"));
	check_row(text, 1, NAMED("outer", "1"));
	check_row(text, 2, NAMED("inner", "1"));
}

static void test_not_found(void **state)
{
	struct trace_options o = {0};
	struct err e = {0};
	struct trace *t;
	struct buf out;
	char got[512];

	(void)state;
	assert_int_equal(read_row(TOP(AT("1", "")), 0, 16, got, sizeof(got)), -EFBIG);
	/* The file is another one by now, then none. */
	assert_int_equal(
		file_write_atomic(AT_FDCWD, in, TOP(AT("1", "")), strlen(TOP(AT("1", ""))), 0600),
		0);
	assert_int_equal(trace_read(in, &o, &t, &e), 0);
	assert_int_equal(
		file_write_atomic(AT_FDCWD, in, TOP(AT("2", "")), strlen(TOP(AT("2", ""))), 0600),
		0);
	buf_init(&out, 4096);
	assert_int_equal(eventtext_read(t, trace_block(t, 0), 0, &out, &e), -ENOENT);
	unlink(in);
	assert_int_equal(eventtext_read(t, trace_block(t, 0), 0, &out, &e), -ESPIPE);
	assert_int_equal(out.len, 0);
	trace_free(t);
	buf_done(&out);
}

static int make_dir(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(in, sizeof(in), "%s/t.json", dir);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	unlink(in);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members),   cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_found),     cmocka_unit_test(test_mended),
		cmocka_unit_test(test_not_found), cmocka_unit_test(test_among_equals),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
