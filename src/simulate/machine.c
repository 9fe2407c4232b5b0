/* SPDX-License-Identifier: Apache-2.0
 *
 * machine.c - series of hosts, their processors and GPUs, and of the processes of
 * the run. Names that the probes use mean here what docs/metrics.md says.
 */
#include "simulate/shape.h"

#include "base/mem.h"

#define MACHINE_PAGE 4096.0
#define MACHINE_GPU_PAGE 2097152.0

/* A fault of the first host, or of its GPU 0, at this moment. */
static const struct fault *machine_fault(const struct shape_at *a, enum fault_kind kind)
{
	if (a->s->host != 0)
		return NULL;
	if (fault_rows[kind].place == FAULT_IN_GPU && a->s->unit != 0)
		return NULL;
	return plan_fault_ns(a->p, kind, a->now->ns);
}

static double machine_bell(const struct shape_at *a)
{
	return plan_bell(a->s->key, a->index);
}

static double machine_clamp(double x, double hi)
{
	return x < 0 ? 0 : x > hi ? hi : x;
}

static double machine_tick_s(const struct shape_at *a)
{
	return (double)a->p->o.tick_ns / 1e9;
}

/* What a machine without a run would show, and what the run adds at full work. */
static double machine_load(const struct shape_at *a, double idle, double work, double noise)
{
	return idle + work * a->now->activity + noise * machine_bell(a);
}

/* ---- processors -------------------------------------------------------------------- */

/* One CPU of a host; the key of its noise is its own. */
static double machine_core(const struct shape_at *a, uint64_t key, uint32_t cpu)
{
	const struct fault *f = machine_fault(a, FAULT_IO_WAIT);
	double busy = 0.04 + 0.5 * a->now->activity * (cpu % 2 ? 0.8 : 1.0) +
		      0.08 * plan_bell(key, a->index);

	busy = machine_clamp(busy, 1);
	return f && busy > 1 - f->strength ? 1 - f->strength : busy;
}

static uint64_t machine_core_key(const struct shape_at *a, uint32_t cpu)
{
	return plan_bits(a->p->key ^ ((uint64_t)a->s->host << 32), 0x435055 + (int64_t)cpu);
}

static double machine_cpu(const struct shape_at *a)
{
	return machine_core(a, machine_core_key(a, a->s->unit), a->s->unit);
}

/* The mean of the CPUs, which are added in their order. */
static double machine_busy(const struct shape_at *a)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; i < a->p->o.cpus; i++)
		sum += machine_core(a, machine_core_key(a, i), i);
	return sum / (double)a->p->o.cpus;
}

static double machine_count(const struct shape_at *a)
{
	return (double)a->p->o.cpus;
}

static double machine_iowait(const struct shape_at *a)
{
	const struct fault *f = machine_fault(a, FAULT_IO_WAIT);

	return f ? f->strength : 0.01 + 0.01 * machine_bell(a);
}

static double machine_load_1m(const struct shape_at *a)
{
	return shape_decimal(machine_load(a, 0.4, 0.5 * (double)a->p->o.cpus, 0.3), 100);
}

static double machine_pressure_cpu(const struct shape_at *a)
{
	return machine_load(a, 0.01, 0.02, 0.01);
}

static double machine_pressure_io(const struct shape_at *a)
{
	const struct fault *f = machine_fault(a, FAULT_IO_WAIT);

	return f ? f->strength : 0.005 + 0.005 * machine_bell(a);
}

/* ---- memory --------------------------------------------------------------------------- */

double shape_leak(const struct plan *p, int64_t ns)
{
	double room = SHAPE_MEMORY_LIMIT - SHAPE_MEMORY_USED, leaked = 0;
	unsigned i;

	for (i = 0; i < p->n_faults; i++) {
		const struct fault *f = &p->faults[i];
		int64_t into = (ns < f->end_ns ? ns : f->end_ns) - f->begin_ns;

		if (f->kind == FAULT_MEMORY_LEAK && into > 0)
			leaked += room * f->strength * (double)into /
				  (double)(f->end_ns - f->begin_ns);
	}
	return leaked > room ? room : leaked;
}

