/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent over a sink in memory: how a run that was called hung is said to have ended,
 * when the agent leaves, rings of another clock than its own, a store that cannot be opened.
 */
#include "agent/agent.h"
#include "base/log.h"
#include "memory_sink.h"
#include "plain_store.h"
#include "record/record_priv.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"
#include "wire/run.h"

#include <lapse/lapse.h>

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define RUN_NAME "20260101-000000-life"
#define MS 1000000ll

static char dir[64];
static struct memory_sink *memory;
static int open_fails; /* so many times */
static struct run_outcome stored;
static bool stored_over; /* there was an event hang-over before */

static int store_open(const struct run_start *r, void **ret_handle, struct sink **ret_sink,
		      struct err *e)
{
	(void)r;
	if (open_fails > 0) {
		open_fails--;
		return err_set(e, -ENOSPC, "the disk is full");
	}
	*ret_handle = memory;
	*ret_sink = &memory->sink;
	return 0;
}

static int store_end(void *handle, const struct run_outcome *o, struct err *e)
{
	(void)handle;
	(void)e;
	stored = *o;
	stored_over = memory_event(memory, "hang-over") >= 0;
	return 0;
}

static void setup_one(void)
{
	strcpy(dir, "/dev/shm/test-life-XXXXXX");
	assert_non_null(mkdtemp(dir));
	memory = memory_sink_new();
}

static void teardown_one(void)
{
	char command[128];

	memory_sink_free(memory);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	assert_int_equal(system(command), 0);
}

static void steps(int n)
{
	for (; n > 0; n--) {
		lapse_step_begin(LAPSE_STEP_NEXT);
		lapse_step_end(1, 1);
	}
}

/* ---- hung, and then ----------------------------------------------------------------------- */

static const struct end {
	char last; /* what it does before it ends: a step, a record, nothing; be killed */
	int code;
	int kind;
	bool over;
	const char *evidence;
} ends[] = {
	{'s', 0, RUN_EXITED, true, NULL},  /* it resumed */
	{'-', 0, RUN_EXITED, false, NULL}, /* it waited */
	{'s', 1, RUN_EXITED, true, NULL},
	{'r', 1, RUN_HUNG, false, "; then it exited with status 1"}, /* a record of its end */
	{'k', -1, RUN_SIGNALED, false, "; then it was killed by SIGKILL"},
};

static const struct end *row;
static pid_t command;
static int go; /* the command waits for a byte */

static void be_quiet(int ready, int wait)
{
	char byte;

	setenv("LAPSE_RENDEZVOUS", dir, 1);
	setenv("LAPSE_RUN", RUN_NAME, 1);
	if (lapse_open(NULL) < 0)
		_exit(9);
	steps(3);
	if (write(ready, "", 1) != 1 || read(wait, &byte, 1) != 1)
		_exit(9);
	if (byte == 's')
		steps(1);
	else if (byte == 'r')
		lapse_event(LAPSE_ERROR, "end", "it ends", "");
	else if (byte == 'k')
		raise(SIGKILL);
	_exit(row->code);
}

static void start_command(void)
{
	static struct run_start r = {.id = RUN_NAME, .name = "life", .stall_after_ms = 500};
	int ready[2], wait[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(wait), 0);
	command = fork();
	if (command == 0)
		be_quiet(ready[1], wait[0]);
	close(ready[1]);
	close(wait[0]);
	go = wait[1];
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	plain_write_start(dir, &r, command);
}

/* The agent has looked at this second. If the run is hung by now it ends. */
static void end_when_hung(void *handle, bool is_aside)
{
	struct run_outcome *o;
	int status;

	(void)handle;
	(void)is_aside;
	if (!command || memory_event(memory, "hung") < 0)
		return;
	assert_int_equal(write(go, &row->last, 1), 1);
	assert_int_equal(waitpid(command, &status, 0), command);
	command = 0;
	close(go);
	o = calloc(1, sizeof(*o));
	assert_non_null(o);
	*o = (struct run_outcome){.id = RUN_NAME,
				  .kind = WIFSIGNALED(status) ? RUN_SIGNALED : RUN_EXITED,
				  .code = WIFSIGNALED(status) ? -1 : WEXITSTATUS(status),
				  .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
				  .end_ns = clock_ns(CLOCK_REALTIME)};
	assert_int_equal(o->code, row->code);
	plain_write_outcome(dir, o);
	free(o);
}

static void test_hung_and_then(void **state)
{
	static const struct agent_store store = {.open = store_open,
						 .start = plain_start,
						 .tend = plain_tend,
						 .aside = end_when_hung,
						 .end = store_end,
						 .close = plain_leave,
						 .why = plain_why};
	struct agent_options o = {.rendezvous = dir, .store = &store};
	struct err e = {0};

	(void)state;
	for (row = ends; row < ends + sizeof(ends) / sizeof(ends[0]); row++) {
		setup_one();
		start_command();
		assert_int_equal(agent_run(&o, &e), 0);
		assert_int_equal(command, 0);
		assert_int_equal(stored.kind, row->kind);
		assert_int_equal(stored_over, row->over);
		assert_int_equal(stored.evidence[0] != '\0', row->evidence != NULL);
		if (row->evidence)
			assert_non_null(strstr(stored.evidence, row->evidence));
		teardown_one();
	}
}

