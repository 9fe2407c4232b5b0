/* SPDX-License-Identifier: Apache-2.0
 *
 * A run over sinks in memory: its store is dropped and opened again, a commit fails, and its
 * processes end meanwhile; what is deleted of one that has ended, and what is not.
 */
#include "agent/live.h"
#include "agent/headroom.h"
#include "base/mem.h"
#include "memory_sink.h"
#include "plain_store.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"

#include <lapse/lapse.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define RUN_NAME "20260101-000000-live"
#define STEP_S 100 /* that the wall clock is set forward */

static char dir[64];
static int rings = -1;
static struct memory_sink *memory[2]; /* the first store, and the one in its place */
static int opened, tend_result;

static int store_open(const struct run_start *r, void **ret_handle, struct sink **ret_sink,
		      struct err *e)
{
	(void)r;
	(void)e;
	assert_in_range(opened, 0, 1);
	*ret_handle = memory[opened];
	*ret_sink = &memory[opened++]->sink;
	return 0;
}

static int store_tend(void *handle, struct err *e)
{
	(void)handle;
	(void)e;
	return tend_result;
}

/* What is told to it now is told to nobody. */
static int store_close(void *handle, struct err *e)
{
	struct memory_sink *m = handle;

	(void)e;
	m->sink.ops = NULL;
	return 0;
}

static const struct agent_store store = {.open = store_open,
					 .start = plain_start,
					 .tend = store_tend,
					 .end = plain_end,
					 .close = store_close,
					 .why = plain_why};

/* A process of the run that lives until it is killed; it may close its ring before. */
static pid_t start(bool closes)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setenv("LAPSE_RENDEZVOUS", dir, 1);
		setenv("LAPSE_RUN", RUN_NAME, 1);
		if (lapse_open(NULL) < 0)
			_exit(1);
		lapse_set(lapse_gauge("loss", "", "", NULL), 1);
		if (closes)
			lapse_close();
		if (write(ready[1], "", 1) != 1)
			_exit(2);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

/* One that records until then. */
static pid_t start_process(void)
{
	return start(false);
}

