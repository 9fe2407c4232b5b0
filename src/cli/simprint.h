/* SPDX-License-Identifier: Apache-2.0
 *
 * simprint.h - what a simulated run holds, without the run: computed again, point
 * by point, and printed as `lapse export --to csv` prints what was stored.
 */
#ifndef CLI_SIMPRINT_H
#define CLI_SIMPRINT_H

#include "simulate/simulate.h"

/* All points of the series whose name matches, to stdout. Exit status; prints why
 * to stderr. 1: also if no series matches. */
int simprint(const struct simulate *m, const char *pattern);

/* The table of faults, to stdout, as text or JSON. */
void simprint_faults(bool json);

#endif
