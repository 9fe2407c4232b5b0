/* SPDX-License-Identifier: Apache-2.0
 *
 * lapse agent - the recording process; `lapse run` starts it by itself.
 */
#include "cli/cmd.h"

#include "agent/agent.h"
#include "base/err.h"
#include "base/log.h"
#include "cli/launch_scrape.h"
#include "cli/opt.h"
#include "cli/pace.h"
#include "cli/settings.h"
#include "cli/wiring.h"
#include "wire/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AGENT_LOG_MAX (4 << 20) /* bytes of agent.log before it begins anew */

static const char *arg_rendezvous, *arg_config;
static int64_t arg_idle_exit = -1;
static bool arg_foreground, arg_verbose;

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

/* What no argument says, the configuration does; then the log can be opened. */
static void agent_configure(struct settings *s)
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
	settings_done(s);
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
	agent_configure(&settings);
	if (err)
		log_warn("%s; it is left out", e.text);
	err_clear(&e);
	o.idle_exit_ns = arg_idle_exit;
	err = agent_run(&o, &e);
	wiring_wait();
	/* Eight launchers may start eight agents: seven find the first one. */
	if (err == -EAGAIN && !arg_foreground)
		return 0;
	if (err) {
		log_error("%s", e.text);
		fprintf(stderr, "lapse agent: %s\n", e.text);
	}
	return err ? 1 : 0;
}
