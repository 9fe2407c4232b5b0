/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes by fork() at any moment and from any thread, children that never record, children
 * of children. Each records into a ring of its own or makes none; the parent's is untouched.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct shared {
	struct lapse_stats stats, child_stats;
	pid_t pids[8];
	int words[4];
	uint64_t sent;
};

static struct shared *sh;
static struct lapse_metric gauge;

static void open_ring(void)
{
	CHECK(lapse_open(NULL) == 0);
	gauge = lapse_gauge("g", NULL, NULL, NULL);
}

/* ---- fork ---------------------------------------------------------------------- */

static void plain_grandchild(void)
{
	CHECK(lapse_is_open());
	lapse_set(gauge, 20);
	lapse_step_begin(3);
	lapse_set(gauge, 21);
	CHECK(lapse_gauge("own", NULL, NULL, NULL).id == 3);
	lapse_set(lapse_gauge("own", NULL, NULL, NULL), 22);
	lapse_stats(&sh->child_stats);
	lapse_close();
}

static void plain_child_body(void)
{
	lapse_set(gauge, 10);
	CHECK(lapse_gauge("g", NULL, NULL, NULL).id == gauge.id);
	CHECK(lapse_gauge("mine", NULL, NULL, NULL).id == 2);
	sh->pids[1] = rig_in_child(plain_grandchild);
	lapse_set(gauge, 11);
	_exit(0); /* without closing */
}

static void plain_child(void *arg)
{
	struct lapse_options o = {.size = sizeof(o),
				  .name = "the run",
				  .has_rank = 1,
				  .rank = 3,
				  .local_rank = 1,
				  .world_size = 8};

	(void)arg;
	CHECK(lapse_open(&o) == 0);
	gauge = lapse_gauge("g", NULL, NULL, NULL);
	lapse_step_begin(77);
	lapse_epoch_begin(5);
	lapse_set(gauge, 1);
	sh->pids[0] = rig_in_child(plain_child_body);
	lapse_set(gauge, 2);
	lapse_stats(&sh->stats);
	lapse_close();
}

static void test_fork(void **state)
{
	struct rig rig;
	struct tapes t;
	struct tape *parent, *child, *grand;
	pid_t pid = rig_play(&rig, &t, plain_child);

	(void)state;
	assert_int_equal(t.n, 3);
	assert_int_equal(rig_count_files(&rig, ".ctl"), 3);
	parent = tapes_of(&t, pid);
	child = tapes_of(&t, sh->pids[0]);
	grand = tapes_of(&t, sh->pids[1]);
	assert_int_equal(tape_records(parent), 3);
	tape_assert_value(parent, 1, 1, 77);
	tape_assert_value(parent, 2, 2, 77);
	assert_int_equal(parent->n_defs, 1);
	assert_int_equal(parent->reader.ring.forked, 0);
	/* Handles hold, steps and epochs do not: those are the parent's. */
	assert_int_equal(tape_records(child), 2);
	tape_assert_value(child, 0, 10, WIRE_STEP_NONE);
	tape_assert_value(child, 1, 11, WIRE_STEP_NONE);
	assert_int_equal(child->n_defs, 2);
	assert_string_equal(child->defs[1].name, "mine");
	assert_int_equal(child->reader.ring.forked, 1);
	assert_int_equal(child->reader.ring.ppid, pid);
	assert_int_equal(child->reader.ring.state, WIRE_STATE_OPEN);
	assert_int_equal(child->reader.ctl->epoch, -1);
	assert_int_equal(child->reader.ctl->rank, 3);
	assert_int_equal(child->reader.ctl->local_rank, 1);
	assert_int_equal(child->reader.ctl->world_size, 8);
	assert_string_equal(child->reader.ring.run, parent->reader.ring.run);
	assert_string_equal(child->reader.ring.name, "the run");
	assert_in_range(child->reader.ring.file_bytes, 192 << 10, 512 << 10);
	assert_int_equal(tape_records(grand), 3);
	tape_assert_value(grand, 0, 20, WIRE_STEP_NONE);
	tape_assert_value(grand, 1, 21, 3);
	assert_string_equal(grand->defs[tape_at(grand, 2)->id - 1].name, "own");
	assert_int_equal(grand->reader.ring.ppid, sh->pids[0]);
	assert_int_equal(grand->reader.ring.state, WIRE_STATE_CLOSED);
	assert_string_equal(grand->reader.ring.run, parent->reader.ring.run);
	assert_int_equal(sh->stats.accepted, 3);
	assert_int_equal(sh->child_stats.accepted, 3);
	assert_int_equal(sh->child_stats.dropped, 0);
	assert_int_equal(sh->child_stats.definitions, 3);
	rig_play_done(&rig, &t);
}

