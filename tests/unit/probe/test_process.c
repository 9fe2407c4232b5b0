/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes of a run by role and slot: stored trees that change between readings,
 * with values worked out by hand.
 */
#include "runrig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "probe/gpu/procs.h"
#include "probe/groups.h"
#include "stored.h"

#define TRAINER "role=\"trainer\",slot=\"0\""
#define TRAINER1 "role=\"trainer\",slot=\"1\""
#define COMMAND "role=\"command\",slot=\"0\""
#define WORKER(n) "role=\"worker\",slot=\"" #n "\""
#define CHILD(n) "role=\"child\",slot=\"" #n "\""

static struct runrig r;
static double at; /* s */

/* Readings until another thread has looked, 1 ms or more apart; of the run's time little goes by.
 */
#define PATIENCE 20000
#define TURN 0.0002 /* s */

/* Rings of the two trainers. */
static bool who_trainers(void *arg, long pid, uint64_t start, char role[32], int *slot)
{
	(void)arg;
	if ((pid != 110 || start != 1100) && (pid != 120 || start != 1101))
		return false;
	snprintf(role, 32, "trainer");
	*slot = pid == 120;
	return true;
}

static void open_run6(char root[STORED_PATH])
{
	stored_copy("run6", root);
	runrig_open(&r, root, 100);
	r.env.who = who_trainers;
	at = 1000;
	runrig_at(&r, at);
}

/* Read on until a command line has been looked at. */
static void settle(const char *labels)
{
	int i;

	for (i = 0; i < PATIENCE && !runrig_knows(&r, "process/rss", labels); i++) {
		usleep(1000);
		at += TURN;
		runrig_at(&r, at);
	}
	assert_true(runrig_knows(&r, "process/rss", labels));
}

/* Readings a second apart. */
static void read_on(int n)
{
	while (n-- > 0) {
		at += 1;
		runrig_at(&r, at);
	}
}

static double pages(double n)
{
	return n * (double)sysconf(_SC_PAGESIZE);
}

static void test_roles(void **state)
{
	char root[STORED_PATH];

	(void)state;
	open_run6(root);
	settle(WORKER(3));
	settle(CHILD(0));
	assert_true(runrig_value(&r, "process/rss", COMMAND) == pages(8000));
	assert_true(runrig_value(&r, "process/rss", TRAINER) == pages(400000));
	assert_true(runrig_value(&r, "process/rss", TRAINER1) == pages(410000));
	/* forked by the trainer, in the order of their start: 111, 121, 112; then 113, which
	 * multiprocessing spawned; 114 was exec'd for something else */
	assert_true(runrig_value(&r, "process/rss", WORKER(0)) == pages(90000));
	assert_true(runrig_value(&r, "process/rss", WORKER(1)) == pages(90000));
	assert_true(runrig_value(&r, "process/rss", WORKER(2)) == pages(90000));
	assert_true(runrig_value(&r, "process/rss", WORKER(3)) == pages(9000));
	assert_true(runrig_value(&r, "process/rss", CHILD(0)) == pages(9000));
	assert_false(runrig_knows(&r, "process/rss", WORKER(4)));
	assert_false(runrig_knows(&r, "process/rss", CHILD(1)));
	assert_true(runrig_value(&r, "tree/processes", "") == 8);
	runrig_close(&r);
	stored_remove(root, "");
}

/* Without a ring the trainers are children, as any exec'd Python program. */
static void test_roles_guessed(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("run6", root);
	runrig_open(&r, root, 100);
	at = 1000;
	runrig_at(&r, at);
	settle(CHILD(2));
	assert_true(runrig_knows(&r, "process/rss", COMMAND));
	/* their forked workers are found all the same: they are Python's */
	settle(WORKER(3));
	/* a ring comes late: the process moves, and its old place says why it is empty */
	r.env.who = who_trainers;
	read_on(1);
	assert_true(runrig_value(&r, "process/rss", TRAINER) == pages(400000));
	assert_true(runrig_value(&r, "process/rss", TRAINER1) == pages(410000));
	runrig_close(&r);
	stored_remove(root, "");
}

