/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep.h - deletes what killed programs left half-made among the rings: files
 * under a temporary name, and control pages without a ring. Nobody else does.
 */
#ifndef AGENT_SWEEP_H
#define AGENT_SWEEP_H

#include <stdbool.h>

#define SWEEP_AGE_S 60 /* younger files may belong to a program that we cannot see */

/* Delete the files of the folder `rings` that are no part of a ring, are older
 * than SWEEP_AGE_S and whose process is dead. Returns how many. */
unsigned sweep_rings(int rings);

/* Is there a ring whose control page is the file `ctl`? Yes too if that cannot be seen. */
bool sweep_has_ring(int rings, const char *ctl);

#endif
