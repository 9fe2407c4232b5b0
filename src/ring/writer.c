/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/writer.h"

#include <string.h>

void ring_writer_init(struct ring_writer *w, unsigned char *ring_base, struct wire_lane *lane,
		      struct wire_ctl *ctl)
{
	w->head = __atomic_load_n(&lane->head, __ATOMIC_RELAXED);
	w->records = __atomic_load_n(&lane->records, __ATOMIC_RELAXED);
	w->limit = w->head;
	w->slots = ring_base + lane->slots_offset;
	w->mask = lane->slots - 1;
	w->lane = lane;
	w->ctl = ctl;
}

/* Remember where we are as a possible floor. */
static void writer_mark(struct ring_writer *w)
{
	struct wire_floor *last =
		&w->marks[(w->mark_first + w->mark_count + RING_MARKS - 1) % RING_MARKS];

	if (w->mark_count && last->pos == w->head)
		return;
	if (w->mark_count == RING_MARKS) {
		w->mark_first = (w->mark_first + 1) % RING_MARKS;
		w->mark_count--;
	}
	w->marks[(w->mark_first + w->mark_count++) % RING_MARKS] =
		(struct wire_floor){w->head, w->records};
	ring_publish_records(w);
}

/* KEEP or WRAP? keep_until comes from the agent; one that is implausibly far
 * away (the counter went back in a suspend) does not count. */
static bool writer_keeps(const struct ring_writer *w, uint64_t ticks)
{
	uint64_t until = __atomic_load_n(&w->ctl->keep_until, __ATOMIC_RELAXED);
	uint64_t span = __atomic_load_n(&w->ctl->keep_span, __ATOMIC_RELAXED);

	return until != 0 && until - ticks <= span;
}

/* Publish the first mark at or above pos as floor. The copy that does not hold
 * is written first, so that a kill in between leaves a whole floor. */
static void writer_raise_floor(struct ring_writer *w, uint64_t pos)
{
	struct wire_lane *lane = w->lane;
	uint32_t index = lane->floor_index + 1, i;
	struct wire_floor f = {w->head, w->records};

	for (i = 0; i < w->mark_count; i++) {
		struct wire_floor *m = &w->marks[(w->mark_first + i) % RING_MARKS];

		if (m->pos >= pos) {
			f = *m;
			break;
		}
	}
	__atomic_store_n(&lane->floor[index & 1].pos, f.pos, __ATOMIC_RELAXED);
	__atomic_store_n(&lane->floor[index & 1].rec, f.rec, __ATOMIC_RELAXED);
	__atomic_store_n(&lane->floor_index, index, __ATOMIC_RELEASE);
	/* The floor must be visible before the first byte below it changes. */
	atomic_thread_fence(memory_order_seq_cst);
	w->floor = f.pos;
}

static uint64_t writer_base(const struct ring_writer *w)
{
	uint64_t tail = __atomic_load_n(&w->lane->tail, __ATOMIC_ACQUIRE);

	/* A tail beyond the head is nonsense; do not trust it with our data. */
	if (tail > w->head)
		tail = 0;
	return tail > w->floor ? tail : w->floor;
}

/* A limit with room for `need` slots, or -ENOBUFS. */
static int writer_find_room(struct ring_writer *w, uint64_t need, uint64_t ticks, bool *ret_behind,
			    uint64_t *ret_limit)
{
	uint64_t size = w->mask + 1, base = writer_base(w), stride, limit;

	writer_mark(w);
	*ret_behind = w->head - base >= size / 4;
	if (w->head + need > base + size) {
		if (writer_keeps(w, ticks))
			return -ENOBUFS;
		writer_raise_floor(w, w->head + need - size);
		base = w->floor;
	}
	/* Come back after an eighth of the lane: for marks and for the bell. */
	stride = need > size / 8 ? need : size / 8;
	limit = w->head + stride;
	*ret_limit = limit < base + size ? limit : base + size;
	return 0;
}

int ring_make_room(struct ring_writer *w, uint32_t n, uint64_t ticks, bool *ret_behind)
{
	uint64_t size = w->mask + 1, limit = w->limit, offset, pad;
	struct wire_rec *r;
	int err;

	*ret_behind = false;
	if (n > size / 4 || n > WIRE_REC_SLOTS_MAX)
		return -EMSGSIZE;
	w->limit = 0;
	atomic_signal_fence(memory_order_seq_cst);
	offset = w->head & w->mask;
	pad = offset + n > size ? size - offset : 0;
	err = writer_find_room(w, pad + n, ticks, ret_behind, &limit);
	if (!err && pad) {
		r = (struct wire_rec *)(w->slots + offset * WIRE_SLOT);
		memset(r, 0, sizeof(*r));
		r->type = WIRE_PAD;
		r->slots = (uint16_t)pad;
		ring_commit(w, (uint32_t)pad, 0, 0);
	}
	atomic_signal_fence(memory_order_seq_cst);
	w->limit = limit;
	return err;
}
