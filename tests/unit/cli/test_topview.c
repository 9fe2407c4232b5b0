/* SPDX-License-Identifier: Apache-2.0
 *
 * What keys change, and which alerts fire after which events.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/topalerts.h"
#include "cli/topview.h"

static void type(struct topview *v, const char *text)
{
	for (; *text; text++)
		topview_key(v, (unsigned char)*text);
}

static void test_panes(void **state)
{
	struct topview v;

	(void)state;
	topview_init(&v);
	assert_int_equal(topview_key(&v, '3'), TOPVIEW_DRAW);
	assert_int_equal(v.focus, TOPVIEW_MACHINE);
	assert_false(v.is_large);
	topview_key(&v, '3');
	assert_true(v.is_large);
	topview_key(&v, '5'); /* another one, alone too */
	assert_int_equal(v.focus, TOPVIEW_EVENTS);
	assert_true(v.is_large);
	topview_key(&v, TOPVIEW_ESCAPE);
	assert_false(v.is_large);
	topview_key(&v, '\t');
	assert_int_equal(v.focus, TOPVIEW_TRAINING);
	topview_key(&v, TOPVIEW_BACK_TAB);
	assert_int_equal(v.focus, TOPVIEW_EVENTS);
	topview_key(&v, '6'); /* there is none */
	assert_int_equal(v.focus, TOPVIEW_EVENTS);
	assert_int_equal(topview_key(&v, 'q'), TOPVIEW_QUIT);
}

static void test_filter(void **state)
{
	struct topview v;

	(void)state;
	topview_init(&v);
	type(&v, "/val q");
	assert_true(v.is_typing);
	assert_string_equal(v.filter, "val q"); /* q is a letter here */
	topview_key(&v, 0xe4);
	topview_key(&v, TOPVIEW_BACKSPACE); /* a whole character */
	topview_key(&v, TOPVIEW_BACKSPACE);
	assert_string_equal(v.filter, "val ");
	topview_key(&v, '\r');
	assert_false(v.is_typing);
	type(&v, "/xx");
	topview_key(&v, 0x1b); /* as it was before */
	assert_string_equal(v.filter, "val ");
	topview_key(&v, 0x1b);
	assert_string_equal(v.filter, "");
	/* It never runs over. */
	topview_key(&v, '/');
	while (strlen(v.filter) < TOPVIEW_FILTER_MAX - 1)
		topview_key(&v, 'a');
	topview_key(&v, 'b');
	topview_key(&v, 0x1f600);
	assert_int_equal(strlen(v.filter), TOPVIEW_FILTER_MAX - 1);
}

static void test_range(void **state)
{
	struct topview v;
	int i;

	(void)state;
	topview_init(&v);
	assert_int_equal(topview_range_ns(&v), 0);
	assert_int_equal(topview_key(&v, '-'), TOPVIEW_DRAW); /* there is nothing longer */
	assert_int_equal(topview_key(&v, '+'), TOPVIEW_ASK);
	assert_string_equal(topview_range_name(&v), "7 days");
	for (i = 0; i < 20; i++)
		topview_key(&v, '+');
	assert_int_equal(topview_range_ns(&v), 60000000000LL);
}

static void test_scroll(void **state)
{
	struct topview v;

	(void)state;
	topview_init(&v);
	v.rows[TOPVIEW_TRAINING] = 10;
	v.page[TOPVIEW_TRAINING] = 4;
	topview_key(&v, TOPVIEW_DOWN);
	assert_int_equal(v.scroll[TOPVIEW_TRAINING], 1);
	topview_key(&v, TOPVIEW_PAGE_DOWN);
	assert_int_equal(v.scroll[TOPVIEW_TRAINING], 4);
	topview_key(&v, TOPVIEW_END);
	assert_int_equal(v.scroll[TOPVIEW_TRAINING], 6);
	topview_key(&v, TOPVIEW_DOWN);
	assert_int_equal(v.scroll[TOPVIEW_TRAINING], 6);
	topview_key(&v, TOPVIEW_HOME);
	topview_key(&v, TOPVIEW_UP);
	assert_int_equal(v.scroll[TOPVIEW_TRAINING], 0);
}

