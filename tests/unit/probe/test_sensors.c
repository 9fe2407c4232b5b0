/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks, temperatures and energy, on stored trees: machines of these tests have none.
 */
#include "probe/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reading.h"
#include "stored.h"

static struct reading r;
static char root[STORED_PATH];

static void near(const char *name, const char *labels, double want)
{
	double v = reading_value(&r, name, labels);

	if (fabs(v - want) > 1e-6)
		fail_msg("%s{%s} is %.17g, not %.17g", name, labels, v, want);
}

static void begin(const struct probe_group *g, const char *tree)
{
	stored_copy(tree, root);
	assert_int_equal(reading_open(&r, g, root), 0);
}

static void end(void)
{
	reading_close(&r);
	stored_remove(root, "");
}

static void test_frequency(void **state)
{
	(void)state;
	begin(&probe_frequency, "el7");
	reading_at(&r, 1);
	near("cpu/frequency", "", 1.8e9); /* 1.2, 1.6, 2.0, 2.4 GHz */
	near("cpu/frequency/min", "", 1.2e9);
	near("cpu/frequency/max", "", 2.4e9);
	stored_remove(root, "sys/devices/system/cpu/cpu0"); /* offline */
	stored_write(root, "sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq", "<unknown>\n");
	reading_at(&r, 2);
	near("cpu/frequency", "", 1.8e9);
	near("cpu/frequency/min", "", 1.6e9);
	stored_write(root, "sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq", "0\n");
	reading_at(&r, 2.5);
	near("cpu/frequency/min", "", 1.6e9);
	stored_remove(root, "sys/devices/system/cpu/cpu1");
	stored_remove(root, "sys/devices/system/cpu/cpu2");
	reading_at(&r, 3);
	reading_why(&r, "cpu/frequency", "");
	end();

	begin(&probe_frequency, "linux5"); /* no cpufreq, but the CPU measures */
	reading_at(&r, 1);
	near("cpu/frequency", "", 2000.5e6);
	near("cpu/frequency/min", "", 1500.25e6);
	near("cpu/frequency/max", "", 2500.75e6);
	end();
	assert_int_equal(reading_open(&r, &probe_frequency, stored_path("linux6")), -ENODEV);
	assert_non_null(strstr(r.err.text, "only the nominal clock"));
	assert_int_equal(reading_open(&r, &probe_frequency, stored_path("missing")), -ENODEV);
}

static void link_device(const char *hwmon, const char *target)
{
	char path[STORED_PATH + 64];

	snprintf(path, sizeof(path), "%s/sys/class/hwmon/%s/device", root, hwmon);
	assert_int_equal(symlink(target, path), 0);
}

static void test_intel(void **state)
{
	(void)state;
	stored_copy("linux6", root);
	link_device("hwmon2", "../../../coretemp.0");
	link_device("hwmon3", "../../../coretemp.1");
	link_device("hwmon10", "../../nvme1");
	assert_int_equal(reading_open(&r, &probe_hwmon, root), 0);
	reading_at(&r, 1);
	near("cpu/temperature", "", 57.5);
	near("temperature", "chip=\"coretemp.0\",sensor=\"Package id 0\"", 54);
	near("temperature", "chip=\"coretemp.1\",sensor=\"Package id 1\"", 57.5);
	near("temperature", "chip=\"nvme1\",sensor=\"Composite\"", 38.85);
	assert_int_equal(probe_points(r.set), 4); /* none of single cores */

	/* a drive goes and another comes, where hwmon numbers it anew */
	stored_remove(root, "sys/class/hwmon/hwmon10");
	reading_at(&r, 10);
	assert_string_equal(reading_why(&r, "temperature", "chip=\"nvme1\",sensor=\"Composite\""),
			    "the sensor does not answer");
	stored_write(root, "sys/class/hwmon/hwmon5/name", "nvme\n");
	stored_write(root, "sys/class/hwmon/hwmon5/temp1_input", "41000\n");
	stored_write(root, "sys/class/hwmon/hwmon5/temp1_label", "Composite\n");
	link_device("hwmon5", "../../nvme2");
	reading_at(&r, 70);
	reading_at(&r, 131);
	near("temperature", "chip=\"nvme2\",sensor=\"Composite\"", 41);
	assert_string_equal(reading_why(&r, "temperature", "chip=\"nvme1\",sensor=\"Composite\""),
			    "the sensor is gone");
	near("cpu/temperature", "", 57.5);
	end();
}

