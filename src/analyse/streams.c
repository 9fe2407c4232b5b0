/* SPDX-License-Identifier: Apache-2.0
 *
 * streams.c - see streams.h. Keys are few (streams, tracks): a small open table finds them.
 */
#include "analyse/streams.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/room.h"
#include "base/bigmem.h"

#define AHEAD 16 /* rows that are fetched before they are looked at */

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

/* The place of the key in the list, which grows by it. */
static int count_key(struct table *t, int64_t key, uint32_t *ret_at)
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
	*ret_at = t->slots[i] - 1;
	t->list[*ret_at].n++;
	return 0;
}

/* A row that is wanted, and whose it is. */
struct found {
	uint32_t id, at;
};

struct finder {
	struct table table;
	struct found *found;
	size_t n;
};

static int find_rows(const struct view *v, bool devices,
		     bool (*want)(const struct view *, const struct view_row *),
		     int64_t (*key)(const struct view *, const struct view_row *), struct finder *f)
{
	size_t i, n = v->n;
	/* view_devices() keeps its list in the view. */
	const uint32_t *ids = devices ? view_devices((struct view *)v, true, &n) : v->table;
	uint32_t id;
	int rc = devices && !ids ? -ENOMEM : 0;

	f->found = bigmem_alloc((n + 1) * sizeof(*f->found)); /* untouched it takes no memory */
	if (!f->found)
		rc = -ENOMEM;
	for (i = 0; i < n && !rc; i++) {
		if (ids && i + AHEAD < n)
			__builtin_prefetch(&v->rows[ids[i + AHEAD]]);
		id = ids ? ids[i] : (uint32_t)i;
		if (!want(v, &v->rows[id]))
			continue;
		f->found[f->n].id = id;
		rc = count_key(&f->table, key(v, &v->rows[id]), &f->found[f->n].at);
		f->n++;
	}
	return rc;
}

int streams_new(const struct view *v, bool devices,
		bool (*want)(const struct view *, const struct view_row *),
		int64_t (*key)(const struct view *, const struct view_row *), struct streams *ret)
{
	struct finder f = {0};
	struct streams_one *one, *list;
	uint32_t *ids = NULL;
	size_t i, at = 0;
	int rc = find_rows(v, devices, want, key, &f);

	list = f.table.list;
	for (i = 0; i < f.table.n; i++) {
		list[i].first = at;
		at += list[i].n;
		list[i].n = 0;
	}
	ids = rc ? NULL : malloc((at + 1) * sizeof(*ids));
	for (i = 0; ids && i < f.n; i++) {
		one = &list[f.found[i].at];
		ids[one->first + one->n++] = f.found[i].id;
	}
	free(f.table.slots);
	free(f.found);
	if (!ids) {
		free(list);
		return rc ? rc : -ENOMEM;
	}
	*ret = (struct streams){ids, list, f.table.n};
	return 0;
}

void streams_done(struct streams *s)
{
	free(s->ids);
	free(s->list);
	memset(s, 0, sizeof(*s));
}
