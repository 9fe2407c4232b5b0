/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_attach.c - `lapse attach`: record a process that runs already, from outside:
 * machine, GPUs, its processes, its end. Like `lapse run` without the start.
 */
#include "cli/cmd.h"

#include "base/mem.h"
#include "base/number.h"
#include "cli/alerting.h"
#include "cli/attached.h"
#include "cli/launch_agent.h"
#include "cli/launch_describe.h"
#include "cli/launch_files.h"
#include "cli/launch_oom.h"
#include "cli/launch_serve.h"
#include "cli/launch_signal.h"
#include "cli/settings.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ATTACH_TICK_MS 1000
#define ATTACH_FINISH_MS 3000

static struct attach_options {
	const char *dir, *name, *project, *tags, *notes, *config;
	bool quiet;
} attach_opt;

/* clang-format off */
static const struct opt attach_rows[] = {
	{.name = "dir", .letter = 'd', .type = OPT_STR, .value = "DIR", .to = &attach_opt.dir,
	 .help = "folder of all runs (default: $LAPSE_DIR, else ./lapse-runs)"},
	{.name = "name", .type = OPT_STR, .value = "NAME", .to = &attach_opt.name,
	 .help = "name of the run (default: the program or Python script)"},
	{.name = "project", .type = OPT_STR, .value = "PROJECT", .to = &attach_opt.project,
	 .help = "project that the run belongs to"},
	{.name = "tags", .type = OPT_STR, .value = "TAG,TAG", .to = &attach_opt.tags,
	 .help = "words to find the run by, comma-separated"},
	{.name = "notes", .type = OPT_STR, .value = "TEXT", .to = &attach_opt.notes,
	 .help = "what you want to remember of this run"},
	{.name = "quiet", .letter = 'q', .type = OPT_FLAG, .to = &attach_opt.quiet,
	 .help = "write nothing"},
	{.name = "config", .letter = 'c', .type = OPT_STR, .value = "FILE",
	 .to = &attach_opt.config,
	 .help = "take settings from this YAML file (default $LAPSE_CONFIG)"},
	{.name = NULL},
};
/* clang-format on */

const struct opt *cmd_attach_options(void)
{
	return attach_rows;
}

/* Large: static. */
struct attach {
	struct attached process;
	struct run_start start;
	struct run_outcome outcome;
	struct launch_files files;
	struct launch_agent agent;
	struct launch_serve serve;
	struct launch_oom oom;
	int signals; /* signalfd of what makes us leave */
	bool leave;
};

static void attach_text(const char **option, const struct config *c, const char *path)
{
	if (!*option && config_from(c, path, NULL) != CONFIG_FROM_DEFAULT)
		*option = config_text(c, path);
}

static void attach_configure(const struct config *c)
{
	attach_text(&attach_opt.dir, c, "run.dir");
	attach_text(&attach_opt.name, c, "run.name");
	attach_text(&attach_opt.project, c, "run.project");
	attach_text(&attach_opt.tags, c, "run.tags");
	attach_text(&attach_opt.notes, c, "run.notes");
	attach_opt.quiet = attach_opt.quiet || config_flag(c, "run.quiet");
}

static void attach_describe(struct attach *a)
{
	const struct launch_labels labels = {attach_opt.name, attach_opt.project, attach_opt.tags,
					     attach_opt.notes};
	char *none[] = {(char *)"?", NULL}, **argv = attached_argv(&a->process);

	launch_describe(&a->start, &labels, argv ? argv : none);
	free(argv);
	attached_describe(&a->process, &a->start);
	a->start.launcher_pid = getpid();
	a->start.launcher_start = rendezvous_start_time(getpid());
	a->start.child_pid = a->process.pid;
	a->start.child_start = a->process.start;
}

static int attach_begin(struct attach *a, const struct settings *settings, struct err *e)
{
	char id[RUN_ID_MAX + 1];
	int err;

	attach_describe(a);
	alerting_describe(settings->config, &a->start);
	launch_files_init(&a->files);
	err = launch_files_open(&a->files, attach_opt.dir, a->start.start_ns, e);
	if (err)
		return err;
	if (attached_records(&a->process, a->files.rendezvous, id)) {
		rmdir(a->files.dir);
		return err_set(e, -EEXIST, "process %ld records already, into run %s",
			       a->process.pid, id);
	}
	snprintf(a->start.id, sizeof(a->start.id), "%s", a->files.id);
	snprintf(a->start.dir, sizeof(a->start.dir), "%s", a->files.dir);
	err = launch_files_begin(&a->files, &a->start, e);
	if (err)
		return err;
	launch_oom_init(&a->oom, (pid_t)a->process.pid);
	launch_agent_init(&a->agent, a->files.rendezvous, a->files.rendezvous_dir);
	a->agent.config = settings->path;
	launch_agent_tick(&a->agent);
	a->serve = (struct launch_serve){
		.wanted = launch_serve_is_wanted(settings->config, false, false,
						 isatty(STDERR_FILENO) && !attach_opt.quiet),
		.dirfd = a->files.rendezvous,
		.dir = a->files.rendezvous_dir,
		.config = settings->path,
	};
	return 0;
}

