/* SPDX-License-Identifier: Apache-2.0
 *
 * map.h - a hash map from byte strings to 64-bit values, and a set of small
 * rules: keys are copied, values are plain numbers (an index, a pointer cast by
 * the owner). Not thread-safe. Allocation failure aborts.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_slot;

struct map {
	struct map_slot *slots;
	size_t cap;  /* power of two, or 0 */
	size_t len;  /* live keys */
	size_t used; /* live keys and tombstones */
};

void map_init(struct map *m);
void map_done(struct map *m);

/* Set key to value, whether it was there or not. */
void map_put(struct map *m, const void *key, size_t key_len, uint64_t value);

/* Find a key; *ret_value is written only if it is there. */
bool map_get(const struct map *m, const void *key, size_t key_len, uint64_t *ret_value);

/* Remove a key; false if it was not there. */
bool map_del(struct map *m, const void *key, size_t key_len);

/* Hash of bytes (FNV-1a, 64 bits, mixed): equal on every machine. */
uint64_t map_hash(const void *data, size_t len);

#endif
