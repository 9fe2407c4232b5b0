/* SPDX-License-Identifier: Apache-2.0
 *
 * Draining: copy, check that the floor did not pass us meanwhile, check every
 * record. docs/wire.md has the proof.
 */
#include "ring/reader.h"

#include "ring/safemap.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void drain_quarantine(struct reader_lane *l, const char *why, uint64_t pos)
{
	l->quarantined = true;
	snprintf(l->why, sizeof(l->why), "%s at slot %llu", why, (unsigned long long)pos);
}

/* The floor as a whole pair. The writer fills the copy that does not hold and
 * then moves the index, so a stable index means an untorn pair. */
static struct wire_floor drain_floor(const struct wire_lane *lane)
{
	struct wire_floor f = {0};
	uint32_t index, i;

	for (i = 0; i < 1000; i++) {
		index = __atomic_load_n(&lane->floor_index, __ATOMIC_ACQUIRE);
		f.pos = __atomic_load_n(&lane->floor[index & 1].pos, __ATOMIC_RELAXED);
		f.rec = __atomic_load_n(&lane->floor[index & 1].rec, __ATOMIC_RELAXED);
		atomic_thread_fence(memory_order_acquire);
		if (__atomic_load_n(&lane->floor_index, __ATOMIC_RELAXED) == index)
			break;
	}
	return f;
}

/* Skip what the writer has given up; false if the floor is nonsense. A floor may
 * be above a head that was read before it, never above one read after it. */
static bool drain_skip(struct reader_lane *l, const struct wire_lane *shared)
{
	struct wire_floor f = drain_floor(shared);

	if (f.pos <= l->pos)
		return true;
	if (f.pos > __atomic_load_n(&shared->head, __ATOMIC_ACQUIRE) || f.rec < l->rec)
		return false;
	l->overwritten += f.rec - l->rec;
	l->pos = f.pos;
	l->rec = f.rec;
	return true;
}

/* Is the payload as long as the type needs? A type that a newer writer knows is
 * taken by its length. */
static bool drain_record_fits(const struct wire_rec *r)
{
	static const uint8_t fixed[WIRE_TYPES] = {
		[WIRE_OWNER] = 2, [WIRE_SET] = 1,  [WIRE_ADD] = 1,  [WIRE_OBSERVE] = 1,
		[WIRE_SPAN] = 1,  [WIRE_STEP] = 2, [WIRE_EPOCH] = 1};
	uint64_t payload = ((uint64_t)r->slots - 1) * WIRE_SLOT, need;
	struct wire_text text;

	if (r->type == 0 || r->slots == 0 || r->slots > WIRE_REC_SLOTS_MAX)
		return false;
	if (r->type >= WIRE_TYPES || r->type == WIRE_PAD)
		return true;
	if (fixed[r->type])
		return r->slots == fixed[r->type];
	if (r->type == WIRE_FRAME)
		return (uint64_t)r->id * sizeof(struct wire_value) <= payload;
	if (payload < sizeof(text))
		return false;
	memcpy(&text, r + 1, sizeof(text));
	need = sizeof(text) + (uint64_t)text.len[0] + text.len[1] + text.len[2];
	return need <= payload;
}

/* Walk n slots at first: how many belong to whole, sound records. Counts them.
 * more: the lane goes on behind the n slots. */
static uint64_t drain_walk(struct reader_lane *l, const struct wire_rec *first, uint64_t n,
			   bool more)
{
	uint64_t at = 0, lane_left = l->slots - (l->pos & (l->slots - 1));

	while (at < n) {
		const struct wire_rec *r = first + at;

		if (r->slots > lane_left - at || r->slots == 0 || r->slots > WIRE_REC_SLOTS_MAX) {
			drain_quarantine(l, "bad record length", l->pos + at);
			break;
		}
		if (r->slots > n - at) {
			if (!more)
				drain_quarantine(l, "record beyond the head", l->pos + at);
			break;
		}
		if (!drain_record_fits(r)) {
			drain_quarantine(l, "malformed record", l->pos + at);
			break;
		}
		if (r->type != WIRE_PAD && r->type != WIRE_OWNER) {
			l->rec++;
			if (r->type < WIRE_TYPES)
				l->stored++;
			else
				l->broken++;
		}
		at += r->slots;
	}
	return at;
}

int reader_drain(struct reader *r, uint32_t lane, void *buf, size_t cap,
		 const struct wire_rec **ret_first, uint64_t *ret_slots)
{
	struct wire_lane *shared = &r->lanes[lane];
	struct reader_lane *l = &r->lane[lane];
	uint64_t head, n, start, skip, offset;
	bool more;

	*ret_slots = 0;
	if (l->quarantined)
		return 0;
	head = __atomic_load_n(&shared->head, __ATOMIC_ACQUIRE);
	if (head < l->pos || !drain_skip(l, shared)) {
		drain_quarantine(l, "head, floor and tail do not agree", l->pos);
		return 0;
	}
	/* Lapped between the two loads: the next call sees the new head. */
	if (l->pos >= head)
		return 0;
	if (head - l->pos > l->slots) {
		drain_quarantine(l, "head more than a lane ahead", l->pos);
		return 0;
	}
	start = l->pos;
	offset = start & (l->slots - 1);
	n = head - start;
	if (n > l->slots - offset)
		n = l->slots - offset;
	more = n * WIRE_SLOT > cap || n < head - start;
	if (n * WIRE_SLOT > cap)
		n = cap / WIRE_SLOT;
	if (pread(r->fd, buf, n * WIRE_SLOT, (off_t)(l->offset + offset * WIRE_SLOT)) !=
	    (ssize_t)(n * WIRE_SLOT))
		return -EIO;
	atomic_thread_fence(memory_order_seq_cst);
	if (!drain_skip(l, shared)) {
		drain_quarantine(l, "floor beyond the head", start);
		return 0;
	}
	skip = l->pos - start;
	if (skip >= n || safemap_is_broken(r->head))
		return safemap_is_broken(r->head) ? -EIO : 0;
	*ret_first = (const struct wire_rec *)buf + skip;
	*ret_slots = drain_walk(l, *ret_first, n - skip, more);
	l->pos += *ret_slots;
	return 0;
}
