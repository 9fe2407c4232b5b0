/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of a run: CPU time and memory worked out by hand on stored
 * trees that change between readings, and real children compared with what
 * getrusage() says.
 */
#include "probe/linux/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stored.h"

#define MS UINT64_C(1000000) /* ns */
#define TICK (10 * MS)       /* of the stored trees and of Linux on all machines */

static struct probe_tree t;
static struct probe_tree_values v;

static int known(enum probe_tree_index i)
{
	int yes = v.valid >> i & 1;

	assert_true(yes == (v.why[i] == NULL));
	return yes;
}

static double value(enum probe_tree_index i)
{
	assert_true(known(i));
	return v.value[i];
}

static void read_tree(void)
{
	uint64_t before = t.total_ns, at = t.read_ns;

	assert_int_equal(probe_tree_read(&t, &v), 0);
	assert_true(probe_tree_cpu_total_ns(&t) >= before);
	if (known(PROBE_TREE_CPU))
		assert_true(value(PROBE_TREE_CPU) ==
			    (double)(t.total_ns - before) / (double)(t.read_ns - at));
}

static double pages(double n)
{
	return n * (double)sysconf(_SC_PAGESIZE);
}

static void test_first_reading(void **state)
{
	(void)state;
	assert_int_equal(probe_tree_init(&t, stored_path("v2"), 1200, 900100), 0);
	read_tree();
	/* 1200, 1201, 1202 below it, 1205 of another thread; not the zombie 1203,
	 * not sshd, not the parent */
	assert_true(value(PROBE_TREE_PROCESSES) == 4);
	assert_true(value(PROBE_TREE_THREADS) == 12 + 3 + 1 + 2);
	/* private 80000 + 35000 + 2000 + 1000, largest shared 25000 */
	assert_true(value(PROBE_TREE_RSS) == pages(118000 + 25000));
	assert_false(known(PROBE_TREE_CPU));
	/* own 600 + 250 + 40 + 10 ticks; 1200 reaped 25 unseen before */
	assert_int_equal(probe_tree_cpu_total_ns(&t), 925 * TICK);
	assert_int_equal(v.untracked, 0);
	probe_tree_done(&t);
}

static void test_init_errors(void **state)
{
	char root[PROBE_ROOT_MAX + 1];

	(void)state;
	assert_int_equal(probe_tree_init(&t, stored_path("v2"), 1200, 900101), -ESRCH);
	assert_int_equal(probe_tree_init(&t, stored_path("v2"), 4000, 0), -ESRCH);
	assert_int_equal(probe_tree_init(&t, stored_path("missing"), 1200, 0), -ENOENT);
	assert_int_equal(probe_tree_init(&t, stored_path("malformed"), 10, 0), -EBADMSG);
	assert_int_equal(probe_tree_init(&t, stored_path("malformed"), 11, 0), -EBADMSG);
	memset(root, 'x', PROBE_ROOT_MAX);
	root[PROBE_ROOT_MAX] = '\0';
	assert_int_equal(probe_tree_init(&t, root, 1, 0), -ENAMETOOLONG);
	probe_tree_done(&t); /* harmless */
}

/* 1201 ends and is reaped by 1200, its child 1202 is given to init; then 1200
 * ends, then 1202. */
