/* SPDX-License-Identifier: Apache-2.0
 *
 * member.h - the members of an event whose text is well-formed JSON (repair_each() gives such),
 * one after the other, as they are written.
 */
#ifndef TRACE_MEMBER_H
#define TRACE_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct member_part {
	const char *p; /* NULL: not there */
	size_t len;
};

/* The member behind *p, which is at { or a comma: its key without quotes, and its value. Moves *p
 * behind it, to a comma or the last }. false: no more; nothing behind that } is looked at. */
bool member_next(const char **p, struct member_part *key, struct member_part *value);

/* Is it this text, in quotes and without escapes? */
bool member_is(const struct member_part *v, const char *text);

/* A number times 10^shift, in quotes too. false: it is none. */
bool member_number(const struct member_part *v, int shift, int64_t *ret);

#endif