/* ---- when the agent leaves ------------------------------------------------------------------ */

/* A process that makes its own run, in a moment. */
static pid_t start_own(int after_ms, int for_ms, uint32_t clock)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	setenv("LAPSE_RENDEZVOUS", dir, 1);
	setenv("LAPSE_DIR", dir, 1);
	unsetenv("LAPSE_RUN");
	usleep((unsigned)after_ms * 1000);
	rec.clock = clock;
	if (lapse_open(NULL) < 0)
		_exit(9);
	for (; for_ms > 0; for_ms -= 20) {
		steps(1);
		usleep(20000);
	}
	lapse_close();
	_exit(0);
}

/* It has been idle for long enough, and sleeps until its second is over: then a run comes. */
static void test_a_run_comes_as_it_would_leave(void **state)
{
	static const struct agent_store store = {.open = store_open,
						 .start = plain_start,
						 .tend = plain_tend,
						 .end = store_end,
						 .close = plain_tend,
						 .why = plain_why};
	struct agent_options o = {.rendezvous = dir, .store = &store, .idle_exit_ns = 100 * MS};
	struct agent_stats stats = {0};
	struct err e = {0};
	int i, status;
	pid_t pid;

	(void)state;
	/* On a busy machine it may come too late. */
	for (i = 0; i < 10 && !stats.runs; i++) {
		setup_one();
		usleep((unsigned)((1050 * MS - clock_ns(CLOCK_MONOTONIC) % (1000 * MS)) / 1000));
		pid = start_own(300, 200, 0);
		assert_int_equal(agent_run(&o, &e), 0);
		agent_stats(&stats);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		teardown_one();
	}
	assert_int_equal(stats.runs, 1);
	assert_int_equal(stats.finished, 1);
}

/* ---- rings of another clock ---------------------------------------------------------------- */

static void test_rings_of_another_clock(void **state)
{
	static const struct agent_store store = {.open = store_open,
						 .start = plain_start,
						 .tend = plain_tend,
						 .end = store_end,
						 .close = plain_leave,
						 .why = plain_why};
	struct agent_options o = {.rendezvous = dir, .store = &store};
	uint32_t other =
		clock_kind() == WIRE_CLOCK_MONOTONIC ? WIRE_CLOCK_TSC : WIRE_CLOCK_MONOTONIC;
	int64_t begin, end;
	struct err e = {0};
	int status;
	pid_t pid;
	size_t i;

	(void)state;
	setup_one();
	begin = clock_ns(CLOCK_REALTIME);
	pid = start_own(0, 2500, other);
	assert_int_equal(agent_run(&o, &e), 0);
	end = clock_ns(CLOCK_REALTIME);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(memory_event(memory, "suspend"), -1);
	assert_int_equal(memory_event(memory, "clock-step"), -1);
	assert_true(memory->n_samples > 50);
	for (i = 0; i < memory->n_samples; i++)
		assert_true(memory->samples[i].time_ns >= begin - 100 * MS &&
			    memory->samples[i].time_ns <= end + 100 * MS);
	teardown_one();
}

/* ---- a store that cannot be opened ----------------------------------------------------------- */

static int count(const char *text, const char *what)
{
	int n = 0;

	for (text = strstr(text, what); text; text = strstr(text + 1, what))
		n++;
	return n;
}

static void test_a_full_disk_is_told_once(void **state)
{
	static const struct agent_store store = {.open = store_open,
						 .start = plain_start,
						 .tend = plain_tend,
						 .end = store_end,
						 .close = plain_leave,
						 .why = plain_why};
	struct agent_options o = {.rendezvous = dir, .store = &store};
	FILE *log = tmpfile();
	char text[8192];
	struct err e = {0};
	int status;
	pid_t pid;
	size_t n;

	(void)state;
	assert_non_null(log);
	setup_one();
	open_fails = 3;
	pid = start_own(0, 100, 0);
	log_open(fileno(log), LOG_LEVEL_INFO);
	assert_int_equal(agent_run(&o, &e), 0);
	log_open(STDERR_FILENO, LOG_LEVEL_INFO);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(open_fails, 0);
	rewind(log);
	n = fread(text, 1, sizeof(text) - 1, log);
	text[n] = '\0';
	fclose(log);
	assert_int_equal(count(text, "the disk is full"), 1);
	assert_int_equal(count(text, "its store is open again"), 1);
	teardown_one();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hung_and_then),
		cmocka_unit_test(test_a_run_comes_as_it_would_leave),
		cmocka_unit_test(test_rings_of_another_clock),
		cmocka_unit_test(test_a_full_disk_is_told_once),
	};

	return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