static void test_ends(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("v2", root);
	assert_int_equal(probe_tree_init(&t, root, 1200, 0), 0);
	read_tree();
	assert_int_equal(probe_tree_cpu_total_ns(&t), 925 * TICK);

	/* 1200: own 650 ticks, reaped 25 + 260: 1201 ended with 260, 10 more than
	 * we saw. 1202: 45. Truth: 650 + 25 + 260 + 45 + 10. */
	stored_remove(root, "proc/1201");
	stored_edit(root, "proc/1200/stat", "500 100 20 5 20 0", "550 100 270 15 20 0");
	stored_edit(root, "proc/1202/stat", "S 1201", "S 1");
	stored_edit(root, "proc/1202/stat", "30 10 0 0 20 0", "34 11 0 0 20 0");
	read_tree();
	assert_int_equal(probe_tree_cpu_total_ns(&t), 990 * TICK);
	assert_true(value(PROBE_TREE_CPU) > 0);
	assert_true(value(PROBE_TREE_PROCESSES) == 3);
	assert_true(value(PROBE_TREE_RSS) == pages(80000 + 2000 + 1000 + 20000));

	/* nothing moves: 0 is a true zero */
	read_tree();
	assert_true(value(PROBE_TREE_CPU) == 0);

	/* the first process is gone with 1205; 1202 stays in the tree: + 5 */
	stored_remove(root, "proc/1200");
	stored_remove(root, "proc/1203");
	stored_remove(root, "proc/1205");
	stored_edit(root, "proc/1202/stat", "34 11 0 0 20 0", "39 11 0 0 20 0");
	read_tree();
	assert_int_equal(probe_tree_cpu_total_ns(&t), 995 * TICK);
	assert_true(value(PROBE_TREE_PROCESSES) == 1);

	stored_remove(root, "proc/1202");
	read_tree();
	assert_true(value(PROBE_TREE_PROCESSES) == 0);
	assert_false(known(PROBE_TREE_RSS));
	assert_false(known(PROBE_TREE_THREADS));
	read_tree();
	assert_false(known(PROBE_TREE_CPU));
	assert_int_equal(probe_tree_cpu_total_ns(&t), 995 * TICK);
	probe_tree_done(&t);
	stored_remove(root, "");
}

/* The pid of a process that ended is taken by a stranger. */
static void test_pid_reused(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("v2", root);
	assert_int_equal(probe_tree_init(&t, root, 1200, 0), 0);
	read_tree();
	stored_edit(root, "proc/1202/stat", "S 1201", "S 1");
	stored_edit(root, "proc/1202/stat", "900300", "990000");
	stored_edit(root, "proc/1202/stat", "30 10 0 0 20 0", "9000 1000 0 0 20 0");
	read_tree();
	assert_true(value(PROBE_TREE_PROCESSES) == 3);
	assert_int_equal(probe_tree_cpu_total_ns(&t), 925 * TICK);
	probe_tree_done(&t);
	stored_remove(root, "");
}

/* A counter that goes backwards, and files that turn bad for a while. */
static void test_odd_files(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("v2", root);
	assert_int_equal(probe_tree_init(&t, root, 1200, 0), 0);
	read_tree();
	stored_edit(root, "proc/1201/stat", "200 50 0 0 20 0", "100 50 0 0 20 0");
	stored_edit(root, "proc/1200/stat", "500 100 20 5 20 0", "505 100 20 5 20 0");
	read_tree();
	assert_int_equal(probe_tree_cpu_total_ns(&t), 930 * TICK);
	assert_true(value(PROBE_TREE_PROCESSES) == 4);

	stored_write(root, "proc/1201/stat", "1201 garbage");
	stored_write(root, "proc/1202/statm", "");
	read_tree();
	assert_true(value(PROBE_TREE_PROCESSES) == 4);
	assert_false(known(PROBE_TREE_RSS));
	assert_int_equal(probe_tree_cpu_total_ns(&t), 930 * TICK);

	/* more shared than resident cannot be; absurd ticks neither wrap nor
	 * end anything */
	stored_write(root, "proc/1202/statm", "10 5 9\n");
	stored_write(root, "proc/1202/task/1202/children", "0 x -1 99999999999999999999 1200 ");
	stored_write(root, "proc/1205/task/1205/children", "1202 1205 1300 77 ");
	stored_edit(root, "proc/1205/stat", "8 2 0 0 20 0",
		    "18446744073709551614 1 18446744073709551614 1 20 0");
	read_tree();
	assert_false(known(PROBE_TREE_RSS));
	assert_true(value(PROBE_TREE_PROCESSES) == 4);
	assert_int_equal(probe_tree_cpu_total_ns(&t), UINT64_MAX);
	read_tree();
	probe_tree_done(&t);
	stored_remove(root, "");
}

/* The main thread has exited, others run on: the kernel shows state Z and no
 * memory. */
static void test_leader_exited(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("v2", root);
	stored_edit(root, "proc/1200/stat", "(python train.py) S", "(python train.py) Z");
	stored_write(root, "proc/1200/statm", "0 0 0 0 0 0 0\n");
	assert_int_equal(probe_tree_init(&t, root, 1200, 0), 0);
	read_tree();
	assert_true(value(PROBE_TREE_PROCESSES) == 4);
	assert_true(value(PROBE_TREE_THREADS) == 18);
	assert_false(known(PROBE_TREE_RSS));
	probe_tree_done(&t);
	stored_remove(root, "");
}

