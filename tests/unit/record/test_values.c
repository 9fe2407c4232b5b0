/* SPDX-License-Identifier: Apache-2.0
 *
 * Values, frames, steps, epochs, events and attributes: each bit that is
 * recorded against docs/wire.md, read back with the agent's reader.
 */
#include "rig.h"

#include "wire/clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>
#include <unistd.h>

#define NONE WIRE_STEP_NONE

struct shared {
	uint64_t before, after; /* ticks around the scenario */
	uint64_t mark[4];
	int64_t now;
	struct lapse_stats stats;
};

static struct shared *sh;

static uint64_t bits(double v)
{
	uint64_t u;

	memcpy(&u, &v, sizeof(u));
	return u;
}

static double from_bits(uint64_t u)
{
	double v;

	memcpy(&v, &u, sizeof(v));
	return v;
}

static uint64_t ticks(void)
{
	return clock_ticks(clock_kind());
}

static void assert_rec(const struct wire_rec *r, int type, int flags, uint32_t id, uint64_t value,
		       int64_t step)
{
	assert_int_equal(r->type, type);
	assert_int_equal(r->flags, flags);
	assert_int_equal(r->id, id);
	assert_true(r->end == value);
	assert_true(r->step == step);
}

/* Ticks of the scenario, some microseconds of disagreement between CPUs granted. */
static void assert_time(uint64_t time)
{
	assert_true(time + 100000 >= sh->before && time <= sh->after + 100000);
}

static const uint64_t odd_values[] = {
	0x7ff8deadbeef1234,                     /* NaN with a payload */
	0xfff8000000000001,                     /* negative NaN */
	0x8000000000000000,                     /* -0.0 */
	0x7ff0000000000000,                     /* infinity */
	0xfff0000000000000, 0x0000000000000001, /* smallest denormal */
	0x7fefffffffffffff,                     /* largest number */
};
#define ODD (sizeof(odd_values) / sizeof(odd_values[0]))

static void values_child(void *arg)
{
	struct lapse_metric g, c, h;
	size_t i;

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	CHECK(lapse_is_open() == 1);
	sh->before = ticks();
	g = lapse_gauge("g", "nat", NULL, NULL);
	c = lapse_counter("c", NULL, NULL, NULL);
	h = lapse_histogram("h", "s", NULL, NULL);
	CHECK(g.id == 1 && c.id == 2 && h.id == 3);
	lapse_set(g, 1.5);
	lapse_step_begin(7);
	lapse_set(g, 2.5);
	lapse_add(c, 10);
	lapse_observe(h, -0.25);
	lapse_set_at(g, 3, LAPSE_STEP_CURRENT, LAPSE_NOW);
	lapse_set_at(g, 4, LAPSE_STEP_NONE, 1700000000000000001);
	lapse_add_at(c, 5, 123, 1700000000000000002);
	lapse_observe_at(h, 6, -1, LAPSE_NOW);
	lapse_set((struct lapse_metric){0}, 9);
	lapse_set_at((struct lapse_metric){0}, 9, 1, 1);
	for (i = 0; i < ODD; i++)
		lapse_set(g, from_bits(odd_values[i]));
	for (i = 0; i < ODD; i++)
		lapse_set_at(g, from_bits(odd_values[i]), LAPSE_STEP_NONE, LAPSE_NOW);
	lapse_stats(&sh->stats);
	sh->now = lapse_now();
	sh->after = ticks();
	lapse_close();
}

