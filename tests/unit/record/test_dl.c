/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared library: loaded, "unloaded" and still called, a second copy beside
 * the one in the program; and the ways in which a process ends.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared {
	struct lapse_stats stats;
	int at_exit;
};

static struct shared *sh;

/* The library by its functions' addresses. */
static struct {
	void *handle;
	int (*open)(const struct lapse_options *opt);
	void (*close)(void);
	struct lapse_metric (*gauge)(const char *name, const char *unit, const char *help,
				     const char *const *labels);
	void (*set)(struct lapse_metric gauge, double value);
	void (*stats)(struct lapse_stats *out);
} dl;

static void *dl_find(const char *name)
{
	void *p = dlsym(dl.handle, name);

	CHECK(p != NULL);
	return p;
}

static void dl_load(void)
{
	dl.handle = dlopen(LIBLAPSE_SHARED, RTLD_NOW | RTLD_LOCAL);
	CHECK(dl.handle != NULL);
	*(void **)&dl.open = dl_find("lapse_open");
	*(void **)&dl.close = dl_find("lapse_close");
	*(void **)&dl.gauge = dl_find("lapse_gauge");
	*(void **)&dl.set = dl_find("lapse_set");
	*(void **)&dl.stats = dl_find("lapse_stats");
	CHECK(dl.open != lapse_open);
}

/* ---- loaded and unloaded ------------------------------------------------------- */

static void *dl_thread(void *arg)
{
	dl.set(*(struct lapse_metric *)arg, 2);
	CHECK(dlclose(dl.handle) == 0);
	dl.set(*(struct lapse_metric *)arg, 3);
	return NULL;
}

static void dlclose_child(void *arg)
{
	struct lapse_metric g;
	pthread_t thread;

	(void)arg;
	dl_load();
	CHECK(dl.open(NULL) == 0);
	g = dl.gauge("g", NULL, NULL, NULL);
	dl.set(g, 1);
	/* The last to use it; its lane is given back after that. */
	CHECK(pthread_create(&thread, NULL, dl_thread, &g) == 0);
	pthread_join(thread, NULL);
	dl.set(g, 4);
	dl.stats(&sh->stats);
	dl.close();
	dl.set(g, 5);
	CHECK(dl.open(NULL) == 0);
	dl.set(g, 6);
	CHECK(!lapse_is_open()); /* ours is another copy */
}

static void test_dlclose(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	rig_play(&rig, &t, dlclose_child);
	assert_int_equal(t.n, 2);
	assert_int_equal(sh->stats.accepted, 4);
	assert_int_equal(tape_records(&t.a[0]), 4);
	assert_true(tape_at(&t.a[0], 1)->value == 4); /* the main thread's lane */
	assert_true(tape_at(&t.a[0], 3)->value == 3);
	assert_true(tape_at(&t.a[1], 0)->value == 6);
	assert_int_equal(t.a[0].reader.ctl->dropped_closed, 1);
	rig_play_done(&rig, &t);
}

/* ---- two copies ------------------------------------------------------------------- */

static void copies_child(void *arg)
{
	struct lapse_metric mine, theirs;

	(void)arg;
	dl_load();
	CHECK(lapse_open(NULL) == 0);
	CHECK(dl.open(NULL) == 0);
	mine = lapse_gauge("mine", NULL, NULL, NULL);
	theirs = dl.gauge("theirs", NULL, NULL, NULL);
	CHECK(mine.id == 1 && theirs.id == 1);
	lapse_set(mine, 1);
	dl.set(theirs, 2);
	lapse_step_begin(9); /* of the process, whoever says it */
	dl.set(theirs, 3);
	lapse_set(mine, 4);
	lapse_close();
	dl.set(theirs, 5); /* the other one goes on */
	lapse_set(mine, 6);
	dl.stats(&sh->stats);
	_exit(0);
}

static void test_copies(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	rig_play(&rig, &t, copies_child);
	assert_int_equal(t.n, 2);
	assert_int_equal(rig_count_files(&rig, ".ctl"), 1);
	assert_string_equal(t.a[0].reader.ring.ctl, t.a[1].reader.ring.ctl);
	assert_string_equal(t.a[0].defs[0].name, "mine");
	assert_string_equal(t.a[1].defs[0].name, "theirs");
	assert_int_equal(tape_records(&t.a[0]), 2);
	assert_int_equal(tape_records(&t.a[1]), 3);
	assert_int_equal(tape_at(&t.a[1], 1)->step, 9);
	assert_true(tape_at(&t.a[1], 2)->value == 5);
	assert_int_equal(t.a[0].reader.ring.state, WIRE_STATE_CLOSED);
	assert_int_equal(t.a[1].reader.ring.state, WIRE_STATE_OPEN);
	assert_int_equal(t.a[0].reader.ctl->dropped_closed, 1);
	rig_play_done(&rig, &t);
}

