/* SPDX-License-Identifier: Apache-2.0
 *
 * clocks.h - all clocks that rings may count in. A ring's may be another one than that of
 * the next: the kernel can stop trusting a counter while the agent and a program live.
 */
#ifndef AGENT_CLOCKS_H
#define AGENT_CLOCKS_H

#include "ring/reader.h"

/* At about one moment, an anchor for each enum wire_clock. */
struct clocks {
	struct wire_anchor at[WIRE_CLOCK_CNTVCT + 1];
};

void clocks_read(struct clocks *out);

/* The heartbeat: a full lane drops for the next ten seconds rather than overwrite. first: as
 * read at the start, for the rate. */
void clocks_keep(const struct clocks *first, const struct clocks *now, struct reader *r);

#endif
