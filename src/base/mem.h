/* SPDX-License-Identifier: Apache-2.0
 *
 * mem.h - allocation that cannot fail: prints what was asked for and aborts.
 * For agent and commands; code that reads foreign input uses plain malloc and
 * handles NULL, with a stated maximum.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Zeroed memory for n objects of size bytes; the caller frees it. n * size of
 * 0 gives a pointer that may be freed. */
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));

/* As realloc(); the old pointer is gone. */
void *xrealloc(void *p, size_t n, size_t size) __attribute__((returns_nonnull));

/* Copy of s; the caller frees it. NULL gives NULL. */
char *xstrdup(const char *s) __attribute__((malloc));

/* Copy of the first n bytes of s, NUL added; the caller frees it. */
char *xstrndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));

/* Formatted string; the caller frees it. */
char *xasprintf(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), malloc, returns_nonnull));

/* Make room for one more element in *items (len used, *cap allocated) by
 * doubling; returns the possibly moved array. */
void *xgrow(void *items, size_t len, size_t *cap, size_t size) __attribute__((returns_nonnull));

#endif
