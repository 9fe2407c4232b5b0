/* SPDX-License-Identifier: Apache-2.0
 *
 * test_eventlist.c - pages of events that came in any order: none twice, none missing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/eventlist.h"

#define EVENTS 1000

/* Event i of EVENTS: two hosts, times that go up and down, four of one moment. */
static struct store_event event(unsigned i)
{
	static const char *const kinds[] = {"note", "checkpoint", "crash"};

	return (struct store_event){.host = i % 2,
				    .seq = 1,
				    .time_ns = (int64_t)(i * 7 % EVENTS / 4),
				    .step = i,
				    .severity = (int)(i % 4),
				    .kind = kinds[i % 3],
				    .text = i % 10 ? "text" : "Every Tenth",
				    .attrs = ""};
}

static void fill(struct eventlist *l, const struct eventlist_wish *wish)
{
	struct store_event e;
	unsigned i;

	eventlist_init(l, wish);
	for (i = 0; i < EVENTS; i++) {
		e = event(i);
		eventlist_add(l, &e);
	}
	eventlist_end(l);
}

static void test_pages(void **state)
{
	struct eventlist_wish wish = {.limit = 7};
	bool seen[EVENTS] = {false};
	int64_t before = INT64_MAX;
	unsigned n = 0, pages = 0;
	struct eventlist l;
	bool more;
	size_t i;

	(void)state;
	do {
		fill(&l, &wish);
		pages++;
		for (i = 0; i < l.n; i++) {
			assert_false(seen[l.rows[i].row.step]);
			seen[l.rows[i].row.step] = true;
			assert_true(l.rows[i].at.time_ns <= before);
			before = l.rows[i].at.time_ns;
			n++;
		}
		assert_int_equal(l.total, EVENTS);
		more = eventlist_has_more(&l);
		wish.has_after = true;
		wish.after = l.rows[l.n - 1].at;
		eventlist_done(&l);
	} while (more);
	assert_int_equal(n, EVENTS);
	assert_int_equal(pages, (EVENTS + 6) / 7);
}

static void test_choice(void **state)
{
	static const char *const kinds[] = {"crash", "note"};
	struct eventlist_wish wish = {.limit = EVENTS, .severity = 3};
	struct eventlist l;

	(void)state;
	fill(&l, &wish);
	assert_int_equal(l.total, EVENTS / 4);
	assert_int_equal(l.by_severity[0], EVENTS / 4);
	assert_int_equal(l.n_kinds, 3);
	assert_string_equal(l.kind[0].name, "note");
	assert_int_equal(l.kind[0].n, 334); /* i % 3 == 0 */
	eventlist_done(&l);
	wish = (struct eventlist_wish){.limit = EVENTS, .kinds = kinds, .n_kinds = 2};
	fill(&l, &wish);
	assert_int_equal(l.total, 334 + 333);
	eventlist_done(&l);
	wish = (struct eventlist_wish){.limit = EVENTS, .text = "tENTH"};
	fill(&l, &wish);
	assert_int_equal(l.total, EVENTS / 10);
	eventlist_done(&l);
	wish = (struct eventlist_wish){.limit = 1, .by_time = true, .time_min = 10, .time_max = 11};
	fill(&l, &wish);
	assert_int_equal(l.total, 8);
	assert_int_equal(l.n, 1);
	assert_true(eventlist_has_more(&l));
	eventlist_done(&l);
}

static void test_cursor_as_text(void **state)
{
	static const char *const bad[] = {"",       "1",      "1.2",   "1.2.",  "1.2.3.",
					  "1.2.3 ", " 1.2.3", "a.b.c", "1.2.x", "1..3"};
	struct eventlist_at at = {-1767323045123456789LL, 12, 34567}, again = {0};
	char text[64];
	size_t i;

	(void)state;
	eventlist_put_at(text, &at);
	assert_string_equal(text, "-1767323045123456789.12.34567");
	assert_true(eventlist_parse_at(text, &again));
	assert_true(again.time_ns == at.time_ns && again.host == at.host &&
		    again.number == at.number);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(eventlist_parse_at(bad[i], &again));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_cursor_as_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
