/* SPDX-License-Identifier: Apache-2.0
 *
 * builtin.c - see builtin.h. First what people are told of each rule, then its rows: a rule
 * that looks at several things has several.
 */
#include "alert/builtin.h"

#include "base/mem.h"

#include <string.h>

#define S INT64_C(1000000000)
#define COOLDOWN .cooldown_ns = 300 * S
#define WARNING .severity = 2, COOLDOWN
#define ERROR .severity = 3, COOLDOWN

#define LOSSES "*loss* *nll* *perplexity* *cross_entropy*"
#define HELD_OUT " !*val* !*eval* !*test* !*dev/* !*best* !*scale*"
/* Losses of two that play against each other. */
#define DUELS " !*disc* !*gener* !d_loss* !g_loss* !*/d_loss* !*/g_loss* !*loss_d !*loss_g"
/* What need not become small. */
#define LEAPING " !*policy* !*actor* !*critic* !*kl* !*adv* !*weight* !*coef*" DUELS
#define RATES "*learning_rate* lr lr/* lr-* */lr */lr/* */lr-* *_lr"

/* clang-format off */
const struct rule_about builtin_about[] = {
	{"nan", "Loss is not finite",
	 "losses, gradients and other gauges that the program records",
	 "a training loss is NaN or infinite once; a gradient's norm 10 times running; another gauge 3 times running after 10 finite values",
	 "Stop, and go on from the last good checkpoint with a lower learning rate, clipped gradients or bf16 for fp16; look at the batch of that step.",
	 "the program records no gauges"},
	{"stall", "No steps",
	 "the end of steps",
	 "no step ended for {limit}, 10 times the usual step, or twice the longest pause so far, whichever is longest; ten minutes before the tenth step and while the program works on something else",
	 "Look at the program's stacks (py-spy dump), at its data workers, and at other ranks that it may be waiting for.",
	 "the program records no steps"},
	{"crash", "The run failed",
	 "how the run ended",
	 "it was killed, ran out of memory, hung, was lost, or its exit status is not 0; an interrupt (Ctrl-C) is none",
	 "`lapse show` has the last events, what was going on, and the end of stderr.",
	 ""},
	{"oom-forecast", "Memory will run out",
	 "oom/risk, else memory/used of memory/limit and memory/total; gpu/memory/used of gpu/memory/total",
	 "from at least 50 % on, a line through the last 2 minutes (GPU: 5 minutes) reaches the limit within 10 minutes",
	 "Look for a leak (tree/rss by process): tensors kept in lists, growing caches, data workers; save a checkpoint now.",
	 "neither memory nor GPUs are read"},
	{"gpu-idle", "GPU is idle",
	 "gpu/busy of GPUs that the run has used",
	 "its mean over 30 s is below {limit} for 2 minutes while steps go on; without recorded steps: for 10 minutes",
	 "Look where a step's time goes (Phases): data loading, synchronisation, or the work is on another device.",
	 "no GPU is read (no series gpu/busy)"},
	{"gpu-hot", "GPU is hot",
	 "gpu/temperature, gpu/throttled",
	 "not below {limit} for 30 s; or held down for heat at least 20 % of the time, for 60 s",
	 "Look at fans, dust and air flow, or lower its power limit (nvidia-smi -pl).",
	 "no GPU is read (no series gpu/temperature)"},
	{"memory-pressure", "Memory is short",
	 "oom/risk, else memory/used of memory/limit and memory/total; pressure/memory, cgroup/pressure/memory",
	 "at least {limit} of what may be taken is taken for 60 s; or some task waits for memory in 20 % of the time (mean over 30 s) for 30 s",
	 "Use fewer data workers or smaller caches, or give it more memory.",
	 "memory is not read"},
	{"io-wait", "Waiting for disks",
	 "cpu/iowait, cgroup/pressure/io/full or pressure/io/full",
	 "CPUs wait for a disk in {limit} of their time (mean over 30 s) for 60 s, or all tasks do in 30 %; not in the first steps, not in checkpoints and evaluation",
	 "Look at disk/busy and disk/latency: read from faster or local storage, in larger pieces, with more prefetching.",
	 "disks are not read"},
	{"throughput-drop", "Steps became slow",
	 "the time from step to step, by its tokens or samples where they are recorded",
	 "more than half of the last minute's steps took over {limit} times the usual (the median since the tenth step)",
	 "Look what else began then: a slow data source, a hot GPU, another job on the machine, a slow rank.",
	 "the program records no steps"},
	{"gradient-explosion", "Gradients explode",
	 "norms of gradients: grad_norm, gradients/norm and the like",
	 "over {limit} times its usual value (running median, after 50 values) 5 times running",
	 "Clip gradients, lower the learning rate or lengthen its warm-up; look at the batches of these steps.",
	 "the program records no norm of gradients"},
	{"loss-spike", "Loss jumped",
	 "training losses, and learning rates",
	 "3 of 5 values are above the usual (median of 32) by over {limit} times their scatter, or one by 5 times that; where the learning rate more than doubled or steps begin again: above where it has been",
	 "If it does not come down by itself: go back to a checkpoint before it, skip these batches, clip gradients or lower the learning rate.",
	 "the program records no loss that need only fall (docs/alerts.md)"},
	{"disk-filling", "Disk is filling",
	 "filesystem/available of filesystem/total, of each mount",
	 "a line through the last 10 minutes reaches the end within an hour, from 80 % on; or over 95 % is taken, and more than when the run began",
	 "Delete old checkpoints and traces, or write elsewhere, before the next checkpoint fails.",
	 "file systems are not read"},
	{"drops", "Records were lost",
	 "records that found no room, were overwritten or broken",
	 "any, until none was lost for 60 s",
	 "Record less often or give the ring more room (record.ring_kib); `lapse show` counts them by process.",
	 ""},
};
const size_t builtin_n_about = ARRAY_LEN(builtin_about);

