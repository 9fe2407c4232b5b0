/* SPDX-License-Identifier: Apache-2.0
 *
 * import_frames.c - a table of frames by their text, filled stack by stack.
 */
#include "trace/import_frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 1024u

struct maker {
	struct import_frame *list;
	size_t *last; /* number of the stack that a frame was counted for last, from 1 */
	size_t n, cap;
	uint32_t *slots; /* place in list + 1; 0 free */
	size_t n_slots;
};

static uint64_t hash_of(const char *p, size_t len)
{
	uint64_t h = 14695981039346656037ull;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)p[i]) * 1099511628211ull;
	return h ^ h >> 29;
}

static int grow_slots(struct maker *m)
{
	size_t n = m->n_slots ? m->n_slots * 2 : FIRST_SLOTS;
	uint32_t *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < m->n; i++) {
		size_t at = hash_of(m->list[i].name, m->list[i].len) & (n - 1);

		while (slots[at])
			at = (at + 1) & (n - 1);
		slots[at] = (uint32_t)i + 1;
	}
	free(m->slots);
	m->slots = slots;
	m->n_slots = n;
	return 0;
}

static int grow_list(struct maker *m)
{
	size_t cap = m->cap ? m->cap * 2 : FIRST_SLOTS / 2;
	struct import_frame *list = realloc(m->list, cap * sizeof(*list));
	size_t *last;

	if (!list)
		return -ENOMEM;
	m->list = list;
	last = realloc(m->last, cap * sizeof(*last));
	if (!last)
		return -ENOMEM;
	m->last = last;
	m->cap = cap;
	return 0;
}

/* Place of the frame of this name; SIZE_MAX: no memory. */
static size_t place_of(struct maker *m, const char *p, size_t len)
{
	size_t at;

	if (m->n == m->cap && grow_list(m))
		return SIZE_MAX;
	if (m->n * 2 >= m->n_slots && grow_slots(m))
		return SIZE_MAX;
	for (at = hash_of(p, len) & (m->n_slots - 1); m->slots[at];
	     at = (at + 1) & (m->n_slots - 1)) {
		const struct import_frame *f = &m->list[m->slots[at] - 1];

		if (f->len == len && !memcmp(f->name, p, len))
			return m->slots[at] - 1;
	}
	m->list[m->n] = (struct import_frame){.name = p, .len = (uint32_t)len};
	m->last[m->n] = 0;
	m->slots[at] = (uint32_t)++m->n;
	return m->n - 1;
}

static int add_stack(struct maker *m, const char *p, size_t len, double weight, size_t number)
{
	const char *end = p + len;

	while (p <= end) {
		const char *stop = memchr(p, ';', (size_t)(end - p));
		size_t at = place_of(m, p, (size_t)((stop ? stop : end) - p));

		if (at == SIZE_MAX)
			return -ENOMEM;
		if (m->last[at] != number) {
			m->last[at] = number;
			m->list[at].count++;
			m->list[at].total += weight;
		}
		if (!stop) {
			m->list[at].self += weight;
			break;
		}
		p = stop + 1;
	}
	return 0;
}

static int by_self(const void *a, const void *b)
{
	const struct import_frame *x = a, *y = b;
	size_t least = x->len < y->len ? x->len : y->len;
	int order;

	if (x->self != y->self)
		return x->self > y->self ? -1 : 1;
	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	order = memcmp(x->name, y->name, least);
	return order ? order : (x->len > y->len) - (x->len < y->len);
}

int import_frames(const struct import_folded *f, struct import_frames *ret)
{
	struct maker m = {.n = 0};
	int rc = 0;

	for (size_t i = 0; i < f->n && !rc; i++)
		rc = add_stack(&m, f->text.data + f->lines[i].at, f->lines[i].len,
			       f->lines[i].weight, i + 1);
	free(m.slots);
	free(m.last);
	if (rc) {
		free(m.list);
		return rc;
	}
	if (m.n)
		qsort(m.list, m.n, sizeof(*m.list), by_self);
	ret->list = m.list;
	ret->n = m.n;
	return 0;
}

void import_frames_done(struct import_frames *f)
{
	free(f->list);
	f->list = NULL;
	f->n = 0;
}
