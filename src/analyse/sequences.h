/* SPDX-License-Identifier: Apache-2.0
 *
 * sequences.h - which sequences of device work an operator launches, and how often.
 *
 * Definition: HTA 0.6.1, analyzers/cuda_kernel_analysis.py with common/trace_call_graph.py
 * (rules hta, hta_exact). The exact rule takes every outermost call whose name contains the
 * operator's, on every thread and at any depth, and all work that was launched inside it,
 * of every vendor. docs/trace-numbers.md, "Kernel sequences".
 */
#ifndef ANALYSE_SEQUENCES_H
#define ANALYSE_SEQUENCES_H

#include "trace/view.h"

#include <stddef.h>
#include <stdint.h>

struct sequence {
	uint32_t name;     /* of the operator, text id */
	uint32_t *kernels; /* text ids in order of their start */
	size_t n;
	uint64_t count;
	int64_t kernel_ns, operator_ns; /* sums over all times it was found */
	uint32_t example;               /* row of the first such operator */
};

struct sequences_result {
	struct sequence *items; /* most frequent first, then by text */
	size_t n;
	uint64_t operators;  /* calls that were looked at */
	uint64_t short_ones; /* of them launched fewer pieces of work than asked for */
};

struct sequences_options {
	const char *name; /* text that the operator's name contains */
	uint32_t least;   /* pieces of work; 0: HTA's default, 3 */
};

/* 0; -EINVAL: no name; -ENOMEM. No such operator: a result without items. */
int sequences_new(struct view *v, const struct sequences_options *o, struct sequences_result **ret);
void sequences_free(struct sequences_result *s); /* NULL is accepted */

/* "op|kernel|kernel..." as HTA writes it; the caller frees it. NULL: no memory. */
char *sequences_text(const struct view *v, const struct sequence *s);

#endif