static double machine_leak(const struct shape_at *a)
{
	return a->s->host == 0 ? shape_leak(a->p, a->now->ns) : 0;
}

/* Steady but for what leaks: noise would hide the limit. */
static double machine_used(const struct shape_at *a)
{
	return shape_round(SHAPE_MEMORY_USED + machine_leak(a), MACHINE_PAGE);
}

static double machine_available(const struct shape_at *a)
{
	return SHAPE_MEMORY_TOTAL - machine_used(a);
}

static double machine_total(const struct shape_at *a)
{
	(void)a;
	return SHAPE_MEMORY_TOTAL;
}

static double machine_limit(const struct shape_at *a)
{
	(void)a;
	return SHAPE_MEMORY_LIMIT;
}

static double machine_pressure_memory(const struct shape_at *a)
{
	double room = (SHAPE_MEMORY_LIMIT - machine_used(a)) / SHAPE_MEMORY_LIMIT;

	return room < 0.1 ? 0.5 - 5 * room : 0;
}

/* ---- disks and network ------------------------------------------------------------------ */

/* Bytes since the last reading, in units of a block or packet. */
static double machine_flow(const struct shape_at *a, double bytes_s, double unit)
{
	double v = bytes_s * (0.02 + a->now->activity) * (1 + machine_bell(a)) * machine_tick_s(a);

	return shape_round(v, unit);
}

static double machine_disk_read(const struct shape_at *a)
{
	return machine_flow(a, 3e8, 4096);
}

static double machine_disk_written(const struct shape_at *a)
{
	return machine_flow(a, 4e6, 4096);
}

static double machine_disk_busy(const struct shape_at *a)
{
	return machine_fault(a, FAULT_IO_WAIT) ? 0.97 + 0.03 * machine_bell(a)
					       : machine_clamp(machine_load(a, 0, 0.1, 0.05), 1);
}

static double machine_space_total(const struct shape_at *a)
{
	(void)a;
	return SHAPE_DISK_TOTAL;
}

/* A disk that has been filled stays full. */
static double machine_space_used(const struct shape_at *a)
{
	double used = SHAPE_DISK_USED, to;
	unsigned i;

	for (i = 0; i < a->p->n_faults && a->s->host == 0; i++) {
		const struct fault *f = &a->p->faults[i];
		int64_t into = (a->now->ns < f->end_ns ? a->now->ns : f->end_ns) - f->begin_ns;

		if (f->kind != FAULT_DISK_FILLING || into <= 0)
			continue;
		to = SHAPE_DISK_USED + (f->strength * SHAPE_DISK_TOTAL - SHAPE_DISK_USED) *
					       (double)into / (double)(f->end_ns - f->begin_ns);
		used = to > used ? to : used;
	}
	return shape_round(used, 4096);
}

static double machine_space_available(const struct shape_at *a)
{
	return SHAPE_DISK_TOTAL - machine_space_used(a);
}

static double machine_received(const struct shape_at *a)
{
	return machine_flow(a, 1e8, 64);
}

static double machine_sent(const struct shape_at *a)
{
	return machine_flow(a, a->p->o.hosts > 1 ? 1e8 : 2e5, 64);
}

/* ---- processes of the run --------------------------------------------------------------- */

/* Ranks of a host. */
static double machine_ranks(const struct shape_at *a)
{
	uint64_t ranks = a->p->o.ranks, hosts = a->p->o.hosts, h = a->s->host;

	return (double)(((h + 1) * ranks + hosts - 1) / hosts - (h * ranks + hosts - 1) / hosts);
}

static double machine_tree_cpu(const struct shape_at *a)
{
	double per = a->now->activity * (1.1 + 0.2 * machine_bell(a));

	return shape_decimal(per * machine_ranks(a), 100);
}

static double machine_tree_rss(const struct shape_at *a)
{
	return shape_round(SHAPE_TREE_RSS + machine_leak(a), MACHINE_PAGE);
}

