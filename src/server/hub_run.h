/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_run.h - a run that somebody watches: notices that its store has grown, reads what is
 * new once and makes events of it. Belongs to the hub's thread.
 */
#ifndef SERVER_HUB_RUN_H
#define SERVER_HUB_RUN_H

#include "base/fmt.h"
#include "server/hub_encode.h"
#include "server/hub_ring.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hub_process;

struct hub_run {
	struct hub_run *next;
	char id[256], dir[4096];
	struct hub_ring ring;
	unsigned clients;
	int64_t idle_ns; /* since when there is none; 0: there are */
	int64_t step_ns; /* of the last step */
	bool is_due;     /* there is something new, or may be */

	/* the store */
	struct store_reader *reader; /* NULL: not open */
	struct store_cursor *cursor; /* NULL: never opened */
	char *files;                 /* names of what is read */
	char **paths;                /* of it, ended by NULL */
	uint64_t stamp, dir_stamp;   /* as they were */
	int64_t list_ns;             /* when they were looked up */
	bool has_failed;             /* which has been told */
	size_t per_series;           /* points of one in the next step */

	/* the run */
	char state[FMT_MAX];
	bool is_live, is_ended;
	uint64_t end_seq; /* of the event `end` */
	int64_t start_ns, end_ns, end_seen_ns;
	int64_t step;
	uint64_t stored, dropped, edit; /* edit: of name, tags and notes */
	uint64_t acks;                  /* of the file alerts.ack as it was */
	struct hub_process *processes;
	size_t n_processes, cap_processes;
	struct buf changed; /* processes that have changed, as JSON */
};

/* Events after seq. */
struct hub_run *hub_run_new(const char *id, const char *dir, uint64_t seq);
void hub_run_free(struct hub_run *r);

/* Has the run's store changed since the last step? Cheap: it looks at files only. */
bool hub_run_look(struct hub_run *r, int64_t now_ns);

/* Make events of what is new; the first time of all, of nothing. 1: there is more. 0, or
 * -errno and *e: ask again later. */
int hub_run_step(struct hub_run *r, struct hub_batch *batch, int64_t now_ns, struct err *e);

/* Nobody watches: the store is closed, what was read is kept. */
void hub_run_rest(struct hub_run *r);

/* Keys of `hello`, but `run`, into an open object. */
void hub_run_put_hello(const struct hub_run *r, struct json *j, int64_t refresh_ns,
		       bool is_resumed);
/* And of `end`. */
void hub_run_put_end(const struct hub_run *r, struct json *j);

/* Name, size and time of a file as one number; 0: there is none. */
uint64_t hub_stamp(const char *path);

#endif