/* Both open at once: one makes the control page, the other finds it. */
static void *opens_ours(void *arg)
{
	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	return NULL;
}

static void race_child(void *arg)
{
	pthread_t thread;

	(void)arg;
	dl_load();
	CHECK(pthread_create(&thread, NULL, opens_ours, NULL) == 0);
	CHECK(dl.open(NULL) == 0);
	pthread_join(thread, NULL);
}

static void test_copies_race(void **state)
{
	struct rig rig;
	int i;

	(void)state;
	rig_make(&rig);
	for (i = 0; i < 20; i++)
		rig_run(race_child, NULL);
	assert_int_equal(rig_count_files(&rig, ".ctl"), 20);
	assert_int_equal(rig_count_files(&rig, ".ring"), 40);
	assert_int_equal(rig_count_files(&rig, ".tmp"), 0);
	rig_done(&rig);
}

/* ---- how a process ends -------------------------------------------------------------- */

static struct lapse_metric late;

/* Registered before the library's handler, so it runs after it. */
static void records_at_exit(void)
{
	lapse_set(late, 3);
	lapse_stats(&sh->stats);
	sh->at_exit = 1 + lapse_is_open();
}

/* Registered after it: runs first, and its record counts. */
static void records_before_exit(void)
{
	lapse_set(late, 2);
}

static void exit_child(void *arg)
{
	(void)arg;
	atexit(records_at_exit);
	CHECK(lapse_open(NULL) == 0);
	atexit(records_before_exit);
	late = lapse_gauge("late", NULL, NULL, NULL);
	lapse_set(late, 1);
	exit(0);
}

static void test_exit(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	rig_play(&rig, &t, exit_child);
	assert_int_equal(t.n, 1);
	assert_int_equal(tape_records(&t.a[0]), 2);
	assert_true(tape_at(&t.a[0], 1)->value == 2);
	assert_int_equal(sh->at_exit, 1);
	assert_int_equal(sh->stats.attempts, 3);
	assert_int_equal(sh->stats.accepted, 2);
	assert_int_equal(t.a[0].reader.ring.state, WIRE_STATE_CLOSED);
	assert_int_equal(t.a[0].reader.ctl->state, WIRE_STATE_CLOSED);
	assert_int_equal(t.a[0].reader.ctl->dropped_closed, 1);
	rig_play_done(&rig, &t);
}

static void abrupt_child(void *arg)
{
	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	lapse_set(lapse_gauge("g", NULL, NULL, NULL), 1);
	_exit(0);
}

static void test_abrupt(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	rig_play(&rig, &t, abrupt_child);
	assert_int_equal(tape_records(&t.a[0]), 1);
	assert_int_equal(t.a[0].reader.ring.state, WIRE_STATE_OPEN);
	assert_int_equal(t.a[0].reader.ctl->state, WIRE_STATE_OPEN);
	rig_play_done(&rig, &t);
}

/* Killed in the middle of recording: whole records, and nothing else. */
static void killed_child(void *arg)
{
	struct lapse_value v[11];
	int *word = arg;
	size_t i;
	double n;

	CHECK(lapse_open(NULL) == 0);
	for (i = 0; i < 11; i++)
		v[i].metric = lapse_gauge("g", NULL, NULL, NULL);
	for (n = 0;; n++) {
		for (i = 0; i < 11; i++)
			v[i].value = n;
		lapse_log(v, 11);
		if (n == 20000)
			rig_set(word, 1);
	}
}

static void test_killed(void **state)
{
	int *word = rig_share(sizeof(*word)), status, i;
	const struct wire_rec *r;
	struct wire_value v;
	double last = -1;
	struct rig rig;
	struct tapes t;
	pid_t pid;
	size_t k;

	(void)state;
	rig_make(&rig);
	pid = rig_start(killed_child, word);
	rig_until(word, 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	tapes_read(&rig, &t);
	for (k = 0; k < tape_records(&t.a[0]); k++) {
		r = t.a[0].items[t.a[0].n - tape_records(&t.a[0]) + k].r;
		assert_int_equal(r->type, WIRE_FRAME);
		for (i = 0; i < 11; i++) {
			memcpy(&v, (const char *)(r + 1) + (size_t)i * sizeof(v), sizeof(v));
			assert_true(last < 0 || v.value == (i ? last : last + 1));
			last = v.value;
		}
	}
	assert_true(last >= 20000);
	assert_int_equal(t.a[0].reader.ring.state, WIRE_STATE_OPEN);
	rig_play_done(&rig, &t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dlclose),     cmocka_unit_test(test_copies),
		cmocka_unit_test(test_copies_race), cmocka_unit_test(test_exit),
		cmocka_unit_test(test_abrupt),      cmocka_unit_test(test_killed),
	};

	sh = rig_share(sizeof(*sh));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
