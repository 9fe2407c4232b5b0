/* SPDX-License-Identifier: Apache-2.0
 *
 * runspark.h - a metric of a run in some tens of numbers, for a small chart in the table of
 * runs; kept as long as the run's files are the same.
 */
#ifndef SERVER_RUNSPARK_H
#define SERVER_RUNSPARK_H

#include "base/json.h"
#include "server/server.h"

#define RUNSPARK_BUCKETS 40u

struct runspark {
	size_t n;                   /* 0: the run has no such metric */
	double v[RUNSPARK_BUCKETS]; /* NaN: nothing */
};

/* Of the run in the folder. key: number of its files' state (index_run.key); 0: they change,
 * what was read is kept for a while. Any thread. */
void runspark_get(struct server *s, const char *dir, const char *metric, uint64_t key,
		  struct runspark *ret);

/* An array, or null. */
void runspark_json(struct json *j, const struct runspark *spark);

#endif
