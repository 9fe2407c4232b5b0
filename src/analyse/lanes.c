/* SPDX-License-Identifier: Apache-2.0
 *
 * lanes.c - see lanes.h.
 */
#include "analyse/lanes.h"

enum lanes_kind lanes_kind_of(enum trace_cat cat)
{
	switch (cat) {
	case TRACE_CAT_KERNEL:
	case TRACE_CAT_GPU_MEMCPY:
	case TRACE_CAT_GPU_MEMSET:
	case TRACE_CAT_MTIA_CCP_EVENTS:
		return LANES_DEVICE;
	case TRACE_CAT_GPU_USER_ANNOTATION:
	case TRACE_CAT_CUDA_SYNC:
	case TRACE_CAT_CUDA_EVENT:
		return LANES_MARK;
	default:
		return LANES_HOST;
	}
}

bool lanes_is_event(const struct trace_block *b, uint32_t i)
{
	return (b->flags[i] & TRACE_HAS_DUR) && !(b->flags[i] & TRACE_BROKEN) && b->dur[i] >= 0 &&
	       b->dur[i] < INT64_MAX / 4 && b->ts[i] < INT64_MAX / 4 && b->ts[i] > INT64_MIN / 4 &&
	       b->cat[i] != TRACE_CAT_TRACE;
}
