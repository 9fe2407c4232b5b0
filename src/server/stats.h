/* SPDX-License-Identifier: Apache-2.0
 *
 * stats.h - the answer to .../stats: figures of series over a range.
 */
#ifndef SERVER_STATS_H
#define SERVER_STATS_H

#include "server/routes.h"

/* Of a series, for percentiles. */
#define STATS_POINTS_MAX (512u << 20)
#define STATS_HISTS_MAX (128u << 20)

void stats_answer(const struct route_ask *a, struct http_reply *reply);

#endif
