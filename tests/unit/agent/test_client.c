/* SPDX-License-Identifier: Apache-2.0
 *
 * One ring through the client library's writing end and the agent's client into
 * a sink in memory: what comes out, what a failed commit and a new agent do, and
 * what is said of a process that died.
 */
#include "agent/client.h"
#include "memory_sink.h"
#include "wire/clock.h"

#include <lapse/lapse.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];
static int rings = -1;
static unsigned char buf[WIRE_REC_SLOTS_MAX * WIRE_SLOT * 4] __attribute__((aligned(64)));

/* The ring of the only child. */
static void find_ring(char ring[256])
{
	struct dirent *e;
	DIR *d;

	snprintf(ring, 256, "%s/rings", dir);
	rings = open(ring, O_RDONLY | O_DIRECTORY);
	ring[0] = '\0';
	d = fdopendir(openat(rings, ".", O_RDONLY | O_DIRECTORY));
	while (d && (e = readdir(d)))
		if (strstr(e->d_name, ".ring"))
			snprintf(ring, 256, "%s", e->d_name);
	closedir(d);
	assert_true(ring[0]);
}

/* Run fn in a child with a fresh library; kill it with SIGKILL afterwards if
 * kill_it. Returns the name of its ring. */
static void in_child(void (*fn)(void), bool kill_it, char ring[256])
{
	int ready[2], status;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		setenv("LAPSE_RENDEZVOUS", dir, 1);
		unsetenv("RANK");
		if (lapse_open(NULL) < 0)
			_exit(9);
		fn();
		if (!kill_it)
			lapse_close();
		if (write(ready[1], "x", 1) != 1)
			_exit(8);
		if (kill_it)
			pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	if (kill_it)
		kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(kill_it ? WIFSIGNALED(status) : WIFEXITED(status) && !WEXITSTATUS(status));
	find_ring(ring);
}

static void forget(void)
{
	char command[128];

	close(rings);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	assert_int_equal(system(command), 0);
}

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/dev/shm/test-client-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	forget();
	return 0;
}

static struct client *attach(struct memory_sink *m, const char *ring)
{
	struct client_epoch epoch = {clock_ns(CLOCK_REALTIME), clock_ns(CLOCK_BOOTTIME)};
	struct client *c;
	char why[128] = "";

	if (client_open(&c, rings, ring, &epoch, &m->sink, why) < 0)
		fail_msg("%s", why);
	return c;
}

/* Everything there is, in one commit; the commit's result. */
static int drain(struct client *c)
{
	uint64_t slots = 1u << 20;
	int err = client_drain(c, buf, sizeof(buf), &slots);

	assert_true(slots > 0);
	assert_int_equal(err, 0);
	assert_int_equal(client_before_commit(c), 0);
	err = c->sink->ops->commit(c->sink);
	client_after_commit(c, err);
	return err;
}

static void record_everything(void)
{
	static const char *const labels[] = {"layer", "3", "gpu", "0", NULL};
	struct lapse_metric loss = lapse_gauge("loss", "nat", "the loss", NULL);
	struct lapse_metric norm = lapse_gauge("norm", "", "", labels);
	struct lapse_metric tokens = lapse_counter("tokens", "1", "", NULL);
	struct lapse_metric wait = lapse_histogram("wait", "s", "", NULL);
	struct lapse_value frame[3] = {{1.5, loss}, {2.5, norm}, {3.5, {0}}};
	int64_t now;
	int i;

	lapse_set_rank(3, 1, 8);
	lapse_attr("optimizer", "adamw");
	lapse_set(loss, 10.0);
	for (i = 0; i < 5; i++) {
		lapse_step_begin(i);
		{
			LAPSE_SCOPE("forward");
			lapse_set(loss, i);
		}
		lapse_observe(wait, 0.5 + i);
		lapse_add(tokens, 100);
		lapse_step_end(32, i == 4 ? NAN : 100);
	}
	lapse_log(frame, 3);
	now = lapse_now();
	lapse_set_at(loss, 99.0, 2, now - 1000000000);
	lapse_epoch_begin(0);
	lapse_epoch_end();
	lapse_event(LAPSE_WARNING, "checkpoint", "saved", "{\"path\":\"x\"}");
}