static void attach_wait(struct attach *a)
{
	struct pollfd p[3] = {
		{.fd = a->signals, .events = POLLIN},
		{.fd = a->process.fd, .events = POLLIN},
		{.fd = a->oom.kmsg, .events = POLLIN},
	};

	while (!a->leave && attached_lives(&a->process)) {
		if (poll(p, 3, ATTACH_TICK_MS) < 0 && errno != EINTR)
			return;
		a->leave = p[0].revents != 0;
		if (p[2].revents)
			launch_oom_read_log(&a->oom);
		launch_oom_tick(&a->oom);
		launch_agent_tick(&a->agent);
		launch_serve_say(&a->serve, a->start.id, attach_opt.quiet);
	}
}

static void attach_judge(struct attach *a)
{
	struct run_outcome *o = &a->outcome;
	int status = a->process.status;

	snprintf(o->id, sizeof(o->id), "%s", a->start.id);
	o->end_ns = clock_ns(CLOCK_REALTIME);
	o->code = -1;
	o->user_s = o->system_s = NAN;
	if (!a->process.ended) {
		o->kind = RUN_DETACHED;
		snprintf(o->evidence, sizeof(o->evidence), "lapse attach left; process %ld went on",
			 a->process.pid);
	} else if (!a->process.knows_status &&
		   launch_oom_says_child(&a->oom, o->evidence, sizeof(o->evidence))) {
		o->kind = RUN_OOM;
		o->signal = SIGKILL;
	} else if (!a->process.knows_status) {
		o->kind = RUN_EXITED;
		snprintf(o->evidence, sizeof(o->evidence),
			 "how it ended is not known: only its parent is told (and, since Linux "
			 "6.15, who watches it)");
	} else if (launch_oom_judge(&a->oom, status, o->evidence, sizeof(o->evidence))) {
		o->kind = RUN_OOM;
		o->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	} else {
		o->kind = WIFSIGNALED(status) ? RUN_SIGNALED : RUN_EXITED;
		o->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
		o->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		o->core = WIFSIGNALED(status) && WCOREDUMP(status);
	}
}

static void attach_end(struct attach *a)
{
	struct err e = {0};
	int i;

	attach_judge(a);
	if (launch_files_end(&a->files, &a->outcome, &e) < 0)
		fprintf(stderr, "lapse attach: how it ended is not recorded: %s\n", e.text);
	for (i = 0; i < ATTACH_FINISH_MS / 20 && !launch_files_is_finished(&a->files); i++) {
		launch_agent_tick(&a->agent);
		usleep(20000);
	}
	if (!attach_opt.quiet)
		fprintf(stderr, "lapse: %s %s (lapse show %s)\n",
			a->process.ended ? "it ended:" : "left it:",
			run_outcome_name(a->outcome.kind), a->start.id);
}

static int attach_run(struct attach *a, long pid, const struct settings *settings)
{
	struct err e = {0};
	int err;

	err = attached_open(&a->process, pid, &e);
	if (!err)
		err = attach_begin(a, settings, &e);
	if (err) {
		fprintf(stderr, "lapse attach: %s\n", e.text);
		launch_files_done(&a->files);
		attached_done(&a->process);
		return 1;
	}
	if (!attach_opt.quiet)
		fprintf(stderr, "lapse: recording process %ld to %s; Ctrl-C leaves it alone\n", pid,
			a->start.dir);
	attach_wait(a);
	attach_end(a);
	launch_oom_done(&a->oom);
	launch_files_done(&a->files);
	attached_done(&a->process);
	return 0;
}

int cmd_attach(int argc, char **argv)
{
	static struct attach a;
	struct settings settings;
	const char *text;
	int64_t pid;
	int status;

	text = cmd_one_arg("attach", argc, argv, "process id", NULL);
	if (!text)
		return 2;
	if (number_int(text, &pid) < 0 || pid <= 0 || pid > INT32_MAX) {
		fprintf(stderr, "lapse attach: \"%s\" is no process id\n", text);
		return 2;
	}
	if (settings_load(&settings, "attach", attach_opt.config) != 0) {
		settings_done(&settings);
		return 2;
	}
	attach_configure(settings.config);
	a.signals = launch_signal_leave();
	a.process.fd = -1;
	launch_files_init(&a.files);
	status = attach_run(&a, (long)pid, &settings);
	if (a.signals >= 0)
		close(a.signals);
	settings_done(&settings);
	return status;
}
