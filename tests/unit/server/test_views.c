/* SPDX-License-Identifier: Apache-2.0
 *
 * test_views.c - what makes views of traces: processes within limits, and answers that are kept.
 */
#include "server/answerage.h"
#include "server/answercache.h"
#include "server/childrun.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define SECOND 1000000000LL

static int run(const char *script, int64_t limit_ns, size_t most, char *out, char *err, int *status)
{
	const char *const argv[] = {"sh", "-c", script, NULL};
	const struct childrun c = {.program = "/bin/sh",
				   .argv = argv,
				   .dir = "/",
				   .limit_ns = limit_ns,
				   .memory = 1ull << 32};
	struct buf b;
	int r;

	buf_init(&b, most);
	r = childrun(&c, &b, err, 32, status);
	strncpy(out, buf_str(&b), 99);
	buf_done(&b);
	return r;
}

static void test_child(void **state)
{
	char out[100] = "", err[32];
	int status;

	(void)state;
	assert_int_equal(run("pwd; echo no >&2; exit 3", 20 * SECOND, 1000, out, err, &status), 0);
	assert_string_equal(out, "/\n");
	assert_string_equal(err, "no ");
	assert_int_equal(status, 3);
	/* Input is empty, a signal is a status, the error is cut. */
	assert_int_equal(run("cat; kill -9 $$", 20 * SECOND, 1000, out, err, &status), 0);
	assert_int_equal(status, CHILDRUN_SIGNALLED + 9);
	run("yes | head -c 1000 >&2", 20 * SECOND, 1000, out, err, &status);
	assert_int_equal(strlen(err), 31);
}

/* The third time that it is asked. */
static bool is_third(const void *arg)
{
	return ++**(unsigned *const *)arg == 3;
}

/* Nobody wants it any more: it is ended, long before its time. */
static void test_child_is_off(void **state)
{
	unsigned asked = 0, *to = &asked;
	const struct childrun c = {.program = "/bin/sh",
				   .argv = (const char *const[]){"sh", "-c", "sleep 100", NULL},
				   .dir = "/",
				   .limit_ns = 60 * SECOND,
				   .memory = 1ull << 32,
				   .is_off = is_third,
				   .arg = &to};
	char err[32];
	struct buf b;
	int status;

	(void)state;
	buf_init(&b, 100);
	assert_int_equal(childrun(&c, &b, err, sizeof(err), &status), -ECANCELED);
	assert_int_equal(status, CHILDRUN_SIGNALLED + 9);
	assert_int_equal(asked, 3);
	buf_done(&b);
}

static void test_child_limits(void **state)
{
	const struct childrun none = {.program = "/nowhere",
				      .argv = (const char *const[]){"x", NULL},
				      .dir = "/",
				      .limit_ns = 20 * SECOND,
				      .memory = 1ull << 32};
	char out[100], err[32];
	struct buf b;
	int status;

	(void)state;
	assert_int_equal(run("sleep 100", SECOND / 5, 1000, out, err, &status), -ETIMEDOUT);
	assert_int_equal(status, CHILDRUN_SIGNALLED + 9);
	assert_int_equal(run("yes", 60 * SECOND, 1000, out, err, &status), -EFBIG);
	buf_init(&b, 100);
	assert_int_equal(childrun(&none, &b, err, sizeof(err), &status), 0);
	assert_int_equal(status, CHILDRUN_NO_PROGRAM);
	buf_done(&b);
}

static enum answercache_found get(struct answercache *c, const char *key, int64_t ns,
				  struct buf *out)
{
	const struct answercache_wait wait = {.ns = ns};

	return answercache_get(c, key, &wait, out);
}

static void put(struct answercache *c, const char *key, size_t len)
{
	struct buf made, out;

	buf_init(&made, 1000);
	buf_init(&out, 1000);
	assert_int_equal(get(c, key, SECOND, &out), ANSWERCACHE_MAKE);
	while (made.len < len)
		buf_putc(&made, key[0]);
	answercache_put(c, key, &made);
	buf_done(&made);
	buf_done(&out);
}

static bool has(struct answercache *c, const char *key)
{
	enum answercache_found found;
	struct buf out;

	buf_init(&out, 1000);
	found = get(c, key, SECOND, &out);
	if (found == ANSWERCACHE_MAKE)
		answercache_put(c, key, NULL);
	else
		assert_int_equal(out.data[0], key[0]);
	buf_done(&out);
	return found == ANSWERCACHE_HIT;
}

/* 100 bytes: the one that was not used for longest goes. */
static void test_cache(void **state)
{
	struct answercache *c = answercache_new(100, 2, UINT_MAX);

	(void)state;
	put(c, "a", 40);
	put(c, "b", 40);
	assert_true(has(c, "a"));
	put(c, "c", 40);
	assert_true(has(c, "a"));
	assert_false(has(c, "b"));
	assert_true(has(c, "c"));
	assert_int_equal(answercache_bytes(c), 80);
	put(c, "d", 51); /* more than half: not kept */
	assert_false(has(c, "d"));
	assert_int_equal(answercache_bytes(c), 80);
	answercache_free(c);
}

