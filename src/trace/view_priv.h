/* SPDX-License-Identifier: Apache-2.0
 *
 * view_priv.h - what the files of the view share: one trace on its way from all its rows to
 * those of a rule.
 */
#ifndef TRACE_VIEW_PRIV_H
#define TRACE_VIEW_PRIV_H

#include "trace/view.h"

/* What is known of a text by its id. */
struct view_name {
	int32_t step;    /* N of ProfilerStep#N; -1 */
	uint8_t class;   /* enum view_class of a kernel of this name (hta) */
	bool is_sync;    /* "Event Sync", "Context Sync": HTA's rows of the device */
	bool may_launch; /* "...Launch...", "...Memcpy...", ...: it may give the device work */
	bool used;       /* a row has this name */
};

/* What is known of a track. */
struct view_track {
	int32_t stream; /* exact: of rows without args.stream */
	bool is_device; /* a stream of an accelerator by its names (JAX) */
};

/* One trace in the making. Rows are in file order until view_sort_rows(). */
struct view_work {
	struct view *v;
	const struct view_options *o;
	struct view_name *names;
	struct view_track *tracks;
	size_t cap;
};

/* Rows of the trace that the rule may keep. 0, -ENOMEM, -EOVERFLOW. */
int view_collect(struct view_work *w);
/* partner and pair (here a place in rows as they stand). */
int view_pair(struct view_work *w);
/* The step of each row, and v->steps. */
int view_steps(struct view_work *w);
/* hta: rows that HTA drops go, duplicates come; pair and table follow. drop: there are two
 * steps or more in the job. */
int view_filter(struct view_work *w, bool drop);
/* exact: rows outside the window of the options go; places in rows move, so that the caller
 * pairs again. */
bool view_has_window(const struct view_options *o);
void view_window(struct view_work *w);
/* Rows by (ts, index); pair and table follow. */
int view_sort_rows(struct view_work *w);

/* Free what view_linked() made. */
void view_unlink(struct view *v);

/* Is the row on HTA's device side when it links and filters (not when it analyses)? */
bool view_on_device(const struct view_work *w, const struct view_row *r);

#endif
