/* SPDX-License-Identifier: Apache-2.0
 *
 * test_opt.c - options as a user may write them, right and wrong.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cli/opt.h"

static bool flag_quiet, flag_all, flag_both;
static const char *text;
static int64_t count, span, size;
static char calls[64];

static int call(const char *arg, void *to)
{
	if (strcmp(arg, "bad") == 0)
		return -EINVAL;
	strcat(to, arg);
	return 0;
}

static const struct opt rows[] = {
	{.name = "quiet", .letter = 'q', .type = OPT_FLAG, .to = &flag_quiet, .help = "h"},
	{.name = "all", .letter = 'a', .type = OPT_FLAG, .to = &flag_all, .help = "h"},
	{.name = "two_long-words", .type = OPT_FLAG, .to = &flag_both, .help = "h"},
	{.name = "text", .letter = 't', .type = OPT_STR, .value = "T", .to = &text, .help = "h"},
	{.name = "count",
	 .letter = 'n',
	 .type = OPT_INT,
	 .value = "N",
	 .to = &count,
	 .lo = 1,
	 .hi = 10,
	 .help = "h"},
	{.name = "span", .type = OPT_DURATION, .value = "D", .to = &span, .help = "h"},
	{.name = "size",
	 .type = OPT_BYTES,
	 .value = "B",
	 .to = &size,
	 .lo = 4096,
	 .hi = 1 << 20,
	 .help = "h"},
	{.name = "env",
	 .letter = 'e',
	 .type = OPT_CALL,
	 .value = "E",
	 .to = calls,
	 .call = call,
	 .help = "h"},
	{0},
};

static const struct opt *options(void)
{
	return rows;
}

static struct command command = {.name = "test",
				 .args = "",
				 .summary = "s",
				 .about = "",
				 .examples = "",
				 .options = options};

/* argv of the last parse, after it. */
static char *args[16];
static int n_args, status;

/* Parse words separated by blanks; the index of the first argument. */
static int parse(const char *words)
{
	static char copy[256];
	char *save, *word;

	flag_quiet = flag_all = flag_both = false;
	text = NULL;
	count = span = size = -1;
	calls[0] = '\0';
	status = -1;
	snprintf(copy, sizeof(copy), "test %s", words);
	n_args = 0;
	for (word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
		args[n_args++] = word;
	return opt_parse(&command, n_args, args, &status);
}

static void test_long(void **state)
{
	(void)state;
	assert_int_equal(parse("--quiet --text=a=b --count 7"), 4 + 1);
	assert_true(flag_quiet);
	assert_false(flag_all);
	assert_string_equal(text, "a=b");
	assert_int_equal(count, 7);
	assert_int_equal(parse("--two-long_words"), 2);
	assert_true(flag_both);
	assert_int_equal(parse("--two_long-word"), -1);
	assert_int_equal(parse("--two_long-wordss"), -1);
	assert_int_equal(parse("--two.long.words"), -1);
	assert_int_equal(parse("--text= --text -x"), 4);
	assert_string_equal(text, "-x");
	assert_int_equal(parse("--text="), 2);
	assert_string_equal(text, "");
}

static void test_short(void **state)
{
	(void)state;
	assert_int_equal(parse("-qn5"), 2);
	assert_true(flag_quiet);
	assert_int_equal(count, 5);
	assert_int_equal(parse("-aqt x -n 3"), 5);
	assert_true(flag_quiet && flag_all);
	assert_string_equal(text, "x");
	assert_int_equal(count, 3);
}

static void test_arguments(void **state)
{
	int first;

	(void)state;
	/* Mixed: the arguments come together at the end, in their order. */
	first = parse("one -q two --count 2 - three");
	assert_int_equal(first, 4);
	assert_int_equal(n_args - first, 4);
	assert_string_equal(args[first], "one");
	assert_string_equal(args[first + 1], "two");
	assert_string_equal(args[first + 2], "-");
	assert_string_equal(args[first + 3], "three");
	assert_true(flag_quiet);
	first = parse("-q -- -a --text");
	assert_int_equal(n_args - first, 2);
	assert_string_equal(args[first], "-a");
	assert_string_equal(args[first + 1], "--text");
	assert_false(flag_all);
	assert_int_equal(parse(""), 1);
}

static void test_options_first(void **state)
{
	int first;

	(void)state;
	command.options_first = true;
	first = parse("-q prog -a --text x");
	assert_int_equal(n_args - first, 4);
	assert_string_equal(args[first], "prog");
	assert_string_equal(args[first + 1], "-a");
	assert_true(flag_quiet);
	assert_false(flag_all);
	assert_null(text);
	first = parse("-q -- prog -- -a");
	assert_int_equal(n_args - first, 3);
	assert_string_equal(args[first], "prog");
	assert_string_equal(args[first + 1], "--");
	command.options_first = false;
}

static void test_repeated(void **state)
{
	(void)state;
	assert_int_equal(parse("-e a --env=b -ec"), 5);
	assert_string_equal(calls, "abc");
	assert_int_equal(parse("-e bad"), -1);
	assert_int_equal(status, 2);
}

static void test_wrong(void **state)
{
	static const char *const wrong[] = {
		"--qiet",
		"--quiet=1",
		"-z",
		"--count",
		"--count 0",
		"--count 11",
		"--count 3x",
		"--count 0x3",
		"--count=",
		"-n",
		"--span -1",
		"--span 1y",
		"--span",
		"--size 4095",
		"--size 2M",
		"-qz",
		"--count 99999999999999999999",
		"---",
		"--span inf",
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(wrong); i++) {
		if (parse(wrong[i]) != -1 || status != 2)
			fail_msg("accepted: %s", wrong[i]);
	}
}

/* --help writes to stdout, where the test's own protocol lives. */
static void test_help(void **state)
{
	int saved = dup(STDOUT_FILENO);

	(void)state;
	fflush(stdout);
	assert_non_null(freopen("/dev/null", "w", stdout));
	assert_int_equal(parse("--help"), -1);
	assert_int_equal(status, 0);
	assert_int_equal(parse("x -h --count nonsense"), -1);
	assert_int_equal(status, 0);
	fflush(stdout);
	assert_int_equal(dup2(saved, STDOUT_FILENO), STDOUT_FILENO);
	close(saved);
	/* Behind "--" it is the command's. */
	assert_int_equal(parse("-- --help"), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_long),      cmocka_unit_test(test_short),
		cmocka_unit_test(test_arguments), cmocka_unit_test(test_options_first),
		cmocka_unit_test(test_repeated),  cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_help),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
