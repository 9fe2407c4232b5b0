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
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../fake/nvml.h"
#include "probe/gpu/nvidia_field.h"
#include "probe/gpu/procs.h"
#include "probe/gpu/rows.h"
#include "probe/groups.h"

#define SECOND 1000000000LL
#define MIB 1048576.0

struct machine {
	struct probe_set *s;
	void *fast, *slow, *lib;
	fake_nvml_time_fn *time;
	fake_nvml_calls_fn *calls;
	double at;
};

/* What was told since the last look. */
static char heard[8192];

static void hear(const char *kind, const char *text, const char *attrs)
{
	size_t n = strlen(heard);

	snprintf(heard + n, sizeof(heard) - n, "%s|%s|%s\n", kind, text, attrs);
}

static void hear_event(void *arg, int64_t boot_ns, int severity, const char *kind, const char *text,
		       const char *attrs)
{
	(void)arg;
	(void)boot_ns;
	(void)severity;
	hear(kind, text, attrs);
}

static void hear_fact(void *arg, const char *key, const char *value)
{
	(void)arg;
	hear(key, value, "");
}

static const char *listen_to(struct machine *m)
{
	struct probe_taker t = {NULL, hear_event, hear_fact, NULL};

	heard[0] = '\0';
	probe_set_take(m->s, &t);
	return heard;
}

static void machine_at(struct machine *m, double seconds)
{
	m->at = seconds;
	m->time((int64_t)(seconds * 1e9));
}

static int machine_try(struct machine *m, const char *lib, const char *script, struct err *e)
{
	struct probe_env env = {.root = ""};
	int err;

	memset(m, 0, sizeof(*m));
	setenv("LAPSE_NVML", lib, 1);
	setenv(FAKE_NVML_ENV, script, 1);
	m->lib = dlopen(lib, RTLD_NOW);
	assert_non_null(m->lib);
	*(void **)&m->time = dlsym(m->lib, "fake_nvml_time");
	*(void **)&m->calls = dlsym(m->lib, "fake_nvml_calls");
	if (m->time)
		machine_at(m, 0);
	m->s = probe_set_new();
	assert_non_null(m->s);
	err = probe_nvidia.open(&env, m->s, &m->fast, e);
	if (err)
		return err;
	assert_int_equal(probe_nvidia_slow.open(&env, m->s, &m->slow, e), 0);
	return 0;
}

static void machine_done(struct machine *m)
{
	if (m->fast)
		probe_nvidia.close(m->fast);
	if (m->slow)
		probe_nvidia_slow.close(m->slow);
	probe_set_free(m->s);
	dlclose(m->lib);
}

static void machine_init(struct machine *m, const char *script)
{
	struct err e = {0};

	assert_int_equal(machine_try(m, FAKE_NVML, script, &e), 0);
	assert_string_equal(e.text, "");
}

static void machine_read(struct machine *m, double seconds, bool slow)
{
	struct probe_now now = {(int64_t)((seconds + 1000) * 1e9),
				(int64_t)((seconds + 2000) * 1e9)};

	machine_at(m, seconds);
	probe_set_begin(m->s, &now);
	probe_nvidia.read(m->fast, m->s, &now);
	if (slow)
		probe_nvidia_slow.read(m->slow, m->s, &now);
	probe_set_end(m->s);
}

static void expect(struct machine *m, const char *name, const char *labels, double want)
{
	double v = NAN;

	if (probe_value(m->s, name, labels, &v) || fabs(v - want) > 1e-9 * (1 + fabs(want)))
		fail_msg("%s{%s} is %.17g, not %.17g", name, labels, v, want);
}

