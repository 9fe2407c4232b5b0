/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a ring: opening twice, closing, opening again, options, being
 * switched off, folders that are not ours.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

struct shared {
	struct lapse_stats stats;
	int skipped;
};

static struct shared *sh;
static char folder[64]; /* of the rig */

static void play(struct rig *rig, struct tapes *t, void (*fn)(void *arg), void *arg)
{
	memset(sh, 0, sizeof(*sh));
	rig_make(rig);
	strcpy(folder, rig->dir);
	rig_run(fn, arg);
	if (t)
		tapes_read(rig, t);
}

static void play_done(struct rig *rig, struct tapes *t)
{
	if (t)
		tapes_done(t);
	rig_done(rig);
}

static struct lapse_metric gauge(void)
{
	return lapse_gauge("g", NULL, NULL, NULL);
}

/* ---- open, close, open ------------------------------------------------------ */

static void twice_child(void *arg)
{
	struct lapse_options bad = {0};

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	CHECK(lapse_open(NULL) == 0);
	CHECK(lapse_open(&bad) == 0); /* not looked at */
	CHECK(lapse_is_open());
	lapse_set(gauge(), 1);
	lapse_close();
	CHECK(!lapse_is_open());
	lapse_set(gauge(), 2);
	lapse_close();
	lapse_add(gauge(), 3);
	rig_check_stats(3, 1);
	CHECK(lapse_error()[0] == '\0');
}

static void test_twice(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	play(&rig, &t, twice_child, NULL);
	assert_int_equal(t.n, 1);
	assert_int_equal(rig_count_files(&rig, ".ctl"), 1);
	assert_int_equal(rig_count_files(&rig, ".tmp"), 0);
	assert_int_equal(tape_records(&t.a[0]), 1);
	assert_int_equal(t.a[0].reader.ring.state, WIRE_STATE_CLOSED);
	assert_int_equal(t.a[0].reader.ctl->state, WIRE_STATE_CLOSED);
	assert_int_equal(t.a[0].reader.ctl->dropped_closed, 2);
	assert_int_equal(t.a[0].reader.ctl->dropped_no_lane, 0);
	assert_int_equal(t.a[0].reader.lanes[0].records, 1);
	assert_int_equal(t.a[0].reader.lanes[0].tid, 0);
	play_done(&rig, &t);
}

static size_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	CHECK(dir != NULL);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void again_child(void *arg)
{
	size_t fds;
	int i;

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	fds = count_fds();
	lapse_set(gauge(), 1);
	lapse_close();
	lapse_set(gauge(), 2);
	CHECK(lapse_open(NULL) == 0);
	CHECK(lapse_is_open());
	lapse_set(gauge(), 3);
	lapse_set(gauge(), 4);
	rig_check_stats(4, 3); /* of the process, not of the ring */
	for (i = 0; i < 5; i++) {
		lapse_close();
		CHECK(lapse_open(NULL) == 0);
	}
	CHECK(count_fds() == fds);
	lapse_set(gauge(), 5);
	rig_check_stats(5, 4);
	/* Dies with the ring open. */
}

static void test_again(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	play(&rig, &t, again_child, NULL);
	assert_int_equal(t.n, 7);
	assert_int_equal(rig_count_files(&rig, ".ctl"), 1);
	assert_true(tape_at(&t.a[0], 0)->value == 1);
	assert_true(tape_at(&t.a[1], 1)->value == 4);
	assert_true(tape_at(&t.a[6], 0)->value == 5);
	assert_int_equal(t.a[1].reader.ring.state, WIRE_STATE_CLOSED);
	assert_int_equal(t.a[6].reader.ring.state, WIRE_STATE_OPEN);
	assert_int_equal(t.a[6].reader.ctl->state, WIRE_STATE_OPEN);
	assert_int_equal(t.a[0].reader.ctl->dropped_closed, 1);
	/* One process outside `lapse run` is one run. */
	assert_string_equal(t.a[0].reader.ring.run, t.a[6].reader.ring.run);
	assert_memory_not_equal(t.a[0].reader.ring.uid, t.a[1].reader.ring.uid, 16);
	assert_string_equal(t.a[0].reader.ring.ctl, t.a[6].reader.ring.ctl);
	play_done(&rig, &t);
}

