/* SPDX-License-Identifier: Apache-2.0
 *
 * annotated.h - the device's work under the program's own marks: to each kernel the innermost
 * annotation that the device saw around it. Definition: docs/trace-numbers.md,
 * "annotations"; HTA 0.6.1 get_gpu_kernels_with_user_annotations().
 */
#ifndef ANALYSE_ANNOTATED_H
#define ANALYSE_ANNOTATED_H

#include "trace/view.h"

struct annotated_row {
	uint32_t name;    /* text id of the annotation; 0: under none */
	uint64_t kernels; /* copies and sets too */
	int64_t time;     /* ns, sum of their durations */
};

struct annotated {
	struct annotated_row *rows; /* by name (bytes); that of no annotation first */
	size_t n;
	uint32_t *marks; /* for each row of the view the row of its annotation; VIEW_NO_ROW */
};

/* An annotation counts for work of its own track (device and stream) that it overlaps; of
 * several the shortest. hta: rows of the device by stream and correlation. 0, -ENOMEM,
 * -ENODATA: the device saw no annotation. */
int annotated_new(const struct view *v, struct annotated *ret);
void annotated_done(struct annotated *a);

#endif
