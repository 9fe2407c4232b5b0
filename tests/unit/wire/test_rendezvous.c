/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder where processes meet: its path, who may own it, locks between
 * processes, the bell, and a process's start time.
 */
#include "wire/rendezvous.h"

#include "wire/bell.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

static char base[64]; /* folder of the test */

static int setup(void **state)
{
	(void)state;
	strcpy(base, "/tmp/lapse-test-XXXXXX");
	unsetenv("LAPSE_RENDEZVOUS");
	unsetenv("XDG_RUNTIME_DIR");
	return mkdtemp(base) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[96];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", base);
	return system(command);
}

static void path_in(char out[128], const char *name)
{
	snprintf(out, 128, "%s/%s", base, name);
}

static void assert_path(const char *want)
{
	char path[RENDEZVOUS_PATH_MAX];

	assert_int_equal(rendezvous_path(path), 0);
	assert_string_equal(path, want);
}

static void test_path(void **state)
{
	char fallback[64], path[RENDEZVOUS_PATH_MAX], long_path[600];
	struct statfs fs;

	(void)state;
	snprintf(fallback, sizeof(fallback), "/dev/shm/lapse-%u", (unsigned)geteuid());
	assert_path(fallback);
	setenv("LAPSE_RENDEZVOUS", "relative", 1); /* not an absolute path: not looked at */
	assert_path(fallback);
	setenv("LAPSE_RENDEZVOUS", "", 1);
	assert_path(fallback);
	setenv("XDG_RUNTIME_DIR", "/nowhere at all", 1);
	assert_path(fallback);
	setenv("XDG_RUNTIME_DIR", "/proc", 1); /* no tmpfs */
	assert_path(fallback);
	if (statfs("/dev/shm", &fs) == 0 && fs.f_type == TMPFS_MAGIC) {
		setenv("XDG_RUNTIME_DIR", "/dev/shm", 1);
		assert_path("/dev/shm/lapse");
	}
	setenv("LAPSE_RENDEZVOUS", "/some/where", 1);
	assert_path("/some/where");
	memset(long_path, 'p', sizeof(long_path));
	long_path[0] = '/';
	long_path[RENDEZVOUS_PATH_MAX] = '\0';
	setenv("LAPSE_RENDEZVOUS", long_path, 1);
	assert_int_equal(rendezvous_path(path), -ENAMETOOLONG);
	assert_int_equal(rendezvous_open(1), -ENAMETOOLONG);
	long_path[RENDEZVOUS_PATH_MAX - 1] = '\0';
	setenv("LAPSE_RENDEZVOUS", long_path, 1);
	assert_path(long_path);
}

static void assert_folder(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0700);
}

static void test_open(void **state)
{
	char path[128], inner[128];
	int fd;

	(void)state;
	path_in(path, "r");
	setenv("LAPSE_RENDEZVOUS", path, 1);
	assert_int_equal(rendezvous_open(0), -ENOENT);
	umask(0); /* 0700 all the same */
	fd = rendezvous_open(1);
	umask(022);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	assert_folder(path);
	path_in(inner, "r/rings");
	assert_folder(inner);
	path_in(inner, "r/runs");
	assert_folder(inner);
	fd = rendezvous_open(1);
	assert_true(fd >= 0);
	close(fd);
	fd = rendezvous_open(0);
	assert_true(fd >= 0);
	close(fd);
}

static void test_refuse(void **state)
{
	char path[128], inner[128], target[128];
	int create;

	(void)state;
	for (create = 0; create < 2; create++) {
		/* Open to others. */
		path_in(path, "open");
		assert_int_equal(mkdir(path, 0700), 0);
		assert_int_equal(chmod(path, 0710), 0);
		setenv("LAPSE_RENDEZVOUS", path, 1);
		assert_int_equal(rendezvous_open(create), -EPERM);
		assert_int_equal(rmdir(path), 0); /* nothing was made in it */
		/* Somebody else's. */
		path_in(path, "theirs");
		assert_int_equal(mkdir(path, 0700), 0);
		setenv("LAPSE_RENDEZVOUS", path, 1);
		if (chown(path, 65534, 65534) == 0)
			assert_int_equal(rendezvous_open(create), -EPERM);
		assert_int_equal(rmdir(path), 0);
		/* A link, even to one that would do; a dangling one; a file. */
		path_in(target, "good");
		assert_int_equal(mkdir(target, 0700), 0);
		path_in(path, "link");
		assert_int_equal(symlink(target, path), 0);
		setenv("LAPSE_RENDEZVOUS", path, 1);
		assert_int_equal(rendezvous_open(create), -EPERM);
		assert_int_equal(rmdir(target), 0);
		assert_true(rendezvous_open(create) < 0);
		path_in(inner, "good");
		assert_int_equal(access(inner, F_OK), -1);
		assert_int_equal(unlink(path), 0);
		assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
		assert_int_equal(rendezvous_open(create), -EPERM);
		assert_int_equal(unlink(path), 0);
	}
}

