/* SPDX-License-Identifier: Apache-2.0
 *
 * eventtext.h - one event as it stands in the file: what the model does not hold of it, too. The
 * file is read once more, up to that event.
 */
#ifndef TRACE_EVENTTEXT_H
#define TRACE_EVENTTEXT_H

#include "base/buf.h"
#include "trace/trace.h"

/* Append the text of row i of b, well-formed JSON (mended where it had to be; of a pair that of
 * its "B"). 0; -ENOENT: it is not found again (the file is another one now, or the event was
 * mended in another way, or it cannot be told from others); -ESPIPE: the file cannot be read a
 * second time; -EFBIG: it has more than out may hold; what reading said. */
int eventtext_read(struct trace *t, const struct trace_block *b, uint32_t i, struct buf *out,
		   struct err *e);

#endif