static void test_details(void **state)
{
	char root[STORED_PATH];

	(void)state;
	open_run6(root);
	read_on(2); /* 8 processes, 4 a reading: all twice or once */
	assert_true(runrig_value(&r, "process/rss/peak", TRAINER) == (400000 * 4 + 1000) * 1024.0);
	assert_true(runrig_value(&r, "process/rss/anonymous", TRAINER) == 350000 * 4 * 1024.0);
	assert_true(runrig_value(&r, "process/swap", TRAINER) == 110 * 1024.0);
	assert_true(runrig_value(&r, "process/threads", TRAINER) == 30);
	assert_true(runrig_value(&r, "process/files", TRAINER) == 3);
	assert_non_null(runrig_why(&r, "process/files/limit", TRAINER));
	assert_true(runrig_value(&r, "process/blocked", TRAINER) == 0);

	/* 100 MB read in 1000 calls, a quarter of it from storage; 0.5 s waited; one
	 * CPU second in 2 s */
	read_on(1);
	stored_edit(root, "proc/110/io", "rchar: 110000000", "rchar: 210000000");
	stored_edit(root, "proc/110/io", "syscr: 1100", "syscr: 2100");
	stored_edit(root, "proc/110/io", "read_bytes: 450560", "read_bytes: 25450560");
	stored_edit(root, "proc/110/io", "write_bytes: 56320", "write_bytes: 57320");
	stored_edit(root, "proc/110/schedstat", " 110000000 ", " 610000000 ");
	stored_edit(root, "proc/110/stat", "4194304 1000 0 3 0 9000", "4194304 1600 0 10 0 9100");
	stored_edit(root, "proc/110/status", "nonvoluntary_ctxt_switches:\t110",
		    "nonvoluntary_ctxt_switches:\t117");
	at += 1;
	runrig_at(&r, at);
	assert_true(runrig_value(&r, "process/cpu", TRAINER) == 1);
	assert_true(runrig_value(&r, "tree/cpu", "") == 1);
	at += 1;
	runrig_at(&r, at);
	assert_true(runrig_value(&r, "process/cpu", TRAINER) == 0);
	assert_true(runrig_value(&r, "process/read/all", TRAINER) == 100e6);
	assert_true(runrig_value(&r, "process/reads", TRAINER) == 1000);
	assert_true(runrig_value(&r, "process/read", TRAINER) == 25e6);
	assert_true(runrig_value(&r, "process/written", TRAINER) == 1000);
	assert_true(runrig_value(&r, "process/read/size", TRAINER) == 100000);
	assert_true(runrig_value(&r, "process/read/cached", TRAINER) == 0.75);
	assert_true(runrig_value(&r, "process/faults/minor", TRAINER) == 600);
	assert_true(runrig_value(&r, "process/faults/major", TRAINER) == 7);
	assert_true(runrig_value(&r, "process/switches/voluntary", TRAINER) == 0);
	assert_true(runrig_value(&r, "process/switches/involuntary", TRAINER) == 7);
	assert_true(runrig_value(&r, "process/runqueue", TRAINER) == 0.25); /* its turns: 2 s */
	/* the tree: told once a turn is complete, and only once */
	assert_true(runrig_value(&r, "tree/read/all", "") == 100e6);
	assert_true(runrig_value(&r, "tree/read", "") == 25e6);
	assert_true(runrig_value(&r, "tree/written", "") == 1000);
	assert_true(runrig_value(&r, "tree/written/all", "") == 0);
	assert_true(runrig_value(&r, "tree/faults/major", "") == 7);
	read_on(2);
	assert_true(runrig_value(&r, "tree/read/all", "") == 0);
	assert_string_equal(runrig_why(&r, "process/read/size", TRAINER), "it read nothing");
	runrig_close(&r);
	stored_remove(root, "");
}

