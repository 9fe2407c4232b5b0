/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent over a sink in memory: what waits in a full ring is stored in commits of
 * limited size, all of it; the end of a run is stored behind all that belongs to it; rings that
 * cannot be opened for want of descriptors wait.
 */
#include "agent/agent.h"
#include "memory_sink.h"
#include "plain_store.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"
#include "wire/run.h"

#include <lapse/lapse.h>

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 3
#define FRAMES 50
#define VALUES 1000
#define COMMIT_SAMPLES 65536 /* docs/wire.md */

static char dir[64];
static struct memory_sink *memory;
static struct lapse_value frame[VALUES];

static void *record_frames(void *arg)
{
	int i;

	for (i = 0; i < FRAMES; i++)
		lapse_log(frame, VALUES);
	return arg;
}

/* A process that records while there is no agent, and leaves. */
static void record(void)
{
	struct lapse_options o = {.size = sizeof(o), .ring_bytes = 16u << 20, .lanes = 4};
	pthread_t t[THREADS];
	char name[32];
	int i;

	setenv("LAPSE_RENDEZVOUS", dir, 1);
	setenv("LAPSE_DIR", dir, 1);
	if (lapse_open(&o) < 0)
		_exit(1);
	for (i = 0; i < VALUES; i++) {
		snprintf(name, sizeof(name), "m/%d", i % 32);
		frame[i].metric = lapse_gauge(name, "1", "", NULL);
	}
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, record_frames, NULL) != 0)
			_exit(2);
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	lapse_close();
	_exit(0);
}

static int store_open(const struct run_start *r, void **ret_handle, struct sink **ret_sink,
		      struct err *e)
{
	(void)r;
	(void)e;
	*ret_handle = memory;
	*ret_sink = &memory->sink;
	return 0;
}

static void test_commits_are_limited(void **state)
{
	static const struct agent_store store = {.open = store_open,
						 .start = plain_start,
						 .tend = plain_tend,
						 .end = plain_end,
						 .close = plain_tend,
						 .why = plain_why};
	struct agent_options o = {.rendezvous = dir, .once = true, .store = &store};
	struct agent_stats stats;
	struct err e = {0};
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0)
		record();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(agent_run(&o, &e), 0);
	agent_stats(&stats);
	assert_int_equal(stats.failed_commits, 0);
	assert_int_equal(memory->n_samples, THREADS * FRAMES * VALUES);
	assert_in_range(memory->largest, 1, COMMIT_SAMPLES);
	assert_true(memory->commits >= 3);
}

/* ---- an end that comes while the agent looks -------------------------------------------- */

#define RUN_NAME "20260101-000000-ends"

static pid_t doomed;
static int ends, crashes_before_end;

/* A command that records until it is killed. */
static void record_on(int ready)
{
	setenv("LAPSE_RENDEZVOUS", dir, 1);
	setenv("LAPSE_RUN", RUN_NAME, 1);
	if (lapse_open(NULL) < 0 || write(ready, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void start_command(void)
{
	static struct run_start r = {.id = RUN_NAME, .name = "ends"};
	int ready[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	doomed = fork();
	if (doomed == 0)
		record_on(ready[1]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	plain_write_start(dir, &r, doomed);
}

/* The agent has looked at the processes: now one dies, and the launcher says so. */
static void die_behind_the_look(void *handle, bool is_aside)
{
	static struct run_outcome o = {
		.id = RUN_NAME, .kind = RUN_SIGNALED, .code = -1, .signal = SIGKILL};

	(void)handle;
	(void)is_aside;
	if (doomed == 0)
		return;
	kill(doomed, SIGKILL);
	assert_int_equal(waitpid(doomed, NULL, 0), doomed);
	doomed = 0;
	o.end_ns = clock_ns(CLOCK_REALTIME);
	plain_write_outcome(dir, &o);
}

static int count_end(void *handle, const struct run_outcome *o, struct err *e)
{
	(void)handle;
	(void)e;
	ends++;
	crashes_before_end += memory_event(memory, "crash") >= 0;
	return o->kind == RUN_SIGNALED ? 0 : -EINVAL;
}

static void test_an_end_that_comes_behind_the_look(void **state)
{
	static const struct agent_store store = {.open = store_open,
						 .start = plain_start,
						 .tend = plain_tend,
						 .aside = die_behind_the_look,
						 .end = count_end,
						 .close = plain_leave,
						 .why = plain_why};
	struct agent_options o = {.rendezvous = dir, .store = &store};
	struct err e = {0};

	(void)state;
	start_command();
	assert_int_equal(agent_run(&o, &e), 0);
	assert_int_equal(doomed, 0);
	assert_int_equal(ends, 1);
	assert_int_equal(crashes_before_end, 1);
}

/* ---- more rings than descriptors --------------------------------------------------------- */

#define SHORT_LIVED 30
#define DESCRIPTORS 20 /* for the agent: half of them are its own */

static void record_shortly(void)
{
	setenv("LAPSE_RENDEZVOUS", dir, 1);
	setenv("LAPSE_RUN", RUN_NAME, 1);
	setenv("LAPSE_DIR", dir, 1);
	if (lapse_open(NULL) < 0)
		_exit(1);
	lapse_set(lapse_gauge("loss", "", "", NULL), 1);
	lapse_close();
	_exit(0);
}

/* What is wrong, as an exit status. */
static int serve_with_few_descriptors(const struct agent_store *store)
{
	struct agent_options o = {.rendezvous = dir, .store = store};
	int next = dup(0), ended = 0;
	struct agent_stats stats;
	struct rlimit few;
	struct err e = {0};
	size_t i;

	close(next);
	few.rlim_cur = few.rlim_max = (rlim_t)next + DESCRIPTORS;
	alarm(40);
	if (setrlimit(RLIMIT_NOFILE, &few) < 0 || agent_run(&o, &e) < 0)
		return 1;
	agent_stats(&stats);
	for (i = 0; i < memory->n_process; i++)
		ended += memory->process[i].end_ns > 0;
	if (stats.refused || stats.runs != 1 || stats.rings != SHORT_LIVED)
		return 2;
	return ended == SHORT_LIVED ? 0 : 3;
}

static void test_more_rings_than_descriptors(void **state)
{
	static const struct agent_store store = {.open = store_open,
						 .start = plain_start,
						 .tend = plain_tend,
						 .end = plain_end,
						 .close = plain_leave,
						 .why = plain_why};
	char command[128];
	int i, status;
	pid_t pid;

	(void)state;
	for (i = 0; i < SHORT_LIVED; i++) {
		pid = fork();
		if (pid == 0)
			record_shortly();
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	pid = fork();
	if (pid == 0)
		_exit(serve_with_few_descriptors(&store));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	snprintf(command, sizeof(command), "test -z \"$(ls '%s/rings')\"", dir);
	assert_int_equal(system(command), 0);
}

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/dev/shm/test-agent-XXXXXX");
	memory = memory_sink_new();
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	memory_sink_free(memory);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_commits_are_limited, setup, teardown),
		cmocka_unit_test_setup_teardown(test_an_end_that_comes_behind_the_look, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_more_rings_than_descriptors, setup, teardown),
	};

	return cmocka_run_group_tests_name("agent", tests, NULL, NULL);
}
