/* SPDX-License-Identifier: Apache-2.0
 *
 * import_folded.h - stacks with weights out of files of other tools: PyTorch's stacks.txt
 * (export_stacks), py-spy's raw format and any collapsed stacks, and speedscope's JSON.
 */
#ifndef TRACE_IMPORT_FOLDED_H
#define TRACE_IMPORT_FOLDED_H

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define IMPORT_FILE_MAX (1u << 30) /* bytes of a file that is read whole */
#define IMPORT_FRAMES_MAX 4096     /* frames of one stack; deeper ones are cut at the root */

struct import_line {
	size_t at, len; /* the stack in text: frames parted by ';', the root first */
	double weight;
};

struct import_folded {
	struct buf text;
	struct import_line *lines; /* in the order of the file */
	size_t n, cap;
	double total;
	uint64_t skipped;       /* lines without a weight, empty, or with a weight below 0 */
	uint64_t first_skipped; /* number of the first, from 1 */
	char unit[24];          /* "samples", "microseconds" as the file says; "" unknown */
	char what[32];          /* "collapsed", "speedscope" */
};

/* data may change. By content: JSON is speedscope, anything else collapsed. 0, -EBADMSG (no
 * stack in it), -ENOMEM, -E2BIG. */
int import_folded(char *data, size_t len, struct import_folded *ret, struct err *e);
void import_folded_done(struct import_folded *f);

/* Making, for importers of other formats: what was appended to text since `at` is a stack. */
int import_folded_add(struct import_folded *f, size_t at, double weight);
/* Append a frame's name; what would end a frame or a line is replaced. */
void import_folded_frame(struct import_folded *f, const char *name, size_t len);

#endif
