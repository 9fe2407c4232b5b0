/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/clocks.h"

#include "base/mem.h"
#include "wire/clock.h"

#define CLOCKS_KEEP_S 10    /* a heartbeat holds so long */
#define CLOCKS_FAR 50000000 /* between two anchors for a rate */

void clocks_read(struct clocks *out)
{
	uint32_t kind;

	for (kind = WIRE_CLOCK_MONOTONIC; kind < ARRAY_LEN(out->at); kind++)
		clock_anchor(kind, &out->at[kind]);
}

static uint64_t clocks_rate(const struct clocks *first, const struct clocks *now,
			    const struct wire_ring *ring)
{
	const struct wire_anchor *from = &first->at[ring->clock], *to = &now->at[ring->clock];

	if (to->mono_ns - from->mono_ns <= CLOCKS_FAR)
		return ring->ticks_per_s;
	return (uint64_t)((double)(to->ticks - from->ticks) * 1e9 /
			  (double)(to->mono_ns - from->mono_ns));
}

void clocks_keep(const struct clocks *first, const struct clocks *now, struct reader *r)
{
	uint64_t span = clocks_rate(first, now, &r->ring) * CLOCKS_KEEP_S;

	reader_keep(r, now->at[r->ring.clock].ticks + span, span);
}
