/* SPDX-License-Identifier: Apache-2.0
 *
 * The group filesystem: which mounts of stored trees it looks at, figures of file systems
 * made up here, and a server that does not answer.
 */
#include "probe/linux/filesystem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "probe/groups.h"
#include "reading.h"
#include "stored.h"
#include "taken.h"

static struct reading r;
static struct taken t;

/* ---- which mounts --------------------------------------------------------------- */

static size_t list(const char *tree, const char *run_dir, struct filesystem_mount *out)
{
	char path[STORED_PATH + 32];
	struct buf text;
	size_t n;

	snprintf(path, sizeof(path), "%s/proc/self/mountinfo", stored_path(tree));
	buf_init(&text, 1 << 20);
	assert_int_equal(file_read(AT_FDCWD, path, &text), 0);
	n = filesystem_list(text.data, text.len, run_dir, out);
	buf_done(&text);
	return n;
}

static void same(const struct filesystem_mount *m, size_t n, const char *const *points)
{
	size_t i;

	for (i = 0; i < n && points[i]; i++)
		assert_string_equal(m[i].point, points[i]);
	assert_int_equal(i, n);
	assert_null(points[i]);
}

static void test_list(void **state)
{
	static const char *const el7[] = {"/dev/shm", "/",        "/boot",  "/data sets",
					  "/home",    "/scratch", "/sshfs", NULL};
	static const char *const linux6[] = {"/dev/shm", "/", "/tmp", "/data", "/mnt/ceph", NULL};
	static const char *const docker[] = {"/", "/dev/shm", "/workspace/data", NULL};
	struct filesystem_mount m[FILESYSTEM_MAX];
	size_t n;

	(void)state;
	n = list("storage_el7", NULL, m);
	same(m, n, el7);
	assert_string_equal(m[4].type, "nfs4");
	assert_string_equal(m[4].source, "filer:/export/home");
	assert_true(m[4].remote && m[5].remote && m[6].remote);
	assert_true(!m[3].remote && !m[3].read_only && m[2].read_only);
	/* One of a device, the shortest; what is hidden by another mount is left out. */
	n = list("storage6", NULL, m);
	same(m, n, linux6);
	/* Not /etc/hosts and drivers' files; /dev/shm is there. */
	n = list("storage_docker", NULL, m);
	same(m, n, docker);
}

static void test_run_dir(void **state)
{
	struct filesystem_mount m[FILESYSTEM_MAX];

	(void)state;
	/* A tmpfs elsewhere counts when the runs are in it; /data/x has its own already. */
	assert_int_equal(list("storage6", "/lapse-runs/a", m), 6);
	assert_string_equal(m[4].point, "/lapse-runs");
	assert_false(m[4].remote);
	assert_int_equal(list("storage6", "/lapse-runsx/a", m), 5);
	assert_int_equal(list("storage6", "/data/x", m), 5);
	assert_int_equal(list("storage6", "/over", m), 6);
	assert_string_equal(m[4].point, "/over");
	assert_string_equal(m[4].type, "tmpfs");
}

static void test_many(void **state)
{
	static struct filesystem_mount m[FILESYSTEM_MAX];
	static char text[20000];
	size_t len = 0;
	int i;

	(void)state;
	for (i = 0; i < 100; i++)
		len += (size_t)sprintf(text + len, "%d 1 8:%d / /m%d rw - %s /dev/x rw\n", i, i, i,
				       i % 2 ? "nfs" : "ext4");
	assert_int_equal(filesystem_list(text, len, "/m99/runs", m), FILESYSTEM_MAX);
	assert_string_equal(m[31].point, "/m62");
	assert_false(m[31].remote);
	assert_true(m[32].remote);
	assert_string_equal(m[63].point, "/m99");
	assert_int_equal(filesystem_list("1 2 3\n\n - \n1 2 3 / x rw - ext4 d rw\n", 37, NULL, m),
			 0);
}

