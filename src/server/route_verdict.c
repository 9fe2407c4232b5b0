/* SPDX-License-Identifier: Apache-2.0
 *
 * route_verdict.c - routes: verdict.
 */
#include "server/routes.h"

const struct route route_verdict[] = {
	{0},
};
