/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict_rules.c - the words and the rule table of verdicts. A new finding is a row here
 * and, if nothing measures it yet, a measure in verdict.h that its source fills.
 */
#include "analyse/verdict.h"

#include <math.h>
#include <string.h>

static const struct verdict_name names[VERDICT_KINDS] = {
	[VERDICT_COMPUTE] = {"compute", "compute",
			     "the GPU runs arithmetic: matrix products, convolutions, attention"},
	[VERDICT_MEMORY] = {"memory", "memory bandwidth",
			    "the GPU runs only kernels that move bytes: element-wise, reductions, "
			    "normalisation, optimizer, copies on the device"},
	[VERDICT_COPY] = {"copy", "host-device copies",
			  "the GPU does nothing but copies between host and device"},
	[VERDICT_COMMUNICATION] = {"communication", "communication",
				   "the GPU runs nothing but collectives"},
	[VERDICT_STRAGGLER] = {"straggler", "waiting for another rank",
			       "the GPU is in a collective that another rank has not reached"},
	[VERDICT_DATA] = {"data", "data loader",
			  "the GPU is idle while the host waits for the next batch"},
	[VERDICT_SYNC] = {"sync", "synchronisation",
			  "the GPU has nothing because the host waited for it and lost its lead"},
	[VERDICT_LAUNCH] = {"launch", "host / launch",
			    "the GPU is idle while the host dispatches operators and launches"},
	[VERDICT_HOST] = {"host", "other host code",
			  "the GPU is idle while the host runs code without operators, or sleeps"},
	[VERDICT_PROFILER] = {"profiler", "the profiler",
			      "the GPU is idle while the profiler records (partly estimated)"},
	[VERDICT_UNKNOWN] = {"unknown", "not explained",
			     "the GPU is idle and no host rows say why"},
};

const struct verdict_name *verdict_name(enum verdict_kind kind)
{
	return &names[(unsigned)kind < VERDICT_KINDS ? kind : VERDICT_UNKNOWN];
}

#define NONE VERDICT_MEASURES, 0

