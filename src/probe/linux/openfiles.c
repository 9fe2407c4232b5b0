/* SPDX-License-Identifier: Apache-2.0
 *
 * The group files: open files of the whole machine.
 */
#include "probe/groups.h"
#include "probe/linux/onefile.h"
#include "probe/linux/proc.h"
#include "wire/sink.h"

#include <stdint.h>

enum {
	OPENFILES_OPEN,
	OPENFILES_LIMIT,
	OPENFILES_METRICS
};

/* clang-format off */
static const struct probe_metric openfiles_metrics[OPENFILES_METRICS] = {
	[OPENFILES_OPEN] = {"files/open", "1",
		"files that the programs of the machine hold open, sockets and pipes included",
		"/proc/sys/fs/file-nr", SINK_GAUGE, PROBE_COST_LOW, NULL},
	[OPENFILES_LIMIT] = {"files/limit", "1",
		"how many may be open on the machine; each process has a limit of its own as well",
		"/proc/sys/fs/file-nr", SINK_GAUGE, PROBE_COST_LOW, NULL},
};
/* clang-format on */

static int openfiles_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
			  struct err *e)
{
	static const struct onefile like = {
		.rows = openfiles_metrics,
		.n = OPENFILES_METRICS,
		.max = 4096, /* the kernel makes a buffer as large as asked for */
		.unreadable = "/proc/sys/fs/file-nr cannot be read",
		.malformed = "/proc/sys/fs/file-nr has another form than known"};

	return onefile_new(&like, env, s, "/proc/sys/fs/file-nr", ret_state, e);
}

/* "594\t0\t2466170": allocated, free ones of them, limit. */
static void openfiles_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct onefile *o = state;
	const char *p, *end;
	uint64_t v[3];
	int i;

	(void)now;
	if (!onefile_read(o, s))
		return;
	p = o->buf.text;
	end = p + o->buf.len;
	for (i = 0; i < 3; i++) {
		while (p < end && (*p == '\t' || *p == ' '))
			p++;
		if (proc_number(&p, end, &v[i]))
			break;
	}
	if (i < 3 || v[1] > v[0]) {
		onefile_absent(o, s, o->malformed);
		return;
	}
	probe_put(s, o->points[OPENFILES_OPEN], (double)(v[0] - v[1]));
	if (v[2] >= INT64_MAX)
		probe_absent(s, o->points[OPENFILES_LIMIT], "no limit is set");
	else
		probe_put(s, o->points[OPENFILES_LIMIT], (double)v[2]);
}

const struct probe_group probe_files = {
	.name = "files",
	.metrics = openfiles_metrics,
	.n_metrics = OPENFILES_METRICS,
	.place = PROBE_INLINE,
	.period_ns = 10000000000,
	.open = openfiles_open,
	.read = openfiles_read,
	.close = onefile_free,
};
