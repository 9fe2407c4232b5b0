/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of metrics: the one place where a metric's name, unit, kind and
 * definition stand. docs/metrics.md shows the same rows, and a test compares.
 */
#include "probe/probe.h"

#include "wire/sink.h"

const struct probe_metric probe_host_metrics[PROBE_HOST_METRICS] = {
	[PROBE_HOST_CPU_BUSY] =
		{
			"cpu/busy",
			"1",
			"share of the time of all CPUs, since the last reading, that was neither "
			"idle nor "
			"waiting for a disk; time stolen by other guests counts as busy",
			"/proc/stat",
			SINK_GAUGE,
			PROBE_COST_LOW,
		},
	[PROBE_HOST_CPU_COUNT] =
		{
			"cpu/count",
			"1",
			"CPUs online on the machine",
			"/proc/stat",
			SINK_GAUGE,
			PROBE_COST_LOW,
		},
	[PROBE_HOST_MEMORY_TOTAL] =
		{
			"memory/total",
			"By",
			"memory of the machine that the kernel manages",
			"/proc/meminfo MemTotal",
			SINK_GAUGE,
			PROBE_COST_LOW,
		},
	[PROBE_HOST_MEMORY_AVAILABLE] =
		{
			"memory/available",
			"By",
			"memory of the machine that programs can still get without swapping, as "
			"the "
			"kernel estimates it",
			"/proc/meminfo MemAvailable",
			SINK_GAUGE,
			PROBE_COST_LOW,
		},
	[PROBE_HOST_MEMORY_USED] =
		{
			"memory/used",
			"By",
			"memory/total less memory/available, of the whole machine also in a "
			"container",
			"/proc/meminfo",
			SINK_GAUGE,
			PROBE_COST_LOW,
		},
	[PROBE_HOST_MEMORY_LIMIT] =
		{
			"memory/limit",
			"By",
			"tightest memory limit among the agent's cgroup and those above it that "
			"can be "
			"seen; read every 10 s",
			"memory.max, or memory.stat and memory.limit_in_bytes of cgroup v1",
			SINK_GAUGE,
			PROBE_COST_RARE,
		},
	[PROBE_HOST_LOAD_1M] =
		{
			"load/1m",
			"1",
			"tasks running, or blocked without being interruptible: exponential mean "
			"over 1 "
			"minute",
			"/proc/loadavg",
			SINK_GAUGE,
			PROBE_COST_LOW,
		},
};

const struct probe_metric probe_tree_metrics[PROBE_TREE_METRICS] = {
	[PROBE_TREE_CPU] =
		{
			"tree/cpu",
			"1",
			"CPUs that the run's processes used on average since the last reading; "
			"processes "
			"that ended, and children reaped unseen, count when that is noticed",
			"CPU clock of each process, else /proc/PID/stat ticks",
			SINK_GAUGE,
			PROBE_COST_EACH,
		},
	[PROBE_TREE_RSS] =
		{
			"tree/rss",
			"By",
			"memory in use by the run's processes: the private resident pages of each, "
			"and "
			"the largest set of file and shared pages once; pages still shared since a "
			"fork "
			"count in each process",
			"/proc/PID/statm: sum of (resident - shared), plus largest shared",
			SINK_GAUGE,
			PROBE_COST_EACH,
		},
	[PROBE_TREE_PROCESSES] =
		{
			"tree/processes",
			"1",
			"processes of the run, without zombies",
			"/proc/PID/stat",
			SINK_GAUGE,
			PROBE_COST_EACH,
		},
	[PROBE_TREE_THREADS] =
		{
			"tree/threads",
			"1",
			"threads of these processes",
			"/proc/PID/stat field 20",
			SINK_GAUGE,
			PROBE_COST_EACH,
		},
};
