/* SPDX-License-Identifier: Apache-2.0
 *
 * Temperatures of the machine's chips, and energy of its processors. Read by the thread
 * of slow groups: a sensor may be asked over a slow bus.
 */
#include "probe/groups.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "probe/linux/rapl.h"
#include "probe/linux/sysfs.h"
#include "wire/sink.h"

#define HWMON_SENSORS_MAX 512
#define HWMON_SCAN_NS 60000000000 /* drives and modules come and go */
#define HWMON_NAME 64
/* What lies outside is a sensor that is not connected, or a chip that is asleep. */
#define HWMON_LOWEST (-60)
#define HWMON_HIGHEST 150

enum {
	HWMON_CPU,
	HWMON_TEMPERATURE,
	HWMON_ENERGY,
	HWMON_METRICS
};

/* clang-format off */
static const struct probe_metric hwmon_metrics[HWMON_METRICS] = {
	[HWMON_CPU] = {"cpu/temperature", "Cel",
		"hottest processor package; read every 10 s",
		"/sys/class/hwmon: coretemp, k10temp, zenpower, cpu_thermal",
		SINK_GAUGE, PROBE_COST_RARE, NULL},
	[HWMON_TEMPERATURE] = {"temperature", "Cel",
		"temperature that a sensor of a chip tells; not those of single cores, nor of GPUs; "
		"read every 10 s", "/sys/class/hwmon/hwmonN/tempK_input",
		SINK_GAUGE, PROBE_COST_RARE, "chip,sensor"},
	[HWMON_ENERGY] = {"cpu/energy", "J",
		"energy that a processor package used; read every 10 s",
		"/sys/class/powercap/intel-rapl:N/energy_uj",
		SINK_COUNTER, PROBE_COST_RARE, "package"},
};
/* clang-format on */

struct hwmon_sensor {
	char path[96]; /* "hwmon3/temp1_input" */
	uint32_t point;
	bool cpu; /* a processor package */
};

struct hwmon_state {
	int dir_fd; /* /sys/class/hwmon; -1 */
	struct hwmon_sensor *sensors;
	size_t n, cap;
	int64_t scan_ns; /* CLOCK_MONOTONIC of the last search */
	uint32_t cpu_point;
	struct rapl rapl;
};

/* The chip of which sensors are looked for. */
struct hwmon_chip {
	struct hwmon_state *h;
	struct probe_set *s;
	const char *base;               /* "hwmon3", or "hwmon3/device" on old kernels */
	char name[HWMON_NAME];          /* "coretemp" */
	char label[2 * HWMON_NAME + 2]; /* "coretemp.0", "k10temp/0000:00:18.3" */
	bool package;                   /* coretemp has a sensor of the package */
	bool die;                       /* k10temp has Tdie: Tctl may stand above it */
};

/* ---- finding ----------------------------------------------------------------------- */

/* GPUs have groups of their own, and reading some wakes them. */
static bool hwmon_is_gpu(const char *name)
{
	static const char *const gpus[] = {"amdgpu", "radeon", "nouveau", "i915", "xe"};
	size_t i;

	for (i = 0; i < ARRAY_LEN(gpus); i++)
		if (strcmp(name, gpus[i]) == 0)
			return true;
	return false;
}

/* coretemp's sensor of the whole package, as kernels now and before 4.15 call it. */
static bool hwmon_is_package(const char *label)
{
	return strncmp(label, "Package id", 10) == 0 || strncmp(label, "Physical id", 11) == 0;
}

/* Is it the sensor of a processor package? label "" none. */
static bool hwmon_is_cpu(const struct hwmon_chip *c, const char *label)
{
	if (strcmp(c->name, "coretemp") == 0)
		return !c->package || hwmon_is_package(label);
	if (strcmp(c->name, "k10temp") == 0 || strcmp(c->name, "zenpower") == 0)
		return strcmp(label, c->die ? "Tdie" : "Tctl") == 0 || label[0] == '\0';
	return strcmp(c->name, "cpu_thermal") == 0 || strcmp(c->name, "cpu-thermal") == 0;
}