const struct verdict_rule verdict_rules[] = {
	/* What the step is bound by: one of these fires. */
	{"bound-compute", VERDICT_COMPUTE, VERDICT_M_BOUND, 1, false, NONE,
	 "The GPU is the limit: it works {gpu} of the time ({busy} without the profiler's cost), "
	 "in arithmetic {share}; most of that in {top}.",
	 "Use bf16 or fp16 (autocast), TF32 for the rest, fused attention; a larger batch if "
	 "memory allows; more GPUs. torch.compile fuses what lies between.",
	 NULL, VERDICT_WITH_GPU},
	{"bound-memory", VERDICT_MEMORY, VERDICT_M_BOUND, 1, false, NONE,
	 "The GPU is the limit: it works {gpu} of the time ({busy} without the profiler's cost), "
	 "but {share} it only moves bytes; most of that in {top}.",
	 "Fuse the small kernels (torch.compile, fused optimizer, fused norm and loss); keep "
	 "activations in bf16; channels-last; avoid casts between types.",
	 NULL, VERDICT_WITH_GPU},
	{"bound-copy", VERDICT_COPY, VERDICT_M_BOUND, 1, false, NONE,
	 "Copies between host and device take {share} of the time with nothing beside them "
	 "({top}).",
	 "pin_memory=True and .to(device, non_blocking=True); copy the next batch on a stream of "
	 "its own; make on the device what can be made there.",
	 NULL, VERDICT_WITH_GPU},
	{"bound-communication", VERDICT_COMMUNICATION, VERDICT_M_BOUND, 1, false, NONE,
	 "Communication alone takes {share} of the time ({top}).",
	 "Overlap all-reduce with backward (DDP does so when buckets fill early: bucket_cap_mb, "
	 "gradient_as_bucket_view); prefetch in FSDP; gradient accumulation; a larger batch; "
	 "compressed gradients.",
	 "Training is communication bound", VERDICT_WITH_GPU},
	{"bound-straggler", VERDICT_STRAGGLER, VERDICT_M_BOUND, 1, false, VERDICT_M_STRAGGLER_OVER,
	 VERDICT_OVER,
	 "Rank {rank} has more to do than the others and all wait for it in collectives ({share} "
	 "of the time of those that wait); it spends the difference in {top}.",
	 "Look at that rank alone: its data shard, logging, checkpointing, clocks and neighbours "
	 "on its machine. What only one rank does belongs outside the step.",
	 NULL, VERDICT_WITH_GPU},
	{"bound-waits", VERDICT_STRAGGLER, VERDICT_M_STRAGGLER_OVER, VERDICT_OVER, true,
	 VERDICT_M_BOUND, 1,
	 "This rank waits {share} of the time in collectives for others. No rank has much more to "
	 "do than the others (the most is {value} times the median): what binds rank {rank} "
	 "binds the job.",
	 "Look at the verdict of that rank.", NULL, VERDICT_WITH_GPU},
	{"bound-data", VERDICT_DATA, VERDICT_M_BOUND, 1, false, NONE,
	 "The GPU waits for the data loader {share} of the time ({top}).",
	 "More workers (num_workers), pin_memory=True, a larger prefetch_factor, "
	 "persistent_workers=True; cheaper or cached transforms; faster storage.",
	 NULL, VERDICT_WITH_GPU},
	{"bound-sync", VERDICT_SYNC, VERDICT_M_BOUND, 1, false, NONE,
	 "The host waits for the GPU and then the GPU for the host: {share} of the time ({top}).",
	 "Avoid .item(), .cpu(), print() and Python branches on tensors in each step; gather "
	 "metrics on the device and read them every N steps; copies with non_blocking=True from "
	 "pinned memory.",
	 NULL, VERDICT_WITH_GPU},
	{"bound-launch", VERDICT_LAUNCH, VERDICT_M_BOUND, 1, false, NONE,
	 "The host cannot feed the GPU: {share} of the time it dispatches operators while the "
	 "GPU is idle ({top}).",
	 "CUDA graphs or torch.compile (mode=\"reduce-overhead\"); a larger batch; fused or "
	 "foreach optimizers; fewer, larger operators.",
	 NULL, VERDICT_WITH_GPU},
	{"bound-host", VERDICT_HOST, VERDICT_M_BOUND, 1, false, NONE,
	 "Host code outside of operators keeps the GPU idle {share} of the time ({top}).",
	 "Look at what runs between the operators: logging, checkpoints, evaluation, garbage "
	 "collection, sleeps; move it to another thread or out of the step.",
	 NULL, VERDICT_WITH_GPU},
	{"bound-profiler", VERDICT_PROFILER, VERDICT_M_BOUND, 1, false, NONE,
	 "The profiler itself takes {share} of the time: this trace does not show the step as it "
	 "runs without it.",
	 "Record again without stacks, shapes and memory (with_stack=False, record_shapes=False, "
	 "profile_memory=False), with fewer active steps after 10 to 20 skipped ones.",
	 NULL, VERDICT_ANYWHERE},
	{"bound-unknown", VERDICT_UNKNOWN, VERDICT_M_BOUND, 1, false, NONE,
	 "The GPU is idle {share} of the time and the trace has no host rows that say why.",
	 "Record CPU activity too (ProfilerActivity.CPU).", NULL, VERDICT_WITH_GPU},

	/* The same where no GPU was seen. */
	{"host-compute", VERDICT_COMPUTE, VERDICT_M_BOUND, 1, false, NONE,
	 "No GPU was seen: operators of the CPU take {share} of the time, most of it {top}.",
	 "Use a GPU if there is one; else more threads (torch.set_num_threads), bf16, "
	 "torch.compile, channels-last.",
	 NULL, VERDICT_HOST_ONLY},
	{"host-communication", VERDICT_COMMUNICATION, VERDICT_M_BOUND, 1, false, NONE,
	 "No GPU was seen: collectives take {share} of the time, most of it {top}.",
	 "A larger batch, gradient accumulation, a faster backend than gloo.",
	 "Training is communication bound", VERDICT_HOST_ONLY},
	{"host-data", VERDICT_DATA, VERDICT_M_BOUND, 1, false, NONE,
	 "No GPU was seen: the data loader is waited for {share} of the time ({top}).",
	 "More workers (num_workers), prefetch_factor, persistent_workers=True; cheaper "
	 "transforms.",
	 NULL, VERDICT_HOST_ONLY},
	{"host-other", VERDICT_HOST, VERDICT_M_BOUND, 1, false, NONE,
	 "No GPU was seen: code outside of operators takes {share} of the time ({top}).",
	 "Look at what runs between the operators: logging, checkpoints, evaluation, sleeps. If "
	 "the step ran on a GPU, record it too (ProfilerActivity.CUDA).",
	 NULL, VERDICT_HOST_ONLY},
	{"host-nothing", VERDICT_UNKNOWN, VERDICT_M_BOUND, 1, false, NONE,
	 "There is no time in it to judge.", "Record CPU and GPU activity over some steps.", NULL,
	 VERDICT_HOST_ONLY},

	/* Findings beside it. */
	{"data-loading", VERDICT_DATA, VERDICT_M_SHARE, 0.05, false, NONE,
	 "Data loading keeps the GPU idle {share} of the time (more than 5 %).",
	 "More workers (num_workers), pin_memory=True, prefetch_factor.", NULL, VERDICT_WITH_GPU},
	{"data-in-process", VERDICT_DATA, VERDICT_M_WORKERS_ZERO, 1, false, VERDICT_M_SHARE, 0.02,
	 "The data loader runs in the training process (num_workers=0).",
	 "Set num_workers to 2 or more, so that the next batch is made beside the step.", NULL,
	 VERDICT_ANYWHERE},
	{"communication-exposed", VERDICT_COMMUNICATION, VERDICT_M_SHARE, 0.10, false, NONE,
	 "Communication that nothing hides takes {share} of the time (more than 10 %).",
	 "Consider: larger batch size, gradient accumulation", "Training is communication bound",
	 VERDICT_WITH_GPU},
	{"communication-waits", VERDICT_COMMUNICATION, VERDICT_M_COMM_SPREAD, 0.5, false,
	 VERDICT_M_SHARE, 0.10,
	 "{percent} of the communication lies above the shortest collective of the same name: "
	 "this rank probably waits for others.",
	 "Give the traces of all ranks together: then the rank that is waited for is named.", NULL,
	 VERDICT_WITH_GPU},
	{"waits-for-rank", VERDICT_STRAGGLER, VERDICT_M_SHARE, 0.05, false, NONE,
	 "{share} of the time passes in collectives that another rank has not reached.",
	 "Start with the rank that waits least: the others follow it.", NULL, VERDICT_WITH_GPU},
	{"memory-kernels", VERDICT_MEMORY, VERDICT_M_MEMORY_OF_GPU, 0.5, false, VERDICT_M_SHARE,
	 0.10,
	 "{percent} of the GPU's work moves bytes only (by kernel name); most of it in {top}.",
	 "torch.compile or fused kernels join element-wise work; a fused optimizer.", NULL,
	 VERDICT_WITH_GPU},
	{"sync-each-step", VERDICT_SYNC, VERDICT_M_SYNCS_PER_STEP, 1, false, VERDICT_M_SHARE, 0.02,
	 "{value} waits of the host for the GPU a step cost {share} of the time ({top}).",
	 "Avoid .item() and blocking copies in each step: read metrics every N steps.", NULL,
	 VERDICT_WITH_GPU},
	{"launch-many", VERDICT_LAUNCH, VERDICT_M_SHARE, 0.10, false, VERDICT_M_LAUNCHES_PER_STEP,
	 1000, "More than 1000 launches a step while the GPU waits {share} of the time for them.",
	 "CUDA graphs or torch.compile; foreach or fused optimizer.", NULL, VERDICT_WITH_GPU},
	{"launch-compiled", VERDICT_LAUNCH, VERDICT_M_COMPILED, 1, false, VERDICT_M_SHARE, 0.20,
	 "torch.compile is in use and launching still keeps the GPU idle {share} of the time.",
	 "mode=\"reduce-overhead\" (CUDA graphs); look for graph breaks "
	 "(torch._dynamo.explain, TORCH_LOGS=graph_breaks); compile the optimizer too.",
	 NULL, VERDICT_WITH_GPU},
	{"profiler-cost", VERDICT_PROFILER, VERDICT_M_SHARE, 0.10, false, NONE,
	 "Recording took an estimated {share} of the time; steps are shorter without it.",
	 "Judge step times by an unprofiled run.", NULL, VERDICT_ANYWHERE},
	{"profiler-buffers", VERDICT_PROFILER, VERDICT_M_PROFILER_ROWS, 0.01, false, NONE,
	 "The profiler's own buffers (requests, flushes, full command buffers) take {percent} of "
	 "the time.",
	 "Fewer active steps, no repeat; loggers off while profiling.", NULL, VERDICT_ANYWHERE},
	{"gpu-low", VERDICT_LAUNCH, VERDICT_M_GPU_BUSY, 0.5, true, NONE,
	 "The GPU is busy only {percent} of the time, the profiler's cost left out (below 50 %).",
	 "A larger batch, if the cause named above allows it.", NULL, VERDICT_WITH_GPU},
	{"memory-full", VERDICT_MEMORY, VERDICT_M_PEAK_OF_DEVICE, 0.9, false, NONE,
	 "The peak of allocated memory is {percent} of the device's.",
	 "Consider: activation checkpointing, CPU offload", "Training is memory bound",
	 VERDICT_ANYWHERE},
	{"copy-pageable", VERDICT_COPY, VERDICT_M_PAGEABLE_COPY, 0.5, false, VERDICT_M_SHARE, 0.01,
	 "{percent} of the copy time goes from or to pageable memory.", "pin_memory=True.", NULL,
	 VERDICT_WITH_GPU},
	{"data-parallel", VERDICT_COMMUNICATION, VERDICT_M_DATA_PARALLEL, 1, false, NONE,
	 "DataParallel is in use.", "DistributedDataParallel: a process a GPU.", NULL,
	 VERDICT_ANYWHERE},
	{"slow-kernels", VERDICT_COMPUTE, VERDICT_M_SLOW_KERNELS, 1, false, VERDICT_M_SHARE, 0.05,
	 "{value} kernels take more than 1 ms a call on average.",
	 "lapse trace top --sort device_time_total names them.", NULL, VERDICT_WITH_GPU},
	{"no-tensor-cores", VERDICT_COMPUTE, VERDICT_M_TENSOR_CORE, 0.0, true, VERDICT_M_SHARE, 0.1,
	 "No kernel that names tensor cores was seen.", "autocast to bf16 or fp16, or TF32.", NULL,
	 VERDICT_WITH_GPU},
	{NULL, 0, 0, 0, false, 0, 0, NULL, NULL, NULL, 0},
};