/* No children files: parents are looked up, in whatever order the folder lists
 * the processes. 500 has the child 501, that has 499, and so on. */
static void test_old(void **state)
{
	static const int chain[] = {499, 503, 498, 504, 497};
	char root[STORED_PATH], path[64], text[256];
	int i;

	(void)state;
	stored_copy("old", root);
	for (i = 1; i < 5; i++) {
		snprintf(path, sizeof(path), "proc/%d/stat", chain[i]);
		snprintf(text, sizeof(text),
			 "%d (w) S %d 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 9000 0 0\n", chain[i],
			 chain[i - 1]);
		stored_write(root, path, text);
		snprintf(path, sizeof(path), "proc/%d/statm", chain[i]);
		stored_write(root, path, "100 20 10 0 0 0 0\n");
	}
	assert_int_equal(probe_tree_init(&t, root, 500, 7000), 0);
	assert_false(t.children);
	read_tree();
	assert_true(value(PROBE_TREE_PROCESSES) == 7);
	assert_int_equal(probe_tree_cpu_total_ns(&t), 134 * TICK);
	/* private 400 + 250 + 250 + 4 x 10, largest shared 150 */
	assert_true(value(PROBE_TREE_RSS) == pages(1090));
	probe_tree_done(&t);
	stored_remove(root, "");
}

/* A new child of the main thread is seen at once, one of another thread at the
 * next full search. */
static void test_new_children(void **state)
{
	static const char fields[] = " 1 1 0 -1 0 0 0 0 0 7 0 0 0 20 0 1 0 900500 0 0\n";
	char root[STORED_PATH], text[256];

	(void)state;
	stored_copy("v2", root);
	assert_int_equal(probe_tree_init(&t, root, 1200, 0), 0);
	read_tree();
	snprintf(text, sizeof(text), "1210 (new) R 1202%s", fields);
	stored_write(root, "proc/1210/stat", text);
	stored_write(root, "proc/1210/statm", "9 8 1\n");
	stored_write(root, "proc/1202/task/1202/children", "1210 ");
	snprintf(text, sizeof(text), "1211 (new) R 1200%s", fields);
	stored_write(root, "proc/1211/stat", text);
	stored_write(root, "proc/1211/statm", "9 8 1\n");
	stored_write(root, "proc/1200/task/1207/children", "1205 1211 ");
	read_tree();
	assert_true(value(PROBE_TREE_PROCESSES) == 5);
	assert_int_equal(probe_tree_cpu_total_ns(&t), 932 * TICK);
	t.scan_ns = 0; /* as if 5 s had passed */
	read_tree();
	assert_true(value(PROBE_TREE_PROCESSES) == 6);
	assert_int_equal(probe_tree_cpu_total_ns(&t), 939 * TICK);

	/* on a machine with many processes the lists of threads are read instead */
	snprintf(text, sizeof(text), "1212 (new) R 1200%s", fields);
	stored_write(root, "proc/1212/stat", text);
	t.scan_ns = 0;
	t.pids = 1000;
	read_tree();
	assert_true(value(PROBE_TREE_PROCESSES) == 6);
	stored_write(root, "proc/1200/task/1207/children", "1205 1211 1212 ");
	t.scan_ns = 0;
	t.pids = 1000;
	read_tree();
	assert_true(value(PROBE_TREE_PROCESSES) == 7);
	probe_tree_done(&t);
	stored_remove(root, "");
}

/* A parent that moved up among those followed, since one before it ended, still
 * gets its child's time credited: reaping 1210 adds nothing. */
static void test_moved_parent(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("v2", root);
	stored_write(root, "proc/1210/stat",
		     "1210 (new) R 1202 1 1 0 -1 0 0 0 0 0 7 0 0 0 20 0 1 0 900500 0 0\n");
	stored_write(root, "proc/1202/task/1202/children", "1210 ");
	assert_int_equal(probe_tree_init(&t, root, 1200, 0), 0);
	read_tree();
	stored_remove(root, "proc/1203");
	read_tree();
	assert_int_equal(probe_tree_cpu_total_ns(&t), 932 * TICK);
	stored_remove(root, "proc/1210");
	stored_edit(root, "proc/1202/stat", "30 10 0 0 20 0", "30 10 7 0 20 0");
	read_tree();
	assert_int_equal(probe_tree_cpu_total_ns(&t), 932 * TICK);
	probe_tree_done(&t);
	stored_remove(root, "");
}

