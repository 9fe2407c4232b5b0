/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells: what text, bars and a small chart come to. Expected rows are written by hand.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <string.h>

#include "cli/topchart.h"
#include "cli/topgrid.h"

/* All rows of the grid as text. */
static const char *rows(const struct topgrid *g)
{
	static char text[65536];
	struct buf b;

	buf_init(&b, sizeof(text) - 1);
	topgrid_print(g, &b, false);
	memcpy(text, buf_str(&b), b.len + 1);
	buf_done(&b);
	return text;
}

static void test_text_is_cut(void **state)
{
	struct topgrid g;

	(void)state;
	topgrid_init(&g, 10, 2, true);
	assert_int_equal(topgrid_text(&g, 0, 0, 10, TOPGRID_PLAIN, "0123456789"), 10);
	assert_int_equal(topgrid_text(&g, 2, 1, 4, TOPGRID_PLAIN, "abcdef"), 4);
	assert_string_equal(rows(&g), "0123456789\n  abc~\n");
	topgrid_clear(&g);
	/* The grid's own edge cuts as well; outside nothing happens. */
	assert_int_equal(topgrid_text(&g, 7, 0, 100, TOPGRID_PLAIN, "abcdef"), 3);
	assert_int_equal(topgrid_right(&g, 0, 1, 8, TOPGRID_PLAIN, "abc"), 3);
	topgrid_text(&g, 0, 2, 5, TOPGRID_PLAIN, "below");
	topgrid_text(&g, -3, 0, 5, TOPGRID_PLAIN, "left");
	assert_string_equal(rows(&g), "t      ab~\n     abc\n");
	topgrid_done(&g);
}

static void test_foreign_text(void **state)
{
	struct topgrid g;

	(void)state;
	topgrid_init(&g, 12, 4, true);
	topgrid_text(&g, 0, 0, 12, TOPGRID_PLAIN, "a\033[31m\tb\x7f");
	/* Bytes that are no UTF-8; a mark that turns the direction of writing. */
	topgrid_text(&g, 0, 1, 12, TOPGRID_PLAIN, "x\xff\xc3y\u202ez");
	/* Wide characters take two columns; half of one is never shown. */
	assert_int_equal(topgrid_text(&g, 0, 2, 5, TOPGRID_PLAIN, "\u6f22\u5b57\u6f22"), 4);
	topgrid_text(&g, 0, 3, 12, TOPGRID_PLAIN, "\u6f22\u5b57");
	topgrid_put(&g, 1, 3, TOPGRID_PLAIN, 'v', 'v');
	assert_string_equal(rows(&g), "a?[31m b?\nx?"
				      "?y?z\n\u6f22 ~\n v\u5b57\n");
	topgrid_done(&g);

	topgrid_init(&g, 12, 1, false);
	topgrid_text(&g, 0, 0, 12, TOPGRID_PLAIN, "m\u00fc\u6f22!");
	assert_string_equal(rows(&g), "m?"
				      "?!\n");
	topgrid_done(&g);
}

static void test_bar(void **state)
{
	struct topgrid g;

	(void)state;
	topgrid_init(&g, 4, 4, true);
	topgrid_bar(&g, 0, 0, 4, 0.5, TOPGRID_PLAIN);
	topgrid_bar(&g, 0, 1, 4, 0.28125, TOPGRID_PLAIN); /* one cell and an eighth */
	topgrid_bar(&g, 0, 2, 4, 7, TOPGRID_PLAIN);
	topgrid_bar(&g, 0, 3, 4, NAN, TOPGRID_PLAIN);
	assert_string_equal(rows(&g), "\u2588\u2588\u00b7\u00b7\n\u2588\u258f\u00b7\u00b7\n"
				      "\u2588\u2588\u2588\u2588\n\u00b7\u00b7\u00b7\u00b7\n");
	assert_int_equal(topgrid_at(&g, 0, 0)->style, TOPGRID_LOW);
	assert_int_equal(topgrid_at(&g, 0, 2)->style, TOPGRID_HIGH);
	topgrid_done(&g);
	topgrid_init(&g, 4, 1, false);
	topgrid_bar(&g, 0, 0, 4, 0.5, TOPGRID_PLAIN);
	assert_string_equal(rows(&g), "||..\n");
	topgrid_done(&g);
}

static void test_colors(void **state)
{
	struct topgrid g;
	struct buf b;

	(void)state;
	topgrid_init(&g, 6, 1, true);
	topgrid_text(&g, 0, 0, 6, TOPGRID_BAD, "no");
	topgrid_text(&g, 3, 0, 3, TOPGRID_PLAIN, "x");
	buf_init(&b, 4096);
	topgrid_print(&g, &b, true);
	assert_string_equal(buf_str(&b), "\033[0;1;31mno\033[0m x\n");
	buf_done(&b);
	topgrid_done(&g);
}

static void test_sizes(void **state)
{
	struct topgrid g;

	(void)state;
	topgrid_init(&g, -1, 5000, true);
	assert_int_equal(g.w, 0);
	assert_int_equal(g.h, TOPGRID_SIDE_MAX);
	assert_null(topgrid_at(&g, 0, 0));
	topgrid_done(&g);
}

/* A line from 0 to 8 over nine points: in ASCII, two dots to a cell. */
static void test_chart(void **state)
{
	struct topgrid_rect r = {0, 0, 18, 5};
	struct topchart c = {.title = "loss", .labels = "", .note = "", .unit = "1", .n = 1};
	struct store_point p = {0};
	struct toptrace t;
	struct topgrid g;
	int i;

	(void)state;
	toptrace_init(&t, false);
	for (i = 0; i <= 8; i++) {
		p = (struct store_point){.time_ns = i, .step = i, .value = i};
		toptrace_add(&t, (uint64_t)i, &p);
	}
	c.lines[0] = &t;
	c.axis = (struct toptrace_axis){.by_step = true, .from = 0, .to = 8};
	topgrid_init(&g, 18, 5, false);
	topchart_draw(&g, &r, &c);
	/* 18 columns, 6 dots from above: row 5 - value * 5 / 8 at column value * 17 / 8, each
	 * rounded: (0,5) (2,4) (4,4) (6,3) (9,3) (11,2) (13,1) (15,1) (17,0), and what lies
	 * between two of them. */
	assert_string_equal(rows(&g), "loss             8\n"
				      "            ....''\n"
				      "     .....''\n"
				      ".''''\n"
				      "0                8\n");
	topgrid_done(&g);
	toptrace_done(&t);
}

static void test_values(void **state)
{
	char out[FMT_MAX];

	(void)state;
	assert_string_equal(topchart_value(out, 1.84791, "nat"), "1.848");
	assert_string_equal(topchart_value(out, 1234567, "1"), "1.23 M");
	assert_string_equal(topchart_value(out, 1536, "By"), "1.50 KiB");
	assert_string_equal(topchart_value(out, 1536, "By/s"), "1.50 KiB/s");
	assert_string_equal(topchart_value(out, 95.9e6, "ns"), "95.9 ms");
	assert_string_equal(topchart_value(out, NAN, "ns"), "NaN");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text_is_cut), cmocka_unit_test(test_foreign_text),
		cmocka_unit_test(test_bar),         cmocka_unit_test(test_colors),
		cmocka_unit_test(test_sizes),       cmocka_unit_test(test_chart),
		cmocka_unit_test(test_values),
	};

	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