static struct hwmon_sensor *hwmon_room(struct hwmon_state *h)
{
	size_t cap = h->cap ? h->cap * 2 : 16;
	struct hwmon_sensor *more;

	if (h->n == HWMON_SENSORS_MAX)
		return NULL;
	if (h->n == h->cap) {
		more = realloc(h->sensors, cap * sizeof(*more));
		if (!more)
			return NULL;
		h->sensors = more;
		h->cap = cap;
	}
	return &h->sensors[h->n];
}

static uint32_t hwmon_point(struct hwmon_chip *c, const char *sensor)
{
	char labels[PROBE_LABELS_MAX] = "";

	if (probe_label(labels, sizeof(labels), "chip", c->label) ||
	    probe_label(labels, sizeof(labels), "sensor", sensor))
		return PROBE_NONE;
	return probe_point(c->s, &hwmon_metrics[HWMON_TEMPERATURE], labels);
}

static bool hwmon_has_point(const struct hwmon_state *h, uint32_t point)
{
	size_t i;

	for (i = 0; i < h->n; i++)
		if (h->sensors[i].point == point)
			return true;
	return false;
}

static int hwmon_sensor(void *arg, int entry_fd, const char *name, uint32_t number)
{
	struct hwmon_chip *c = arg;
	char path[96], label[HWMON_NAME] = "", plain[32];
	struct hwmon_sensor *sensor;

	snprintf(plain, sizeof(plain), "temp%u", number);
	snprintf(path, sizeof(path), "%s_label", plain);
	sysfs_text(entry_fd, path, label, sizeof(label));
	if (c->package && strncmp(label, "Core ", 5) == 0)
		return 0;
	sensor = hwmon_room(c->h);
	if (!sensor)
		return 0;
	snprintf(sensor->path, sizeof(sensor->path), "%.40s/%.40s", c->base, name);
	sensor->cpu = hwmon_is_cpu(c, label);
	sensor->point = hwmon_point(c, label[0] ? label : plain);
	if (hwmon_has_point(c->h, sensor->point)) /* two of a chip may have one label */
		sensor->point = hwmon_point(c, plain);
	c->h->n++;
	return 0;
}

/* The label of a chip is the same after each boot, unlike N of hwmonN: the name of the
 * device, with that of the driver if it does not begin with it. */
static void hwmon_chip_label(struct hwmon_chip *c, int entry_fd, const char *hwmon)
{
	char path[64], link[512];
	const char *device;
	ssize_t n;

	snprintf(path, sizeof(path), "%.40s/device", hwmon);
	n = readlinkat(entry_fd, path, link, sizeof(link) - 1);
	link[n > 0 ? n : 0] = '\0';
	device = strrchr(link, '/');
	device = device ? device + 1 : link;
	if (!device[0])
		snprintf(c->label, sizeof(c->label), "%s", c->name);
	else if (strncmp(device, c->name, strlen(c->name)) == 0)
		snprintf(c->label, sizeof(c->label), "%.*s", HWMON_NAME, device);
	else
		snprintf(c->label, sizeof(c->label), "%s/%.*s", c->name, HWMON_NAME, device);
}

/* The label of temp1 or temp2; "" none. */
static void hwmon_label(int entry_fd, const char *base, int number, char label[HWMON_NAME])
{
	char path[96];

	snprintf(path, sizeof(path), "%.40s/temp%d_label", base, number);
	if (sysfs_text(entry_fd, path, label, HWMON_NAME))
		label[0] = '\0';
}

