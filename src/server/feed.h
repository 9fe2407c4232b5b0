/* SPDX-License-Identifier: Apache-2.0
 *
 * feed.h - live updates: one thread follows the runs that somebody watches and gives what is
 * new to all who watch them (docs/http.md, "Live"). Nobody waits for a client.
 */
#ifndef SERVER_FEED_H
#define SERVER_FEED_H

#include "server/http.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FEED_RUNS_MAX 8u     /* of a stream */
#define FEED_WATCHED_MAX 64u /* runs in all */
#define FEED_STREAMS_MAX 256u
#define FEED_WAIT_MAX (1u << 20)    /* bytes that may wait for a client */
#define FEED_REFRESH_NS 200000000LL /* least time between two updates, unless told otherwise */

struct feed;

/* Where the runs are, for the list of them; asked by the hub's thread. */
struct feed_options {
	int64_t refresh_ns; /* 0: FEED_REFRESH_NS */
	/* Copies of the folders' names, ended by NULL; the caller frees them. */
	char **(*roots)(void *arg);
	void *arg;
};

/* What a client wants. */
struct feed_ask {
	struct feed_ask_run {
		char id[256], dir[4096];
	} runs[FEED_RUNS_MAX];
	size_t n;
	bool has_list;     /* changes of the list of runs, too */
	const char *after; /* an event's id; NULL: from now on */
};

struct feed_counts {
	uint64_t reads, events, bytes; /* steps that read a store; events made, once each */
	uint64_t puts, gaps;           /* given to clients; those that were too slow */
};

/* NULL: there are no threads to be had. */
struct feed *feed_new(const struct feed_options *o);
/* A stream for the client, which the answer takes. Any thread. -EAGAIN: there are too many
 * streams, or it stops. */
int feed_join(struct feed *l, const struct feed_ask *ask, struct http_stream **ret);
void feed_count(struct feed *l, struct feed_counts *ret);
/* End the thread and all streams; then feed_join() gives -EAGAIN. */
void feed_stop(struct feed *l);
void feed_free(struct feed *l);

#endif
