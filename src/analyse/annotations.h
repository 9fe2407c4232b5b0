/* SPDX-License-Identifier: Apache-2.0
 *
 * annotations.h - time in the program's own marks (record_function, ProfilerStep, optimizer
 * steps), on the host or as the device saw them. Definition: docs/trace-numbers.md,
 * "annotations"; HTA 0.6.1 get_gpu_user_annotation_breakdown().
 */
#ifndef ANALYSE_ANNOTATIONS_H
#define ANALYSE_ANNOTATIONS_H

#include "analyse/aggregate.h"
#include "trace/view.h"

#define ANNOTATIONS_MOST 1000 /* names that HTA shows of each rank */

/* Of n ranks, by rank and name; on_device: those of cat gpu_user_annotation, else of
 * user_annotation. 0, -ENOMEM, -ENODATA: no trace has any. */
int annotations_new(const struct view *v, size_t n, bool on_device,
		    const struct aggregate_options *o, struct aggregate *ret);

#endif