/* Absent, and the reason holds these words. */
static void expect_absent(struct machine *m, const char *name, const char *labels, const char *why)
{
	struct probe_view v;
	size_t i;

	for (i = 0; i < probe_points(m->s); i++) {
		probe_point_at(m->s, (uint32_t)i, &v);
		if (strcmp(v.metric->name, name) != 0 || strcmp(v.labels, labels) != 0)
			continue;
		if (v.known || !v.why || !strstr(v.why, why))
			fail_msg("%s{%s} is %s %g, %s", name, labels, v.known ? "known" : "absent",
				 v.value, v.why ? v.why : "no reason");
		return;
	}
	fail_msg("no point %s{%s}", name, labels);
}

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
		expect(&m, "gpu/busy", labels, (i * 13 + 5) / 100.0);
		expect(&m, "gpu/memory/busy", labels, (i * 7 + 3) / 100.0);
		expect(&m, "gpu/memory/used", labels, (i + 1) * 1000 * MIB);
		expect(&m, "gpu/memory/reserved", labels, 600 * MIB);
		expect(&m, "gpu/memory/total", labels, 81559 * MIB);
		expect(&m, "gpu/power", labels, 100 + i);
		expect(&m, "gpu/temperature", labels, 40 + i);
		expect(&m, "gpu/temperature/memory", labels, 51);
		expect(&m, "gpu/clock/sm", labels, (1980 - 15 * i) * 1e6);
		expect(&m, "gpu/clock/memory", labels, 2619e6);
		expect(&m, "gpu/energy", labels, 100 + i);
		expect(&m, "gpu/ecc/corrected", labels, 2 * (i + 1));
		expect(&m, "gpu/ecc/uncorrected", labels, 0);
		expect(&m, "gpu/pcie/received", labels, 1e9 * (i + 1));
		expect(&m, "gpu/pcie/sent", labels, 5e8 * (i + 1));
		expect(&m, "gpu/nvlink/received", labels, 2e6 * 1024 * (i + 1));
		expect(&m, "gpu/nvlink/sent", labels, 1e6 * 1024 * (i + 1));
		expect(&m, "gpu/xid", labels, 0);
		expect(&m, "gpu/sm/active", labels, (10 + i / 10.0) / 100);
		expect(&m, "gpu/dram/active", labels, (50 + i / 10.0) / 100);
		expect(&m, "gpu/power/limit", labels, 700);
		expect(&m, "gpu/clock/sm/max", labels, 1980e6);
		expect(&m, "gpu/pcie/generation", labels, 5);
		expect(&m, "gpu/pcie/width", labels, 16);
		expect(&m, "gpu/power/average", labels, 90 + i);
		expect(&m, "gpu/processes", labels, 0);
		expect_absent(&m, "gpu/fan", labels, "does not tell");
	}
	expect(&m, "gpu/ecc/remapped", "gpu=\"3\",kind=\"corrected\"", 2);
	expect(&m, "gpu/ecc/remapped", "gpu=\"3\",kind=\"uncorrected\"", 1);
	expect(&m, "gpu/ecc/pending", "gpu=\"3\"", 0);
	expect(&m, "gpu/recovery", "gpu=\"3\"", 0);
	expect(&m, "gpu/nvlink/errors", "gpu=\"0\",kind=\"crc\"", 3);
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
		expect_absent(&m, "gpu/throttled", "gpu=\"0\"", "not known");
		machine_read(&m, 5, false);
		expect(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"power_cap\"", 0.25);
		expect(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"thermal_sw\"", 0.125);
		expect(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"thermal_hw\"", 0.0625);
		expect(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"power_brake\"", 0);
		expect(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"reliability\"", 1);
		expect(&m, "gpu/throttled", "gpu=\"0\"", 0.1875);
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
	expect(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"power_cap\"", 0.25);
	expect(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"thermal_hw\"", 0);
	expect(&m, "gpu/throttled", "gpu=\"0\"", 0.125);
	expect(&m, "gpu/throttled/reason", "gpu=\"1\",reason=\"thermal_hw\"", 1);
	expect(&m, "gpu/throttled", "gpu=\"1\"", 1);
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
	expect(&m, "gpu/busy", "gpu=\"1\"", 0.18);
	expect(&m, "gpu/power", "gpu=\"1\"", 91);
	expect(&m, "gpu/memory/used", "gpu=\"1\"", 2600 * MIB);
	expect_absent(&m, "gpu/memory/reserved", "gpu=\"1\"", "too old");
	expect_absent(&m, "gpu/energy", "gpu=\"1\"", "too old");
	expect_absent(&m, "gpu/sm/active", "gpu=\"1\"", "Hopper");
	expect(&m, "gpu/throttled", "gpu=\"1\"", 1);
	expect(&m, "gpu/throttled", "gpu=\"0\"", 0);
	expect(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"power_cap\"", 1);
	expect_absent(&m, "gpu/throttled/reason", "gpu=\"0\",reason=\"board_limit\"", "not tell");
	machine_done(&m);
}