/* The group process is read less often than the tree: nothing is lost. */
static void test_slower(void **state)
{
	const struct probe_now now = {2000 * INT64_C(1000000000), 2000 * INT64_C(1000000000)};
	char root[STORED_PATH];
	struct probe_now t;
	int i;

	(void)state;
	open_run6(root);
	read_on(3);
	for (i = 0; i < 6; i++) {
		stored_write(root, "proc/110/io",
			     i < 3 ? "rchar: 110000700\nwchar: 0\nsyscr: 1107\nsyscw: 0\n"
				     "read_bytes: 450560\nwrite_bytes: 0\n"
				   : "rchar: 110001000\nwchar: 0\nsyscr: 1110\nsyscw: 0\n"
				     "read_bytes: 450560\nwrite_bytes: 0\n");
		t = now;
		t.mono_ns += i * INT64_C(1000000000);
		probe_set_begin(r.set, &t);
		probe_tree_group.read(r.state[0], r.set, &t);
		probe_set_end(r.set);
	}
	probe_set_begin(r.set, &t);
	probe_process.read(r.state[1], r.set, &t);
	probe_set_end(r.set);
	assert_true(runrig_value(&r, "process/read/all", TRAINER) == 1000);
	assert_true(runrig_value(&r, "process/reads", TRAINER) == 10);
	/* without another reading of the tree there is nothing to put */
	runrig_at(&r, 2007);
	probe_set_begin(r.set, &t);
	probe_process.read(r.state[1], r.set, &t);
	probe_set_end(r.set);
	at = 2007;
	read_on(3);
	assert_true(runrig_value(&r, "process/read/all", TRAINER) == 0);
	runrig_close(&r);
	stored_remove(root, "");
}

/* A worker ends, and what it read goes to its parent: the sum counts it once, with the
 * rest that it read after its last turn. */
static void test_reaped(void **state)
{
	char root[STORED_PATH];
	double sum = 0;
	int i;

	(void)state;
	open_run6(root);
	read_on(4);
	stored_remove(root, "proc/111");
	stored_edit(root, "proc/110/task/110/children", "111 ", "");
	/* 110 had 110e6, 111 had 111e6 and read 4e6 more; 110 read 2e6 meanwhile */
	stored_edit(root, "proc/110/io", "rchar: 110000000", "rchar: 227000000");
	for (i = 0; i < 6; i++) {
		read_on(1);
		sum += runrig_sum(&r, "tree/read/all");
	}
	assert_true(sum == 6e6);
	/* nobody waited for 112: the parent's own 5e6 are less than what 112 had */
	stored_remove(root, "proc/112");
	stored_edit(root, "proc/110/io", "rchar: 227000000", "rchar: 232000000");
	for (i = 0, sum = 0; i < 6; i++) {
		read_on(1);
		sum += runrig_sum(&r, "tree/read/all");
	}
	assert_true(sum == 5e6);
	/* a process that begins counts from its start */
	stored_write(root, "proc/115/stat",
		     "115 (x) S 110 1 1 0 -1 0 50 0 2 0 7 0 0 0 20 0 1 0 9000 0 10\n");
	stored_write(root, "proc/115/statm", "9 8 1\n");
	stored_write(root, "proc/115/status",
		     "Name:\tx\nvoluntary_ctxt_switches:\t5\n"
		     "nonvoluntary_ctxt_switches:\t1\n");
	stored_write(root, "proc/115/io",
		     "rchar: 700\nwchar: 0\nsyscr: 7\nsyscw: 0\nread_bytes: 0\nwrite_bytes: 0\n");
	stored_write(root, "proc/110/task/110/children", "113 114 115 ");
	for (i = 0, sum = 0; i < 6; i++) {
		read_on(1);
		sum += runrig_sum(&r, "tree/read/all");
	}
	assert_true(sum == 700);
	assert_true(runrig_knows(&r, "process/rss", CHILD(0)) ||
		    runrig_knows(&r, "process/rss", CHILD(1)));
	runrig_close(&r);
	stored_remove(root, "");
}

