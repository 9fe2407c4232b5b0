/* SPDX-License-Identifier: Apache-2.0
 *
 * topgrid.h - a screen as memory: rows of cells, each one character and what it means.
 * Drawing knows no terminal; a terminal or plain text is made of the cells afterwards.
 *
 * Foreign text is made safe here: one cell never holds a control character, a mark that
 * changes the direction of writing or joins others, or half of a wide character.
 */
#ifndef CLI_TOPGRID_H
#define CLI_TOPGRID_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPGRID_SIDE_MAX 1000 /* columns and rows; more are not used */

/* What a cell means; what it looks like is the terminal's matter. */
enum topgrid_style {
	TOPGRID_PLAIN,
	TOPGRID_DIM,
	TOPGRID_BOLD,
	TOPGRID_TITLE, /* of a pane */
	TOPGRID_FOCUS, /* of the pane that has the keys */
	TOPGRID_RULE,
	TOPGRID_GOOD,
	TOPGRID_WARN,
	TOPGRID_BAD,
	TOPGRID_KEY,  /* a key in the bottom line */
	TOPGRID_MARK, /* the bottom line, a chosen row */
	TOPGRID_LOW,  /* bars, by how full they are */
	TOPGRID_MIDDLE,
	TOPGRID_HIGH,
	TOPGRID_COLOR, /* lines of charts: TOPGRID_COLOR + 0 to TOPGRID_COLORS - 1 */
	TOPGRID_FILL = TOPGRID_COLOR + 7, /* text on a ground of these colours */
	TOPGRID_STYLES = TOPGRID_FILL + 7
};
#define TOPGRID_COLORS 7

struct topgrid_cell {
	uint32_t c;    /* Unicode; 0: the right half of a wide one */
	uint8_t style; /* enum topgrid_style */
};

struct topgrid {
	int w, h;
	bool utf8;                  /* else every cell is ASCII */
	struct topgrid_cell *cells; /* h rows of w; owned */
};

/* A part of it. */
struct topgrid_rect {
	int x, y, w, h;
};

/* Blank, of w x h cells (0 to TOPGRID_SIDE_MAX each: more and less are cut). */
void topgrid_init(struct topgrid *g, int w, int h, bool utf8);
void topgrid_done(struct topgrid *g);
void topgrid_clear(struct topgrid *g);

/* The cell; NULL outside. */
struct topgrid_cell *topgrid_at(const struct topgrid *g, int x, int y);

/* Put a character that takes one column; `ascii` in its place without UTF-8. Outside: nothing. */
void topgrid_put(struct topgrid *g, int x, int y, int style, uint32_t c, char ascii);

/* Write text in at most `max` columns, the rest is cut (the last column says so: "~").
 * Returns the columns it took. */
int topgrid_text(struct topgrid *g, int x, int y, int max, int style, const char *text);
int topgrid_printf(struct topgrid *g, int x, int y, int max, int style, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));
/* The same, ended at column x + max. */
int topgrid_right(struct topgrid *g, int x, int y, int max, int style, const char *text);

/* Columns that topgrid_text() would take without a limit. */
int topgrid_width(const struct topgrid *g, const char *text);

/* A bar over w columns, full at share 1, and what is left of it; NaN: empty. By its style it
 * says how near to full it is, unless style is another than TOPGRID_PLAIN. */
void topgrid_bar(struct topgrid *g, int x, int y, int w, double share, int style);

/* Low, middle or high: from 0.7 and 0.9 on. */
int topgrid_load(double share);

/* Append all rows as text, each ended by a line end, blanks at the end left out. color: with
 * escape codes. */
void topgrid_print(const struct topgrid *g, struct buf *out, bool color);

#endif
