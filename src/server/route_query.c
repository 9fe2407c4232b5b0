/* SPDX-License-Identifier: Apache-2.0
 *
 * route_query.c - routes: query.
 */
#include "server/routes.h"

const struct route route_query[] = {
	{0},
};
