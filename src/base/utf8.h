/* SPDX-License-Identifier: Apache-2.0
 *
 * utf8.h - what is a character, and making foreign text safe to show.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Length in bytes (1 to 4) of the well-formed UTF-8 character at p, or 0. */
size_t utf8_valid(const unsigned char *p, size_t len);

/* Replace, in place, control characters and bytes that are not UTF-8 by '?'.
 * For names and texts from outside before they reach a terminal or a file. */
void utf8_clean(char *s, size_t len);

/* Write the character as UTF-8; its length. The caller sees to it that it is one. */
size_t utf8_put(char out[4], uint32_t c);

/* The number that four hex digits are, as behind JSON's \u; -1: they are none. */
int32_t utf8_hex4(const char *p);

#endif
