/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring's two ends against each other and against a plain list: order,
 * wrap, KEEP, WRAP, rewind, two threads.
 */
#include "ringtest.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

static void test_order_and_wrap(void **state)
{
	struct ringtest f;
	uint64_t out[4096], next = 0, i = 0;
	size_t n, k;
	unsigned seed = 1;

	(void)state;
	ringtest_make(&f, RING_BYTES_MIN, 2);
	ringtest_attach(&f);
	ringtest_keep(&f);
	while (i < 200000) {
		uint32_t slots = rand_r(&seed) % 4 ? 1 : 1 + rand_r(&seed) % 100;

		if (ringtest_put(f.w, slots, i) == 0)
			i++;
		if (rand_r(&seed) % 300 == 0) {
			while ((n = ringtest_take(&f, out, 4096)) > 0)
				for (k = 0; k < n; k++)
					assert_int_equal(out[k], next++);
			reader_ack(&f.r);
		}
	}
	while ((n = ringtest_take(&f, out, 4096)) > 0)
		for (k = 0; k < n; k++)
			assert_int_equal(out[k], next++);
	assert_int_equal(next, i);
	assert_int_equal(f.r.lane[0].stored, i);
	assert_int_equal(f.r.lane[0].rec, i);
	assert_int_equal(f.r.lane[0].overwritten, 0);
	assert_false(f.r.lane[0].quarantined);
	ringtest_done(&f);
}

static void test_keep_drops_new(void **state)
{
	struct ringtest f;
	uint64_t out[8192], accepted = 0, dropped = 0, i;
	size_t n, got = 0;

	(void)state;
	ringtest_make(&f, RING_BYTES_MIN, 1);
	ringtest_attach(&f);
	ringtest_keep(&f);
	for (i = 0; i < 20000; i++) {
		int err = ringtest_put(f.w, 1, i);

		if (err == 0)
			accepted++;
		else if (err == -ENOBUFS)
			dropped++;
	}
	assert_int_equal(accepted, f.map.lanes[0].slots);
	assert_int_equal(accepted + dropped, 20000);
	/* The oldest are there, in order. */
	while ((n = ringtest_take(&f, out, 8192)) > 0) {
		for (i = 0; i < n; i++)
			assert_int_equal(out[i], got + i);
		got += n;
	}
	assert_int_equal(got, accepted);
	/* Room again only after the ack. */
	assert_int_equal(ringtest_put(f.w, 1, 1), -ENOBUFS);
	reader_ack(&f.r);
	assert_int_equal(ringtest_put(f.w, 1, 1), 0);
	ringtest_done(&f);
}

static void test_wrap_keeps_end(void **state)
{
	struct ringtest f;
	uint64_t out[8192], i, slots, first = 0, last = 0, total = 0;
	const uint64_t count = 50000;
	size_t n;

	(void)state;
	ringtest_make(&f, RING_BYTES_MIN, 1);
	slots = f.map.lanes[0].slots;
	for (i = 0; i < count; i++)
		assert_int_equal(ringtest_put(f.w, i % 7 == 0 ? 5 : 1, i), 0);
	ringtest_attach(&f);
	while ((n = ringtest_take(&f, out, 8192)) > 0) {
		if (total == 0)
			first = out[0];
		for (i = 0; i < n; i++)
			assert_int_equal(out[i], first + total + i);
		total += n;
		last = out[n - 1];
	}
	assert_int_equal(last, count - 1);
	/* The flight recorder keeps at least three quarters of the lane. */
	assert_true(f.w->head - f.w->floor >= slots * 3 / 4);
	assert_int_equal(f.r.lane[0].overwritten, first);
	assert_int_equal(f.r.lane[0].overwritten + f.r.lane[0].stored, count);
	assert_int_equal(f.r.lane[0].rec, count);
	ringtest_done(&f);
}

/* Reads, rewinds, agents that come and go, KEEP and WRAP in random order: every
 * record is acked once, in order, or counted as overwritten or dropped. */
