/* SPDX-License-Identifier: Apache-2.0
 *
 * test_export_resume.c - an exporter that is killed between any two writes: the
 * next one makes of its files what an undisturbed exporter writes.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "export/exporter.h"
#include "known_run.h"

#define STEPS 1000
#define BATCH 97 /* points a step: about 60 steps */
#define FILES 3

static char root[256], run[512];

static const char *const files[FILES] = {"events.out.tfevents.1767323045.known",
					 "rank_1/events.out.tfevents.1767323045.known",
					 "host/events.out.tfevents.1767323045.known"};

static int make(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/lapse-export-XXXXXX");
	if (!mkdtemp(root))
		return -1;
	snprintf(run, sizeof(run), "%s/known", root);
	known_run_make(root, STEPS, 0, STEPS);
	return 0;
}

static int removed(void **state)
{
	char command[512];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static struct exporter *opened(const struct exporter_ops *ops, const char *out)
{
	struct exporter *x = NULL;
	struct err e = {0};

	if (exporter_open(ops, run, out, &e, &x) < 0)
		fail_msg("%s", e.text);
	return x;
}

/* At most n steps; returns whether all is done. */
static bool steps(struct exporter *x, unsigned n)
{
	struct exporter_stats st = {0};
	struct err e = {0};

	while (n-- && !st.over) {
		if (exporter_step(x, true, BATCH, &e) < 0)
			fail_msg("%s", e.text);
		exporter_stats(x, &st);
	}
	return st.over;
}

static void read_file(const char *out, const char *name, struct buf *b)
{
	char path[700];

	snprintf(path, sizeof(path), "%s%s%s", out, name[0] ? "/" : "", name);
	buf_init(b, 64 << 20);
	assert_int_equal(file_read(AT_FDCWD, path, b), 0);
}

static void check_same(const char *a, const char *b, const char *name)
{
	struct buf x, y;

	read_file(a, name, &x);
	read_file(b, name, &y);
	assert_true(x.len > 0);
	assert_int_equal(x.len, y.len);
	assert_memory_equal(x.data, y.data, x.len);
	buf_done(&x);
	buf_done(&y);
}

/* Cut what the last step appended: killed while it did. The state knows where it
 * began. */
static void cut(const char *out, unsigned seed)
{
	char path[700];
	struct outstate s;
	struct buf b;
	size_t i;

	outstate_init(&s);
	snprintf(path, sizeof(path), "%s/.lapse-known.state", out);
	buf_init(&b, 64 << 20);
	assert_int_equal(file_read(AT_FDCWD, path, &b), 0);
	assert_int_equal(outstate_decode(&s, b.data, b.len), 0);
	buf_done(&b);
	for (i = 0; i < s.n_files; i++) {
		snprintf(path, sizeof(path), "%s/%s", out, s.files[i].name);
		if (s.files[i].pending.len)
			assert_int_equal(truncate(path, (off_t)(s.files[i].size +
								seed % s.files[i].pending.len)),
					 0);
	}
	outstate_done(&s);
}

static void test_tensorboard(void **state)
{
	char straight[300], killed[300];
	struct exporter *x;
	unsigned seed = 1, i, n = 0;
	bool done = false;

	(void)state;
	snprintf(straight, sizeof(straight), "%s/straight", root);
	snprintf(killed, sizeof(killed), "%s/killed", root);
	x = opened(&tensorboard_ops, straight);
	assert_true(steps(x, UINT32_MAX));
	exporter_close(x);
	while (!done) {
		x = opened(&tensorboard_ops, killed);
		seed = seed * 1103515245 + 12345;
		done = steps(x, 1 + (seed >> 16) % 3);
		exporter_close(x);
		if (!done && seed >> 20 & 1)
			cut(killed, seed >> 8);
		n++;
	}
	assert_true(n > 10);
	for (i = 0; i < FILES; i++)
		check_same(straight, killed, files[i]);
}

/* All in it, one more step changes nothing. */
static void test_again(void **state)
{
	struct exporter_stats st;
	struct exporter *x;
	char out[300];

	(void)state;
	snprintf(out, sizeof(out), "%s/straight", root);
	x = opened(&tensorboard_ops, out);
	assert_true(steps(x, 3));
	exporter_stats(x, &st);
	assert_int_equal(st.points, 0);
	assert_int_equal(st.bytes, 0);
	assert_false(st.anew);
	exporter_close(x);
}

static void test_busy(void **state)
{
	struct exporter *x, *y = NULL;
	struct err e = {0};
	char out[300];

	(void)state;
	snprintf(out, sizeof(out), "%s/straight", root);
	x = opened(&tensorboard_ops, out);
	assert_int_equal(exporter_open(&tensorboard_ops, run, out, &e, &y), -EBUSY);
	assert_non_null(strstr(e.text, "another process"));
	exporter_close(x);
}

/* A state that is damaged, or files that are gone: all is written anew. */
static void test_anew(void **state)
{
	char straight[300], other[300], path[700];
	struct exporter_stats st;
	struct exporter *x;

	(void)state;
	snprintf(straight, sizeof(straight), "%s/straight", root);
	snprintf(other, sizeof(other), "%s/anew", root);
	x = opened(&tensorboard_ops, other);
	steps(x, 5);
	exporter_close(x);
	snprintf(path, sizeof(path), "%s/.lapse-known.state", other);
	assert_int_equal(truncate(path, 100), 0);
	x = opened(&tensorboard_ops, other);
	exporter_stats(x, &st);
	assert_true(st.anew);
	steps(x, 5);
	exporter_close(x);
	snprintf(path, sizeof(path), "%s/%s", other, files[0]);
	unlink(path);
	x = opened(&tensorboard_ops, other);
	exporter_stats(x, &st);
	assert_true(st.anew);
	assert_true(steps(x, UINT32_MAX));
	exporter_close(x);
	check_same(straight, other, files[0]);
}

static void test_prometheus(void **state)
{
	char straight[300], killed[300];
	struct exporter *x;
	bool done = false;

	(void)state;
	snprintf(straight, sizeof(straight), "%s/straight.prom", root);
	snprintf(killed, sizeof(killed), "%s/killed.prom", root);
	x = opened(&prometheus_ops, straight);
	assert_true(steps(x, UINT32_MAX));
	exporter_close(x);
	while (!done) {
		x = opened(&prometheus_ops, killed);
		done = steps(x, 2);
		exporter_close(x);
	}
	check_same(straight, killed, "");
}

/* A run that goes on after it was exported: the files grow, what was there
 * stays. */
static void test_growing(void **state)
{
	char out[300], more[300];
	struct buf before, after;
	struct exporter *x;
	struct err e = {0};

	(void)state;
	snprintf(more, sizeof(more), "%s/more", root);
	snprintf(out, sizeof(out), "%s/growing", root);
	known_run_make(more, STEPS, 0, 500);
	snprintf(run, sizeof(run), "%s/known", more);
	x = opened(&tensorboard_ops, out);
	while (exporter_step(x, false, BATCH, &e) > 0)
		;
	read_file(out, files[0], &before);
	known_run_make(more, STEPS, 500, STEPS);
	assert_true(steps(x, UINT32_MAX));
	exporter_close(x);
	read_file(out, files[0], &after);
	assert_true(after.len > before.len);
	assert_memory_equal(before.data, after.data, before.len);
	buf_done(&before);
	buf_done(&after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tensorboard), cmocka_unit_test(test_again),
		cmocka_unit_test(test_busy),        cmocka_unit_test(test_anew),
		cmocka_unit_test(test_prometheus),  cmocka_unit_test(test_growing),
	};

	return cmocka_run_group_tests(tests, make, removed);
}
