/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs of AMD and Intel from stored /sys (tests/data/gpu), and the texts of their files.
 */
#include "probe/gpu/card.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "probe/groups.h"
#include "reading.h"
#include "stored.h"

static void near(double got, double want)
{
	double d = got - want;

	if (!(d < 1e-9 * (want < 0 ? -want : want) + 1e-12 &&
	      -d < 1e-9 * (want < 0 ? -want : want) + 1e-12))
		fail_msg("%.17g, not %.17g", got, want);
}

static void expect(const struct reading *r, const char *name, const char *labels, double want)
{
	near(reading_value(r, name, labels), want);
}

/* ---- texts ------------------------------------------------------------------------- */

static void texts_become_numbers(void **state)
{
	double v = 0;

	(void)state;
	assert_int_equal(card_number("42\n", CARD_GAUGE, &v), 0);
	near(v, 42);
	assert_int_equal(card_number("-5000\n", CARD_GAUGE, &v), 0);
	near(v, -5000);
	assert_int_equal(card_number("", CARD_GAUGE, &v), -EBADMSG);
	assert_int_equal(card_number("N/A\n", CARD_GAUGE, &v), -EBADMSG);
	assert_int_equal(card_number("nan\n", CARD_GAUGE, &v), -EBADMSG);
	assert_int_equal(card_number("2.5 GT/s PCIe\n", CARD_SPEED, &v), 0);
	near(v, 1);
	assert_int_equal(card_number("32.0 GT/s PCIe\n", CARD_SPEED, &v), 0);
	near(v, 5);
	assert_int_equal(card_number("Unknown\n", CARD_SPEED, &v), -EBADMSG);
	assert_int_equal(card_number("7 GT/s\n", CARD_SPEED, &v), -EBADMSG);
	assert_int_equal(card_number("0: 96Mhz \n1: 456Mhz *\n2: 673Mhz\n", CARD_CHOSEN, &v), 0);
	near(v, 456);
	assert_int_equal(card_number("0: 96Mhz\n1: 456Mhz", CARD_CHOSEN, &v), -EBADMSG);
	assert_int_equal(card_number("*\n", CARD_CHOSEN, &v), -EBADMSG);
	assert_int_equal(card_number("ue: 3\nce: 12\n", CARD_CORRECTED, &v), 0);
	near(v, 12);
	assert_int_equal(card_number("ue: 3\nce: 12\n", CARD_UNCORRECTED, &v), 0);
	near(v, 3);
	assert_int_equal(card_number("ue:", CARD_UNCORRECTED, &v), -EBADMSG);
}

/* ---- AMD ---------------------------------------------------------------------------- */

static void instinct(void **state)
{
	struct reading r;
	char root[STORED_PATH];

	(void)state;
	stored_copy("mi300", root);
	assert_int_equal(reading_open(&r, &probe_amd, root), 0);
	reading_at(&r, 1);
	expect(&r, "gpu/busy", "gpu=\"amd0\"", 0.87);
	expect(&r, "gpu/memory/busy", "gpu=\"amd1\"", 0.41);
	expect(&r, "gpu/memory/used", "gpu=\"amd0\"", 298844160);
	expect(&r, "gpu/memory/used", "gpu=\"amd1\"", 103079215104);
	expect(&r, "gpu/memory/total", "gpu=\"amd1\"", 206141652992);
	expect(&r, "gpu/power", "gpu=\"amd0\"", 312);
	expect(&r, "gpu/power/limit", "gpu=\"amd0\"", 750);
	expect(&r, "gpu/temperature", "gpu=\"amd0\"", 61);
	expect(&r, "gpu/temperature/memory", "gpu=\"amd0\"", 48);
	expect(&r, "gpu/clock/sm", "gpu=\"amd0\"", 2098e6);
	expect(&r, "gpu/clock/memory", "gpu=\"amd0\"", 1300e6);
	expect(&r, "gpu/pcie/generation", "gpu=\"amd0\"", 5);
	expect(&r, "gpu/pcie/width", "gpu=\"amd0\"", 16);
	assert_string_equal(reading_why(&r, "gpu/ecc/corrected", "gpu=\"amd0\""),
			    "needs a second reading");
	stored_write(root, "/sys/class/drm/card1/device/ras/umc_err_count", "ue: 1\nce: 15\n");
	stored_write(root, "/sys/class/drm/card1/device/pcie_replay_count", "6\n");
	reading_at(&r, 2);
	expect(&r, "gpu/ecc/corrected", "gpu=\"amd0\"", 3);
	expect(&r, "gpu/ecc/uncorrected", "gpu=\"amd0\"", 1);
	expect(&r, "gpu/ecc/corrected", "gpu=\"amd1\"", 0);
	expect(&r, "gpu/pcie/replays", "gpu=\"amd0\"", 2);
	assert_false(reading_has(&r, "gpu/energy", "gpu=\"amd0\""));
	reading_close(&r);
	stored_remove(root, "");
}