static void test_values(void **state)
{
	struct rig rig;
	struct tapes t;
	const struct wire_ring *h;
	size_t i;

	(void)state;
	rig_play_one(&rig, &t, values_child);
	h = &t.a[0].reader.ring;
	assert_int_equal(tape_records(&t.a[0]), 8 + 2 * ODD);
	assert_rec(tape_at(&t.a[0], 0), WIRE_SET, 0, 1, bits(1.5), NONE);
	assert_rec(tape_at(&t.a[0], 1), WIRE_SET, 0, 1, bits(2.5), 7);
	assert_rec(tape_at(&t.a[0], 2), WIRE_ADD, 0, 2, bits(10), 7);
	assert_rec(tape_at(&t.a[0], 3), WIRE_OBSERVE, 0, 3, bits(-0.25), 7);
	assert_rec(tape_at(&t.a[0], 4), WIRE_SET, 0, 1, bits(3), 7);
	assert_rec(tape_at(&t.a[0], 5), WIRE_SET, WIRE_F_UTC, 1, bits(4), NONE);
	assert_true(tape_at(&t.a[0], 5)->time == 1700000000000000001);
	assert_rec(tape_at(&t.a[0], 6), WIRE_ADD, WIRE_F_UTC, 2, bits(5), 123);
	assert_true(tape_at(&t.a[0], 6)->time == 1700000000000000002);
	assert_rec(tape_at(&t.a[0], 7), WIRE_OBSERVE, 0, 3, bits(6), -1);
	for (i = 0; i < ODD; i++) {
		assert_rec(tape_at(&t.a[0], 8 + i), WIRE_SET, 0, 1, odd_values[i], 7);
		assert_rec(tape_at(&t.a[0], 8 + ODD + i), WIRE_SET, 0, 1, odd_values[i], NONE);
	}
	for (i = 0; i < 8 + 2 * ODD; i++) {
		assert_int_equal(tape_at(&t.a[0], i)->slots, 1);
		if (!tape_at(&t.a[0], i)->flags)
			assert_time(tape_at(&t.a[0], i)->time);
	}
	/* First of the lane: whose records these are. */
	assert_int_equal(t.a[0].items[0].r->type, WIRE_OWNER);
	assert_int_equal(t.a[0].items[0].r->id, h->pid);
	assert_int_equal(sh->stats.attempts, 8 + 2 * ODD);
	assert_int_equal(sh->stats.accepted, 8 + 2 * ODD);
	assert_int_equal(sh->stats.dropped, 0);
	assert_int_equal(sh->stats.definitions, 3);
	assert_int_equal(sh->stats.ring_bytes, h->file_bytes);
	assert_true(sh->now > h->opened.real_ns);
	assert_int_equal(t.a[0].n_defs, 3);
	assert_string_equal(t.a[0].defs[0].unit, "nat");
	assert_int_equal(t.a[0].defs[1].kind, WIRE_KIND_COUNTER);
	rig_play_done(&rig, &t);
}

/* ---- frames ---------------------------------------------------------------- */

#define BIG 3000

static const size_t frame_sizes[] = {0, 1, 20, 1024, BIG, 21};

static double frame_value(size_t call, size_t i)
{
	return (double)(call * 10000 + i) + 0.5;
}

static void frames_child(void *arg)
{
	static struct lapse_value v[BIG];
	struct lapse_metric g;
	size_t call, i;

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	g = lapse_gauge("g", NULL, NULL, NULL);
	sh->before = ticks();
	lapse_step_begin(5);
	for (call = 0; call < 6; call++) {
		for (i = 0; i < frame_sizes[call]; i++) {
			v[i].value = frame_value(call, i);
			v[i].metric.id = i % 10 == 9 ? 0 : g.id;
		}
		if (call == 5)
			lapse_log_at(v, frame_sizes[call], -3, 1700000000123456789);
		else
			lapse_log(v, frame_sizes[call]);
	}
	sh->after = ticks();
	lapse_stats(&sh->stats);
	lapse_close();
}

static size_t check_frame(const struct wire_rec *r, size_t call, size_t from)
{
	struct wire_value v;
	size_t i;

	assert_int_equal(r->type, WIRE_FRAME);
	assert_int_equal(r->slots, 1 + (r->id + 1) / 2);
	for (i = 0; i < r->id; i++) {
		memcpy(&v, (const char *)(r + 1) + i * sizeof(v), sizeof(v));
		assert_true(v.value == frame_value(call, from + i));
		assert_int_equal(v.id, (from + i) % 10 == 9 ? 0 : 1);
	}
	return r->id;
}

static void test_frames(void **state)
{
	static const struct {
		size_t call, n;
	} want[] = {{1, 1}, {2, 20}, {3, 1024}, {4, 1024}, {4, 1024}, {4, 952}, {5, 21}};
	struct rig rig;
	struct tapes t;
	const struct wire_rec *r;
	size_t i, from = 0;

	(void)state;
	rig_play_one(&rig, &t, frames_child);
	assert_int_equal(tape_records(&t.a[0]), 7);
	for (i = 0; i < 7; i++) {
		r = tape_at(&t.a[0], i);
		assert_int_equal(r->id, want[i].n);
		if (i && want[i].call != want[i - 1].call)
			from = 0;
		from += check_frame(r, want[i].call, from);
		assert_int_equal(r->flags, i == 6 ? WIRE_F_UTC : 0);
		assert_int_equal(r->step, i == 6 ? -3 : 5);
		if (i < 6)
			assert_time(r->time);
	}
	/* One call, three frames: the same moment. */
	assert_true(tape_at(&t.a[0], 3)->time == tape_at(&t.a[0], 4)->time);
	assert_true(tape_at(&t.a[0], 3)->time == tape_at(&t.a[0], 5)->time);
	assert_true(tape_at(&t.a[0], 6)->time == 1700000000123456789);
	assert_int_equal(sh->stats.attempts, 7);
	rig_play_done(&rig, &t);
}

