/* SPDX-License-Identifier: Apache-2.0
 *
 * block.c - a full block is packed: of each column the smallest value, and of each row what it
 * is above that, in as many bytes as the largest needs. Packed blocks go to the file in order.
 */
#include "trace/block.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/spill.h"

#define ROWS TRACE_BLOCK_ROWS

/* A column: where in the block, bytes of a value, signed or not, or steps from row to row. */
enum sort {
	SIGNED,
	UNSIGNED,
	STEPS
};

static const struct column {
	size_t offset;
	uint8_t size, sort;
} columns[] = {
	{offsetof(struct trace_block, ts), 8, SIGNED},
	{offsetof(struct trace_block, dur), 8, SIGNED},
	{offsetof(struct trace_block, correlation), 8, SIGNED},
	{offsetof(struct trace_block, external), 8, SIGNED},
	{offsetof(struct trace_block, index), 4, STEPS},
	{offsetof(struct trace_block, name), 4, UNSIGNED},
	{offsetof(struct trace_block, args), 4, UNSIGNED},
	{offsetof(struct trace_block, stream), 4, SIGNED},
	{offsetof(struct trace_block, track), 2, UNSIGNED},
	{offsetof(struct trace_block, cat), 1, UNSIGNED},
	{offsetof(struct trace_block, flags), 1, UNSIGNED},
};

#define COLUMNS (sizeof(columns) / sizeof(*columns))

struct packed_column {
	uint64_t base;
	uint32_t width;
	uint32_t rows;
};

void block_init(struct block_list *l, struct spill *spill)
{
	*l = (struct block_list){.spill = spill};
	block_forget(l);
}

void block_forget(struct block_list *l)
{
	for (unsigned i = 0; i < BLOCK_CACHE; i++)
		l->cached[i] = UINT32_MAX;
}

void block_done(struct block_list *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		free(l->places[i].packed);
	free(l->places);
	free(l->open);
	free(l->scratch);
	for (unsigned i = 0; i < BLOCK_CACHE; i++)
		free(l->cache[i]);
	block_init(l, NULL);
}

/* Values of a column, widened; the largest above the smallest decides the width. */
static void widen(const struct trace_block *b, const struct column *c, uint64_t *v)
{
	const char *p = (const char *)b + c->offset;

	if (c->size == 8) {
		memcpy(v, p, ROWS * 8);
	} else if (c->size == 4 && c->sort == SIGNED) {
		for (uint32_t i = 0; i < ROWS; i++)
			v[i] = (uint64_t)(int64_t)((const int32_t *)(const void *)p)[i];
	} else if (c->size == 4) {
		for (uint32_t i = 0; i < ROWS; i++)
			v[i] = ((const uint32_t *)(const void *)p)[i];
	} else if (c->size == 2) {
		for (uint32_t i = 0; i < ROWS; i++)
			v[i] = ((const uint16_t *)(const void *)p)[i];
	} else {
		for (uint32_t i = 0; i < ROWS; i++)
			v[i] = ((const uint8_t *)p)[i];
	}
	if (c->sort == STEPS)
		for (uint32_t i = ROWS - 1; i; i--)
			v[i] -= v[i - 1];
}

static unsigned char *pack_column(uint64_t *v, unsigned char *out)
{
	struct packed_column head = {.rows = ROWS};
	int64_t least = INT64_MAX;
	uint64_t any = 0;

	for (uint32_t i = 0; i < ROWS; i++)
		least = (int64_t)v[i] < least ? (int64_t)v[i] : least;
	head.base = (uint64_t)least;
	for (uint32_t i = 0; i < ROWS; i++) {
		v[i] -= head.base;
		any |= v[i];
	}
	for (; any; any >>= 8)
		head.width++;
	memcpy(out, &head, sizeof(head));
	out += sizeof(head);
	/* Whole words, each over the upper bytes of the one before. */
	for (uint32_t i = 0; head.width && i < ROWS; i++)
		memcpy(out + (size_t)i * head.width, &v[i], 8);
	return out + (size_t)ROWS * head.width;
}

/* The first step is the value itself: it is kept apart, or all would be as wide as it. */
static unsigned char *pack_steps(uint64_t *v, unsigned char *out)
{
	memcpy(out, v, 8);
	v[0] = v[1];
	return pack_column(v, out + 8);
}

/* The most that a packed block can take: every value as a whole word. */
#define PACKED_MAX (COLUMNS * ((size_t)ROWS * 8 + sizeof(struct packed_column) + 8) + 8)

static int pack_block(struct block_list *l, struct block_place *to)
{
	unsigned char *p;

	if (!l->scratch) {
		l->scratch = malloc((size_t)ROWS * 8 + PACKED_MAX);
		if (!l->scratch)
			return -ENOMEM;
		l->bytes += sizeof(*l->open); /* about what of it is ever touched */
	}
	p = (unsigned char *)(l->scratch + ROWS);
	for (size_t i = 0; i < COLUMNS; i++) {
		widen(l->open, &columns[i], l->scratch);
		p = columns[i].sort == STEPS ? pack_steps(l->scratch, p)
					     : pack_column(l->scratch, p);
	}
	to->size = (uint32_t)(p + 8 - (unsigned char *)(l->scratch + ROWS));
	to->packed = malloc(to->size);
	if (!to->packed)
		return -ENOMEM;
	memcpy(to->packed, l->scratch + ROWS, to->size);
	l->bytes += to->size;
	return 0;
}

