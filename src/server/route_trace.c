/* SPDX-License-Identifier: Apache-2.0
 *
 * route_trace.c - routes: trace.
 */
#include "server/routes.h"

const struct route route_trace[] = {
	{0},
};
