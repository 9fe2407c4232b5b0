/* SPDX-License-Identifier: Apache-2.0
 *
 * The group self: what the reading process itself (the agent) costs.
 */
#include "probe/groups.h"
#include "probe/linux/proc.h"
#include "probe/linux/textfile.h"
#include "wire/clock.h"
#include "wire/sink.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define SELF_STATUS_MAX 16384

enum {
	SELF_CPU,
	SELF_RSS,
	SELF_ANONYMOUS,
	SELF_METRICS
};

/* clang-format off */
static const struct probe_metric self_metrics[SELF_METRICS] = {
	[SELF_CPU] = {"lapse/agent/cpu", "1",
		"CPUs that the agent used on average since the last reading",
		"CLOCK_PROCESS_CPUTIME_ID", SINK_GAUGE, PROBE_COST_LOW, NULL},
	[SELF_RSS] = {"lapse/agent/rss", "By",
		"resident memory of the agent, with the files that it maps",
		"/proc/self/statm", SINK_GAUGE, PROBE_COST_LOW, NULL},
	[SELF_ANONYMOUS] = {"lapse/agent/rss/anonymous", "By",
		"resident memory of the agent without files and shared memory",
		"/proc/self/statm", SINK_GAUGE, PROBE_COST_LOW, NULL},
};
/* clang-format on */

struct self {
	struct textfile statm;
	struct textbuf text;
	uint32_t points[SELF_METRICS];
	int64_t mono_ns, cpu_ns; /* of the last reading; mono_ns 0: none yet */
};

static void self_close(void *state)
{
	struct self *p = state;

	textfile_done(&p->statm);
	textbuf_done(&p->text);
	free(p);
}

/* It is about this process: the real /proc, whatever the root. */
static int self_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		     struct err *e)
{
	struct self *p = calloc(1, sizeof(*p));
	int i;

	(void)env;
	(void)e;
	if (!p)
		return -ENOMEM;
	if (textfile_init(&p->statm, "", "/proc/self/statm") < 0) {
		free(p);
		return -ENOMEM;
	}
	for (i = 0; i < SELF_METRICS; i++)
		p->points[i] = probe_point(s, &self_metrics[i], "");
	*ret_state = p;
	return 0;
}

static void self_read_memory(struct self *p, struct probe_set *s)
{
	double page = (double)sysconf(_SC_PAGESIZE);
	struct proc_statm m;

	if (textfile_read(&p->statm, &p->text, SELF_STATUS_MAX) < 0 ||
	    proc_parse_statm(p->text.text, p->text.len, &m) < 0) {
		probe_absent(s, p->points[SELF_RSS], "/proc/self/statm cannot be read");
		probe_absent(s, p->points[SELF_ANONYMOUS], "/proc/self/statm cannot be read");
		return;
	}
	probe_put(s, p->points[SELF_RSS], (double)m.resident * page);
	if (m.shared <= m.resident)
		probe_put(s, p->points[SELF_ANONYMOUS], (double)(m.resident - m.shared) * page);
}

static void self_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct self *p = state;
	int64_t cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

	if (p->mono_ns && now->mono_ns > p->mono_ns)
		probe_put(s, p->points[SELF_CPU],
			  (double)(cpu - p->cpu_ns) / (double)(now->mono_ns - p->mono_ns));
	else
		probe_absent(s, p->points[SELF_CPU], "needs a second reading");
	p->mono_ns = now->mono_ns;
	p->cpu_ns = cpu;
	self_read_memory(p, s);
}

const struct probe_group probe_self = {
	.name = "self",
	.metrics = self_metrics,
	.n_metrics = SELF_METRICS,
	.place = PROBE_INLINE,
	.period_ns = 10000000000,
	.open = self_open,
	.read = self_read,
	.close = self_close,
};