const struct rule builtin_rules[] = {
	{.name = "nan", .names = LOSSES HELD_OUT, .from = RULE_FROM_PROGRAM,
	 .test = RULE_NOT_FINITE, .skip = 1, .hold = 1, .cold = 10, .clear_n = 20, .most = 1, ERROR,
	 .text = "{series} is {value}"},
	{.name = "nan", .names = "*grad* !*scale*", .from = RULE_FROM_PROGRAM,
	 .test = RULE_NOT_FINITE, .skip = 1, .hold = 10, .cold = 20, .clear_n = 20, .most = 1, ERROR,
	 .text = "{series} is {value}, 10 times running or more"},
	{.name = "nan", .names = "* !*best* !*scale*", .from = RULE_FROM_PROGRAM,
	 .test = RULE_NOT_FINITE, .skip = 10, .hold = 3, .clear_n = 20, .most = 1, WARNING,
	 .text = "{series} is {value} and was finite before"},

	{.name = "stall", .what = RULE_OF_QUIET, .test = RULE_ABOVE, .limit = 60, .clear = 60,
	 .unit = "s", .most = 1, ERROR, .text = "no step ended for {value}; usually one takes {usual}"},

	{.name = "crash", .what = RULE_OF_OUTCOME, .most = 1, ERROR, .text = "{series}"},

	{.name = "oom-forecast", .names = "oom/risk", .from = RULE_FROM_MACHINE,
	 .test = RULE_FORECAST, .limit = 1, .least = 0.5, .horizon_ns = 600 * S, .span_ns = 120 * S,
	 .hold = 3, .clear_n = 6, .gates = RULE_SETTLED, .unit = "1", .most = 1, ERROR,
	 .text = "{value} of the memory that may be taken is taken; as it rises it will be all in {left}"},
	{.name = "oom-forecast", .names = "memory/used", .from = RULE_FROM_MACHINE,
	 .of = "memory/limit", .unless = "oom/risk", .test = RULE_FORECAST, .limit = 1, .least = 0.5,
	 .horizon_ns = 600 * S, .span_ns = 120 * S, .hold = 3, .clear_n = 6, .gates = RULE_SETTLED,
	 .unit = "1", .most = 1, ERROR,
	 .text = "{value} of memory/limit is taken; as it rises it will be all in {left}"},
	{.name = "oom-forecast", .names = "memory/used", .from = RULE_FROM_MACHINE,
	 .of = "memory/total", .unless = "oom/risk", .test = RULE_FORECAST, .limit = 1, .least = 0.5,
	 .horizon_ns = 600 * S, .span_ns = 120 * S, .hold = 3, .clear_n = 6, .gates = RULE_SETTLED,
	 .unit = "1", .most = 1, ERROR,
	 .text = "{value} of memory/total is taken; as it rises it will be all in {left}"},
	{.name = "oom-forecast", .names = "gpu/memory/used", .from = RULE_FROM_MACHINE,
	 .of = "gpu/memory/total", .test = RULE_FORECAST, .limit = 1, .least = 0.5,
	 .horizon_ns = 600 * S, .span_ns = 300 * S, .hold = 3, .clear_n = 4, .gates = RULE_SETTLED,
	 .unit = "1", .most = 2, ERROR,
	 .text = "{series} is {value} of the GPU's memory; as it rises it will be all in {left}"},

	{.name = "gpu-idle", .names = "gpu/busy", .from = RULE_FROM_MACHINE, .test = RULE_BELOW,
	 .limit = 0.1, .clear = 0.2, .smooth_ns = 30 * S, .hold_ns = 120 * S, .clear_ns = 10 * S,
	 .gates = RULE_TRAINING | RULE_SETTLED | RULE_NOT_ASIDE | RULE_IN_USE, .unit = "1",
	 .most = 8, WARNING,
	 .text = "{series} was {value} for {for} although steps went on"},

	{.name = "gpu-idle", .names = "gpu/busy", .from = RULE_FROM_MACHINE, .test = RULE_BELOW,
	 .limit = 0.1, .clear = 0.2, .smooth_ns = 30 * S, .hold_ns = 600 * S, .clear_ns = 10 * S,
	 .gates = RULE_STEPLESS | RULE_SETTLED | RULE_NOT_ASIDE | RULE_IN_USE, .unit = "1",
	 .most = 8, WARNING, .text = "{series} was {value} for {for}, and had worked before"},

	{.name = "gpu-hot", .names = "gpu/temperature", .from = RULE_FROM_MACHINE,
	 .test = RULE_ABOVE, .limit = 90, .clear = 85, .hold_ns = 30 * S, .clear_ns = 10 * S,
	 .unit = "Cel", .most = 8, WARNING,
	 .text = "{series} is {value}, not below {limit} for {for}"},
	{.name = "gpu-hot", .names = "gpu/throttled", .from = RULE_FROM_MACHINE,
	 .test = RULE_ABOVE, .limit = 0.2, .clear = 0.05, .smooth_ns = 10 * S, .hold_ns = 60 * S,
	 .clear_ns = 10 * S, .unit = "1", .most = 8, WARNING,
	 .text = "{series}: its clock was held down for heat in {value} of the time for {for}"},

	{.name = "memory-pressure", .names = "oom/risk", .from = RULE_FROM_MACHINE,
	 .test = RULE_ABOVE, .limit = 0.9, .clear = 0.85, .hold_ns = 60 * S, .clear_ns = 10 * S,
	 .unit = "1", .most = 1, WARNING,
	 .text = "{value} of the memory that may be taken is taken, and nothing of it can be given back"},
	{.name = "memory-pressure", .names = "memory/used", .from = RULE_FROM_MACHINE,
	 .of = "memory/limit", .unless = "oom/risk", .test = RULE_ABOVE, .limit = 0.9, .clear = 0.85,
	 .hold_ns = 60 * S, .clear_ns = 10 * S, .unit = "1", .most = 1, WARNING,
	 .text = "{value} of memory/limit is taken"},
	{.name = "memory-pressure", .names = "memory/used", .from = RULE_FROM_MACHINE,
	 .of = "memory/total", .unless = "oom/risk", .test = RULE_ABOVE, .limit = 0.9, .clear = 0.85,
	 .hold_ns = 60 * S, .clear_ns = 10 * S, .unit = "1", .most = 1, WARNING,
	 .text = "{value} of memory/total is taken"},
	{.name = "memory-pressure", .names = "cgroup/pressure/memory", .from = RULE_FROM_MACHINE,
	 .test = RULE_ABOVE, .limit = 0.2, .clear = 0.1, .smooth_ns = 30 * S, .hold_ns = 30 * S,
	 .clear_ns = 30 * S, .unit = "1", .most = 1, WARNING,
	 .text = "some task of the run waited for memory in {value} of the time"},
	{.name = "memory-pressure", .names = "pressure/memory", .from = RULE_FROM_MACHINE,
	 .unless = "cgroup/pressure/memory",
	 .test = RULE_ABOVE, .limit = 0.2, .clear = 0.1, .smooth_ns = 30 * S, .hold_ns = 30 * S,
	 .clear_ns = 30 * S, .unit = "1", .most = 1, WARNING,
	 .text = "some task of the machine waited for memory in {value} of the time"},

	{.name = "io-wait", .names = "cpu/iowait", .from = RULE_FROM_MACHINE, .test = RULE_ABOVE,
	 .limit = 0.2, .clear = 0.1, .smooth_ns = 30 * S, .hold_ns = 60 * S, .clear_ns = 30 * S,
	 .gates = RULE_SETTLED | RULE_NOT_ASIDE, .unit = "1", .most = 1, WARNING,
	 .text = "all CPUs together waited for a disk in {value} of their time for {for}"},
	{.name = "io-wait", .names = "cgroup/pressure/io/full", .from = RULE_FROM_MACHINE,
	 .test = RULE_ABOVE, .limit = 0.3, .clear = 0.15, .smooth_ns = 30 * S, .hold_ns = 60 * S,
	 .clear_ns = 30 * S, .gates = RULE_SETTLED | RULE_NOT_ASIDE, .unit = "1", .most = 1, WARNING,
	 .text = "all tasks of the run waited for a disk in {value} of the time for {for}"},
	{.name = "io-wait", .names = "pressure/io/full", .unless = "cgroup/pressure/io/full",
	 .from = RULE_FROM_MACHINE,
	 .test = RULE_ABOVE, .limit = 0.3, .clear = 0.15, .smooth_ns = 30 * S, .hold_ns = 60 * S,
	 .clear_ns = 30 * S, .gates = RULE_SETTLED | RULE_NOT_ASIDE, .unit = "1", .most = 1, WARNING,
	 .text = "all tasks of the machine waited for a disk in {value} of the time for {for}"},

	{.name = "throughput-drop", .what = RULE_OF_PACE, .test = RULE_ABOVE, .limit = 2, .clear = 2,
	 .clear_n = 1, .unit = "s", .most = 1, WARNING,
	 .text = "a step takes {value}, usually {usual}"},

	{.name = "gradient-explosion", .names = "*grad*norm* *gradients/norm{} !*clip* !*scale*",
	 .from = RULE_FROM_PROGRAM, .test = RULE_MULTIPLE, .limit = 10, .clear = 3, .skip = 50,
	 .hold = 5, .clear_n = 20, .most = 1, ERROR,
	 .text = "{series} is {value}, usually {usual}"},

	{.name = "loss-spike", .names = LOSSES HELD_OUT LEAPING, .from = RULE_FROM_PROGRAM,
	 .test = RULE_SURGE, .limit = 8, .clear_n = 20, .most = 1, WARNING,
	 .text = "{series} rose to {value}, usually {usual}"},
	{.name = "loss-spike", .names = RATES, .from = RULE_FROM_PROGRAM, .test = RULE_RAISED},

	{.name = "disk-filling", .names = "filesystem/available", .from = RULE_FROM_MACHINE,
	 .of = "filesystem/total", .rest = true, .test = RULE_FORECAST, .limit = 1, .least = 0.8,
	 .horizon_ns = 3600 * S, .span_ns = 600 * S, .hold = 3, .clear_n = 4, .unit = "1", .most = 4,
	 WARNING, .text = "{series}: {value} of the space is taken; as it rises it will be all in {left}"},
	{.name = "disk-filling", .names = "filesystem/available", .from = RULE_FROM_MACHINE,
	 .of = "filesystem/total", .rest = true, .test = RULE_ABOVE, .limit = 0.95, .clear = 0.93,
	 .hold_ns = 60 * S, .clear_ns = 30 * S, .unit = "1", .most = 4, WARNING, .gates = RULE_IN_USE,
	 .text = "{series}: {value} of the space is taken"},

	{.name = "drops", .what = RULE_OF_LOSSES, .test = RULE_ABOVE, .limit = 1, .clear = 1,
	 .clear_ns = 60 * S, .unit = "", .most = 1, WARNING,
	 .text = "{value} records were lost since the run began"},
};
const size_t builtin_n_rules = ARRAY_LEN(builtin_rules);
/* clang-format on */

_Static_assert(ARRAY_LEN(builtin_rules) <= BUILTIN_ROWS_MAX, "a watch has room for all rows");

const struct rule_about *builtin_find(const char *name)
{
	size_t i;

	for (i = 0; i < builtin_n_about; i++)
		if (strcmp(builtin_about[i].name, name) == 0)
			return &builtin_about[i];
	return NULL;
}

const struct rule *builtin_first(const char *name)
{
	size_t i;

	for (i = 0; i < builtin_n_rules; i++)
		if (strcmp(builtin_rules[i].name, name) == 0)
			return &builtin_rules[i];
	return NULL;
}

void builtin_set_limit(struct rule *row, double limit)
{
	row->clear = row->limit > 0 ? row->clear * (limit / row->limit) : limit;
	row->limit = limit;
}
