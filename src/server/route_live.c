/* SPDX-License-Identifier: Apache-2.0
 *
 * route_live.c - routes: live.
 */
#include "server/routes.h"

const struct route route_live[] = {
	{0},
};
