/* SPDX-License-Identifier: Apache-2.0
 *
 * sheet.h - a table of results, built once and written as an aligned table for people,
 * as JSON or as CSV. What a view of `lapse trace` prints is a list of sheets and
 * sentences.
 */
#ifndef REPORT_SHEET_H
#define REPORT_SHEET_H

#include "base/json.h"
#include "report/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum sheet_kind {
	SHEET_TEXT,
	SHEET_COUNT,   /* int64 */
	SHEET_NS,      /* int64 nanoseconds; people see "12.3 ms" */
	SHEET_US,      /* double microseconds; people see "12.3 ms" */
	SHEET_BYTES,   /* int64; people see "1.5 GiB" */
	SHEET_PERCENT, /* double, 0 to 100; people see "12.3 %" */
	SHEET_NUMBER,  /* double; people see three digits and all before the point */
	SHEET_BOOL     /* int64, 0 or 1; people see yes and no */
};

/* Flags of columns beside enum table_flags. */
#define SHEET_DATA 256 /* not for people */
#define SHEET_SEEN 512 /* for people only */

struct sheet_column {
	const char *key;  /* of JSON and CSV: "idle_ns"; never renamed (docs/trace.md) */
	const char *head; /* for people: "IDLE" */
	enum sheet_kind kind;
	int flags; /* enum table_flags, SHEET_DATA, SHEET_SEEN */
};

struct sheet;

/* name is the key in JSON, title what people see above it (NULL: nothing). All strings but
 * cells stay the caller's and outlive it. Allocation failure aborts. */
struct sheet *sheet_new(const char *name, const char *title, const struct sheet_column *columns,
			size_t n);
void sheet_free(struct sheet *s);

/* The next cell, from the left, row by row; its kind is the column's. */
void sheet_text(struct sheet *s, const char *text); /* copied; NULL is missing */
void sheet_int(struct sheet *s, int64_t v);
void sheet_double(struct sheet *s, double v);
void sheet_missing(struct sheet *s); /* null, empty; people see "-" */
size_t sheet_rows(const struct sheet *s);
const char *sheet_name(const struct sheet *s);
/* People do not see the column of this key. */
void sheet_hide(struct sheet *s, const char *key);

/* Write it. limit: rows of the table for people, 0 all; the rest is told in a line. */
void sheet_print(const struct sheet *s, const struct term *term, FILE *to, size_t limit);
void sheet_json(const struct sheet *s, struct json *j); /* an array of objects */
void sheet_csv(const struct sheet *s, FILE *to);        /* with a line of keys */

#endif
