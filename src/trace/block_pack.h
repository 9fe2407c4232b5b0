/* SPDX-License-Identifier: Apache-2.0
 *
 * block_pack.h - a block's columns as few bytes, and back: of each the smallest value, and of each
 * row what it is above that, in as many bytes as the largest needs.
 */
#ifndef TRACE_BLOCK_PACK_H
#define TRACE_BLOCK_PACK_H

#include "trace/trace.h"

#define BLOCK_PACK_COLUMNS 11u
/* Bytes that may be read and written behind a packed block, and belong to it. */
#define BLOCK_PACK_PAD 32u
/* The most that one can take: every value as a whole word. */
#define BLOCK_PACK_MAX (BLOCK_PACK_COLUMNS * ((size_t)TRACE_BLOCK_ROWS * 8 + 32) + BLOCK_PACK_PAD)

/* block_pack.c is compiled once for each kind of vectors; all give the same bytes. */
struct block_set {
	/* scratch: TRACE_BLOCK_ROWS words; out: BLOCK_PACK_MAX bytes. Returns how many are used,
	 * with the pad. */
	size_t (*pack)(const struct trace_block *b, uint64_t *scratch, unsigned char *out);
	void (*unpack)(struct trace_block *b, const unsigned char *p);
};
extern const struct block_set block_plain, block_avx2;

/* The best that runs here. */
const struct block_set *block_set(void);

#endif
