/* SPDX-License-Identifier: Apache-2.0
 *
 * buf.h - a growing byte buffer with a stated maximum. Errors stick: append as
 * often as you like, look at `error` once at the end.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data; /* len bytes and a NUL behind them; NULL while empty */
	size_t len; /* bytes used */
	size_t cap; /* bytes allocated */
	size_t max; /* len never exceeds this */
	int error;  /* 0, or -EFBIG once an append did not fit, or -ENOMEM */
};

/* An empty buffer that holds at most max bytes. Allocates nothing. */
void buf_init(struct buf *b, size_t max);

/* Free the memory; the buffer is empty and may be used again. */
void buf_done(struct buf *b);

/* Empty it and forget the error; keep the memory. */
void buf_reset(struct buf *b);

/* Append; what does not fit is left out whole, and `error` set. */
void buf_append(struct buf *b, const void *data, size_t len);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

/* Append an unsigned LEB128 number, and a signed one (zigzag). */
void buf_uvarint(struct buf *b, uint64_t v);
void buf_svarint(struct buf *b, int64_t v);

/* Room for len more bytes at data + len, or NULL and `error` set. The caller
 * then adds what it wrote to b->len. */
void *buf_reserve(struct buf *b, size_t len);

/* The text so far as a string: "" while empty. Owned by the buffer. */
const char *buf_str(const struct buf *b);

/* Reading side: a cursor over bytes that never runs past the end. */
struct cur {
	const unsigned char *p, *end;
	int error; /* 0, or -EBADMSG once something did not fit */
};

/* Next number, or 0 and `error` set. */
uint64_t cur_uvarint(struct cur *c);
int64_t cur_svarint(struct cur *c);

/* Next len bytes, or NULL and `error` set. */
const void *cur_bytes(struct cur *c, size_t len);

#endif