static void radeon_sleeps_and_wakes(void **state)
{
	struct reading r;
	char root[STORED_PATH];

	(void)state;
	stored_copy("radeon", root);
	stored_write(root, "/sys/class/drm/card0/device/power/runtime_status", "suspended\n");
	assert_int_equal(reading_open(&r, &probe_amd, root), 0);
	reading_at(&r, 1);
	assert_false(reading_has(&r, "gpu/busy", "gpu=\"amd0\""));
	stored_write(root, "/sys/class/drm/card0/device/power/runtime_status", "active\n");
	reading_at(&r, 2);
	expect(&r, "gpu/busy", "gpu=\"amd0\"", 0.03);
	expect(&r, "gpu/power", "gpu=\"amd0\"", 32);
	expect(&r, "gpu/temperature", "gpu=\"amd0\"", 44);
	expect(&r, "gpu/clock/memory", "gpu=\"amd0\"", 1000e6);
	expect(&r, "gpu/fan", "gpu=\"amd0\"", 0.2);
	expect(&r, "gpu/pcie/generation", "gpu=\"amd0\"", 4);
	stored_write(root, "/sys/class/drm/card0/device/power/runtime_status", "suspended\n");
	reading_at(&r, 3);
	assert_non_null(strstr(reading_why(&r, "gpu/busy", "gpu=\"amd0\""), "wake"));
	reading_close(&r);
	stored_remove(root, "");
}

static unsigned lost, back;

static void hear(void *arg, int64_t boot_ns, int severity, const char *kind, const char *text,
		 const char *attrs)
{
	(void)arg, (void)boot_ns, (void)severity, (void)text, (void)attrs;
	lost += strcmp(kind, "gpu-lost") == 0;
	back += strcmp(kind, "gpu-back") == 0;
}

static void a_card_goes_and_comes_back(void **state)
{
	struct probe_taker t = {.event = hear};
	struct reading r;
	char root[STORED_PATH], path[STORED_PATH + 64], away[STORED_PATH + 64];

	(void)state;
	stored_copy("mi300", root);
	assert_int_equal(reading_open(&r, &probe_amd, root), 0);
	reading_at(&r, 1);
	snprintf(path, sizeof(path), "%s/sys/class/drm/card1/device", root);
	snprintf(away, sizeof(away), "%s/away", root);
	assert_int_equal(rename(path, away), 0);
	reading_at(&r, 2);
	reading_at(&r, 3);
	probe_set_take(r.set, &t);
	assert_int_equal(lost, 1);
	assert_string_equal(reading_why(&r, "gpu/busy", "gpu=\"amd0\""), "the GPU is gone");
	expect(&r, "gpu/busy", "gpu=\"amd1\"", 0.87);
	assert_int_equal(rename(away, path), 0);
	reading_at(&r, 70);
	probe_set_take(r.set, &t);
	assert_int_equal(lost, 1);
	assert_int_equal(back, 1);
	expect(&r, "gpu/busy", "gpu=\"amd0\"", 0.87);
	reading_close(&r);
	stored_remove(root, "");
}

/* ---- Intel --------------------------------------------------------------------------- */

static void intel_processor_graphics(void **state)
{
	struct reading r;

	(void)state;
	assert_int_equal(reading_open(&r, &probe_intel, stored_path("i915")), 0);
	reading_at(&r, 1);
	expect(&r, "gpu/clock/sm", "gpu=\"intel0\"", 350e6);
	expect(&r, "gpu/clock/sm/max", "gpu=\"intel0\"", 1150e6);
	assert_non_null(strstr(reading_why(&r, "gpu/busy", "gpu=\"intel0\""), "CAP_PERFMON"));
	reading_close(&r);
}

static void intel_card(void **state)
{
	struct reading r;
	char root[STORED_PATH];

	(void)state;
	stored_copy("xe", root);
	assert_int_equal(reading_open(&r, &probe_intel, root), 0);
	reading_at(&r, 10);
	expect(&r, "gpu/clock/sm", "gpu=\"intel0\"", 2400e6);
	expect(&r, "gpu/temperature", "gpu=\"intel0\"", 52);
	expect(&r, "gpu/temperature/memory", "gpu=\"intel0\"", 58);
	expect(&r, "gpu/power/limit", "gpu=\"intel0\"", 190);
	stored_write(root, "/sys/class/drm/card1/device/hwmon/hwmon4/energy1_input", "65000000\n");
	reading_at(&r, 14);
	expect(&r, "gpu/energy", "gpu=\"intel0\"", 60);
	expect(&r, "gpu/power", "gpu=\"intel0\"", 15);
	reading_close(&r);
	stored_remove(root, "");
}

static void none_here(void **state)
{
	struct reading r;

	(void)state;
	assert_int_equal(reading_open(&r, &probe_intel, stored_path("radeon")), -ENODEV);
	assert_non_null(strstr(r.err.text, "no Intel GPU"));
	assert_int_equal(reading_open(&r, &probe_amd, stored_path("xe")), -ENODEV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_become_numbers),
		cmocka_unit_test(instinct),
		cmocka_unit_test(radeon_sleeps_and_wakes),
		cmocka_unit_test(a_card_goes_and_comes_back),
		cmocka_unit_test(intel_processor_graphics),
		cmocka_unit_test(intel_card),
		cmocka_unit_test(none_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
