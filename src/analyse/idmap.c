/* SPDX-License-Identifier: Apache-2.0
 *
 * idmap.c - linear probing at a load of one half at most. Slots that are asked for count as
 * used, so that a key made twice lands on its own slot.
 */
#include "analyse/idmap.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define IDMAP_FIRST 64u
#define IDMAP_FREE INT64_MIN /* key of an unused slot; the key itself is kept apart */

void idmap_init(struct idmap *m)
{
	memset(m, 0, sizeof(*m));
}

void idmap_done(struct idmap *m)
{
	free(m->keys);
	free(m->values);
	memset(m, 0, sizeof(*m));
}

static size_t idmap_slot(const struct idmap *m, int64_t key)
{
	/* Ids come in order: eight neighbours share a line of the cache. */
	uint64_t h = ((uint64_t)key >> 3) * 0x9e3779b97f4a7c15u;
	size_t i = ((size_t)(h >> 20) << 3 | ((size_t)key & 7)) & (m->cap - 1);

	while (m->keys[i] != key && m->keys[i] != IDMAP_FREE)
		i = (i + 1) & (m->cap - 1);
	return i;
}

uint32_t idmap_get(const struct idmap *m, int64_t key)
{
	size_t i;

	if (!m->cap || key == IDMAP_FREE)
		return IDMAP_NONE;
	i = idmap_slot(m, key);
	return m->keys[i] == key ? m->values[i] : IDMAP_NONE;
}

static void idmap_grow(struct idmap *m)
{
	struct idmap old = *m;
	size_t i, j;

	m->cap = old.cap ? old.cap * 2 : IDMAP_FIRST;
	m->keys = xrealloc(NULL, m->cap, sizeof(*m->keys));
	m->values = xrealloc(NULL, m->cap, sizeof(*m->values));
	for (i = 0; i < m->cap; i++)
		m->keys[i] = IDMAP_FREE;
	for (i = 0; i < old.cap; i++) {
		if (old.keys[i] == IDMAP_FREE)
			continue;
		j = idmap_slot(m, old.keys[i]);
		m->keys[j] = old.keys[i];
		m->values[j] = old.values[i];
	}
	free(old.keys);
	free(old.values);
}

uint32_t *idmap_at(struct idmap *m, int64_t key)
{
	size_t i;

	if (key == IDMAP_FREE)
		key = INT64_MIN + 1; /* no trace has either; one of them must do */
	if (m->len * 2 >= m->cap)
		idmap_grow(m);
	i = idmap_slot(m, key);
	if (m->keys[i] != key) {
		m->keys[i] = key;
		m->values[i] = IDMAP_NONE;
		m->len++;
	}
	return &m->values[i];
}
