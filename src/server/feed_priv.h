/* SPDX-License-Identifier: Apache-2.0
 *
 * feed_priv.h - what the files of feed.h share. All but the head of struct feed belongs to
 * the hub's thread.
 */
#ifndef SERVER_FEED_PRIV_H
#define SERVER_FEED_PRIV_H

#include "server/feed.h"
#include "server/feed_list.h"
#include "server/feed_run.h"

#include <pthread.h>

#define FEED_BOOT_LEN 6

/* Who watches. */
struct feed_client {
	struct feed_client *next;
	struct http_stream *stream;
	struct feed_ask ask; /* after: not used */
	struct feed_run *runs[FEED_RUNS_MAX];
	bool is_greeted[FEED_RUNS_MAX], is_ended[FEED_RUNS_MAX];
	char after[FEED_ID_MAX]; /* as it was asked; "": from now on */
	bool is_known;           /* `after` is ours: `at` is its number */
	bool is_late;            /* gets what was missed, from `at` on */
	bool is_behind;          /* it was too slow: what comes is left out */
	uint64_t at;             /* the last event that it was given while it is late */
	int64_t said_ns;
};

struct feed {
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t wake;
	struct feed_client *joining;
	unsigned n_streams;
	bool is_stopping;
	struct feed_counts counts;

	pthread_t thread;
	bool has_thread;
	struct feed_options o;
	char boot[FEED_BOOT_LEN + 1];
	struct feed_client *clients;
	struct feed_run *runs;
	size_t n_runs;
	struct feed_list *list; /* NULL: nobody wants it */
	struct feed_batch batch;
	struct buf out;
};

/* feed_client.c: false: the client is gone, or done with, and is to be dropped. */
bool feed_client_greet(struct feed *l, struct feed_client *c, int64_t now_ns);
/* Give it what its run has just made; with r NULL the list has. */
bool feed_client_give(struct feed *l, struct feed_client *c, const struct feed_run *r,
		      int64_t now_ns);
/* What does not come from news: gaps, what it missed, comments, the end. */
bool feed_client_tend(struct feed *l, struct feed_client *c, int64_t now_ns);

#endif