/* ---- steps and epochs -------------------------------------------------------- */

static void steps_child(void *arg)
{
	struct lapse_metric g;

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	g = lapse_gauge("g", NULL, NULL, NULL);
	sh->before = ticks();
	lapse_step_end(1, 1);              /* none open: nothing */
	lapse_step_begin(LAPSE_STEP_NEXT); /* the first: 0 */
	lapse_step_end(32, 4096);
	lapse_step_end(32, 4096); /* ended already */
	lapse_set(g, 1);          /* 0 stays current */
	lapse_step_begin(LAPSE_STEP_NEXT);
	lapse_step_end(-1, NAN);
	lapse_step_begin(100);
	lapse_step_begin(101); /* 100 is dropped */
	lapse_set(g, 2);
	lapse_step_end(0, 0.5);
	lapse_step_begin(LAPSE_STEP_NEXT);
	lapse_set(g, 3);
	lapse_step_begin(-5); /* a step is any number */
	lapse_step_end(1, 1);
	lapse_step_begin(LAPSE_STEP_NEXT);
	CHECK(lapse_step_now() == -4);
	sh->after = ticks();
	lapse_close();
	CHECK(lapse_step_now() == LAPSE_STEP_NONE);
}

static void assert_step(const struct wire_rec *r, int64_t step, double samples, double tokens)
{
	double payload[4];

	assert_int_equal(r->type, WIRE_STEP);
	assert_int_equal(r->slots, 2);
	assert_int_equal(r->id, 0);
	assert_int_equal(r->flags, 0);
	assert_true(r->step == step);
	assert_true(r->end + 1000 >= r->time);
	assert_time(r->time);
	assert_time(r->end);
	memcpy(payload, r + 1, sizeof(payload));
	assert_true(bits(payload[0]) == bits(samples) && bits(payload[1]) == bits(tokens));
	assert_true(bits(payload[2]) == 0 && bits(payload[3]) == 0);
}

static void test_steps(void **state)
{
	struct rig rig;
	struct tapes t;
	struct wire_ctl *ctl;

	(void)state;
	rig_play_one(&rig, &t, steps_child);
	ctl = t.a[0].reader.ctl;
	assert_int_equal(tape_records(&t.a[0]), 7);
	assert_step(tape_at(&t.a[0], 0), 0, 32, 4096);
	assert_rec(tape_at(&t.a[0], 1), WIRE_SET, 0, 1, bits(1), 0);
	assert_step(tape_at(&t.a[0], 2), 1, -1, NAN);
	assert_rec(tape_at(&t.a[0], 3), WIRE_SET, 0, 1, bits(2), 101);
	assert_step(tape_at(&t.a[0], 4), 101, 0, 0.5);
	assert_rec(tape_at(&t.a[0], 5), WIRE_SET, 0, 1, bits(3), 102);
	assert_step(tape_at(&t.a[0], 6), -5, 1, 1);
	assert_int_equal(ctl->step, -4);
	assert_true(ctl->step_start != 0);
	assert_time(ctl->step_start);
	assert_int_equal(ctl->steps_done, 4);
	rig_play_done(&rig, &t);
}

static void epochs_child(void *arg)
{
	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	sh->before = ticks();
	lapse_epoch_end(); /* none open: nothing */
	lapse_epoch_begin(0);
	lapse_step_begin(9);
	lapse_epoch_end();
	lapse_epoch_begin(1);
	lapse_epoch_begin(2); /* ends 1 */
	lapse_heartbeat();
	sh->after = ticks();
	lapse_close();
}

