/* SPDX-License-Identifier: Apache-2.0
 *
 * reader.h - the agent's end of a ring: attach, read definitions, drain lanes.
 * Everything in the file may be hostile. Records are copied by pread() into the
 * agent's own memory and checked there; only header, lanes and control page are
 * mapped, guarded (ring/safemap.h). One thread per reader.
 */
#ifndef RING_READER_H
#define RING_READER_H

#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>

struct safemap;

/* What the reader knows of a lane. All counts since the lane began. */
struct reader_lane {
	uint64_t offset, slots; /* of the slots in the file */
	uint64_t pos;           /* slots read (not necessarily stored) */
	uint64_t rec;           /* records below pos, by the writer's count */
	uint64_t stored;        /* of them, given to the caller */
	uint64_t overwritten;   /* of them, gone before they were read */
	uint64_t broken;        /* of them, not understood */
	bool quarantined;       /* no longer read */
	char why[96];           /* why it is */
	struct {
		uint64_t pos, rec, stored, overwritten, broken;
	} acked; /* the same as of the last reader_ack() */
};

struct reader {
	int fd;
	struct safemap *head;           /* ring header, lanes, first words of the registry */
	struct safemap *ctl_map;        /* control page; NULL if it is missing */
	struct wire_ring ring;          /* private, checked copy; strings end in NUL */
	struct wire_lane *lanes;        /* in the mapping */
	struct wire_registry *registry; /* in the mapping */
	struct wire_ctl *ctl;           /* in the mapping, or NULL */
	struct reader_lane *lane;
	uint64_t defs_bytes; /* registry bytes read */
	uint32_t defs_count; /* definitions read */
	bool defs_broken;
	char name[256]; /* file name */
};

/* Open the ring file NAME under dirfd, and its control page in the same folder.
 * Refuses what is no regular file of our user (-EPERM; root reads all), no ring
 * (-EBADMSG), of a newer major version (-EPROTO), of another boot when
 * `same_boot` (-ESTALE), or inconsistent (-EBADMSG); why[] says it in words. */
int reader_open(int dirfd, const char *name, struct reader *r, char why[128]);
void reader_done(struct reader *r);

/* Does the ring still have its first bytes? False once the file was truncated:
 * nothing read since can be trusted. */
bool reader_is_whole(const struct reader *r);

/* Has the process closed this ring? */
bool reader_is_closed(const struct reader *r);

/* One definition; strings end in NUL and live during the call. */
struct reader_def {
	uint32_t id;
	uint8_t kind; /* enum wire_kind */
	const char *name, *unit, *help, *labels;
};

/* Call fn for the definitions that are new since the last call, in order.
 * Returns how many, or -EBADMSG once the registry is broken (told once, then
 * 0), or what fn returned if that is not 0 (that definition comes again). */
int reader_defs(struct reader *r, int (*fn)(void *arg, const struct reader_def *d), void *arg);

/* Set where a lane continues, from a stored position. Ignored unless the writer
 * can have been there: tail <= pos <= head. Returns whether it was taken. */
bool reader_resume(struct reader *r, uint32_t lane, uint64_t pos, uint64_t rec, uint64_t stored,
		   uint64_t overwritten, uint64_t broken);

/* Slots waiting in a lane now; *ret_share is the part of the lane they fill. */
uint64_t reader_waiting(struct reader *r, uint32_t lane, double *ret_share);

/* Read the next records of a lane into buf (cap bytes, a multiple of WIRE_SLOT,
 * at least WIRE_REC_SLOTS_MAX slots), all of them whole and checked, and move
 * pos past them. *ret_first is where they begin in buf and *ret_slots how many
 * slots they fill: 0 when the lane is empty or quarantined.
 * -EIO when the file cannot be read. */
int reader_drain(struct reader *r, uint32_t lane, void *buf, size_t cap,
		 const struct wire_rec **ret_first, uint64_t *ret_slots);

/* All that was drained is stored: move the tails. */
void reader_ack(struct reader *r);

/* It could not be stored: read it again, from the last reader_ack(). */
void reader_rewind(struct reader *r);

/* Keep full lanes from being overwritten until ticks `until`, at most `span`
 * from now; the agent's heartbeat. */
void reader_keep(struct reader *r, uint64_t until, uint64_t span);

/* Copy the whole anchors of the control page: at most WIRE_ANCHORS, oldest
 * first. Returns how many. */
unsigned reader_anchors(const struct reader *r, struct wire_anchor *out);

/* Does the process still live? It holds a lock on its control page, or its pid
 * and start time are there in our pid namespace. */
bool reader_is_alive(const struct reader *r, int dirfd);

#endif
