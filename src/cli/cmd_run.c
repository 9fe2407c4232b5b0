/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_run.c - `lapse run`: start the launcher's parts, in the order that
 * docs/launcher.md gives. Whatever of lapse fails, the command runs.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/alerting.h"
#include "cli/cmd.h"
#include "cli/launch.h"
#include "cli/launch_describe.h"
#include "cli/launch_export.h"
#include "cli/launch_scrape.h"
#include "cli/settings.h"
#include "report/overview.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"

#define RUN_STATUS_USAGE 2
#define RUN_STATUS_NO_FORK 71
#define RUN_FINISH_NS 3000000000LL /* how long a person waits for the summary */
#define RUN_SCRIPT_NS 500000000LL  /* and a script, so that `lapse report` finds all */
#define RUN_FINISH_STEP_MS 20

static struct run_options {
	const char *dir, *name, *project, *tags, *notes, *config;
	bool quiet, status, tee_stderr, no_agent, dashboard, no_dashboard;
	int64_t stall_after_ns, idle_exit_ns, total_steps;
} run_opt = {.stall_after_ns = -1, .idle_exit_ns = -1};
static struct settings run_settings; /* the strings of run_opt may be in here */

/* clang-format off */
static const struct opt run_rows[] = {
	{.name = "dir", .type = OPT_STR, .value = "DIR", .to = &run_opt.dir,
	 .help = "folder of all runs (default: $LAPSE_DIR, else ./lapse-runs)"},
	{.name = "name", .type = OPT_STR, .value = "NAME", .to = &run_opt.name,
	 .help = "name of the run (default: the program or Python script)"},
	{.name = "project", .type = OPT_STR, .value = "PROJECT", .to = &run_opt.project,
	 .help = "project that the run belongs to"},
	{.name = "tags", .type = OPT_STR, .value = "TAG,TAG", .to = &run_opt.tags,
	 .help = "words to find the run by, comma-separated"},
	{.name = "notes", .type = OPT_STR, .value = "TEXT", .to = &run_opt.notes,
	 .help = "what you want to remember of this run"},
	{.name = "quiet", .letter = 'q', .type = OPT_FLAG, .to = &run_opt.quiet,
	 .help = "write nothing, also where stderr is a terminal"},
	{.name = "status", .type = OPT_FLAG, .to = &run_opt.status,
	 .help = "show a line at the bottom of the terminal while it runs: step, loss, speed"},
	{.name = "total-steps", .type = OPT_INT, .value = "N", .to = &run_opt.total_steps,
	 .lo = 1, .hi = 1000000000000000,
	 .help = "steps in all, for the time left in that line (default: what the program says)"},
	{.name = "tee-stderr", .type = OPT_FLAG, .to = &run_opt.tee_stderr,
	 .help = "keep the last 64 KiB of the command's stderr"},
	{.name = "stall-after", .type = OPT_DURATION, .value = "TIME",
	 .to = &run_opt.stall_after_ns,
	 .help = "hung after TIME without progress; 0: never (default: learned from the run)"},
	{.name = "export", .type = OPT_CALL, .value = "FORMAT[=PATH]", .call = launch_export_add,
	 .help = "keep tensorboard[=DIR] or prometheus=FILE up to date; may be repeated"},
	{.name = "scrape", .type = OPT_CALL, .value = "[PRESET=]URL,...", .call = launch_scrape_add,
	 .help = "ask others for their Prometheus metrics; presets dcgm, node, ray, vllm; may be "
		 "repeated"},
	{.name = "dashboard", .type = OPT_FLAG, .to = &run_opt.dashboard,
	 .help = "serve the dashboard while it runs (default: if stderr is a terminal)"},
	{.name = "no-dashboard", .type = OPT_FLAG, .to = &run_opt.no_dashboard,
	 .help = "serve none"},
	{.name = "no-agent", .type = OPT_FLAG, .to = &run_opt.no_agent,
	 .help = "start no agent: records wait in shared memory (lapse recover)"},
	{.name = "config", .letter = 'c', .type = OPT_STR, .value = "FILE", .to = &run_opt.config,
	 .help = "take settings from this YAML file (default $LAPSE_CONFIG)"},
	{.name = NULL},
};
/* clang-format on */

const struct opt *cmd_run_options(void)
{
	return run_rows;
}

/* ---- settings ----------------------------------------------------------- */

static void run_set_text(const char **option, const char *path)
{
	if (!*option && config_from(run_settings.config, path, NULL) != CONFIG_FROM_DEFAULT)
		*option = config_text(run_settings.config, path);
}

