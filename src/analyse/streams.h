/* SPDX-License-Identifier: Apache-2.0
 *
 * streams.h - rows of a view by a key (stream, track): which rows, in the order of HTA's
 * table or by time, one after the other for each key.
 */
#ifndef ANALYSE_STREAMS_H
#define ANALYSE_STREAMS_H

#include "trace/view.h"

struct streams_one {
	int64_t key;
	size_t first, n; /* in ids */
};

struct streams {
	uint32_t *ids;            /* in view->rows */
	struct streams_one *list; /* in the order in which keys first come */
	size_t n;
};

/* devices: rows without is_gpu are not asked about. 0, -ENOMEM. */
int streams_new(const struct view *v, bool devices,
		bool (*want)(const struct view *, const struct view_row *),
		int64_t (*key)(const struct view *, const struct view_row *), struct streams *ret);
void streams_done(struct streams *s);

#endif