/* Numbers stay while a process lives and are given again afterwards. */
static void test_slots(void **state)
{
	const struct runrig_event *e;
	char root[STORED_PATH];

	(void)state;
	open_run6(root);
	settle(WORKER(3));
	stored_remove(root, "proc/111");
	read_on(1);
	assert_string_equal(runrig_why(&r, "process/rss", WORKER(0)), "the process has ended");
	assert_true(runrig_value(&r, "process/rss", WORKER(1)) == pages(90000));
	e = runrig_event(&r, "process-ended");
	assert_non_null(e);
	assert_int_equal(e->severity, 1);
	assert_string_equal(e->text, "worker 0 (pid 111) ended while the run goes on");
	assert_string_equal(e->attrs, "{\"role\":\"worker\",\"slots\":[0]}");
	stored_write(root, "proc/119/stat",
		     "119 (pt_data_worker) S 110 1 1 0 -1 0 50 0 2 0 7 0 0 0 20 0 1 0 9000 0 10\n");
	stored_write(root, "proc/119/statm", "99 55 5\n");
	stored_write(root, "proc/110/task/110/children", "112 113 114 119 ");
	read_on(1);
	assert_true(runrig_value(&r, "process/rss", WORKER(0)) == pages(55));
	assert_int_equal(r.n_events, 0);

	/* the end of an epoch: one event for all */
	stored_remove(root, "proc/112");
	stored_remove(root, "proc/113");
	stored_remove(root, "proc/119");
	stored_remove(root, "proc/121");
	read_on(1);
	assert_int_equal(runrig_count(&r, "process-ended"), 1);
	e = runrig_event(&r, "process-ended");
	assert_string_equal(e->text, "4 processes of role worker ended while the run goes on");

	/* whoever ends with its parent, and children of no role, are no news */
	stored_remove(root, "proc/114");
	stored_remove(root, "proc/120");
	stored_remove(root, "proc/110");
	stored_remove(root, "proc/100");
	read_on(1);
	assert_int_equal(r.n_events, 0);
	assert_true(runrig_value(&r, "tree/processes", "") == 0);
	read_on(1);
	runrig_close(&r);
	stored_remove(root, "");
}

/* A worker is killed, and its parent has not waited for it yet. */
static void test_killed(void **state)
{
	const struct runrig_event *e;
	char root[STORED_PATH];

	(void)state;
	open_run6(root);
	settle(WORKER(3));
	stored_edit(root, "proc/112/stat", "(python3.11) S", "(python3.11) Z");
	stored_edit(root, "proc/112/stat", " 20 0 2 0 1310", " 20 0 1 0 1310");
	stored_edit(root, "proc/112/stat", " 0\n", " 7\n");
	read_on(1);
	e = runrig_event(&r, "process-ended");
	assert_non_null(e);
	assert_int_equal(e->severity, 2);
	assert_non_null(strstr(e->text, "worker 2 (pid 112) was killed by signal 7"));
	assert_non_null(strstr(e->text, "/dev/shm"));
	assert_string_equal(e->attrs, "{\"role\":\"worker\",\"slot\":2,\"pid\":112,\"signal\":7}");
	read_on(1);
	assert_int_equal(r.n_events, 0);
	runrig_close(&r);
	stored_remove(root, "");
}

