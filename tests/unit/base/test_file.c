/* SPDX-License-Identifier: Apache-2.0
 *
 * test_file.c - whole files: the limit to the byte, replacement as one step,
 * folders below what may not be written, and what the system says otherwise.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"

static char scratch[64];
static int scratch_fd;

static int setup(void **state)
{
	(void)state;
	strcpy(scratch, "/tmp/lapse-test-file-XXXXXX");
	if (!mkdtemp(scratch))
		return -1;
	scratch_fd = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return scratch_fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	close(scratch_fd);
	snprintf(command, sizeof(command), "rm -rf '%s'", scratch);
	return system(command);
}

static int count_files(void)
{
	DIR *dir = opendir(scratch);
	struct dirent *entry;
	int n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

static void test_limit(void **state)
{
	static const size_t sizes[] = {0, 1, 100, 65535, 65536, 65537, 200000};
	char *data = malloc(200001);
	struct buf b;
	size_t i;

	(void)state;
	assert_non_null(data);
	memset(data, 'x', 200001);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(file_write_atomic(scratch_fd, "f", data, sizes[i], 0600), 0);
		/* Exactly as large as allowed. */
		buf_init(&b, sizes[i]);
		assert_int_equal(file_read(scratch_fd, "f", &b), 0);
		assert_int_equal(b.len, sizes[i]);
		assert_int_equal(strlen(buf_str(&b)), sizes[i]);
		assert_memory_equal(buf_str(&b), data, sizes[i]);
		buf_done(&b);
		/* One byte more. */
		assert_int_equal(file_write_atomic(scratch_fd, "f", data, sizes[i] + 1, 0600), 0);
		buf_init(&b, sizes[i]);
		assert_int_equal(file_read(scratch_fd, "f", &b), -EFBIG);
		assert_int_equal(b.error, -EFBIG);
		buf_done(&b);
	}
	free(data);
}

static void test_read_appends(void **state)
{
	struct buf b;

	(void)state;
	assert_int_equal(file_write_atomic(scratch_fd, "f", "def", 3, 0600), 0);
	buf_init(&b, 100);
	buf_puts(&b, "abc");
	assert_int_equal(file_read(scratch_fd, "f", &b), 0);
	assert_string_equal(buf_str(&b), "abcdef");
	buf_done(&b);
}

static void test_read_empty(void **state)
{
	struct buf b;

	(void)state;
	/* Memory that the buffer gets next has been used before. */
	for (int i = 0; i < 10; i++) {
		char *dirt = malloc(65537);

		memset(dirt, 'd', 65537);
		__asm__ volatile("" : : "r"(dirt) : "memory");
		free(dirt);
		assert_int_equal(file_write_atomic(scratch_fd, "f", "", 0, 0600), 0);
		buf_init(&b, 65536);
		assert_int_equal(file_read(scratch_fd, "f", &b), 0);
		assert_string_equal(buf_str(&b), "");
		buf_done(&b);
	}
}

static void test_read_errors(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 100);
	assert_int_equal(file_read(scratch_fd, "none", &b), -ENOENT);
	assert_int_equal(file_read(scratch_fd, ".", &b), -EISDIR);
	assert_int_equal(file_read(-1, "none", &b), -EBADF);
	assert_int_equal(b.len, 0);
	assert_int_equal(b.error, 0);
	buf_puts(&b, "x");
	b.error = -ENOMEM;
	assert_int_equal(file_read(AT_FDCWD, "/proc/self/stat", &b), -ENOMEM);
	buf_done(&b);
}

static void test_read_proc(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 65536);
	/* stat() calls this file empty. */
	assert_int_equal(file_read(AT_FDCWD, "/proc/self/stat", &b), 0);
	assert_int_equal(atoi(buf_str(&b)), getpid());
	buf_done(&b);
}