const char *const verdict_tips[] = {
	"Skip the first 10 to 20 steps (schedule wait and warmup): they compile and allocate.",
	"Record few active steps (3 to 5) and do not repeat: the file grows with each.",
	("Stacks, shapes and memory off when memory is short: with_stack=False, "
	 "record_shapes=False, profile_memory=False."),
	"Turn other loggers off while profiling, and profile a smaller batch if it does not fit.",
	"Compare two runs rather than reading one: lapse trace diff A B.",
	NULL,
};

void verdict_permille(const struct verdict_shares *s, int ret[VERDICT_KINDS])
{
	__int128 rest[VERDICT_KINDS];
	int left = 1000;

	memset(ret, 0, VERDICT_KINDS * sizeof(*ret));
	if (s->total <= 0)
		return;
	for (int k = 0; k < VERDICT_KINDS; k++) {
		__int128 x = (__int128)s->ns[k] * 1000;

		ret[k] = (int)(x / s->total);
		rest[k] = x % s->total;
		left -= ret[k];
	}
	while (left-- > 0) {
		int best = 0;

		for (int k = 1; k < VERDICT_KINDS; k++)
			if (rest[k] > rest[best])
				best = k;
		ret[best]++;
		rest[best] = -1;
	}
}

void verdict_facts_init(struct verdict_facts *f)
{
	*f = (struct verdict_facts){.steps = 0};
	for (int i = 0; i < VERDICT_MEASURES; i++)
		f->measure[i] = NAN;
}

