/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel's memory management had to do: counters of /proc/vmstat.
 */
#include "probe/groups.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "probe/linux/hosttext.h"
#include "probe/linux/onefile.h"
#include "wire/sink.h"

enum {
	VMSTAT_REFAULTS,
	VMSTAT_PAGED_IN,
	VMSTAT_PAGED_OUT,
	VMSTAT_SWAP_IN,
	VMSTAT_SWAP_OUT,
	VMSTAT_MAJOR,
	VMSTAT_SCANS_DIRECT,
	VMSTAT_OOM_KILLS,
	VMSTAT_METRICS
};

/* clang-format off */
#define VMSTAT_ROW(line) "/proc/vmstat " line, SINK_COUNTER, PROBE_COST_LOW, NULL
static const struct probe_metric vmstat_metrics[VMSTAT_METRICS] = {
	[VMSTAT_REFAULTS] = {"memory/refaults", "1",
		"pages of files read again soon after they were dropped for want of memory: rising, "
		"what is read over and over no longer fits the page cache",
		VMSTAT_ROW("workingset_refault_file, workingset_refault before Linux 5.9")},
	[VMSTAT_PAGED_IN] = {"memory/paged/in", "By",
		"bytes read from block devices, of files, swap and raw devices alike",
		VMSTAT_ROW("pgpgin")},
	[VMSTAT_PAGED_OUT] = {"memory/paged/out", "By",
		"bytes written to block devices, of files, swap and raw devices alike",
		VMSTAT_ROW("pgpgout")},
	[VMSTAT_SWAP_IN] = {"swap/in", "By", "bytes of pages brought in from swap",
		VMSTAT_ROW("pswpin")},
	[VMSTAT_SWAP_OUT] = {"swap/out", "By", "bytes of pages put out to swap",
		VMSTAT_ROW("pswpout")},
	[VMSTAT_MAJOR] = {"memory/faults/major", "1",
		"page faults for which a task had to wait for a disk", VMSTAT_ROW("pgmajfault")},
	[VMSTAT_SCANS_DIRECT] = {"memory/scans/direct", "1",
		"pages looked at by tasks that had to find free memory themselves: they stall",
		VMSTAT_ROW("pgscan_direct, of each zone before Linux 4.8")},
	[VMSTAT_OOM_KILLS] = {"memory/oom_kills", "1",
		"processes killed for want of memory, of the machine or of a cgroup",
		VMSTAT_ROW("oom_kill")},
};

static const struct hosttext_key vmstat_keys[] = {
	HOSTTEXT_KEY("workingset_refault", VMSTAT_REFAULTS),
	HOSTTEXT_KEY("workingset_refault_file", VMSTAT_REFAULTS),
	HOSTTEXT_KEY("pgpgin", VMSTAT_PAGED_IN),
	HOSTTEXT_KEY("pgpgout", VMSTAT_PAGED_OUT),
	HOSTTEXT_KEY("pswpin", VMSTAT_SWAP_IN),
	HOSTTEXT_KEY("pswpout", VMSTAT_SWAP_OUT),
	HOSTTEXT_KEY("pgmajfault", VMSTAT_MAJOR),
	HOSTTEXT_KEY("pgscan_direct", VMSTAT_SCANS_DIRECT),
	HOSTTEXT_KEY("pgscan_direct_dma", VMSTAT_SCANS_DIRECT),
	HOSTTEXT_KEY("pgscan_direct_dma32", VMSTAT_SCANS_DIRECT),
	HOSTTEXT_KEY("pgscan_direct_normal", VMSTAT_SCANS_DIRECT),
	HOSTTEXT_KEY("pgscan_direct_high", VMSTAT_SCANS_DIRECT),
	HOSTTEXT_KEY("pgscan_direct_movable", VMSTAT_SCANS_DIRECT),
	HOSTTEXT_KEY("oom_kill", VMSTAT_OOM_KILLS),
};

static const char *const vmstat_missing[VMSTAT_METRICS] = {
	[VMSTAT_REFAULTS] = "/proc/vmstat has no workingset_refault (Linux before 3.15)",
	[VMSTAT_OOM_KILLS] = "/proc/vmstat has no oom_kill (Linux before 4.13)",
};
/* clang-format on */

/* pgpgin and pgpgout count KiB, the others pages. */
static double vmstat_scale(int row)
{
	if (row == VMSTAT_PAGED_IN || row == VMSTAT_PAGED_OUT)
		return 1024;
	if (row == VMSTAT_SWAP_IN || row == VMSTAT_SWAP_OUT)
		return (double)sysconf(_SC_PAGESIZE);
	return 1;
}

static void vmstat_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct onefile *o = state;
	uint64_t v[VMSTAT_METRICS];
	uint32_t found;
	int i;

	(void)now;
	if (!onefile_read(o, s))
		return;
	found = hosttext_pairs(o->buf.text, o->buf.text + o->buf.len, vmstat_keys,
			       ARRAY_LEN(vmstat_keys), v, VMSTAT_METRICS);
	for (i = 0; i < VMSTAT_METRICS; i++) {
		/* unsigned long of the kernel: 32 bits there if they are so here */
		if (found >> i & 1)
			probe_count(s, o->points[i], v[i], sizeof(long) == 4 ? 32 : 0,
				    vmstat_scale(i));
		else
			probe_absent(s, o->points[i],
				     vmstat_missing[i] ? vmstat_missing[i]
						       : "/proc/vmstat has no such line");
	}
}

static int vmstat_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		       struct err *e)
{
	static const struct onefile vmstat = {
		.rows = vmstat_metrics,
		.n = VMSTAT_METRICS,
		.max = 65536,
		.unreadable = "/proc/vmstat cannot be read",
	};

	return onefile_new(&vmstat, env, s, "/proc/vmstat", ret_state, e);
}

const struct probe_group probe_vmstat = {
	.name = "vmstat",
	.metrics = vmstat_metrics,
	.n_metrics = VMSTAT_METRICS,
	.place = PROBE_INLINE,
	.period_ns = 1000000000,
	.open = vmstat_open,
	.read = vmstat_read,
	.close = onefile_free,
};
