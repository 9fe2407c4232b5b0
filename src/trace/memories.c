/* SPDX-License-Identifier: Apache-2.0
 *
 * memories.c - a full chunk is packed by columns as blocks are: of each the smallest value, and
 * what each event's is above that, in as many bytes as the largest needs.
 */
#include "trace/memories.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MEMORIES_CHUNK 4096u
#define MEMORIES_COLUMNS 8u
#define MEMORIES_HEAD 9u /* bytes before a column: the smallest value, bytes of the others */
#define MEMORIES_PACKED_MAX                                                                        \
	((size_t)MEMORIES_COLUMNS * (MEMORIES_HEAD + (size_t)MEMORIES_CHUNK * 8) + 8)

struct memories_place {
	unsigned char *packed; /* NULL: in the file */
	uint64_t offset;
	uint32_t size;
};

void memories_init(struct memories *m, struct spill *spill)
{
	*m = (struct memories){.spill = spill, .cached = UINT32_MAX};
}

void memories_done(struct memories *m)
{
	for (uint32_t i = 0; i < m->n_places; i++)
		free(m->places[i].packed);
	free(m->places);
	free(m->open);
	free(m->cache);
	free(m->scratch);
	memories_init(m, NULL);
}

static int64_t column_get(const struct trace_memory *e, unsigned column)
{
	switch (column) {
	case 0:
		return e->ts;
	case 1:
		return e->bytes;
	case 2:
		return (int64_t)e->address;
	case 3:
		return e->allocated;
	case 4:
		return e->reserved;
	case 5:
		return e->device_type;
	case 6:
		return e->device;
	default:
		return e->track;
	}
}

static void column_set(struct trace_memory *e, unsigned column, int64_t v)
{
	switch (column) {
	case 0:
		e->ts = v;
		break;
	case 1:
		e->bytes = v;
		break;
	case 2:
		e->address = (uint64_t)v;
		break;
	case 3:
		e->allocated = v;
		break;
	case 4:
		e->reserved = v;
		break;
	case 5:
		e->device_type = (int32_t)v;
		break;
	case 6:
		e->device = (int32_t)v;
		break;
	default:
		e->track = (uint16_t)v;
		break;
	}
}

static unsigned char *pack_column(const struct trace_memory *e, unsigned column, unsigned char *out)
{
	uint64_t any = 0, v, base;
	int64_t least = INT64_MAX;
	unsigned char width = 0;

	for (uint32_t i = 0; i < MEMORIES_CHUNK; i++)
		least = column_get(&e[i], column) < least ? column_get(&e[i], column) : least;
	base = (uint64_t)least;
	for (uint32_t i = 0; i < MEMORIES_CHUNK; i++)
		any |= (uint64_t)column_get(&e[i], column) - base;
	for (; any; any >>= 8)
		width++;
	memcpy(out, &base, 8);
	out[8] = width;
	out += MEMORIES_HEAD;
	/* Whole words, each over the upper bytes of the one before. */
	for (uint32_t i = 0; width && i < MEMORIES_CHUNK; i++) {
		v = (uint64_t)column_get(&e[i], column) - base;
		memcpy(out + (size_t)i * width, &v, 8);
	}
	return out + (size_t)MEMORIES_CHUNK * width;
}

static const unsigned char *unpack_column(struct trace_memory *e, unsigned column,
					  const unsigned char *p)
{
	uint64_t base, v, mask;
	unsigned char width = p[8];

	memcpy(&base, p, 8);
	p += MEMORIES_HEAD;
	mask = width == 8 ? ~0ull : (1ull << 8 * width) - 1;
	for (uint32_t i = 0; i < MEMORIES_CHUNK; i++) {
		memcpy(&v, p + (size_t)i * width, 8);
		column_set(&e[i], column, (int64_t)((v & mask) + base));
	}
	return p + (size_t)MEMORIES_CHUNK * width;
}

/* The open chunk is full: a new one takes its place. */
static int close_chunk(struct memories *m)
{
	struct memories_place *to;
	unsigned char *p = m->scratch;

	if (m->n_places == m->cap) {
		uint32_t cap = m->cap * 2 + 16;

		to = realloc(m->places, cap * sizeof(*to));
		if (!to)
			return -ENOMEM;
		m->bytes += (cap - m->cap) * sizeof(*to);
		m->places = to;
		m->cap = cap;
	}
	to = &m->places[m->n_places];
	for (unsigned c = 0; c < MEMORIES_COLUMNS; c++)
		p = pack_column(m->open, c, p);
	memset(p, 0, 8); /* a word may be read behind the last value */
	*to = (struct memories_place){.size = (uint32_t)(p + 8 - m->scratch)};
	to->packed = malloc(to->size);
	if (!to->packed)
		return -ENOMEM;
	memcpy(to->packed, m->scratch, to->size);
	m->bytes += to->size;
	m->n_places++;
	return 0;
}

static int open_first(struct memories *m)
{
	m->open = malloc(MEMORIES_CHUNK * sizeof(*m->open));
	m->cache = malloc(MEMORIES_CHUNK * sizeof(*m->cache));
	m->scratch = malloc(MEMORIES_PACKED_MAX);
	if (!m->open || !m->cache || !m->scratch)
		return -ENOMEM;
	m->bytes += 2 * MEMORIES_CHUNK * sizeof(*m->open) + MEMORIES_PACKED_MAX;
	return 0;
}

int memories_add(struct memories *m, const struct trace_memory *event)
{
	uint32_t at = (uint32_t)(m->n % MEMORIES_CHUNK);
	int rc = 0;

	if (!m->n)
		rc = open_first(m);
	else if (!at)
		rc = close_chunk(m);
	if (rc)
		return rc;
	m->open[at] = *event;
	m->n++;
	return 0;
}

int memories_spill(struct memories *m, uint64_t bytes)
{
	while (m->bytes > bytes && m->spilled < m->n_places) {
		struct memories_place *p = &m->places[m->spilled];
		int rc = spill_write(m->spill, p->packed, p->size, &p->offset);

		if (rc)
			return rc;
		free(p->packed);
		p->packed = NULL;
		m->bytes -= p->size;
		m->spilled_bytes += p->size;
		m->spilled++;
	}
	return 0;
}

static bool unpack_chunk(struct memories *m, uint32_t k)
{
	const struct memories_place *place = &m->places[k];
	const unsigned char *p = place->packed;

	if (!p) {
		if (spill_read(m->spill, m->scratch, place->size, place->offset))
			return false;
		p = m->scratch;
	}
	m->cached = k;
	for (unsigned c = 0; c < MEMORIES_COLUMNS; c++)
		p = unpack_column(m->cache, c, p);
	return true;
}

const struct trace_memory *memories_get(struct memories *m, uint64_t i)
{
	uint32_t k = (uint32_t)(i / MEMORIES_CHUNK);

	if (i >= m->n)
		return NULL;
	if (k == m->n_places)
		return &m->open[i % MEMORIES_CHUNK];
	if (m->cached != k && !unpack_chunk(m, k)) {
		m->cached = UINT32_MAX;
		return NULL;
	}
	return &m->cache[i % MEMORIES_CHUNK];
}
