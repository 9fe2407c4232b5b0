/* SPDX-License-Identifier: Apache-2.0
 *
 * runlist.h - the table of runs: those of all folders that fit what was asked, in order.
 */
#ifndef SERVER_RUNLIST_H
#define SERVER_RUNLIST_H

#include "base/json.h"
#include "report/pick.h"
#include "server/routes.h"

#define RUNLIST_METRICS_MAX 16u

/* A run of the index. */
struct runlist_row {
	size_t root, run;
};

struct runlist {
	const struct server_index *x; /* held by the caller */
	struct runlist_row *rows;     /* that match */
	size_t n, total;
};

/* "running", "finished", "failed", "lost", "unreadable". */
const char *runlist_status(const struct index_run *r);
const char *runlist_status_of(const struct store_run *run);

/* All that fit the parameters q, filter, status, tag, project, in the order of sort. false:
 * the reply says what is wrong. In both cases runlist_done() afterwards. */
bool runlist_choose(struct runlist *l, const struct route_ask *a, struct http_reply *reply);
void runlist_done(struct runlist *l);

/* How many runs of all there are of each status, project and tag. */
void runlist_facets(const struct server_index *x, struct json *j);

#endif