static void end_process(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Files of a process in rings/. */
static int files_of(pid_t pid)
{
	DIR *d = fdopendir(openat(rings, ".", O_RDONLY | O_DIRECTORY));
	struct dirent *e;
	int n = 0;

	assert_non_null(d);
	while ((e = readdir(d)))
		n += atol(e->d_name) == pid;
	closedir(d);
	return n;
}

static void attach_all(struct live *l)
{
	DIR *d = fdopendir(openat(rings, ".", O_RDONLY | O_DIRECTORY));
	struct dirent *e;
	char why[128] = "";

	assert_non_null(d);
	while ((e = readdir(d))) {
		int err = strstr(e->d_name, ".ring") ? live_attach(l, rings, e->d_name, why) : 0;

		if (err && err != -EEXIST)
			fail_msg("%s", why);
	}
	closedir(d);
}

static struct live *begin(pid_t child)
{
	static struct run_start r = {.id = RUN_NAME, .name = "live"};
	struct live *l;

	r.child_pid = child;
	r.child_start = rendezvous_start_time(child);
	r.start_ns = clock_ns(CLOCK_REALTIME);
	r.start_boot_ns = clock_ns(CLOCK_BOOTTIME);
	l = live_new(&r, false, &store);
	attach_all(l);
	return l;
}

static void read_clocks(struct clocks *now)
{
	uint32_t kind;

	for (kind = 0; kind < ARRAY_LEN(now->at); kind++)
		clock_anchor(kind, &now->at[kind]);
}

static void second(struct live *l)
{
	struct clocks now;

	read_clocks(&now);
	live_let_go(l, rings);
	live_second(l, rings, &now);
}

static void commit(struct live *l)
{
	while (live_tick(l, clock_ns(CLOCK_MONOTONIC), true))
		;
}

/* The housekeeping finds the file gone; nothing is committed before. */
static void drop_store(struct live *l)
{
	tend_result = -ESTALE;
	l->tending = true;
	live_tick(l, l->commit_ns, false);
	tend_result = 0;
	assert_null(l->handle);
}

static void open_again(struct live *l)
{
	l->retry_ns = 0;
	commit(l);
	assert_int_equal(opened, 2);
	assert_non_null(l->handle);
}

static int count_events(const struct memory_sink *m, const char *kind)
{
	size_t i;
	int n = 0;

	for (i = 0; i < m->n_events; i++)
		n += strcmp(m->events[i].kind, kind) == 0;
	return n;
}

static int64_t end_of(const struct memory_sink *m, pid_t pid)
{
	size_t i;

	for (i = 0; i < m->n_process; i++)
		if (m->process[i].pid == pid && strcmp(m->process[i].role, "command") != 0)
			return m->process[i].end_ns;
	fail_msg("no process %d", (int)pid);
	return 0;
}

static void test_clock_is_set_while_there_is_no_store(void **state)
{
	pid_t pid = start_process();
	struct live *l = begin(pid);
	struct clocks now;
	size_t i;

	(void)state;
	second(l);
	commit(l);
	drop_store(l);
	read_clocks(&now);
	for (i = 0; i < ARRAY_LEN(now.at); i++)
		now.at[i].real_ns += STEP_S * 1000000000ll;
	live_second(l, rings, &now);
	open_again(l);
	assert_int_equal(memory_values(memory[1], memory_series(memory[1], "loss", ""), NULL, 0),
			 0); /* the first store had it */
	assert_int_equal(end_of(memory[1], pid), 0);
	end_process(pid);
	live_free(l);
}

static void test_stored_end_is_known_in_the_next_store(void **state)
{
	pid_t pid = start_process();
	struct live *l = begin(pid);
	int64_t end;

	(void)state;
	end_process(pid);
	second(l);
	commit(l);
	end = end_of(memory[0], pid);
	assert_true(end > 0);
	drop_store(l);
	open_again(l);
	second(l);
	commit(l);
	assert_int_equal(end_of(memory[1], pid), end);
	assert_int_equal(count_events(memory[1], "crash"), 0);
	live_free(l);
}

static void test_end_that_was_not_stored_is_said_again(void **state)
{
	pid_t pid = start_process();
	struct live *l = begin(pid);

	(void)state;
	end_process(pid);
	second(l);
	drop_store(l);
	assert_int_equal(count_events(memory[0], "crash"), 0);
	open_again(l);
	assert_int_equal(end_of(memory[1], pid), 0);
	second(l);
	commit(l);
	assert_int_equal(count_events(memory[1], "crash"), 1);
	assert_true(end_of(memory[1], pid) > 0);
	live_free(l);
}

static void test_failed_commit_kills_nobody_again(void **state)
{
	pid_t first = start_process(), other;
	struct live *l = begin(first);
	int64_t end;

	(void)state;
	end_process(first);
	second(l);
	commit(l);
	end = end_of(memory[0], first);
	assert_int_equal(count_events(memory[0], "crash"), 1);
	/* The end of another one does not get in at the first try. */
	other = start_process();
	attach_all(l);
	end_process(other);
	second(l);
	memory[0]->fail_commits = 1;
	commit(l);
	assert_true(l->failing);
	assert_int_equal(count_events(memory[0], "crash"), 1);
	l->retry_ns = 0;
	commit(l);
	second(l);
	commit(l);
	assert_int_equal(count_events(memory[0], "crash"), 2);
	assert_int_equal(end_of(memory[0], first), end);
	assert_true(end_of(memory[0], other) > end);
	live_free(l);
}

static void test_ring_goes_when_its_end_is_stored(void **state)
{
	pid_t first = start_process(), other = start_process();
	struct live *l = begin(first);
	char name[256];
	size_t i;
	int fd;

	(void)state;
	assert_int_equal(l->n_clients, 2);
	for (i = 0; l->clients[i]->reader.ring.pid != (uint32_t)other; i++)
		;
	client_evidence_name(l->clients[i], name, sizeof(name));
	fd = openat(rings, name, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "why\n", 4), 4);
	close(fd);
	second(l);
	commit(l);
	end_process(other);
	second(l);
	memory[0]->fail_commits = 1;
	commit(l);
	second(l);
	assert_int_equal(l->n_clients, 2);
	assert_int_equal(files_of(other), 3);
	l->retry_ns = 0;
	commit(l);
	second(l);
	commit(l);
	second(l);
	assert_int_equal(count_events(memory[0], "fatal"), 1);
	assert_int_equal(l->n_clients, 1);
	assert_int_equal(l->gone.rings, 1);
	assert_true(l->gone.records > 0);
	assert_int_equal(files_of(other), 0);
	/* That of the first process may have to tell how the run ended. */
	end_process(first);
	second(l);
	commit(l);
	second(l);
	assert_int_equal(l->n_clients, 1);
	assert_int_equal(files_of(first), 2);
	live_free(l);
}

static void test_page_goes_with_the_last_ring(void **state)
{
	pid_t first = start_process(), other = start_process();
	struct live *l = begin(first);
	char name[256] = "", why[128] = "";
	size_t i;

	(void)state;
	for (i = 0; l->clients[i]->reader.ring.pid != (uint32_t)other; i++)
		;
	/* A second ring of that process, which nobody has taken up yet. */
	snprintf(name, sizeof(name), "%.90s.00000000.ring", l->clients[i]->reader.ring.ctl);
	assert_int_equal(linkat(rings, l->clients[i]->reader.name, rings, name, 0), 0);
	end_process(other);
	second(l);
	commit(l);
	second(l);
	assert_int_equal(files_of(other), 2);
	assert_int_equal(live_attach(l, rings, name, why), 0);
	second(l);
	commit(l);
	second(l);
	assert_int_equal(files_of(other), 0);
	end_process(first);
	live_free(l);
}

/* ---- a program that closes its run and goes on ---------------------------------------------- */

