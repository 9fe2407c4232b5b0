/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/launch_serve.h"

#include "cli/launch_detach.h"
#include "cli/servewatch.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SERVE_PATIENCE_NS 10000000000LL

bool launch_serve_is_wanted(const struct config *c, bool yes, bool no, bool is_terminal)
{
	if (yes || no)
		return !no;
	return config_given(c, "dashboard.enabled") ? config_flag(c, "dashboard.enabled")
						    : is_terminal;
}

static void serve_start(struct launch_serve *s)
{
	char port[32], program[] = "lapse", command[] = "serve", to[] = "--rendezvous";
	char *argv[9] = {program, command, to, (char *)s->dir};
	size_t n = 4;

	if (s->port > 0) {
		snprintf(port, sizeof(port), "--port=%" PRId64, s->port);
		argv[n++] = port;
	}
	if (s->host) {
		argv[n++] = (char *)"--host";
		argv[n++] = (char *)s->host;
	}
	launch_detach("/proc/self/exe", argv, s->config);
}

bool launch_serve_tick(struct launch_serve *s, char url[LAUNCH_SERVE_URL_MAX])
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);

	if (!s->wanted)
		return false;
	if (servewatch_url(s->dirfd, url, LAUNCH_SERVE_URL_MAX)) {
		s->wanted = false;
		return true;
	}
	if (!s->is_started && rendezvous_is_locked(s->dirfd, SERVEWATCH_LOCK) != 1)
		serve_start(s);
	if (!s->is_started)
		s->since_ns = now;
	s->is_started = true;
	s->wanted = now - s->since_ns < SERVE_PATIENCE_NS;
	return false;
}

void launch_serve_say(struct launch_serve *s, const char *run, bool quiet)
{
	char url[LAUNCH_SERVE_URL_MAX];

	if (!launch_serve_tick(s, url) || quiet)
		return;
	/* The page that sets the cookie would lose where it was to lead. */
	if (strchr(url, '?'))
		fprintf(stderr, "lapse: dashboard: %s\n", url);
	else
		fprintf(stderr, "lapse: dashboard: %s#/run/%s\n", url, run);
}
