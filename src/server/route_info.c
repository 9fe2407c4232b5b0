/* SPDX-License-Identifier: Apache-2.0
 *
 * route_info.c - routes: info.
 */
#include "server/routes.h"

const struct route route_info[] = {
	{0},
};
