/* SPDX-License-Identifier: Apache-2.0
 *
 * Pressure of the machine: how long tasks waited for CPU, memory and disks, from the
 * totals of /proc/pressure. The averages that stand beside them are not used.
 */
#include "probe/groups.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "probe/linux/psi.h"
#include "probe/linux/textfile.h"
#include "wire/sink.h"

#define PRESSURE_TEXT_MAX 4096

enum {
	PRESSURE_CPU,
	PRESSURE_MEMORY,
	PRESSURE_IO,
	PRESSURE_FILES, /* rows "some" end, one a file; then rows "full" */
	PRESSURE_MEMORY_FULL = PRESSURE_FILES,
	PRESSURE_IO_FULL,
	PRESSURE_METRICS
};

/* clang-format off */
#define PRESSURE_ROW(file, line) "/proc/pressure/" file " " line " total", SINK_GAUGE, \
	PROBE_COST_LOW, NULL
static const struct probe_metric pressure_metrics[PRESSURE_METRICS] = {
	[PRESSURE_CPU] = {"pressure/cpu", "1",
		"share of the time in which some task waited for a CPU", PRESSURE_ROW("cpu", "some")},
	[PRESSURE_MEMORY] = {"pressure/memory", "1",
		"share of the time in which some task waited for memory: reclaim, refaults, swap",
		PRESSURE_ROW("memory", "some")},
	[PRESSURE_IO] = {"pressure/io", "1",
		"share of the time in which some task waited for a disk",
		PRESSURE_ROW("io", "some")},
	[PRESSURE_MEMORY_FULL] = {"pressure/memory/full", "1",
		"share of the time in which all tasks that had something to do waited for memory",
		PRESSURE_ROW("memory", "full")},
	[PRESSURE_IO_FULL] = {"pressure/io/full", "1",
		"share of the time in which all tasks that had something to do waited for a disk",
		PRESSURE_ROW("io", "full")},
};
/* clang-format on */

static const struct {
	const char *path;
	int full; /* row; -1: what the file says of all tasks has no meaning for the machine */
} pressure_files[PRESSURE_FILES] = {
	[PRESSURE_CPU] = {"/proc/pressure/cpu", -1},
	[PRESSURE_MEMORY] = {"/proc/pressure/memory", PRESSURE_MEMORY_FULL},
	[PRESSURE_IO] = {"/proc/pressure/io", PRESSURE_IO_FULL},
};

struct pressure_total {
	uint64_t us;
	int64_t mono_ns; /* when */
	bool has;
};

struct pressure_state {
	struct textfile files[PRESSURE_FILES];
	struct textbuf buf;
	struct pressure_total was[PRESSURE_METRICS];
	uint32_t points[PRESSURE_METRICS];
};

/* What was added over the time between two readings, neither of which counts suspend. */
static void pressure_put(struct pressure_state *p, struct probe_set *s, int row, uint64_t us,
			 int64_t mono_ns)
{
	struct pressure_total was = p->was[row];
	double share;

	p->was[row] = (struct pressure_total){us, mono_ns, true};
	if (!was.has) {
		probe_absent(s, p->points[row], "needs a second reading");
	} else if (us < was.us) {
		probe_absent(s, p->points[row], "the counter began anew");
	} else if (mono_ns <= was.mono_ns) {
		probe_absent(s, p->points[row], "no time has passed since the last reading");
		p->was[row] = was;
	} else {
		share = (double)(us - was.us) * 1e3 / (double)(mono_ns - was.mono_ns);
		probe_put(s, p->points[row], share > 1 ? 1 : share);
	}
}

static void pressure_lost(struct pressure_state *p, struct probe_set *s, int row, const char *why)
{
	if (row >= 0)
		probe_absent(s, p->points[row], why);
}

static void pressure_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct pressure_state *p = state;
	uint64_t some, full;
	int i, row, err;

	for (i = 0; i < PRESSURE_FILES; i++) {
		row = pressure_files[i].full;
		err = textfile_read(&p->files[i], &p->buf, PRESSURE_TEXT_MAX);
		if (!err)
			err = psi_parse(p->buf.text, p->buf.len, &some, &full);
		if (err) {
			pressure_lost(p, s, i, "its file in /proc/pressure cannot be read");
			pressure_lost(p, s, row, "its file in /proc/pressure cannot be read");
			continue;
		}
		if (some == PSI_NONE)
			pressure_lost(p, s, i, "the file has no line of it");
		else
			pressure_put(p, s, i, some, now->mono_ns);
		if (full == PSI_NONE)
			pressure_lost(p, s, row, "the file has no line of it");
		else if (row >= 0)
			pressure_put(p, s, row, full, now->mono_ns);
	}
}

static void pressure_close(void *state)
{
	struct pressure_state *p = state;
	int i;

	for (i = 0; i < PRESSURE_FILES; i++)
		textfile_done(&p->files[i]);
	textbuf_done(&p->buf);
	free(p);
}

/* Kernels before 5.2 or so have the files also when they measure nothing; reading one
 * then says that it is not supported. */
static int pressure_why(int err, struct err *e)
{
	if (err == -ENOENT || err == -EOPNOTSUPP)
		err_set(e, -ENODEV,
			"the kernel does not measure pressure: boot it with psi=1 (Linux 4.20 and "
			"newer, built with CONFIG_PSI)");
	else
		err_errno(e, err, "/proc/pressure cannot be read");
	return err == -ENOMEM ? err : -ENODEV;
}

static int pressure_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
			 struct err *e)
{
	struct pressure_state *p = calloc(1, sizeof(*p));
	int i, err = 0, one, last = 0, readable = 0;

	if (!p)
		return -ENOMEM;
	for (i = 0; i < PRESSURE_FILES; i++) {
		one = textfile_init(&p->files[i], env->root, pressure_files[i].path);
		if (one)
			err = one;
		else
			one = textfile_read(&p->files[i], &p->buf, PRESSURE_TEXT_MAX);
		readable += !one;
		last = one ? one : last;
	}
	if (err || !readable) {
		pressure_close(p);
		return pressure_why(err ? err : last, e);
	}
	for (i = 0; i < PRESSURE_METRICS; i++)
		p->points[i] = probe_point(s, &pressure_metrics[i], "");
	*ret_state = p;
	return 0;
}

const struct probe_group probe_pressure = {
	.name = "pressure",
	.metrics = pressure_metrics,
	.n_metrics = PRESSURE_METRICS,
	.place = PROBE_INLINE,
	.period_ns = 1000000000,
	.open = pressure_open,
	.read = pressure_read,
	.close = pressure_close,
};
