/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_lists.c - what a reader lists: processes, series, events and attributes of
 * several hosts, with what is in the tail, and files that cannot be read.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include <cmocka.h>

#include "storetest.h"

/* ---- lists ----------------------------------------------------------------- */

struct lists {
	char text[2000];
};

static void add(struct lists *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct lists *l, const char *fmt, ...)
{
	size_t n = strlen(l->text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(l->text + n, sizeof(l->text) - n, fmt, ap);
	va_end(ap);
}

static int list_process(void *arg, const struct store_process *p)
{
	add(arg, "%s/%u pid %d rank %d %s stored %d lost %d %d %d refused %d\n", p->host_name,
	    p->id, (int)p->pid, (int)p->rank, p->role, (int)p->stored, (int)p->overwritten,
	    (int)p->broken, (int)p->dropped, (int)p->refused);
	return 0;
}

static int list_series(void *arg, const struct store_series *s)
{
	add(arg, "%s/%u %s of %u rank %d unit %s kind %d count %d\n", s->host_name, s->id, s->name,
	    s->process, (int)s->rank, s->unit, s->kind, (int)s->count);
	return 0;
}

static int list_event(void *arg, const struct store_event *e)
{
	add(arg, "%u/%u %d %d %d %s %s %s\n", e->host, e->process, (int)e->time_ns,
	    e->step == SINK_STEP_NONE ? -1 : (int)e->step, e->severity, e->kind, e->text, e->attrs);
	return 0;
}

static int list_attr(void *arg, unsigned host, uint32_t process, const char *key, const char *value)
{
	add(arg, "%u/%u %s=%s\n", host, process, key, value);
	return 0;
}

static void push_host(const char *dir, const char *host, int more)
{
	const struct store_options o = {.dir = dir, .host = host};
	const struct sink_event ev = {.process = 1,
				      .time_ns = 5 + more,
				      .step = SINK_STEP_NONE,
				      .severity = 1,
				      .kind = "k",
				      .text = "t",
				      .attrs = "{}"};
	struct sink_position pos = {.ring = {1},
				    .process = 1,
				    .stored = 10,
				    .overwritten = 1,
				    .broken = 2,
				    .dropped = 3};
	struct store *s = NULL;
	struct err e = {0};
	struct sink *k;
	uint32_t id;
	int i;

	assert_int_equal(store_open(&o, &e, &s), 0);
	k = store_sink(s);
	id = storetest_series(s, storetest_process(s, 1), "loss", SINK_GAUGE);
	for (i = 0; i < 3 + more; i++)
		storetest_push(s, id, i, i, i);
	k->ops->event(k, &ev);
	k->ops->attr(k, 1, "opt", host);
	k->ops->position(k, &pos);
	storetest_commit(s);
	storetest_fold(s);
	pos.lane = 1;
	k->ops->position(k, &pos);
	pos.lane = 0;
	pos.stored = 100; /* the newest position of lane 0 counts */
	k->ops->position(k, &pos);
	storetest_push(s, id, i, i, i);
	storetest_commit(s);
	store_close(s, &e);
}

static void test_lists_of_two_hosts(void **state)
{
	struct lists l = {""};
	struct store_reader *r;
	struct err e = {0};

	push_host(*state, "beta", 1);
	push_host(*state, "alpha", 0);
	r = storetest_reader(*state);
	assert_int_equal(store_reader_processes(r, list_process, &l, &e), 0);
	assert_int_equal(store_reader_series(r, list_series, &l, &e), 0);
	assert_int_equal(store_reader_events(r, list_event, &l, &e), 0);
	assert_int_equal(store_reader_attrs(r, list_attr, &l, &e), 0);
	assert_string_equal(l.text,
			    "alpha/1 pid 101 rank 1 trainer stored 110 lost 2 4 6 refused 0\n"
			    "beta/1 pid 101 rank 1 trainer stored 110 lost 2 4 6 refused 0\n"
			    "alpha/1 loss of 1 rank 1 unit 1 kind 1 count 4\n"
			    "beta/1 loss of 1 rank 1 unit 1 kind 1 count 5\n"
			    "0/1 5 -1 1 k t {}\n"
			    "1/1 6 -1 1 k t {}\n"
			    "0/1 opt=alpha\n"
			    "1/1 opt=beta\n");
	store_reader_close(r);
}

static int stop_process(void *arg, const struct store_process *p)
{
	(void)arg;
	(void)p;
	return 5;
}

static void test_lists_see_the_tail(void **state)
{
	struct store *s = storetest_open(*state);
	uint32_t p = storetest_process(s, 9), id = storetest_series(s, p, "loss", SINK_GAUGE);
	const struct sink_position pos = {.ring = {9}, .process = p, .stored = 8};
	struct lists l = {""};
	struct store_reader *r;
	struct err e = {0};

	storetest_push(s, id, 1, 1, 1);
	store_sink(s)->ops->position(store_sink(s), &pos);
	storetest_commit(s);
	r = storetest_reader(*state);
	assert_int_equal(store_reader_processes(r, list_process, &l, &e), 0);
	assert_int_equal(store_reader_series(r, list_series, &l, &e), 0);
	assert_string_equal(l.text, "h/1 pid 109 rank 9 trainer stored 8 lost 0 0 0 refused 0\n"
				    "h/1 loss of 1 rank 9 unit 1 kind 1 count 1\n");
	assert_int_equal(store_reader_processes(r, stop_process, NULL, &e), 5);
	store_reader_close(r);
	storetest_close(s);
}

/* ---- files that are not as they should be ---------------------------------------- */

static void write_file(const char *dir, const char *name, const char *text)
{
	char *path = storetest_path(dir, name);
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	free(path);
}

static void test_unreadable_files_are_told(void **state)
{
	struct store_reader *r = NULL;
	struct err e = {0};

	assert_int_equal(store_reader_open(*state, &e, &r), -ENOENT);
	assert_non_null(strstr(e.text, *state));
	err_clear(&e);
	write_file(*state, "bad.db", "this is no database, it is only some text, quite short");
	assert_int_equal(store_reader_open(*state, &e, &r), -EUCLEAN);
	assert_non_null(strstr(e.text, "bad.db"));
	push_host(*state, "good", 0);
	write_file(*state, "good.db.corrupt-1", "set aside");
	r = storetest_reader(*state);
	assert_non_null(strstr(store_reader_warning(r), "bad.db"));
	assert_null(strstr(store_reader_warning(r), "good"));
	store_reader_close(r);
	err_clear(&e);
	assert_int_equal(store_reader_open("/nonexistent/run", &e, &r), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_lists_of_two_hosts, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_lists_see_the_tail, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_unreadable_files_are_told, storetest_setup,
						storetest_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
