/* SPDX-License-Identifier: Apache-2.0
 *
 * segment.c - where one attempt of a series ends and the next begins: after a
 * resume the steps start again at a lower one.
 */
#include "store/codec.h"

/* A step lower than the highest is a new attempt only if it was recorded later:
 * lanes of several threads arrive one after the other, each going back in time
 * and step together. */
bool segment_next(struct segment *s, int64_t time, int64_t step)
{
	if (step == SINK_STEP_NONE)
		return false;
	if (s->step != SINK_STEP_NONE && step <= s->step) {
		if (step == s->step && time < s->time)
			s->time = time;
		if (step == s->step || time < s->time || s->no + 1 >= SEGMENTS_MAX)
			return false;
		s->no++;
		s->step = step;
		s->time = time;
		return true;
	}
	s->step = step;
	s->time = time;
	return false;
}

int64_t segment_span_end(int64_t start, double duration)
{
	if (!(duration > 0))
		return start;
	if (duration >= 0x1p62 || start > INT64_MAX - (int64_t)duration)
		return INT64_MAX;
	return start + (int64_t)duration;
}
