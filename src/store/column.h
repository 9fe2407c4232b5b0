/* SPDX-License-Identifier: Apache-2.0
 *
 * column.h - columns of doubles and of 64-bit integers as few bytes, bit for bit
 * (docs/columns.md defines them). The encoder picks for each column; the decoder
 * takes hostile bytes.
 */
#ifndef STORE_COLUMN_H
#define STORE_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define COLUMN_MAX 8192u                      /* numbers in a column */
#define COLUMN_BYTES_MAX (1 + 8 * COLUMN_MAX) /* bytes of a column */
#define COLUMN_NONE INT64_MIN                 /* integers: this one is cheap anywhere */

/* Scratch memory, about 380 KiB, got when first needed, and zstd's contexts
 * (about 1 MiB together), got when a column repeats itself. One per thread. */
struct column_codec {
	struct column_work *work;
	void *cctx, *dctx;
	bool portable; /* do without AVX2; the bytes are the same */
	bool quick;    /* encode by a guess, in half the time and a few bytes more */
	bool plain;    /* encode for fast decoding: symbols only where they save much */
};
void column_codec_init(struct column_codec *c);
void column_codec_done(struct column_codec *c);

/* Append n numbers (1 to COLUMN_MAX) as a column of at most 1 + 8 * n bytes; its
 * length is up to the caller to keep. 0, -EINVAL (n), -ENOMEM, or b->error. On
 * failure b holds what it held before. */
int column_put_values(struct column_codec *c, struct buf *b, const double *v, size_t n);
int column_put_ints(struct column_codec *c, struct buf *b, const int64_t *v, size_t n);

/* The n numbers (1 to COLUMN_MAX) of the column that fills p[0..len). NULL, or what
 * is wrong with it ("out of memory" if there is none); then out[0..n) holds
 * anything. */
const char *column_get_values(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			      double *out);
const char *column_get_ints(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			    int64_t *out);

/* Is the column one number repeated? Then that number; O(1), without a codec. What
 * is not told as constant may still turn out to be. */
bool column_constant_value(const unsigned char *p, size_t len, double *ret);
bool column_constant_int(const unsigned char *p, size_t len, int64_t *ret);

#endif
