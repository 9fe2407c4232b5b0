/* SPDX-License-Identifier: Apache-2.0
 *
 * source.h - the bytes of a trace, decompressed, one piece after the other: from a
 * file, a pipe or memory; gzip (several members too) and zstd by content.
 */
#ifndef TRACE_SOURCE_H
#define TRACE_SOURCE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source;

/* Open PATH ("-" is stdin). 0, -errno. */
int source_open(const char *path, struct source **ret, struct err *e);
/* From memory, as it is, so many bytes at a time (0: any). The caller keeps it. */
int source_memory(const void *data, size_t len, size_t piece, struct source **ret);
void source_close(struct source *s);

/* Up to max bytes into out; *ret 0 at the end. 0, -EAGAIN (nothing came for a while: try
 * again, or do not), or what read() said. Damage of compressed data is an end
 * (source_damage()). */
int source_read(struct source *s, void *out, size_t max, size_t *ret);

/* Why the data ended early; NULL: it did not. */
const char *source_damage(const struct source *s);
/* Bytes of the file so far, and of how many (0 unknown). */
void source_progress(const struct source *s, uint64_t *ret_bytes, uint64_t *ret_of);

/* Bytes of memory held. */
uint64_t source_held(const struct source *s);

#endif
