/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording in signal handlers while the interrupted thread records: nothing is
 * torn, nothing is out of order, and every attempt is counted.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct shared {
	struct lapse_stats stats;
	uint64_t main_sent, handler_calls;
};

static struct shared *sh;
static struct lapse_metric gauge, other;
static struct lapse_name name;

/* A frame whose every value tells who sent it, its number and its place. */
#define FRAME 9

static double value_of(int who, uint64_t n, int place)
{
	return who * 1e12 + (double)n * 16 + place;
}

static void send_frame(int who, uint64_t n)
{
	struct lapse_value v[FRAME];
	int i;

	for (i = 0; i < FRAME; i++)
		v[i] = (struct lapse_value){value_of(who, n, i), who ? other : gauge};
	lapse_log(v, FRAME);
}

/* 0: main, 1: handler. Checks every value, and that numbers only rise. */
static int check_frame(const struct wire_rec *r, uint64_t next[2])
{
	struct wire_value v;
	uint64_t n;
	int who, i;

	memcpy(&v, r + 1, sizeof(v));
	who = v.value >= 1e12;
	n = (uint64_t)(v.value - who * 1e12) / 16;
	assert_int_equal(r->id, FRAME);
	for (i = 0; i < FRAME; i++) {
		memcpy(&v, (const char *)(r + 1) + i * sizeof(v), sizeof(v));
		assert_true(v.value == value_of(who, n, i));
		assert_int_equal(v.id, who + 1);
	}
	assert_true(n >= next[who]);
	next[who] = n + 1;
	return who;
}

static void on_alarm(int sig)
{
	static volatile sig_atomic_t inside;

	(void)sig;
	/* A sanitizer calls handlers later, and then within each other. */
	if (inside)
		return;
	inside = 1;
	send_frame(1, sh->handler_calls);
	lapse_set(other, value_of(1, 0, 0));
	lapse_span_end(lapse_span_begin(name));
	sh->handler_calls++;
	inside = 0;
}

static void hammer_child(void *arg)
{
	struct sigaction sa = {.sa_handler = on_alarm};
	struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
	struct lapse_options o = {.size = sizeof(o), .ring_bytes = 32 << 20, .lanes = 1};
	struct lapse_span s;
	uint64_t n = 0;

	(void)arg;
	CHECK(lapse_open(&o) == 0);
	gauge = lapse_gauge("main", NULL, NULL, NULL);
	other = lapse_gauge("handler", NULL, NULL, NULL);
	name = lapse_name("span");
	CHECK(gauge.id == 1 && other.id == 2);
	CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	while (n < 3000000 && (sh->handler_calls < 3000 || n < 100000)) {
		s = lapse_span_begin(name);
		send_frame(0, n++);
		lapse_set(gauge, value_of(0, n, 0));
		lapse_span_end(s);
	}
	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	sh->main_sent = n;
	lapse_stats(&sh->stats);
	lapse_close();
}

static void test_hammer(void **state)
{
	uint64_t next[2] = {0, 0}, frames[2] = {0, 0}, rest = 0;
	const struct wire_lane *lane;
	struct rig rig;
	struct tapes t;
	size_t i;

	(void)state;
	rig_play_one(&rig, &t, hammer_child);
	lane = &t.a[0].reader.lanes[0];
	for (i = 0; i < t.a[0].n; i++) {
		const struct wire_rec *r = t.a[0].items[i].r;

		if (r->type == WIRE_FRAME)
			frames[check_frame(r, next)]++;
		else if (r->type == WIRE_SET || r->type == WIRE_SPAN)
			rest++;
		else
			assert_int_equal(r->type, WIRE_OWNER);
		/* Begun and ended in one thread, by whichever of the two. */
		assert_int_equal(r->flags, 0);
	}
	/* Three attempts of the handler's each, three of the main's. */
	assert_int_equal(sh->stats.attempts, 3 * (sh->handler_calls + sh->main_sent));
	/* A handler that interrupted the claim of the lane had none to count in. */
	assert_int_equal(sh->stats.dropped,
			 lane->dropped_signal + t.a[0].reader.ctl->dropped_no_lane);
	assert_int_equal(sh->stats.accepted,
			 frames[0] + frames[1] + rest + t.a[0].reader.lane[0].overwritten);
	/* Main never loses one; what is left is its end. */
	assert_true(next[0] == sh->main_sent);
	assert_int_equal(lane->depth, 0);
	/* Both ways were gone. */
	assert_true(frames[1] > 0);
	if (!RIG_SANITIZED) /* those put off handlers to calm moments */
		assert_true(lane->dropped_signal > 0);
	rig_play_done(&rig, &t);
}

