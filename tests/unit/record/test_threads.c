/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes and threads: more threads than lanes, lanes given back and taken again,
 * records made while a thread ends, and every record of many threads in order.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct shared {
	struct lapse_stats stats, middle;
	uint32_t tids[64];
	int words[4];
	int each;
	uint64_t calls;
};

static struct shared *sh;
static struct lapse_metric gauge;

static void open_ring(unsigned lanes, size_t ring_bytes)
{
	struct lapse_options o = {.size = sizeof(o), .lanes = lanes, .ring_bytes = ring_bytes};

	CHECK(lapse_open(&o) == 0);
	gauge = lapse_gauge("g", NULL, NULL, NULL);
}

/* A value that tells thread and number. */
static double value_of(int thread, int i)
{
	return thread * 1e6 + i;
}

static void record(int thread, int from, int to)
{
	int i;

	for (i = from; i < to; i++)
		lapse_set(gauge, value_of(thread, i));
}

/* All of them have come here before any goes on. */
static void meet(int *word, int n)
{
	__atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
	rig_until(word, n);
}

static void start(pthread_t *thread, void *(*fn)(void *arg), long arg)
{
	CHECK(pthread_create(thread, NULL, fn, (void *)arg) == 0);
}

/* The records of a thread follow each other in one lane; returns how many. */
static size_t check_order(const struct tape *t)
{
	int next[64] = {0}, thread, i;
	size_t k, n = 0;

	for (k = 0; k < t->n; k++) {
		if (t->items[k].r->type == WIRE_OWNER)
			continue;
		thread = (int)(t->items[k].r->value / 1e6);
		i = (int)(t->items[k].r->value - thread * 1e6);
		assert_in_range(thread, 0, 63);
		if (i != next[thread])
			fail_msg("thread %d: record %d, not %d", thread, i, next[thread]);
		next[thread]++;
		n++;
	}
	return n;
}

/* ---- more threads than lanes ------------------------------------------------ */

#define CROWD 6
#define LANES 3

/* All claim (or not) before any goes on, and none ends before all have. */
static void *crowd_member(void *arg)
{
	int self = (int)(long)arg;

	record(self, 0, 1);
	meet(&sh->words[0], CROWD);
	record(self, 1, 1000);
	meet(&sh->words[1], CROWD);
	return NULL;
}

static void crowd_child(void *arg)
{
	pthread_t thread[CROWD];
	long i;

	(void)arg;
	open_ring(LANES, 0);
	for (i = 0; i < CROWD; i++)
		start(&thread[i], crowd_member, i);
	for (i = 0; i < CROWD; i++)
		pthread_join(thread[i], NULL);
	lapse_stats(&sh->stats);
	lapse_close();
}

static void test_crowd(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	rig_play_one(&rig, &t, crowd_child);
	assert_int_equal(t.a[0].reader.ring.lanes, LANES);
	assert_int_equal(sh->stats.attempts, CROWD * 1000);
	assert_int_equal(sh->stats.accepted, LANES * 1000);
	assert_int_equal(sh->stats.dropped, (CROWD - LANES) * 1000);
	assert_int_equal(t.a[0].reader.ctl->dropped_no_lane, (CROWD - LANES) * 1000);
	assert_int_equal(check_order(&t.a[0]), LANES * 1000);
	rig_play_done(&rig, &t);
}

/* ---- one after the other ------------------------------------------------------- */

#define LINE 20

static void *line_member(void *arg)
{
	int self = (int)(long)arg;
	char name[16];

	snprintf(name, sizeof(name), "member-%d", self);
	prctl(PR_SET_NAME, name);
	sh->tids[self] = (uint32_t)syscall(SYS_gettid);
	record(self, 0, 10);
	return NULL;
}

static void line_child(void *arg)
{
	pthread_t thread;
	long i;

	(void)arg;
	open_ring(2, 0);
	record(LINE, 0, 1); /* the main thread keeps lane 0 */
	for (i = 0; i < LINE; i++) {
		start(&thread, line_member, i);
		pthread_join(thread, NULL);
	}
	lapse_stats(&sh->stats);
	/* Not closed: what the ended threads published must do. */
}

static void test_line(void **state)
{
	struct rig rig;
	struct tapes t;
	char name[16];
	size_t i;
	int k;

	(void)state;
	rig_play_one(&rig, &t, line_child);
	assert_int_equal(sh->stats.accepted, LINE * 10 + 1);
	assert_int_equal(sh->stats.dropped, 0);
	assert_int_equal(t.a[0].items[0].r->id, t.a[0].reader.ring.pid);
	/* Lane 1: an owner and its ten records, and the next. */
	for (i = 0; t.a[0].items[i].lane == 0; i++)
		;
	assert_int_equal(i, 2);
	for (k = 0; k < LINE; k++, i += 11) {
		const struct wire_rec *owner = t.a[0].items[i].r;

		assert_int_equal(owner->type, WIRE_OWNER);
		assert_int_equal(owner->slots, 2);
		assert_int_equal(owner->id, sh->tids[k]);
		snprintf(name, sizeof(name), "member-%d", k);
		assert_string_equal((const char *)(owner + 1), name);
		assert_true(t.a[0].items[i + 1].r->value == value_of(k, 0));
		assert_true(t.a[0].items[i + 10].r->value == value_of(k, 9));
	}
	assert_int_equal(i, t.a[0].n);
	assert_int_equal(t.a[0].reader.lanes[1].tid, 0);
	assert_int_equal(t.a[0].reader.lanes[1].records, LINE * 10);
	assert_int_equal(t.a[0].reader.lanes[0].tid, t.a[0].reader.ring.pid);
	rig_play_done(&rig, &t);
}

/* ---- records while a thread ends -------------------------------------------------- */