static void test_replace(void **state)
{
	struct stat st;
	struct buf b;

	(void)state;
	assert_int_equal(file_write_atomic(scratch_fd, "f", "one", 3, 0600), 0);
	assert_int_equal(file_write_atomic(scratch_fd, "f", "second", 6, 0600), 0);
	buf_init(&b, 100);
	assert_int_equal(file_read(scratch_fd, "f", &b), 0);
	assert_string_equal(buf_str(&b), "second");
	buf_done(&b);
	assert_int_equal(fstatat(scratch_fd, "f", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(count_files(), 1);
}

/* When it cannot be done, what was there stays and nothing lies about. */
static void test_replace_errors(void **state)
{
	char name[PATH_MAX];

	(void)state;
	assert_int_equal(unlinkat(scratch_fd, "f", 0), 0);
	assert_int_equal(file_write_atomic(scratch_fd, "no/f", "x", 1, 0600), -ENOENT);
	assert_int_equal(mkdirat(scratch_fd, "folder", 0700), 0);
	assert_int_equal(file_write_atomic(scratch_fd, "folder", "x", 1, 0600), -EISDIR);
	assert_int_equal(count_files(), 1);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(file_write_atomic(scratch_fd, name, "x", 1, 0600), -ENAMETOOLONG);
	assert_int_equal(count_files(), 1);
	assert_int_equal(unlinkat(scratch_fd, "folder", AT_REMOVEDIR), 0);
}

static void test_write_all(void **state)
{
	int fds[2], fd;

	(void)state;
	fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		assert_int_equal(file_write_all(fd, "x", 1), -ENOSPC);
		assert_int_equal(file_write_all(fd, "", 0), 0);
		close(fd);
	}
	assert_int_equal(file_write_all(-1, "x", 1), -EBADF);
	/* A pipe takes a large write in pieces. */
	assert_int_equal(pipe(fds), 0);
	if (fork() == 0) {
		static char data[1 << 20];

		close(fds[0]);
		_exit(file_write_all(fds[1], data, sizeof(data)) == 0 ? 0 : 1);
	}
	close(fds[1]);
	{
		char piece[5000];
		ssize_t n;
		long sum = 0;
		int status;

		while ((n = read(fds[0], piece, sizeof(piece))) > 0)
			sum += n;
		assert_int_equal(sum, 1 << 20);
		wait(&status);
		assert_int_equal(status, 0);
	}
	close(fds[0]);
}

static const char *below(const char *path)
{
	static char out[PATH_MAX];

	snprintf(out, sizeof(out), "%s/%s", scratch, path);
	return out;
}

static void test_mkdirs(void **state)
{
	char longest[PATH_MAX + 10];
	struct stat st;

	(void)state;
	assert_int_equal(file_mkdirs(below("a/b//c/"), 0700), 0);
	assert_int_equal(stat(below("a/b/c"), &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(file_mkdirs(below("a/b/c"), 0700), 0); /* is there */
	assert_int_equal(file_mkdirs("/", 0700), 0);
	assert_int_equal(file_mkdirs("", 0700), -ENOENT);
	memset(longest, 'n', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(file_mkdirs(longest, 0700), -ENAMETOOLONG);
	assert_int_equal(file_write_atomic(scratch_fd, "a/file", "", 0, 0600), 0);
	assert_int_equal(file_mkdirs(below("a/file"), 0700), -ENOTDIR);
	assert_int_equal(file_mkdirs(below("a/file/x"), 0700), -ENOTDIR);
	assert_int_equal(symlink("b", below("a/link")), 0);
	assert_int_equal(file_mkdirs(below("a/link/d"), 0700), 0);
	assert_int_equal(stat(below("a/b/d"), &st), 0);
}

/* As a user who may not write in "shut" but in "shut/open". */
static int mkdirs_as_nobody(const char *path)
{
	int status;

	if (fork() == 0) {
		if (getuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(255);
		_exit(-file_mkdirs(path, 0700));
	}
	wait(&status);
	assert_true(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

static void test_mkdirs_below_unwritable(void **state)
{
	(void)state;
	assert_int_equal(chmod(scratch, 0755), 0);
	assert_int_equal(mkdir(below("shut"), 0755), 0);
	assert_int_equal(mkdir(below("shut/open"), 0777), 0);
	assert_int_equal(chmod(below("shut/open"), 0777), 0);
	assert_int_equal(chmod(below("shut"), 0555), 0);
	assert_int_equal(mkdirs_as_nobody(below("shut/open/a/b")), 0);
	assert_int_equal(mkdirs_as_nobody(below("shut/new/a")), -EACCES);
	assert_int_equal(mkdirs_as_nobody(below("shut/new")), -EACCES);
	assert_int_equal(chmod(below("shut"), 0755), 0);
	assert_int_equal(chmod(scratch, 0700), 0);
}

/* A pipe without a writer would be waited for. */
static void test_read_plain(void **state)
{
	struct buf b;

	(void)state;
	assert_int_equal(file_write_atomic(scratch_fd, "p", "plain", 5, 0600), 0);
	assert_int_equal(mkfifo(below("pipe"), 0600), 0);
	buf_init(&b, 5);
	assert_int_equal(file_read_plain(scratch_fd, "p", &b), 0);
	assert_string_equal(buf_str(&b), "plain");
	assert_int_equal(file_read_plain(scratch_fd, "pipe", &b), -EINVAL);
	assert_int_equal(file_read_plain(scratch_fd, ".", &b), -EINVAL);
	assert_int_equal(file_read_plain(AT_FDCWD, "/dev/zero", &b), -EINVAL);
	assert_int_equal(file_read_plain(scratch_fd, "none", &b), -ENOENT);
	buf_done(&b);
	assert_int_equal(unlinkat(scratch_fd, "pipe", 0), 0);
	assert_int_equal(unlinkat(scratch_fd, "p", 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_read_appends),
		cmocka_unit_test(test_read_empty),
		cmocka_unit_test(test_read_errors),
		cmocka_unit_test(test_read_proc),
		cmocka_unit_test(test_read_plain),
		cmocka_unit_test(test_replace),
		cmocka_unit_test(test_replace_errors),
		cmocka_unit_test(test_write_all),
		cmocka_unit_test(test_mkdirs),
		cmocka_unit_test(test_mkdirs_below_unwritable),
	};

	umask(022);
	return cmocka_run_group_tests(tests, setup, teardown);
}