/* The lock on the control page says that the process lives. */
static void locked_child(void *arg)
{
	int *word = arg;

	CHECK(lapse_open(NULL) == 0);
	lapse_close();
	CHECK(lapse_open(NULL) == 0);
	rig_set(word, 1);
	rig_until(word, 2);
}

static void test_alive(void **state)
{
	int *word = rig_share(sizeof(*word));
	struct rig rig;
	struct tapes t;
	pid_t pid;

	(void)state;
	rig_make(&rig);
	pid = rig_start(locked_child, word);
	rig_until(word, 1);
	tapes_read(&rig, &t);
	assert_true(reader_is_alive(&t.a[0].reader, rig.rings));
	/* Not by its pid: by the lock. */
	t.a[0].reader.ring.start_time++;
	assert_true(reader_is_alive(&t.a[0].reader, rig.rings));
	rig_set(word, 2);
	rig_wait(pid);
	assert_false(reader_is_alive(&t.a[0].reader, rig.rings));
	t.a[0].reader.ring.start_time--;
	assert_false(reader_is_alive(&t.a[0].reader, rig.rings));
	tapes_done(&t);
	rig_done(&rig);
}

/* ---- options --------------------------------------------------------------------- */

#define E_ACUTE "\xc3\xa9"

static void options_child(void *arg)
{
	static char name[400], role[100];
	struct lapse_options o = {
		.size = sizeof(o), .lanes = 3, .project = "p", .ring_bytes = 1 << 20};

	(void)arg;
	memset(name, 'n', 254);
	strcpy(name + 254, E_ACUTE);
	memset(role, 'r', 62);
	strcpy(role + 62, E_ACUTE);
	o.name = name;
	o.role = role;
	o.store_dir = "some/where";
	CHECK(chdir("/tmp") == 0);
	setenv("LAPSE_RUN", "20261128-010203-abcd", 1);
	setenv("LAPSE_RING_KIB", "512", 1); /* the option counts */
	setenv("LAPSE_DIR", "/else", 1);
	CHECK(lapse_store_dir()[0] == '\0');
	CHECK(lapse_open(&o) == 0);
	CHECK(strcmp(lapse_store_dir(), "/tmp/some/where") == 0);
}

static void test_options(void **state)
{
	struct rig rig;
	struct tapes t;
	const struct wire_ring *h;

	(void)state;
	play(&rig, &t, options_child, NULL);
	h = &t.a[0].reader.ring;
	assert_int_equal(strlen(h->name), 254); /* 255 fit, but not half a character */
	assert_int_equal(h->name[253], 'n');
	assert_int_equal(strlen(h->role), 62);
	assert_string_equal(h->project, "p");
	assert_string_equal(h->store_dir, "/tmp/some/where");
	assert_string_equal(h->cwd, "/tmp");
	assert_string_equal(h->run, "20261128-010203-abcd");
	assert_int_equal(h->lanes, 3);
	assert_in_range(h->file_bytes, (512 << 10) + 1, 1 << 20);
	assert_int_equal(h->forked, 0);
	assert_int_equal(h->major, WIRE_MAJOR);
	assert_int_equal(h->owner, geteuid());
	assert_int_equal(t.a[0].reader.ctl->pid, h->pid);
	assert_true(t.a[0].reader.ctl->start_time == h->start_time);
	play_done(&rig, &t);
}

static void environment_child(void *arg)
{
	(void)arg;
	setenv("LAPSE_RING_KIB", "512", 1);
	setenv("LAPSE_DIR", "/else", 1);
	setenv("LAPSE_DISABLE", "0", 1); /* is not off */
	CHECK(lapse_open(NULL) == 0);
}

