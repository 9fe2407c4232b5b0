/* SPDX-License-Identifier: Apache-2.0
 *
 * feed_ring.c - see feed_ring.h.
 */
#include "server/feed_ring.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static struct feed_ring_event *feed_ring_at(const struct feed_ring *r, size_t i)
{
	return &r->v[(r->first + i) % r->cap];
}

void feed_ring_init(struct feed_ring *r, uint64_t seq)
{
	*r = (struct feed_ring){.floor = seq};
}

static void feed_ring_drop(struct feed_ring *r)
{
	struct feed_ring_event *e = feed_ring_at(r, 0);

	r->floor = e->seq;
	r->bytes -= e->len;
	free(e->data);
	r->first = (r->first + 1) % r->cap;
	r->n--;
}

void feed_ring_done(struct feed_ring *r)
{
	while (r->n)
		feed_ring_drop(r);
	free(r->v);
	*r = (struct feed_ring){.floor = r->floor};
}

static void feed_ring_grow(struct feed_ring *r)
{
	size_t cap = r->cap ? 2 * r->cap : 64, i;
	struct feed_ring_event *v = xcalloc(cap, sizeof(*v));

	for (i = 0; i < r->n; i++)
		v[i] = *feed_ring_at(r, i);
	free(r->v);
	r->v = v;
	r->cap = cap;
	r->first = 0;
}

void feed_ring_add(struct feed_ring *r, uint64_t seq, int64_t now_ns, const void *data, size_t len)
{
	struct feed_ring_event *e;

	if (r->n == r->cap)
		feed_ring_grow(r);
	e = feed_ring_at(r, r->n++);
	*e = (struct feed_ring_event){seq, now_ns, len, xcalloc(1, len + 1)};
	memcpy(e->data, data, len);
	r->bytes += len;
}

void feed_ring_trim(struct feed_ring *r, int64_t now_ns, size_t most)
{
	while (r->n && (r->bytes > most || now_ns - feed_ring_at(r, 0)->at_ns > FEED_RING_NS))
		feed_ring_drop(r);
}

const struct feed_ring_event *feed_ring_after(const struct feed_ring *r, uint64_t seq)
{
	size_t low = 0, high = r->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (feed_ring_at(r, middle)->seq > seq)
			high = middle;
		else
			low = middle + 1;
	}
	return low < r->n ? feed_ring_at(r, low) : NULL;
}