/* A handler may be what records first in a thread. */
static void first_child(void *arg)
{
	struct sigaction sa = {.sa_handler = on_alarm};

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	gauge = lapse_gauge("main", NULL, NULL, NULL);
	other = lapse_gauge("handler", NULL, NULL, NULL);
	name = lapse_name("span");
	CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
	raise(SIGALRM);
	send_frame(0, 0);
	lapse_stats(&sh->stats);
	CHECK(sh->stats.accepted == 4 && sh->stats.dropped == 0);
}

static void test_first(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	rig_play_one(&rig, &t, first_child);
	assert_int_equal(tape_records(&t.a[0]), 4);
	assert_int_equal(tape_at(&t.a[0], 0)->type, WIRE_FRAME);
	assert_int_equal(tape_at(&t.a[0], 2)->type, WIRE_SPAN);
	rig_play_done(&rig, &t);
}

/* While threads come and go: claiming and giving back are interrupted, too. */
static void *brief(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 20; i++)
		send_frame(0, (uint64_t)i);
	return NULL;
}

static uint64_t calls;

static void on_alarm_anywhere(int sig)
{
	(void)sig;
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	send_frame(1, 0);
}

#define BRIEF 800

static void churn_child(void *arg)
{
	struct sigaction sa = {.sa_handler = on_alarm_anywhere};
	struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
	struct lapse_options o = {.size = sizeof(o), .ring_bytes = 16 << 20, .lanes = 4};
	struct lapse_stats after;
	pthread_t thread;
	sigset_t set;
	int i;

	(void)arg;
	CHECK(lapse_open(&o) == 0);
	gauge = lapse_gauge("main", NULL, NULL, NULL);
	other = lapse_gauge("handler", NULL, NULL, NULL);
	CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	/* The threads get the signals. */
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	for (i = 0; i < BRIEF; i++) {
		CHECK(pthread_create(&thread, NULL, brief, NULL) == 0);
		pthread_sigmask(SIG_BLOCK, &set, NULL);
		pthread_join(thread, NULL);
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	}
	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	lapse_stats(&sh->stats);
	sh->handler_calls = calls;
	/* Lanes that handlers took in threads that were as good as ended are found. */
	nanosleep(&(struct timespec){0, 30000000}, NULL);
	for (i = 0; i < 4; i++) {
		CHECK(pthread_create(&thread, NULL, brief, NULL) == 0);
		pthread_join(thread, NULL);
	}
	lapse_stats(&after);
	CHECK(after.accepted == sh->stats.accepted + 4 * 20);
	sh->stats = after;
	lapse_close();
}

static void test_churn(void **state)
{
	uint64_t ignored[2], n = 0;
	struct rig rig;
	struct tapes t;
	size_t i;
	uint32_t k;

	(void)state;
	rig_play_one(&rig, &t, churn_child);
	for (i = 0; i < t.a[0].n; i++) {
		if (t.a[0].items[i].r->type == WIRE_OWNER)
			continue;
		ignored[0] = ignored[1] = 0;
		check_frame(t.a[0].items[i].r, ignored);
		n++;
	}
	for (k = 0; k < t.a[0].reader.ring.lanes; k++)
		n += t.a[0].reader.lane[k].overwritten;
	assert_int_equal(n, sh->stats.accepted);
	assert_int_equal(sh->stats.attempts, (BRIEF + 4) * 20 + sh->handler_calls);
	rig_play_done(&rig, &t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hammer),
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_churn),
	};

	sh = rig_share(sizeof(*sh));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
