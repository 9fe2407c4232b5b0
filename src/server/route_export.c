/* SPDX-License-Identifier: Apache-2.0
 *
 * route_export.c - routes: export.
 */
#include "server/routes.h"

const struct route route_export[] = {
	{0},
};