/* ---- children that must make nothing ----------------------------------------------- */

static void silent(void)
{
	CHECK(lapse_is_open());
	CHECK(lapse_now() > 0);
	lapse_stats(&sh->child_stats);
	CHECK(sh->child_stats.attempts == 0);
}

/* Leaves as Python does: with the handlers of its parent. */
static void silent_exit(void)
{
	exit(0);
}

static void closes_first(void)
{
	lapse_close();
	CHECK(!lapse_is_open());
	lapse_set(gauge, 1);
	lapse_step_begin(1);
	lapse_gauge("new", NULL, NULL, NULL);
	lapse_stats(&sh->child_stats);
	CHECK(sh->child_stats.accepted == 0);
}

static void after_close(void)
{
	CHECK(!lapse_is_open());
	lapse_set(gauge, 1);
	lapse_stats(&sh->child_stats);
	CHECK(sh->child_stats.accepted == 0);
}

static void silent_child(void *arg)
{
	(void)arg;
	open_ring();
	lapse_set(gauge, 1);
	rig_in_child(silent);
	rig_in_child(silent_exit);
	rig_in_child(closes_first);
	lapse_close();
	rig_in_child(after_close);
	lapse_stats(&sh->stats);
	CHECK(sh->stats.attempts == 1);
}

static void test_silent(void **state)
{
	struct rig rig;
	struct tapes t;
	pid_t pid = rig_play(&rig, &t, silent_child);

	(void)state;
	assert_int_equal(t.n, 1);
	assert_int_equal(rig_count_files(&rig, ".ctl"), 1);
	assert_int_equal(rig_count_files(&rig, ".tmp"), 0);
	assert_int_equal(tapes_of(&t, pid)->reader.ring.state, WIRE_STATE_CLOSED);
	assert_int_equal(tape_records(&t.a[0]), 1);
	rig_play_done(&rig, &t);
}

/* A child whose folder has gone: nothing works, nothing breaks. */
static void folderless(void)
{
	lapse_set(gauge, 1);
	CHECK(!lapse_is_open());
	CHECK(lapse_error()[0] != '\0');
	CHECK(lapse_gauge("new", NULL, NULL, NULL).id == 2);
	CHECK(lapse_name("x").id == 3);
	lapse_step_begin(1);
	lapse_span_end(lapse_span_begin(lapse_name("x")));
	lapse_stats(&sh->child_stats);
	CHECK(sh->child_stats.accepted == 0);
	lapse_close();
}

static void folderless_child(void *arg)
{
	(void)arg;
	open_ring();
	lapse_set(gauge, 1);
	setenv("LAPSE_RENDEZVOUS", "/proc/self", 1);
	rig_in_child(folderless);
	lapse_set(gauge, 2);
}

static void test_folderless(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	rig_play(&rig, &t, folderless_child);
	assert_int_equal(t.n, 1);
	assert_int_equal(tape_records(&t.a[0]), 2);
	assert_int_equal(t.a[0].n_defs, 1);
	rig_play_done(&rig, &t);
}