/* More processes than are followed: what is left out is told. */
static void test_limit(void **state)
{
	static char children[PROBE_TREE_MAX * 8 + 256];
	char root[STORED_PATH], path[64], text[256];
	size_t len = 0;
	int i;

	(void)state;
	stored_copy("v2", root);
	assert_int_equal(probe_tree_init(&t, root, 1200, 0), 0);
	read_tree();
	for (i = 0; i < PROBE_TREE_MAX + 9; i++) {
		len += (size_t)sprintf(children + len, "%d ", 20000 + i);
		snprintf(path, sizeof(path), "proc/%d/stat", 20000 + i);
		snprintf(text, sizeof(text),
			 "%d (w) S 1202 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 900500 0 0\n",
			 20000 + i);
		stored_write(root, path, text);
	}
	stored_write(root, "proc/1202/task/1202/children", children);
	for (i = 0; i < 3; i++) {
		read_tree();
		/* 5 followed before, one of them a zombie, and 4091 of these 4105 */
		assert_true(value(PROBE_TREE_PROCESSES) == PROBE_TREE_MAX - 1);
		assert_int_equal(v.untracked, 14);
		assert_int_equal(probe_tree_cpu_total_ns(&t), (925 + 4091) * TICK);
		t.scan_ns = i == 1 ? 0 : t.scan_ns; /* the last time by the full search */
	}
	probe_tree_done(&t);
	stored_remove(root, "");
}

/* ---- this machine ------------------------------------------------------- */

static uint64_t cpu_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000 * MS + (uint64_t)ts.tv_nsec;
}

static uint64_t rusage_ns(int who)
{
	struct rusage r;

	getrusage(who, &r);
	return ((uint64_t)r.ru_utime.tv_sec + (uint64_t)r.ru_stime.tv_sec) * 1000 * MS +
	       ((uint64_t)r.ru_utime.tv_usec + (uint64_t)r.ru_stime.tv_usec) * 1000;
}

static void burn(uint64_t ns)
{
	while (cpu_ns(CLOCK_PROCESS_CPUTIME_ID) < ns)
		;
}