/* The command, its trainers, and the workers of rank 0. */
static double machine_processes(const struct shape_at *a)
{
	double n = 1 + machine_ranks(a);
	unsigned i;

	if (a->s->host == 0)
		n += SHAPE_WORKERS;
	for (i = 0; i < a->p->n_faults && a->s->host == 0; i++)
		if (a->p->faults[i].kind == FAULT_WORKER_DEATH &&
		    a->now->ns >= a->p->faults[i].begin_ns)
			return n - 1;
	return n;
}

static double machine_threads(const struct shape_at *a)
{
	return machine_processes(a) + 16 * machine_ranks(a);
}

/* ---- GPUs ---------------------------------------------------------------------------------- */

static double machine_gpu_activity(const struct shape_at *a)
{
	const struct fault *f = machine_fault(a, FAULT_IDLE_GPU);

	return f ? f->strength : a->now->activity;
}

static double machine_gpu_busy(const struct shape_at *a)
{
	double busy = machine_gpu_activity(a);

	if (busy > 0 && !machine_fault(a, FAULT_IDLE_GPU))
		busy += 0.05 * machine_bell(a);
	return shape_decimal(machine_clamp(busy, 1), 100);
}

/* GPUs of one model differ by a few per cent. */
static double machine_gpu_own(const struct shape_at *a)
{
	return 1 + 0.03 * plan_bell(plan_bits(a->p->key ^ a->s->host, a->s->unit), 0);
}

static double machine_clock_share(const struct shape_at *a)
{
	const struct fault *f = machine_fault(a, FAULT_THROTTLING);

	return f ? f->strength : 1;
}

/* Milliwatts are what the driver tells. The energy counter adds up the same
 * power: its noise must not be that of its own series. */
static double machine_gpu_watts(const struct shape_at *a)
{
	uint64_t key = plan_bits(a->p->key ^ a->s->host, 0x50000 + (int64_t)a->s->unit);
	double work = 480 * machine_gpu_activity(a) * machine_clock_share(a);

	return shape_decimal(
		(110 + work) * machine_gpu_own(a) + 40 * (1 + plan_bell(key, a->index)), 1000);
}

static double machine_gpu_energy(const struct shape_at *a)
{
	return shape_decimal(machine_gpu_watts(a) * machine_tick_s(a), 1000);
}

static double machine_gpu_temperature(const struct shape_at *a)
{
	const struct fault *f = machine_fault(a, FAULT_HOT_GPU);

	if (f)
		return shape_round(f->strength, 1);
	if (machine_fault(a, FAULT_THROTTLING))
		return 90;
	return shape_round(
		34 + 30 * machine_gpu_activity(a) * machine_gpu_own(a) + 2 * machine_bell(a), 1);
}

static double machine_gpu_clock(const struct shape_at *a)
{
	double hz = SHAPE_CLOCK_HZ * machine_clock_share(a) -
		    SHAPE_CLOCK_STEP_HZ * (double)(plan_bits(a->s->key, a->index) % 4);

	return shape_round(hz, SHAPE_CLOCK_STEP_HZ);
}

static double machine_gpu_memory_clock(const struct shape_at *a)
{
	(void)a;
	return 2.619e9;
}

static double machine_gpu_throttled(const struct shape_at *a)
{
	return machine_fault(a, FAULT_THROTTLING) ? 1 : 0;
}

static double machine_gpu_memory_used(const struct shape_at *a)
{
	double v = a->now->index == 0 ? 0.3 : 0.78;

	return shape_round(v * SHAPE_GPU_MEMORY * machine_gpu_own(a), MACHINE_GPU_PAGE);
}

static double machine_gpu_memory_total(const struct shape_at *a)
{
	(void)a;
	return SHAPE_GPU_MEMORY;
}

/* A thing that happens once is counted by the first reading after it. */
static double machine_once(const struct shape_at *a, enum fault_kind kind, double each)
{
	double sum = 0;
	unsigned i;

	if (a->s->host != 0 || a->s->unit != 0)
		return 0;
	for (i = 0; i < a->p->n_faults; i++) {
		const struct fault *f = &a->p->faults[i];

		if (f->kind == kind && f->begin_ns <= a->now->ns &&
		    f->begin_ns > a->now->ns - a->p->o.tick_ns)
			sum += each > 0 ? each : f->strength;
	}
	return sum;
}