static void test_epochs(void **state)
{
	static const struct {
		uint32_t id;
		bool ends;
		int64_t step;
	} want[] = {{0, false, NONE}, {0, true, 9}, {1, false, 9}, {1, true, 9}, {2, false, 9}};
	struct rig rig;
	struct tapes t;
	const struct wire_rec *r;
	size_t i;

	(void)state;
	rig_play_one(&rig, &t, epochs_child);
	assert_int_equal(tape_records(&t.a[0]), 5);
	for (i = 0; i < 5; i++) {
		r = tape_at(&t.a[0], i);
		assert_int_equal(r->type, WIRE_EPOCH);
		assert_int_equal(r->slots, 1);
		assert_int_equal(r->id, want[i].id);
		assert_true(r->step == want[i].step);
		assert_time(r->time);
		assert_int_equal(r->end != 0, want[i].ends);
		if (want[i].ends)
			assert_true(r->time == tape_at(&t.a[0], i - 1)->time);
	}
	assert_int_equal(t.a[0].reader.ctl->epoch, 2);
	assert_time(t.a[0].reader.ctl->heartbeat);
	rig_play_done(&rig, &t);
}

/* ---- texts -------------------------------------------------------------------- */

/* n bytes of 'a' with a tail behind them, in memory that stays. */
static char *run_of(size_t n, const char *tail)
{
	static char texts[24][20008];
	static size_t used;
	char *s = texts[used++];

	CHECK(used <= 24 && n + strlen(tail) < sizeof(texts[0]));
	memset(s, 'a', n);
	strcpy(s + n, tail);
	return s;
}

#define E_ACUTE "\xc3\xa9"       /* 2 bytes */
#define EMOJI "\xf0\x9f\x9a\x80" /* 4 bytes */

static void events_child(void *arg)
{
	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	lapse_step_begin(3);
	lapse_event(LAPSE_WARNING, "checkpoint", "saved " E_ACUTE, "{\"n\": 1}");
	lapse_event(LAPSE_DEBUG, "bare", NULL, NULL);
	lapse_event(LAPSE_ERROR, NULL, "", "");
	lapse_event(LAPSE_INFO, "fits", run_of(16384, ""), NULL);
	lapse_event(LAPSE_INFO, "cut", run_of(16385, ""), NULL);
	lapse_event(LAPSE_INFO, "cut", run_of(16383, E_ACUTE), NULL);
	lapse_event(LAPSE_INFO, "cut", run_of(16381, EMOJI "x"), NULL);
	lapse_event(LAPSE_INFO, run_of(254, E_ACUTE), "k", NULL);
	lapse_event(LAPSE_INFO, "attrs", "t", run_of(8192, ""));
	lapse_event(LAPSE_INFO, "attrs", "t", run_of(8193, ""));
	lapse_event(LAPSE_INFO, run_of(255, ""), run_of(16384, ""), run_of(8192, ""));
	lapse_close();
}

static void assert_text(const struct wire_rec *r, int flags, uint32_t id, uint32_t n0, uint32_t n1,
			uint32_t n2)
{
	struct wire_text text;

	assert_int_equal(r->flags, flags);
	assert_int_equal(r->id, id);
	memcpy(&text, r + 1, sizeof(text));
	assert_int_equal(text.len[0], n0);
	assert_int_equal(text.len[1], n1);
	assert_int_equal(text.len[2], n2);
	assert_int_equal(text.reserved, 0);
	assert_int_equal(r->slots, 1 + (16 + n0 + n1 + n2 + 31) / 32);
}

static const char *text_bytes(const struct wire_rec *r)
{
	return (const char *)(r + 1) + sizeof(struct wire_text);
}

static void test_events(void **state)
{
	static const char first[] = "checkpointsaved " E_ACUTE "{\"n\": 1}";
	struct rig rig;
	struct tapes t;
	size_t i;

	(void)state;
	rig_play_one(&rig, &t, events_child);
	assert_int_equal(tape_records(&t.a[0]), 11);
	for (i = 0; i < 11; i++) {
		assert_int_equal(tape_at(&t.a[0], i)->type, WIRE_EVENT);
		assert_int_equal(tape_at(&t.a[0], i)->step, 3);
	}
	assert_text(tape_at(&t.a[0], 0), 0, LAPSE_WARNING, 10, 8, 8);
	assert_memory_equal(text_bytes(tape_at(&t.a[0], 0)), first, sizeof(first) - 1);
	assert_text(tape_at(&t.a[0], 1), 0, LAPSE_DEBUG, 4, 0, 0);
	assert_text(tape_at(&t.a[0], 2), 0, LAPSE_ERROR, 0, 0, 0);
	assert_text(tape_at(&t.a[0], 3), 0, LAPSE_INFO, 4, 16384, 0);
	assert_text(tape_at(&t.a[0], 4), WIRE_F_CUT, LAPSE_INFO, 3, 16384, 0);
	/* Not inside a character. */
	assert_text(tape_at(&t.a[0], 5), WIRE_F_CUT, LAPSE_INFO, 3, 16383, 0);
	assert_text(tape_at(&t.a[0], 6), WIRE_F_CUT, LAPSE_INFO, 3, 16381, 0);
	assert_int_equal(text_bytes(tape_at(&t.a[0], 6))[3 + 16380], 'a');
	assert_text(tape_at(&t.a[0], 7), WIRE_F_CUT, LAPSE_INFO, 254, 1, 0);
	/* Half a JSON object is worth nothing. */
	assert_text(tape_at(&t.a[0], 8), 0, LAPSE_INFO, 5, 1, 8192);
	assert_text(tape_at(&t.a[0], 9), WIRE_F_CUT, LAPSE_INFO, 5, 1, 0);
	assert_text(tape_at(&t.a[0], 10), 0, LAPSE_INFO, 255, 16384, 8192);
	rig_play_done(&rig, &t);
}

