/* SPDX-License-Identifier: Apache-2.0
 *
 * idmap.h - a hash map from 64-bit numbers to 32-bit ones, for correlation ids and the like.
 * Open addressing, grows by doubling; nothing is removed. Allocation failure aborts.
 */
#ifndef ANALYSE_IDMAP_H
#define ANALYSE_IDMAP_H

#include <stddef.h>
#include <stdint.h>

#define IDMAP_NONE UINT32_MAX /* no such key; not to be stored */

struct idmap {
	int64_t *keys;
	uint32_t *values; /* IDMAP_NONE: free slot */
	size_t cap, len;
};

void idmap_init(struct idmap *m);
void idmap_done(struct idmap *m);

/* The value of a key, IDMAP_NONE if it has none. */
uint32_t idmap_get(const struct idmap *m, int64_t key);

/* Where the value of a key stands, made with IDMAP_NONE if it was not there; valid until the
 * next idmap_at(). A place left at IDMAP_NONE counts as absent. */
uint32_t *idmap_at(struct idmap *m, int64_t key);

#endif
