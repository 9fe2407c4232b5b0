/* SPDX-License-Identifier: Apache-2.0
 *
 * route_metrics.c - routes: metrics.
 */
#include "server/routes.h"

const struct route route_metrics[] = {
	{0},
};
