/* SPDX-License-Identifier: Apache-2.0
 *
 * jsonwalk.h - looking things up in small JSON texts without building a tree.
 * Only for texts that attrs_compact() has passed: well-formed, no blanks.
 */
#ifndef REPORT_JSONWALK_H
#define REPORT_JSONWALK_H

#include <stddef.h>
#include <stdint.h>

/* The value of a key of the object at p (keys with escapes match nothing), or
 * NULL: not an object, no such key, p is NULL. */
const char *jsonwalk_get(const char *p, const char *key);

/* The first item of the array at p, and the one behind an item; NULL: none. */
const char *jsonwalk_first(const char *p);
const char *jsonwalk_next(const char *item);

/* The string at p into out, cut to cap - 1 bytes; "" if it is none. Escapes of
 * control characters and \u escapes become '?'. Returns out. */
char *jsonwalk_string(const char *p, char *out, size_t cap);

/* The same, but ends of lines and tabs stay. */
char *jsonwalk_text(const char *p, char *out, size_t cap);

/* The whole number at p, or missing if it is none. */
int64_t jsonwalk_int(const char *p, int64_t missing);

#endif
