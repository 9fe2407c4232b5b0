/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h - text for people: what the stream can do (colour, width), cells in
 * aligned columns, foreign text made safe.
 */
#ifndef REPORT_TABLE_H
#define REPORT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* What a stream can show. */
struct term {
	bool color; /* a terminal, NO_COLOR empty or unset, TERM not "dumb" */
	int width;  /* columns of the terminal; 0: not a terminal, nothing is cut */
};

/* Look at a stream. The width is the terminal's, else $COLUMNS, else 80. */
void term_look(struct term *t, FILE *to);

enum term_style {
	TERM_PLAIN,
	TERM_BOLD,
	TERM_DIM,
	TERM_RED,
	TERM_YELLOW,
	TERM_GREEN,
	TERM_BLUE,
	TERM_MAGENTA,
	TERM_CYAN
};

/* Print text in a style: escape codes only where t->color. */
void term_put(const struct term *t, FILE *to, enum term_style style, const char *text);

/* Columns that text takes on a terminal: wide characters count two, invalid
 * bytes one. */
int term_text_width(const char *text);

/* Copy of text with control characters and invalid bytes replaced, line ends
 * and tabs by spaces; the caller frees it. NULL gives "". */
char *term_clean(const char *text);

enum table_flags {
	TABLE_RIGHT = 1, /* numbers: aligned right */
	TABLE_ELIDE = 2, /* names: may be shortened on a terminal, ".." in the middle */
	TABLE_CUT = 4,   /* sentences: may be shortened on a terminal, ".." at the end */
	TABLE_DROP = 8   /* left out whole on a terminal where the table does not fit */
};

struct table_column {
	const char *head; /* "" none; all empty: no line of heads */
	int flags;
};

struct table;

/* A table of n columns; the array stays the caller's and must outlive it. */
struct table *table_new(const struct table_column *columns, size_t n);
void table_free(struct table *t);

/* Add the next cell, from the left, row by row. The text is cleaned and copied;
 * NULL is empty. */
void table_cell(struct table *t, enum term_style style, const char *text);
void table_cellf(struct table *t, enum term_style style, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Complete rows so far. */
size_t table_rows(const struct table *t);

/* Print the heads (dim) and all rows, two spaces between columns, each line
 * indented; columns that are empty in every row are left out, heads too. */
void table_print(const struct table *t, const struct term *term, FILE *to, int indent);

#endif
