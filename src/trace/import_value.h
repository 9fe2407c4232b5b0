/* SPDX-License-Identifier: Apache-2.0
 *
 * import_value.h - plain data out of files that Python wrote: numbers, texts, lists, tuples
 * and dictionaries, read without running anything. Both the pickle and the marshal reader
 * fill it; whoever reads it must expect any shape, cycles too (a list may hold itself).
 */
#ifndef TRACE_IMPORT_VALUE_H
#define TRACE_IMPORT_VALUE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IMPORT_VALUES_MAX (64u << 20) /* values and cells of one file */
#define IMPORT_STACK_MAX (1u << 20)   /* values open at once */
#define IMPORT_DEPTH_MAX 200          /* of nested values, marshal only */

enum import_type {
	IMPORT_NONE,
	IMPORT_BOOL,
	IMPORT_INT,
	IMPORT_FLOAT,
	IMPORT_TEXT, /* of a str or of bytes */
	IMPORT_LIST, /* of a list, a tuple or a set */
	IMPORT_DICT,
	IMPORT_CLASS, /* a name of the allow-list */
	IMPORT_OBJECT /* an instance of one: items are its state, if any */
};

/* Handle of a value; IMPORT_NULL none. */
typedef uint32_t import_ref;
#define IMPORT_NULL UINT32_MAX

struct import_value {
	uint8_t type;
	union {
		int64_t i;
		double f;
		struct {
			const char *p; /* in the file's bytes */
			uint32_t len;
		} text;
		struct {
			uint32_t first, last; /* cells; IMPORT_NULL none */
			uint32_t n;           /* cells: of a dict two for each pair */
		} items;
	};
};

struct import_cell {
	import_ref value;
	uint32_t next;
};

struct import_tree {
	struct import_value *values;
	struct import_cell *cells;
	size_t n, cap, n_cells, cap_cells;
	import_ref root;
};

void import_tree_done(struct import_tree *t);

/* Making: 0 or -ENOMEM, -E2BIG. */
int import_add(struct import_tree *t, const struct import_value *v, import_ref *ret);
int import_push(struct import_tree *t, import_ref list, import_ref item);

/* Looking: all take IMPORT_NULL and values of another type, and give the default then. */
enum import_type import_type(const struct import_tree *t, import_ref v);
int64_t import_int(const struct import_tree *t, import_ref v, int64_t none);
double import_float(const struct import_tree *t, import_ref v, double none); /* of ints too */
const char *import_text(const struct import_tree *t, import_ref v, size_t *ret_len); /* or NULL */
bool import_is(const struct import_tree *t, import_ref v, const char *text);
/* Value of a key of a dict (or of an object's state); the last one of equal keys. */
import_ref import_get(const struct import_tree *t, import_ref dict, const char *key);
/* Walk the items of a list, or keys and values of a dict in turn:
 * for (uint32_t c = import_first(t, v); c != IMPORT_NULL; c = import_next(t, c)) */
uint32_t import_first(const struct import_tree *t, import_ref v);
uint32_t import_next(const struct import_tree *t, uint32_t cell);
import_ref import_item(const struct import_tree *t, uint32_t cell);
import_ref import_at(const struct import_tree *t, import_ref list, uint32_t i); /* small i */
uint32_t import_count(const struct import_tree *t, import_ref v);

/* Read a pickle (protocols 2 to 5): an allow-list of opcodes that only make data. Classes are
 * taken as names if they are in the small list that importers know, and never looked up; any
 * other opcode is refused. Texts point into data, which must stay. 0, -EBADMSG, -ENOMEM,
 * -E2BIG. */
int import_pickle(const void *data, size_t len, struct import_tree *ret, struct err *e);

/* Read one JSON value, to the letter. Escapes are undone in place: data changes. */
int import_json(char *data, size_t len, struct import_tree *ret, struct err *e);

/* Read one marshal value (versions 0 to 4) of plain data; code objects are refused. */
int import_marshal(const void *data, size_t len, struct import_tree *ret, struct err *e);

#endif