static double machine_ecc_uncorrected(const struct shape_at *a)
{
	return (double)(int64_t)machine_once(a, FAULT_ECC, 0);
}

static double machine_ecc_corrected(const struct shape_at *a)
{
	return 10 * machine_ecc_uncorrected(a);
}

static double machine_xid(const struct shape_at *a)
{
	return machine_once(a, FAULT_XID, 1);
}

/* ---- the tables ------------------------------------------------------------------------------ */

#define MACHINE_GAUGE .every = SHAPE_TICK, .kind = SINK_GAUGE
#define MACHINE_COUNTER .every = SHAPE_TICK, .kind = SINK_COUNTER
#define MACHINE_DISK .labels = "device=\"nvme0n1\""
#define MACHINE_MOUNT .labels = "mount=\"/data\""
#define MACHINE_INTERFACE .labels = "interface=\"eth0\""

/* clang-format off */
static const struct simulate_row machine_host_rows[] = {
	{.name = "cpu/busy", .unit = "1", MACHINE_GAUGE, .value = machine_busy,
	 .help = "share of the time of all CPUs that was neither idle nor waiting for a disk"},
	{.name = "cpu/count", .unit = "1", MACHINE_GAUGE, .value = machine_count,
	 .help = "CPUs online on the machine"},
	{.name = "cpu/iowait", .unit = "1", MACHINE_GAUGE, .value = machine_iowait,
	 .help = "share of the time of all CPUs that was spent waiting for a disk"},
	{.name = "memory/total", .unit = "By", MACHINE_GAUGE, .value = machine_total,
	 .help = "memory of the machine that the kernel manages"},
	{.name = "memory/available", .unit = "By", MACHINE_GAUGE, .value = machine_available,
	 .help = "memory that programs can still get without swapping"},
	{.name = "memory/used", .unit = "By", MACHINE_GAUGE, .value = machine_used,
	 .help = "memory/total less memory/available"},
	{.name = "memory/limit", .unit = "By", MACHINE_GAUGE, .value = machine_limit,
	 .help = "tightest memory limit of the agent's cgroup and those above it"},
	{.name = "load/1m", .unit = "1", MACHINE_GAUGE, .value = machine_load_1m,
	 .help = "tasks running or blocked: exponential mean over 1 minute"},
	{.name = "pressure/cpu", .unit = "1", MACHINE_GAUGE, .value = machine_pressure_cpu,
	 .help = "share of the time in which some task waited for a CPU"},
	{.name = "pressure/io", .unit = "1", MACHINE_GAUGE, .value = machine_pressure_io,
	 .help = "share of the time in which some task waited for a disk"},
	{.name = "pressure/memory", .unit = "1", MACHINE_GAUGE, .value = machine_pressure_memory,
	 .help = "share of the time in which some task waited for memory"},
	{.name = "disk/read", .unit = "By", MACHINE_DISK, MACHINE_COUNTER,
	 .value = machine_disk_read, .help = "bytes read from the disk"},
	{.name = "disk/written", .unit = "By", MACHINE_DISK, MACHINE_COUNTER,
	 .value = machine_disk_written, .help = "bytes written to the disk"},
	{.name = "disk/busy", .unit = "1", MACHINE_DISK, MACHINE_GAUGE, .value = machine_disk_busy,
	 .help = "share of the time in which the disk had something to do"},
	{.name = "filesystem/total", .unit = "By", MACHINE_MOUNT, MACHINE_GAUGE,
	 .value = machine_space_total, .help = "size of the file system"},
	{.name = "filesystem/used", .unit = "By", MACHINE_MOUNT, MACHINE_GAUGE,
	 .value = machine_space_used, .help = "space taken on the file system"},
	{.name = "filesystem/available", .unit = "By", MACHINE_MOUNT, MACHINE_GAUGE,
	 .value = machine_space_available,
	 .help = "space that users without privileges can still take"},
	{.name = "network/received", .unit = "By", MACHINE_INTERFACE, MACHINE_COUNTER,
	 .value = machine_received, .help = "bytes received by the interface"},
	{.name = "network/sent", .unit = "By", MACHINE_INTERFACE, MACHINE_COUNTER,
	 .value = machine_sent, .help = "bytes sent by the interface"},
};

