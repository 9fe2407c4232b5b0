/* SPDX-License-Identifier: Apache-2.0
 *
 * routes.c - the groups of routes.
 */
#include "server/routes.h"

#include "base/mem.h"

static const struct route *const routes_groups[] = {
	route_info,    route_runs,    route_query, route_events, route_export,
	route_alerts,  route_verdict, route_compare, route_files, route_trace,
	route_live,    route_metrics, route_compat, route_assets,
};