static double share(const struct verdict_facts *f, enum verdict_kind kind)
{
	return f->shares.total > 0 ? (double)f->shares.ns[kind] / (double)f->shares.total : 0;
}

/* Waits cost a quarter of the time or more, and more than any other idle time. */
static bool is_sync(const struct verdict_shares *s)
{
	for (int k = VERDICT_COPY; k < VERDICT_KINDS; k++)
		if (k != VERDICT_PROFILER && s->ns[k] > s->ns[VERDICT_SYNC])
			return false;
	return (double)s->ns[VERDICT_SYNC] >= VERDICT_SYNC_SHARE * (double)s->total;
}

enum verdict_kind verdict_behind(const struct verdict_facts *f)
{
	const int64_t *ns = f->shares.ns;
	int64_t gpu = ns[VERDICT_COMPUTE] + ns[VERDICT_MEMORY], best = gpu;
	enum verdict_kind kind = VERDICT_COMPUTE;

	if (f->shares.total <= 0)
		return VERDICT_UNKNOWN;
	if (f->is_straggler)
		return VERDICT_STRAGGLER;
	for (int k = VERDICT_COPY; k < VERDICT_KINDS; k++) {
		if (k == VERDICT_PROFILER || ns[k] <= best)
			continue;
		best = ns[k];
		kind = k;
	}
	if (kind == VERDICT_COMPUTE && is_sync(&f->shares))
		return VERDICT_SYNC;
	if (kind == VERDICT_COMPUTE &&
	    (double)ns[VERDICT_MEMORY] >= VERDICT_MEMORY_PART * (double)gpu && gpu > 0)
		kind = VERDICT_MEMORY;
	return kind;
}

