/* SPDX-License-Identifier: Apache-2.0
 *
 * route_assets.c - routes: assets.
 */
#include "server/routes.h"

const struct route route_assets[] = {
	{0},
};
