/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes, cgroups and /dev/shm of this machine, compared with what was done and with
 * what getrusage() and statvfs() say. What is not allowed here is skipped.
 */
#include "runrig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB 1048576.0
#define PATIENCE 2000 /* times 10 ms, for what takes one of them */
#define COMMAND "role=\"command\",slot=\"0\""
#define TRAINER "role=\"trainer\",slot=\"0\""
#define WORKER "role=\"worker\",slot=\"0\""
#define CHILD "role=\"child\",slot=\"0\""

static struct runrig r;
static long trainer; /* who_trainer() knows it */

/* A child that does what it is told, a letter at a time, and says how it went. */
struct child {
	pid_t pid;
	int go, done;
};

static double rusage_cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
	       ((double)u.ru_utime.tv_usec + (double)u.ru_stime.tv_usec) / 1e6;
}

static void child_burn(void)
{
	double until = rusage_cpu() + 0.2;

	while (rusage_cpu() < until)
		continue;
}

/* 8 MiB in pieces of 64 KiB, of a file that was just written. */
static void child_read_file(void)
{
	static char piece[65536];
	char path[] = "/tmp/lapse-live-XXXXXX";
	int fd = mkstemp(path), i;

	unlink(path);
	for (i = 0; i < 128; i++)
		if (write(fd, piece, sizeof(piece)) != sizeof(piece))
			_exit(3);
	lseek(fd, 0, SEEK_SET);
	for (i = 0; i < 128; i++)
		if (read(fd, piece, sizeof(piece)) != sizeof(piece))
			_exit(4);
	close(fd);
}

