/* SPDX-License-Identifier: Apache-2.0
 *
 * tracehead.h - what stands above the tables of `lapse trace`: which files, and what the
 * numbers were made of.
 */
#ifndef CLI_TRACEHEAD_H
#define CLI_TRACEHEAD_H

#include "report/table.h"
#include "cli/tracecmd.h"

void tracehead_print(const struct tracecmd_set *s, const struct term *term, FILE *to);

/* "exact", "hta", "hta_exact", "plugin". */
const char *tracehead_rule(const struct tracecmd_set *s);

#endif
