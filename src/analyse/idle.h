/* SPDX-License-Identifier: Apache-2.0
 *
 * idle.h - why each stream had nothing to do: its gaps, and what each waited for. Definition:
 * docs/trace-numbers.md, "idle"; HTA 0.6.1 get_idle_time_breakdown().
 */
#ifndef ANALYSE_IDLE_H
#define ANALYSE_IDLE_H

#include "analyse/numeric.h"
#include "trace/view.h"

enum idle_kind {
	IDLE_HOST_WAIT,   /* the launch came after the stream had run dry */
	IDLE_KERNEL_WAIT, /* a gap shorter than the delay between two kernels */
	IDLE_OTHER,       /* longer, though the launch was there: an event, another stream, ... */
	IDLE_KINDS
};

extern const char *const idle_names[IDLE_KINDS];

struct idle_kind_time {
	bool is_there;  /* hta: HTA's table has this row; exact: always */
	int64_t time;   /* ns, sum of gaps */
	double time_us; /* the same; hta: in HTA's doubles, not rounded */
	double ratio;   /* of all gaps of the stream, not rounded; without any 0 (hta: NaN) */
	/* Of the gaps, in us, not rounded. */
	struct numeric_describe gaps;
};

struct idle_stream {
	int32_t stream;
	uint16_t
		track; /* exact: streams of several devices are kept apart; hta: of its first row */
	uint64_t rows;
	struct idle_kind_time kinds[IDLE_KINDS];
};

struct idle {
	struct idle_stream *streams; /* hta: as they come in the table; exact: by their first row */
	size_t n;
};

#define IDLE_DELAY_NS 30000 /* HTA's consecutive_kernel_delay */

/* delay: gaps below it, in ns, are the machine's own between two kernels. 0, -ENOMEM,
 * -ENODATA: no row of a device. */
int idle_new(const struct view *v, int64_t delay, struct idle *ret);
void idle_done(struct idle *i);

#endif
