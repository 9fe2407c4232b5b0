/* SPDX-License-Identifier: Apache-2.0
 *
 * writer.h - the writing end of a lane: reserve, fill, commit. Everything here
 * runs in the training program; the inline functions are the hot path.
 *
 * A struct ring_writer is private memory of one thread at a time, kept in a
 * MADV_WIPEONFORK mapping: in a child of fork() all of it reads as zero, so the
 * check that every record makes anyway (head against limit) sends the child to
 * the slow path, without a lock or a getpid().
 */
#ifndef RING_WRITER_H
#define RING_WRITER_H

#include "wire/wire.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#define RING_MARKS 32u

struct ring_writer {
	uint64_t head;        /* copy of lane->head, never read back from there */
	uint64_t limit;       /* head may grow up to it without looking; 0 while the
				 thread is between ring_begin() and ring_commit(),
				 so that a handler finds no room */
	uint64_t records;     /* committed since the lane began */
	unsigned char *slots; /* first slot */
	uint64_t mask;        /* slots - 1 */
	struct wire_lane *lane;
	struct wire_ctl *ctl;

	/* Slow path only. */
	void *set;     /* the owner's: which set of lanes this belongs to */
	uint32_t used; /* tid of the thread that owns it; 0: free (atomic) */
	uint32_t tid;
	uint64_t floor; /* copy of the raised floor's position */
	uint32_t mark_first, mark_count;
	struct wire_floor marks[RING_MARKS]; /* (head, records) at earlier visits of
						the slow path: places for a floor */
} __attribute__((aligned(64)));

/* Tie a zeroed writer to a lane of a new ring. Pointers stay the caller's and
 * must outlive the writer. Until ring_make_room() succeeds once, the writer must
 * not be reachable for handlers of its thread. */
void ring_writer_init(struct ring_writer *w, unsigned char *ring_base, struct wire_lane *lane,
		      struct wire_ctl *ctl);

/* Make room for a record of n slots, n <= WIRE_REC_SLOTS_MAX, at the time
 * `ticks`. Pads to the lane's end if the record would wrap. If the lane is full:
 * KEEP (a living agent): returns -ENOBUFS, the caller drops and counts; WRAP:
 * raises the floor. -EMSGSIZE if n is more than a quarter of the lane.
 * *ret_behind: the agent is a quarter of the lane behind (ring the bell).
 * Must not be entered again by a handler of the same thread. */
int ring_make_room(struct ring_writer *w, uint32_t n, uint64_t ticks, bool *ret_behind);

/* Take the next n slots, to be filled and given to ring_commit() with *hold. NULL
 * if there is no room: nothing has changed then. Closing the lane (limit = 0)
 * comes before head is read: a handler in between commits its record and we
 * see the new head. A limit kept from before such a handler is only lower
 * than it could be. */
static inline void *ring_begin(struct ring_writer *w, uint32_t n, uint64_t *hold)
{
	uint64_t limit = w->limit, head;

	w->limit = 0;
	atomic_signal_fence(memory_order_seq_cst);
	head = w->head;
	if (__builtin_expect(head + n > limit || (n > 1 && (head & w->mask) + n > w->mask + 1),
			     0)) {
		atomic_signal_fence(memory_order_seq_cst);
		w->limit = limit;
		return NULL;
	}
	*hold = limit;
	return w->slots + (head & w->mask) * WIRE_SLOT;
}

/* Commit n slots holding `records` records: 1, or 0 for PAD and OWNER. With the
 * store to lane->head they are accepted. */
static inline void ring_commit(struct ring_writer *w, uint32_t n, uint32_t records, uint64_t hold)
{
	uint64_t head = w->head + n;

	w->head = head;
	__atomic_store_n(&w->records, w->records + records, __ATOMIC_RELAXED);
	__atomic_store_n(&w->lane->head, head, __ATOMIC_RELEASE);
	atomic_signal_fence(memory_order_seq_cst);
	w->limit = hold;
}

/* Tell the world how many records there are (after the thread's last one). */
static inline void ring_publish_records(struct ring_writer *w)
{
	__atomic_store_n(&w->lane->records, w->records, __ATOMIC_RELAXED);
}

#endif