static pthread_key_t before_key, after_key;

static void ending(void *arg)
{
	lapse_set(gauge, *(double *)arg);
}

static void *ender(void *arg)
{
	static double values[2] = {1, 2};

	CHECK(pthread_setspecific(before_key, &values[0]) == 0);
	CHECK(pthread_setspecific(after_key, &values[1]) == 0);
	if (arg)
		lapse_set(gauge, 0);
	return NULL;
}

/* Destructors run in the order of the keys: one before the library's, one after. */
static void ending_child(void *arg)
{
	pthread_t thread;
	long i;

	(void)arg;
	CHECK(pthread_key_create(&before_key, ending) == 0);
	open_ring(2, 0);
	CHECK(pthread_key_create(&after_key, ending) == 0);
	lapse_set(gauge, 9);
	for (i = 0; i < 10; i++) {
		start(&thread, ender, i % 2);
		pthread_join(thread, NULL);
	}
	lapse_stats(&sh->stats);
}

static void test_ending(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	rig_play_one(&rig, &t, ending_child);
	assert_int_equal(sh->stats.attempts, 1 + 5 * 2 + 5 * 3);
	assert_int_equal(sh->stats.dropped, 0);
	assert_int_equal(tape_records(&t.a[0]), 1 + 5 * 2 + 5 * 3);
	/* The only other lane was given back each time. */
	assert_int_equal(t.a[0].reader.lanes[1].tid, 0);
	rig_play_done(&rig, &t);
}

/* ---- many -------------------------------------------------------------------------- */

#define MANY 16

static void *many_member(void *arg)
{
	record((int)(long)arg, 0, 1);
	meet(&sh->words[0], MANY); /* a lane each */
	record((int)(long)arg, 1, sh->each);
	return NULL;
}

static void many_child(void *arg)
{
	pthread_t thread[MANY];
	struct lapse_stats s;
	long i;

	(void)arg;
	open_ring(MANY, 144 << 20);
	lapse_stats(&s);
	/* The file system may have had room for less: half the ring is 15 lanes. */
	sh->each = s.ring_bytes > 130 << 20 ? 100000 : (int)(s.ring_bytes / 2 / 15 / 32 / 2) - 100;
	CHECK(sh->each > 500);
	for (i = 0; i < MANY; i++)
		start(&thread[i], many_member, i);
	for (i = 0; i < MANY; i++)
		pthread_join(thread[i], NULL);
	lapse_stats(&sh->stats);
	lapse_close();
}

static void test_many(void **state)
{
	struct rig rig;
	struct tapes t;
	uint32_t i;

	(void)state;
	rig_play_one(&rig, &t, many_child);
	assert_int_equal(sh->stats.accepted, MANY * sh->each);
	assert_int_equal(sh->stats.dropped, 0);
	assert_int_equal(check_order(&t.a[0]), MANY * sh->each);
	for (i = 0; i < MANY; i++)
		assert_int_equal(t.a[0].reader.lane[i].overwritten, 0);
	rig_play_done(&rig, &t);
}

/* ---- closing and opening under way ---------------------------------------------------- */

static void *restless(void *arg)
{
	int self = (int)(long)arg;
	uint64_t i;

	for (i = 0; !__atomic_load_n(&sh->words[1], __ATOMIC_ACQUIRE); i++) {
		lapse_set(gauge, value_of(self, (int)(i % 1000000)));
		if (i % 64 == 0)
			lapse_span_end(lapse_span_begin(lapse_name("n")));
	}
	__atomic_fetch_add(&sh->calls, i + (i + 63) / 64, __ATOMIC_ACQ_REL);
	return NULL;
}

static void restless_child(void *arg)
{
	struct timespec ms = {0, 1000000};
	pthread_t thread[4];
	struct lapse_stats s;
	long i;

	(void)arg;
	setenv("LAPSE_RING_KIB", "1024", 1);
	open_ring(0, 0);
	for (i = 0; i < 4; i++)
		start(&thread[i], restless, i);
	for (i = 0; i < 30; i++) {
		nanosleep(&ms, NULL);
		lapse_close();
		lapse_stats(&s);
		CHECK(s.attempts == s.accepted + s.dropped);
		nanosleep(&ms, NULL);
		CHECK(lapse_open(NULL) == 0);
	}
	rig_set(&sh->words[1], 1);
	for (i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	lapse_close();
	lapse_stats(&sh->stats);
	/* A span that finds the ring closed when it begins is no attempt. */
	CHECK(sh->stats.attempts <= sh->calls);
	CHECK(sh->stats.attempts >= sh->calls * 64 / 66);
	CHECK(sh->stats.accepted > 0);
}

static void test_restless(void **state)
{
	uint64_t stored = 0;
	struct rig rig;
	struct tapes t;
	size_t i;
	uint32_t k;

	(void)state;
	memset(sh, 0, sizeof(*sh));
	rig_make(&rig);
	rig_run(restless_child, NULL);
	tapes_read(&rig, &t);
	assert_int_equal(t.n, 31);
	for (i = 0; i < t.n; i++) {
		assert_int_equal(t.a[i].reader.ring.state, WIRE_STATE_CLOSED);
		stored += tape_records(&t.a[i]);
		for (k = 0; k < t.a[i].reader.ring.lanes; k++)
			stored += t.a[i].reader.lane[k].overwritten;
	}
	/* Nothing accepted is missing, from whichever ring. */
	assert_int_equal(stored, sh->stats.accepted);
	rig_play_done(&rig, &t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crowd),    cmocka_unit_test(test_line),
		cmocka_unit_test(test_ending),   cmocka_unit_test(test_many),
		cmocka_unit_test(test_restless),
	};

	sh = rig_share(sizeof(*sh));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
