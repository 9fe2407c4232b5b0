/* SPDX-License-Identifier: Apache-2.0
 *
 * json.h - writing JSON into a buf: commas and quoting are the writer's
 * business. Non-finite numbers become the strings "NaN", "Infinity" and
 * "-Infinity"; bytes that are not UTF-8 become U+FFFD.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define JSON_DEPTH_MAX 32

struct json {
	struct buf *out;               /* not owned */
	unsigned depth;                /* open objects and arrays */
	bool has_item[JSON_DEPTH_MAX]; /* does the level need a comma? */
	bool after_key;
};

void json_init(struct json *j, struct buf *out);

void json_object(struct json *j);
void json_object_end(struct json *j);
void json_array(struct json *j);
void json_array_end(struct json *j);

/* The key of the next value in an object. */
void json_key(struct json *j, const char *key);

void json_str(struct json *j, const char *s); /* NULL gives null */
void json_strn(struct json *j, const char *s, size_t len);
void json_int(struct json *j, int64_t v);
void json_uint(struct json *j, uint64_t v);
void json_bool(struct json *j, bool v);
void json_null(struct json *j);
/* Shortest text that reads back as the same double. */
void json_double(struct json *j, double v);
/* Text that is JSON already. */
void json_raw(struct json *j, const char *text);

/* Key and value in one call. */
void json_kstr(struct json *j, const char *key, const char *s);
void json_kint(struct json *j, const char *key, int64_t v);
void json_kuint(struct json *j, const char *key, uint64_t v);
void json_kdouble(struct json *j, const char *key, double v);
void json_kbool(struct json *j, const char *key, bool v);

/* Append the shortest decimal text of v to b ("NaN", "Infinity", "-Infinity"
 * without quotes); the one way in which lapse prints a double exactly. */
void json_put_double(struct buf *b, double v);

#endif