static void test_a_closed_run_ends_though_its_program_goes_on(void **state)
{
	pid_t pid = start(true);
	struct live *l = begin(pid);
	int64_t closed = clock_ns(CLOCK_REALTIME);

	(void)state;
	second(l);
	commit(l);
	live_finish(l, rings, -1, false);
	/* It may be ending: its status would say how. */
	assert_false(l->clients[0]->ended);
	assert_false(l->has_outcome);
	l->clients[0]->closed_ns -= 10000000000;
	second(l);
	commit(l);
	assert_true(l->clients[0]->ended);
	assert_int_equal(count_events(memory[0], "crash"), 0);
	assert_true(end_of(memory[0], pid) <= closed);
	live_finish(l, rings, -1, true);
	assert_true(l->retired);
	assert_int_equal(l->outcome->kind, RUN_EXITED);
	assert_int_equal(l->outcome->code, -1);
	assert_int_equal(l->outcome->end_ns, end_of(memory[0], pid));
	/* The page is for the runs to come. */
	assert_int_equal(files_of(pid), 1);
	end_process(pid);
	live_free(l);
}

static void test_under_a_launcher_it_tells_the_end(void **state)
{
	pid_t pid = start(true);
	struct live *l = begin(pid);

	(void)state;
	l->has_file = true;
	second(l);
	assert_int_equal(l->clients[0]->closed_ns, 0);
	end_process(pid);
	second(l);
	assert_true(l->clients[0]->ended);
	live_free(l);
}

static void test_a_ring_that_is_open_keeps_its_run(void **state)
{
	pid_t first = start(true), other = start_process();
	struct live *l = begin(first);
	size_t i;

	(void)state;
	second(l);
	for (i = 0; i < l->n_clients; i++)
		if (l->clients[i]->closed_ns)
			l->clients[i]->closed_ns -= 10000000000;
	second(l);
	commit(l);
	live_finish(l, rings, -1, true);
	assert_false(l->has_outcome);
	end_process(other);
	second(l);
	live_finish(l, rings, -1, true);
	assert_true(l->has_outcome);
	assert_int_equal(l->outcome->kind, RUN_EXITED);
	end_process(first);
	live_free(l);
}

/* ---- too few descriptors -------------------------------------------------------------------- */

static void test_no_descriptor_is_no_death(void **state)
{
	pid_t pid = start_process();
	struct live *l = begin(pid);
	struct rlimit few, before;
	char why[128] = "", name[256];
	struct reader r;
	bool alive;
	int err;

	(void)state;
	snprintf(name, sizeof(name), "%s", l->clients[0]->reader.name);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){0, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	alive = reader_is_alive(&l->clients[0]->reader, rings);
	err = reader_open(rings, name, &r, why);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(alive);
	assert_int_equal(err, -EMFILE);
	assert_non_null(strstr(why, strerror(EMFILE)));
	assert_true(rendezvous_is_short(err));
	end_process(pid);
	live_free(l);
}

static void test_a_ring_without_its_page_is_none(void **state)
{
	pid_t pid = start_process();
	struct live *l = begin(pid);
	struct rlimit few, before;
	char why[128] = "", name[256];
	struct reader r;
	int err, next;

	(void)state;
	snprintf(name, sizeof(name), "%s", l->clients[0]->reader.name);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	next = dup(0);
	close(next);
	/* Enough for the ring, but not for its page. */
	few = (struct rlimit){(rlim_t)next + 1, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	err = reader_open(rings, name, &r, why);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(err, -EMFILE);
	end_process(pid);
	live_free(l);
}

static void test_room_is_taken_and_given_back(void **state)
{
	struct rlimit before, now;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	now = (struct rlimit){before.rlim_max / 2, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
	headroom_take();
	headroom_take();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
	assert_true(now.rlim_cur == before.rlim_max);
	headroom_give_back();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
	assert_true(now.rlim_cur == before.rlim_max / 2);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static int setup(void **state)
{
	char path[96];

	(void)state;
	strcpy(dir, "/dev/shm/test-live-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/rings", dir);
	if (mkdir(path, 0700) < 0)
		return -1;
	rings = open(path, O_RDONLY | O_DIRECTORY);
	memory[0] = memory_sink_new();
	memory[1] = memory_sink_new();
	opened = tend_result = 0;
	return rings < 0;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	close(rings);
	memory_sink_free(memory[0]);
	memory_sink_free(memory[1]);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_clock_is_set_while_there_is_no_store, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_stored_end_is_known_in_the_next_store, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_end_that_was_not_stored_is_said_again, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_failed_commit_kills_nobody_again, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_ring_goes_when_its_end_is_stored, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_page_goes_with_the_last_ring, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_closed_run_ends_though_its_program_goes_on,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_under_a_launcher_it_tells_the_end, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_ring_that_is_open_keeps_its_run, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_no_descriptor_is_no_death, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_ring_without_its_page_is_none, setup,
						teardown),
		cmocka_unit_test(test_room_is_taken_and_given_back),
	};

	return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}