static void ampere_has_no_gpm(void **state)
{
	struct machine m;

	(void)state;
	machine_init(&m, "arch=ampere");
	machine_read(&m, 1, false);
	machine_read(&m, 2, false);
	expect_absent(&m, "gpu/tensor/active", "gpu=\"0\"", "Hopper");
	expect_absent(&m, "gpu/pcie/received", "gpu=\"0\"", "does not tell");
	expect(&m, "gpu/power", "gpu=\"0\"", 100);
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
	expect(&m, "gpu/memory/used", "gpu=\"1\",mig=\"0\"", 100 * MIB);
	expect(&m, "gpu/memory/used", "gpu=\"1\",mig=\"2\"", 300 * MIB);
	expect(&m, "gpu/memory/total", "gpu=\"1\",mig=\"2\"", 9856 * MIB);
	/* The fake gives an instance k of GPU 1 the number 1 + 10 (k + 1). */
	expect(&m, "gpu/sm/active", "gpu=\"1\",mig=\"2\"", (10 + 3.1) / 100);
	expect_absent(&m, "gpu/busy", "gpu=\"1\"", "MIG");
	expect_absent(&m, "gpu/sm/active", "gpu=\"1\"", "instances");
	expect(&m, "gpu/busy", "gpu=\"0\"", 0.05);
	expect(&m, "gpu/power", "gpu=\"1\"", 101);
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
		expect_absent(&m, names[i], "gpu=\"0\"", "no data");
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
	expect(&m, "gpu/pcie/replays", "gpu=\"0\"", 18);
	machine_done(&m);
	machine_init(&m, "narrow=1");
	machine_read(&m, 1, false);
	expect_absent(&m, "gpu/pcie/received", "gpu=\"0\"", "32 bits");
	machine_done(&m);
}

/* ---- robustness ------------------------------------------------------------------------- */

static void lost_and_back(void **state)
{
	struct machine m;
	unsigned inits;

	(void)state;
	machine_init(&m, "gpus=4,lost=2@5,back=2@50");
	inits = m.calls("Init_v2");
	machine_read(&m, 1, true);
	machine_read(&m, 4, false);
	listen_to(&m);
	expect(&m, "gpu/busy", "gpu=\"2\"", 0.31);
	machine_read(&m, 5, false);
	assert_non_null(strstr(listen_to(&m),
			       "gpu-lost|GPU 2 (NVIDIA Fake hopper) is lost: the GPU "
			       "fell off the bus"));
	assert_non_null(strstr(heard, "\"gpu\":\"2\""));
	expect_absent(&m, "gpu/busy", "gpu=\"2\"", "fell off");
	expect_absent(&m, "gpu/energy", "gpu=\"2\"", "fell off");
	expect_absent(&m, "gpu/sm/active", "gpu=\"2\"", "fell off");
	expect_absent(&m, "gpu/throttled", "gpu=\"2\"", "fell off");
	expect(&m, "gpu/busy", "gpu=\"3\"", 0.44);
	machine_read(&m, 6, true);
	assert_string_equal(listen_to(&m), "");
	expect_absent(&m, "gpu/power/limit", "gpu=\"2\"", "fell off");
	assert_int_equal(m.calls("Init_v2"), inits);
	/* After 30 s it is looked for, not each second; the others keep their numbers though
	 * the driver's have moved. */
	machine_read(&m, 36, false);
	machine_read(&m, 37, false);
	assert_int_equal(m.calls("Init_v2"), inits + 1);
	assert_string_equal(listen_to(&m), "");
	expect(&m, "gpu/busy", "gpu=\"3\"", 0.44);
	expect(&m, "gpu/energy", "gpu=\"3\"", 103);
	expect_absent(&m, "gpu/busy", "gpu=\"2\"", "fell off");
	machine_read(&m, 67, false);
	assert_non_null(strstr(listen_to(&m), "gpu-back|GPU 2"));
	expect(&m, "gpu/busy", "gpu=\"2\"", 0.31);
	machine_read(&m, 68, true);
	expect(&m, "gpu/energy", "gpu=\"2\"", 102);
	expect(&m, "gpu/power/limit", "gpu=\"2\"", 700);
	machine_read(&m, 200, true);
	assert_int_equal(m.calls("Init_v2"), inits + 2);
	machine_done(&m);
}