enum verdict_kind verdict_decide(const struct verdict_facts *f)
{
	bool has_stacks = f->measure[VERDICT_M_STACKS] >= 1;

	if (f->shares.total <= 0)
		return VERDICT_UNKNOWN;
	if (f->is_straggler)
		return VERDICT_STRAGGLER;
	if (f->measure[VERDICT_M_PROFILER_ROWS] >= VERDICT_PROFILER_SHARE)
		return VERDICT_PROFILER;
	if (has_stacks && share(f, VERDICT_PROFILER) >= VERDICT_PROFILER_SHARE)
		return VERDICT_PROFILER;
	return verdict_behind(f);
}

static double measure(const struct verdict_rule *r, enum verdict_measure m,
		      const struct verdict_facts *f, enum verdict_kind bound)
{
	if (m == VERDICT_M_SHARE)
		return share(f, r->kind);
	if (m == VERDICT_M_BOUND)
		return r->kind == bound;
	return f->measure[m];
}

bool verdict_fires(const struct verdict_rule *r, const struct verdict_facts *f,
		   enum verdict_kind bound, double *ret_value)
{
	double v = measure(r, r->measure, f, bound);

	*ret_value = v;
	if (r->where == (f->has_gpu ? VERDICT_HOST_ONLY : VERDICT_WITH_GPU))
		return false;
	if (isnan(v) || (r->at_most ? v > r->threshold : v < r->threshold))
		return false;
	return r->and == VERDICT_MEASURES || measure(r, r->and, f, bound) >= r->and_threshold;
}

static bool is(const char *name, size_t len, const char *word)
{
	return len == strlen(word) && !memcmp(name, word, len);
}

static void blank(const char *name, size_t len, const struct verdict_rule *r,
		  const struct verdict_facts *f, double value, const char *top, int64_t rank,
		  struct buf *out)
{
	int permille[VERDICT_KINDS];

	verdict_permille(&f->shares, permille);
	if (is(name, len, "share"))
		buf_printf(out, "%.1f %%", permille[r->kind] / 10.0);
	else if (is(name, len, "gpu"))
		buf_printf(out, "%.1f %%",
			   (permille[VERDICT_COMPUTE] + permille[VERDICT_MEMORY]) / 10.0);
	else if (is(name, len, "busy"))
		buf_printf(out, "%.1f %%", 100 * f->measure[VERDICT_M_GPU_BUSY]);
	else if (is(name, len, "value"))
		buf_printf(out, value == floor(value) ? "%.0f" : "%.2f", value);
	else if (is(name, len, "percent"))
		buf_printf(out, "%.1f %%", 100 * value);
	else if (is(name, len, "rank"))
		buf_printf(out, "%lld", (long long)rank);
	else if (is(name, len, "top"))
		buf_puts(out, top && *top ? top : "nothing named");
}

void verdict_sentence(const struct verdict_rule *r, const struct verdict_facts *f, double value,
		      const char *top, int64_t rank, struct buf *out)
{
	const char *p = r->sentence, *open, *close;

	while ((open = strchr(p, '{')) && (close = strchr(open, '}'))) {
		buf_append(out, p, (size_t)(open - p));
		blank(open + 1, (size_t)(close - open - 1), r, f, value, top, rank, out);
		p = close + 1;
	}
	buf_puts(out, p);
}
