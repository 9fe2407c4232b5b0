/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.h - how many pieces of work waited on each stream. Definition:
 * docs/trace-numbers.md, "queue"; HTA 0.6.1 get_queue_length_time_series(), _summary() and
 * get_time_spent_blocked_on_full_queue().
 */
#ifndef ANALYSE_QUEUE_H
#define ANALYSE_QUEUE_H

#include "analyse/numeric.h"
#include "trace/view.h"

struct queue_point {
	int64_t ts;     /* ns; hta: of the row, as in the view */
	int32_t length; /* from here on, if it is the last of its ts */
	uint32_t row;   /* in view->rows, whose change it is */
};

struct queue_stream {
	int32_t stream;
	uint16_t track;                  /* of the work */
	size_t first, n;                 /* in points */
	struct numeric_describe lengths; /* of the points, as HTA: not weighted by time */
	double mean_by_time;             /* weighted by how long each length stood */
	int64_t full;                    /* ns with QUEUE_FULL or more waiting */
	double full_share; /* of the trace: hta: from the first start to the last start */
};

struct queue {
	struct queue_point *points;
	struct queue_stream *streams; /* hta: by stream; exact: by track */
	size_t n;
};

#define QUEUE_FULL 1024 /* CUDA's queue takes so many launches before a call blocks */

/* exact: every call with work counts 1 for each piece of it, from the call's start to the
 * work's start (which is not below the call's start). hta: the calls that HTA knows.
 * 0, -ENOMEM, -ENODATA: no call with work. */
int queue_new(const struct view *v, int32_t full, struct queue *ret);
void queue_done(struct queue *q);

#endif
