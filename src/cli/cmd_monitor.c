/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_monitor.c - `lapse monitor`: record the machine until it is told to stop, or a
 * simulated training run; with the options of a stand-alone monitoring script.
 */
#include "cli/alerting.h"
#include "cli/cmd.h"

#include "base/mem.h"
#include "cli/launch_agent.h"
#include "cli/launch_describe.h"
#include "cli/launch_export.h"
#include "cli/launch_files.h"
#include "cli/launch_serve.h"
#include "cli/launch_signal.h"
#include "cli/launch_status.h"
#include "cli/settings.h"
#include "cli/simrun.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MONITOR_TICK_MS 1000
#define MONITOR_FINISH_MS 3000
#define MONITOR_STEPS 100
#define MONITOR_STEP_NS 100000000LL /* ten steps a second */
#define MONITOR_CPUS 8

static struct monitor_options {
	const char *config, *save_dir, *name, *tensorboard_dir, *visualization_dir, *dashboard_host;
	int64_t simulate_steps, dashboard_port;
	bool simulate, quiet, enable_dashboard, no_monitor_system, no_track_gradients;
	bool disable_alerts, disable_dashboard, disable_tensorboard, disable_visualization;
} mon;

/* clang-format off */
static const struct opt monitor_rows[] = {
	{.name = "config", .letter = 'c', .type = OPT_STR, .value = "FILE", .to = &mon.config,
	 .help = "take settings from this YAML file (default $LAPSE_CONFIG)"},
	{.name = "save_dir", .letter = 'd', .type = OPT_STR, .value = "DIR", .to = &mon.save_dir,
	 .help = "folder of all runs (default: $LAPSE_DIR, else ./lapse-runs)"},
	{.name = "name", .type = OPT_STR, .value = "NAME", .to = &mon.name,
	 .help = "name of the run (default: monitor)"},
	{.name = "tensorboard_dir", .type = OPT_STR, .value = "DIR", .to = &mon.tensorboard_dir,
	 .help = "keep TensorBoard files in DIR up to date"},
	{.name = "disable_tensorboard", .type = OPT_FLAG, .to = &mon.disable_tensorboard,
	 .help = "write none, whatever --tensorboard_dir says"},
	{.name = "simulate", .type = OPT_FLAG, .to = &mon.simulate,
	 .help = "record a made-up training run, ten steps a second, instead of this machine"},
	{.name = "simulate_steps", .type = OPT_INT, .value = "N", .to = &mon.simulate_steps,
	 .lo = 1, .hi = SIMULATE_STEPS_MAX, .help = "steps of it (default: 100)"},
	{.name = "enable_dashboard", .type = OPT_FLAG, .to = &mon.enable_dashboard,
	 .help = "serve the dashboard meanwhile (default: if stderr is a terminal)"},
	{.name = "dashboard_port", .type = OPT_INT, .value = "PORT", .to = &mon.dashboard_port,
	 .lo = 1, .hi = 65535,
	 .help = "its port (default: the first free one from 8080 on)"},
	{.name = "dashboard_host", .type = OPT_STR, .value = "HOST", .to = &mon.dashboard_host,
	 .help = "its address (default: this machine only); others need a token"},
	{.name = "disable_dashboard", .type = OPT_FLAG, .to = &mon.disable_dashboard,
	 .help = "serve none"},
	{.name = "visualization_dir", .type = OPT_STR, .value = "DIR", .to = &mon.visualization_dir,
	 .help = "pictures: not in this version, which says so and records"},
	{.name = "disable_visualization", .type = OPT_FLAG, .to = &mon.disable_visualization,
	 .help = "no word about pictures"},
	{.name = "disable_alerts", .type = OPT_FLAG, .to = &mon.disable_alerts,
	 .help = "no effect: alert.enabled of the configuration switches alerts off"},
	{.name = "no_monitor_system", .type = OPT_FLAG, .to = &mon.no_monitor_system,
	 .help = "do not record the machine: only with --simulate"},
	{.name = "no_track_gradients", .type = OPT_FLAG, .to = &mon.no_track_gradients,
	 .help = "no effect: gradients are recorded by the training program"},
	{.name = "quiet", .letter = 'q', .type = OPT_FLAG, .to = &mon.quiet,
	 .help = "write nothing but errors"},
	{.name = NULL},
};
/* clang-format on */

