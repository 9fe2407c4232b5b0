/* SPDX-License-Identifier: Apache-2.0
 *
 * overview.c - the dozen lines that say how a run went: printed by `lapse run`
 * at the end, and the top of `lapse report`.
 */
#ifndef REPORT_OVERVIEW_H
#define REPORT_OVERVIEW_H

#include <stdio.h>

#include "report/figures.h"

#define SUMMARY_PHASES 8 /* phases in the short form */

/* Read the run in the folder and print its summary. 0 or -errno; on error one
 * line says why, instead of or after what could be printed. */
int report_summary(const char *run_dir, FILE *to);

/* Print figures that were read already: the head and the phases, at most
 * max_phases of them (0: all). */
void overview_print(const struct figures *f, const struct term *term, FILE *to, size_t max_phases);

#endif