static void child_do(char what)
{
	pid_t pid;
	char *p;
	int i;

	switch (what) {
	case 'b':
		child_burn();
		break;
	case 'r':
		child_read_file();
		break;
	case 'a': /* 64 MiB, touched */
		p = mmap(NULL, 64u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
		for (i = 0; p != MAP_FAILED && i < 64 << 20; i += 4096)
			p[i] = 1;
		break;
	case 'f':
		for (i = 0; i < 50; i++)
			if (dup(0) < 0)
				_exit(5);
		break;
	case 'w': /* a worker that reads, ends and is waited for */
		pid = fork();
		if (pid == 0) {
			child_read_file();
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		break;
	case 'k': /* one that stays; 'e' one that is another program */
	case 'e':
		pid = fork();
		if (pid)
			break;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (what == 'e')
			execl("/bin/sleep", "sleep", "600", (char *)NULL);
		for (;;)
			pause();
	default:
		break;
	}
}

static struct child child_start(void)
{
	struct child c;
	int go[2], done[2];
	char what;

	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(done), 0);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (c.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(go[1]);
		close(done[0]);
		while (read(go[0], &what, 1) == 1) {
			struct rusage u;

			child_do(what);
			getrusage(RUSAGE_SELF, &u);
			if (write(done[1], &u, sizeof(u)) != sizeof(u))
				_exit(2);
		}
		_exit(0);
	}
	close(go[0]);
	close(done[1]);
	c.go = go[1];
	c.done = done[0];
	return c;
}

/* Do it, and wait until it is done and the child is idle again. */
static struct rusage child_tell(struct child *c, char what)
{
	struct rusage u;

	assert_int_equal(write(c->go, &what, 1), 1);
	assert_int_equal(read(c->done, &u, sizeof(u)), sizeof(u));
	usleep(20000); /* back in read() */
	return u;
}

static void child_end(struct child *c)
{
	close(c->go);
	close(c->done);
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
}

static bool who_trainer(void *arg, long pid, uint64_t start, char role[32], int *slot)
{
	(void)arg;
	(void)start;
	if (pid != trainer)
		return false;
	snprintf(role, 32, "trainer");
	*slot = 0;
	return true;
}

static double seconds(struct timeval a)
{
	return (double)a.tv_sec + (double)a.tv_usec / 1e6;
}

static void test_amounts(void **state)
{
	struct child c = child_start();
	struct rusage before, after;
	double files, cpu, used;
	uint64_t began;

	(void)state;
	before = child_tell(&c, 'x');
	runrig_open(&r, "", c.pid);
	runrig_now(&r);
	began = r.tree.read_ns;
	files = runrig_value(&r, "process/files", COMMAND);
	child_tell(&c, 'b');
	child_tell(&c, 'r');
	child_tell(&c, 'f');
	after = child_tell(&c, 'a');
	runrig_now(&r);
	/* CPU clock against getrusage(), which may be told a little before its end */
	cpu = runrig_value(&r, "process/cpu", COMMAND) * (double)(r.tree.read_ns - began) / 1e9;
	used = seconds(after.ru_utime) + seconds(after.ru_stime) - seconds(before.ru_utime) -
	       seconds(before.ru_stime);
	assert_true(used >= 0.2);
	assert_true(fabs(cpu - used) < 0.05 + 0.05 * used);
	assert_true(runrig_value(&r, "process/rss", COMMAND) >= 64 * MIB);
	assert_true(runrig_value(&r, "process/rss/peak", COMMAND) >= 64 * MIB);
	assert_true(runrig_value(&r, "process/rss/anonymous", COMMAND) >= 63 * MIB);
	assert_true(runrig_value(&r, "process/rss/anonymous", COMMAND) <
		    runrig_value(&r, "process/rss", COMMAND) + MIB);
	/* 8 MiB in 128 reads, and 4 letters */
	assert_true(runrig_value(&r, "process/read/all", COMMAND) == 8 * MIB + 4);
	assert_true(runrig_value(&r, "process/reads", COMMAND) >= 131);
	assert_true(runrig_value(&r, "process/reads", COMMAND) <= 133);
	assert_true(runrig_value(&r, "process/written/all", COMMAND) >= 8 * MIB);
	assert_true(runrig_value(&r, "process/read/cached", COMMAND) > 0.9);
	assert_true(runrig_value(&r, "process/files", COMMAND) == files + 50);
	assert_true(runrig_value(&r, "process/files/limit", COMMAND) >= files + 50);
	assert_true(fabs(runrig_value(&r, "process/faults/minor", COMMAND) -
			 (double)(after.ru_minflt - before.ru_minflt)) < 64);
	assert_true(fabs(runrig_value(&r, "process/switches/voluntary", COMMAND) -
			 (double)(after.ru_nvcsw - before.ru_nvcsw)) < 16);
	assert_true(runrig_value(&r, "process/runqueue", COMMAND) <= 1);
	assert_true(runrig_value(&r, "tree/read/all", "") == 8 * MIB + 4);
	runrig_close(&r);
	child_end(&c);
}

/* What a worker read is counted once, whether it was seen before it was waited for or
 * not: each of three comes and goes unseen. */
static void test_reaped(void **state)
{
	struct child c = child_start();
	double sum = 0;
	int i;

	(void)state;
	runrig_open(&r, "", c.pid);
	runrig_now(&r);
	for (i = 0; i < 3; i++) {
		child_tell(&c, 'w');
		runrig_now(&r);
		sum += runrig_sum(&r, "tree/read/all");
	}
	runrig_now(&r);
	sum += runrig_sum(&r, "tree/read/all");
	assert_true(sum >= 3 * 8 * MIB);
	assert_true(sum < 3 * 8 * MIB + 65536);
	runrig_close(&r);
	child_end(&c);
}

/* Of the last reading: how many ends it tells of; each is by SIGKILL. */
static unsigned killed_told(void)
{
	unsigned told = 0;
	size_t i;

	for (i = 0; i < r.n_events; i++) {
		if (strcmp(r.events[i].kind, "process-ended") != 0)
			continue;
		assert_int_equal(r.events[i].severity, 2);
		assert_non_null(strstr(r.events[i].text, "was killed by signal 9"));
		told++;
	}
	return told;
}

/* A fork of a trainer is a worker, another program is not; then both are killed. */
static void test_roles(void **state)
{
	struct child c = child_start();
	const struct probe_proc *p;
	unsigned told = 0;
	size_t i;

	(void)state;
	trainer = c.pid;
	runrig_open(&r, "", c.pid);
	r.env.who = who_trainer;
	child_tell(&c, 'k');
	child_tell(&c, 'e');
	runrig_now(&r);
	assert_int_equal(r.tree.len, 3);
	if (!r.tree.procs[0].stack) {
		runrig_close(&r);
		child_end(&c);
		skip(); /* the kernel does not show addresses */
	}
	assert_true(runrig_knows(&r, "process/rss", TRAINER));
	for (i = 0; i < PATIENCE && !runrig_knows(&r, "process/rss", CHILD); i++) {
		usleep(10000); /* until exec() is over */
		runrig_now(&r);
	}
	assert_true(runrig_knows(&r, "process/rss", CHILD));
	assert_true(runrig_knows(&r, "process/rss", WORKER));
	assert_false(runrig_knows(&r, "process/rss", COMMAND));
	for (i = 0; i < r.tree.len; i++) {
		p = &r.tree.procs[i];
		if (p->pid != c.pid)
			kill((pid_t)p->pid, SIGKILL);
	}
	/* nobody waits for them; the one may end some readings after the other, whose end is told
	 */
	for (i = 0; i < PATIENCE && (!told || runrig_value(&r, "tree/processes", "") > 1); i++) {
		usleep(10000);
		runrig_now(&r);
		told += killed_told();
	}
	assert_int_equal(told, 1);
	assert_false(runrig_knows(&r, "process/rss", WORKER));
	assert_true(runrig_value(&r, "tree/processes", "") == 1);
	runrig_close(&r);
	child_end(&c);
}

/* Processes that come and go under the reading. */
static void test_vanishing(void **state)
{
	pid_t storm = fork(), pid;
	int i;

	(void)state;
	if (storm == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			pid = fork();
			if (pid == 0)
				_exit(0);
			waitpid(pid, NULL, 0);
		}
	}
	runrig_open(&r, "", storm);
	for (i = 0; i < 500; i++) {
		r.tree.scan_ns = 0; /* search all, too */
		runrig_now(&r);
		assert_int_equal(r.n_events, 0);
	}
	assert_true(runrig_value(&r, "tree/processes", "") >= 1);
	runrig_close(&r);
	kill(storm, SIGKILL);
	waitpid(storm, NULL, 0);
}

