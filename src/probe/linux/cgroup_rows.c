/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the group cgroup.
 */
#include "probe/linux/cgroup_rows.h"

#include <stddef.h>

#include "wire/sink.h"

/* clang-format off */
#define CG_GAUGE SINK_GAUGE, PROBE_COST_LOW, NULL
#define CG_COUNTER SINK_COUNTER, PROBE_COST_LOW, NULL
#define CG_SHARE(what) "share of the time in which " what
const struct probe_metric cg_rows[CG_ROWS] = {
	[CG_USED] = {"cgroup/memory/used", "By",
		"memory of the run's cgroup and those below it, page cache and kernel memory too",
		"memory.current, or memory.usage_in_bytes of cgroup v1", CG_GAUGE},
	[CG_LIMIT] = {"cgroup/memory/limit", "By",
		"tightest memory limit among the run's cgroup and those above it that can be seen; "
		"read every 10 s",
		"memory.max, or memory.stat and memory.limit_in_bytes of cgroup v1",
		SINK_GAUGE, PROBE_COST_RARE, NULL},
	[CG_WORKING] = {"cgroup/memory/working_set", "By",
		"cgroup/memory/used less file pages not used lately, which are given back first",
		"less inactive_file of memory.stat", CG_GAUGE},
	[CG_ANON] = {"cgroup/memory/anonymous", "By", "its memory that belongs to no file",
		"anon of memory.stat, or total_rss of cgroup v1", CG_GAUGE},
	[CG_FILE] = {"cgroup/memory/file", "By", "its page cache, shared memory too",
		"file of memory.stat, or total_cache of cgroup v1", CG_GAUGE},
	[CG_SHARED] = {"cgroup/memory/shared", "By",
		"its shared memory: /dev/shm, tmpfs; it cannot be given back without swap",
		"shmem of memory.stat, or total_shmem of cgroup v1", CG_GAUGE},
	[CG_PEAK] = {"cgroup/memory/peak", "By",
		"most memory that the cgroup ever used, also before the run if it is older",
		"memory.peak (Linux 5.19), or memory.max_usage_in_bytes of cgroup v1", CG_GAUGE},
	[CG_SWAP] = {"cgroup/memory/swap", "By", "its memory that was swapped out",
		"memory.swap.current, or total_swap of cgroup v1", CG_GAUGE},
	[CG_LOW] = {"cgroup/memory/low", "1",
		"times that its memory was reclaimed although it is protected (memory.low)",
		"low of memory.events", CG_COUNTER},
	[CG_HIGH] = {"cgroup/memory/high", "1",
		"times that its processes were held up as it was above memory.high",
		"high of memory.events", CG_COUNTER},
	[CG_MAX] = {"cgroup/memory/max", "1", "times that it ran into its memory limit",
		"max of memory.events, or memory.failcnt of cgroup v1", CG_COUNTER},
	[CG_OOM] = {"cgroup/memory/oom", "1",
		"times that it ran out of memory: an allocation failed or a process was killed",
		"oom of memory.events", CG_COUNTER},
	[CG_KILLS] = {"cgroup/memory/oom_kills", "1",
		"processes of it that the kernel killed for lack of memory",
		"oom_kill of memory.events, or of memory.oom_control of cgroup v1", CG_COUNTER},
	[CG_CPU] = {"cgroup/cpu/used", "1", "CPUs that the cgroup used on average since the last reading",
		"usage_usec of cpu.stat, or cpuacct.usage of cgroup v1", CG_GAUGE},
	[CG_QUOTA] = {"cgroup/cpu/quota", "1",
		"CPUs that the tightest quota among the cgroup and those above it comes to; read every 10 s",
		"cpu.max, or cpu.cfs_quota_us and cpu.cfs_period_us of cgroup v1",
		SINK_GAUGE, PROBE_COST_RARE, NULL},
	[CG_THROTTLED] = {"cgroup/cpu/throttled", "1",
		"time that its tasks were held back by this quota, over the time since the last reading: "
		"each CPU counts, so that it may be above 1",
		"throttled_usec of cpu.stat, or throttled_time of cgroup v1, where the quota is", CG_GAUGE},
	[CG_THROTTLED_PERIODS] = {"cgroup/cpu/throttled/periods", "1",
		"share of the quota's periods (100 ms mostly) since the last reading in which it was used up",
		"nr_throttled / nr_periods of cpu.stat", CG_GAUGE},
	[CG_READ] = {"cgroup/io/read", "By",
		"bytes read from all disks; of disks upon disks (LVM, RAID) each counts",
		"io.stat, or blkio.throttle.io_service_bytes_recursive of cgroup v1", CG_COUNTER},
	[CG_WRITTEN] = {"cgroup/io/written", "By", "bytes written to all disks, likewise",
		"io.stat, or blkio.throttle.io_service_bytes_recursive of cgroup v1", CG_COUNTER},
	[CG_THREADS] = {"cgroup/threads", "1", "threads of the cgroup and those below it",
		"pids.current", CG_GAUGE},
	[CG_THREADS_LIMIT] = {"cgroup/threads/limit", "1",
		"tightest limit of threads among the cgroup and those above it; read every 10 s",
		"pids.max", SINK_GAUGE, PROBE_COST_RARE, NULL},
	[CG_PRESSURE] = {"cgroup/pressure/cpu", "1", CG_SHARE("some task of it waited for a CPU"),
		"cpu.pressure some total", CG_GAUGE},
	[CG_PRESSURE + 1] = {"cgroup/pressure/memory", "1", CG_SHARE("some task of it waited for memory"),
		"memory.pressure some total", CG_GAUGE},
	[CG_PRESSURE + 2] = {"cgroup/pressure/io", "1", CG_SHARE("some task of it waited for a disk"),
		"io.pressure some total", CG_GAUGE},
	[CG_PRESSURE_FULL] = {"cgroup/pressure/cpu/full", "1",
		CG_SHARE("all its tasks that had something to do waited for a CPU: the quota was used up"),
		"cpu.pressure full total", CG_GAUGE},
	[CG_PRESSURE_FULL + 1] = {"cgroup/pressure/memory/full", "1",
		CG_SHARE("all its tasks that had something to do waited for memory"),
		"memory.pressure full total", CG_GAUGE},
	[CG_PRESSURE_FULL + 2] = {"cgroup/pressure/io/full", "1",
		CG_SHARE("all its tasks that had something to do waited for a disk"),
		"io.pressure full total", CG_GAUGE},
	[CG_RISK] = {"oom/risk", "1",
		"share of the memory limit that nothing can take back: anonymous, shared and kernel memory "
		"over the cgroup's limit, or what is not available of the machine's memory, whichever is "
		"higher; full page cache is no risk",
		"memory.stat, /proc/meminfo MemAvailable", CG_GAUGE},
	[CG_TIME] = {"oom/time", "s",
		"time until that limit is reached if it goes on as in the last minute, at most a day; absent "
		"unless it rises steadily",
		"median slope of oom/risk's bytes over 60 s", CG_GAUGE},
};
/* clang-format on */