static void test_blocked(void **state)
{
	const struct runrig_event *e;
	char root[STORED_PATH];

	(void)state;
	open_run6(root);
	read_on(1);
	stored_edit(root, "proc/110/stat", "(python3.11) S", "(python3.11) D");
	read_on(10); /* since the first of these; it may have run before */
	assert_int_equal(r.n_events, 0);
	read_on(1);
	e = runrig_event(&r, "blocked");
	assert_non_null(e);
	assert_int_equal(e->severity, 2);
	assert_non_null(
		strstr(e->text, "trainer 0 (pid 110) has been blocked in the kernel for 10 s"));
	assert_non_null(strstr(e->text, "waiting in nfs_wait_bit_killable"));
	assert_string_equal(e->attrs, "{\"role\":\"trainer\",\"slot\":0,\"pid\":110,\"seconds\":10,"
				      "\"wait\":\"nfs_wait_bit_killable\"}");
	assert_true(runrig_value(&r, "process/blocked", TRAINER) == 1);
	read_on(20);
	assert_int_equal(r.n_events, 0);
	/* it runs for a moment and waits again: another episode */
	stored_edit(root, "proc/110/stat", " 9000 1000 0", " 9001 1000 0");
	read_on(1);
	assert_int_equal(runrig_count(&r, "blocked-over"), 1);
	read_on(9);
	assert_int_equal(r.n_events, 0);
	read_on(1);
	assert_int_equal(runrig_count(&r, "blocked"), 1);
	runrig_close(&r);
	stored_remove(root, "");
}

/* Files that are not ours to read, or go while they are read. */
static void test_unreadable(void **state)
{
	char root[STORED_PATH];

	(void)state;
	open_run6(root);
	stored_remove(root, "proc/111/io");
	stored_write(root, "proc/112/io", "rchar: x\n");
	stored_write(root, "proc/110/status", "garbage");
	stored_remove(root, "proc/120/schedstat");
	stored_remove(root, "proc/120/fd");
	stored_write(root, "proc/113/status", "Name:\tx\nVmHWM:\t99999999999999999999 kB\n");
	read_on(4);
	assert_non_null(strstr(runrig_why(&r, "process/read/all", WORKER(0)), "no io file"));
	assert_non_null(strstr(runrig_why(&r, "tree/read/all", ""), "cannot be read"));
	assert_true(runrig_value(&r, "process/rss", TRAINER) == pages(400000));
	assert_true(runrig_value(&r, "tree/faults/major", "") == 0);
	assert_non_null(runrig_why(&r, "process/runqueue", TRAINER1));
	assert_non_null(runrig_why(&r, "process/files", TRAINER1));
	runrig_close(&r);
	stored_remove(root, "");
}

/* Linux 3.10: no children lists, no RssAnon, no addresses. */
static void test_el7(void **state)
{
	(void)state;
	runrig_open(&r, stored_path("run_el7"), 700);
	runrig_at(&r, 5);
	runrig_at(&r, 6);
	assert_true(runrig_value(&r, "process/rss", COMMAND) == pages(50000));
	assert_true(runrig_value(&r, "process/cpu", COMMAND) == 0);
	assert_true(runrig_value(&r, "process/rss/peak", COMMAND) == 201000 * 1024.0);
	assert_string_equal(runrig_why(&r, "process/rss/anonymous", COMMAND), "needs Linux 4.5");
	assert_true(runrig_value(&r, "process/read/all", COMMAND) == 0);
	runrig_close(&r);
}