/* A child that uses 100 ms of CPU, says so, and waits to be killed. */
static pid_t start_burner(int ready)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	burn(100 * MS);
	if (write(ready, "x", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void wait_ready(int fd, int n)
{
	char c;

	while (n--)
		assert_int_equal(read(fd, &c, 1), 1);
}

static void test_real_children(void **state)
{
	uint64_t low, high, seen;
	pid_t child[2];
	int ready[2], i;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(probe_tree_init(&t, "", getpid(), 0), 0);
	assert_true(t.clocks);
	read_tree();
	for (i = 0; i < 2; i++)
		child[i] = start_burner(ready[1]);
	wait_ready(ready[0], 2);

	low = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) + 200 * MS;
	t.scan_ns = 0;
	read_tree();
	seen = probe_tree_cpu_total_ns(&t);
	assert_true(value(PROBE_TREE_PROCESSES) == 3);
	assert_true(value(PROBE_TREE_THREADS) >= 3);
	assert_true(value(PROBE_TREE_RSS) > 0);
	assert_true(value(PROBE_TREE_CPU) > 0);
	assert_true(seen >= low);

	/* nothing was counted that the kernel did not count, and nothing twice
	 * after they have been reaped */
	for (i = 0; i < 2; i++) {
		kill(child[i], SIGKILL);
		waitpid(child[i], NULL, 0);
	}
	read_tree();
	assert_true(value(PROBE_TREE_PROCESSES) == 1);
	high = rusage_ns(RUSAGE_SELF) + rusage_ns(RUSAGE_CHILDREN) + 2 * TICK;
	assert_true(probe_tree_cpu_total_ns(&t) >= seen);
	assert_true(probe_tree_cpu_total_ns(&t) <= high);
	probe_tree_done(&t);
	close(ready[0]);
	close(ready[1]);
}

/* A child that came and went between two readings is counted when reaped. */
static void test_real_unseen(void **state)
{
	uint64_t before;
	pid_t pid;

	(void)state;
	assert_int_equal(probe_tree_init(&t, "", getpid(), 0), 0);
	read_tree();
	before = probe_tree_cpu_total_ns(&t);
	pid = fork();
	if (pid == 0) {
		burn(100 * MS);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	read_tree();
	/* two figures of 10 ms are cut */
	assert_true(probe_tree_cpu_total_ns(&t) >= before + 100 * MS - 2 * TICK);
	assert_true(probe_tree_cpu_total_ns(&t) <=
		    rusage_ns(RUSAGE_SELF) + rusage_ns(RUSAGE_CHILDREN) + 2 * TICK);
	probe_tree_done(&t);
}

static void *fork_in_thread(void *arg)
{
	int *fds = arg;
	char c = 0;

	pid_t pid = start_burner(fds[1]);

	wait_ready(fds[0], 1);
	/* stay until told, or the child moves to the main thread */
	if (write(fds[3], &pid, sizeof(pid)) != sizeof(pid) || read(fds[4], &c, 1) != 1)
		return NULL;
	return arg;
}

/* A child of another thread than the main one. */
static void test_real_thread_child(void **state)
{
	int fds[6]; /* 0, 1 ready; 2, 3 pid; 4, 5 go */
	pthread_t thread;
	void *result;
	pid_t pid;
	int i;

	(void)state;
	for (i = 0; i < 6; i += 2)
		assert_int_equal(pipe(fds + i), 0);
	assert_int_equal(pthread_create(&thread, NULL, fork_in_thread, fds), 0);
	assert_int_equal(read(fds[2], &pid, sizeof(pid)), sizeof(pid));
	assert_int_equal(probe_tree_init(&t, "", getpid(), 0), 0);
	read_tree();
	assert_true(value(PROBE_TREE_PROCESSES) == 2);
	assert_true(value(PROBE_TREE_THREADS) >= 3);
	assert_int_equal(write(fds[5], "x", 1), 1);
	pthread_join(thread, &result);
	assert_non_null(result);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	probe_tree_done(&t);
	for (i = 0; i < 6; i++)
		close(fds[i]);
}

/* A grandchild whose parent ended stays, and no descriptor is left behind. */
static void test_real_orphan(void **state)
{
	int pids[2], go[2], fd_before, fd_after;
	pid_t child, orphan;
	char c;

	(void)state;
	fd_before = dup(0);
	close(fd_before);
	assert_int_equal(pipe(pids), 0);
	assert_int_equal(pipe(go), 0);
	child = fork();
	if (child == 0) {
		orphan = fork();
		if (orphan == 0) {
			close(go[1]); /* ends when the test does */
			close(pids[0]);
			for (;;)
				pause();
		}
		if (write(pids[1], &orphan, sizeof(orphan)) < 0 || read(go[0], &c, 1) < 0)
			_exit(1);
		_exit(0);
	}
	assert_int_equal(read(pids[0], &orphan, sizeof(orphan)), sizeof(orphan));
	assert_int_equal(probe_tree_init(&t, "", child, 0), 0);
	read_tree();
	assert_true(value(PROBE_TREE_PROCESSES) == 2);
	assert_int_equal(write(go[1], "x", 1), 1);
	waitpid(child, NULL, 0);
	read_tree();
	assert_true(value(PROBE_TREE_PROCESSES) == 1);
	assert_true(known(PROBE_TREE_RSS));
	kill(orphan, SIGKILL);
	probe_tree_done(&t);
	close(pids[0]);
	close(pids[1]);
	close(go[0]);
	close(go[1]);
	fd_after = dup(0);
	close(fd_after);
	assert_int_equal(fd_before, fd_after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_reading),
		cmocka_unit_test(test_init_errors),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_pid_reused),
		cmocka_unit_test(test_odd_files),
		cmocka_unit_test(test_leader_exited),
		cmocka_unit_test(test_old),
		cmocka_unit_test(test_new_children),
		cmocka_unit_test(test_moved_parent),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_real_children),
		cmocka_unit_test(test_real_unseen),
		cmocka_unit_test(test_real_thread_child),
		cmocka_unit_test(test_real_orphan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
