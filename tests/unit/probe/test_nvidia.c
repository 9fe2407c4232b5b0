/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA's GPUs through the library that plays NVIDIA's (tests/fake): what each value is
 * there is written in nvml.c beside it.
 */
#include "probe/gpu/nvidia_dev.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "machine.h"
#include "probe/gpu/nvidia_field.h"
#include "probe/gpu/procs.h"
#include "probe/gpu/rows.h"
#include "probe/groups.h"

#define MIB 1048576.0

/* ---- binary interface -------------------------------------------------------------- */

static void sizes_are_nvidias(void **state)
{
	(void)state;
	assert_int_equal(sizeof(struct nvml_utilization), 8);
	assert_int_equal(sizeof(struct nvml_memory), 24);
	assert_int_equal(sizeof(struct nvml_memory_v2), 40);
	assert_int_equal(sizeof(struct nvml_pci), 68);
	assert_int_equal(offsetof(struct nvml_pci, bus_id), 36);
	assert_int_equal(sizeof(struct nvml_field), 40);
	assert_int_equal(offsetof(struct nvml_field, value), 32);
	assert_int_equal(offsetof(struct nvml_field, ret), 28);
	assert_int_equal(sizeof(struct nvml_event), 32);
	assert_int_equal(sizeof(struct nvml_process), 24);
	assert_int_equal(sizeof(struct nvml_process_sample), 32);
	assert_int_equal(sizeof(struct nvml_gpm_metric), 40);
	assert_int_equal(offsetof(struct nvml_gpm_get, metrics), 24);
	assert_int_equal(sizeof(struct nvml_temperature_v1), 12);
	assert_int_equal(NVML_VERSION(nvml_memory_v2, 2), 0x02000028);
}

static void sentinels_are_no_numbers(void **state)
{
	struct nvml_field f = {.type = NVML_UINT};
	uint64_t u;
	double v;

	(void)state;
	f.value.ui = UINT32_MAX;
	assert_int_equal(nvml_field_number(&f, &v), -ENODATA);
	f.value.ui = UINT32_MAX - 1;
	assert_int_equal(nvml_field_number(&f, &v), 0);
	assert_true(v == 4294967294.0);
	f.type = NVML_ULONGLONG;
	f.value.ull = 9223372036854775794ULL;
	assert_int_equal(nvml_field_u64(&f, &u), -ENODATA);
	f.value.ull = UINT64_MAX;
	assert_int_equal(nvml_field_u64(&f, &u), -ENODATA);
	f.type = NVML_LONGLONG;
	f.value.sll = -1;
	assert_int_equal(nvml_field_u64(&f, &u), -ENODATA);
	f.type = NVML_DOUBLE;
	f.value.d = NAN;
	assert_int_equal(nvml_field_number(&f, &v), -ENODATA);
	f.type = NVML_INT;
	f.value.si = -5;
	assert_int_equal(nvml_field_number(&f, &v), 0);
	assert_true(v == -5);
	f.type = 77;
	assert_int_equal(nvml_field_number(&f, &v), -ENODATA);
	f.type = NVML_UINT;
	f.ret = NVML_NOT_SUPPORTED;
	assert_int_equal(nvml_field_number(&f, &v), -ENODATA);
}

/* ---- values ------------------------------------------------------------------------- */

