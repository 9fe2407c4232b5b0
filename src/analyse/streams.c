/* SPDX-License-Identifier: Apache-2.0
 *
 * streams.c - see streams.h. Keys are few (streams, tracks): a small open table finds them.
 */
#include "analyse/streams.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/room.h"

struct table {
	struct streams_one *list;
	size_t n, cap;
	uint32_t *slots; /* place in list plus 1 */
	size_t size;     /* a power of two, above 2 n */
};

static size_t slot_of(const struct table *t, int64_t key)
{
	size_t i = (uint64_t)key * 0x9e3779b97f4a7c15ull >> 32 & (t->size - 1);

	while (t->slots[i] && t->list[t->slots[i] - 1].key != key)
		i = (i + 1) & (t->size - 1);
	return i;
}

static int widen(struct table *t)
{
	size_t i, size = t->size ? t->size * 2 : 64;
	uint32_t *slots = calloc(size, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	free(t->slots);
	t->slots = slots;
	t->size = size;
	for (i = 0; i < t->n; i++)
		t->slots[slot_of(t, t->list[i].key)] = (uint32_t)i + 1;
	return 0;
}

static int count_key(struct table *t, int64_t key)
{
	size_t i;
	int rc = 2 * t->n >= t->size ? widen(t) : 0;

	if (rc)
		return rc;
	i = slot_of(t, key);
	if (!t->slots[i]) {
		rc = room_for(&t->list, t->n, &t->cap, sizeof(*t->list));
		if (rc)
			return rc;
		t->list[t->n++] = (struct streams_one){key, 0, 0};
		t->slots[i] = (uint32_t)t->n;
	}
	t->list[t->slots[i] - 1].n++;
	return 0;
}

int streams_new(const struct view *v, bool (*want)(const struct view *, const struct view_row *),
		int64_t (*key)(const struct view *, const struct view_row *), struct streams *ret)
{
	struct table t = {0};
	struct streams_one *one;
	uint32_t *ids = NULL, id;
	size_t i, at = 0;
	int rc = 0;

	for (i = 0; i < v->n && !rc; i++) {
		id = v->table ? v->table[i] : (uint32_t)i;
		if (want(v, &v->rows[id]))
			rc = count_key(&t, key(v, &v->rows[id]));
	}
	for (i = 0; i < t.n; i++) {
		t.list[i].first = at;
		at += t.list[i].n;
		t.list[i].n = 0;
	}
	ids = rc ? NULL : malloc((at + 1) * sizeof(*ids));
	for (i = 0; ids && i < v->n; i++) {
		id = v->table ? v->table[i] : (uint32_t)i;
		if (!want(v, &v->rows[id]))
			continue;
		one = &t.list[t.slots[slot_of(&t, key(v, &v->rows[id]))] - 1];
		ids[one->first + one->n++] = id;
	}
	free(t.slots);
	if (!ids) {
		free(t.list);
		return rc ? rc : -ENOMEM;
	}
	*ret = (struct streams){ids, t.list, t.n};
	return 0;
}

void streams_done(struct streams *s)
{
	free(s->ids);
	free(s->list);
	memset(s, 0, sizeof(*s));
}
