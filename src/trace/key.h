/* SPDX-License-Identifier: Apache-2.0
 *
 * key.h - the keys of events and of their args that mean something here.
 */
#ifndef TRACE_KEY_H
#define TRACE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a value is read. */
enum key_op {
	KEY_SKIP,
	KEY_PHASE,
	KEY_NAME,
	KEY_CAT,
	KEY_PID,
	KEY_TID,
	KEY_TS,
	KEY_DUR,
	KEY_ARGS,
	KEY_COLUMN, /* an int64 of struct event, at offset `at` */
	KEY_STREAM,
	KEY_LABEL,
	KEY_INT, /* a field of struct trace_args: `at` is an enum argset_field */
	KEY_DOUBLE,
	KEY_TEXT,
	KEY_JSON,
	KEY_GRID,
	/* As those without PAST, for what is odd in them; nothing is kept. */
	KEY_PAST_INT,
	KEY_PAST_TIME, /* ts */
	KEY_PAST_DOUBLE,
	KEY_PAST_GRID
};

struct key_row {
	const char *name;
	uint8_t len, op;
	uint16_t at;
};

/* The row of a key of len bytes, of an event or of its args; a row of KEY_SKIP if it is none. */
const struct key_row *key_find(bool in_args, const char *key, size_t len);
/* Is it a key that events have? */
bool key_is_event(const char *key, size_t len);
/* A small number of a row, for a set of those met: below 64. */
unsigned key_number(const struct key_row *row);

#endif
