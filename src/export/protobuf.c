/* SPDX-License-Identifier: Apache-2.0
 *
 * protobuf.c - see protobuf.h. The wire format is four rules long; it is
 * described at protobuf.dev/programming-guides/encoding.
 */
#include "export/protobuf.h"

#include <endian.h>
#include <string.h>

enum protobuf_type {
	PROTOBUF_VARINT = 0,
	PROTOBUF_FIXED64 = 1,
	PROTOBUF_LENGTH = 2,
	PROTOBUF_FIXED32 = 5
};

static void protobuf_key(struct buf *b, unsigned field, enum protobuf_type type)
{
	buf_uvarint(b, (uint64_t)field << 3 | type);
}

static void protobuf_fixed64(struct buf *b, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	bits = htole64(bits);
	buf_append(b, &bits, sizeof(bits));
}

void protobuf_int(struct buf *b, unsigned field, int64_t v)
{
	protobuf_key(b, field, PROTOBUF_VARINT);
	buf_uvarint(b, (uint64_t)v);
}

void protobuf_double(struct buf *b, unsigned field, double v)
{
	protobuf_key(b, field, PROTOBUF_FIXED64);
	protobuf_fixed64(b, v);
}

void protobuf_float(struct buf *b, unsigned field, float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof(bits));
	bits = htole32(bits);
	protobuf_key(b, field, PROTOBUF_FIXED32);
	buf_append(b, &bits, sizeof(bits));
}

void protobuf_bytes(struct buf *b, unsigned field, const void *data, size_t len)
{
	protobuf_key(b, field, PROTOBUF_LENGTH);
	buf_uvarint(b, len);
	buf_append(b, data, len);
}

void protobuf_str(struct buf *b, unsigned field, const char *s)
{
	protobuf_bytes(b, field, s, strlen(s));
}

void protobuf_doubles(struct buf *b, unsigned field, const double *v, size_t n)
{
	size_t i;

	if (n == 0)
		return;
	protobuf_key(b, field, PROTOBUF_LENGTH);
	buf_uvarint(b, n * sizeof(*v));
	for (i = 0; i < n; i++)
		protobuf_fixed64(b, v[i]);
}

size_t protobuf_begin(struct buf *b, unsigned field)
{
	protobuf_key(b, field, PROTOBUF_LENGTH);
	/* Room for a length below 128; a longer one moves the message. */
	buf_putc(b, 0);
	return b->len;
}

void protobuf_end(struct buf *b, size_t start)
{
	size_t len, more = 0, i;
	uint64_t v;

	if (b->error || b->len < start)
		return;
	len = b->len - start;
	for (v = len >> 7; v; v >>= 7)
		more++;
	if (more && !buf_reserve(b, more))
		return;
	memmove(b->data + start + more, b->data + start, len);
	b->len += more;
	for (i = 0, v = len; i <= more; i++, v >>= 7)
		b->data[start - 1 + i] = (char)((v & 0x7f) | (i < more ? 0x80 : 0));
	b->data[b->len] = '\0';
}
