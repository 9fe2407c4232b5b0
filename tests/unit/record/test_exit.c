/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a process: the status that it leaves in its control page, the place
 * for a fault handler's text, and the id of the run.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared {
	char path[512], child_path[512], run[64];
	pid_t pid;
};

static struct shared *sh;

/* Run fn in a child, which must leave with this status. */
static void play(struct rig *rig, struct tapes *t, void (*fn)(void *arg), int want)
{
	int status;
	pid_t pid;

	memset(sh, 0, sizeof(*sh));
	rig_make(rig);
	pid = rig_start(fn, NULL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), want);
	tapes_read(rig, t);
}

static void assert_status(const struct tape *t, bool known, int status, int state)
{
	assert_int_equal(t->reader.ctl->has_exit, known);
	if (known)
		assert_int_equal(t->reader.ctl->exit_status, status);
	assert_int_equal(t->reader.ctl->state, state);
}

static void exits(void *arg)
{
	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	exit(7);
}

static void exits_abruptly(void *arg)
{
	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	_exit(6);
}

static void says_and_exits(void *arg)
{
	(void)arg;
	lapse_exit_status(1); /* no ring yet: nothing */
	CHECK(lapse_open(NULL) == 0);
	lapse_exit_status(5);
	_exit(5);
}

static void closes_and_exits(void *arg)
{
	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	lapse_close();
	exit(4);
}

static void test_status(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
#ifdef __GLIBC__
	play(&rig, &t, exits, 7);
	assert_status(&t.a[0], true, 7, WIRE_STATE_CLOSED);
	rig_play_done(&rig, &t);
	play(&rig, &t, closes_and_exits, 4);
	assert_status(&t.a[0], true, 4, WIRE_STATE_CLOSED);
	rig_play_done(&rig, &t);
#endif
	play(&rig, &t, exits_abruptly, 6);
	assert_status(&t.a[0], false, 0, WIRE_STATE_OPEN);
	rig_play_done(&rig, &t);
	play(&rig, &t, says_and_exits, 5);
	assert_status(&t.a[0], true, 5, WIRE_STATE_OPEN);
	rig_play_done(&rig, &t);
}

/* A child that made no ring says nothing, least of all for its parent. */
static void child_exits(void *arg)
{
	int status;
	pid_t pid;

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	pid = fork();
	if (pid == 0)
		exit(3);
	CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
	pid = fork();
	if (pid == 0) {
		lapse_heartbeat();
		exit(2);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 2);
	sh->pid = pid;
	_exit(0);
}

static void test_child_status(void **state)
{
	struct rig rig;
	struct tapes t;
	size_t i;

	(void)state;
	play(&rig, &t, child_exits, 0);
	assert_int_equal(t.n, 2);
	for (i = 0; i < 2; i++) {
		if (t.a[i].reader.ring.pid != (uint32_t)sh->pid)
			assert_status(&t.a[i], false, 0, WIRE_STATE_OPEN);
	}
#ifdef __GLIBC__
	assert_status(tapes_of(&t, sh->pid), true, 2, WIRE_STATE_CLOSED);
#endif
	rig_play_done(&rig, &t);
}

static void asks(void *arg)
{
	char text[512] = "untouched";
	size_t n;
	int status;
	pid_t pid;

	(void)arg;
	CHECK(lapse_evidence_path(text, sizeof(text)) == -ENOTCONN);
	CHECK(lapse_run_id()[0] == '\0');
	errno = 12345;
	CHECK(lapse_open(NULL) == 0);
	CHECK(lapse_evidence_path(sh->path, sizeof(sh->path)) == 0);
	CHECK(errno == 12345);
	n = strlen(sh->path);
	CHECK(lapse_evidence_path(text, n + 1) == 0);
	CHECK(strcmp(text, sh->path) == 0);
	CHECK(lapse_evidence_path(text, n) == -ENAMETOOLONG);
	CHECK(lapse_evidence_path(text, 0) == -ENAMETOOLONG);
	snprintf(sh->run, sizeof(sh->run), "%s", lapse_run_id());
	pid = fork();
	if (pid == 0) {
		CHECK(strcmp(lapse_run_id(), sh->run) == 0);
		CHECK(lapse_evidence_path(sh->child_path, sizeof(sh->child_path)) == 0);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	sh->pid = pid;
	lapse_close();
	CHECK(lapse_evidence_path(text, sizeof(text)) == -ENOTCONN);
}

static void assert_evidence(const struct rig *rig, const struct tape *t, const char *path)
{
	char want[512];
	int n = (int)strlen(t->reader.ring.ctl) - 4; /* without ".ctl" */

	snprintf(want, sizeof(want), "%s/rings/%.*s.fault", rig->dir, n, t->reader.ring.ctl);
	assert_string_equal(path, want);
}

static void test_evidence(void **state)
{
	struct rig rig;
	struct tapes t;
	size_t i;

	(void)state;
	play(&rig, &t, asks, 0);
	assert_int_equal(t.n, 2);
	for (i = 0; i < 2; i++) {
		bool child = t.a[i].reader.ring.pid == (uint32_t)sh->pid;

		assert_evidence(&rig, &t.a[i], child ? sh->child_path : sh->path);
		assert_string_equal(t.a[i].reader.ring.run, sh->run);
	}
	assert_string_not_equal(sh->path, sh->child_path);
	assert_int_equal(rig_count_files(&rig, ".fault"), 0); /* nobody made one */
	rig_play_done(&rig, &t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_child_status),
		cmocka_unit_test(test_evidence),
	};

	sh = rig_share(sizeof(*sh));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