static void test_everything_arrives(void **state)
{
	struct memory_sink *m = memory_sink_new();
	char ring[256];
	struct client *c;
	double v[16];
	uint32_t id;
	int64_t now;
	size_t i;

	(void)state;
	in_child(record_everything, false, ring);
	c = attach(m, ring);
	assert_int_equal(drain(c), 0);
	id = memory_series(m, "loss", "");
	assert_int_equal(memory_values(m, id, v, 16), 8);
	assert_true(v[0] == 10.0 && v[1] == 0.0 && v[5] == 4.0 && v[6] == 1.5 && v[7] == 99.0);
	assert_int_equal(memory_values(m, memory_series(m, "norm", "gpu=\"0\",layer=\"3\""), v, 16),
			 1);
	assert_int_equal(memory_values(m, memory_series(m, "tokens", ""), v, 16), 5);
	assert_int_equal(memory_values(m, memory_series(m, "forward", ""), v, 16), 5);
	assert_int_equal(m->series[memory_series(m, "forward", "") - 1].kind, SINK_SPAN);
	assert_int_equal(memory_values(m, memory_series(m, "step", ""), v, 16), 5);
	assert_int_equal(memory_values(m, memory_series(m, "lapse/step/samples", ""), v, 16), 5);
	assert_int_equal(memory_values(m, memory_series(m, "lapse/step/tokens", ""), v, 16), 4);
	assert_int_equal(memory_values(m, memory_series(m, "epoch", ""), v, 16), 1);
	assert_int_equal(m->n_hists, 1);
	assert_int_equal(m->hists[0].count, 5);
	assert_true(m->hists[0].min == 0.5 && m->hists[0].max == 4.5 && m->hists[0].sum == 12.5);
	assert_string_equal(m->events[memory_event(m, "checkpoint")].attrs, "{\"path\":\"x\"}");
	assert_string_equal(m->attrs[0].key, "optimizer");
	assert_int_equal(m->process[0].rank, 3);
	/* Times are now, within the test's duration; steps are the current ones. */
	now = clock_ns(CLOCK_REALTIME);
	for (i = 0; i < m->n_samples; i++)
		assert_true(llabs(m->samples[i].time_ns - now) < 60000000000);
	for (i = 0; i < m->n_samples; i++)
		if (m->samples[i].series == id && m->samples[i].value == 99.0) {
			assert_int_equal(m->samples[i].step, 2);
			assert_true(now - m->samples[i].time_ns > 900000000);
		}
	assert_int_equal(m->samples[0].step, SINK_STEP_NONE);
	client_end(c, rings, now);
	m->sink.ops->commit(&m->sink);
	assert_int_equal(memory_event(m, "crash"), -1);
	client_free(c);
	memory_sink_free(m);
}

static void record_numbers(void)
{
	struct lapse_metric n = lapse_gauge("n", "1", "", NULL);
	struct lapse_metric h = lapse_histogram("h", "1", "", NULL);
	int i;

	for (i = 0; i < 40000; i++) {
		lapse_set(n, i);
		if (i % 10 == 0)
			lapse_observe(h, 1.0);
	}
}

static void assert_numbers(struct memory_sink *m)
{
	double *v = calloc(60000, sizeof(*v));
	uint64_t observed = 0;
	size_t i, n = memory_values(m, memory_series(m, "n", ""), v, 60000);

	assert_int_equal(n, 40000);
	for (i = 0; i < n; i++)
		assert_true(v[i] == (double)i);
	for (i = 0; i < m->n_hists; i++)
		observed += m->hists[i].count;
	assert_int_equal(observed, 4000);
	free(v);
}

