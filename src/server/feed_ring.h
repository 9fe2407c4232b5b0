/* SPDX-License-Identifier: Apache-2.0
 *
 * feed_ring.h - the last events of a run, for clients that come back: bounded in bytes and
 * in age.
 */
#ifndef SERVER_FEED_RING_H
#define SERVER_FEED_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FEED_RING_NS 600000000000LL
#define FEED_RING_MAX (8u << 20)      /* bytes of a run */
#define FEED_RING_ALL_MAX (64u << 20) /* of all runs */

struct feed_ring_event {
	uint64_t seq;
	int64_t at_ns;
	size_t len;
	char *data; /* owned */
};
struct feed_ring {
	struct feed_ring_event *v; /* by seq; from `first` on, around */
	size_t first, n, cap, bytes;
	uint64_t floor; /* what came after this event is all here */
};

/* Empty; it will have what comes after the event seq. */
void feed_ring_init(struct feed_ring *r, uint64_t seq);
void feed_ring_done(struct feed_ring *r);
/* One more, the newest; data is copied. */
void feed_ring_add(struct feed_ring *r, uint64_t seq, int64_t now_ns, const void *data, size_t len);
/* Drop what is too old and, the oldest first, what is more than so many bytes. */
void feed_ring_trim(struct feed_ring *r, int64_t now_ns, size_t most);
/* The first event after seq, or NULL. */
const struct feed_ring_event *feed_ring_after(const struct feed_ring *r, uint64_t seq);

#endif
