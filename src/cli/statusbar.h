/* SPDX-License-Identifier: Apache-2.0
 *
 * statusbar.h - one line at the bottom of a terminal on which somebody else writes: the
 * rows above it become the scroll region, the line is drawn outside of it.
 *
 * Its file is opened anew and never blocks: a terminal that is stopped (Ctrl-S) or slow
 * makes the line late, nobody waits. What is not written whole is gone on with first.
 */
#ifndef CLI_STATUSBAR_H
#define CLI_STATUSBAR_H

#include "base/buf.h"

#include <stdbool.h>

#define STATUSBAR_ROWS_MIN 4
#define STATUSBAR_COLUMNS_MIN 20

struct statusbar {
	int fd; /* owned; -1 none */
	bool color;
	int rows, columns;  /* of the terminal when it was last drawn; rows 0: nothing is drawn */
	struct buf waiting; /* what the terminal did not take yet */
};

/* The terminal of the descriptor. 0; -errno: it cannot be used for this. */
int statusbar_open(struct statusbar *b, int terminal, bool color);
void statusbar_close(struct statusbar *b);

/* May the line be drawn now? Not while this process group is not the terminal's
 * foreground one, nor while a program reads single keys (an editor, a pager). */
bool statusbar_may(const struct statusbar *b);

/* Columns for the text; 0: the terminal is too small. */
size_t statusbar_columns(const struct statusbar *b);

/* Draw the text, of at most statusbar_columns(). -errno: the terminal is gone. */
int statusbar_draw(struct statusbar *b, const char *text);

/* Give the terminal back as it was. Waits up to ms. -EAGAIN: it takes nothing. */
int statusbar_clear(struct statusbar *b, int ms);

/* What draws and clears, as text. `begin`: the region is not set for this size yet; the
 * cursor may be in the last row then. */
void statusbar_frame(struct buf *out, int rows, bool begin, bool color, const char *text);
void statusbar_unframe(struct buf *out, int rows);

#endif
