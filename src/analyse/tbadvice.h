/* SPDX-License-Identifier: Apache-2.0
 *
 * tbadvice.h - torch-tb-profiler's recommendations, with its thresholds and its sentences (links
 * left out). docs/trace-numbers.md, "The plugin's recommendations".
 */
#ifndef ANALYSE_TBADVICE_H
#define ANALYSE_TBADVICE_H

#include "analyse/tbgpu.h"
#include "analyse/tbkernels.h"
#include "analyse/tbmemory.h"
#include "analyse/tbsteps.h"

#define TBADVICE_MAX 8

struct tbadvice {
	char text[TBADVICE_MAX][512];
	size_t n;
};

/* memory may be NULL. */
void tbadvice_make(const struct tbrows *b, const struct tbsteps *s, const struct tbgpu *g,
		   const struct tbkernels *k, const struct tbmemory *m, struct tbadvice *ret);

#endif
