/* SPDX-License-Identifier: Apache-2.0
 *
 * argset.h - arguments of events, packed: one byte of field number and a number
 * of variable length each. Equal sets are kept once; what differs from event to event
 * (sequence numbers, python ids) is kept beside a reference to the set.
 */
#ifndef TRACE_ARGSET_H
#define TRACE_ARGSET_H

#include "trace/trace.h"

/* Fields of struct trace_args in the order of argset_rows[]. */
enum argset_field {
	ARGSET_END,
	ARGSET_DEVICE,
	ARGSET_CONTEXT,
	ARGSET_GRID,
	ARGSET_GRID_Y,
	ARGSET_GRID_Z,
	ARGSET_BLOCK,
	ARGSET_BLOCK_Y,
	ARGSET_BLOCK_Z,
	ARGSET_REGISTERS,
	ARGSET_SHARED_MEMORY,
	ARGSET_BLOCKS_PER_SM,
	ARGSET_WARPS_PER_SM,
	ARGSET_OCCUPANCY,
	ARGSET_BYTES,
	ARGSET_BANDWIDTH,
	ARGSET_WAIT_ON_STREAM,
	ARGSET_WAIT_ON_RECORD,
	ARGSET_WAIT_ON_EVENT,
	ARGSET_DIMS,
	ARGSET_TYPES,
	ARGSET_STRIDES,
	ARGSET_CONCRETE,
	ARGSET_STACK,
	ARGSET_KERNEL_BACKEND,
	ARGSET_KERNEL_FILE,
	ARGSET_PYTHON_ID,
	ARGSET_PYTHON_PARENT,
	ARGSET_PYTHON_MODULE,
	ARGSET_SEQUENCE,
	ARGSET_FORWARD_THREAD,
	ARGSET_FLOPS,
	ARGSET_COLLECTIVE,
	ARGSET_GROUP_NAME,
	ARGSET_GROUP_DESCRIPTION,
	ARGSET_COLLECTIVE_DTYPE,
	ARGSET_IN_ELEMENTS,
	ARGSET_OUT_ELEMENTS,
	ARGSET_GROUP_SIZE,
	ARGSET_COMMS_ID,
	ARGSET_FIELDS
};

/* Arguments of one event while it is read. Room for every field twice (duplicate keys). */
#define ARGSET_PACKED_MAX 640u

struct argset_pack {
	unsigned char shared[ARGSET_PACKED_MAX], own[128];
	unsigned n_shared, n_own;
};

#define ARGSET_DECODED 64u /* results of argset_get() that stay valid */

/* Packed sets, one after the other, in chunks. */
struct argset_arena {
	struct argset_chunk *chunks;
	uint32_t n, cap;
	uint32_t spilled; /* the first so many are in the file */
	uint64_t used;    /* bytes of all chunks */
};

struct argset {
	struct argset_arena shared, own; /* an id is a place in one of them */
	struct argset_slot *slots;
	uint32_t n_slots, n_sets;
	uint64_t bytes; /* held in all */
	uint64_t spilled_bytes;
	struct spill *spill; /* not owned */
	struct trace_args none;
	struct trace_args decoded[ARGSET_DECODED];
	uint32_t decoded_ids[ARGSET_DECODED];
	unsigned decoded_at;
};

/* 0, -ENOMEM. */
int argset_init(struct argset *a, struct spill *spill);
void argset_done(struct argset *a);

/* Add one field to what the event has. A pack that is full takes no more. */
void argset_int(struct argset_pack *p, enum argset_field field, int64_t v);
void argset_double(struct argset_pack *p, enum argset_field field, double v);

/* Id of what p holds (0 nothing), kept once. 0, -ENOMEM, -E2BIG (too many; *ret is 0). */
int argset_put(struct argset *a, const struct argset_pack *p, uint32_t *ret);

/* Write what differs from event to event to the file, but for the last of it, until at most
 * BYTES are held or nothing is left to write. 0, -errno. */
int argset_spill(struct argset *a, uint64_t bytes);

/* As a struct; valid for ARGSET_DECODED more calls with other ids. Unknown ids are as 0. */
const struct trace_args *argset_get(struct argset *a, uint32_t id);

#endif