/* A commit fails (disk full): nothing of it counts, all is read again. */
static void test_failed_commit(void **state)
{
	struct memory_sink *m = memory_sink_new();
	char ring[256];
	struct client *c;

	(void)state;
	in_child(record_numbers, true, ring);
	c = attach(m, ring);
	m->fail_commits = 3;
	while (drain(c) != 0)
		;
	assert_int_equal(m->commits, 1);
	assert_numbers(m);
	client_free(c);
	memory_sink_free(m);
}

/* The agent dies between commit and ack: the next one resumes from the store. */
static void test_killed_before_ack(void **state)
{
	struct memory_sink *m = memory_sink_new();
	char ring[256];
	struct client *c;
	uint64_t slots;
	int i;

	(void)state;
	in_child(record_numbers, true, ring);
	for (i = 0; i < 4; i++) {
		c = attach(m, ring);
		slots = 1000;
		assert_int_equal(client_drain(c, buf, sizeof(buf), &slots), 0);
		assert_int_equal(client_before_commit(c), 0);
		assert_int_equal(m->sink.ops->commit(&m->sink), 0);
		client_free(c);
	}
	c = attach(m, ring);
	drain(c);
	drain(c);
	assert_numbers(m);
	client_free(c);
	memory_sink_free(m);
}

static pthread_barrier_t all_recorded;

/* Four threads, 400 sets each, with the OWNER record 402 slots; nobody's lane is free
 * before all have one. */
static void *record_thread(void *arg)
{
	struct lapse_metric n = lapse_gauge("n", "1", "", NULL);
	int i;

	for (i = 0; i < 400; i++)
		lapse_set(n, i);
	pthread_barrier_wait(&all_recorded);
	return arg;
}

static void record_threads(void)
{
	pthread_t t[4];
	int i;

	pthread_barrier_init(&all_recorded, NULL, 4);
	for (i = 0; i < 4; i++)
		if (pthread_create(&t[i], NULL, record_thread, NULL) != 0)
			_exit(7);
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

/* A call that ends at its limit goes on with the next lane, and nothing is lost. */
static void test_lanes_in_turn(void **state)
{
	struct memory_sink *m = memory_sink_new();
	uint64_t slots, taken[4];
	char ring[256];
	struct client *c;
	size_t i, k;

	(void)state;
	in_child(record_threads, false, ring);
	c = attach(m, ring);
	for (i = 0; i < 4; i++) {
		slots = 10;
		assert_int_equal(client_drain(c, buf, 100 * WIRE_SLOT, &slots), 0);
		assert_int_equal(slots, 0);
		for (k = 0; k < 4; k++)
			taken[k] = c->reader.lane[k].pos;
		for (k = 0; k < 4; k++)
			assert_int_equal(taken[k], k <= i ? 100 : 0);
	}
	drain(c);
	assert_int_equal(memory_values(m, memory_series(m, "n", ""), NULL, 0), 1600);
	client_free(c);
	memory_sink_free(m);
}

static int ask_late[2], tell_late[2];
static int (*series_before)(struct sink *s, const struct sink_series *d, uint32_t *ret_id);

static void *record_late(void *arg)
{
	lapse_set(lapse_gauge("late", "", "", NULL), 2);
	return arg;
}

/* Records in its first lane, and when it is told to, something new in the next. */
static void be_late(void)
{
	pthread_t thread;
	char byte;

	setenv("LAPSE_RENDEZVOUS", dir, 1);
	unsetenv("RANK");
	if (lapse_open(NULL) < 0)
		_exit(9);
	lapse_set(lapse_gauge("early", "", "", NULL), 1);
	if (write(tell_late[1], "x", 1) != 1 || read(ask_late[0], &byte, 1) != 1)
		_exit(8);
	if (pthread_create(&thread, NULL, record_late, NULL) || pthread_join(thread, NULL))
		_exit(7);
	if (write(tell_late[1], "x", 1) != 1)
		_exit(6);
	alarm(30); /* a test that failed does not end it */
	pause();
}

static int series_after_late(struct sink *s, const struct sink_series *d, uint32_t *ret_id)
{
	char byte;

	if (!strcmp(d->name, "early") &&
	    (write(ask_late[1], "x", 1) != 1 || read(tell_late[0], &byte, 1) != 1))
		return -EIO;
	return series_before(s, d, ret_id);
}

/* A metric that is defined while lanes are read: its records are in a later lane already. */
static void test_defined_meanwhile(void **state)
{
	struct memory_sink *m = memory_sink_new();
	struct sink_ops ops = *m->sink.ops;
	char ring[256], byte;
	struct client *c;
	double value;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(ask_late) | pipe(tell_late), 0);
	pid = fork();
	if (pid == 0)
		be_late();
	assert_int_equal(read(tell_late[0], &byte, 1), 1);
	find_ring(ring);
	series_before = ops.series;
	ops.series = series_after_late;
	m->sink.ops = &ops;
	c = attach(m, ring);
	assert_int_equal(drain(c), 0);
	assert_int_equal(memory_values(m, memory_series(m, "late", ""), &value, 1), 1);
	assert_true(value == 2);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	client_free(c);
	memory_sink_free(m);
}

