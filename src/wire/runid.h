/* SPDX-License-Identifier: Apache-2.0
 *
 * runid.h - names of runs: when it began and 4 random characters, so that the
 * order of names is the order of time. Used inside training programs.
 */
#ifndef WIRE_RUNID_H
#define WIRE_RUNID_H

#include <stdint.h>

#define RUNID_LEN 20 /* "20261128-010203-k3f9" */

/* The id of a run that began at utc_ns (years 1970 to 9999), from 3 random
 * bytes. Writes RUNID_LEN characters and NUL. */
void runid_make(char out[RUNID_LEN + 1], int64_t utc_ns, const uint8_t random[3]);

#endif
