/* SPDX-License-Identifier: Apache-2.0
 *
 * A full lane: with a living agent new records are dropped and counted and
 * nothing is overwritten; without one the lane keeps the end, and the reader
 * knows exactly how many are gone.
 */
#include "rig.h"

#include "wire/clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>

struct shared {
	struct lapse_stats stats;
	int words[4];
};

static struct shared *sh;

#define FAR (UINT64_C(1) << 40) /* ticks: minutes */

/* Record n numbers from `from`. */
static void record(struct lapse_metric g, int from, int n)
{
	int i;

	for (i = from; i < from + n; i++)
		lapse_set(g, i);
}

static struct lapse_metric open_small(void)
{
	struct lapse_options o = {.size = sizeof(o), .ring_bytes = 512 << 10, .lanes = 1};

	CHECK(lapse_open(&o) == 0);
	return lapse_gauge("g", NULL, NULL, NULL);
}

/* Keep the only ring of the rig from now on (or no longer). */
static void keep(const struct rig *rig, int64_t ahead, uint64_t span)
{
	struct tapes t;

	tapes_read(rig, &t);
	assert_int_equal(t.n, 1);
	reader_keep(&t.a[0].reader, clock_ticks(clock_kind()) + (uint64_t)ahead, span);
	tapes_done(&t);
}

/* The numbers in the lane follow each other; *ret_first to *ret_last. */
static void span_of(const struct tape *t, int *ret_first, int *ret_last)
{
	int last = -1;
	size_t i;

	*ret_first = -1;
	for (i = 0; i < t->n; i++) {
		if (t->items[i].r->type != WIRE_SET)
			continue;
		if (*ret_first < 0)
			*ret_first = (int)t->items[i].r->value;
		else
			assert_int_equal((int)t->items[i].r->value, last + 1);
		last = (int)t->items[i].r->value;
	}
	*ret_last = last;
}

/* ---- with an agent ------------------------------------------------------------ */

#define SENT 50000

static void keep_child(void *arg)
{
	struct lapse_metric g = open_small();

	(void)arg;
	lapse_set(g, 0);
	rig_set(&sh->words[0], 1);
	rig_until(&sh->words[1], 1);
	record(g, 1, SENT - 1);
	/* Steps go on, though their records are dropped. */
	lapse_step_begin(1);
	lapse_step_end(1, 1);
	lapse_stats(&sh->stats);
	rig_set(&sh->words[0], 2);
	rig_until(&sh->words[1], 2);
	record(g, SENT, 100); /* there is room again */
	lapse_step_begin(2);
	lapse_step_end(1, 1);
	lapse_close();
}

static void test_keep(void **state)
{
	const struct wire_lane *lane;
	int first, last;
	struct rig rig;
	struct tapes t;
	uint64_t slots;
	pid_t pid;

	(void)state;
	memset(sh, 0, sizeof(*sh));
	rig_make(&rig);
	pid = rig_start(keep_child, NULL);
	rig_until(&sh->words[0], 1);
	keep(&rig, FAR, FAR);
	rig_set(&sh->words[1], 1);
	rig_until(&sh->words[0], 2);
	tapes_read(&rig, &t);
	lane = &t.a[0].reader.lanes[0];
	slots = lane->slots;
	assert_int_equal(t.a[0].reader.lane[0].overwritten, 0);
	span_of(&t.a[0], &first, &last);
	assert_int_equal(first, 0);
	/* All slots but the owner's two. */
	assert_int_equal(last, slots - 2 - 1);
	assert_int_equal(tape_records(&t.a[0]), slots - 2);
	assert_int_equal(lane->dropped, SENT + 1 - (slots - 2));
	assert_int_equal(sh->stats.attempts, SENT + 1);
	assert_int_equal(sh->stats.accepted, slots - 2);
	assert_int_equal(sh->stats.dropped, lane->dropped);
	assert_int_equal(lane->floor_index, 0);
	assert_int_equal(t.a[0].reader.ctl->steps_done, 0);
	/* Stored: the lane is empty again. */
	reader_ack(&t.a[0].reader);
	rig_set(&sh->words[1], 2);
	rig_wait(pid);
	tapes_done(&t);
	tapes_read(&rig, &t);
	span_of(&t.a[0], &first, &last);
	assert_int_equal(first, SENT);
	assert_int_equal(last, SENT + 99);
	assert_int_equal(t.a[0].reader.ctl->steps_done, 1);
	tapes_done(&t);
	rig_done(&rig);
}

/* ---- without one ------------------------------------------------------------------ */