static void record_open_spans(void)
{
	struct lapse_metric loss = lapse_gauge("loss", "", "", NULL);

	lapse_step_begin(41);
	lapse_step_end(1, 1);
	lapse_step_begin(42);
	lapse_span_begin(lapse_name("forward"));
	lapse_span_begin(lapse_name("all_reduce"));
	lapse_set(loss, 0.25);
}

static void test_crash_tells_what_it_did(void **state)
{
	struct memory_sink *m = memory_sink_new();
	char ring[256], name[256];
	struct client *c;
	int i;

	(void)state;
	in_child(record_open_spans, true, ring);
	c = attach(m, ring);
	drain(c);
	assert_false(reader_is_alive(&c->reader, rings));
	assert_int_equal(client_open_spans(c, name, sizeof(name)), 2);
	assert_string_equal(name, "forward");
	client_end(c, rings, clock_ns(CLOCK_REALTIME));
	m->sink.ops->commit(&m->sink);
	i = memory_event(m, "crash");
	assert_true(i >= 0);
	assert_non_null(strstr(m->events[i].attrs, "\"name\":\"all_reduce\""));
	assert_non_null(strstr(m->events[i].attrs, "\"step\":42"));
	assert_non_null(strstr(m->events[i].attrs, "\"value\":0.25"));
	assert_non_null(strstr(m->events[i].attrs, "\"in_step\":true"));
	client_free(c);
	memory_sink_free(m);
}

static void record_conflict(void)
{
	lapse_set(lapse_gauge("x", "s", "", NULL), 1);
	lapse_add(lapse_counter("x", "s", "", NULL), 2);
}

static void test_conflict_first_wins(void **state)
{
	struct memory_sink *m = memory_sink_new();
	char ring[256];
	struct client *c;

	(void)state;
	in_child(record_conflict, false, ring);
	c = attach(m, ring);
	drain(c);
	assert_int_equal(memory_values(m, memory_series(m, "x", ""), NULL, 0), 2);
	assert_int_equal(m->series[memory_series(m, "x", "") - 1].kind, SINK_GAUGE);
	assert_true(memory_event(m, "definition-conflict") >= 0);
	client_free(c);
	memory_sink_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_everything_arrives, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failed_commit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed_before_ack, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lanes_in_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(test_defined_meanwhile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_crash_tells_what_it_did, setup, teardown),
		cmocka_unit_test_setup_teardown(test_conflict_first_wins, setup, teardown),
	};

	return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
