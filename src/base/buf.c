/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){.max = max};
}

void buf_done(struct buf *b)
{
	free(b->data);
	buf_init(b, b->max);
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	b->error = 0;
	if (b->data)
		b->data[0] = '\0';
}

void *buf_reserve(struct buf *b, size_t len)
{
	size_t need, cap;
	char *data;

	if (b->error)
		return NULL;
	if (len > b->max || b->len > b->max - len) {
		b->error = -EFBIG;
		return NULL;
	}
	if (len > PTRDIFF_MAX / 2 || b->len > PTRDIFF_MAX / 2 - len) {
		b->error = -ENOMEM;
		return NULL;
	}
	need = b->len + len + 1;
	if (need > b->cap) {
		cap = b->cap ? b->cap * 2 : 256;
		while (cap < need)
			cap *= 2;
		data = realloc(b->data, cap);
		if (!data) {
			b->error = -ENOMEM;
			return NULL;
		}
		b->data = data;
		b->cap = cap;
		b->data[b->len] = '\0';
	}
	return b->data + b->len;
}

void buf_append(struct buf *b, const void *data, size_t len)
{
	char *to = buf_reserve(b, len);

	if (!to || len == 0)
		return;
	memcpy(to, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_puts(struct buf *b, const char *s)
{
	buf_append(b, s, strlen(s));
}

void buf_putc(struct buf *b, char c)
{
	buf_append(b, &c, 1);
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	char small[256];
	va_list again;
	char *to;
	int n;

	va_copy(again, ap);
	n = vsnprintf(small, sizeof(small), fmt, ap);
	if (n >= 0 && (size_t)n < sizeof(small)) {
		buf_append(b, small, (size_t)n);
	} else if (n >= 0) {
		to = buf_reserve(b, (size_t)n);
		if (to) {
			vsnprintf(to, (size_t)n + 1, fmt, again);
			b->len += (size_t)n;
		}
	}
	va_end(again);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

void buf_uvarint(struct buf *b, uint64_t v)
{
	unsigned char bytes[10];
	size_t n = 0;

	while (v >= 0x80) {
		bytes[n++] = (unsigned char)(v | 0x80);
		v >>= 7;
	}
	bytes[n++] = (unsigned char)v;
	buf_append(b, bytes, n);
}

void buf_svarint(struct buf *b, int64_t v)
{
	buf_uvarint(b, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63));
}

const char *buf_str(const struct buf *b)
{
	return b->data ? b->data : "";
}

uint64_t cur_uvarint(struct cur *c)
{
	uint64_t v = 0;
	unsigned shift;

	for (shift = 0; shift < 64 && c->p < c->end; shift += 7) {
		unsigned char byte = *c->p++;

		if (shift == 63 && byte > 1)
			break;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
	c->error = -EBADMSG;
	c->p = c->end;
	return 0;
}

int64_t cur_svarint(struct cur *c)
{
	uint64_t v = cur_uvarint(c);

	return (int64_t)((v >> 1) ^ (0 - (v & 1)));
}

const void *cur_bytes(struct cur *c, size_t len)
{
	const void *p = c->p;

	if (len > (size_t)(c->end - c->p)) {
		c->error = -EBADMSG;
		c->p = c->end;
		return NULL;
	}
	c->p += len;
	return p;
}