static void wrap_child(void *arg)
{
	struct lapse_metric g = open_small();

	record(g, 0, *(int *)arg);
	lapse_stats(&sh->stats);
	lapse_close();
}

static void test_wrap(void **state)
{
	static const int sent[] = {100, 8000, 16384, 16385, 20000, 50000, 123457}; /* 8,192 slots */
	const struct reader_lane *l;
	int first, last;
	struct rig rig;
	struct tapes t;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(sent) / sizeof(sent[0]); i++) {
		memset(sh, 0, sizeof(*sh));
		rig_make(&rig);
		rig_run(wrap_child, (void *)&sent[i]);
		tapes_read(&rig, &t);
		l = &t.a[0].reader.lane[0];
		span_of(&t.a[0], &first, &last);
		assert_int_equal(last, sent[i] - 1);
		assert_int_equal(first, l->overwritten);
		assert_int_equal(l->overwritten + tape_records(&t.a[0]), sent[i]);
		assert_int_equal(l->rec, sent[i]);
		/* At least seven eighths of the lane are kept. */
		if (sent[i] >= (int)l->slots)
			assert_true(tape_records(&t.a[0]) >= l->slots / 8 * 7 - 2);
		else
			assert_int_equal(l->overwritten, 0);
		assert_int_equal(sh->stats.accepted, sent[i]);
		assert_int_equal(sh->stats.dropped, 0);
		assert_int_equal(t.a[0].reader.lanes[0].records, sent[i]);
		tapes_done(&t);
		rig_done(&rig);
	}
}

/* An agent that died, and one whose clock is not ours: as if there were none. */
static void stale_child(void *arg)
{
	struct lapse_metric g = open_small();

	(void)arg;
	lapse_set(g, 0);
	rig_set(&sh->words[0], 1);
	rig_until(&sh->words[1], 1);
	record(g, 1, SENT - 1);
	lapse_stats(&sh->stats);
}

static void test_stale(void **state)
{
	static const struct {
		int64_t ahead;
		uint64_t span;
	} rows[] = {{-1, FAR}, {4 * FAR, FAR}};
	int first, last;
	struct rig rig;
	struct tapes t;
	size_t i;
	pid_t pid;

	(void)state;
	for (i = 0; i < 2; i++) {
		memset(sh, 0, sizeof(*sh));
		rig_make(&rig);
		pid = rig_start(stale_child, NULL);
		rig_until(&sh->words[0], 1);
		keep(&rig, rows[i].ahead, rows[i].span);
		rig_set(&sh->words[1], 1);
		rig_wait(pid);
		tapes_read(&rig, &t);
		span_of(&t.a[0], &first, &last);
		assert_int_equal(last, SENT - 1);
		assert_int_equal(first, t.a[0].reader.lane[0].overwritten);
		assert_int_equal(sh->stats.dropped, 0);
		tapes_done(&t);
		rig_done(&rig);
	}
}

/* What is more than a quarter of the lane never fits. */
static void large_child(void *arg)
{
	struct lapse_options o = {.size = sizeof(o), .ring_bytes = 192 << 10, .lanes = 1};
	static struct lapse_value v[1024];
	static char text[16385];
	size_t i;

	(void)arg;
	CHECK(lapse_open(&o) == 0);
	for (i = 0; i < 1024; i++)
		v[i] = (struct lapse_value){1, lapse_gauge("g", NULL, NULL, NULL)};
	memset(text, 't', 16384);
	lapse_log(v, 1024); /* first of all, too */
	lapse_set(v[0].metric, 1);
	lapse_log(v, 1024);
	CHECK(text[0] == 't');
	lapse_stats(&sh->stats);
}

static void test_large(void **state)
{
	struct rig rig;
	struct tapes t;
	uint64_t fits;

	(void)state;
	memset(sh, 0, sizeof(*sh));
	rig_make(&rig);
	rig_run(large_child, NULL);
	tapes_read(&rig, &t);
	/* A frame of 1,024 values is 513 slots. */
	fits = t.a[0].reader.lanes[0].slots / 4 >= 513;
	assert_int_equal(sh->stats.attempts, 3);
	assert_int_equal(sh->stats.accepted, 1 + 2 * fits);
	assert_int_equal(t.a[0].reader.lanes[0].dropped, 2 - 2 * fits);
	assert_int_equal(tape_records(&t.a[0]), 1 + 2 * fits);
	tapes_done(&t);
	rig_done(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keep),
		cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_large),
	};

	sh = rig_share(sizeof(*sh));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