const struct opt *cmd_monitor_options(void)
{
	return monitor_rows;
}

/* ---- what is not here ------------------------------------------------------------- */

/* A sentence on each option that was given and does nothing, or not what it says. */
static void monitor_say_missing(void)
{
	const struct {
		bool given;
		const char *text;
	} rows[] = {
		{mon.visualization_dir && !mon.disable_visualization,
		 "--visualization_dir: pictures are not in this version: nothing is written there"},
		{mon.disable_alerts,
		 "--disable_alerts: alert.enabled of the configuration switches alerts off, for "
		 "all runs of the agent"},
		{mon.no_monitor_system,
		 "--no_monitor_system: the machine of a simulated run is as made up as its "
		 "training, and stays in it"},
		{mon.no_track_gradients && !mon.simulate,
		 "--no_track_gradients: gradients are recorded by the training program, not from "
		 "outside"},
		{mon.no_track_gradients && mon.simulate,
		 "--no_track_gradients: the gradients of a simulated run are as made up as its "
		 "training, and stay in it"},
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].given && !mon.quiet)
			fprintf(stderr, "lapse monitor: note: %s\n", rows[i].text);
}

static int monitor_check(int argc, char **argv)
{
	const char *wrong = NULL;

	if (argc > 0) {
		fprintf(stderr, "lapse monitor: unexpected argument '%s'\n", argv[0]);
		return 2;
	}
	if (mon.simulate_steps && !mon.simulate)
		wrong = "--simulate_steps goes with --simulate";
	else if (mon.no_monitor_system && !mon.simulate)
		wrong = "with --no_monitor_system nothing would be recorded; leave it out, or run "
			"the training program by `lapse run`";
	if (!wrong)
		return 0;
	fprintf(stderr, "lapse monitor: %s\n", wrong);
	return 2;
}

/* ---- the line ------------------------------------------------------------------------ */

static void monitor_show(struct launch_status *s, const char *dir, int64_t start_ns)
{
	const struct launch_status_of of = {.dir = dir,
					    .start_ns = start_ns,
					    .style = isatty(STDERR_FILENO) ? LAUNCH_STATUS_LINE
									   : LAUNCH_STATUS_LOG};

	if (!mon.quiet)
		launch_status_start(s, &of);
}

/* ---- the machine ---------------------------------------------------------------------- */

/* Large: static. */
struct monitor {
	struct run_start start;
	struct run_outcome outcome;
	struct launch_files files;
	struct launch_agent agent;
	struct launch_serve serve;
	struct launch_status status;
	int signals;
};

static bool monitor_wants_dashboard(const struct settings *settings, bool is_terminal)
{
	return launch_serve_is_wanted(
		settings->config, mon.enable_dashboard || mon.dashboard_port || mon.dashboard_host,
		mon.disable_dashboard, is_terminal);
}

static int monitor_begin(struct monitor *m, const struct settings *settings, struct err *e)
{
	const struct launch_labels labels = {.name = mon.name ? mon.name : "monitor"};
	char *words[] = {(char *)"lapse", (char *)"monitor", NULL};
	int err;

	launch_describe(&m->start, &labels, words);
	launch_export_describe(&m->start);
	m->start.stall_after_ms = -1; /* nothing makes progress here */
	alerting_describe(settings->config, &m->start);
	m->start.launcher_pid = getpid();
	m->start.launcher_start = rendezvous_start_time(getpid());
	launch_files_init(&m->files);
	err = launch_files_open(&m->files, mon.save_dir, m->start.start_ns, e);
	if (err)
		return err;
	snprintf(m->start.id, sizeof(m->start.id), "%s", m->files.id);
	snprintf(m->start.dir, sizeof(m->start.dir), "%s", m->files.dir);
	err = launch_files_begin(&m->files, &m->start, e);
	if (err)
		return err;
	launch_agent_init(&m->agent, m->files.rendezvous, m->files.rendezvous_dir);
	m->agent.config = settings->path;
	launch_agent_tick(&m->agent);
	m->serve = (struct launch_serve){
		.wanted = monitor_wants_dashboard(settings, isatty(STDERR_FILENO) && !mon.quiet),
		.dirfd = m->files.rendezvous,
		.dir = m->files.rendezvous_dir,
		.config = settings->path,
		.host = mon.dashboard_host,
		.port = mon.dashboard_port,
	};
	return 0;
}

