/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_face.h - the top of `lapse trace summary` as people see it: what the files are, and
 * what the time went into as bars that add to 100 %.
 */
#ifndef CLI_TRACE_FACE_H
#define CLI_TRACE_FACE_H

#include "analyse/verdict_trace.h"
#include "cli/traceout.h"

struct trace_face {
	const struct tracecmd_set *set;
	const struct verdict_result *verdict;
	struct verdict_finding findings[VERDICT_FINDINGS_MAX];
	size_t n_findings;
};

/* For traceout_draw(); data is a struct trace_face. */
void trace_face_head(const struct term *term, FILE *to, const void *data);
void trace_face_verdict(const struct term *term, FILE *to, const void *data);
void trace_face_advice(const struct term *term, FILE *to, const void *data);

/* "PyTorch profiler", "Chrome trace": what wrote it, as far as it shows. */
const char *trace_face_tool(const struct trace *t);

#endif
