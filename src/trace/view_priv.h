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

/* Rows that have a correlation: those of one are neighbours, in the order of view->rows, and
 * correlations rise. */
struct view_index {
	uint32_t *rows;
	size_t n;
	/* Where correlations are dense, which they are but for odd traces: rows of low + i are
	 * those from starts[i] on, up to starts[i + 1]. Else NULL. */
	uint32_t *starts;
	int64_t low;
	uint64_t span;
};

/* Which analyses get as v->linked, and pairing and filtering as groups: of n correlations. 0,
 * -ENOMEM. */
int view_index_new(const int64_t *numbers, size_t n, struct view_index **ret);
void view_index_free(struct view_index *x);
/* How many rows from x->rows[i] on are of one correlation. */
static inline size_t view_group(const struct view *v, const struct view_index *x, size_t i)
{
	int64_t number = v->rows[x->rows[i]].correlation;
	size_t j = i + 1;

	while (j < x->n && v->rows[x->rows[j]].correlation == number)
		j++;
	return j - i;
}

/* One trace in the making. hta: rows are in file order until view_filter(). */
struct view_work {
	struct view *v;
	const struct view_options *o;
	struct view_name *names;
	struct view_track *tracks;
	size_t cap;
	/* hta: of each row in file order, apart from it: what is looked at often. */
	int64_t *ts, *numbers;     /* numbers: correlations */
	uint8_t *on_device;        /* the row is on HTA's device side when it links and filters (not
				      when it analyses) */
	struct view_index *groups; /* hta, until view_filter(): rows by correlation */
	/* hta: the rows that stay, as HTA's table has them, some several times (NULL: all as they
	 * are), and the place in kept of each row, VIEW_NO_ROW: none. */
	uint32_t *kept, *moved;
	size_t n_kept;
	uint32_t *marks; /* places in rows of those named as steps, in file order */
	size_t n_marks, cap_marks;
};

/* Rows of the trace that the rule may keep; exact: by (ts, index). 0, -ENOMEM, -EOVERFLOW. */
int view_collect(struct view_work *w);
/* Numbers sorted, stable: ret_order[i] is which of them comes to place i; keys are overwritten. The
 * other way round with places: ret_order[i] is the place of number i. NULL: they are sorted as they
 * are. 0, -ENOMEM. */
int view_order(int64_t *keys, size_t n, bool places, uint32_t **ret_order);
/* The same with room for n more numbers in spare; NULL: it makes its own. */
int view_order_with(int64_t *keys, int64_t *spare, size_t n, bool places, uint32_t **ret_order);
/* partner and pair (here a place in rows as they stand). */
int view_pair(struct view_work *w);
/* The step of each row, and v->steps. */
int view_steps(struct view_work *w);
/* hta: rows that HTA drops go, duplicates come, then all by (ts, index); pair follows, and table.
 * drop: there are two steps or more in the job. */
int view_filter(struct view_work *w, bool drop);
/* exact: rows outside the window of the options go; places in rows move, so that the caller
 * pairs again. */
bool view_has_window(const struct view_options *o);
void view_window(struct view_work *w);
/* Free what view_linked() made. */
void view_unlink(struct view *v);

#endif
