/* SPDX-License-Identifier: Apache-2.0
 *
 * curses.h - ncurses (wide characters), loaded when it is first needed: only `lapse top` draws
 * on a terminal, and prints a frame without it. Only the calls that it uses; types and numbers
 * are the ABI of libncursesw.so.6, which has not changed since it exists (2015).
 */
#ifndef CLI_CURSES_H
#define CLI_CURSES_H

#include "base/err.h"

#include <stdbool.h>
#include <stdio.h>
#include <wchar.h>

/* Attributes; a colour is a pair of its own (curses_api.attr_set). */
#define CURSES_BOLD (1u << 21)
#define CURSES_DIM (1u << 20)
#define CURSES_REVERSE (1u << 18)

#define CURSES_ERR (-1)
#define CURSES_KEY 256 /* of get_wch(): a key that is no character */

enum curses_key {
	CURSES_KEY_DOWN = 0402,
	CURSES_KEY_UP = 0403,
	CURSES_KEY_LEFT = 0404,
	CURSES_KEY_RIGHT = 0405,
	CURSES_KEY_HOME = 0406,
	CURSES_KEY_BACKSPACE = 0407,
	CURSES_KEY_NPAGE = 0522,
	CURSES_KEY_PPAGE = 0523,
	CURSES_KEY_ENTER = 0527,
	CURSES_KEY_BTAB = 0541,
	CURSES_KEY_END = 0550,
	CURSES_KEY_RESIZE = 0632
};

struct curses_api {
	void *(*newterm)(const char *type, FILE *out, FILE *in);
	void *(*set_term)(void *screen);
	void (*delscreen)(void *screen);
	int (*endwin)(void);
	int (*cbreak)(void);
	int (*noecho)(void);
	int (*keypad)(void *window, bool on);
	int (*nodelay)(void *window, bool on);
	int (*curs_set)(int visibility);
	int (*set_escdelay)(int ms);
	void (*use_env)(bool on);
	void (*use_tioctl)(bool on);
	bool (*has_colors)(void);
	int (*start_color)(void);
	int (*use_default_colors)(void);
	int (*init_pair)(short pair, short foreground, short background);
	int (*attr_set)(void *window, unsigned attributes, short pair, void *none); /* wattr_set */
	int (*addnwstr)(void *window, int y, int x, const wchar_t *text, int n); /* mvwaddnwstr */
	int (*get_wch)(void *window, wint_t *ret);                               /* wget_wch */
	int (*erase)(void *window);                                              /* werase */
	int (*refresh)(void *window);                                            /* wrefresh */
	int (*clearok)(void *window, bool on);
	int (*resizeterm)(int lines, int columns);
	int (*maxx)(const void *window); /* getmaxx */
	int (*maxy)(const void *window);
	void **window; /* stdscr */
	int *colors;   /* COLORS */
};

/* The calls, for the life of the process. NULL and *e, -ENOENT, says how to get it. */
const struct curses_api *curses_load(struct err *e);

#endif
