/* SPDX-License-Identifier: Apache-2.0
 *
 * hub.h - live updates: one thread follows the runs that somebody watches and gives what is
 * new to all who watch them (docs/http.md, "Live"). Nobody waits for a client.
 */
#ifndef SERVER_HUB_H
#define SERVER_HUB_H

#include "server/http.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HUB_RUNS_MAX 8u     /* of a stream */
#define HUB_WATCHED_MAX 64u /* runs in all */
#define HUB_STREAMS_MAX 256u
#define HUB_WAIT_MAX (1u << 20)    /* bytes that may wait for a client */
#define HUB_REFRESH_NS 200000000LL /* least time between two updates, unless told otherwise */

struct hub;

/* Where the runs are, for the list of them; asked by the hub's thread. */
struct hub_options {
	int64_t refresh_ns; /* 0: HUB_REFRESH_NS */
	/* Copies of the folders' names, ended by NULL; the caller frees them. */
	char **(*roots)(void *arg);
	void *arg;
};

/* What a client wants. */
struct hub_ask {
	struct hub_ask_run {
		char id[256], dir[4096];
	} runs[HUB_RUNS_MAX];
	size_t n;
	bool has_list;     /* changes of the list of runs, too */
	const char *after; /* an event's id; NULL: from now on */
};

/* NULL: there are no threads to be had. */
struct hub *hub_new(const struct hub_options *o);
/* A stream for the client, which the answer takes. Any thread. -EAGAIN: there are too many
 * streams, or it stops. */
int hub_join(struct hub *h, const struct hub_ask *ask, struct http_stream **ret);
/* End the thread and all streams; then hub_join() gives -EAGAIN. */
void hub_stop(struct hub *h);
void hub_free(struct hub *h);

#endif