static void new_gpus_are_found(void **state)
{
	struct machine m;

	(void)state;
	machine_init(&m, "gpus=2,add=1@10");
	machine_read(&m, 1, true);
	machine_read(&m, 20, true);
	assert_int_equal(probe_value(m.s, "gpu/busy", "gpu=\"1\"", &(double){0}), -ENOENT);
	machine_read(&m, 62, true);
	expect(&m, "gpu/busy", "gpu=\"1\"", 0.18);
	machine_done(&m);
}

static void unloaded_driver(void **state)
{
	struct machine m;

	(void)state;
	machine_init(&m, "gpus=4,unload=5");
	machine_read(&m, 1, true);
	listen_to(&m);
	machine_read(&m, 6, true);
	assert_string_equal(listen_to(&m), "gpu-lost|the NVIDIA driver was unloaded: no GPU can be "
					   "read|\n");
	expect_absent(&m, "gpu/busy", "gpu=\"3\"", "unloaded");
	machine_read(&m, 40, true);
	assert_string_equal(listen_to(&m), "");
	expect_absent(&m, "gpu/busy", "gpu=\"0\"", "unloaded");
	machine_done(&m);
}

static void xids_are_counted_and_told(void **state)
{
	struct machine m;

	(void)state;
	machine_init(&m, "gpus=2,xid=1@4:79,xid=1@4:31,xid=0@9:999");
	machine_read(&m, 1, false);
	machine_read(&m, 3, false);
	listen_to(&m);
	expect(&m, "gpu/xid", "gpu=\"1\"", 0);
	machine_read(&m, 5, false);
	expect(&m, "gpu/xid", "gpu=\"1\"", 2);
	expect(&m, "gpu/xid", "gpu=\"0\"", 0);
	assert_non_null(
		strstr(listen_to(&m), "xid|GPU 1 (NVIDIA Fake hopper): Xid 79, the GPU fell"));
	assert_non_null(strstr(heard, "\"xid\":31}"));
	machine_read(&m, 10, false);
	expect(&m, "gpu/xid", "gpu=\"1\"", 0);
	expect(&m, "gpu/xid", "gpu=\"0\"", 1);
	assert_non_null(strstr(listen_to(&m), "the driver reports an error"));
	machine_done(&m);
}

/* What a GPU does not know is asked once, and what failed for the moment again. */
static void unsupported_calls_are_not_repeated(void **state)
{
	struct machine m;
	unsigned before;

	(void)state;
	machine_init(&m, "fail=DeviceGetUtilizationRates:3,fail=DeviceGetTemperature:999");
	before = m.calls("DeviceGetUtilizationRates");
	machine_read(&m, 1, false);
	machine_read(&m, 2, false);
	machine_read(&m, 3, false);
	assert_int_equal(m.calls("DeviceGetUtilizationRates") - before, 1);
	expect_absent(&m, "gpu/busy", "gpu=\"0\"", "does not tell");
	expect_absent(&m, "gpu/temperature", "gpu=\"0\"", "failed");
	assert_true(m.calls("DeviceGetTemperature") >= 3);
	machine_done(&m);
	machine_init(&m, "fail=DeviceGetUtilizationRates:4");
	machine_read(&m, 1, false);
	expect_absent(&m, "gpu/busy", "gpu=\"0\"", "administrators");
	machine_done(&m);
}

