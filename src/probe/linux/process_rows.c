/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the group process, and how their values come from a process of the tree.
 */
#include "probe/linux/process.h"

#include <errno.h>
#include <unistd.h>

#include "base/mem.h"
#include "probe/gpu/procs.h"
#include "probe/linux/pidns.h"
#include "wire/sink.h"

#define PROCESS_LABELS "role,slot"

/* clang-format off */
const struct probe_metric process_rows[PROCESS_ROWS] = {
	[PROCESS_CPU] = {"process/cpu", "1",
		"CPUs that the process used on average since the last reading, its children not",
		"CPU clock of the process, else /proc/PID/stat ticks",
		SINK_GAUGE, PROBE_COST_EACH, PROCESS_LABELS},
	[PROCESS_RSS] = {"process/rss", "By",
		"resident memory; pages shared with other processes count in each",
		"/proc/PID/statm", SINK_GAUGE, PROBE_COST_EACH, PROCESS_LABELS},
	[PROCESS_PEAK] = {"process/rss/peak", "By",
		"most resident memory that it ever had",
		"/proc/PID/status VmHWM", SINK_GAUGE, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_ANONYMOUS] = {"process/rss/anonymous", "By",
		"resident memory that belongs to no file: heap, stack, what it changed since a fork",
		"/proc/PID/status RssAnon", SINK_GAUGE, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_SWAP] = {"process/swap", "By",
		"its memory that was swapped out",
		"/proc/PID/status VmSwap", SINK_GAUGE, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_THREADS] = {"process/threads", "1", "threads",
		"/proc/PID/stat field 20", SINK_GAUGE, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_MAJOR] = {"process/faults/major", "1", "page faults that waited for storage",
		"/proc/PID/stat field 12", SINK_COUNTER, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_MINOR] = {"process/faults/minor", "1", "page faults that memory could serve",
		"/proc/PID/stat field 10", SINK_COUNTER, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_READ] = {"process/read", "By",
		"bytes that it had fetched from storage, read-ahead and mapped files included",
		"/proc/PID/io read_bytes", SINK_COUNTER, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_WRITTEN] = {"process/written", "By",
		"bytes that it caused to be written to storage, when it made the pages dirty",
		"/proc/PID/io write_bytes", SINK_COUNTER, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_READ_ALL] = {"process/read/all", "By",
		"bytes read from files, pipes and sockets, from the page cache or not; mapped files "
		"not. What children read that ended unseen counts here once it waited for them",
		"/proc/PID/io rchar", SINK_COUNTER, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_WRITTEN_ALL] = {"process/written/all", "By",
		"bytes written to files, pipes and sockets",
		"/proc/PID/io wchar", SINK_COUNTER, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_READS] = {"process/reads", "1", "calls of read() and the like",
		"/proc/PID/io syscr", SINK_COUNTER, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_READ_SIZE] = {"process/read/size", "By",
		"mean size of these reads since the last value: small ones mean random access or "
		"small records",
		"/proc/PID/io rchar / syscr", SINK_GAUGE, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_READ_CACHED] = {"process/read/cached", "1",
		"share of the bytes read since the last value that did not come from storage; pipes "
		"and sockets count as cached",
		"1 - read_bytes / rchar of /proc/PID/io", SINK_GAUGE, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_VOLUNTARY] = {"process/switches/voluntary", "1",
		"times that the main thread gave up its CPU to wait",
		"/proc/PID/status voluntary_ctxt_switches",
		SINK_COUNTER, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_INVOLUNTARY] = {"process/switches/involuntary", "1",
		"times that the main thread was taken off its CPU for another",
		"/proc/PID/status nonvoluntary_ctxt_switches",
		SINK_COUNTER, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_FILES] = {"process/files", "1", "open file descriptors",
		"size of /proc/PID/fd; its list before Linux 6.2",
		SINK_GAUGE, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_FILES_LIMIT] = {"process/files/limit", "1",
		"most file descriptors that it may have",
		"prlimit(RLIMIT_NOFILE), soft limit", SINK_GAUGE, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_RUNQUEUE] = {"process/runqueue", "1",
		"share of the time that the main thread could have run but waited for a CPU",
		"/proc/PID/schedstat", SINK_GAUGE, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_BLOCKED] = {"process/blocked", "1",
		"share of the readings since the last value that found the main thread in state D: "
		"waiting for storage or a driver, not to be interrupted",
		"/proc/PID/stat field 3", SINK_GAUGE, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_PSS] = {"process/pss", "By",
		"resident memory, shared pages divided by how many processes have them; one process a "
		"minute, if switched on",
		"/proc/PID/smaps_rollup", SINK_GAUGE, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_GPU_MEMORY] = {"process/gpu/memory", "By",
		"memory that it has on all NVIDIA GPUs; where pids of the machine are those of the "
		"agent",
		"NVML ComputeRunningProcesses", SINK_GAUGE, PROBE_COST_RARE, PROCESS_LABELS},
	[PROCESS_GPU_BUSY] = {"process/gpu/busy", "1",
		"NVIDIA GPUs that it kept busy since the reading before: 0.5 is half of one",
		"NVML ProcessUtilization", SINK_GAUGE, PROBE_COST_RARE, PROCESS_LABELS},
};
/* clang-format on */

/* Rows that are a counter of the process as it stands. */
static const struct {
	enum process_row row;
	enum probe_detail_index index;
} process_counters[] = {
	{PROCESS_MAJOR, PROBE_DETAIL_MAJOR},
	{PROCESS_MINOR, PROBE_DETAIL_MINOR},
	{PROCESS_READ, PROBE_DETAIL_READ},
	{PROCESS_WRITTEN, PROBE_DETAIL_WRITTEN},
	{PROCESS_READ_ALL, PROBE_DETAIL_READ_ALL},
	{PROCESS_WRITTEN_ALL, PROBE_DETAIL_WRITTEN_ALL},
	{PROCESS_READS, PROBE_DETAIL_READS},
	{PROCESS_VOLUNTARY, PROBE_DETAIL_VOLUNTARY},
	{PROCESS_INVOLUNTARY, PROBE_DETAIL_INVOLUNTARY},
};