void block_close(struct block_list *l)
{
	if (l->scratch)
		l->bytes -= sizeof(*l->open);
	free(l->scratch);
	l->scratch = NULL;
}

/* Inlined once for each size of value, so that the loop is one of plain stores. */
static inline __attribute__((always_inline)) void
unpack_values(char *to, unsigned size, const unsigned char *p, const struct packed_column *head)
{
	uint64_t mask = head->width == 8 ? ~0ull : (1ull << 8 * head->width) - 1;

	for (uint32_t i = 0; i < ROWS; i++) {
		uint64_t v;

		memcpy(&v, p + (size_t)i * head->width, 8);
		v = (v & mask) + head->base;
		memcpy(to + (size_t)i * size, &v, size);
	}
}

static void sum_steps(uint32_t *v, uint32_t first)
{
	v[0] = first;
	for (uint32_t i = 1; i < ROWS; i++)
		v[i] += v[i - 1];
}

static const unsigned char *unpack_column(struct trace_block *b, const struct column *c,
					  const unsigned char *p)
{
	char *to = (char *)b + c->offset;
	struct packed_column head;
	uint64_t first = 0;

	if (c->sort == STEPS) {
		memcpy(&first, p, 8);
		p += 8;
	}
	memcpy(&head, p, sizeof(head));
	p += sizeof(head);
	if (c->size == 8)
		unpack_values(to, 8, p, &head);
	else if (c->size == 4)
		unpack_values(to, 4, p, &head);
	else if (c->size == 2)
		unpack_values(to, 2, p, &head);
	else
		unpack_values(to, 1, p, &head);
	if (c->sort == STEPS)
		sum_steps(b->index, (uint32_t)first);
	return p + (size_t)ROWS * head.width;
}

static void unpack_block(struct trace_block *b, const unsigned char *p)
{
	for (size_t i = 0; i < COLUMNS; i++)
		p = unpack_column(b, &columns[i], p);
}

int block_next(struct block_list *l)
{
	int rc;

	if (l->rows >= TRACE_ROWS_MAX - TRACE_BLOCK_ROWS)
		return -E2BIG;
	if (l->n == l->cap) {
		uint32_t cap = l->cap * 2 + 16;
		struct block_place *p = realloc(l->places, cap * sizeof(*p));

		if (!p)
			return -ENOMEM;
		l->places = p;
		l->cap = cap;
	}
	if (l->open) {
		rc = pack_block(l, &l->places[l->n - 1]);
		if (rc)
			return rc;
	} else {
		l->open = malloc(sizeof(*l->open));
		if (!l->open)
			return -ENOMEM;
		l->bytes += sizeof(*l->open);
	}
	l->places[l->n++] = (struct block_place){0};
	return 0;
}

int block_spill(struct block_list *l, uint64_t bytes)
{
	while (l->bytes > bytes && l->spilled + 1 < l->n && l->places[l->spilled].packed) {
		struct block_place *p = &l->places[l->spilled];
		int rc = spill_write(l->spill, p->packed, p->size, &p->offset);

		if (rc)
			return rc;
		free(p->packed);
		p->packed = NULL;
		l->bytes -= p->size;
		l->spilled_bytes += p->size;
		l->spilled++;
	}
	return 0;
}

/* A place of the cache, its block forgotten. */
static struct trace_block *cache_place(struct block_list *l, unsigned *ret)
{
	unsigned at = l->cache_next;

	if (!l->cache[at]) {
		l->cache[at] = malloc(sizeof(*l->cache[at]));
		if (!l->cache[at])
			return NULL;
	}
	l->cache_next = (at + 1) % BLOCK_CACHE;
	l->cached[at] = UINT32_MAX;
	*ret = at;
	return l->cache[at];
}

struct trace_block *block_get(struct block_list *l, uint32_t k, bool *ret_fresh)
{
	const struct block_place *p = &l->places[k];
	struct trace_block *b;
	void *packed;
	unsigned at;

	*ret_fresh = false;
	if (k >= l->n)
		return NULL;
	if (k == l->n - 1)
		return l->open;
	for (unsigned i = 0; i < BLOCK_CACHE; i++)
		if (l->cached[i] == k)
			return l->cache[i];
	b = cache_place(l, &at);
	if (!b)
		return NULL;
	packed = p->packed ? p->packed : malloc(p->size);
	if (!packed)
		return NULL;
	if (p->packed || !spill_read(l->spill, packed, p->size, p->offset)) {
		unpack_block(b, packed);
		l->cached[at] = k;
		*ret_fresh = true;
	}
	if (!p->packed)
		free(packed);
	return *ret_fresh ? b : NULL;
}
