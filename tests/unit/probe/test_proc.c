/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsers of /proc texts: what kernels write, and what they do not.
 */
#include "probe/linux/proc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Fields 4 to 22 of a stat line: ppid 7, utime 11, stime 12, cutime 13, cstime
 * 14, 5 threads, start 99. */
#define REST "7 1 1 0 -1 4194304 1 2 3 4 11 12 13 14 20 0 5 0 99"

static int parse_stat(const char *text, struct proc_stat *s)
{
	return proc_parse_stat(text, strlen(text), s);
}

static void test_stat_fields(void **state)
{
	struct proc_stat s;

	(void)state;
	assert_int_equal(parse_stat("42 (python) S " REST " 1000 50\n", &s), 0);
	assert_int_equal(s.pid, 42);
	assert_int_equal(s.ppid, 7);
	assert_int_equal(s.state, 'S');
	assert_int_equal(s.own, 23);
	assert_int_equal(s.children, 27);
	assert_int_equal(s.threads, 5);
	assert_int_equal(s.start, 99);
}

static void test_stat_names(void **state)
{
	static const char *const names[] = {
		"",          " ",      ")",      "(",    "a b",
		") R 1 2 3", "x) S 1", "((()))", "a\nb", "kworker/u4:2-events_unbound",
	};
	struct proc_stat s;
	char text[256];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(text, sizeof(text), "42 (%s) Z " REST "\n", names[i]);
		assert_int_equal(parse_stat(text, &s), 0);
		assert_int_equal(s.state, 'Z');
		assert_int_equal(s.ppid, 7);
		assert_int_equal(s.start, 99);
	}
}

static void test_stat_malformed(void **state)
{
	static const char *const texts[] = {
		"",
		"42",
		"42 (python",
		"42 python) S " REST,
		"42 (python)",
		"42 (python) S",
		"42 (python) S ",
		"42 (python) S 7 1 1 0",
		"(python) S " REST,
		"99999999999 (python) S " REST,
		"99999999999999999999999999 (python) S " REST,
		"42 (python) SS " REST,
		"42 (python) S 7 1 1 0 -1 4194304 1 2 3 4 11 x 13 14 20 0 5 0 99",
		"42 (python) S 7 1 1 0 -1 0 0 0 0 0 18446744073709551615 1 0 0 20 0 5 0 99",
		"42 (python) S 7 1 1 0 -1 0 0 0 0 0 18446744073709551616 1 0 0 20 0 5 0 99",
	};
	struct proc_stat s = {.pid = -5};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(texts); i++)
		assert_int_equal(parse_stat(texts[i], &s), -EBADMSG);
	assert_int_equal(s.pid, -5);
}

/* Negative sums of children's time were printed by kernels after an overflow. */
static void test_stat_negative(void **state)
{
	struct proc_stat s;

	(void)state;
	assert_int_equal(parse_stat("1 (init) S 0 1 1 0 -1 0 0 0 0 0 5 6 -7 -8 20 0 1 0 3 0", &s),
			 0);
	assert_int_equal(s.own, 11);
	assert_int_equal(s.children, 0);
}

/* Every beginning of a good text is refused or gives the same, and nothing
 * behind its end is looked at. */
static void test_stat_cut(void **state)
{
	static const char text[] = "42 (a) b) S " REST;
	struct proc_stat s;
	char *copy;
	size_t len;

	(void)state;
	for (len = 0; len < sizeof(text) - 1; len++) {
		copy = malloc(len + 1);
		memcpy(copy, text, len);
		copy[len] = '9';
		/* A last field that is cut is a number all the same. */
		if (len + 1 < sizeof(text) - 1)
			assert_int_equal(proc_parse_stat(copy, len, &s), -EBADMSG);
		free(copy);
	}
}

static void test_statm(void **state)
{
	struct proc_statm m;

	(void)state;
	assert_int_equal(proc_parse_statm("765 437 410 5 0 123 0\n", 22, &m), 0);
	assert_int_equal(m.resident, 437);
	assert_int_equal(m.shared, 410);
	assert_int_equal(proc_parse_statm("765 437", 7, &m), -EBADMSG);
	assert_int_equal(proc_parse_statm("a b c", 5, &m), -EBADMSG);
	assert_int_equal(proc_parse_statm("", 0, &m), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stat_fields),    cmocka_unit_test(test_stat_names),
		cmocka_unit_test(test_stat_malformed), cmocka_unit_test(test_stat_negative),
		cmocka_unit_test(test_stat_cut),       cmocka_unit_test(test_statm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
