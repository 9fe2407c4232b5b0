/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsers of the machine's texts: what kernels write, and what none does.
 */
#include "probe/linux/hosttext.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "probe/linux/cpuquota.h"
#include "probe/linux/psi.h"

static int cpu(const char *text, struct hosttext_cpu *c, const char **p)
{
	*p = text;
	return hosttext_cpu(p, text + strlen(text), c);
}

static void test_cpu(void **state)
{
	static const char text[] = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu12 10 20 30 40\nintr 7";
	struct hosttext_cpu c;
	const char *p = text;
	int i;

	(void)state;
	assert_int_equal(hosttext_cpu(&p, text + strlen(text), &c), 0);
	assert_int_equal(c.id, HOSTTEXT_CPU_ALL);
	assert_int_equal(c.fields, 10);
	for (i = 0; i < 10; i++)
		assert_int_equal(c.ticks[i], i + 1);
	assert_int_equal(hosttext_cpu(&p, text + strlen(text), &c), 0);
	assert_int_equal(c.id, 12);
	assert_int_equal(c.fields, 4);
	assert_int_equal(c.ticks[HOSTTEXT_IDLE], 40);
	assert_int_equal(c.ticks[HOSTTEXT_STEAL], 0);
	assert_int_equal(hosttext_cpu(&p, text + strlen(text), &c), -ENOENT);
	assert_string_equal(p, "intr 7");

	/* later kernels may add fields; 20 digits fit 64 bits just so */
	assert_int_equal(cpu("cpu0 18446744073709551615 -7 3 4 5 6 7 8 9 10 11 12\n", &c, &p), 0);
	assert_true(c.ticks[0] == UINT64_MAX && c.ticks[1] == 0 && c.ticks[9] == 10);
	assert_int_equal(cpu("cpu0 18446744073709551616 2 3 4\n", &c, &p), -EBADMSG);
	assert_string_equal(p, "");
	assert_int_equal(cpu("cpu 1 2 3\n", &c, &p), -EBADMSG);
	assert_int_equal(cpu("cpu 1 2 3 x\n", &c, &p), -EBADMSG);
	assert_int_equal(cpu("cpu- 1 2 3 4\n", &c, &p), -EBADMSG);
	assert_int_equal(cpu("cpu4294967295 1 2 3 4\n", &c, &p), -EBADMSG);
	assert_int_equal(cpu("cp", &c, &p), -ENOENT);
	assert_int_equal(cpu("", &c, &p), -ENOENT);
}

static void test_pairs(void **state)
{
	static const struct hosttext_key keys[] = {HOSTTEXT_KEY("A", 0), HOSTTEXT_KEY("Ab", 1),
						   HOSTTEXT_KEY("c", 2), HOSTTEXT_KEY("d", 2),
						   HOSTTEXT_KEY("e", 3)};
	static const char text[] =
		"Ab: 2 kB\nA:    3\nAbc: 9\nd 40 5 6\nNode 7 c: 1 kB\n\n:\ne: x\n"
		"Node x e: 5\ne: 18446744073709551615 kB\nc";
	static const char large[] = "c 9\nd 18446744073709551615\n";
	uint64_t v[4];

	(void)state;
	/* c and d go into one place: 40 + 1024 */
	assert_int_equal(hosttext_pairs(text, text + strlen(text), keys, 5, v, 4), 7);
	assert_true(v[0] == 3 && v[1] == 2048 && v[2] == 1064 && v[3] == 0);
	assert_int_equal(hosttext_pairs(text, text, keys, 5, v, 4), 0);
	/* a sum that does not fit leaves what was there */
	assert_int_equal(hosttext_pairs(large, large + strlen(large), keys, 5, v, 4), 4);
	assert_true(v[2] == 9);
}

static int load(const char *text, double v[3])
{
	return hosttext_load(text, text + strlen(text), v);
}

static void test_load(void **state)
{
	static const char *const bad[] = {
		"",           "12",           "1.5 2.5",     "1.5 2.5 3.5", "1. 2.0 3.0 x",
		"-1.0e 2 3 ", "nan nan nan ", "1.0 2.0 inf "};
	double v[3] = {9, 9, 9};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(load(bad[i], v), -EBADMSG);
		assert_true(v[0] == 9);
	}
	assert_int_equal(load("12.25 0.01 100.50 1/120 999\n", v), 0);
	assert_true(v[0] == 12.25 && v[1] == 0.01 && v[2] == 100.5);
}