/* T-18: each GPU has points of its own, all of them known, and the library is started once. */
static void every_gpu_has_its_own_values(void **state)
{
	struct machine m;
	char labels[32];
	unsigned i, inits;

	(void)state;
	machine_init(&m, "gpus=8,arch=hopper");
	inits = m.calls("Init_v2");
	machine_read(&m, 1, true);
	machine_read(&m, 2, false);
	for (i = 0; i < 8; i++) {
		snprintf(labels, sizeof(labels), "gpu=\"%u\"", i);
		machine_expect(&m, "gpu/busy", labels, (i * 13 + 5) / 100.0);
		machine_expect(&m, "gpu/memory/busy", labels, (i * 7 + 3) / 100.0);
		machine_expect(&m, "gpu/memory/used", labels, (i + 1) * 1000 * MIB);
		machine_expect(&m, "gpu/memory/reserved", labels, 600 * MIB);
		machine_expect(&m, "gpu/memory/total", labels, 81559 * MIB);
		machine_expect(&m, "gpu/power", labels, 100 + i);
		machine_expect(&m, "gpu/temperature", labels, 40 + i);
		machine_expect(&m, "gpu/temperature/memory", labels, 51);
		machine_expect(&m, "gpu/clock/sm", labels, (1980 - 15 * i) * 1e6);
		machine_expect(&m, "gpu/clock/memory", labels, 2619e6);
		machine_expect(&m, "gpu/energy", labels, 100 + i);
		machine_expect(&m, "gpu/ecc/corrected", labels, 2 * (i + 1));
		machine_expect(&m, "gpu/ecc/uncorrected", labels, 0);
		machine_expect(&m, "gpu/pcie/received", labels, 1e9 * (i + 1));
		machine_expect(&m, "gpu/pcie/sent", labels, 5e8 * (i + 1));
		machine_expect(&m, "gpu/nvlink/received", labels, 2e6 * 1024 * (i + 1));
		machine_expect(&m, "gpu/nvlink/sent", labels, 1e6 * 1024 * (i + 1));
		machine_expect(&m, "gpu/xid", labels, 0);
		machine_expect(&m, "gpu/sm/active", labels, (10 + i / 10.0) / 100);
		machine_expect(&m, "gpu/dram/active", labels, (50 + i / 10.0) / 100);
		machine_expect(&m, "gpu/power/limit", labels, 700);
		machine_expect(&m, "gpu/clock/sm/max", labels, 1980e6);
		machine_expect(&m, "gpu/pcie/generation", labels, 5);
		machine_expect(&m, "gpu/pcie/width", labels, 16);
		machine_expect(&m, "gpu/power/average", labels, 90 + i);
		machine_expect(&m, "gpu/processes", labels, 0);
		machine_expect_absent(&m, "gpu/fan", labels, "does not tell");
	}
	machine_expect(&m, "gpu/ecc/remapped", "gpu=\"3\",kind=\"corrected\"", 2);
	machine_expect(&m, "gpu/ecc/remapped", "gpu=\"3\",kind=\"uncorrected\"", 1);
	machine_expect(&m, "gpu/ecc/pending", "gpu=\"3\"", 0);
	machine_expect(&m, "gpu/recovery", "gpu=\"3\"", 0);
	machine_expect(&m, "gpu/nvlink/errors", "gpu=\"0\",kind=\"crc\"", 3);
	assert_int_equal(m.calls("Init_v2"), inits);
	machine_done(&m);
}

/* Counters of ns: power 0.25 of the time, heat 0.125 by software, 0.0625 by hardware. */
static void throttling_is_a_share_of_the_time(void **state)
{
	static const char *const places[] = {"slowdown=251", "slowdown=269"};
	struct machine m;
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		machine_init(&m, places[i]);
		machine_read(&m, 1, false);
		machine_expect_absent(&m, "gpu/throttled", "gpu=\"0\"", "not known");
		machine_read(&m, 5, false);
		machine_expect(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"power_cap\"", 0.25);
		machine_expect(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"thermal_sw\"",
			       0.125);
		machine_expect(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"thermal_hw\"",
			       0.0625);
		machine_expect(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"power_brake\"", 0);
		machine_expect(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"reliability\"", 1);
		machine_expect(&m, "gpu/throttled", "gpu=\"0\"", 0.1875);
		assert_int_equal(m.calls("DeviceGetCurrentClocksThrottleReasons"), 0);
		machine_done(&m);
	}
}

