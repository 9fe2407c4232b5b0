/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct map_slot {
	void *key; /* NULL: free; map_gone: deleted */
	size_t key_len;
	uint64_t hash;
	uint64_t value;
};

static char map_gone[1];

uint64_t map_hash(const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t h = 0xcbf29ce484222325u;
	size_t i;

	for (i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	h ^= h >> 32;
	h *= 0x9e3779b97f4a7c15u;
	return h ^ (h >> 29);
}

void map_init(struct map *m)
{
	*m = (struct map){0};
}

void map_done(struct map *m)
{
	size_t i;

	for (i = 0; i < m->cap; i++)
		if (m->slots[i].key != map_gone)
			free(m->slots[i].key);
	free(m->slots);
	map_init(m);
}

static struct map_slot *map_find(const struct map *m, const void *key, size_t len, uint64_t hash)
{
	size_t i;

	if (!m->cap)
		return NULL;
	for (i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
		struct map_slot *s = &m->slots[i];

		if (!s->key)
			return NULL;
		if (s->key != map_gone && s->hash == hash && s->key_len == len &&
		    memcmp(s->key, key, len) == 0)
			return s;
	}
}

static void map_insert(struct map *m, struct map_slot slot)
{
	size_t i = slot.hash & (m->cap - 1);

	while (m->slots[i].key)
		i = (i + 1) & (m->cap - 1);
	m->slots[i] = slot;
}

static void map_rehash(struct map *m)
{
	struct map old = *m;
	size_t i;

	m->cap = 16;
	while (m->cap < (old.len + 1) * 2)
		m->cap *= 2;
	m->slots = xcalloc(m->cap, sizeof(*m->slots));
	m->used = old.len;
	for (i = 0; i < old.cap; i++)
		if (old.slots[i].key && old.slots[i].key != map_gone)
			map_insert(m, old.slots[i]);
	free(old.slots);
}

void map_put(struct map *m, const void *key, size_t key_len, uint64_t value)
{
	uint64_t hash = map_hash(key, key_len);
	struct map_slot *s = map_find(m, key, key_len, hash);

	if (s) {
		s->value = value;
		return;
	}
	if ((m->used + 1) * 4 > m->cap * 3)
		map_rehash(m);
	map_insert(m, (struct map_slot){xstrndup(key, key_len), key_len, hash, value});
	m->len++;
	m->used++;
}

bool map_get(const struct map *m, const void *key, size_t key_len, uint64_t *ret_value)
{
	struct map_slot *s = map_find(m, key, key_len, map_hash(key, key_len));

	if (!s)
		return false;
	*ret_value = s->value;
	return true;
}

bool map_del(struct map *m, const void *key, size_t key_len)
{
	struct map_slot *s = map_find(m, key, key_len, map_hash(key, key_len));

	if (!s)
		return false;
	free(s->key);
	s->key = map_gone;
	m->len--;
	return true;
}
