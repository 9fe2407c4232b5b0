/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA's GPUs that are lost and come back, drivers that are unloaded, old or not there: what is
 * told, and what is not asked again.
 */
#include "probe/gpu/nvidia_dev.h"

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "machine.h"
#include "probe/gpu/nvidia_field.h"
#include "probe/gpu/procs.h"
#include "probe/gpu/rows.h"
#include "probe/groups.h"

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
	machine_listen(&m);
	machine_expect(&m, "gpu/busy", "gpu=\"2\"", 0.31);
	machine_read(&m, 5, false);
	assert_non_null(strstr(machine_listen(&m),
			       "gpu-lost|GPU 2 (NVIDIA Fake hopper) is lost: the GPU "
			       "fell off the bus"));
	assert_non_null(strstr(machine_heard, "\"gpu\":\"2\""));
	machine_expect_absent(&m, "gpu/busy", "gpu=\"2\"", "fell off");
	machine_expect_absent(&m, "gpu/energy", "gpu=\"2\"", "fell off");
	machine_expect_absent(&m, "gpu/sm/active", "gpu=\"2\"", "fell off");
	machine_expect_absent(&m, "gpu/throttled", "gpu=\"2\"", "fell off");
	machine_expect(&m, "gpu/busy", "gpu=\"3\"", 0.44);
	machine_read(&m, 6, true);
	assert_string_equal(machine_listen(&m), "");
	machine_expect_absent(&m, "gpu/power/limit", "gpu=\"2\"", "fell off");
	assert_int_equal(m.calls("Init_v2"), inits);
	/* After 30 s it is looked for, not each second; the others keep their numbers though
	 * the driver's have moved. */
	machine_read(&m, 36, false);
	machine_read(&m, 37, false);
	assert_int_equal(m.calls("Init_v2"), inits + 1);
	assert_string_equal(machine_listen(&m), "");
	machine_expect(&m, "gpu/busy", "gpu=\"3\"", 0.44);
	machine_expect(&m, "gpu/energy", "gpu=\"3\"", 103);
	machine_expect_absent(&m, "gpu/busy", "gpu=\"2\"", "fell off");
	machine_read(&m, 67, false);
	assert_non_null(strstr(machine_listen(&m), "gpu-back|GPU 2"));
	machine_expect(&m, "gpu/busy", "gpu=\"2\"", 0.31);
	machine_read(&m, 68, true);
	machine_expect(&m, "gpu/energy", "gpu=\"2\"", 102);
	machine_expect(&m, "gpu/power/limit", "gpu=\"2\"", 700);
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
	machine_expect(&m, "gpu/busy", "gpu=\"1\"", 0.18);
	machine_done(&m);
}

static void unloaded_driver(void **state)
{
	struct machine m;

	(void)state;
	machine_init(&m, "gpus=4,unload=5");
	machine_read(&m, 1, true);
	machine_listen(&m);
	machine_read(&m, 6, true);
	assert_string_equal(machine_listen(&m),
			    "gpu-lost|the NVIDIA driver was unloaded: no GPU can be "
			    "read|\n");
	machine_expect_absent(&m, "gpu/busy", "gpu=\"3\"", "unloaded");
	machine_read(&m, 40, true);
	assert_string_equal(machine_listen(&m), "");
	machine_expect_absent(&m, "gpu/busy", "gpu=\"0\"", "unloaded");
	machine_done(&m);
}

static void xids_are_counted_and_told(void **state)
{
	struct machine m;

	(void)state;
	machine_init(&m, "gpus=2,xid=1@4:79,xid=1@4:31,xid=0@9:999");
	machine_read(&m, 1, false);
	machine_read(&m, 3, false);
	machine_listen(&m);
	machine_expect(&m, "gpu/xid", "gpu=\"1\"", 0);
	machine_read(&m, 5, false);
	machine_expect(&m, "gpu/xid", "gpu=\"1\"", 2);
	machine_expect(&m, "gpu/xid", "gpu=\"0\"", 0);
	assert_non_null(
		strstr(machine_listen(&m), "xid|GPU 1 (NVIDIA Fake hopper): Xid 79, the GPU fell"));
	assert_non_null(strstr(machine_heard, "\"xid\":31}"));
	machine_read(&m, 10, false);
	machine_expect(&m, "gpu/xid", "gpu=\"1\"", 0);
	machine_expect(&m, "gpu/xid", "gpu=\"0\"", 1);
	assert_non_null(strstr(machine_listen(&m), "the driver reports an error"));
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
	machine_expect_absent(&m, "gpu/busy", "gpu=\"0\"", "does not tell");
	machine_expect_absent(&m, "gpu/temperature", "gpu=\"0\"", "failed");
	assert_true(m.calls("DeviceGetTemperature") >= 3);
	machine_done(&m);
	machine_init(&m, "fail=DeviceGetUtilizationRates:4");
	machine_read(&m, 1, false);
	machine_expect_absent(&m, "gpu/busy", "gpu=\"0\"", "administrators");
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
	machine_expect(&m, "gpu/pcie/received", "gpu=\"0\"", 1e9);
	machine_read(&m, 3, true);
	machine_read(&m, 13, true);
	machine_expect(&m, "gpu/pcie/sent", "gpu=\"0\"", 5e9);
	machine_expect(&m, "gpu/throttled", "gpu=\"0\"", 0.1875);
	machine_expect(&m, "gpu/sm/active", "gpu=\"0\"", 0.1);
	machine_expect(&m, "lapse/agent/nvml/time", "call=\"utilization\"", ({
		double v = 0;
		probe_value(m.s, "lapse/agent/nvml/time", "call=\"utilization\"", &v);
		assert_true(v > 0 && v < 1);
		v;
	}));
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
		cmocka_unit_test(lost_and_back),
		cmocka_unit_test(new_gpus_are_found),
		cmocka_unit_test(unloaded_driver),
		cmocka_unit_test(xids_are_counted_and_told),
		cmocka_unit_test(unsupported_calls_are_not_repeated),
		cmocka_unit_test(slow_fields_leave_the_fast_group),
		cmocka_unit_test(without_a_driver_it_says_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
