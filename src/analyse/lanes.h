/* SPDX-License-Identifier: Apache-2.0
 *
 * lanes.h - which rows of a trace a timeline shows, and what of a track shares its rows.
 */
#ifndef ANALYSE_LANES_H
#define ANALYSE_LANES_H

#include "trace/trace.h"

enum lanes_kind {
	LANES_HOST,
	LANES_DEVICE,
	LANES_MARK, /* annotations and waits as the device saw them: they overlap its work */
	LANES_KINDS
};

enum lanes_kind lanes_kind_of(enum trace_cat cat);

/* Has it a begin and an end that can be drawn? The window of the recording itself is none. */
bool lanes_is_event(const struct trace_block *b, uint32_t i);

#endif
