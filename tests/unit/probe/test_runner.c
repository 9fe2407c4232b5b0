/* SPDX-License-Identifier: Apache-2.0
 *
 * The runner: what is read when, in which thread, and what becomes of a reading that
 * hangs or costs too much. The table of groups is this program's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "probe/groups.h"
#include "probe/runner.h"
#include "wire/clock.h"
#include "wire/sink.h"

#define SECOND INT64_C(1000000000)
#define PATIENCE 2000 /* times 10 ms, for what takes one of them */

static const struct probe_metric fast_metric = {"t/fast", "1", "", "", SINK_GAUGE, 1, NULL};
static const struct probe_metric rare_metric = {"t/rare", "1", "", "", SINK_GAUGE, 1, NULL};
static const struct probe_metric slow_metric = {"t/slow", "1", "", "", SINK_GAUGE, 1, NULL};

/* What the groups do. */
static int fast_reads, rare_reads;
static _Atomic int closed;
static int64_t burn_ns;
static bool hang;
static _Atomic int slow_reads; /* begun */
static _Atomic pthread_t slow_thread;

static int open_fast(const struct probe_env *env, struct probe_set *s, void **state, struct err *e)
{
	(void)env;
	(void)e;
	assert_int_equal(probe_point(s, &fast_metric, ""), 0);
	*state = &fast_reads;
	return 0;
}

static void read_fast(void *state, struct probe_set *s, const struct probe_now *now)
{
	int64_t until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + burn_ns;

	(void)now;
	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		;
	probe_put(s, probe_point(s, &fast_metric, ""), ++*(int *)state);
}

static int open_rare(const struct probe_env *env, struct probe_set *s, void **state, struct err *e)
{
	(void)env;
	(void)s;
	(void)e;
	*state = &rare_reads;
	return 0;
}

static void read_rare(void *state, struct probe_set *s, const struct probe_now *now)
{
	(void)now;
	probe_put(s, probe_point(s, &rare_metric, ""), ++*(int *)state);
}

static void read_slow(void *state, struct probe_set *s, const struct probe_now *now)
{
	(void)now;
	(void)state;
	slow_thread = pthread_self();
	slow_reads++;
	while (__atomic_load_n(&hang, __ATOMIC_RELAXED))
		usleep(1000);
	probe_put(s, probe_point(s, &slow_metric, ""), 7);
}

static int open_none(const struct probe_env *env, struct probe_set *s, void **state, struct err *e)
{
	(void)env;
	(void)s;
	(void)state;
	return err_set(e, -ENODEV, "no such thing here");
}

static void count_close(void *state)
{
	(void)state;
	closed++;
}

#define GROUP(name_, metric_, place_, seconds_, of_run_, open_, read_)                             \
	{                                                                                          \
		.name = (name_), .metrics = (metric_), .n_metrics = 1, .place = (place_),          \
		.period_ns = (seconds_)*SECOND, .of_run = (of_run_), .open = (open_),              \
		.read = (read_), .close = count_close                                              \
	}

static const struct probe_group fast =
	GROUP("fast", &fast_metric, PROBE_INLINE, 1, false, open_fast, read_fast);
static const struct probe_group rare =
	GROUP("rare", &rare_metric, PROBE_INLINE, 10, false, open_rare, read_rare);
static const struct probe_group slow =
	GROUP("slow", &slow_metric, PROBE_SLOW, 1, false, open_rare, read_slow);
static const struct probe_group none =
	GROUP("none", &slow_metric, PROBE_INLINE, 1, false, open_none, read_slow);
static const struct probe_group of_run =
	GROUP("of_run", &slow_metric, PROBE_INLINE, 1, true, open_none, read_slow);
const struct probe_group *const probe_groups[] = {&fast, &rare, &slow, &none, &of_run, NULL};

static int setup(void **state)
{
	(void)state;
	fast_reads = rare_reads = closed = slow_reads = 0;
	burn_ns = 0;
	__atomic_store_n(&hang, false, __ATOMIC_RELAXED);
	return 0;
}

static struct runner *new_runner(int64_t period_ns, int64_t (*of)(void *, const char *))
{
	struct probe_env env = {.root = ""};
	struct runner_pace pace = {.period_ns = period_ns, .of = of};
	struct runner *r = NULL;

	assert_int_equal(runner_new(&env, &pace, &r), 0);
	return r;
}

struct seen {
	int values;
	char kinds[512], text[512];
	double slow;
};

static void see_value(void *arg, uint32_t point, const struct probe_metric *m, const char *labels,
		      int64_t boot_ns, double value)
{
	struct seen *s = arg;

	(void)labels;
	(void)boot_ns;
	if (strncmp(m->name, "t/", 2) != 0)
		return;
	s->values++;
	if (m == &slow_metric) {
		s->slow = value;
		assert_int_equal(point / PROBE_POINTS_MAX, PROBE_SLOW);
	}
}

static void see_event(void *arg, int64_t boot_ns, int severity, const char *kind, const char *text,
		      const char *attrs)
{
	struct seen *s = arg;
	size_t n = strlen(s->kinds);

	(void)boot_ns;
	(void)severity;
	(void)attrs;
	snprintf(s->kinds + n, sizeof(s->kinds) - n, "%s;", kind);
	snprintf(s->text, sizeof(s->text), "%s", text);
}

