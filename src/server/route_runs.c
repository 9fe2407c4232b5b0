/* SPDX-License-Identifier: Apache-2.0
 *
 * route_runs.c - routes: runs.
 */
#include "server/routes.h"

const struct route route_runs[] = {
	{0},
};
