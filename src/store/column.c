/* SPDX-License-Identifier: Apache-2.0
 *
 * column.c - stand-in until the real codec comes. Raw numbers.
 */
#include "store/column.h"
#include <errno.h>
#include <string.h>
void column_codec_init(struct column_codec *c) { *c = (struct column_codec){0}; }
void column_codec_done(struct column_codec *c) { *c = (struct column_codec){0}; }
static int put(struct buf *b, const void *v, size_t n)
{
	size_t i;
	for (i = 1; i < n; i++)
		if (memcmp((const char *)v + 8 * i, v, 8) != 0)
			break;
	buf_putc(b, i == n ? 1 : 0);
	buf_append(b, v, i == n ? 8 : 8 * n);
	return b->error;
}
static const char *get(const unsigned char *p, size_t len, size_t n, void *out)
{
	size_t i;
	if (len == 9 && p[0] == 1) {
		for (i = 0; i < n; i++)
			memcpy((char *)out + 8 * i, p + 1, 8);
		return NULL;
	}
	if (len != 1 + 8 * n || p[0])
		return "bad column";
	memcpy(out, p + 1, 8 * n);
	return NULL;
}
int column_put_values(struct column_codec *c, struct buf *b, const double *v, size_t n) { (void)c; return put(b, v, n); }
int column_put_ints(struct column_codec *c, struct buf *b, const int64_t *v, size_t n) { (void)c; return put(b, v, n); }
const char *column_get_values(struct column_codec *c, const unsigned char *p, size_t len, size_t n, double *out) { (void)c; return get(p, len, n, out); }
const char *column_get_ints(struct column_codec *c, const unsigned char *p, size_t len, size_t n, int64_t *out) { (void)c; return get(p, len, n, out); }