/* ---- figures -------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int hangs, waiting, answer;

static int ends(const char *path, const char *end)
{
	size_t n = strlen(path), k = strlen(end);

	return n >= k && strcmp(path + n - k, end) == 0;
}

/* 1000 blocks of 4096, 100 free, 50 of them for users; 64 MiB of /dev/shm with 16 MiB taken;
 * /home hangs while hangs is set. */
static int fake(const char *path, struct statvfs *ret)
{
	struct statvfs v = {.f_bsize = 1 << 20,
			    .f_frsize = 4096,
			    .f_blocks = 1000,
			    .f_bfree = 100,
			    .f_bavail = 50,
			    .f_files = 640,
			    .f_ffree = 40};

	if (ends(path, "/scratch")) {
		errno = ESTALE;
		return -1;
	}
	if (ends(path, "/dev/shm")) {
		v.f_blocks = 16384;
		v.f_bfree = v.f_bavail = 12288;
		v.f_files = 0;
	}
	if (ends(path, "/home")) {
		pthread_mutex_lock(&lock);
		waiting++;
		pthread_cond_broadcast(&changed);
		while (hangs)
			pthread_cond_wait(&changed, &lock);
		waiting--;
		v.f_blocks += (unsigned)answer;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	*ret = v;
	return 0;
}

/* From now on /home hangs, or answers with so many blocks more. */
static void hang(void)
{
	pthread_mutex_lock(&lock);
	hangs = 1;
	pthread_mutex_unlock(&lock);
}

static void release(int blocks)
{
	pthread_mutex_lock(&lock);
	hangs = 0;
	answer = blocks;
	pthread_cond_broadcast(&changed);
	while (waiting)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

/* How many questions hang; waits for the first. */
static int hanging(void)
{
	int n;

	pthread_mutex_lock(&lock);
	while (!waiting)
		pthread_cond_wait(&changed, &lock);
	n = waiting;
	pthread_mutex_unlock(&lock);
	return n;
}

#define ROOT "mount=\"/\""
#define SHM "mount=\"/dev/shm\""
#define HOME "mount=\"/home\""
#define PATIENCE 40 /* readings, each of which waits half a second for an answer */

static bool is_silent(const char *labels)
{
	double v;

	return probe_value(r.set, "filesystem/used", labels, &v) != 0 &&
	       strstr(reading_why(&r, "filesystem/used", labels), "does not answer");
}

/* Read at a time, and again just behind it until the remote mounts have answered, with
 * /home or without: their threads can be late where there is other work. */
static void answered(double at, bool home)
{
	int tries = 0;

	do
		reading_at(&r, at + tries / 1000.0);
	while (++tries < PATIENCE &&
	       ((home && is_silent(HOME)) || is_silent("mount=\"/scratch\"") ||
		is_silent("mount=\"/sshfs\"")));
}

static void test_figures(void **state)
{
	(void)state;
	filesystem_statvfs = fake;
	assert_int_equal(reading_open(&r, &probe_filesystem, stored_path("storage_el7")), 0);
	answered(1, true);
	assert_true(reading_value(&r, "filesystem/total", ROOT) == 4096000);
	assert_true(reading_value(&r, "filesystem/used", ROOT) == 900 * 4096);
	assert_true(reading_value(&r, "filesystem/available", ROOT) == 50 * 4096);
	assert_true(reading_value(&r, "filesystem/inodes/total", ROOT) == 640);
	assert_true(reading_value(&r, "filesystem/inodes/free", ROOT) == 40);
	assert_true(reading_value(&r, "filesystem/total", SHM) == 67108864);
	assert_true(reading_value(&r, "filesystem/used", SHM) == 16777216);
	assert_non_null(strstr(reading_why(&r, "filesystem/inodes/free", SHM), "no such limit"));
	assert_true(reading_value(&r, "filesystem/used", "mount=\"/data sets\"") == 900 * 4096);
	assert_true(reading_value(&r, "filesystem/used", HOME) == 900 * 4096);
	assert_non_null(strstr(reading_why(&r, "filesystem/used", "mount=\"/scratch\""), "stale"));
	taken_take(&t, r.set);
	assert_int_equal(t.n_events, 0);
	assert_string_equal(taken_fact(&t, "filesystem/home"), "nfs4 filer:/export/home");
	assert_string_equal(taken_fact(&t, "filesystem/"), "xfs /dev/mapper/centos-root");
	reading_close(&r);
	filesystem_statvfs = statvfs;
}

/* A server that is gone costs its own figures, and is told; the others go on. */
static void test_hang(void **state)
{
	(void)state;
	filesystem_statvfs = fake;
	hang();
	assert_int_equal(reading_open(&r, &probe_filesystem, stored_path("storage_el7")), 0);
	answered(0, false);
	assert_non_null(strstr(reading_why(&r, "filesystem/used", HOME), "does not answer"));
	assert_true(reading_value(&r, "filesystem/used", "mount=\"/sshfs\"") == 900 * 4096);
	assert_true(reading_value(&r, "filesystem/used", ROOT) == 900 * 4096);
	reading_at(&r, 10);
	taken_take(&t, r.set);
	assert_int_equal(t.n_events, 0);
	reading_at(&r, 20);
	reading_at(&r, 30);
	taken_take(&t, r.set);
	assert_int_equal(t.n_events, 1);
	assert_string_equal(t.events[0].kind, "filesystem-hung");
	assert_string_equal(t.events[0].text,
			    "/home (nfs4 filer:/export/home) has not answered for "
			    "20 s: programs that touch it hang");
	assert_int_equal(hanging(), 1); /* one question, however often we came */
	release(24);
	answered(40, true);
	assert_true(reading_value(&r, "filesystem/total", HOME) == 1024 * 4096);
	taken_take(&t, r.set);
	assert_int_equal(taken_count(&t, "filesystem-answers"), 1);

	/* Closed while it hangs: the thread is left behind and ends on its own. */
	hang();
	reading_at(&r, 60);
	assert_int_equal(hanging(), 1);
	reading_close(&r);
	release(0);
	filesystem_statvfs = statvfs;
}

static void test_changes(void **state)
{
	char root[STORED_PATH];

	(void)state;
	filesystem_statvfs = fake;
	stored_copy("storage6", root);
	assert_int_equal(reading_open(&r, &probe_filesystem, root), 0);
	reading_at(&r, 1);
	stored_edit(root, "proc/self/mountinfo", "/dev/md0 rw", "/dev/md0 ro");
	reading_at(&r, 11);
	stored_edit(root, "proc/self/mountinfo", "65 60 9:0 / /data", "65 60 9:0 / /date");
	reading_at(&r, 21);
	assert_string_equal(reading_why(&r, "filesystem/used", "mount=\"/data\""),
			    "not mounted any more");
	assert_true(reading_value(&r, "filesystem/used", "mount=\"/date\"") == 900 * 4096);
	taken_take(&t, r.set);
	assert_int_equal(taken_count(&t, "filesystem-readonly"), 1);
	assert_int_equal(taken_count(&t, "filesystem-gone"), 1);
	assert_int_equal(t.n_events, 2);
	reading_close(&r);
	stored_remove(root, "");
	filesystem_statvfs = statvfs;
	assert_int_equal(reading_open(&r, &probe_filesystem, stored_path("missing")), -ENODEV);
}

/* Against the same call here. */
static void test_real(void **state)
{
	double total, shm;
	struct statvfs v;

	(void)state;
	if (reading_open(&r, &probe_filesystem, "") != 0)
		skip();
	reading_at(&r, 1);
	if (probe_value(r.set, "filesystem/total", ROOT, &total) == 0) {
		assert_int_equal(statvfs("/", &v), 0);
		assert_true(total == (double)v.f_blocks * (double)v.f_frsize);
	}
	if (probe_value(r.set, "filesystem/total", SHM, &shm) == 0) {
		assert_int_equal(statvfs("/dev/shm", &v), 0);
		assert_true(shm == (double)v.f_blocks * (double)v.f_frsize);
	}
	reading_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list), cmocka_unit_test(test_run_dir),
		cmocka_unit_test(test_many), cmocka_unit_test(test_figures),
		cmocka_unit_test(test_hang), cmocka_unit_test(test_changes),
		cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
