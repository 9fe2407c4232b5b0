/* SPDX-License-Identifier: Apache-2.0
 *
 * route_files.c - routes: files.
 */
#include "server/routes.h"

const struct route route_files[] = {
	{0},
};
