/* SPDX-License-Identifier: Apache-2.0
 *
 * route_alerts.c - routes: alerts.
 */
#include "server/routes.h"

const struct route route_alerts[] = {
	{0},
};