static void attrs_child(void *arg)
{
	char *binary = run_of(20000, "");

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	lapse_attr("optimizer", "adamw");
	lapse_attr("empty", NULL);
	lapse_attr("", "no key: nothing");
	lapse_attr(NULL, "no key: nothing");
	lapse_attr(run_of(255, "b"), run_of(16384, "c"));
	/* No UTF-8 at all: still cut near the limit, not to nothing. */
	memset(binary, 0x80, 20000);
	lapse_attr("binary", binary);
	lapse_close();
}

static void test_attrs(void **state)
{
	struct rig rig;
	struct tapes t;
	struct wire_text text;

	(void)state;
	rig_play_one(&rig, &t, attrs_child);
	assert_int_equal(tape_records(&t.a[0]), 4);
	assert_int_equal(tape_at(&t.a[0], 0)->type, WIRE_ATTR);
	assert_text(tape_at(&t.a[0], 0), 0, 0, 9, 5, 0);
	assert_memory_equal(text_bytes(tape_at(&t.a[0], 0)), "optimizeradamw", 14);
	assert_true(tape_at(&t.a[0], 0)->step == NONE);
	assert_text(tape_at(&t.a[0], 1), 0, 0, 5, 0, 0);
	assert_text(tape_at(&t.a[0], 2), WIRE_F_CUT, 0, 255, 16384, 0);
	memcpy(&text, tape_at(&t.a[0], 3) + 1, sizeof(text));
	assert_true(text.len[1] > LAPSE_TEXT_MAX - 4 && text.len[1] <= LAPSE_TEXT_MAX);
	rig_play_done(&rig, &t);
}

/* Nothing is recorded, nothing breaks, before lapse_open(). */
static void before_child(void *arg)
{
	struct lapse_value v = {1, {1}};
	struct lapse_span s;

	(void)arg;
	CHECK(lapse_is_open() == 0);
	CHECK(lapse_now() == 0);
	CHECK(lapse_error()[0] == '\0');
	lapse_set((struct lapse_metric){1}, 1);
	lapse_log(&v, 1);
	s = lapse_span_begin((struct lapse_name){1});
	CHECK(s.start == 0);
	lapse_span_end(s);
	lapse_span_at((struct lapse_name){1}, 1, 2, 3);
	lapse_step_begin(1);
	lapse_step_end(1, 1);
	lapse_epoch_begin(1);
	lapse_epoch_end();
	lapse_event(LAPSE_INFO, "k", "t", NULL);
	lapse_attr("k", "v");
	lapse_set_rank(1, 1, 1);
	lapse_heartbeat();
	lapse_close();
	lapse_stats(&sh->stats);
	CHECK(sh->stats.attempts == 0 && sh->stats.ring_bytes == 0);
	CHECK(strcmp(lapse_version(), LAPSE_VERSION) == 0);
}

static void test_before_open(void **state)
{
	struct rig rig;

	(void)state;
	rig_make(&rig);
	rig_run(before_child, NULL);
	assert_int_equal(rig_count_files(&rig, ""), 0);
	rig_done(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),      cmocka_unit_test(test_frames),
		cmocka_unit_test(test_steps),       cmocka_unit_test(test_epochs),
		cmocka_unit_test(test_events),      cmocka_unit_test(test_attrs),
		cmocka_unit_test(test_before_open),
	};

	sh = rig_share(sizeof(*sh));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