static void test_amd(void **state)
{
	(void)state;
	begin(&probe_hwmon, "linux5");
	reading_at(&r, 1);
	near("temperature", "chip=\"acpitz\",sensor=\"temp1\"", -5.5);
	near("temperature", "chip=\"k10temp\",sensor=\"Tctl\"", 82.25);
	near("cpu/temperature", "", 72.25); /* Tdie: Tctl is 10 degrees above it here */
	near("temperature", "chip=\"nct6775\",sensor=\"SYSTIN\"", 41);
	assert_string_equal(reading_why(&r, "temperature", "chip=\"nct6775\",sensor=\"AUXTIN0\""),
			    "the sensor tells what cannot be");
	near("temperature", "chip=\"nct6775\",sensor=\"temp3\"", 30.5); /* its label is taken */
	assert_false(reading_has(&r, "temperature", "chip=\"amdgpu\",sensor=\"temp1\""));
	end();

	stored_copy("linux5", root);
	stored_remove(root, "sys/class/hwmon/hwmon1/temp2_label");
	stored_write(root, "sys/class/hwmon/hwmon1/temp2_label", "Tccd2\n");
	link_device("hwmon1", "../../../0000:00:18.3");
	assert_int_equal(reading_open(&r, &probe_hwmon, root), 0);
	reading_at(&r, 1);
	near("cpu/temperature", "", 82.25);
	near("temperature", "chip=\"k10temp/0000:00:18.3\",sensor=\"Tctl\"", 82.25);
	end();
}

static void test_old(void **state)
{
	(void)state;
	begin(&probe_hwmon, "el7"); /* files are in the device's folder; another label */
	reading_at(&r, 1);
	near("cpu/temperature", "", 61);
	near("temperature", "chip=\"coretemp\",sensor=\"Physical id 0\"", 61);
	assert_int_equal(probe_points(r.set), 2);
	end();

	/* no sensor of the package: the hottest core */
	stored_copy("el7", root);
	stored_remove(root, "sys/class/hwmon/hwmon0/device/temp1_label");
	stored_remove(root, "sys/class/hwmon/hwmon0/device/temp1_input");
	assert_int_equal(reading_open(&r, &probe_hwmon, root), 0);
	reading_at(&r, 1);
	near("cpu/temperature", "", 63);
	near("temperature", "chip=\"coretemp\",sensor=\"Core 1\"", 63);
	stored_remove(root, "sys/class/hwmon");
	reading_at(&r, 2);
	reading_why(&r, "cpu/temperature", "");
	end();
}

static void energy(const char *uj)
{
	stored_write(root, "sys/class/powercap/intel-rapl:0/energy_uj", uj);
}

static void test_energy(void **state)
{
	static const char package[] = "package=\"0\"";

	(void)state;
	begin(&probe_hwmon, "linux5");
	reading_at(&r, 10);
	assert_string_equal(reading_why(&r, "cpu/energy", package), "needs a second reading");
	energy("65532500000\n"); /* +500000 uJ */
	reading_at(&r, 20);
	near("cpu/energy", package, 0.5);
	energy("1500000000\n"); /* wrapped at 65532610987: 110987 and 1500000000 more */
	reading_at(&r, 30);
	near("cpu/energy", package, 1500.110987);
	energy("1500000001\n"); /* 66 s without a reading: 1 kW may go round within */
	reading_at(&r, 96);
	assert_string_equal(reading_why(&r, "cpu/energy", package), "the counter began anew");
	energy("1600000001\n");
	reading_at(&r, 106);
	near("cpu/energy", package, 100);
	energy("x\n");
	reading_at(&r, 116);
	assert_string_equal(reading_why(&r, "cpu/energy", package), "energy_uj cannot be read");
	energy("1600000501\n");
	reading_at(&r, 126);
	near("cpu/energy", package, 0.0005);
	assert_false(reading_has(&r, "cpu/energy", "package=\"1\"")); /* psys is no package */
	end();

	/* the range is unknown: what is lower began anew */
	stored_copy("linux5", root);
	stored_remove(root, "sys/class/powercap/intel-rapl:0/max_energy_range_uj");
	assert_int_equal(reading_open(&r, &probe_hwmon, root), 0);
	reading_at(&r, 10);
	energy("5\n");
	reading_at(&r, 20);
	assert_string_equal(reading_why(&r, "cpu/energy", package), "the counter began anew");
	energy("1000005\n");
	reading_at(&r, 30);
	near("cpu/energy", package, 1);
	end();
}

/* Readable by root only, as since Linux 5.10. Root in a test reads it all the same. */
static void test_energy_denied(void **state)
{
	char path[STORED_PATH + 64];

	(void)state;
	begin(&probe_hwmon, "linux5");
	snprintf(path, sizeof(path), "%s/sys/class/powercap/intel-rapl:0/energy_uj", root);
	assert_int_equal(chmod(path, 0), 0);
	reading_at(&r, 1);
	if (access(path, R_OK) != 0)
		assert_non_null(
			strstr(reading_why(&r, "cpu/energy", "package=\"0\""), "chmod o+r"));
	end();
}

static void test_none(void **state)
{
	(void)state;
	assert_int_equal(reading_open(&r, &probe_hwmon, stored_path("v2")), -ENODEV);
	assert_non_null(strstr(r.err.text, "modprobe"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frequency), cmocka_unit_test(test_intel),
		cmocka_unit_test(test_amd),       cmocka_unit_test(test_old),
		cmocka_unit_test(test_energy),    cmocka_unit_test(test_energy_denied),
		cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