/* What no argument says, the environment and the configuration file do. */
static int run_configure(void)
{
	const struct config *c;
	struct err e = {0};
	int status = settings_load(&run_settings, "run", run_opt.config);

	if (status)
		return status;
	c = run_settings.config;
	if (launch_scrape_configure(c, &e) < 0) {
		if (run_opt.config || isatty(STDERR_FILENO))
			fprintf(stderr, "lapse run: %s: %s\n", run_settings.path, e.text);
		if (run_opt.config)
			return RUN_STATUS_USAGE;
	}
	run_set_text(&run_opt.dir, "run.dir");
	run_set_text(&run_opt.name, "run.name");
	run_set_text(&run_opt.project, "run.project");
	run_set_text(&run_opt.tags, "run.tags");
	run_set_text(&run_opt.notes, "run.notes");
	run_opt.quiet = run_opt.quiet || config_flag(c, "run.quiet");
	run_opt.status = run_opt.status || config_flag(c, "run.status");
	if (!run_opt.total_steps)
		run_opt.total_steps = config_number(c, "run.total_steps", 0);
	run_opt.tee_stderr = run_opt.tee_stderr || config_flag(c, "run.tee_stderr");
	run_opt.no_agent = run_opt.no_agent || !config_flag(c, "run.agent");
	if (run_opt.stall_after_ns < 0)
		run_opt.stall_after_ns = config_number(c, "run.stall_after", -1);
	run_opt.idle_exit_ns = config_number(c, "agent.idle_exit", -1);
	return 0;
}

/* ---- messages ----------------------------------------------------------- */

