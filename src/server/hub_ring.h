/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_ring.h - the last events of a run, for clients that come back: bounded in bytes and
 * in age.
 */
#ifndef SERVER_HUB_RING_H
#define SERVER_HUB_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HUB_RING_NS 600000000000LL
#define HUB_RING_MAX (8u << 20)      /* bytes of a run */
#define HUB_RING_ALL_MAX (64u << 20) /* of all runs */

struct hub_ring_event {
	uint64_t seq;
	int64_t at_ns;
	size_t len;
	char *data; /* owned */
};
struct hub_ring {
	struct hub_ring_event *v; /* by seq; from `first` on, around */
	size_t first, n, cap, bytes;
	uint64_t floor; /* what came after this event is all here */
};

/* Empty; it will have what comes after the event seq. */
void hub_ring_init(struct hub_ring *r, uint64_t seq);
void hub_ring_done(struct hub_ring *r);
/* One more, the newest; data is copied. */
void hub_ring_add(struct hub_ring *r, uint64_t seq, int64_t now_ns, const void *data, size_t len);
/* Drop what is too old and, the oldest first, what is more than so many bytes. */
void hub_ring_trim(struct hub_ring *r, int64_t now_ns, size_t most);
/* The first event after seq, or NULL. */
const struct hub_ring_event *hub_ring_after(const struct hub_ring *r, uint64_t seq);

#endif
