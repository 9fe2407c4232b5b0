/* SPDX-License-Identifier: Apache-2.0
 *
 * block.c - a full block is packed (block_pack.h). Packed blocks go to the file in order.
 */
#include "trace/block.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/block_pack.h"
#include "trace/spill.h"

const struct block_set *block_set(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2"))
		return &block_avx2;
#endif
	return &block_plain;
}

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

static int pack_block(struct block_list *l, struct block_place *to)
{
	unsigned char *p;

	if (!l->scratch) {
		l->scratch = malloc(TRACE_BLOCK_ROWS * sizeof(*l->scratch) + BLOCK_PACK_MAX);
		if (!l->scratch)
			return -ENOMEM;
		l->bytes += sizeof(*l->open); /* about what of it is ever touched */
	}
	p = (unsigned char *)(l->scratch + TRACE_BLOCK_ROWS);
	to->size = (uint32_t)block_set()->pack(l->open, l->scratch, p);
	to->packed = malloc(to->size);
	if (!to->packed)
		return -ENOMEM;
	memcpy(to->packed, p, to->size);
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

/* A place of the cache, its block forgotten. Who goes over blocks in order has the one before
 * overwritten, which is in the processor's cache. */
static struct trace_block *cache_place(struct block_list *l, uint32_t k, unsigned *ret)
{
	unsigned last = (l->cache_next + BLOCK_CACHE - 1) % BLOCK_CACHE;
	unsigned at = k && l->cached[last] == k - 1 ? last : l->cache_next;

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
	b = cache_place(l, k, &at);
	if (!b)
		return NULL;
	packed = p->packed ? p->packed : malloc(p->size);
	if (!packed)
		return NULL;
	if (p->packed || !spill_read(l->spill, packed, p->size, p->offset)) {
		block_set()->unpack(b, packed);
		l->cached[at] = k;
		*ret_fresh = true;
	}
	if (!p->packed)
		free(packed);
	return *ret_fresh ? b : NULL;
}
