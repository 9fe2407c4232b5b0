/* SPDX-License-Identifier: Apache-2.0
 *
 * tracecmds.c - the table of `lapse trace`'s subcommands: a new one is a row here and
 * functions in a file trace_NAME.c. The first one is meant where none is named.
 */
#include "cli/tracecmd.h"

#include "cli/trace_subs.h"

const struct command tracecmds[] = {
	{
		.name = "trace summary",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "contents, steps, what the time went into, and what to do about it",
		.about = "",
		.examples = "  lapse trace rank0.pt.trace.json.gz\n"
			    "  lapse trace summary profiles/",
		.options = trace_steps_options,
		.run = trace_summary,
	},
	{
		.name = "trace top",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "operators and kernels: calls, own and total time on host and device",
		.about = "The numbers of PyTorch's key_averages(), without counting annotations as "
			 "work of the\ndevice.",
		.examples = "  lapse trace top trace.json.gz\n"
			    "  lapse trace top --sort self_cpu_time_total --by shape trace.json.gz",
		.options = trace_top_options,
		.run = trace_top,
	},
	{
		.name = "trace steps",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "what each step's time went into: kernels, copies, runtime, loader, ...",
		.about = "",
		.examples = "  lapse trace steps trace.json.gz",
		.options = trace_plugin_options,
		.run = trace_steps,
	},
	{
		.name = "trace temporal",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "how long devices computed, did other work, or nothing",
		.about = "",
		.examples = "  lapse trace temporal profiles/\n"
			    "  lapse trace temporal --hta trace.json.gz",
		.options = trace_hta_options,
		.run = trace_temporal,
	},
	{
		.name = "trace idle",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "why streams had nothing to do: host, kernel gaps, other",
		.about = "",
		.examples = "  lapse trace idle trace.json.gz",
		.options = trace_idle_options,
		.run = trace_idle,
	},
	{
		.name = "trace kernels",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "kernels by name; computation, communication, memory beside each other",
		.about = "",
		.examples = "  lapse trace kernels trace.json.gz",
		.options = trace_kernels_options,
		.run = trace_kernels,
	},
	{
		.name = "trace overlap",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "how much communication was hidden behind computation",
		.about = "",
		.examples = "  lapse trace overlap profiles/",
		.options = trace_hta_options,
		.run = trace_overlap,
	},
	{
		.name = "trace launch",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "calls that launch work: how long they take, how long work waits",
		.about = "",
		.examples = "  lapse trace launch trace.json.gz\n"
			    "  lapse trace launch --pairs --csv trace.json.gz > pairs.csv",
		.options = trace_launch_options,
		.run = trace_launch,
	},
	{
		.name = "trace queue",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "how much work waited on each stream",
		.about = "",
		.examples = "  lapse trace queue trace.json.gz",
		.options = trace_queue_options,
		.run = trace_queue,
	},
	{
		.name = "trace bandwidth",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "copies and sets: bytes, time, GB/s by kind",
		.about = "",
		.examples = "  lapse trace bandwidth trace.json.gz",
		.options = trace_bandwidth_options,
		.run = trace_bandwidth,
	},
	{
		.name = "trace annotations",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "time in the program's own marks",
		.about = "",
		.examples = "  lapse trace annotations --host trace.json.gz",
		.options = trace_annotations_options,
		.run = trace_annotations,
	},
	{
		.name = "trace tables",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "temporal to annotations, all from one reading; CSV files with -o",
		.about = "The tables of temporal, idle, kernels, overlap, launch, queue, bandwidth "
			 "and annotations.",
		.examples = "  lapse trace tables --hta -o tables trace.json.gz\n"
			    "  lapse trace tables --json trace.json.gz",
		.options = trace_tables_options,
		.run = trace_tables,
	},
	{
		.name = "trace gpu",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "how busy each GPU was: SM efficiency, occupancy, tensor cores",
		.about = "",
		.examples = "  lapse trace gpu trace.json.gz",
		.options = trace_gpu_options,
		.run = trace_gpu,
	},
	{
		.name = "trace memory",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "the allocator: peaks, what was alive then, bytes by operator",
		.about = "Needs a trace recorded with profile_memory=True.",
		.examples = "  lapse trace memory trace.json.gz\n"
			    "  lapse trace memory --timeline --csv --sheet timeline trace.json.gz",
		.options = trace_memory_options,
		.run = trace_memory,
	},
	{
		.name = "trace critical-path",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "the chain of calls, launches and work that bounds a step",
		.about = "",
		.examples = "  lapse trace critical-path trace.json.gz\n"
			    "  lapse trace critical-path --annotation forward --instance 0:2 "
			    "trace.json",
		.options = trace_critical_options,
		.run = trace_critical,
	},
	{
		.name = "trace sequences",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "kernels that operators launch again and again: what could be fused",
		.about = "",
		.examples = "  lapse trace sequences --operator attention trace.json.gz",
		.options = trace_sequences_options,
		.run = trace_sequences,
	},
	{
		.name = "trace stacks",
		.args = "[OPTIONS] FILE",
		.summary = "time by stack: table, flame graph (SVG), folded, speedscope",
		.about = "",
		.examples =
			"  lapse trace stacks --output flame.svg trace.json.gz\n"
			"  lapse trace stacks --device --to folded trace.json.gz | flamegraph.pl",
		.options = trace_stacks_options,
		.run = trace_stacks,
	},
	{
		.name = "trace timeline",
		.args = "--output FILE [OPTIONS] FILE",
		.summary =
			"the trace as bars in rows, in the compact form that the dashboard draws",
		.about = "Its bytes are described in docs/http.md, \"timeline\".",
		.examples = "  lapse trace timeline -o trace.timeline trace.json.gz",
		.options = trace_timeline_options,
		.run = trace_timeline,
	},
	{
		.name = "trace diff",
		.args = "[OPTIONS] BEFORE AFTER",
		.summary = "operators and kernels that became slower, faster, new, or are gone",
		.about = "Time a step of one FILE against the other, tested over the steps.",
		.examples = "  lapse trace diff before.json.gz after.json.gz",
		.options = trace_diff_options,
		.run = trace_diff,
	},
	{
		.name = "trace ranks",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "the ranks of a job: clocks, waits, collectives, stragglers and why",
		.about = "",
		.examples = "  lapse trace ranks profiles/",
		.options = trace_ranks_options,
		.run = trace_ranks,
	},
	{
		.name = "trace score",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "five targets of a well-running training: pass or fail, with numbers",
		.about = "",
		.examples = "  lapse trace score trace.json.gz",
		.options = trace_steps_options,
		.run = trace_score,
	},
	{
		.name = "trace convert",
		.args = "--output FILE [OPTIONS] FILE",
		.summary = "a trace, or some steps of it, as a new file for Perfetto and others",
		.about = "",
		.examples =
			"  lapse trace convert --steps 3:5 -o steps.json.gz trace.json.gz\n"
			"  lapse trace convert --to speedscope -o trace.speedscope.json trace.json",
		.options = trace_convert_options,
		.run = trace_convert,
	},
	{
		.name = "trace merge",
		.args = "--output FILE [OPTIONS] FILE|FOLDER...",
		.summary = "the traces of several ranks in one file",
		.about = "",
		.examples = "  lapse trace merge --align -o job.json.gz profiles/",
		.options = trace_merge_options,
		.run = trace_merge,
	},
	{
		.name = "trace import",
		.args = "[OPTIONS] FILE...",
		.summary = "files of other profilers: what is in them, and as a trace",
		.about = "cProfile, py-spy, speedscope, memory_profiler, tracemalloc, PyTorch's "
			 "stacks, memory\ntimeline and memory snapshot, nvidia-smi's CSV, and "
			 "nsys's "
			 "SQLite export.",
		.examples = "  lapse trace import profile.pstats\n"
			    "  lapse trace import -o nsys.json.gz report.sqlite",
		.options = trace_import_options,
		.run = trace_import,
	},
	{
		.name = "trace validate",
		.args = "[OPTIONS] FILE|FOLDER...",
		.summary = "what is wrong with a trace; exit status 1 if there is something",
		.about = "",
		.examples = "  lapse trace validate trace.json.gz",
		.options = trace_plain_options,
		.run = trace_validate,
	},
	{
		.name = "trace repair",
		.args = "--output FILE [OPTIONS] FILE",
		.summary = "a broken trace as one that every JSON reader takes",
		.about = "",
		.examples = "  lapse trace repair -o mended.json.gz broken.json",
		.options = trace_repair_options,
		.run = trace_repair,
	},
	{0},
};
