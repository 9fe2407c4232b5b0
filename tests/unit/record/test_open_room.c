/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a ring where there is no room: small and full file systems, limits of a file's size
 * and of memory.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

static int *skipped;
static char folder[64]; /* of the rig */

static struct lapse_metric gauge(void)
{
	return lapse_gauge("g", NULL, NULL, NULL);
}

/* ---- file systems without room --------------------------------------------------- */

/* A small tmpfs over the rig's folder, seen by this process alone. */
static int small_tmpfs(const char *options)
{
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", folder, "tmpfs", 0, options) < 0)
		return -1;
	return 0;
}

/* Take all but `left` bytes. */
static void fill(const char *name, off_t bytes)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	CHECK(fd >= 0 && posix_fallocate(fd, 0, bytes) == 0);
	close(fd);
}

static void cap_child(void *arg)
{
	struct lapse_stats s;

	(void)arg;
	if (small_tmpfs("size=16m,mode=0700") < 0) {
		*skipped = 1;
		return;
	}
	CHECK(lapse_open(NULL) == 0);
	lapse_stats(&s);
	CHECK(s.ring_bytes <= 1 << 20 && s.ring_bytes > 512 << 10);
	lapse_set(gauge(), 1);
	rig_check_stats(1, 1);
	lapse_close();
	/* 16 of them would be 8 MiB: the size that is free counts. */
	fill("ballast", 8 << 20);
	CHECK(lapse_open(NULL) == 0);
	lapse_stats(&s);
	CHECK(s.ring_bytes <= 512 << 10 && s.ring_bytes >= 128 << 10);
	rig_check_stats(1, 1);
}

static void full_child(void *arg)
{
	struct lapse_value v;
	char path[96];

	(void)arg;
	if (small_tmpfs("size=1m,mode=0700") < 0) {
		*skipped = 1;
		return;
	}
	fill("ballast", (1 << 20) - (100 << 10));
	CHECK(lapse_open(NULL) == -ENOSPC);
	CHECK(strstr(lapse_error(), "/dev/shm"));
	rig_check_inert();
	rig_check_stats(0, 0);
	/* Not even a page. */
	fill("rest", 60 << 10);
	CHECK(lapse_open(NULL) == -ENOSPC);
	rig_check_inert();
	/* There is room again: all is well. */
	snprintf(path, sizeof(path), "%s/ballast", folder);
	CHECK(unlink(path) == 0);
	CHECK(lapse_open(NULL) == 0);
	v = (struct lapse_value){1, gauge()};
	CHECK(v.metric.id != 0);
	lapse_log(&v, 1);
	rig_check_stats(1, 1);
}

/* A program with a limit of file sizes must not die of SIGXFSZ. */
static void ulimit_child(void *arg)
{
	struct rlimit limit = {1 << 20, 1 << 20};
	struct lapse_stats s;

	(void)arg;
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK(lapse_open(NULL) == 0);
	lapse_stats(&s);
	CHECK(s.ring_bytes <= 1 << 20);
	lapse_close();
	limit.rlim_cur = 1000;
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK(lapse_open(NULL) == -EFBIG);
	CHECK(strstr(lapse_error(), "ulimit -f"));
	CHECK(!lapse_is_open());
}

static void memory_child(void *arg)
{
	struct lapse_stats s;
	FILE *f;

	(void)arg;
	if (geteuid() != 0 || access("/sys/fs/cgroup", F_OK) < 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/sys/fs/cgroup", "tmpfs", 0, "size=64k") < 0) {
		*skipped = 1;
		return;
	}
	f = fopen("/sys/fs/cgroup/memory.max", "w");
	CHECK(f && fprintf(f, "%d\n", 32 << 20) > 0 && fclose(f) == 0);
	CHECK(lapse_open(NULL) == 0);
	lapse_stats(&s);
	CHECK(s.ring_bytes <= 512 << 10 && s.ring_bytes > 192 << 10);
	lapse_close();
	f = fopen("/sys/fs/cgroup/memory.max", "w");
	CHECK(f && fprintf(f, "max\n") > 0 && fclose(f) == 0);
	CHECK(lapse_open(NULL) == 0);
	lapse_stats(&s);
	CHECK(s.ring_bytes > 1 << 20);
}

static void room(void **state, void (*fn)(void *arg))
{
	struct rig rig;

	(void)state;
	*skipped = 0;
	rig_make(&rig);
	strcpy(folder, rig.dir);
	rig_run(fn, NULL);
	rig_done(&rig);
	if (*skipped)
		skip(); /* needs root and mounts */
}

static void test_cap(void **state)
{
	room(state, cap_child);
}

static void test_full(void **state)
{
	room(state, full_child);
}

static void test_ulimit(void **state)
{
	room(state, ulimit_child);
}

static void test_memory(void **state)
{
	room(state, memory_child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cap),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_ulimit),
		cmocka_unit_test(test_memory),
	};

	skipped = rig_share(sizeof(*skipped));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