static void monitor_end(struct monitor *m)
{
	struct run_outcome *o = &m->outcome;
	struct err e = {0};
	int i;

	snprintf(o->id, sizeof(o->id), "%s", m->start.id);
	o->kind = RUN_EXITED;
	o->end_ns = clock_ns(CLOCK_REALTIME);
	if (launch_files_end(&m->files, o, &e) < 0)
		fprintf(stderr, "lapse monitor: the end is not recorded: %s\n", e.text);
	for (i = 0; i < MONITOR_FINISH_MS / 20 && !launch_files_is_finished(&m->files); i++) {
		launch_agent_tick(&m->agent);
		usleep(20000);
	}
	if (!mon.quiet)
		fprintf(stderr, "lapse: recorded (lapse report %s)\n", m->start.id);
}

static int monitor_machine(const struct settings *settings)
{
	static struct monitor m;
	struct err e = {0};
	struct pollfd p;

	launch_status_init(&m.status);
	m.signals = launch_signal_leave();
	if (monitor_begin(&m, settings, &e) != 0) {
		fprintf(stderr, "lapse monitor: %s\n", e.text);
		launch_files_done(&m.files);
		return 1;
	}
	if (!mon.quiet)
		fprintf(stderr, "lapse: recording this machine to %s; Ctrl-C ends it\n",
			m.start.dir);
	monitor_show(&m.status, m.start.dir, m.start.start_ns);
	p = (struct pollfd){.fd = m.signals, .events = POLLIN};
	launch_serve_say(&m.serve, m.start.id, mon.quiet);
	while (poll(&p, 1, MONITOR_TICK_MS) == 0) {
		launch_agent_tick(&m.agent);
		launch_serve_say(&m.serve, m.start.id, mon.quiet);
	}
	launch_status_stop(&m.status);
	monitor_end(&m);
	launch_files_done(&m.files);
	return 0;
}

/* ---- a simulated run -------------------------------------------------------------------- */

struct monitor_sim {
	struct launch_status status;
	const char *config; /* file of settings for the server; NULL: none */
	pid_t exporter, server;
	bool serves;
};

/* Out of the terminal's group: it ends when the run has, not before. */
static pid_t monitor_start(const char *const argv[], bool talks)
{
	pid_t parent = getpid(), pid;

	fflush(stderr);
	pid = fork();
	if (pid != 0)
		return pid;
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (talks)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	if (getppid() == parent)
		execv("/proc/self/exe", (char *const *)argv);
	_exit(127);
}

static void monitor_export(struct monitor_sim *x, const char *dir)
{
	const char *const argv[] = {"lapse",
				    "export",
				    "--to",
				    "tensorboard",
				    "--follow",
				    "--output",
				    mon.tensorboard_dir,
				    dir,
				    NULL};

	x->exporter = monitor_start(argv, false);
}

/* The run has no agent, so the dashboard is a server of its own. */
static void monitor_serve(struct monitor_sim *x, const char *dir)
{
	const char *argv[10] = {"lapse", "serve", dir};
	size_t n = 3;
	char port[32];

	if (mon.dashboard_port) {
		snprintf(port, sizeof(port), "--port=%lld", (long long)mon.dashboard_port);
		argv[n++] = port;
	}
	if (mon.dashboard_host) {
		argv[n++] = "--host";
		argv[n++] = mon.dashboard_host;
	}
	if (x->config) {
		argv[n++] = "--config";
		argv[n++] = x->config;
	}
	x->server = monitor_start(argv, true);
}

