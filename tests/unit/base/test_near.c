/* SPDX-License-Identifier: Apache-2.0
 *
 * test_near.c - distances of words and names that are near to a word, by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/near.h"

static void test_distance(void **state)
{
	(void)state;
	assert_int_equal(near_distance("", ""), 0);
	assert_int_equal(near_distance("abc", ""), 3);
	assert_int_equal(near_distance("", "ab"), 2);
	assert_int_equal(near_distance("kitten", "sitting"), 3);
	assert_int_equal(near_distance("shwo", "show"), 1); /* neighbours swapped */
	assert_int_equal(near_distance("exprot", "export"), 1);
	assert_int_equal(near_distance("ca", "abc"), 3); /* alignment, not unrestricted (2) */
}

static const char *nearest(const char *word)
{
	static const char *const names[] = {"run", "ls", "show", "export", "report", "version"};
	struct near n = {0};
	size_t i;

	for (i = 0; i < ARRAY_LEN(names); i++)
		near_try(&n, word, names[i]);
	return n.best ? n.best : "";
}

static void test_nearest(void **state)
{
	(void)state;
	assert_string_equal(nearest("shwo"), "show");
	assert_string_equal(nearest("list"), "ls"); /* two letters left out */
	assert_string_equal(nearest("rn"), "run");
	assert_string_equal(nearest("exprt"), "export");
	assert_string_equal(nearest("vers"), "version"); /* its beginning */
	assert_string_equal(nearest("frobnicate"), "");
	assert_string_equal(nearest("x"), "");
	assert_string_equal(nearest(""), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_distance),
		cmocka_unit_test(test_nearest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