static int hwmon_chip(void *arg, int entry_fd, const char *hwmon, uint32_t number)
{
	struct hwmon_chip *c = arg;
	char base[64], path[96], first[HWMON_NAME], second[HWMON_NAME];

	(void)number;
	snprintf(base, sizeof(base), "%.40s", hwmon);
	snprintf(path, sizeof(path), "%s/name", base);
	if (sysfs_text(entry_fd, path, c->name, sizeof(c->name))) {
		snprintf(base, sizeof(base), "%.40s/device", hwmon);
		snprintf(path, sizeof(path), "%s/name", base);
		if (sysfs_text(entry_fd, path, c->name, sizeof(c->name)))
			return 0;
	}
	if (hwmon_is_gpu(c->name))
		return 0;
	c->base = base;
	hwmon_chip_label(c, entry_fd, hwmon);
	hwmon_label(entry_fd, base, 1, first);
	hwmon_label(entry_fd, base, 2, second);
	c->package = strcmp(c->name, "coretemp") == 0 && hwmon_is_package(first);
	c->die = strcmp(first, "Tdie") == 0 || strcmp(second, "Tdie") == 0;
	sysfs_each(entry_fd, base, "temp", "_input", hwmon_sensor, c);
	return 0;
}

static void hwmon_scan(struct hwmon_state *h, struct probe_set *s)
{
	struct hwmon_chip c = {.h = h, .s = s};
	size_t i;

	for (i = 0; i < h->n; i++) /* those that are still there get a value or reason */
		probe_absent(s, h->sensors[i].point, "the sensor is gone");
	h->n = 0;
	if (h->dir_fd >= 0)
		sysfs_each(h->dir_fd, ".", "hwmon", "", hwmon_chip, &c);
}

/* ---- reading ------------------------------------------------------------------------- */

static void hwmon_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct hwmon_state *h = state;
	double hottest = HWMON_LOWEST - 1, v;
	int64_t milli;
	size_t i;

	if (now->mono_ns - h->scan_ns >= HWMON_SCAN_NS) {
		if (h->scan_ns)
			hwmon_scan(h, s);
		h->scan_ns = now->mono_ns;
	}
	for (i = 0; i < h->n; i++) {
		const struct hwmon_sensor *sensor = &h->sensors[i];

		if (sysfs_number(h->dir_fd, sensor->path, &milli)) {
			probe_absent(s, sensor->point, "the sensor does not answer");
			continue;
		}
		v = (double)milli / 1000;
		if (v < HWMON_LOWEST || v > HWMON_HIGHEST) {
			probe_absent(s, sensor->point, "the sensor tells what cannot be");
			continue;
		}
		probe_put(s, sensor->point, v);
		if (sensor->cpu && v > hottest)
			hottest = v;
	}
	if (hottest >= HWMON_LOWEST)
		probe_put(s, h->cpu_point, hottest);
	else
		probe_absent(s, h->cpu_point,
			     "no sensor of a processor answers: its driver may not be loaded "
			     "(modprobe coretemp or k10temp)");
	rapl_read(&h->rapl, s, now);
}

static void hwmon_close(void *state)
{
	struct hwmon_state *h = state;

	if (h->dir_fd >= 0)
		close(h->dir_fd);
	rapl_close(&h->rapl);
	free(h->sensors);
	free(h);
}

static int hwmon_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		      struct err *e)
{
	struct hwmon_state *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->dir_fd = sysfs_dir(env->root, "/sys/class/hwmon");
	hwmon_scan(h, s);
	rapl_open(&h->rapl, env->root, s, &hwmon_metrics[HWMON_ENERGY]);
	if (!h->n && !h->rapl.n) {
		hwmon_close(h);
		return err_set(e, -ENODEV,
			       "no sensor is shown under /sys/class/hwmon and no energy counter "
			       "under /sys/class/powercap: common in virtual machines; else load a "
			       "driver (modprobe coretemp or k10temp)");
	}
	h->cpu_point = probe_point(s, &hwmon_metrics[HWMON_CPU], "");
	*ret_state = h;
	return 0;
}

const struct probe_group probe_hwmon = {
	.name = "hwmon",
	.metrics = hwmon_metrics,
	.n_metrics = HWMON_METRICS,
	.place = PROBE_SLOW,
	.period_ns = 10000000000,
	.open = hwmon_open,
	.read = hwmon_read,
	.close = hwmon_close,
};