/* Where the numbers of the counters cannot be told apart the mask is used: GPU 1 is hot. */
static void mask_where_counters_are_unsure(void **state)
{
	struct machine m;

	(void)state;
	machine_init(&m, "gpus=2,slowdown=0");
	machine_read(&m, 1, false);
	machine_read(&m, 3, false);
	machine_expect(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"power_cap\"", 0.25);
	machine_expect(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"thermal_hw\"", 0);
	machine_expect(&m, "gpu/throttled", "gpu=\"0\"", 0.125);
	machine_expect(&m, "gpu/throttled/reason", "gpu=\"1\",reason=\"thermal_hw\"", 1);
	machine_expect(&m, "gpu/throttled", "gpu=\"1\"", 1);
	machine_done(&m);
	machine_init(&m, "slowdown=1");
	machine_read(&m, 1, false);
	machine_read(&m, 2, false);
	assert_true(m.calls("DeviceGetCurrentClocksThrottleReasons") > 0);
	machine_done(&m);
}

static void old_drivers_tell_less(void **state)
{
	struct machine m;
	struct err e = {0};

	(void)state;
	assert_int_equal(machine_try(&m, FAKE_NVML_OLD, "gpus=2,arch=kepler", &e), 0);
	machine_read(&m, 1, true);
	machine_read(&m, 2, true);
	machine_expect(&m, "gpu/busy", "gpu=\"1\"", 0.18);
	machine_expect(&m, "gpu/power", "gpu=\"1\"", 91);
	machine_expect(&m, "gpu/memory/used", "gpu=\"1\"", 2600 * MIB);
	machine_expect_absent(&m, "gpu/memory/reserved", "gpu=\"1\"", "too old");
	machine_expect_absent(&m, "gpu/energy", "gpu=\"1\"", "too old");
	machine_expect_absent(&m, "gpu/sm/active", "gpu=\"1\"", "Hopper");
	machine_expect(&m, "gpu/throttled", "gpu=\"1\"", 1);
	machine_expect(&m, "gpu/throttled", "gpu=\"0\"", 0);
	machine_expect(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"power_cap\"", 1);
	machine_expect_absent(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"board_limit\"",
			      "not tell");
	machine_done(&m);
}

static void ampere_has_no_gpm(void **state)
{
	struct machine m;

	(void)state;
	machine_init(&m, "arch=ampere");
	machine_read(&m, 1, false);
	machine_read(&m, 2, false);
	machine_expect_absent(&m, "gpu/tensor/active", "gpu=\"0\"", "Hopper");
	machine_expect_absent(&m, "gpu/pcie/received", "gpu=\"0\"", "does not tell");
	machine_expect(&m, "gpu/power", "gpu=\"0\"", 100);
	assert_int_equal(m.calls("GpmSampleGet"), 0);
	machine_done(&m);
}

static void instances_have_their_own_points(void **state)
{
	struct machine m;

	(void)state;
	machine_init(&m, "gpus=2,mig=1:3");
	machine_read(&m, 1, true);
	machine_read(&m, 2, true);
	machine_expect(&m, "gpu/memory/used", "gpu=\"1\",mig=\"0\"", 100 * MIB);
	machine_expect(&m, "gpu/memory/used", "gpu=\"1\",mig=\"2\"", 300 * MIB);
	machine_expect(&m, "gpu/memory/total", "gpu=\"1\",mig=\"2\"", 9856 * MIB);
	/* The fake gives an instance k of GPU 1 the number 1 + 10 (k + 1). */
	machine_expect(&m, "gpu/sm/active", "gpu=\"1\",mig=\"2\"", (10 + 3.1) / 100);
	machine_expect_absent(&m, "gpu/busy", "gpu=\"1\"", "MIG");
	machine_expect_absent(&m, "gpu/sm/active", "gpu=\"1\"", "instances");
	machine_expect(&m, "gpu/busy", "gpu=\"0\"", 0.05);
	machine_expect(&m, "gpu/power", "gpu=\"1\"", 101);
	machine_done(&m);
}

