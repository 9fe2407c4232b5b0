/* SPDX-License-Identifier: Apache-2.0
 *
 * repair_priv.h - what the files of the repair share.
 */
#ifndef TRACE_REPAIR_PRIV_H
#define TRACE_REPAIR_PRIV_H

#include "trace/repair.h"

typedef const unsigned char *repair_place;

/* Behind the strict value at p (no blanks before it), or NULL: *ret_more when the text ended
 * within it. */
repair_place repair_strict(repair_place p, repair_place end, bool *ret_more);

void repair_note(struct repair_result *r, enum repair_kind kind, uint64_t offset, repair_place p,
		 repair_place end);

static inline bool repair_is_blank(unsigned char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline repair_place repair_blanks(repair_place p, repair_place end)
{
	while (p < end && repair_is_blank(*p))
		p++;
	return p;
}

#endif
