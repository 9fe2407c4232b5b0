/* SPDX-License-Identifier: Apache-2.0
 *
 * test_table.c - aligned columns, shortening, leaving out, escape codes; what
 * is expected was drawn by hand.
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
#include "report/table.h"

static char printed[4096];

static const char *print(const struct table *t, const struct term *term, int indent)
{
	FILE *f = fmemopen(printed, sizeof(printed), "w");

	printed[0] = '\0'; /* nothing printed leaves the buffer as it was */
	table_print(t, term, f, indent);
	fclose(f);
	return printed;
}

static const struct table_column columns[] = {
	{"NAME", TABLE_ELIDE}, {"WHEN", TABLE_DROP}, {"N", TABLE_RIGHT}, {"X", 0}};

/* Two rows; the last column is empty in both. */
static struct table *fill(const char *name)
{
	struct table *t = table_new(columns, ARRAY_LEN(columns));

	table_cell(t, TERM_PLAIN, name);
	table_cell(t, TERM_PLAIN, "today");
	table_cell(t, TERM_RED, "5");
	table_cell(t, TERM_PLAIN, "");
	table_cell(t, TERM_PLAIN, "b");
	table_cell(t, TERM_PLAIN, NULL);
	table_cellf(t, TERM_PLAIN, "%d", 12345);
	table_cell(t, TERM_PLAIN, "");
	return t;
}

static void test_plain(void **state)
{
	const struct term file = {0};
	struct table *t = fill("grad/norm");

	(void)state;
	assert_int_equal(table_rows(t), 2);
	assert_string_equal(print(t, &file, 1), " NAME       WHEN       N\n"
						" grad/norm  today      5\n"
						" b                 12345\n");
	table_free(t);
}

static void test_width(void **state)
{
	const struct term exact = {.width = 23}, narrow = {.width = 22}, tiny = {.width = 17},
			  none = {.width = 5};
	struct table *t = fill("grad/norm");

	(void)state;
	/* 9 + 2 + 5 + 2 + 5 columns: as it is. */
	print(t, &exact, 0);
	assert_non_null(strstr(printed, "grad/norm  today      5\n"));
	/* One less: the name goes to 8: 3 characters, "..", 3 characters. */
	assert_string_equal(print(t, &narrow, 0), "NAME      WHEN       N\n"
						  "gra..orm  today      5\n"
						  "b                12345\n");
	/* The name may not go below 8, so WHEN goes; then 9 + 2 + 5 fit. */
	assert_string_equal(print(t, &tiny, 0), "NAME           N\n"
						"grad/norm      5\n"
						"b          12345\n");
	/* Too narrow for anything: nothing is lost but alignment with the edge. */
	assert_string_equal(print(t, &none, 0), "NAME          N\n"
						"gra..orm      5\n"
						"b         12345\n");
	table_free(t);
}

static void test_cut(void **state)
{
	static const struct table_column one[] = {{"", TABLE_CUT}};
	const struct term narrow = {.width = 10};
	struct table *t = table_new(one, 1);

	(void)state;
	table_cell(t, TERM_PLAIN, "out of memory at last");
	/* 8 characters and "..", no head line. */
	assert_string_equal(print(t, &narrow, 0), "out of m..\n");
	table_free(t);
}

static void test_color(void **state)
{
	const struct term color = {.color = true, .width = 80};
	struct table *t = fill("a");

	(void)state;
	print(t, &color, 0);
	assert_non_null(strstr(printed, "\033[2mNAME\033[0m"));
	assert_non_null(strstr(printed, "\033[31m5\033[0m\n"));
	/* Codes take no room: the plain row is aligned as ever. */
	assert_non_null(strstr(printed, "\nb            12345\n"));
	table_free(t);
}

static void test_foreign(void **state)
{
	const struct term file = {0};
	struct table *t;
	char *clean;

	(void)state;
	clean = term_clean("a\033[31m\nb\t\xff\xc2\x9b");
	assert_string_equal(clean, "a?[31m b ???");
	free(clean);
	clean = term_clean(NULL);
	assert_string_equal(clean, "");
	free(clean);
	t = fill("a\nb");
	print(t, &file, 0);
	assert_non_null(strstr(printed, "a b   today"));
	table_free(t);
}

static void test_characters(void **state)
{
	const struct term file = {0}, narrow = {.width = 23};
	struct table *t;

	(void)state;
	assert_int_equal(term_text_width("\xc3\xa4"), 1); /* a with dots */
	assert_int_equal(term_text_width("a\xff"), 2);
	assert_int_equal(term_text_width(""), 0);
	t = fill("\xc3\xa4\xc3\xb6");
	print(t, &file, 0);
	assert_non_null(strstr(printed, "\xc3\xa4\xc3\xb6    today      5\n"));
	table_free(t);
	/* 10 two-byte characters are cut between characters: 8 columns are not
	 * needed, 9 are: 4, "..", 3. */
	t = fill(
		"\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6");
	print(t, &narrow, 0);
	assert_non_null(strstr(printed,
			       "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4..\xc3\xb6\xc3\xb6\xc3\xb6  "
			       "today      5\n"));
	table_free(t);
}

static void test_empty(void **state)
{
	const struct term file = {0};
	struct table *t = table_new(columns, ARRAY_LEN(columns));

	(void)state;
	assert_string_equal(print(t, &file, 0), "");
	table_free(t);
	table_free(NULL);
}

/* A file is no terminal: no colour, no width, whatever the environment says. */
static void test_look(void **state)
{
	FILE *f = tmpfile();
	struct term term = {.color = true, .width = 1};

	(void)state;
	setenv("TERM", "xterm", 1);
	setenv("COLUMNS", "40", 1);
	unsetenv("NO_COLOR");
	term_look(&term, f);
	assert_false(term.color);
	assert_int_equal(term.width, 0);
	fclose(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),   cmocka_unit_test(test_width),
		cmocka_unit_test(test_cut),     cmocka_unit_test(test_color),
		cmocka_unit_test(test_foreign), cmocka_unit_test(test_characters),
		cmocka_unit_test(test_empty),   cmocka_unit_test(test_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