static void test_switches(void **state)
{
	const char *key;
	struct topview v;
	size_t i;

	(void)state;
	topview_init(&v);
	type(&v, "elxo s");
	assert_true(v.log && v.by_time && v.clip && v.paused);
	assert_true(topview_smooth(&v) == 0.6);
	assert_int_equal(v.sort, TOPVIEW_BY_MEMORY);
	type(&v, "eee");
	assert_true(topview_smooth(&v) == 0);
	v.hosts = 2;
	type(&v, "hh");
	assert_int_equal(v.host, 0);
	type(&v, "?l"); /* any key ends the help, and does nothing else */
	assert_false(v.help);
	assert_true(v.log);
	topview_key(&v, UINT32_MAX);
	for (i = 0; topview_help(i, &key); i++)
		assert_non_null(key);
	assert_true(i > 10);
}

static void tell(struct topalerts *a, const char *kind, const char *attrs)
{
	const struct store_event e = {
		.kind = kind, .attrs = attrs, .text = "GPU 0 is hot", .severity = 2, .time_ns = 5};

	topalerts_event(a, &e);
}

static void test_alerts(void **state)
{
	struct alerts_said said = {.is_silence = true, .rule = "gpu-hot", .until_ns = 100};
	struct topalerts a = {0};

	(void)state;
	tell(&a, "alert", "{\"alert\": \"1\", \"rule\": \"gpu-hot\", \"state\": \"firing\"}");
	tell(&a, "alert", "{\"alert\": \"1\", \"rule\": \"gpu-hot\", \"state\": \"firing\"}");
	tell(&a, "alert", "{\"alert\": \"2\", \"rule\": \"nan\", \"state\": \"firing\"}");
	tell(&a, "alert", "not JSON");
	tell(&a, "other", "{\"alert\": \"3\", \"state\": \"firing\"}");
	assert_int_equal(a.n, 2);
	assert_string_equal(a.all[0].rule, "gpu-hot");
	assert_string_equal(a.all[0].text, "GPU 0 is hot");
	topalerts_said(&a, &said);
	assert_int_equal(topalerts_loud(&a, 50), 1);
	assert_int_equal(topalerts_loud(&a, 100), 2);
	topalerts_unsaid(&a);
	assert_int_equal(topalerts_loud(&a, 50), 2);
	tell(&a, "alert",
	     "{\"alert\": \"1b\", \"rule\": \"gpu-hot\", \"state\": \"firing\","
	     " \"host\": \"b\", \"series\": \"t\", \"series_id\": 3}");
	said = (struct alerts_said){.is_silence = true,
				    .rule = "gpu-hot",
				    .series = "t",
				    .host = "a",
				    .series_id = 3,
				    .until_ns = 100};
	topalerts_said(&a, &said);
	assert_int_equal(topalerts_loud(&a, 50), 3);
	strcpy(said.host, "b");
	said.series_id = 4;
	topalerts_said(&a, &said);
	assert_int_equal(topalerts_loud(&a, 50), 3);
	said.series_id = 3;
	topalerts_said(&a, &said);
	assert_int_equal(topalerts_loud(&a, 50), 2);
	tell(&a, "alert", "{\"alert\": \"1b\", \"state\": \"resolved\"}");
	said = (struct alerts_said){.id = "2"};
	topalerts_said(&a, &said);
	assert_true(a.all[1].acknowledged && !a.all[0].acknowledged);
	tell(&a, "alert", "{\"alert\": \"1\", \"state\": \"resolved\"}");
	tell(&a, "alert", "{\"alert\": \"9\", \"state\": \"resolved\"}");
	assert_int_equal(a.n, 1);
	assert_string_equal(a.all[0].id, "2");
	topalerts_done(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_panes),    cmocka_unit_test(test_filter),
		cmocka_unit_test(test_range),    cmocka_unit_test(test_scroll),
		cmocka_unit_test(test_switches), cmocka_unit_test(test_alerts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