/* Small answers are bounded in number. */
static void test_cache_many(void **state)
{
	struct answercache *c = answercache_new(1 << 20, 2, UINT_MAX);
	char key[16];
	unsigned i;

	(void)state;
	for (i = 0; i < ANSWERCACHE_MAX + 10; i++) {
		snprintf(key, sizeof(key), "%u", i);
		put(c, key, 1);
	}
	assert_int_equal(answercache_bytes(c), ANSWERCACHE_MAX);
	assert_false(has(c, "9"));
	assert_true(has(c, "10"));
	answercache_free(c);
}

static void *waits(void *arg)
{
	struct buf out;
	uintptr_t found;

	buf_init(&out, 1000);
	found = get(arg, "x", 30 * SECOND, &out);
	if (found == ANSWERCACHE_HIT && strcmp(buf_str(&out), "made") != 0)
		found = 99;
	buf_done(&out);
	return (void *)found;
}

/* Who asks for what is being made gets it when it is; where too many are being made he is told. */
static void test_cache_waits(void **state)
{
	struct answercache *c = answercache_new(100, 1, UINT_MAX);
	struct buf made, out;
	pthread_t thread;
	void *found;

	(void)state;
	buf_init(&made, 100);
	buf_init(&out, 100);
	assert_int_equal(get(c, "x", 0, &out), ANSWERCACHE_MAKE);
	assert_int_equal(get(c, "y", SECOND / 100, &out), ANSWERCACHE_BUSY);
	assert_int_equal(get(c, "x", SECOND / 100, &out), ANSWERCACHE_BUSY);
	assert_int_equal(pthread_create(&thread, NULL, waits, c), 0);
	buf_puts(&made, "made");
	answercache_put(c, "x", &made);
	pthread_join(thread, &found);
	assert_int_equal((uintptr_t)found, ANSWERCACHE_HIT);
	buf_done(&made);
	buf_done(&out);
	answercache_free(c);
}

static atomic_bool is_asked, is_off;

static bool off(const void *arg)
{
	(void)arg;
	atomic_store(&is_asked, true);
	return atomic_load(&is_off);
}

static const struct answercache_wait patient = {3600 * SECOND, off, NULL};

static void *waits_for_y(void *arg)
{
	struct buf out;
	uintptr_t found;

	buf_init(&out, 1000);
	found = answercache_get(arg, "y", &patient, &out);
	buf_done(&out);
	return (void *)found;
}

/* It holds the lock when it asks whether it is off: who locks after that finds it waiting. */
static pthread_t begin_to_wait(struct answercache *c)
{
	pthread_t thread;

	atomic_store(&is_off, false);
	atomic_store(&is_asked, false);
	assert_int_equal(pthread_create(&thread, NULL, waits_for_y, c), 0);
	while (!atomic_load(&is_asked))
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	return thread;
}

/* One makes, one waits: there is no place for a third, until the one who waits has gone. */
static void test_cache_has_few_places(void **state)
{
	struct answercache *c = answercache_new(100, 1, 1);
	pthread_t thread;
	struct buf out;
	void *found;

	(void)state;
	buf_init(&out, 100);
	assert_int_equal(get(c, "x", 0, &out), ANSWERCACHE_MAKE);
	thread = begin_to_wait(c);
	assert_int_equal(get(c, "z", 3600 * SECOND, &out), ANSWERCACHE_BUSY);
	atomic_store(&is_off, true);
	pthread_join(thread, &found);
	assert_int_equal((uintptr_t)found, ANSWERCACHE_BUSY);
	/* Who has gone is given nothing to make. */
	answercache_put(c, "x", NULL);
	assert_int_equal(answercache_get(c, "y", &patient, &out), ANSWERCACHE_BUSY);
	assert_int_equal(get(c, "y", 0, &out), ANSWERCACHE_MAKE);
	/* The place is free again: the next one waits, and makes what could not be made. */
	thread = begin_to_wait(c);
	answercache_put(c, "y", NULL);
	pthread_join(thread, &found);
	assert_int_equal((uintptr_t)found, ANSWERCACHE_MAKE);
	answercache_put(c, "y", NULL);
	buf_done(&out);
	answercache_free(c);
}

/* The version that was answered stays for its time; other questions have their own. */
static void test_age(void **state)
{
	struct answerage *a = answerage_new();
	uint64_t i;

	(void)state;
	assert_int_equal(answerage_version(a, 1, 100, 5, 10), 100);
	assert_int_equal(answerage_version(a, 1, 101, 14, 10), 100);
	assert_int_equal(answerage_version(a, 2, 101, 14, 10), 101);
	assert_int_equal(answerage_version(a, 1, 102, 15, 10), 102);
	assert_int_equal(answerage_version(a, 1, 103, 24, 10), 102);
	assert_int_equal(answerage_version(a, 1, 103, 24, 0), 103); /* now, please */
	assert_int_equal(answerage_version(a, 1, 104, 33, 10), 103);
	/* Of more than there is room for the oldest goes, which is the second. */
	for (i = 0; i < ANSWERAGE_MAX - 1; i++)
		assert_int_equal(answerage_version(a, 1000 + i, 7, 30, 1000), 7);
	assert_int_equal(answerage_version(a, 1, 105, 33, 10), 103);
	assert_int_equal(answerage_version(a, 2, 105, 33, 1000), 105);
	answerage_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_child),
		cmocka_unit_test(test_child_is_off),
		cmocka_unit_test(test_child_limits),
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_cache_many),
		cmocka_unit_test(test_cache_waits),
		cmocka_unit_test(test_cache_has_few_places),
		cmocka_unit_test(test_age),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
