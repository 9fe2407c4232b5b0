/* SPDX-License-Identifier: Apache-2.0
 *
 * test_tags.c - tags set, added and removed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "report/tags.h"

static void changes(void **state)
{
	static const struct {
		const char *tags, *how, *want;
	} rows[] = {
		{"a,b", "c,d", "c,d"},
		{"a,b", "", ""},
		{"a,b", "+c", "a,b,c"},
		{"a,b", "-a", "b"},
		{"a,b", "+c,-b", "a,c"},
		{"a,b", "+a,-nosuch", "a,b"},
		{"", "+a", "a"},
		{"a, b ,,c", "+d", "a,b,c,d"},
		{"a", " x y , z,z", "x y,z"},
		{"a,ab,abc", "-ab", "a,abc"},
		{"a", "-a", ""},
	};
	char out[64], why[128];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(tags_change(rows[i].tags, rows[i].how, out, sizeof(out), why), 0);
		assert_string_equal(out, rows[i].want);
	}
}

static void refusals(void **state)
{
	char out[8], why[128];

	(void)state;
	assert_int_equal(tags_change("", "+a,b", out, sizeof(out), why), -EINVAL);
	assert_non_null(strstr(why, "\"b\""));
	assert_int_equal(tags_change("", "a,+b", out, sizeof(out), why), -EINVAL);
	assert_int_equal(tags_change("", "12345678", out, sizeof(out), why), -ENOSPC);
	assert_int_equal(tags_change("", "123,4567", out, sizeof(out), why), -ENOSPC);
	assert_int_equal(tags_change("", "123,456", out, sizeof(out), why), 0);
	assert_string_equal(out, "123,456");
}

static void membership(void **state)
{
	(void)state;
	assert_true(tags_has("a,bc", "bc"));
	assert_true(tags_has(" a , bc", "a"));
	assert_false(tags_has("a,bc", "b"));
	assert_false(tags_has("", "b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changes),
		cmocka_unit_test(refusals),
		cmocka_unit_test(membership),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