static void test_random_life(void **state)
{
	struct ringtest f;
	uint64_t *acked = calloc(400000, sizeof(*acked)), n_acked = 0, n_read;
	uint64_t attempts = 0, dropped = 0, i, overwritten;
	unsigned seed = 7;
	size_t n;

	(void)state;
	ringtest_make(&f, RING_BYTES_MIN, 1);
	ringtest_attach(&f);
	while (attempts < 300000) {
		for (i = rand_r(&seed) % 3000; i > 0; i--)
			if (ringtest_put(f.w, rand_r(&seed) % 5 ? 1 : 1 + rand_r(&seed) % 40,
					 attempts++) < 0)
				dropped++;
		if (rand_r(&seed) % 8 == 0)
			f.ctl->keep_until = 0;
		if (rand_r(&seed) % 8 == 0)
			ringtest_keep(&f);
		n_read = n_acked;
		for (i = rand_r(&seed) % 6; i > 0; i--) {
			n = ringtest_take(&f, acked + n_read, 400000 - n_read);
			n_read += n;
		}
		switch (rand_r(&seed) % 4) {
		case 0:
			reader_rewind(&f.r);
			break;
		case 1:
			/* Killed before the ack: a new agent begins at the tail. */
			overwritten = f.r.lane[0].acked.overwritten;
			i = f.r.lane[0].acked.stored;
			reader_done(&f.r);
			ringtest_attach(&f);
			assert_true(reader_resume(&f.r, 0, f.r.lane[0].pos, f.r.lane[0].rec, i,
						  overwritten, 0));
			break;
		default:
			reader_ack(&f.r);
			n_acked = n_read;
		}
	}
	reader_rewind(&f.r);
	while ((n = ringtest_take(&f, acked + n_acked, 400000 - n_acked)) > 0)
		n_acked += n;
	assert_int_equal(f.r.lane[0].stored, n_acked);
	assert_int_equal(attempts, n_acked + dropped + f.r.lane[0].overwritten);
	assert_true(dropped > 0 && f.r.lane[0].overwritten > 0);
	for (i = 1; i < n_acked; i++)
		assert_true(acked[i] > acked[i - 1]);
	free(acked);
	ringtest_done(&f);
}

/* ---- two threads ---------------------------------------------------------------- */

struct writer_thread {
	struct ringtest *f;
	uint64_t count, dropped;
	int done;
};

static void *writer_main(void *arg)
{
	struct writer_thread *t = arg;
	uint64_t i;

	for (i = 0; i < t->count; i++)
		if (ringtest_put(t->f->w, i % 16 == 0 ? 9 : 1, i) < 0)
			t->dropped++;
	__atomic_store_n(&t->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void run_two_threads(bool keep)
{
	struct ringtest f;
	struct writer_thread t = {.f = &f, .count = 1000000};
	uint64_t *out = calloc(WIRE_REC_SLOTS_MAX * 2, sizeof(*out)), next = 0, i;
	uint64_t waiting = 1;
	pthread_t thread;
	double share;
	size_t n;
	int done;

	ringtest_make(&f, RING_BYTES_MIN, 1);
	ringtest_attach(&f);
	if (keep)
		ringtest_keep(&f);
	assert_int_equal(pthread_create(&thread, NULL, writer_main, &t), 0);
	do {
		done = __atomic_load_n(&t.done, __ATOMIC_ACQUIRE);
		n = ringtest_take(&f, out, WIRE_REC_SLOTS_MAX * 2);
		for (i = 0; i < n; i++) {
			assert_true(out[i] >= next);
			next = out[i] + 1;
		}
		reader_ack(&f.r);
		assert_false(f.r.lane[0].quarantined);
		waiting = reader_waiting(&f.r, 0, &share);
	} while (!done || waiting);
	pthread_join(thread, NULL);
	assert_int_equal(t.count, f.r.lane[0].stored + f.r.lane[0].overwritten + t.dropped);
	if (keep)
		assert_int_equal(f.r.lane[0].overwritten, 0);
	else
		assert_int_equal(t.dropped, 0);
	free(out);
	ringtest_done(&f);
}

static void test_two_threads_keep(void **state)
{
	(void)state;
	run_two_threads(true);
}

static void test_two_threads_wrap(void **state)
{
	(void)state;
	run_two_threads(false);
}

/* ---- hostile files ------------------------------------------------------------------ */

static void test_shapes(void **state)
{
	static const struct ring_shape shapes[] = {
		{RING_BYTES_MIN, 1, WIRE_PAGE},
		{RING_BYTES_MIN, 256, 65536},
		{4 << 20, 16, 256 << 10},
		{512 << 10, 4, 32 << 10},
		{(4 << 20) + 12345, 7, 3 * WIRE_PAGE},
		{64 << 20, 256, 1 << 20},
	};
	size_t i;
	uint32_t k;

	(void)state;
	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct ringtest f;

		ringtest_make(&f, shapes[i].bytes, shapes[i].lanes);
		assert_true(f.map.bytes <= shapes[i].bytes);
		assert_true(f.map.ring->lanes >= 1 && f.map.ring->lanes <= shapes[i].lanes);
		for (k = 0; k < f.map.ring->lanes; k++)
			assert_true(f.map.lanes[k].slots >= WIRE_LANE_SLOTS_MIN);
		ringtest_attach(&f);
		ringtest_done(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_and_wrap),   cmocka_unit_test(test_keep_drops_new),
		cmocka_unit_test(test_wrap_keeps_end),   cmocka_unit_test(test_random_life),
		cmocka_unit_test(test_two_threads_keep), cmocka_unit_test(test_two_threads_wrap),
		cmocka_unit_test(test_shapes),
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