static void run_say(const struct launch *l, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void run_say(const struct launch *l, const char *fmt, ...)
{
	va_list ap;

	if (!l->terminal)
		return;
	va_start(ap, fmt);
	fputs("lapse: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
}

/* The path as a person would write it here. */
static const char *run_short_path(const char *path, const char *cwd)
{
	size_t n = strlen(cwd);

	if (n > 1 && strncmp(path, cwd, n) == 0 && path[n] == '/')
		return path + n + 1;
	return path;
}

static void run_say_start(struct launch *l, const struct run_start *r, const struct err *e)
{
	size_t i;
	int err;

	for (i = 0; settings_note(&run_settings, i); i++)
		run_say(l, "%s", settings_note(&run_settings, i));
	if (!l->recorded) {
		run_say(l, "not recording: %s", e->text);
		return;
	}
	if (l->files.fell_back)
		run_say(l, "cannot write in %s", l->files.wanted);
	run_say(l, "recording to %s (lapse show %s)", run_short_path(r->dir, r->cwd), r->id);
	err = launch_agent_check(&l->agent);
	if (err < 0 && !l->agent.off && !rendezvous_is_locked(l->files.rendezvous, "agent.lock"))
		run_say(l,
			"no agent can be started (%s: %s): records wait in shared memory, "
			"`lapse recover` stores them",
			l->agent.program, strerror(-err));
}

/* ---- what the run file says --------------------------------------------- */

static void run_describe(struct run_start *r, char *const argv[])
{
	const struct launch_labels labels = {run_opt.name, run_opt.project, run_opt.tags,
					     run_opt.notes};

	launch_describe(r, &labels, argv);
	if (run_opt.stall_after_ns == 0)
		r->stall_after_ms = -1;
	else if (run_opt.stall_after_ns > 0)
		r->stall_after_ms = (run_opt.stall_after_ns + 999999) / 1000000;
	launch_export_describe(r);
	launch_scrape_describe(r);
	alerting_describe(run_settings.config, r);
}

/* ---- the course of a run ------------------------------------------------ */

/* All that may fail without harm, before the fork. */
static void run_prepare(struct launch *l, struct run_start *r, char *const argv[], struct err *e)
{
	launch_files_init(&l->files);
	launch_tee_init(&l->tee);
	launch_status_init(&l->bar);
	run_describe(r, argv);
	l->recorded = launch_files_open(&l->files, run_opt.dir, r->start_ns, e) == 0;
	if (l->recorded && run_opt.tee_stderr)
		l->teeing = launch_tee_open(&l->tee) == 0;
	if (launch_signal_init(&l->signal) < 0)
		l->signal.fd = -1; /* poll() then looks each second */
	snprintf(r->id, sizeof(r->id), "%s", l->files.id);
	snprintf(r->dir, sizeof(r->dir), "%s", l->files.dir);
}

static void run_show_status(struct launch *l, const struct run_start *r)
{
	const struct launch_status_of of = {.dir = l->files.dir,
					    .start_ns = r->start_ns,
					    .total = run_opt.total_steps,
					    .style = LAUNCH_STATUS_BAR};

	if (run_opt.status && l->terminal && l->recorded && !run_opt.no_agent)
		launch_status_start(&l->bar, &of);
}

/* The child waits: say what it will be, then let it go. */
static void run_begin(struct launch *l, struct run_start *r, struct err *e)
{
	launch_tee_close_child_end(&l->tee);
	launch_child_drop_inherited();
	l->signal.child = l->child.pid;
	r->launcher_pid = getpid();
	r->launcher_start = rendezvous_start_time(getpid());
	r->child_pid = l->child.pid;
	r->child_start = rendezvous_start_time(l->child.pid);
	if (l->recorded)
		l->recorded = launch_files_begin(&l->files, r, e) == 0;
	launch_oom_init(&l->oom, l->child.pid);
	launch_agent_init(&l->agent, l->files.rendezvous, l->files.rendezvous_dir);
	l->agent.off = run_opt.no_agent;
	l->agent.config = run_settings.path;
	if (run_opt.idle_exit_ns >= 0)
		l->agent.idle_exit_ns = run_opt.idle_exit_ns;
	l->serve = (struct launch_serve){
		.wanted = l->recorded && !run_opt.no_agent &&
			  launch_serve_is_wanted(run_settings.config, run_opt.dashboard,
						 run_opt.no_dashboard, l->terminal),
		.dirfd = l->files.rendezvous,
		.dir = l->files.rendezvous_dir,
		.config = run_settings.path,
	};
	if (l->recorded)
		launch_agent_tick(&l->agent);
	run_say_start(l, r, e);
	launch_serve_say(&l->serve, r->id, !l->terminal);
	run_show_status(l, r);
	launch_child_release(&l->child, l->recorded);
}

/* Wait for the agent to finish the run; false: it has not. */
static bool run_wait_finished(struct launch *l)
{
	int64_t until = clock_ns(CLOCK_MONOTONIC) + (l->terminal ? RUN_FINISH_NS : RUN_SCRIPT_NS);
	struct pollfd p = {.fd = l->signal.fd, .events = POLLIN};

	while (!launch_files_is_finished(&l->files)) {
		if (clock_ns(CLOCK_MONOTONIC) >= until || l->signal.wanted)
			return false;
		if (!launch_agent_tick(&l->agent) &&
		    (l->agent.off || launch_agent_check(&l->agent) < 0))
			return false;
		if (poll(&p, 1, RUN_FINISH_STEP_MS) > 0)
			launch_signal_take(&l->signal);
	}
	return true;
}

/* The agent stores the end; people get the summary, scripts a run that is there. */
static void run_finish(struct launch *l, const struct run_start *r)
{
	/* The key that ended the command does not mean the summary. */
	launch_signal_take(&l->signal);
	l->signal.wanted = false;
	if (run_wait_finished(l) && l->terminal)
		report_summary(r->dir, stderr);
	else if (launch_files_is_finished(&l->files))
		return;
	else if (l->agent.off || launch_agent_check(&l->agent) < 0)
		run_say(l, "no agent took the records: `lapse recover` stores them");
	else
		run_say(l, "the run is still being finished: lapse show %s", r->id);
}

static void run_end(struct launch *l, const struct run_start *r)
{
	struct run_outcome *o = xcalloc(1, sizeof(*o));
	struct err e = {0};

	launch_outcome(l, o);
	snprintf(o->id, sizeof(o->id), "%s", r->id);
	if (l->recorded && launch_files_end(&l->files, o, &e) < 0)
		run_say(l, "how the command ended is not recorded: %s", e.text);
	free(o);
	if (l->recorded)
		run_finish(l, r);
}

static void run_say_exec_error(const struct launch *l, const char *program)
{
	bool search = l->exec_error == ENOENT && !strchr(program, '/');

	/* Like a shell, on any kind of stderr: there is no command to own it. */
	fprintf(stderr, "lapse: %s: %s\n", program,
		search ? "command not found" : strerror(l->exec_error));
}

int cmd_run(int argc, char **argv)
{
	static struct run_start start;
	static struct launch l;
	struct err e = {0};
	int err;

	if (argc < 1 || !argv[0]) {
		fputs("lapse run: which command? Try: lapse run -- python3 train.py\n", stderr);
		return RUN_STATUS_USAGE;
	}
	err = run_configure();
	if (err)
		return err;
	launch_child_init(&l.child);
	l.child.config = run_settings.path;
	launch_child_plug_streams();
	l.terminal = isatty(STDERR_FILENO) && !run_opt.quiet;
	run_prepare(&l, &start, argv, &e);
	err = launch_child_fork(&l.child, argv, l.tee.child_end, start.id, l.files.rendezvous_dir);
	if (err < 0) {
		fprintf(stderr, "lapse: cannot make a process for %s: %s\n", argv[0],
			strerror(-err));
		launch_signal_done(&l.signal);
		if (l.recorded)
			rmdir(l.files.dir);
		launch_files_done(&l.files);
		return RUN_STATUS_NO_FORK;
	}
	run_begin(&l, &start, &e);
	launch_wait(&l);
	launch_status_stop(&l.bar);
	if (l.exec_error)
		run_say_exec_error(&l, argv[0]);
	run_end(&l, &start);
	launch_oom_done(&l.oom);
	launch_signal_done(&l.signal);
	launch_files_done(&l.files);
	launch_child_die_like(l.status);
}