static struct seen see(struct runner *r)
{
	struct seen s = {0};
	struct probe_taker t = {see_value, see_event, NULL, &s};

	runner_take(r, &t);
	return s;
}

/* A real moment, so many seconds on. */
static struct probe_now at(int64_t base, double seconds)
{
	int64_t ns = base + (int64_t)(seconds * 1e9);
	struct probe_now now = {ns, ns};

	return now;
}

static int64_t now_second(void)
{
	return clock_ns(CLOCK_MONOTONIC) / SECOND * SECOND;
}

static void test_periods(void **state)
{
	struct runner *r = new_runner(0, NULL);
	int64_t base = (now_second() / (10 * SECOND) + 2) * 10 * SECOND, next;
	struct probe_now now;
	int i;

	(void)state;
	/* 40 seconds, looked at four times a second. */
	for (i = 0; i < 160; i++) {
		now = at(base, i / 4.0);
		next = runner_tick(r, &now);
		assert_true(next > now.mono_ns && next <= now.mono_ns + SECOND);
	}
	assert_int_equal(fast_reads, 40);
	assert_int_equal(rare_reads, 4);
	runner_free(r);
	/* Its thread may be left behind, if nothing else: it ends on its own. */
	for (i = 0; i < PATIENCE && closed < 3; i++)
		usleep(10000);
	assert_int_equal(closed, 3);
}

static int64_t off_or_quick(void *arg, const char *group)
{
	(void)arg;
	return strcmp(group, "rare") == 0 ? -1 : 0;
}

struct listed {
	char text[512];
};

static void list_group(void *arg, const struct runner_group *g)
{
	struct listed *l = arg;
	size_t n = strlen(l->text);

	snprintf(l->text + n, sizeof(l->text) - n, "%s=%s;", g->group->name,
		 g->open ? "open" : g->why);
}

static void test_what_is_here(void **state)
{
	struct runner *r = new_runner(0, off_or_quick);
	struct listed l = {""};
	struct seen s;
	int i;

	(void)state;
	for (i = 0; i < PATIENCE; i++) {
		usleep(10000);
		s = see(r);
		if (s.slow > 0)
			break;
	}
	assert_true(s.slow == 7);
	assert_false(pthread_equal(slow_thread, pthread_self()));
	runner_each(r, list_group, &l);
	assert_string_equal(l.text,
			    "fast=open;rare=switched off;slow=open;none=no such thing here;");
	runner_free(r);
	assert_int_equal(rare_reads, 0);
}

static void test_a_reading_hangs(void **state)
{
	struct runner *r;
	struct probe_now now;
	struct seen s;
	int i;

	(void)state;
	__atomic_store_n(&hang, true, __ATOMIC_RELAXED);
	r = new_runner(0, NULL);
	for (i = 0; i < PATIENCE && !slow_reads; i++)
		usleep(10000);
	now = at(clock_ns(CLOCK_MONOTONIC), 0);
	runner_tick(r, &now);
	s = see(r);
	assert_true(s.values >= 1); /* the others are read */
	assert_null(strstr(s.kinds, "probe-stuck"));
	now = at(clock_ns(CLOCK_MONOTONIC), RUNNER_STUCK_NS / 1e9 + 2);
	runner_tick(r, &now);
	runner_tick(r, &now);
	s = see(r);
	assert_string_equal(s.kinds, "probe-stuck;"); /* once */
	assert_non_null(strstr(s.text, "slow"));
	/* The end does not wait for it for long, and nothing it uses is freed. */
	runner_free(r);
	assert_int_equal(closed, 2);
	__atomic_store_n(&hang, false, __ATOMIC_RELAXED);
	/* It comes back and closes its own. */
	for (i = 0; i < PATIENCE && closed < 3; i++)
		usleep(10000);
	assert_int_equal(closed, 3);
	usleep(50000);
}

static void test_a_reading_costs_too_much(void **state)
{
	struct runner *r = new_runner(0, NULL);
	int64_t base = now_second() + 10 * SECOND;
	struct probe_now now;
	struct seen s;
	int i;

	(void)state;
	burn_ns = 3 * (int64_t)(RUNNER_SHARE_MAX * 1e9);
	for (i = 0; i < 6; i++) {
		now = at(base, i);
		runner_tick(r, &now);
	}
	s = see(r);
	assert_non_null(strstr(s.kinds, "probe-slowed"));
	assert_non_null(strstr(s.text, "fast"));
	runner_free(r);
}

static void test_another_period(void **state)
{
	struct runner *r = new_runner(0, NULL);
	int64_t base = now_second() + 10 * SECOND;
	struct probe_now now = at(base, 0);
	int64_t next;

	(void)state;
	runner_set_period(r, SECOND / 5);
	next = runner_tick(r, &now);
	assert_true(next <= now.mono_ns + SECOND / 5);
	runner_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_periods, setup),
		cmocka_unit_test_setup(test_what_is_here, setup),
		cmocka_unit_test_setup(test_a_reading_hangs, setup),
		cmocka_unit_test_setup(test_a_reading_costs_too_much, setup),
		cmocka_unit_test_setup(test_another_period, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
