/* SPDX-License-Identifier: Apache-2.0
 *
 * traceparts.h - the views and parts of traces that fit into --memory: all of them, whole steps
 * in the middle, or an error where a part would give other numbers.
 */
#ifndef CLI_TRACEPARTS_H
#define CLI_TRACEPARTS_H

#include "cli/tracecmd.h"

/* Make set->view, and set->fit if the rule allows parts; or, without views, set->fit. 0, or an exit
 * status after printing why not. */
int traceparts_views(struct tracecmd_set *s);
int traceparts_find(struct tracecmd_set *s);

/* Smallest ts and largest end of the first trace, all of it, where there are views. */
void traceparts_span(const struct tracecmd_set *s, int64_t *ret_begin, int64_t *ret_end);

/* A sentence about the part that was looked at; NULL: all of it was. The caller frees it. */
char *traceparts_text(const struct tracecmd_set *s);
/* The same on stderr, for what is printed without sentences. */
void traceparts_warn(const struct tracecmd_set *s);

#endif
