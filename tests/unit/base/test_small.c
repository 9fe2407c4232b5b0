/* SPDX-License-Identifier: Apache-2.0
 *
 * test_small.c - errors, log lines, memory and ends of texts: the small parts of base.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

static void test_first_error_stays(void **state)
{
	struct err e = {0};

	(void)state;
	assert_int_equal(err_set(&e, -EINVAL, "line %d is wrong", 7), -EINVAL);
	assert_int_equal(err_set(&e, -EIO, "later"), -EIO);
	assert_int_equal(e.code, -EINVAL);
	assert_string_equal(e.text, "line 7 is wrong");
	err_clear(&e);
	assert_int_equal(e.code, 0);
	assert_string_equal(e.text, "");
	assert_int_equal(err_errno(&e, -ENOENT, "cannot open %s", "x.db"), -ENOENT);
	assert_string_equal(e.text, "cannot open x.db: No such file or directory");
	assert_int_equal(err_set(NULL, -EPERM, "nobody listens"), -EPERM);
}

static void test_long_error_is_cut(void **state)
{
	struct err e = {0};
	char text[2000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	err_errno(&e, -EIO, "%s", text);
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
}

/* What log_write() writes, in out. */
static size_t logged(char out[4096], enum log_level level, const char *text)
{
	int fds[2];
	ssize_t n;

	assert_int_equal(pipe(fds), 0);
	log_open(fds[1], LOG_LEVEL_INFO);
	errno = 77;
	log_write(level, "%s", text);
	assert_int_equal(errno, 77);
	log_open(STDERR_FILENO, LOG_LEVEL_INFO);
	close(fds[1]);
	n = read(fds[0], out, 4095);
	close(fds[0]);
	assert_true(n >= 0);
	out[n] = '\0';
	return (size_t)n;
}

static void test_log_line(void **state)
{
	char out[4096], *p;

	(void)state;
	logged(out, LOG_LEVEL_WARN, "disk full");
	/* 2026-11-28T01:02:03.456Z lapse[1]: ... */
	assert_int_equal(out[4], '-');
	assert_int_equal(out[10], 'T');
	assert_int_equal(out[23], 'Z');
	p = strstr(out, "] warning: ");
	assert_non_null(p);
	assert_string_equal(p, "] warning: disk full\n");
	assert_int_equal(logged(out, LOG_LEVEL_DEBUG, "quiet"), 0);
}

static void test_log_is_one_line(void **state)
{
	char text[3000], out[4096];
	size_t n;

	(void)state;
	logged(out, LOG_LEVEL_ERROR, "name \"a\nb\x1b[2J\" is wrong");
	assert_non_null(strstr(out, "name \"a?b?[2J\" is wrong\n"));
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	n = logged(out, LOG_LEVEL_ERROR, text);
	assert_int_equal(n, 1023); /* the stated most, with its end of line */
	assert_ptr_equal(strchr(out, '\n'), out + n - 1);
}

static void test_memory(void **state)
{
	size_t cap = 0, len;
	int *items = NULL;
	char *s;

	(void)state;
	for (len = 0; len < 1000; len++) {
		items = xgrow(items, len, &cap, sizeof(*items));
		assert_true(cap > len);
		items[len] = (int)len;
	}
	for (len = 0; len < 1000; len++)
		assert_int_equal(items[len], len);
	free(items);
	s = xstrndup("abc", 2);
	assert_string_equal(s, "ab");
	free(s);
	assert_null(xstrdup(NULL));
	s = xasprintf("%s-%d", "a", 5);
	assert_string_equal(s, "a-5");
	free(s);
	s = xcalloc(0, 8);
	assert_non_null(s);
	free(s);
}

static void test_text(void **state)
{
	(void)state;
	assert_true(text_ends("a.db", ".db"));
	assert_false(text_ends(".db", ".db")); /* nothing in front */
	assert_false(text_ends("a.dbx", ".db"));
	assert_false(text_ends("db", ".db"));
	assert_false(text_ends("", ".db"));
	assert_true(text_begins("ncclKernel", "nccl"));
	assert_true(text_begins("nccl", "nccl"));
	assert_false(text_begins("ncc", "nccl"));
	assert_false(text_begins("an ncclKernel", "nccl"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_error_stays),
		cmocka_unit_test(test_long_error_is_cut),
		cmocka_unit_test(test_log_line),
		cmocka_unit_test(test_log_is_one_line),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
