/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.h - making a ring file (trainer's side). docs/wire.md says what is in
 * it. Used inside training programs: no allocation, no output, libc only.
 */
#ifndef RING_RING_H
#define RING_RING_H

#include "wire/wire.h"

/* Smallest ring that ring_create() makes. */
#define RING_BYTES_MIN (192u << 10)

struct ring_shape {
	uint64_t bytes;          /* wanted size of the file */
	uint32_t lanes;          /* wanted lanes; fewer if they do not fit */
	uint64_t registry_bytes; /* wanted; a multiple of WIRE_PAGE */
};

/* A ring mapped for writing. */
struct ring_map {
	unsigned char *base; /* whole file */
	uint64_t bytes;
	struct wire_ring *ring;
	struct wire_lane *lanes;
	struct wire_registry *registry;
};

/* Make the file NAME under dirfd (which must not exist), all of it allocated
 * and mapped in; magic, sizes, offsets and lanes are filled, the rest of the
 * header is zero and the caller's to fill. Half the file goes to lane 0, which
 * the first thread gets, the rest is shared by the other lanes.
 * 0 or -errno: -ENOSPC the file system is full; the file is then gone. */
int ring_create(int dirfd, const char *name, const struct ring_shape *shape, struct ring_map *ret);

/* Unmap; the file stays. */
void ring_unmap(struct ring_map *m);

#endif