/* A child that opens by itself, with options of its own: a worker with a rank. */
static void opens_itself(void)
{
	struct lapse_options o = {.size = sizeof(o),
				  .role = "rank",
				  .has_rank = 1,
				  .rank = 6,
				  .local_rank = -1,
				  .world_size = -1,
				  .lanes = 2};

	CHECK(lapse_open(&o) == 0);
	CHECK(lapse_open(NULL) == 0);
	lapse_set(gauge, 5);
}

/* Options that will not do: inert, until better ones come. */
static void opens_badly(void)
{
	struct lapse_options o = {.size = sizeof(o), .lanes = 1000};

	CHECK(lapse_open(&o) == -EINVAL);
	CHECK(!lapse_is_open());
	lapse_set(gauge, 6);
	lapse_stats(&sh->child_stats);
	CHECK(sh->child_stats.attempts == 0);
	CHECK(lapse_open(NULL) == 0);
	CHECK(lapse_is_open());
	lapse_set(gauge, 7);
}

/* The parent has closed: the child may open all the same. */
static void opens_late(void)
{
	CHECK(!lapse_is_open());
	CHECK(lapse_open(NULL) == 0);
	lapse_set(gauge, 8);
	lapse_stats(&sh->child_stats);
	CHECK(sh->child_stats.attempts == 1 && sh->child_stats.accepted == 1);
}

static void opens_child(void *arg)
{
	(void)arg;
	open_ring();
	sh->pids[0] = rig_in_child(opens_itself);
	sh->pids[1] = rig_in_child(opens_badly);
	lapse_close();
	sh->pids[2] = rig_in_child(opens_late);
}

static void test_opens_itself(void **state)
{
	struct rig rig;
	struct tapes t;
	struct tape *child;
	pid_t pid = rig_play(&rig, &t, opens_child);

	(void)state;
	assert_int_equal(t.n, 4);
	tape_assert_value(tapes_of(&t, sh->pids[1]), 0, 7, WIRE_STEP_NONE);
	tape_assert_value(tapes_of(&t, sh->pids[2]), 0, 8, WIRE_STEP_NONE);
	child = tapes_of(&t, sh->pids[0]);
	tape_assert_value(child, 0, 5, WIRE_STEP_NONE);
	assert_int_equal(child->reader.ctl->rank, 6);
	assert_int_equal(child->reader.ring.lanes, 2);
	assert_string_equal(child->reader.ring.role, "rank");
	assert_string_equal(child->reader.ring.run, tapes_of(&t, pid)->reader.ring.run);
	rig_play_done(&rig, &t);
}

/* ---- fork and threads ------------------------------------------------------------------ */

#define FORKS 25

static void *busy(void *arg)
{
	uint64_t i;

	(void)arg;
	for (i = 0; !__atomic_load_n(&sh->words[0], __ATOMIC_ACQUIRE); i++)
		lapse_set(gauge, (double)i);
	sh->sent = i;
	return NULL;
}

static void two_values(void)
{
	lapse_set(gauge, 1);
	lapse_set(gauge, 2);
}

static void busy_child(void *arg)
{
	pthread_t thread;
	int i;

	(void)arg;
	open_ring();
	CHECK(pthread_create(&thread, NULL, busy, NULL) == 0);
	for (i = 0; i < FORKS; i++)
		rig_in_child(two_values);
	rig_set(&sh->words[0], 1);
	pthread_join(thread, NULL);
	lapse_stats(&sh->stats);
	lapse_close();
}