static void test_environment(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	play(&rig, &t, environment_child, NULL);
	assert_in_range(t.a[0].reader.ring.file_bytes, 256 << 10, 512 << 10);
	assert_string_equal(t.a[0].reader.ring.store_dir, "/else");
	assert_string_equal(t.a[0].reader.ring.role, "trainer");
	assert_string_equal(t.a[0].reader.ring.program, "test_open");
	assert_int_equal(strlen(t.a[0].reader.ring.run), 20);
	play_done(&rig, &t);
}

/* Sizes that are no sizes: the default, or the nearest that is one. */
static void kib_child(void *arg)
{
	struct lapse_stats s;

	setenv("LAPSE_RING_KIB", arg, 1);
	CHECK(lapse_open(NULL) == 0);
	lapse_stats(&s);
	sh->stats = s;
}

static void test_ring_kib(void **state)
{
	static const struct {
		const char *text;
		uint64_t least, most;
	} rows[] = {
		{"", 7 << 20, 9 << 20},   {"0", 7 << 20, 9 << 20},    {"x", 7 << 20, 9 << 20},
		{"-1", 7 << 20, 9 << 20}, {"1", 64 << 10, 192 << 10}, {"1024", 512 << 10, 1 << 20},
	};
	struct rig rig;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		play(&rig, NULL, kib_child, (void *)rows[i].text);
		assert_in_range(sh->stats.ring_bytes, rows[i].least, rows[i].most);
		play_done(&rig, NULL);
	}
}

static void sizes_child(void *arg)
{
	struct {
		struct lapse_options o;
		char newer[64];
	} big;
	struct lapse_options o = {0};

	(void)arg;
	CHECK(lapse_open(&o) == -EINVAL);
	CHECK(strstr(lapse_error(), "size"));
	rig_check_inert();
	o.size = sizeof(o);
	o.lanes = 257;
	CHECK(lapse_open(&o) == -EINVAL);
	CHECK(strstr(lapse_error(), "256 lanes"));
	rig_check_inert();
	rig_check_stats(0, 0);
	/* A caller of an older header: what is behind `size` is not looked at. */
	memset(&big, 0xff, sizeof(big));
	big.o.size = offsetof(struct lapse_options, ring_bytes);
	big.o.name = big.o.project = big.o.role = big.o.store_dir = NULL;
	CHECK(lapse_open(&big.o) == 0);
	CHECK(lapse_error()[0] == '\0');
	lapse_close();
	/* And of a newer one. */
	memset(&big, 0, sizeof(big));
	memset(big.newer, 0xff, sizeof(big.newer));
	big.o.size = sizeof(big);
	big.o.lanes = 256;
	CHECK(lapse_open(&big.o) == 0);
}

static void test_option_sizes(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	play(&rig, &t, sizes_child, NULL);
	assert_int_equal(t.n, 2);
	assert_int_equal(t.a[0].reader.ring.lanes, 16);
	assert_in_range(t.a[1].reader.ring.lanes, 17, 256);
	play_done(&rig, &t);
}

static void disable_child(void *arg)
{
	(void)arg;
	setenv("LAPSE_DISABLE", "1", 1);
	CHECK(lapse_open(NULL) == -ENOSYS);
	CHECK(strstr(lapse_error(), "LAPSE_DISABLE"));
	rig_check_inert();
	rig_check_stats(0, 0);
	setenv("LAPSE_DISABLE", "", 1);
	CHECK(lapse_open(NULL) == 0);
	CHECK(lapse_error()[0] == '\0');
	lapse_set(gauge(), 1);
	rig_check_stats(1, 1);
}

static void test_disable(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	play(&rig, &t, disable_child, NULL);
	assert_int_equal(t.n, 1);
	play_done(&rig, &t);
}

/* ---- folders that will not do --------------------------------------------------- */

static void check_refused(int err)
{
	int got = lapse_open(NULL);

	CHECK(got == err);
	CHECK(strstr(lapse_error(), "rendezvous folder") && strstr(lapse_error(), "0700"));
	rig_check_inert();
	rig_check_stats(0, 0);
}

static void mode_child(void *arg)
{
	(void)arg;
	CHECK(chmod(folder, 0750) == 0);
	check_refused(-EPERM);
	CHECK(chmod(folder, 0701) == 0);
	check_refused(-EPERM);
	CHECK(chmod(folder, 0700) == 0);
	CHECK(lapse_open(NULL) == 0);
}

