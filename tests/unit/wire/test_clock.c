/* SPDX-License-Identifier: Apache-2.0
 *
 * The tick counter and its anchors against the kernel's clocks.
 */
#include "wire/clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static void test_kind(void **state)
{
	uint32_t kind = clock_kind();
	char text[32] = "";
	FILE *f = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");

	(void)state;
	assert_in_range(kind, WIRE_CLOCK_MONOTONIC, WIRE_CLOCK_CNTVCT);
	if (f) {
		assert_non_null(fgets(text, sizeof(text), f));
		fclose(f);
	}
#if defined(__x86_64__)
	/* The TSC only where the kernel trusts it. */
	assert_int_equal(kind, strcmp(text, "tsc\n") ? WIRE_CLOCK_MONOTONIC : WIRE_CLOCK_TSC);
#endif
}

static void test_monotonic(void **state)
{
	int64_t before, after;
	uint64_t ticks, last = 0;
	int i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		before = clock_ns(CLOCK_MONOTONIC);
		ticks = clock_ticks(WIRE_CLOCK_MONOTONIC);
		after = clock_ns(CLOCK_MONOTONIC);
		assert_true((int64_t)ticks >= before && (int64_t)ticks <= after);
	}
	/* The own counter goes forward, too, but for reads out of order. */
	for (i = 0; i < 1000; i++) {
		ticks = clock_ticks(clock_kind());
		assert_true(ticks + 100000 > last);
		last = ticks;
	}
	assert_true(last > 0);
}

static void check_anchor(uint32_t kind)
{
	struct wire_anchor a;
	uint64_t ticks = clock_ticks(kind);
	int64_t mono = clock_ns(CLOCK_MONOTONIC), boot = clock_ns(CLOCK_BOOTTIME);

	memset(&a, 0xff, sizeof(a));
	clock_anchor(kind, &a);
	assert_true(a.seq == 0);
	assert_true(a.ticks + 100000 >= ticks && a.ticks <= clock_ticks(kind) + 100000);
	assert_true(a.mono_ns >= mono && a.mono_ns <= clock_ns(CLOCK_MONOTONIC));
	assert_true(a.boot_ns >= boot && a.boot_ns <= clock_ns(CLOCK_BOOTTIME));
	/* After 2020. */
	assert_true(a.real_ns > INT64_C(1577836800000000000));
}

static void test_anchor(void **state)
{
	(void)state;
	check_anchor(WIRE_CLOCK_MONOTONIC);
	check_anchor(clock_kind());
}

/* Against the text, digit by digit. */
static void test_boot_id(void **state)
{
	char text[64] = "", want[64], got[64];
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
	uint8_t id[16], again[16];
	size_t i, n = 0;

	(void)state;
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	for (i = 0; text[i] && text[i] != '\n'; i++)
		if (text[i] != '-')
			want[n++] = text[i];
	want[n] = '\0';
	assert_int_equal(n, 32);
	memset(id, 0xff, sizeof(id));
	clock_boot_id(id);
	clock_boot_id(again);
	for (i = 0; i < 16; i++)
		snprintf(got + 2 * i, 3, "%02x", id[i]);
	assert_string_equal(got, want);
	assert_memory_equal(id, again, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kind),
		cmocka_unit_test(test_monotonic),
		cmocka_unit_test(test_anchor),
		cmocka_unit_test(test_boot_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