static bool process_has(const struct probe_detail *d, enum probe_detail_index i)
{
	return d->stepped >> i & 1;
}

static const char *process_why(const struct probe_detail *d, enum probe_detail_index i)
{
	if (i < PROBE_DETAIL_IO && (d->io_error == -EACCES || d->io_error == -EPERM))
		return "its io file is not ours to read: it belongs to another user or has "
		       "privileges; run the agent as that user";
	if (i < PROBE_DETAIL_IO && d->io_error)
		return "it has no io file: a kernel without CONFIG_TASK_IO_ACCOUNTING";
	if (!(d->known >> i & 1))
		return "this kernel does not say";
	return "needs a second reading";
}

static void process_put_if(struct probe_set *s, uint32_t point, bool known, double value,
			   const char *why)
{
	if (known)
		probe_put(s, point, value);
	else
		probe_absent(s, point, why);
}

static void process_put_reads(const struct probe_detail *d, struct probe_set *s,
			      const uint32_t points[PROCESS_ROWS])
{
	double bytes = (double)d->added[PROBE_DETAIL_READ_ALL];
	double stored = (double)d->added[PROBE_DETAIL_READ];
	double calls = (double)d->added[PROBE_DETAIL_READS];
	bool known = process_has(d, PROBE_DETAIL_READ_ALL);
	const char *why = known ? "it read nothing" : process_why(d, PROBE_DETAIL_READ_ALL);

	process_put_if(s, points[PROCESS_READ_SIZE], known && calls > 0, bytes / calls, why);
	process_put_if(s, points[PROCESS_READ_CACHED], known && bytes > 0,
		       stored < bytes ? 1 - stored / bytes : 0, why);
}

static void process_put_gpus(const struct probe_proc *p, struct probe_set *s,
			     const uint32_t points[PROCESS_ROWS])
{
	static const char none[] = "it uses no GPU", nobody[] = "no GPU driver tells it";
	static const char foreign[] = "the GPU driver names processes as the machine does; this is "
				      "a pid namespace of its own";
	double value = 0;
	int err;

	if (!pidns_is_first()) {
		probe_absent(s, points[PROCESS_GPU_MEMORY], foreign);
		probe_absent(s, points[PROCESS_GPU_BUSY], foreign);
		return;
	}
	err = gpu_procs_get(p->pid, &value);

	process_put_if(s, points[PROCESS_GPU_MEMORY], !err, value, err == -ENOENT ? none : nobody);
	err = gpu_procs_busy(p->pid, &value);
	process_put_if(s, points[PROCESS_GPU_BUSY], !err, value, err == -ENOENT ? none : nobody);
}

static void process_put_detail(const struct probe_proc *p, struct probe_set *s,
			       const uint32_t points[PROCESS_ROWS])
{
	static const char gone[] = "it has no memory any more";
	const struct probe_detail *d = &p->detail;
	double wait_s = (double)d->added[PROBE_DETAIL_WAIT] / 1e9;
	double span_s = d->since_ns ? (double)(d->read_ns - d->since_ns) / 1e9 : 0;
	size_t i;

	for (i = 0; i < ARRAY_LEN(process_counters); i++) {
		enum probe_detail_index k = process_counters[i].index;

		process_put_if(s, points[process_counters[i].row], process_has(d, k),
			       (double)d->added[k], process_why(d, k));
	}
	process_put_reads(d, s, points);
	probe_put(s, points[PROCESS_THREADS], (double)p->threads);
	process_put_if(s, points[PROCESS_PEAK], d->has_memory, (double)d->peak, gone);
	process_put_if(s, points[PROCESS_SWAP], d->has_memory, (double)d->swap, gone);
	process_put_if(s, points[PROCESS_ANONYMOUS], d->has_anonymous, (double)d->anonymous,
		       d->has_memory ? "needs Linux 4.5" : gone);
	process_put_if(s, points[PROCESS_FILES], d->has_files, (double)d->files,
		       "its descriptors are not ours to count: it belongs to another user, or has "
		       "more than 4096 on a kernel before Linux 6.2");
	process_put_if(s, points[PROCESS_FILES_LIMIT], d->has_files_limit, (double)d->files_limit,
		       "its limits are not ours to ask: it belongs to another user or another pid "
		       "namespace");
	process_put_if(s, points[PROCESS_RUNQUEUE], process_has(d, PROBE_DETAIL_WAIT) && span_s > 0,
		       wait_s < span_s ? wait_s / span_s : 1, process_why(d, PROBE_DETAIL_WAIT));
	probe_put(s, points[PROCESS_BLOCKED], d->seen ? (double)d->stuck / d->seen : 0);
	process_put_gpus(p, s, points);
}

void process_put(struct probe_proc *p, struct probe_set *s, const uint32_t points[PROCESS_ROWS])
{
	process_put_if(s, points[PROCESS_CPU], p->cpu >= 0, p->cpu, "needs a second reading");
	process_put_if(s, points[PROCESS_RSS], p->memory_known,
		       (double)p->resident * (double)sysconf(_SC_PAGESIZE),
		       "its memory cannot be read now");
	if (!p->detail.fresh)
		return;
	process_put_detail(p, s, points);
	p->detail.fresh = false;
	p->detail.seen = p->detail.stuck = 0;
}