static void monitor_sim_begun(void *arg, const char *dir, int64_t start_ns)
{
	struct monitor_sim *x = arg;

	if (!mon.quiet)
		fprintf(stderr, "lapse: recording a simulated run to %s; Ctrl-C ends it\n", dir);
	if (mon.tensorboard_dir)
		monitor_export(x, dir);
	if (x->serves)
		monitor_serve(x, dir);
	monitor_show(&x->status, dir, start_ns);
}

static int monitor_sim_write(const struct simulate *m, const struct simulate_options *o,
			     const struct settings *settings)
{
	struct simrun_result *result = xcalloc(1, sizeof(*result));
	struct monitor_sim x = {.serves = monitor_wants_dashboard(settings, false),
				.config = settings->path};
	char command[64];
	const struct simrun_options r = {.dir = mon.save_dir,
					 .name = mon.name ? mon.name : "simulated",
					 .project = "",
					 .command = command,
					 .speed = 1,
					 .quiet = true,
					 .begun = monitor_sim_begun,
					 .arg = &x};
	struct err e = {0};
	int err, status = 0;

	snprintf(command, sizeof(command), "lapse monitor --simulate --simulate_steps %lld",
		 (long long)o->steps);
	launch_status_init(&x.status);
	err = simrun_write(m, &r, o->start_ns, o->hosts, result, &e);
	launch_status_stop(&x.status);
	if (x.server > 0 && kill(x.server, SIGTERM) == 0)
		waitpid(x.server, NULL, 0);
	if (x.exporter > 0 && waitpid(x.exporter, &status, 0) == x.exporter && status != 0)
		fprintf(stderr, "lapse monitor: the export to %s failed\n", mon.tensorboard_dir);
	if (err)
		fprintf(stderr, "lapse monitor: %s\n", e.text);
	else if (!mon.quiet)
		fprintf(stderr, "lapse: recorded (lapse report %s)\n", result->id);
	free(result);
	return err || status ? 1 : 0;
}

static int monitor_simulate(const struct settings *settings)
{
	const struct simulate_options o = {.seed = 1,
					   .steps = mon.simulate_steps ? mon.simulate_steps
								       : MONITOR_STEPS,
					   .period_ns = MONITOR_STEP_NS,
					   .tick_ns = 1000000000,
					   .ranks = 1,
					   .hosts = 1,
					   .gpus = 1,
					   .cpus = MONITOR_CPUS,
					   .start_ns = clock_ns(CLOCK_REALTIME)};
	struct simulate *m;
	struct err e = {0};
	int status;

	if (simulate_new(&o, &e, &m) != 0) {
		fprintf(stderr, "lapse monitor: %s\n", e.text);
		return 2;
	}
	status = monitor_sim_write(m, &o, settings);
	simulate_free(m);
	return status;
}

int cmd_monitor(int argc, char **argv)
{
	struct settings settings;
	char *target;
	size_t i;
	int status = monitor_check(argc, argv);

	if (status)
		return status;
	if (settings_load(&settings, "monitor", mon.config) != 0)
		return 2;
	for (i = 0; !mon.quiet && settings_note(&settings, i); i++)
		fprintf(stderr, "lapse monitor: note: %s\n", settings_note(&settings, i));
	if (!mon.save_dir && config_from(settings.config, "run.dir", NULL) != CONFIG_FROM_DEFAULT)
		mon.save_dir = config_text(settings.config, "run.dir");
	if (!mon.name && config_from(settings.config, "run.name", NULL) != CONFIG_FROM_DEFAULT)
		mon.name = config_text(settings.config, "run.name");
	if (mon.disable_tensorboard)
		mon.tensorboard_dir = NULL;
	monitor_say_missing();
	if (mon.tensorboard_dir && !mon.simulate) {
		target = xasprintf("tensorboard=%s", mon.tensorboard_dir);
		status = launch_export_add(target, NULL) < 0 ? 2 : 0;
		free(target);
	}
	if (!status)
		status = mon.simulate ? monitor_simulate(&settings) : monitor_machine(&settings);
	settings_done(&settings);
	return status;
}
