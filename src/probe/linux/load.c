/* SPDX-License-Identifier: Apache-2.0
 *
 * Load of the machine, as /proc/loadavg tells it.
 */
#include "probe/groups.h"

#include <stdlib.h>

#include "base/mem.h"
#include "probe/linux/hosttext.h"
#include "probe/linux/onefile.h"
#include "wire/sink.h"

/* clang-format off */
#define LOAD_ROW(span) "1", \
	"tasks running, or blocked without being interruptible: exponential mean over " span, \
	"/proc/loadavg", SINK_GAUGE, PROBE_COST_LOW, NULL
static const struct probe_metric load_metrics[] = {
	{"load/1m", LOAD_ROW("1 minute")},
	{"load/5m", LOAD_ROW("5 minutes")},
	{"load/15m", LOAD_ROW("15 minutes")},
};
/* clang-format on */

static int load_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		     struct err *e)
{
	static const struct onefile load = {
		.rows = load_metrics,
		.n = ARRAY_LEN(load_metrics),
		.max = 4096,
		.unreadable = "/proc/loadavg cannot be read",
		.malformed = "/proc/loadavg is malformed",
	};

	return onefile_new(&load, env, s, "/proc/loadavg", ret_state, e);
}

static void load_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct onefile *o = state;
	double load[3];
	size_t i;

	(void)now;
	if (!onefile_read(o, s))
		return;
	if (hosttext_load(o->buf.text, o->buf.text + o->buf.len, load)) {
		onefile_absent(o, s, o->malformed);
		return;
	}
	for (i = 0; i < ARRAY_LEN(load); i++)
		probe_put(s, o->points[i], load[i]);
}

const struct probe_group probe_load = {
	.name = "load",
	.metrics = load_metrics,
	.n_metrics = ARRAY_LEN(load_metrics),
	.place = PROBE_INLINE,
	.period_ns = 1000000000,
	.open = load_open,
	.read = load_read,
	.close = onefile_free,
};