static void link_child(void *arg)
{
	char path[80];

	(void)arg;
	snprintf(path, sizeof(path), "%s/link", folder);
	CHECK(symlink(folder, path) == 0);
	setenv("LAPSE_RENDEZVOUS", path, 1);
	check_refused(-EPERM);
	snprintf(path, sizeof(path), "%s/file", folder);
	CHECK(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0);
	setenv("LAPSE_RENDEZVOUS", path, 1);
	check_refused(-EPERM);
	/* Its parent is missing. */
	snprintf(path, sizeof(path), "%s/a/b", folder);
	setenv("LAPSE_RENDEZVOUS", path, 1);
	check_refused(-ENOENT);
}

/* Somebody else's: nothing is made in it. */
static void stranger_child(void *arg)
{
	char path[80];

	(void)arg;
	if (geteuid() != 0) {
		sh->skipped = 1;
		return;
	}
	snprintf(path, sizeof(path), "%s/theirs", folder);
	CHECK(mkdir(path, 0700) == 0 && chown(path, 65534, 65534) == 0);
	setenv("LAPSE_RENDEZVOUS", path, 1);
	check_refused(-EPERM);
	CHECK(rmdir(path) == 0);
	/* The other way round: root's, and we are not root. */
	setenv("LAPSE_RENDEZVOUS", folder, 1);
	CHECK(setgid(65534) == 0 && setuid(65534) == 0);
	check_refused(-EACCES);
}

static void readonly_child(void *arg)
{
	char path[] = "/tmp/lapse-test-XXXXXX", inner[64];

	(void)arg;
	if (geteuid() == 0)
		CHECK(setgid(65534) == 0 && setuid(65534) == 0);
	CHECK(mkdtemp(path) != NULL && chmod(path, 0500) == 0);
	setenv("LAPSE_RENDEZVOUS", path, 1);
	check_refused(-EACCES);
	CHECK(chmod(path, 0700) == 0);
	CHECK(lapse_open(NULL) == 0);
	lapse_set(gauge(), 1);
	rig_check_stats(1, 1);
	lapse_close();
	snprintf(inner, sizeof(inner), "rm -r %s", path);
	CHECK(system(inner) == 0);
}

static void test_folders(void **state)
{
	static void (*const rows[])(void *arg) = {mode_child, link_child, stranger_child,
						  readonly_child};
	struct rig rig;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		play(&rig, NULL, rows[i], NULL);
		play_done(&rig, NULL);
	}
}

/* ---- opening under fire ------------------------------------------------------------- */

static void on_alarm(int sig)
{
	(void)sig;
}

/* Allocating is interrupted by signals; it must be neither given up nor forever. */
static void timer_child(void *arg)
{
	struct sigaction sa = {.sa_handler = on_alarm};
	struct itimerval often = {{0, 100}, {0, 100}};
	sigset_t before, after;
	int i;

	(void)arg;
	CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	CHECK(sigprocmask(SIG_SETMASK, NULL, &before) == 0);
	for (i = 0; i < 20; i++) {
		CHECK(lapse_open(NULL) == 0);
		lapse_close();
	}
	CHECK(sigprocmask(SIG_SETMASK, NULL, &after) == 0);
	CHECK(memcmp(&before, &after, sizeof(long)) == 0);
}

static void test_timer(void **state)
{
	struct rig rig;

	(void)state;
	play(&rig, NULL, timer_child, NULL);
	assert_int_equal(rig_count_files(&rig, ".ring"), 20);
	play_done(&rig, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_twice),        cmocka_unit_test(test_again),
		cmocka_unit_test(test_alive),        cmocka_unit_test(test_options),
		cmocka_unit_test(test_environment),  cmocka_unit_test(test_ring_kib),
		cmocka_unit_test(test_option_sizes), cmocka_unit_test(test_disable),
		cmocka_unit_test(test_folders),      cmocka_unit_test(test_timer),
	};

	sh = rig_share(sizeof(*sh));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
