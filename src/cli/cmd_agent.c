/* SPDX-License-Identifier: Apache-2.0
 *
 * lapse agent - the recording process; `lapse run` starts it by itself.
 */
#include "cli/cmd.h"

#include "agent/agent.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sdnotify.h"
#include "cli/alerting.h"
#include "cli/launch_scrape.h"
#include "cli/opt.h"
#include "cli/pace.h"
#include "cli/settings.h"
#include "cli/wiring.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AGENT_LOG_MAX (4 << 20) /* bytes of agent.log before it begins anew */

static const char *arg_rendezvous, *arg_config;
static int64_t arg_idle_exit = -1;
static bool arg_foreground, arg_verbose, arg_machine;

static const struct opt agent_rows[] = {
	{.name = "rendezvous",
	 .type = OPT_STR,
	 .value = "DIR",
	 .help = "folder where trainers and launchers meet the agent",
	 .to = &arg_rendezvous},
	{.name = "idle-exit",
	 .type = OPT_DURATION,
	 .value = "TIME",
	 .help = "leave after this long without a run (default 0: stay)",
	 .to = &arg_idle_exit},
	{.name = "config",
	 .letter = 'c',
	 .type = OPT_STR,
	 .value = "FILE",
	 .help = "take settings from this YAML file (default $LAPSE_CONFIG)",
	 .to = &arg_config},
	{.name = "machine",
	 .letter = 'm',
	 .type = OPT_FLAG,
	 .help = "while no run is live, keep the machine's figures in runs named machine",
	 .to = &arg_machine},
	{.name = "foreground",
	 .letter = 'f',
	 .type = OPT_FLAG,
	 .help = "write messages to stderr instead of agent.log",
	 .to = &arg_foreground},
	{.name = "verbose",
	 .letter = 'v',
	 .type = OPT_FLAG,
	 .help = "more messages",
	 .to = &arg_verbose},
	{.name = NULL},
};

const struct opt *cmd_agent_options(void)
{
	return agent_rows;
}

/* Messages go to agent.log; one that has grown large begins anew. */
static void agent_open_log(void)
{
	enum log_level level = arg_verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO;
	int dir, fd = -1;
	off_t size;

	if (arg_rendezvous && setenv("LAPSE_RENDEZVOUS", arg_rendezvous, 1) < 0)
		return;
	if (log_is_journal(STDERR_FILENO)) {
		log_for_journal();
		arg_foreground = true;
	}
	dir = arg_foreground ? -1 : rendezvous_open(1);
	if (dir >= 0) {
		fd = openat(dir, "agent.log",
			    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
		close(dir);
	}
	if (fd >= 0) {
		size = lseek(fd, 0, SEEK_END);
		if (size > AGENT_LOG_MAX && ftruncate(fd, 0) < 0)
			log_warn("agent.log: %s", strerror(errno));
	}
	log_open(fd >= 0 ? fd : STDERR_FILENO, level);
}

static void agent_limit(const struct config *c)
{
	const struct store_limits l = {
		.keep_raw_ns = config_number(c, "store.keep_raw", 0),
		.max_bytes = (uint64_t)config_number(c, "store.max_size", 0),
	};

	if (config_flag(c, "store.cleanup"))
		wiring_limit(&l);
}

/* Where a service keeps its state: systemd says it, else by the usual places. */
static char *agent_state_dir(void)
{
	const char *state = getenv("STATE_DIRECTORY"), *home = getenv("HOME");
	const char *xdg = getenv("XDG_STATE_HOME");

	if (state && state[0] == '/')
		return xasprintf("%.*s", (int)strcspn(state, ":"), state);
	if (geteuid() == 0)
		return xstrdup("/var/lib/lapse");
	if (xdg && xdg[0] == '/')
		return xasprintf("%s/lapse", xdg);
	return home && home[0] == '/' ? xasprintf("%s/.local/state/lapse", home) : NULL;
}

/* The runs named machine. Their folder lives as long as the process. */
static void agent_keep_machine(struct agent_options *o, const struct config *c)
{
	const char *said = config_text(c, "agent.machine_dir");
	char *state;

	if (!arg_machine && !config_flag(c, "agent.machine"))
		return;
	o->rolling_keep_ns = config_number(c, "agent.machine_keep", 0);
	o->rolling_period_ns = config_number(c, "agent.machine_interval", 0);
	if (said && said[0] == '/') {
		o->rolling_dir = xstrdup(said);
		return;
	}
	if (said)
		log_warn("agent.machine_dir: \"%s\" is no absolute path; it is left out", said);
	state = agent_state_dir();
	if (state)
		o->rolling_dir = xasprintf("%s/machine", state);
	else
		log_warn("the machine's figures are not kept: neither HOME nor XDG_STATE_HOME is "
			 "set; give agent.machine_dir");
	free(state);
}

/* What no argument says, the configuration does; then the log can be opened. */
static void agent_configure(struct settings *s, struct agent_options *o)
{
	size_t i;

	agent_limit(s->config);
	wiring_place(s->config);

	if (arg_idle_exit < 0)
		arg_idle_exit = config_number(s->config, "agent.idle_exit", 0);
	if (!arg_verbose)
		arg_verbose = config_flag(s->config, "agent.verbose");
	agent_open_log();
	for (i = 0; settings_note(s, i); i++)
		log_warn("%s", settings_note(s, i));
	for (i = 0; pace_note(i); i++)
		log_warn("%s", pace_note(i));
	alerting_set(s->config);
	agent_keep_machine(o, s->config);
	settings_done(s);
}

/* A service waits for an agent that a launcher or program has started to leave; seven of
 * eight agents that eight launchers start find the first one, and leave. */
static int agent_serve(const struct agent_options *o, bool service, struct err *e)
{
	bool told = false;
	int err;

	for (;;) {
		err = agent_run(o, e);
		if (err != -EAGAIN || !service)
			return err;
		signal(SIGTERM, SIG_DFL);
		signal(SIGINT, SIG_DFL);
		if (!told) {
			log_info("another agent serves this folder: waiting until it leaves");
			sdnotify_send("READY=1\nSTATUS=waiting for another agent to leave");
		}
		told = true;
		sdnotify_watchdog(clock_ns(CLOCK_MONOTONIC));
		err_clear(e);
		sleep(1);
	}
}

int cmd_agent(int argc, char **argv)
{
	struct agent_options o = {
		.rendezvous = arg_rendezvous,
		.store = &wiring_store,
		.exporter = "/proc/self/exe",
	};
	struct settings settings;
	struct err e = {0};
	int err;

	if (argc > 0) {
		fprintf(stderr, "lapse agent: unexpected argument '%s'\n", argv[0]);
		return 2;
	}
	if (settings_load(&settings, "agent", arg_config) != 0) {
		settings_done(&settings);
		return 2;
	}
	pace_set(&o, settings.config);
	err = launch_scrape_agent(settings.config, &o.probe.scrape, &o.probe.n_scrape, &e);
	agent_configure(&settings, &o);
	if (err)
		log_warn("%s; it is left out", e.text);
	err_clear(&e);
	o.idle_exit_ns = arg_idle_exit;
	err = agent_serve(&o, sdnotify_open(), &e);
	wiring_wait();
	if (err == -EAGAIN && !arg_foreground)
		return 0;
	if (err) {
		log_error("%s", e.text);
		fprintf(stderr, "lapse agent: %s\n", e.text);
	}
	return err ? 1 : 0;
}
