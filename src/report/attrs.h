/* SPDX-License-Identifier: Apache-2.0
 *
 * attrs.h - the JSON that a training program attached to an event, checked
 * before it becomes part of our own output.
 */
#ifndef REPORT_ATTRS_H
#define REPORT_ATTRS_H

#include "base/buf.h"
#include "base/json.h"

#include <stdint.h>

#define ATTRS_DEPTH_MAX 32

/* Append text to out without the blanks between tokens if it is one well-formed
 * JSON object (RFC 8259, UTF-8, at most ATTRS_DEPTH_MAX deep): 0. Else -EBADMSG, or
 * -EFBIG as it does not fit, and out is as before. */
int attrs_compact(const char *text, struct buf *out);

/* A key with the object; {} for ""; a string with the text if it is no object,
 * so that our output stays JSON whatever the program wrote. */
void attrs_json(struct json *j, const char *key, const char *text);

/* A time in attributes of our own is nanoseconds as text: many readers of JSON keep only 53 bits
 * of a number. Write one; and read it from a compact object, 0: there is none. */
void attrs_put_ns(struct json *j, const char *key, int64_t ns);
int64_t attrs_ns(const char *object, const char *key);

#endif