static const struct simulate_row machine_cpu_rows[] = {
	{.name = "cpu/core/busy", .unit = "1", MACHINE_GAUGE, .value = machine_cpu,
	 .help = "share of the time of one CPU that was neither idle nor waiting for a disk"},
};

static const struct simulate_row machine_gpu_rows[] = {
	{.name = "gpu/busy", .unit = "1", MACHINE_GAUGE, .value = machine_gpu_busy,
	 .help = "share of the time in which a kernel ran"},
	{.name = "gpu/memory/used", .unit = "By", MACHINE_GAUGE, .value = machine_gpu_memory_used,
	 .help = "memory of the GPU in use"},
	{.name = "gpu/memory/total", .unit = "By", MACHINE_GAUGE, .value = machine_gpu_memory_total,
	 .help = "memory of the GPU"},
	{.name = "gpu/power", .unit = "W", MACHINE_GAUGE, .value = machine_gpu_watts,
	 .help = "power drawn, to the milliwatt"},
	{.name = "gpu/energy", .unit = "J", MACHINE_COUNTER, .value = machine_gpu_energy,
	 .help = "energy used: gpu/power over the time since the last reading"},
	{.name = "gpu/temperature", .unit = "Cel", MACHINE_GAUGE, .value = machine_gpu_temperature,
	 .help = "temperature of the GPU"},
	{.name = "gpu/clock/sm", .unit = "Hz", MACHINE_GAUGE, .value = machine_gpu_clock,
	 .help = "clock of the processors"},
	{.name = "gpu/clock/memory", .unit = "Hz", MACHINE_GAUGE, .value = machine_gpu_memory_clock,
	 .help = "clock of the memory"},
	{.name = "gpu/throttled", .unit = "1", MACHINE_GAUGE, .value = machine_gpu_throttled,
	 .help = "share of the time in which the clock was held down for heat"},
	{.name = "gpu/ecc/corrected", .unit = "1", MACHINE_COUNTER, .value = machine_ecc_corrected,
	 .help = "memory errors that were corrected"},
	{.name = "gpu/ecc/uncorrected", .unit = "1", MACHINE_COUNTER,
	 .value = machine_ecc_uncorrected, .help = "memory errors that could not be corrected"},
	{.name = "gpu/xid", .unit = "1", MACHINE_COUNTER, .value = machine_xid,
	 .help = "Xid errors that the driver reported"},
};

static const struct simulate_row machine_tree_rows[] = {
	{.name = "tree/cpu", .unit = "1", MACHINE_GAUGE, .value = machine_tree_cpu,
	 .help = "CPUs that the run's processes used on average since the last reading"},
	{.name = "tree/rss", .unit = "By", MACHINE_GAUGE, .value = machine_tree_rss,
	 .help = "memory in use by the run's processes"},
	{.name = "tree/processes", .unit = "1", MACHINE_GAUGE, .value = machine_processes,
	 .help = "processes of the run, without zombies"},
	{.name = "tree/threads", .unit = "1", MACHINE_GAUGE, .value = machine_threads,
	 .help = "threads of these processes"},
};
/* clang-format on */

const struct shape_table shape_host = {machine_host_rows, ARRAY_LEN(machine_host_rows)};
const struct shape_table shape_cpu = {machine_cpu_rows, ARRAY_LEN(machine_cpu_rows)};
const struct shape_table shape_gpu = {machine_gpu_rows, ARRAY_LEN(machine_gpu_rows)};
const struct shape_table shape_tree = {machine_tree_rows, ARRAY_LEN(machine_tree_rows)};