static int length(const char *text, uint64_t *n)
{
	return hosttext_list_len(text, text + strlen(text), n);
}

static void test_list(void **state)
{
	static const char *const bad[] = {
		"",   "\n",  "x",   "3-1",        "1-",
		"-1", "1,x", "1;2", "4294967296", "0-99999999999999999999"};
	uint32_t first, last;
	const char *p, *end;
	uint64_t n;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(length(bad[i], &n), -EBADMSG);
	assert_int_equal(length("0-3,8\n", &n), 0);
	assert_int_equal(n, 5);
	assert_int_equal(length("\t0\n", &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(length("0-4294967295", &n), 0);
	assert_true(n == UINT64_C(1) << 32);
	p = "5-6,9";
	end = p + 5;
	assert_int_equal(hosttext_range(&p, end, &first, &last), 0);
	assert_true(first == 5 && last == 6);
	assert_int_equal(hosttext_range(&p, end, &first, &last), 0);
	assert_true(first == 9 && last == 9);
	assert_int_equal(hosttext_range(&p, end, &first, &last), -ENOENT);
}

static int clocks(const char *text, struct hosttext_clock *c)
{
	return hosttext_clock(text, text + strlen(text), c);
}

static void test_clock(void **state)
{
	struct hosttext_clock c;

	(void)state;
	assert_int_equal(clocks("flags\t: a aperfmperf\ncpu MHz\t\t: 1500.250\n"
				"cpu MHz\t\t: 2500.750\ncpu MHz : x\ncpu MHz : 0.000\n",
				&c),
			 0);
	assert_int_equal(c.n, 2);
	assert_true(c.sum == 4001e6 && c.min == 1500250000.0 && c.max == 2500750000.0);
	assert_int_equal(clocks("flags : xaperfmperf aperfmperfx\ncpu MHz : 1.0\n", &c), -ENODATA);
	assert_int_equal(clocks("flags : aperfmperf\n", &c), -ENOENT);
	assert_int_equal(clocks("", &c), -ENOENT);
}

static int psi(const char *text, uint64_t *some, uint64_t *full)
{
	return psi_parse(text, strlen(text), some, full);
}

static void test_psi(void **state)
{
	static const char *const bad[] = {"",
					  "some\n",
					  "some avg10=1.00\n",
					  "some total=x\n",
					  "none total=1\n",
					  "full total=1 2\n",
					  "some total=18446744073709551615\n",
					  "some a total=1\nfull total=-1\n"};
	uint64_t some = 7, full = 7;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(psi(bad[i], &some, &full), -EBADMSG);
		assert_true(some == 7 && full == 7);
	}
	assert_int_equal(psi("some avg10=1.79 avg60=4.19 avg300=8.53 total=7603506856\n"
			     "full avg10=0.00 avg60=0.00 avg300=0.00 total=12\n",
			     &some, &full),
			 0);
	assert_true(some == UINT64_C(7603506856) && full == 12);
	assert_int_equal(psi("some avg10=1.79 total=5\n", &some, &full), 0);
	assert_true(some == 5 && full == PSI_NONE);
	assert_int_equal(psi("full avg10=1.79 total=5", &some, &full), 0);
	assert_true(some == PSI_NONE && full == 5);
}

static int quota(const char *text, double *v)
{
	return cpuquota_parse(text, strlen(text), v);
}

static void test_quota(void **state)
{
	static const char *const bad[] = {"",         "1",     "1 ",        " 1 2", "0 100000",
					  "100000 0", "1 2 3", "-1 100000", "1.5 2"};
	double v = 9;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(quota(bad[i], &v), -EBADMSG);
	assert_int_equal(quota("max 100000\n", &v), -ENODATA);
	assert_true(v == 9);
	assert_int_equal(quota("150000 100000\n", &v), 0);
	assert_true(v == 1.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpu),   cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_load),  cmocka_unit_test(test_list),
		cmocka_unit_test(test_clock), cmocka_unit_test(test_psi),
		cmocka_unit_test(test_quota),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
