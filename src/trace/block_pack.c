/* SPDX-License-Identifier: Apache-2.0
 *
 * block_pack.c - packing and unpacking of columns. Compiled once for each kind of vectors
 * (meson.build): BLOCK_SET is the name of its functions.
 */
#include "trace/block_pack.h"

#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

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

_Static_assert(sizeof(columns) / sizeof(*columns) == BLOCK_PACK_COLUMNS, "BLOCK_PACK_MAX");

struct packed_column {
	uint64_t base;
	uint32_t width;
	uint32_t rows;
};

/* ---- packing -------------------------------------------------------------------------- */

/* Values of a column, widened. */
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

/* The low bytes of each value, one behind the other; some behind the last are overwritten. */
static void store(const uint64_t *v, unsigned width, unsigned char *out)
{
	uint32_t i = 0;

	if (!width)
		return;
#ifdef __AVX2__
	char ctl[32];
	__m256i order;

	memset(ctl, -1, sizeof(ctl));
	for (unsigned lane = 0; lane < 32; lane += 16)
		for (unsigned k = 0; k < 2 * width; k++)
			ctl[lane + k] = (char)(k / width * 8 + k % width);
	order = _mm256_loadu_si256((const void *)ctl);
	for (; i < ROWS; i += 4, out += 4 * (size_t)width) {
		__m256i x = _mm256_shuffle_epi8(_mm256_loadu_si256((const void *)(v + i)), order);

		_mm_storeu_si128((void *)out, _mm256_castsi256_si128(x));
		_mm_storeu_si128((void *)(out + 2 * (size_t)width), _mm256_extracti128_si256(x, 1));
	}
#else
	/* Whole words, each over the upper bytes of the one before. */
	for (; i < ROWS; i++)
		memcpy(out + (size_t)i * width, &v[i], 8);
#endif
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
	store(v, head.width, out);
	return out + (size_t)ROWS * head.width;
}

/* The first step is the value itself: it is kept apart, or all would be as wide as it. */
static unsigned char *pack_steps(uint64_t *v, unsigned char *out)
{
	memcpy(out, v, 8);
	v[0] = v[1];
	return pack_column(v, out + 8);
}

static size_t pack(const struct trace_block *b, uint64_t *scratch, unsigned char *out)
{
	unsigned char *p = out;

	for (size_t i = 0; i < BLOCK_PACK_COLUMNS; i++) {
		widen(b, &columns[i], scratch);
		p = columns[i].sort == STEPS ? pack_steps(scratch, p) : pack_column(scratch, p);
	}
	memset(p, 0, BLOCK_PACK_PAD);
	return (size_t)(p - out) + BLOCK_PACK_PAD;
}

/* ---- unpacking ------------------------------------------------------------------------ */

/* Inlined once for each size of value, so that the loop is one of plain stores. */
static inline __attribute__((always_inline)) void
unpack_plain(char *to, unsigned size, const unsigned char *p, const struct packed_column *head)
{
	uint64_t mask = head->width == 8 ? ~0ull : (1ull << 8 * head->width) - 1;

	for (uint32_t i = 0; i < ROWS; i++) {
		uint64_t v;

		memcpy(&v, p + (size_t)i * head->width, 8);
		v = (v & mask) + head->base;
		memcpy(to + (size_t)i * size, &v, size);
	}
}

#ifdef __AVX2__
static inline __attribute__((always_inline)) __m256i splat(uint64_t base, unsigned size)
{
	switch (size) {
	case 8:
		return _mm256_set1_epi64x((long long)base);
	case 4:
		return _mm256_set1_epi32((int)base);
	case 2:
		return _mm256_set1_epi16((short)base);
	default:
		return _mm256_set1_epi8((char)base);
	}
}

static inline __attribute__((always_inline)) __m256i add(__m256i a, __m256i b, unsigned size)
{
	switch (size) {
	case 8:
		return _mm256_add_epi64(a, b);
	case 4:
		return _mm256_add_epi32(a, b);
	case 2:
		return _mm256_add_epi16(a, b);
	default:
		return _mm256_add_epi8(a, b);
	}
}

/* 32 bytes of values at a time, of which each half lies within 16 packed bytes. */
static inline __attribute__((always_inline)) void
unpack_vectors(char *to, unsigned size, const unsigned char *p, const struct packed_column *head)
{
	const unsigned half = 16 / size, width = head->width;
	__m256i order, base = splat(head->base, size);
	char ctl[32];

	memset(ctl, -1, sizeof(ctl));
	for (unsigned at = 0; at < 32; at++)
		if (at % size < width)
			ctl[at] = (char)(at % 16 / size * width + at % size);
	order = _mm256_loadu_si256((const void *)ctl);
	for (uint32_t i = 0; i < ROWS; i += 2 * half, p += 2 * (size_t)half * width) {
		__m128i low = _mm_loadu_si128((const void *)p);
		__m128i high = _mm_loadu_si128((const void *)(p + (size_t)half * width));
		__m256i x = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), order);

		_mm256_storeu_si256((void *)(to + (size_t)i * size), add(x, base, size));
	}
}
#endif

static inline __attribute__((always_inline)) void
unpack_values(char *to, unsigned size, const unsigned char *p, const struct packed_column *head)
{
#ifdef __AVX2__
	if (head->width <= size) {
		unpack_vectors(to, size, p, head);
		return;
	}
#endif
	unpack_plain(to, size, p, head);
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

static void unpack(struct trace_block *b, const unsigned char *p)
{
	for (size_t i = 0; i < BLOCK_PACK_COLUMNS; i++)
		p = unpack_column(b, &columns[i], p);
}

const struct block_set BLOCK_SET = {pack, unpack};