static void test_shm(void **state)
{
	struct child c = child_start();
	struct statvfs v;
	double used;

	(void)state;
	runrig_open(&r, "", c.pid);
	runrig_now(&r);
	if (!runrig_knows(&r, "shm/total", "")) {
		runrig_close(&r);
		child_end(&c);
		skip(); /* no tmpfs on /dev/shm */
	}
	assert_int_equal(statvfs("/dev/shm", &v), 0);
	used = (double)(v.f_blocks - v.f_bfree) * (double)v.f_frsize;
	assert_true(runrig_value(&r, "shm/total", "") == (double)v.f_blocks * (double)v.f_frsize);
	assert_true(fabs(runrig_value(&r, "shm/used", "") - used) < 512 * MIB);
	runrig_close(&r);
	child_end(&c);
}

/* ---- namespaces ----------------------------------------------------------------- */

/* In a pid namespace: with its own /proc, and with that of the machine still mounted,
 * whose pids are not ours. Exit status: 0 fine, 77 not allowed, else the line. */
#define REQUIRE(x)                                                                                 \
	do {                                                                                       \
		if (!(x))                                                                          \
			_exit(__LINE__ % 64 + 1);                                                  \
	} while (0)

static void namespace_read(long pid, bool ours)
{
	struct probe_tree_values v;
	struct probe_tree t;
	uint64_t began;

	REQUIRE(probe_tree_init(&t, "", pid, 0) == 0);
	REQUIRE(t.clocks == ours);
	probe_tree_read(&t, &v);
	began = t.read_ns;
	child_burn();
	probe_tree_read(&t, &v);
	REQUIRE(probe_tree_turn(&t));
	REQUIRE(v.value[PROBE_TREE_PROCESSES] == 1);
	/* CPU seconds: what share of the time they are depends on who else works here */
	REQUIRE(v.value[PROBE_TREE_CPU] * (double)(t.read_ns - began) / 1e9 > 0.15);
	REQUIRE(t.procs[0].detail.has_files && t.procs[0].detail.has_files_limit == ours);
	probe_tree_done(&t);
}