/* What costs milliseconds goes to the slow group by itself. */
static void slow_fields_leave_the_fast_group(void **state)
{
	struct machine m;

	(void)state;
	machine_init(&m, "slow=field197:3000,slow=field75:2000,slow=GpmSampleGet:2000");
	machine_read(&m, 1, false);
	machine_read(&m, 2, false);
	assert_int_equal(probe_value(m.s, "gpu/pcie/sent", "gpu=\"0\"", &(double){0}), -ENOENT);
	assert_int_equal(probe_value(m.s, "gpu/sm/active", "gpu=\"0\"", &(double){0}), -ENOENT);
	expect(&m, "gpu/pcie/received", "gpu=\"0\"", 1e9);
	machine_read(&m, 3, true);
	machine_read(&m, 13, true);
	expect(&m, "gpu/pcie/sent", "gpu=\"0\"", 5e9);
	expect(&m, "gpu/throttled", "gpu=\"0\"", 0.1875);
	expect(&m, "gpu/sm/active", "gpu=\"0\"", 0.1);
	expect(&m, "lapse/agent/nvml/time", "call=\"utilization\"", ({
		double v = 0;
		probe_value(m.s, "lapse/agent/nvml/time", "call=\"utilization\"", &v);
		assert_true(v > 0 && v < 1);
		v;
	}));
	machine_done(&m);
}

static void processes_have_memory_and_use(void **state)
{
	struct machine m;
	double v = 0;

	(void)state;
	assert_int_equal(gpu_procs_get(100, &v), -ENODATA);
	machine_init(&m, "gpus=2,proc=0:100:2000,proc=1:100:500,proc=1:7:na");
	machine_read(&m, 10, true);
	expect(&m, "gpu/processes", "gpu=\"1\"", 2);
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
		listen_to(&m);
		strncat(all, heard, sizeof(all) - strlen(all) - 1);
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

static void without_a_driver_it_says_why(void **state)
{
	static const struct {
		const char *script, *want;
	} cases[] = {
		{"init=9", "driver is not loaded"}, {"init=18", "different versions"},
		{"init=4", "no permission"},        {"init=999", "cannot be started"},
		{"gpus=0", "lists no GPU"},
	};
	struct machine m;
	struct err e;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(&e, 0, sizeof(e));
		assert_int_equal(machine_try(&m, FAKE_NVML, cases[i].script, &e), -ENODEV);
		if (!strstr(e.text, cases[i].want))
			fail_msg("\"%s\" does not say \"%s\"", e.text, cases[i].want);
		machine_done(&m);
	}
	memset(&e, 0, sizeof(e));
	assert_int_equal(machine_try(&m, "libm.so.6", "", &e), -ENODEV);
	assert_non_null(strstr(e.text, "has no nvmlInit_v2"));
	machine_done(&m);
	setenv("LAPSE_NVML", "/nowhere/lib.so", 1);
	memset(&e, 0, sizeof(e));
	assert_int_equal(probe_nvidia.open(&(struct probe_env){.root = ""}, NULL, &(void *){0}, &e),
			 -ENODEV);
	assert_non_null(strstr(e.text, "LAPSE_NVML=/nowhere/lib.so cannot be loaded"));
	unsetenv("LAPSE_NVML");
	memset(&e, 0, sizeof(e));
	assert_int_equal(
		probe_nvidia.open(&(struct probe_env){.root = "/x"}, NULL, &(void *){0}, &e),
		-ENODEV);
	assert_non_null(strstr(e.text, "no driver to ask"));
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
		cmocka_unit_test(lost_and_back),
		cmocka_unit_test(new_gpus_are_found),
		cmocka_unit_test(unloaded_driver),
		cmocka_unit_test(xids_are_counted_and_told),
		cmocka_unit_test(unsupported_calls_are_not_repeated),
		cmocka_unit_test(slow_fields_leave_the_fast_group),
		cmocka_unit_test(processes_have_memory_and_use),
		cmocka_unit_test(facts_are_told_of_all),
		cmocka_unit_test(without_a_driver_it_says_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
