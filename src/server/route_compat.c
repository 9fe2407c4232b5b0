/* SPDX-License-Identifier: Apache-2.0
 *
 * route_compat.c - routes: compat.
 */
#include "server/routes.h"

const struct route route_compat[] = {
	{0},
};
