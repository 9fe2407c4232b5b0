/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_serve.h - the dashboard of live runs: a server of its own process, started when
 * none goes with the rendezvous folder yet, without ever waiting for it.
 */
#ifndef CLI_LAUNCH_SERVE_H
#define CLI_LAUNCH_SERVE_H

#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAUNCH_SERVE_URL_MAX 512

struct launch_serve {
	bool wanted; /* and not started or told yet */
	bool is_started;
	int dirfd;          /* of the rendezvous; the owner's */
	const char *dir;    /* its absolute path; the owner's */
	const char *config; /* its configuration file; NULL: none */
	const char *host;   /* NULL, port 0: as configured */
	int64_t port;
	int64_t since_ns; /* when it was started, CLOCK_MONOTONIC */
};

/* Is it wanted? Options go before dashboard.enabled; without either it is for people: on a
 * terminal. */
bool launch_serve_is_wanted(const struct config *c, bool yes, bool no, bool is_terminal);

/* Start it if there is none. True, once: it is there, and url is where. Called now and then;
 * gives up after some seconds (agent.log says why there is none). */
bool launch_serve_tick(struct launch_serve *s, char url[LAUNCH_SERVE_URL_MAX]);

/* The same, and tell people on stderr unless quiet. */
void launch_serve_say(struct launch_serve *s, const char *run, bool quiet);

#endif
