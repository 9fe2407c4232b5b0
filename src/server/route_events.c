/* SPDX-License-Identifier: Apache-2.0
 *
 * route_events.c - routes: events.
 */
#include "server/routes.h"

const struct route route_events[] = {
	{0},
};
