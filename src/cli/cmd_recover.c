/* SPDX-License-Identifier: Apache-2.0
 *
 * lapse recover - store what dead processes left in their rings, without an
 * agent that stays.
 */
#include "cli/cmd.h"

#include "agent/agent.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/opt.h"
#include "cli/settings.h"
#include "cli/alerting.h"
#include "cli/wiring.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const char *arg_rendezvous;
static bool arg_json, arg_verbose;

static const struct opt recover_rows[] = {
	{.name = "rendezvous",
	 .type = OPT_STR,
	 .value = "DIR",
	 .help = "folder whose rings and runs are taken",
	 .to = &arg_rendezvous},
	{.name = "json", .type = OPT_FLAG, .help = "print the figures as JSON", .to = &arg_json},
	{.name = "verbose",
	 .letter = 'v',
	 .type = OPT_FLAG,
	 .help = "say what is done",
	 .to = &arg_verbose},
	{.name = NULL},
};

const struct opt *cmd_recover_options(void)
{
	return recover_rows;
}

/* Live files of dead writers, in private folders. */
static struct {
	uint64_t moved, kept;
} leftovers;

static int recover_found(void *arg, const char *dir, const char *file, const char *kept,
			 const char *why)
{
	(void)arg;
	leftovers.moved += !kept;
	leftovers.kept += kept != NULL;
	if (kept)
		log_warn("%s", why);
	else
		log_info("%s/%s: finished, and moved there", dir, file);
	return 0;
}

static void recover_print(const struct agent_stats *s)
{
	struct buf b;
	struct json j;

	if (!arg_json) {
		printf("%" PRIu64 " runs, %" PRIu64 " rings; %" PRIu64 " runs finished", s->runs,
		       s->rings, s->finished);
		if (s->refused)
			printf("; %" PRIu64 " files are no sound rings", s->refused);
		if (s->failed_commits)
			printf("; %" PRIu64 " commits failed", s->failed_commits);
		if (leftovers.moved)
			printf("; %" PRIu64 " live files moved into their runs' folders",
			       leftovers.moved);
		if (leftovers.kept)
			printf("; %" PRIu64 " cannot be moved and are kept", leftovers.kept);
		printf("\n");
		return;
	}
	buf_init(&b, 4096);
	json_init(&j, &b);
	json_object(&j);
	json_kuint(&j, "runs", s->runs);
	json_kuint(&j, "rings", s->rings);
	json_kuint(&j, "finished", s->finished);
	json_kuint(&j, "refused", s->refused);
	json_kuint(&j, "commits", s->commits);
	json_kuint(&j, "failed_commits", s->failed_commits);
	json_kuint(&j, "live_moved", leftovers.moved);
	json_kuint(&j, "live_kept", leftovers.kept);
	json_object_end(&j);
	puts(buf_str(&b));
	buf_done(&b);
}

int cmd_recover(int argc, char **argv)
{
	struct agent_options o = {
		.rendezvous = arg_rendezvous, .once = true, .store = &wiring_store};
	const struct store_leftovers to = {.found = recover_found};
	struct agent_stats stats;
	struct settings settings;
	struct err e = {0};
	int err;

	if (argc > 0) {
		fprintf(stderr, "lapse recover: unexpected argument '%s'\n", argv[0]);
		return 2;
	}
	log_open(STDERR_FILENO, arg_verbose ? LOG_LEVEL_INFO : LOG_LEVEL_WARN);
	settings_load(&settings, "recover", NULL);
	wiring_place(settings.config);
	alerting_set(settings.config);
	settings_done(&settings);
	err = agent_run(&o, &e);
	if (err == -EAGAIN) {
		fprintf(stderr, "lapse recover: an agent is running and does this itself "
				"(lapse ls shows the runs)\n");
		return 1;
	}
	if (err) {
		fprintf(stderr, "lapse recover: %s\n", e.text);
		return 1;
	}
	wiring_wait();
	store_finish_leftovers(wiring_local_dir(), &to);
	agent_stats(&stats);
	recover_print(&stats);
	return stats.failed_commits || leftovers.kept ? 1 : 0;
}