/* More processes than have places: told once, and counted in the tree all the same. */
static void test_many(void **state)
{
	char root[STORED_PATH], path[64], text[256], list[4096] = "";
	unsigned told = 0;
	int i, n;

	(void)state;
	stored_copy("run_el7", root);
	stored_write(root, "proc/700/task/700/children", "");
	for (i = 0; i < 300; i++) {
		snprintf(path, sizeof(path), "proc/%d/stat", 1000 + i);
		snprintf(text, sizeof(text),
			 "%d (pt_data_worker) S 700 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0\n",
			 1000 + i, 5000 + i);
		stored_write(root, path, text);
		snprintf(path, sizeof(path), "proc/%d/statm", 1000 + i);
		stored_write(root, path, "100 20 10 0 0 0 0\n");
		n = (int)strlen(list);
		snprintf(list + n, sizeof(list) - (size_t)n, "%d ", 1000 + i);
	}
	stored_write(root, "proc/700/task/700/children", list);
	runrig_open(&r, root, 700);
	for (i = 0; i < 3; i++) {
		runrig_at(&r, 10 + i);
		told += (unsigned)runrig_count(&r, "processes-many");
	}
	assert_int_equal(told, 1);
	assert_true(runrig_value(&r, "tree/processes", "") == 301);
	assert_true(runrig_knows(&r, "process/rss", WORKER(254)));
	assert_false(runrig_knows(&r, "process/rss", WORKER(255)));
	/* 300 processes at 31 a reading: each within 10 */
	runrig_close(&r);
	stored_remove(root, "");
}

static void test_pss(void **state)
{
	char root[STORED_PATH];
	int i;

	(void)state;
	stored_copy("run_hybrid", root);
	stored_write(root, "proc/600/smaps_rollup",
		     "55a0-7ffd ---p 00000000 00:00 0 [rollup]\nRss:  900 kB\nPss:  700 kB\n"
		     "Pss_Dirty:  10 kB\nShared_Clean: 1 kB\n");
	runrig_open(&r, root, 600);
	runrig_at(&r, 1);
	assert_non_null(strstr(runrig_why(&r, "process/pss", COMMAND), "probe.pss: true"));
	runrig_close(&r);
	runrig_open(&r, root, 600);
	r.env.pss = true;
	for (i = 0; i < PATIENCE && !runrig_knows(&r, "process/pss", COMMAND); i++) {
		usleep(1000);
		runrig_at(&r, 100 + TURN * i);
	}
	assert_true(runrig_value(&r, "process/pss", COMMAND) == 700 * 1024.0);
	/* the next minute it is the worker's turn, which has no such file */
	for (i = 0; i < PATIENCE && strstr(runrig_why(&r, "process/pss", WORKER(0)), "a minute");
	     i++) {
		usleep(1000);
		runrig_at(&r, 165 + TURN * i);
	}
	assert_string_equal(runrig_why(&r, "process/pss", WORKER(0)), "needs Linux 4.14");
	runrig_close(&r);
	stored_remove(root, "");
}

static void test_gpu(void **state)
{
	struct gpu_proc procs[] = {{600, 3e9, 0.5}, {600, 1e9, NAN}, {99999, 5e9, 1}};
	char root[STORED_PATH];

	(void)state;
	stored_copy("run_hybrid", root);
	runrig_open(&r, root, 600);
	runrig_at(&r, 1);
	if (strstr(runrig_why(&r, "process/gpu/memory", COMMAND), "namespace"))
		skip();
	assert_string_equal(runrig_why(&r, "process/gpu/memory", COMMAND),
			    "no GPU driver tells it");
	gpu_procs_set(procs, 3);
	at = 1;
	read_on(10);
	/* on two GPUs: added up */
	assert_true(runrig_value(&r, "process/gpu/memory", COMMAND) == 4e9);
	assert_true(runrig_value(&r, "process/gpu/busy", COMMAND) == 0.5);
	assert_string_equal(runrig_why(&r, "process/gpu/memory", WORKER(0)), "it uses no GPU");
	gpu_procs_forget();
	runrig_close(&r);
	stored_remove(root, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_roles),      cmocka_unit_test(test_roles_guessed),
		cmocka_unit_test(test_details),    cmocka_unit_test(test_slower),
		cmocka_unit_test(test_reaped),     cmocka_unit_test(test_slots),
		cmocka_unit_test(test_killed),     cmocka_unit_test(test_blocked),
		cmocka_unit_test(test_unreadable), cmocka_unit_test(test_el7),
		cmocka_unit_test(test_many),       cmocka_unit_test(test_pss),
		cmocka_unit_test(test_gpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
