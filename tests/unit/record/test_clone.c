/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes by clone(), vfork() and exec(): each records into a ring of its own or makes
 * none; the parent's is untouched.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct shared {
	struct lapse_stats stats, child_stats;
	pid_t pids[8];
	int words[4];
	uint64_t sent;
};

static struct shared *sh;
static struct lapse_metric gauge;

static void open_ring(void)
{
	CHECK(lapse_open(NULL) == 0);
	gauge = lapse_gauge("g", NULL, NULL, NULL);
}

/* ---- other ways to make a process ---------------------------------------------------------- */

static void clone_child(void *arg)
{
	pid_t pid;

	(void)arg;
	open_ring();
	lapse_set(gauge, 1);
	pid = (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0) {
		lapse_set(gauge, 10);
		lapse_set(gauge, 11);
		syscall(SYS_exit_group, 0);
	}
	sh->pids[0] = pid;
	rig_reap(pid);
	lapse_set(gauge, 2);
	lapse_stats(&sh->stats);
}

static void test_clone(void **state)
{
	struct rig rig;
	struct tapes t;
	pid_t pid = rig_play(&rig, &t, clone_child);

	(void)state;
	assert_int_equal(t.n, 2);
	assert_int_equal(tape_records(tapes_of(&t, pid)), 2);
	tape_assert_value(tapes_of(&t, pid), 1, 2, WIRE_STEP_NONE);
	assert_int_equal(tape_records(tapes_of(&t, sh->pids[0])), 2);
	tape_assert_value(tapes_of(&t, sh->pids[0]), 1, 11, WIRE_STEP_NONE);
	assert_int_equal(sh->stats.accepted, 2);
	rig_play_done(&rig, &t);
}

static void vfork_child(void *arg)
{
	pid_t pid;

	(void)arg;
	open_ring();
	lapse_set(gauge, 1);
	pid = vfork();
	if (pid == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	rig_reap(pid);
	CHECK(system("exit 0") == 0); /* posix_spawn() inside */
	lapse_set(gauge, 2);
	lapse_stats(&sh->stats);
	CHECK(sh->stats.accepted == 2);
}

static void test_vfork(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	rig_play(&rig, &t, vfork_child);
	assert_int_equal(t.n, 1);
	assert_int_equal(tape_records(&t.a[0]), 2);
	rig_play_done(&rig, &t);
}

/* The same pid and start time, another image. */
static void exec_child(void *arg)
{
	(void)arg;
	open_ring();
	lapse_step_begin(5);
	lapse_set(gauge, 1);
	execl("/proc/self/exe", "test_fork", "--image", (char *)NULL);
	_exit(1);
}

static int second_image(void)
{
	open_ring();
	lapse_set(gauge, 2);
	lapse_close();
	return 0;
}

static void test_exec(void **state)
{
	struct rig rig;
	struct tapes t;
	pid_t pid = rig_play(&rig, &t, exec_child);

	(void)state;
	assert_int_equal(t.n, 2);
	assert_int_equal(rig_count_files(&rig, ".ctl"), 2);
	assert_int_equal(t.a[0].reader.ring.pid, pid);
	assert_int_equal(t.a[1].reader.ring.pid, pid);
	assert_true(t.a[0].reader.ring.start_time == t.a[1].reader.ring.start_time);
	assert_string_not_equal(t.a[0].reader.ring.ctl, t.a[1].reader.ring.ctl);
	tape_assert_value(&t.a[0], 0, 1, 5);
	tape_assert_value(&t.a[1], 0, 2, WIRE_STEP_NONE);
	assert_int_equal(t.a[0].reader.ring.state, WIRE_STATE_OPEN);
	assert_int_equal(t.a[1].reader.ring.state, WIRE_STATE_CLOSED);
	rig_play_done(&rig, &t);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clone),
		cmocka_unit_test(test_vfork),
		cmocka_unit_test(test_exec),
	};

	if (argc > 1 && strcmp(argv[1], "--image") == 0)
		return second_image();
	sh = rig_share(sizeof(*sh));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
