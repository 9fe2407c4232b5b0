/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent over a sink in memory: what waits in a full ring is stored in commits of
 * limited size, all of it.
 */
#include "agent/agent.h"
#include "memory_sink.h"

#include <lapse/lapse.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static int store_start(void *handle, const struct run_start *r, struct err *e)
{
	(void)handle;
	(void)r;
	(void)e;
	return 0;
}

static int store_tend(void *handle, struct err *e)
{
	(void)handle;
	(void)e;
	return 0;
}

static int store_end(void *handle, const struct run_outcome *o, struct err *e)
{
	(void)handle;
	(void)o;
	(void)e;
	return 0;
}

static const char *store_why(void *handle)
{
	(void)handle;
	return "told to fail";
}

static void test_commits_are_limited(void **state)
{
	static const struct agent_store store = {.open = store_open,
						 .start = store_start,
						 .tend = store_tend,
						 .end = store_end,
						 .close = store_tend,
						 .why = store_why};
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
	};

	return cmocka_run_group_tests_name("agent", tests, NULL, NULL);
}
