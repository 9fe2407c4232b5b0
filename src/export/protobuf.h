/* SPDX-License-Identifier: Apache-2.0
 *
 * protobuf.h - writing Protocol Buffers messages into a buf, field by field. A
 * nested message is written in place: begin, its fields, end.
 */
#ifndef EXPORT_PROTOBUF_H
#define EXPORT_PROTOBUF_H

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

/* Each appends one field: integers and bools, doubles, floats, strings. */
void protobuf_int(struct buf *b, unsigned field, int64_t v);
void protobuf_double(struct buf *b, unsigned field, double v);
void protobuf_float(struct buf *b, unsigned field, float v);
void protobuf_bytes(struct buf *b, unsigned field, const void *data, size_t len);
void protobuf_str(struct buf *b, unsigned field, const char *s);
/* A packed array of doubles; nothing for n = 0. */
void protobuf_doubles(struct buf *b, unsigned field, const double *v, size_t n);

/* A message in a field: what is appended between the two calls. begin returns
 * what end wants. */
size_t protobuf_begin(struct buf *b, unsigned field);
void protobuf_end(struct buf *b, size_t start);

#endif
