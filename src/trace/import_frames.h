/* SPDX-License-Identifier: Apache-2.0
 *
 * import_frames.h - stacks with weights added up by frame: what is in a frame alone, and with
 * what it called.
 */
#ifndef TRACE_IMPORT_FRAMES_H
#define TRACE_IMPORT_FRAMES_H

#include "trace/import_folded.h"

struct import_frame {
	const char *name; /* in the text of the stacks, not ended */
	uint32_t len;
	uint64_t count;     /* stacks that it is in */
	double self, total; /* weight: at the end of a stack; anywhere in it, once a stack */
};

struct import_frames {
	struct import_frame *list; /* by self, the largest first; then total, then name */
	size_t n;
};

/* Names point into f. 0, -ENOMEM. */
int import_frames(const struct import_folded *f, struct import_frames *ret);
void import_frames_done(struct import_frames *f);

#endif
