/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_ring.c - see hub_ring.h.
 */
#include "server/hub_ring.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static struct hub_ring_event *hub_ring_at(const struct hub_ring *r, size_t i)
{
	return &r->v[(r->first + i) % r->cap];
}

void hub_ring_init(struct hub_ring *r, uint64_t seq)
{
	*r = (struct hub_ring){.floor = seq};
}

static void hub_ring_drop(struct hub_ring *r)
{
	struct hub_ring_event *e = hub_ring_at(r, 0);

	r->floor = e->seq;
	r->bytes -= e->len;
	free(e->data);
	r->first = (r->first + 1) % r->cap;
	r->n--;
}

void hub_ring_done(struct hub_ring *r)
{
	while (r->n)
		hub_ring_drop(r);
	free(r->v);
	*r = (struct hub_ring){.floor = r->floor};
}

static void hub_ring_grow(struct hub_ring *r)
{
	size_t cap = r->cap ? 2 * r->cap : 64, i;
	struct hub_ring_event *v = xcalloc(cap, sizeof(*v));

	for (i = 0; i < r->n; i++)
		v[i] = *hub_ring_at(r, i);
	free(r->v);
	r->v = v;
	r->cap = cap;
	r->first = 0;
}

void hub_ring_add(struct hub_ring *r, uint64_t seq, int64_t now_ns, const void *data, size_t len)
{
	struct hub_ring_event *e;

	if (r->n == r->cap)
		hub_ring_grow(r);
	e = hub_ring_at(r, r->n++);
	*e = (struct hub_ring_event){seq, now_ns, len, xcalloc(1, len + 1)};
	memcpy(e->data, data, len);
	r->bytes += len;
}

void hub_ring_trim(struct hub_ring *r, int64_t now_ns, size_t most)
{
	while (r->n && (r->bytes > most || now_ns - hub_ring_at(r, 0)->at_ns > HUB_RING_NS))
		hub_ring_drop(r);
}

const struct hub_ring_event *hub_ring_after(const struct hub_ring *r, uint64_t seq)
{
	size_t low = 0, high = r->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (hub_ring_at(r, middle)->seq > seq)
			high = middle;
		else
			low = middle + 1;
	}
	return low < r->n ? hub_ring_at(r, low) : NULL;
}
