/* SPDX-License-Identifier: Apache-2.0
 *
 * report_usage.h - the parts of `lapse report` on machines, GPUs, processes, energy and
 * what stands out, as text and as JSON.
 */
#ifndef REPORT_REPORT_USAGE_H
#define REPORT_REPORT_USAGE_H

#include "report/standout.h"

/* The sections, each behind an empty line; one of which nothing is known is left out. */
void report_usage_print(const struct usage *u, const struct usage_energy *en,
			const struct term *term);
void report_usage_standouts(const struct standout *all, size_t n, const struct term *term);

/* Keys into the open object of a host. */
void report_usage_json_machine(struct json *j, const struct usage *u, const char *host);

/* "gpus", "process_usage", "energy", "stands_out" into the open object. */
void report_usage_json(struct json *j, const struct usage *u, const struct usage_energy *en);
void report_usage_json_standouts(struct json *j, const struct standout *all, size_t n);

#endif