static void namespace_first(void)
{
	char self[32] = "";

	REQUIRE(getpid() == 1);
	/* the old /proc names us by the pid there */
	REQUIRE(readlink("/proc/self", self, sizeof(self) - 1) > 0);
	namespace_read(strtol(self, NULL, 10), false);
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", 0, NULL) < 0)
		_exit(77);
	namespace_read(1, true);
	_exit(0);
}

static void test_namespace(void **state)
{
	pid_t pid = fork(), first;
	int status;

	(void)state;
	if (pid == 0) {
		if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
			_exit(77);
		first = fork();
		if (first == 0)
			namespace_first();
		waitpid(first, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip(); /* namespaces are not allowed here */
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- a cgroup with a limit ---------------------------------------------------------- */

static char group_dir[256];

static bool group_write(const char *file, const char *text)
{
	char path[400];
	bool done;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", group_dir, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		close(fd);
	return done;
}

/* A memory cgroup of 128 MiB without swap, v1 or v2; false: not allowed. */
static bool group_make(pid_t pid)
{
	static const char *const tops[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
	char text[32];
	int i;

	for (i = 0; i < 2; i++) {
		snprintf(group_dir, sizeof(group_dir), "%s/lapse-test-%d", tops[i], (int)getpid());
		if (mkdir(group_dir, 0755) < 0)
			continue;
		snprintf(text, sizeof(text), "%d", (int)pid);
		if ((group_write("memory.max", "134217728") ||
		     group_write("memory.limit_in_bytes", "134217728")) &&
		    group_write("cgroup.procs", text)) {
			if (!group_write("memory.swap.max", "0"))
				group_write("memory.memsw.limit_in_bytes", "134217728");
			return true;
		}
		rmdir(group_dir);
	}
	return false;
}

static void test_limit(void **state)
{
	struct child c = child_start();
	unsigned told = 0;
	int i;

#ifdef __SANITIZE_THREAD__
	skip(); /* its own memory would count against the limit */
#endif
	(void)state;
	if (!group_make(c.pid)) {
		child_end(&c);
		skip(); /* not root, or the cgroups are not ours to make */
	}
	runrig_open(&r, "", c.pid);
	runrig_now(&r);
	assert_true(runrig_value(&r, "cgroup/memory/limit", "") == 128 * MIB);
	child_tell(&c, 'a');
	/* memory.stat is brought up to date by the kernel each 2 s */
	for (i = 0; i < PATIENCE && runrig_value(&r, "cgroup/memory/anonymous", "") < 60 * MIB;
	     i++) {
		usleep(10000);
		runrig_now(&r);
	}
	assert_true(runrig_value(&r, "cgroup/memory/used", "") >= 64 * MIB);
	assert_true(runrig_value(&r, "cgroup/memory/used", "") < 128 * MIB);
	assert_true(runrig_value(&r, "cgroup/memory/anonymous", "") >= 60 * MIB);
	assert_true(runrig_value(&r, "oom/risk", "") >= 60.0 / 128);
	/* another 64 MiB do not fit: the kernel kills it */
	assert_int_equal(write(c.go, "aa", 2), 2);
	for (i = 0; i < PATIENCE && !told; i++) {
		usleep(10000);
		runrig_now(&r);
		told += (unsigned)runrig_count(&r, "cgroup-oom");
	}
	assert_int_equal(told, 1);
	runrig_close(&r);
	child_end(&c);
	for (i = 0; i < PATIENCE && rmdir(group_dir) < 0; i++)
		usleep(10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_amounts), cmocka_unit_test(test_reaped),
		cmocka_unit_test(test_roles),   cmocka_unit_test(test_vanishing),
		cmocka_unit_test(test_shm),     cmocka_unit_test(test_namespace),
		cmocka_unit_test(test_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
