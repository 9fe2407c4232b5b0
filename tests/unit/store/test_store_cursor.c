/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_cursor.c - a cursor over several hosts, over a file that took the place of
 * another, and after a loss of power; its bytes.
 */
#include "storetest.h"

#include "base/mem.h"
#include "store/read_priv.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- a world that changes at random -------------------------------------------------- */

/* Points and events of a call, values in order of arrival. */
struct heard {
	double v[64];
	char host[64];
	size_t n, events, series;
	uint64_t lost;
};

static int heard_point(void *arg, const struct store_series *s, const struct store_point *p)
{
	struct heard *h = arg;

	assert_true(h->n < ARRAY_LEN(h->v));
	h->host[h->n] = s->host_name[0];
	h->v[h->n++] = p->value;
	return 0;
}

static int heard_series(void *arg, const struct store_series *s)
{
	(void)s;
	((struct heard *)arg)->series++;
	return 0;
}

static int heard_event(void *arg, const struct store_event *e)
{
	(void)e;
	((struct heard *)arg)->events++;
	return 0;
}

static struct heard hear(const char *dir, struct store_cursor *c)
{
	static const struct store_newer ops = {
		.point = heard_point, .series = heard_series, .event = heard_event};
	struct store_reader *r = NULL;
	struct heard h = {0};
	struct err e = {0};

	assert_int_equal(store_reader_open(dir, &e, &r), 0);
	assert_int_equal(store_reader_newer(r, c, &ops, &h, 0, &e), 0);
	store_reader_close(r);
	return h;
}

static struct store *one(const char *dir, const char *host, uint32_t *id)
{
	const struct store_options o = {.dir = dir, .host = host};
	struct store *s = NULL;
	struct err e = {0};

	if (store_open(&o, &e, &s) < 0)
		fail_msg("store_open: %s", e.text);
	*id = storetest_series(s, storetest_process(s, 1), "x", SINK_GAUGE);
	return s;
}

/* A host that joins later is given from its beginning, the others go on. */
static void test_several_hosts(void **state)
{
	struct store_cursor *c = store_cursor_new();
	char *dir = storetest_dir();
	struct store *a, *b;
	struct heard h;
	uint32_t x, y;

	(void)state;
	b = one(dir, "b", &x);
	storetest_push(b, x, 1, 1, 10);
	storetest_commit(b);
	h = hear(dir, c);
	assert_true(h.n == 1 && h.series == 1 && h.v[0] == 10);
	a = one(dir, "a", &y);
	storetest_push(a, y, 1, 1, 20);
	storetest_commit(a);
	storetest_push(b, x, 2, 2, 11);
	storetest_commit(b);
	h = hear(dir, c);
	assert_true(h.n == 2 && h.series == 1);
	assert_true(h.host[0] == 'a' && h.v[0] == 20 && h.host[1] == 'b' && h.v[1] == 11);
	storetest_close(a);
	storetest_close(b);
	h = hear(dir, c);
	assert_true(h.n == 0 && h.series == 0);
	store_cursor_free(c);
	storetest_remove(dir);
}

/* The file was corrupt and a new one begun: it is another one. */
static void test_a_file_that_took_the_place_of_a_corrupt_one(void **state)
{
	struct store_cursor *c = store_cursor_new();
	char *dir = storetest_dir(), *path = storetest_path(dir, "h.db");
	struct store *s;
	struct heard h;
	uint32_t x;
	FILE *f;
	int i;

	(void)state;
	s = one(dir, "h", &x);
	for (i = 0; i < 3; i++) {
		storetest_push(s, x, i, i, i);
		storetest_commit(s);
	}
	storetest_close(s);
	assert_int_equal(hear(dir, c).n, 3);
	f = fopen(path, "r+");
	assert_non_null(f);
	assert_int_equal(fwrite("not a database at all", 1, 21, f), 21);
	fclose(f);
	s = one(dir, "h", &x);
	for (i = 0; i < 5; i++) {
		storetest_push(s, x, i, i, 100 + i);
		storetest_commit(s);
	}
	h = hear(dir, c);
	assert_true(h.n == 5 && h.v[0] == 100 && h.series == 1 && h.events == 1);
	assert_int_equal(hear(dir, c).n, 0);
	storetest_close(s);
	free(path);
	store_cursor_free(c);
	storetest_remove(dir);
}

/* The newest commits, which had been given, are gone with the power: what is
 * committed afterwards is given, once. */
static void test_a_loss_of_power(void **state)
{
	struct store_cursor *c = store_cursor_new();
	char *dir = storetest_dir(), *other = storetest_dir(), *from, *to, *command;
	struct store *s;
	struct heard h;
	uint32_t x;
	int i;

	(void)state;
	s = one(dir, "h", &x);
	for (i = 0; i < 3; i++) {
		storetest_push(s, x, i, i, i);
		storetest_commit(s);
	}
	from = storetest_path(dir, "h.db");
	to = storetest_path(other, "h.db");
	command = xasprintf("cp %s %s && cp %s-wal %s-wal", from, to, from, to);
	assert_int_equal(system(command), 0);
	for (; i < 6; i++) {
		storetest_push(s, x, i, i, i);
		storetest_commit(s);
	}
	assert_int_equal(hear(dir, c).n, 6);
	storetest_close(s);
	assert_int_equal(hear(other, c).n, 0);
	s = one(other, "h", &x);
	for (i = 0; i < 2; i++) {
		storetest_push(s, x, 50 + i, 50 + i, 50 + i);
		storetest_commit(s);
	}
	h = hear(other, c);
	assert_true(h.n == 2 && h.v[0] == 50 && h.v[1] == 51);
	storetest_close(s);
	assert_int_equal(hear(other, c).n, 0);
	free(command);
	free(from);
	free(to);
	store_cursor_free(c);
	storetest_remove(dir);
	storetest_remove(other);
}

static void test_bytes_of_a_cursor(void **state)
{
	struct store_cursor *c = store_cursor_new(), *again = NULL;
	char *dir = storetest_dir();
	struct store *s;
	struct buf b;
	uint32_t x;
	size_t i;

	(void)state;
	s = one(dir, "h", &x);
	storetest_push(s, x, 1, 1, 1);
	storetest_commit(s);
	hear(dir, c);
	buf_init(&b, 1 << 20);
	assert_int_equal(store_cursor_save(c, &b), 0);
	assert_true(b.len < 64);
	/* Whatever is changed or cut off is seen. */
	for (i = 0; i < b.len; i++) {
		assert_int_equal(store_cursor_load(b.data, i, &again), -EUCLEAN);
		b.data[i] ^= 1;
		assert_int_equal(store_cursor_load(b.data, b.len, &again), -EUCLEAN);
		b.data[i] ^= 1;
	}
	assert_null(again);
	assert_int_equal(store_cursor_load(b.data, b.len, &again), 0);
	assert_int_equal(hear(dir, again).n, 0);
	store_cursor_free(again);
	buf_done(&b);
	buf_init(&b, 8);
	assert_int_equal(store_cursor_save(c, &b), -EFBIG);
	buf_done(&b);
	storetest_close(s);
	store_cursor_free(c);
	storetest_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_several_hosts),
		cmocka_unit_test(test_a_file_that_took_the_place_of_a_corrupt_one),
		cmocka_unit_test(test_a_loss_of_power),
		cmocka_unit_test(test_bytes_of_a_cursor),
	};

	return cmocka_run_group_tests_name("store_newer", tests, NULL, NULL);
}