static void test_lock(void **state)
{
	int dir = open(base, O_RDONLY | O_DIRECTORY), fd, status, pipes[2];
	char c;
	pid_t pid;

	(void)state;
	assert_int_equal(rendezvous_is_locked(dir, "lock"), 0); /* no such file */
	assert_int_equal(faccessat(dir, "lock", F_OK, 0), -1);  /* and none made */
	fd = rendezvous_lock(dir, "lock");
	assert_true(fd >= 0);
	/* A lock of an open file: our own second try fails, too. */
	assert_int_equal(rendezvous_is_locked(dir, "lock"), 1);
	assert_int_equal(rendezvous_lock(dir, "lock"), -EAGAIN);
	assert_int_equal(rendezvous_is_locked(dir, "lock"), 1); /* asking dropped nothing */
	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		close(fd); /* inherited: the lock is its last copy's */
		status = rendezvous_is_locked(dir, "lock") == 1 &&
			 rendezvous_lock(dir, "lock") == -EAGAIN;
		_exit(status ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fd);
	assert_int_equal(rendezvous_is_locked(dir, "lock"), 0);
	/* Held by a process that is killed: free. */
	pid = fork();
	if (pid == 0) {
		c = rendezvous_lock(dir, "lock") >= 0 ? 'y' : 'n';
		while (write(pipes[1], &c, 1) == 1)
			pause();
		_exit(0);
	}
	assert_int_equal(read(pipes[0], &c, 1), 1);
	assert_int_equal(c, 'y');
	assert_int_equal(rendezvous_is_locked(dir, "lock"), 1);
	assert_int_equal(rendezvous_lock(dir, "lock"), -EAGAIN);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(rendezvous_is_locked(dir, "lock"), 0);
	/* Not through a link. */
	assert_int_equal(symlinkat("lock", dir, "link"), 0);
	assert_int_equal(rendezvous_lock(dir, "link"), -ELOOP);
	assert_int_equal(rendezvous_is_locked(dir, "link"), 0);
	close(pipes[0]);
	close(pipes[1]);
	close(dir);
}

/* The lock of a control page is of the other kind: POSIX, a process's. */
static void test_posix_lock(void **state)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int dir = open(base, O_RDONLY | O_DIRECTORY), status, pipes[2];
	char c = 'y';
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		int fd = openat(dir, "ctl", O_RDWR | O_CREAT, 0600);

		if (fd < 0 || fcntl(fd, F_SETLK, &lock) < 0)
			_exit(1);
		while (write(pipes[1], &c, 1) == 1)
			pause();
		_exit(0);
	}
	assert_int_equal(read(pipes[0], &c, 1), 1);
	assert_int_equal(rendezvous_is_locked(dir, "ctl"), 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(rendezvous_is_locked(dir, "ctl"), 0);
	close(pipes[0]);
	close(pipes[1]);
	close(dir);
}

/* Field 22 as /proc shows it, also when the name is made to mislead. */
static void test_start_time(void **state)
{
	uint64_t self = rendezvous_start_time(getpid());
	char text[1024], name[16], *p;
	int field;
	size_t n;
	FILE *f;

	(void)state;
	prctl(PR_GET_NAME, name);
	f = fopen("/proc/self/stat", "r");
	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	/* The name of this program has no space: fields are words. */
	p = strtok(text, " ");
	for (field = 1; field < 22; field++)
		p = strtok(NULL, " ");
	assert_non_null(p);
	assert_true(self == strtoull(p, NULL, 10));
	assert_true(self > 0);
	prctl(PR_SET_NAME, ") R 1 (2 3 ) 4");
	assert_true(rendezvous_start_time(getpid()) == self);
	prctl(PR_SET_NAME, name);
	assert_true(rendezvous_start_time(1) > 0);
	/* Above every pid that Linux gives. */
	assert_true(rendezvous_start_time(4194305) == 0);
	assert_true(rendezvous_start_time(0) == 0);
	assert_true(rendezvous_start_time(-1) == 0);
}

/* A zombie is no process any more. */
static void test_zombie(void **state)
{
	pid_t pid = fork();
	siginfo_t info;

	(void)state;
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_true(rendezvous_start_time(pid) == 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_bell(void **state)
{
	int dir = open(base, O_RDONLY | O_DIRECTORY);
	struct wire_bell *a = bell_map(dir), *b = bell_map(dir);
	struct stat st;

	(void)state;
	assert_true(a && b && a != b);
	assert_int_equal(fstatat(dir, "bell", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_size, WIRE_PAGE);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(a->sleeping, 0);
	bell_ring(a); /* nobody sleeps */
	assert_int_equal(b->sleeping, 0);
	b->sleeping = 1;
	bell_ring(a);
	assert_int_equal(b->sleeping, 0);
	munmap(a, WIRE_PAGE);
	munmap(b, WIRE_PAGE);
	assert_int_equal(unlinkat(dir, "bell", 0), 0);
	assert_int_equal(symlinkat("/etc/passwd", dir, "bell"), 0);
	assert_null(bell_map(dir));
	close(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_path, setup, teardown),
		cmocka_unit_test_setup_teardown(test_open, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refuse, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_posix_lock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_start_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_zombie, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bell, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