static void sentinels_are_absent(void **state)
{
	static const char *const names[] = {"gpu/busy",      "gpu/memory/used", "gpu/power",
					    "gpu/energy",    "gpu/temperature", "gpu/clock/sm",
					    "gpu/pcie/width"};
	struct machine m;
	size_t i;

	(void)state;
	machine_init(&m, "blank=1");
	machine_read(&m, 1, true);
	machine_read(&m, 2, true);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		machine_expect_absent(&m, names[i], "gpu=\"0\"", "no data");
	machine_done(&m);
}

static void counters_wrap(void **state)
{
	struct machine m;

	(void)state;
	/* 4294967280 + 10 + 4 at 4 s, 6 at 22 s */
	machine_init(&m, "wrap=1");
	machine_read(&m, 4, false);
	machine_read(&m, 22, false);
	machine_expect(&m, "gpu/pcie/replays", "gpu=\"0\"", 18);
	machine_done(&m);
	machine_init(&m, "narrow=1");
	machine_read(&m, 1, false);
	machine_expect_absent(&m, "gpu/pcie/received", "gpu=\"0\"", "32 bits");
	machine_done(&m);
}

/* ---- robustness ------------------------------------------------------------------------- */

static void processes_have_memory_and_use(void **state)
{
	struct machine m;
	double v = 0;

	(void)state;
	assert_int_equal(gpu_procs_get(100, &v), -ENODATA);
	machine_init(&m, "gpus=2,proc=0:100:2000,proc=1:100:500,proc=1:7:na");
	machine_read(&m, 10, true);
	machine_expect(&m, "gpu/processes", "gpu=\"1\"", 2);
	assert_int_equal(gpu_procs_get(100, &v), 0);
	assert_true(v == 2500 * MIB);
	assert_int_equal(gpu_procs_get(7, &v), -ENODATA);
	assert_int_equal(gpu_procs_get(8, &v), -ENOENT);
	assert_int_equal(gpu_procs_busy(100, &v), -ENODATA);
	/* From 11 to 20 s five samples of 0.6 and five of 0.4, on each GPU. */
	machine_read(&m, 20, true);
	assert_int_equal(gpu_procs_busy(100, &v), 0);
	assert_true(fabs(v - 1.0) < 1e-9);
	machine_done(&m);
	assert_int_equal(gpu_procs_get(100, &v), -ENODATA);
}

static void facts_are_told_of_all(void **state)
{
	struct machine m;
	char key[64], all[65536] = "";
	unsigned i;

	(void)state;
	machine_init(&m, "gpus=64");
	for (i = 1; i <= 20; i++) {
		machine_read(&m, i, false);
		machine_listen(&m);
		strncat(all, machine_heard, sizeof(all) - strlen(all) - 1);
	}
	assert_null(strstr(all, "probe-lost"));
	for (i = 0; i < 64; i++) {
		snprintf(key, sizeof(key), "gpu/%u/uuid|GPU-%08x", i, i);
		assert_non_null(strstr(all, key));
	}
	assert_non_null(strstr(all, "gpu/nvidia/driver|580.65.06"));
	assert_non_null(strstr(all, "gpu/nvidia/cuda|13.0"));
	assert_non_null(strstr(all, "gpu/9/pci|0000:19:00.0"));
	machine_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_nvidias),
		cmocka_unit_test(sentinels_are_no_numbers),
		cmocka_unit_test(every_gpu_has_its_own_values),
		cmocka_unit_test(throttling_is_a_share_of_the_time),
		cmocka_unit_test(mask_where_counters_are_unsure),
		cmocka_unit_test(old_drivers_tell_less),
		cmocka_unit_test(ampere_has_no_gpm),
		cmocka_unit_test(instances_have_their_own_points),
		cmocka_unit_test(sentinels_are_absent),
		cmocka_unit_test(counters_wrap),
		cmocka_unit_test(processes_have_memory_and_use),
		cmocka_unit_test(facts_are_told_of_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
