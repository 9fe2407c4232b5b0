/* SPDX-License-Identifier: Apache-2.0
 *
 * Clock of the CPUs: what cpufreq says of each, or else /proc/cpuinfo where the CPU
 * measures it. Read by the thread of slow groups: some kernels ask every CPU.
 */
#include "probe/groups.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "probe/linux/hosttext.h"
#include "probe/linux/sysfs.h"
#include "probe/linux/textfile.h"
#include "wire/sink.h"

#define FREQUENCY_TEXT_MAX (16u << 20) /* /proc/cpuinfo: 1.5 KB a CPU */

enum {
	FREQUENCY_MEAN,
	FREQUENCY_MIN,
	FREQUENCY_MAX,
	FREQUENCY_METRICS
};

/* clang-format off */
#define FREQUENCY_SOURCE \
	"/sys/devices/system/cpu/cpuN/cpufreq/scaling_cur_freq, else cpu MHz of /proc/cpuinfo", \
	SINK_GAUGE, PROBE_COST_RARE, NULL
static const struct probe_metric frequency_metrics[FREQUENCY_METRICS] = {
	[FREQUENCY_MEAN] = {"cpu/frequency", "Hz", "clock of the CPUs, mean; read every 10 s",
		FREQUENCY_SOURCE},
	[FREQUENCY_MIN] = {"cpu/frequency/min", "Hz",
		"clock of the slowest CPU; idle ones are slow; read every 10 s", FREQUENCY_SOURCE},
	[FREQUENCY_MAX] = {"cpu/frequency/max", "Hz",
		"clock of the fastest CPU; read every 10 s", FREQUENCY_SOURCE},
};
/* clang-format on */

struct frequency_state {
	int cpus_fd; /* /sys/devices/system/cpu; -1 */
	bool cpufreq;
	struct textfile cpuinfo;
	struct textbuf buf;
	uint32_t points[FREQUENCY_METRICS];
};

static int frequency_one(void *arg, int entry_fd, const char *name, uint32_t number)
{
	struct hosttext_clock *c = arg;
	char path[160];
	int64_t khz;
	double hz;

	(void)number;
	snprintf(path, sizeof(path), "%s/cpufreq/scaling_cur_freq", name);
	if (sysfs_number(entry_fd, path, &khz) || khz <= 0) /* offline, or the driver cannot tell */
		return 0;
	hz = (double)khz * 1e3;
	c->sum += hz;
	c->min = !c->n || hz < c->min ? hz : c->min;
	c->max = hz > c->max ? hz : c->max;
	c->n++;
	return 0;
}

static int frequency_clock(struct frequency_state *f, bool cpufreq, struct hosttext_clock *c)
{
	int err;

	*c = (struct hosttext_clock){0};
	if (cpufreq) {
		if (f->cpus_fd >= 0)
			sysfs_each(f->cpus_fd, ".", "cpu", "", frequency_one, c);
		return c->n ? 0 : -ENOENT;
	}
	err = textfile_read(&f->cpuinfo, &f->buf, FREQUENCY_TEXT_MAX);
	if (!err)
		err = hosttext_clock(f->buf.text, f->buf.text + f->buf.len, c);
	return err;
}

static void frequency_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct frequency_state *f = state;
	struct hosttext_clock c;
	int i;

	(void)now;
	if (frequency_clock(f, f->cpufreq, &c)) {
		for (i = 0; i < FREQUENCY_METRICS; i++)
			probe_absent(s, f->points[i], "the kernel told no CPU's clock");
		return;
	}
	probe_put(s, f->points[FREQUENCY_MEAN], c.sum / c.n);
	probe_put(s, f->points[FREQUENCY_MIN], c.min);
	probe_put(s, f->points[FREQUENCY_MAX], c.max);
}

static void frequency_close(void *state)
{
	struct frequency_state *f = state;

	if (f->cpus_fd >= 0)
		close(f->cpus_fd);
	textfile_done(&f->cpuinfo);
	textbuf_done(&f->buf);
	free(f);
}

static int frequency_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
			  struct err *e)
{
	struct frequency_state *f = calloc(1, sizeof(*f));
	struct hosttext_clock c;
	int i, err;

	if (!f)
		return -ENOMEM;
	f->cpus_fd = sysfs_dir(env->root, "/sys/devices/system/cpu");
	err = textfile_init(&f->cpuinfo, env->root, "/proc/cpuinfo");
	if (!err) {
		f->cpufreq = frequency_clock(f, true, &c) == 0;
		err = f->cpufreq ? 0 : frequency_clock(f, false, &c);
	}
	if (err) {
		frequency_close(f);
		err_set(e, -ENODEV, "no cpufreq driver is here%s: common in virtual machines",
			err == -ENODATA ? " and /proc/cpuinfo tells only the nominal clock" : "");
		return err == -ENOMEM ? err : -ENODEV;
	}
	for (i = 0; i < FREQUENCY_METRICS; i++)
		f->points[i] = probe_point(s, &frequency_metrics[i], "");
	*ret_state = f;
	return 0;
}

const struct probe_group probe_frequency = {
	.name = "frequency",
	.metrics = frequency_metrics,
	.n_metrics = FREQUENCY_METRICS,
	.place = PROBE_SLOW,
	.period_ns = 10000000000,
	.open = frequency_open,
	.read = frequency_read,
	.close = frequency_close,
};
