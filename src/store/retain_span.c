/* SPDX-License-Identifier: Apache-2.0
 *
 * retain_span.c - see retain.h.
 */
#include "store/retain.h"

#include <string.h>

#define RETAIN_TIME_MAX ((int64_t)1 << 62)
#define RETAIN_WIDTH 1000000 /* ns, at first */

/* Buckets twice as wide, so that the span begins where it did, or ends there. */
static void retain_span_widen(struct retain_span *s, bool down)
{
	uint64_t old[RETAIN_BUCKETS];
	size_t i, at = down ? RETAIN_BUCKETS / 2 : 0;

	memcpy(old, s->bytes, sizeof(old));
	memset(s->bytes, 0, sizeof(s->bytes));
	for (i = 0; i < RETAIN_BUCKETS; i++)
		s->bytes[at + i / 2] += old[i];
	if (down)
		s->from -= s->width * (int64_t)RETAIN_BUCKETS;
	s->width *= 2;
}

void retain_span_add(struct retain_span *s, int64_t time, uint64_t bytes)
{
	uint64_t at;

	time = time < 0 ? 0 : time > RETAIN_TIME_MAX ? RETAIN_TIME_MAX : time;
	if (s->width == 0) {
		s->from = time;
		s->width = RETAIN_WIDTH;
	}
	while (time < s->from)
		retain_span_widen(s, true);
	while ((at = ((uint64_t)time - (uint64_t)s->from) / (uint64_t)s->width) >= RETAIN_BUCKETS)
		retain_span_widen(s, false);
	s->bytes[at] += bytes;
}

int64_t retain_span_before(const struct retain_span *s, double bytes)
{
	double sum = 0;
	size_t i = 0;

	while (i < RETAIN_BUCKETS && sum < bytes)
		sum += (double)s->bytes[i++];
	return s->from + (int64_t)i * s->width;
}
