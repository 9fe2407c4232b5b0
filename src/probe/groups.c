/* SPDX-License-Identifier: Apache-2.0
 *
 * groups.c - the table of all groups, in the order in which they are read.
 */
#include "probe/groups.h"

#include <stddef.h>

const struct probe_group *const probe_groups[] = {
	&probe_self,
	/* of a run */
	&probe_tree_group,
	NULL,
};