static void test_fork_while_recording(void **state)
{
	struct rig rig;
	struct tapes t;
	struct tape *parent;
	pid_t pid = rig_play(&rig, &t, busy_child);
	double last = -1;
	size_t i;

	(void)state;
	assert_int_equal(t.n, 1 + FORKS);
	parent = tapes_of(&t, pid);
	assert_int_equal(sh->stats.accepted, sh->sent);
	/* Without an agent the end is kept; without a gap. */
	assert_int_equal(parent->reader.lane[0].overwritten + tape_records(parent), sh->sent);
	for (i = 0; i < parent->n; i++) {
		if (parent->items[i].r->type == WIRE_OWNER)
			continue;
		assert_true(last < 0 || parent->items[i].r->value == last + 1);
		last = parent->items[i].r->value;
	}
	assert_true(last == (double)(sh->sent - 1));
	for (i = 0; i < t.n; i++) {
		if (&t.a[i] == parent)
			continue;
		assert_int_equal(tape_records(&t.a[i]), 2);
		tape_assert_value(&t.a[i], 0, 1, WIRE_STEP_NONE);
		tape_assert_value(&t.a[i], 1, 2, WIRE_STEP_NONE);
	}
	rig_play_done(&rig, &t);
}

static void *late_thread(void *arg)
{
	lapse_set(gauge, (double)(long)arg);
	return NULL;
}

/* In a child: from the only thread that there is now, and from new ones. */
static void threads_body(void)
{
	pthread_t thread[3];
	long i;

	for (i = 0; i < 3; i++)
		CHECK(pthread_create(&thread[i], NULL, late_thread, (void *)(30 + i)) == 0);
	for (i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	lapse_set(gauge, 40);
	lapse_stats(&sh->child_stats);
}

static void *forker(void *arg)
{
	(void)arg;
	lapse_set(gauge, 2);
	sh->pids[0] = rig_in_child(threads_body);
	lapse_set(gauge, 3);
	return NULL;
}

static void thread_child(void *arg)
{
	pthread_t thread;

	(void)arg;
	open_ring();
	lapse_set(gauge, 1);
	CHECK(pthread_create(&thread, NULL, forker, NULL) == 0);
	pthread_join(thread, NULL);
	lapse_set(gauge, 4);
	lapse_close();
}

static void test_fork_in_thread(void **state)
{
	struct rig rig;
	struct tapes t;
	struct tape *child;
	pid_t pid = rig_play(&rig, &t, thread_child);

	(void)state;
	assert_int_equal(t.n, 2);
	assert_int_equal(tape_records(tapes_of(&t, pid)), 4);
	child = tapes_of(&t, sh->pids[0]);
	/* Threads that come while the ring is made lose their record, counted. */
	assert_int_equal(sh->child_stats.attempts, 4);
	assert_int_equal(tape_records(child), sh->child_stats.accepted);
	assert_true(sh->child_stats.accepted >= 2);
	rig_play_done(&rig, &t);
}

/* fork() while another thread opens and closes: the child can still exit. */
static void *opener(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&sh->words[0], __ATOMIC_ACQUIRE)) {
		lapse_open(NULL);
		lapse_close();
	}
	return NULL;
}

static void opener_child(void *arg)
{
	pthread_t thread;
	int i;

	(void)arg;
	setenv("LAPSE_RING_KIB", "192", 1);
	CHECK(lapse_open(NULL) == 0); /* registers the handler at exit */
	lapse_close();
	CHECK(pthread_create(&thread, NULL, opener, NULL) == 0);
	for (i = 0; i < FORKS; i++)
		rig_in_child(silent_exit);
	rig_set(&sh->words[0], 1);
	pthread_join(thread, NULL);
}

static void test_fork_while_opening(void **state)
{
	struct rig rig;

	(void)state;
	memset(sh, 0, sizeof(*sh));
	rig_make(&rig);
	rig_run(opener_child, NULL);
	rig_done(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_silent),
		cmocka_unit_test(test_folderless),
		cmocka_unit_test(test_opens_itself),
		cmocka_unit_test(test_fork_while_recording),
		cmocka_unit_test(test_fork_in_thread),
		cmocka_unit_test(test_fork_while_opening),
	};

	sh = rig_share(sizeof(*sh));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
