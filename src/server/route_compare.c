/* SPDX-License-Identifier: Apache-2.0
 *
 * route_compare.c - routes: compare.
 */
#include "server/routes.h"

const struct route route_compare[] = {
	{0},
};
