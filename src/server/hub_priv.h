/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_priv.h - what the files of hub.h share. All but the head of struct hub belongs to
 * the hub's thread.
 */
#ifndef SERVER_HUB_PRIV_H
#define SERVER_HUB_PRIV_H

#include "server/hub.h"
#include "server/hub_list.h"
#include "server/hub_run.h"

#include <pthread.h>

#define HUB_BOOT_LEN 6

/* Who watches. */
struct hub_client {
	struct hub_client *next;
	struct http_stream *stream;
	struct hub_ask ask; /* after: not used */
	struct hub_run *runs[HUB_RUNS_MAX];
	bool is_greeted[HUB_RUNS_MAX], is_ended[HUB_RUNS_MAX];
	bool is_failed[HUB_RUNS_MAX]; /* it knows that the run cannot be read */
	char after[HUB_ID_MAX];       /* as it was asked; "": from now on */
	bool is_known;                /* `after` is ours: `at` is its number */
	bool is_late;                 /* gets what was missed, from `at` on */
	bool is_behind;               /* it was too slow: what comes is left out */
	uint64_t at;                  /* the last event that it was given while it is late */
	uint64_t told[HUB_RUNS_MAX];  /* what is missing of a run up to this event it knows */
	int64_t said_ns;
};

struct hub {
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t wake;
	struct hub_client *joining;
	unsigned n_streams;
	bool is_stopping;

	pthread_t thread;
	bool has_thread;
	struct hub_options o;
	char boot[HUB_BOOT_LEN + 1];
	struct hub_client *clients;
	struct hub_run *runs;
	size_t n_runs;
	struct hub_list *list; /* NULL: nobody wants it */
	struct hub_batch batch;
	struct buf out;
};

/* hub_client.c: false: the client is gone, or done with, and is to be dropped. */
bool hub_client_greet(struct hub *h, struct hub_client *c, int64_t now_ns);
/* Give it what its run has just made; with r NULL the list has. */
bool hub_client_give(struct hub *h, struct hub_client *c, const struct hub_run *r, int64_t now_ns);
/* What does not come from news: gaps, what it missed, comments, the end. */
bool hub_client_tend(struct hub *h, struct hub_client *c, int64_t now_ns);

#endif
