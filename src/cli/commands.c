/* SPDX-License-Identifier: Apache-2.0
 *
 * commands.c - the table of commands. A new command is a row here and a file
 * cmd_NAME.c.
 */
#include "cli/cmd.h"

#include <stdio.h>

#include "cli/tracecmd.h"

#define RUN_NEEDED                                                                                 \
	"RUN is an id, the beginning of one, \"last\" (the newest), or the path of a run's\n"      \
	"folder."

#define RUN_ABOUT                                                                                  \
	"RUN is an id, the beginning of one, \"last\" (the newest; the default), or the path of\n" \
	"a run's folder."

const struct command commands[] = {
	{
		.name = "run",
		.args = "[OPTIONS] -- COMMAND [ARG...]",
		.summary = "run a command and record what it does",
		.about = "The command runs as if it had been called by itself: same streams, "
			 "terminal,\nsignals and exit status. If recording fails, it runs all "
			 "the same.",
		.examples = "  lapse run -- python3 train.py --epochs 3\n"
			    "  lapse run --name baseline -- ./train\n"
			    "  lapse run --config lapse.yaml -- python3 train.py\n"
			    "  srun lapse run -- python3 train.py",
		.options = cmd_run_options,
		.run = cmd_run,
		.options_first = true,
	},
	{
		.name = "attach",
		.args = "[OPTIONS] PID",
		.summary = "record a process that runs already, from outside",
		.about = "Machine, GPUs, the process and its descendants, and its end are recorded "
			 "until it ends\nor this command is interrupted; the process does not "
			 "notice. How a process ended only\nits parent is told: before Linux 6.15 "
			 "the exit status stays unknown.",
		.examples = "  lapse attach 12345\n"
			    "  lapse attach --name rescue $(pgrep -o -f train.py)",
		.options = cmd_attach_options,
		.run = cmd_attach,
	},
	{
		.name = "monitor",
		.args = "[OPTIONS]",
		.summary = "record this machine until Ctrl-C, or a simulated training run",
		.about = "Machine and GPUs, without a program: what `lapse attach` does for a "
			 "process. "
			 "In names of\noptions - and _ are the same.",
		.examples = "  lapse monitor --save_dir ./monitoring_logs\n"
			    "  lapse monitor --tensorboard_dir ./logs\n"
			    "  lapse monitor --simulate --simulate_steps 100",
		.options = cmd_monitor_options,
		.run = cmd_monitor,
	},
	{
		.name = "serve",
		.args = "[OPTIONS] [DIR...]",
		.summary = "serve the dashboard of the runs in folders, for a browser",
		.about = "DIR is a folder of runs (default $LAPSE_DIR, else ./lapse-runs). Stdout "
			 "gets "
			 "the\naddress. Only this machine may ask, unless --host says otherwise "
			 "(docs/dashboard.md).\nOf live runs what is stored is seen at once; "
			 "nothing "
			 "that a browser asks slows them.",
		.examples = "  lapse serve\n"
			    "  lapse serve --port 9000 /data/lapse-runs ~/old-runs\n"
			    "  lapse serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem",
		.options = cmd_serve_options,
		.run = cmd_serve,
	},
	{
		.name = "top",
		.args = "[OPTIONS] [RUN]",
		.summary = "watch a run in the terminal: lines of training, GPUs, CPUs, processes",
		.about = "RUN is an id, the beginning of one, \"last\" (the newest), or the path "
			 "of a run's\nfolder; without it the newest run that is live, else the "
			 "newest. Keys: ? lists them,\nq leaves. Where there is no terminal one "
			 "frame is printed, as with --once.",
		.examples = "  lapse top\n"
			    "  lapse top --filter 'val/*' last\n"
			    "  COLUMNS=120 lapse top --once | less",
		.options = cmd_top_options,
		.run = cmd_top,
	},
	{
		.name = "ls",
		.args = "[OPTIONS]",
		.summary = "list runs, the newest first",
		.about = "The folder is $LAPSE_DIR, else ./lapse-runs. A run that cannot be "
			 "read is listed\nwith the reason.",
		.examples = "  lapse ls\n"
			    "  lapse ls --metric val/acc:best --sort val/acc:best --filter "
			    "'project=ocr'\n"
			    "  lapse ls --json | jq -r '.[] | select(.outcome == \"oom\") | .id'",
		.options = cmd_ls_options,
		.run = cmd_ls,
	},
	{
		.name = "show",
		.args = "[OPTIONS] [RUN]",
		.summary = "show everything that is known of a run",
		.about = RUN_ABOUT,
		.examples = "  lapse show\n"
			    "  lapse show 20261128 --series 'grad/*'\n"
			    "  lapse show last --json | jq '.series[].name'",
		.options = cmd_show_options,
		.run = cmd_show,
	},
	{
		.name = "alerts",
		.args = "[OPTIONS] [RUN]",
		.summary = "list what was wrong with a run, acknowledge it, silence a rule",
		.about = RUN_ABOUT "\nWhat is looked for, and why: docs/alerts.md.",
		.examples = "  lapse alerts\n"
			    "  lapse alerts --rules\n"
			    "  lapse alerts last --ack gpu-hot-k3v9qa --note 'fan replaced'\n"
			    "  lapse alerts last --silence gpu-idle --for 2h",
		.options = cmd_alerts_options,
		.run = cmd_alerts,
	},
	{
		.name = "export",
		.args = "--to FORMAT [OPTIONS] [RUN]",
		.summary = "write a run's data for other tools: CSV, JSON, TensorBoard, Prometheus",
		.about = RUN_ABOUT "\nDoubles are written with as many digits as they need to "
				   "be read back the same;\nNaN and infinities are NaN, "
				   "Infinity and -Infinity (strings in JSON).\nThe files of "
				   "tensorboard and prometheus are brought up to date: what an "
				   "earlier export\nwrote stays, and one that was killed is "
				   "gone on with.",
		.examples = "  lapse export --to csv --series loss --output loss.csv\n"
			    "  lapse export --to tensorboard && tensorboard --logdir lapse-runs\n"
			    "  lapse export last --to json | jq 'select(.type == \"event\")'\n"
			    "  lapse export --to csv --from -10m --steps 1000:",
		.options = cmd_export_options,
		.run = cmd_export,
	},
	{
		.name = "query",
		.args = "[OPTIONS] [RUN] [PATTERN...]",
		.summary = "chart series of a run: text, CSV or JSON; or list them",
		.about =
			RUN_ABOUT "\nPATTERN is NAME{LABEL=VALUE,...}, each a shell pattern; "
				  "host, role, rank and process are\nlabels too. "
				  "rate(PATTERN) is what a counter adds a second, or a step on the "
				  "step axis.\nWithout one the series are listed. A first argument "
				  "that is no run is a pattern.",
		.examples = "  lapse query\n"
			    "  lapse query last 'train/*' 'grad/norm{rank=0}'\n"
			    "  lapse query 'gpu/*' --group-by gpu --from -10m\n"
			    "  lapse query 'rate(lapse/step/tokens)' --axis step --json",
		.options = cmd_query_options,
		.run = cmd_query,
	},
	{
		.name = "report",
		.args = "[OPTIONS] [RUN]",
		.summary = "report how a run went: speed, phases, loss, memory, drops",
		.about = RUN_ABOUT,
		.examples = "  lapse report\n"
			    "  lapse report last --json | jq .samples.per_s_overall",
		.options = cmd_report_options,
		.run = cmd_report,
	},
	{
		.name = "trace",
		.args = "[SUBCOMMAND] [OPTIONS] FILE|FOLDER...",
		.summary = "say what is slow in traces of PyTorch's profiler, and why",
		.about = "FILE is a trace of Kineto or Chrome (.json, .json.gz, .json.zst, \"-\": "
			 "stdin), "
			 "a FOLDER\nevery trace in it: the ranks of a job. Without SUBCOMMAND: "
			 "summary. lapse trace\nSUBCOMMAND --help tells each one's options.",
		.examples = "  lapse trace rank0.pt.trace.json.gz\n"
			    "  lapse trace top --sort self_device_time_total trace.json\n"
			    "  lapse trace ranks profiles/\n"
			    "  lapse trace diff before.json.gz after.json.gz",
		.options = cmd_trace_options,
		.run = cmd_trace,
		.options_first = true,
		.subs = tracecmds,
	},
	{
		.name = "recover",
		.args = "[OPTIONS]",
		.summary = "turn what a dead program left in memory into a stored run",
		.about = "Does once what an agent does all the time, for programs that recorded "
			 "while "
			 "none was\nrunning. While one is running there is nothing to recover.",
		.examples = "  lapse recover && lapse ls",
		.options = cmd_recover_options,
		.run = cmd_recover,
	},
	{
		.name = "agent",
		.args = "[OPTIONS]",
		.summary = "run the agent (lapse run starts it by itself)",
		.about = "Drains the rings of this user's programs, samples the machine, stores "
			 "both. "
			 "One\nagent serves all runs of a user on a machine.",
		.examples = "  lapse agent --foreground --verbose",
		.options = cmd_agent_options,
		.run = cmd_agent,
	},
	{
		.name = "config",
		.args = "[OPTIONS] [FILE]",
		.summary = "check a configuration file, show the settings that hold",
		.about = "FILE is YAML (docs/config.md); without it $LAPSE_CONFIG is read. Each "
			 "setting is\nshown with where it comes from: the file and line, the "
			 "environment, or the default.",
		.examples = "  lapse config lapse.yaml\n"
			    "  lapse config --json | jq -r '.keys[].path'",
		.options = cmd_config_options,
		.run = cmd_config,
	},
	{
		.name = "doctor",
		.args = "[OPTIONS]",
		.summary = "say what works on this machine, what does not, and what would help",
		.about = "Reads every group of metrics twice, a second apart, and looks at what "
			 "recording needs.\nExit status: 1 if recording cannot work here.",
		.examples = "  lapse doctor\n"
			    "  lapse doctor --metrics\n"
			    "  lapse doctor --python venv/bin/python --json | jq '.findings[]'",
		.options = cmd_doctor_options,
		.run = cmd_doctor,
	},
	{
		.name = "simulate",
		.args = "[OPTIONS]",
		.summary = "make up a run, with faults where you want them",
		.about = "The same options give the same values, bit for bit, on every machine: "
			 "for trying\nalerts, dashboards and analysis. FAULT is "
			 "NAME[@WHEN[+LENGTH]][:STRENGTH], where\nWHEN and LENGTH are steps (300) "
			 "or a share (40%); --list-faults lists them.",
		.examples = "  lapse simulate\n"
			    "  lapse simulate --ranks 8 --hosts 2 --gpus 4 --fault slow-rank@40%\n"
			    "  lapse simulate --steps 8000000 --rate 1000\n"
			    "  lapse simulate --live --speed 10 --fault nan@300 --fault hot-gpu",
		.options = cmd_simulate_options,
		.run = cmd_simulate,
	},
	{
		.name = "edit",
		.args = "[OPTIONS] RUN",
		.summary = "change name, project, tags or notes of a run",
		.about = RUN_NEEDED "\nIt works while the run is recorded; what was recorded is "
				    "not changed, a small file in\nthe run's folder says what to "
				    "show instead.",
		.examples = "  lapse edit last --tags +good,-wip --notes 'the one for the paper'\n"
			    "  lapse edit 20261128-010203-abcd --name baseline",
		.options = cmd_edit_options,
		.run = cmd_edit,
	},
	{
		.name = "pack",
		.args = "[OPTIONS] [RUN]",
		.summary = "put a run into one file, to carry it elsewhere",
		.about = RUN_ABOUT "\nThe file is a tar archive compressed by zstd: `tar --zstd` "
				   "opens it. Of a run that is\nbeing recorded it holds what was "
				   "stored when it was copied.",
		.examples = "  lapse pack last\n"
			    "  lapse pack 20261128 --output - | ssh host 'cat > run.tar.zst'",
		.options = cmd_pack_options,
		.run = cmd_pack,
	},
	{
		.name = "import",
		.args = "[OPTIONS] FOLDER|ARCHIVE|HOST.db...",
		.summary = "take runs that were recorded elsewhere",
		.about = "Each FOLDER of a run and each ARCHIVE (.tar.zst, .tar) is one run; files "
			 "HOST.db are of\none run together. All is checked first. A run that is "
			 "there already gets the hosts that\nit lacks.",
		.examples = "  lapse import 20261128-010203-k3f9.tar.zst\n"
			    "  lapse import /mnt/cluster/lapse-runs/20261128-*\n"
			    "  lapse import node0.db node1.db",
		.options = cmd_import_options,
		.run = cmd_import,
	},
	{
		.name = "gc",
		.args = "[OPTIONS]",
		.summary = "make room: drop single points of old runs, or whole runs",
		.about = "What goes are single points, the oldest first; summaries, charts over "
			 "them and\nevents stay. Runs that are being recorded are left alone; "
			 "whole runs go only with\n--remove-runs. Bytes that would be freed are "
			 "about right.",
		.examples = "  lapse gc --keep-raw 30d --dry-run\n"
			    "  lapse gc --max-total 500G --max-size 10G\n"
			    "  lapse gc --older-than 365d --remove-runs",
		.options = cmd_gc_options,
		.run = cmd_gc,
	},
	{
		.name = "gpu-log",
		.args = "[OPTIONS]",
		.summary = "write figures of NVIDIA's GPUs as lines of CSV, as nvidia-smi does",
		.about = "Names of fields, heads, units and values are those of nvidia-smi "
			 "--query-gpu --format=csv,\nso scripts that read its output need no "
			 "change; no program is started for each line.\nA value that the GPU does "
			 "not tell is [N/A].",
		.examples = "  lapse gpu-log -l 1 > gpu_usage.csv\n"
			    "  lapse gpu-log --query-gpu=timestamp,index,power.draw,clocks.sm "
			    "-lms 200 -i 0,1\n"
			    "  lapse gpu-log --query-gpu=uuid --format=csv,noheader",
		.options = cmd_gpu_log_options,
		.run = cmd_gpu_log,
	},
	{
		.name = "rm",
		.args = "[OPTIONS] RUN...",
		.summary = "remove runs for good",
		.about = RUN_NEEDED " A run that is being recorded is refused, and a folder that "
				    "does not look\nlike a run. Links are not followed.",
		.examples =
			"  lapse rm 20261128-010203-abcd\n"
			"  lapse ls --json | jq -r '.[] | select(.outcome == \"lost\") | .id' | "
			"xargs lapse rm",
		.options = cmd_rm_options,
		.run = cmd_rm,
	},
	{
		.name = "fsck",
		.args = "[OPTIONS] [RUN...]",
		.summary = "check the databases of runs, repair damaged ones",
		.about = RUN_ABOUT
		"\nEverything is read and held against its checksums and against what "
		"follows from it.\nExit status: 0 all is well, 1 something is wrong. "
		"--repair writes what can be read of a\ndamaged file into a new one and "
		"keeps the old one as HOST.db.corrupt-SECONDS; a\nfile that is being "
		"written is refused.",
		.examples = "  lapse fsck\n"
			    "  lapse fsck --all --json | jq '.runs[].files[].findings[]'\n"
			    "  lapse fsck --repair 20261128-010203-abcd",
		.options = cmd_fsck_options,
		.run = cmd_fsck,
	},
	{
		.name = "completion",
		.args = "SHELL",
		.summary = "print a shell's completion script: bash, zsh or fish",
		.about = "`make install` puts all three where the shells look for them.",
		.examples = "  lapse completion bash > "
			    "~/.local/share/bash-completion/completions/lapse\n"
			    "  lapse completion zsh > \"${fpath[1]}/_lapse\"\n"
			    "  lapse completion fish > ~/.config/fish/completions/lapse.fish",
		.options = cmd_completion_options,
		.run = cmd_completion,
	},
	{
		.name = "version",
		.args = "[OPTIONS]",
		.summary = "print the version",
		.about = "",
		.examples = "  lapse version --json",
		.options = cmd_version_options,
		.run = cmd_version,
	},
	{0},
};

const char *cmd_one_arg(const char *command, int argc, char **argv, const char *what,
			const char *missing)
{
	if (argc == 0 && missing)
		return missing;
	if (argc == 1)
		return argv[0];
	fprintf(stderr, "lapse %s: %s %s\nTry: lapse %s --help\n", command,
		argc == 0 ? "this needs a" : "only one argument is taken, a", what, command);
	return NULL;
}
