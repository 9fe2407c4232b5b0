/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/curses.h"

#include "base/mem.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define CURSES_LIBRARY "libncursesw.so.6"

static struct curses_api curses_calls;

/* clang-format off */
static const struct {
	const char *name;
	void *to;
} curses_symbols[] = {
	{"newterm", &curses_calls.newterm},
	{"set_term", &curses_calls.set_term},
	{"delscreen", &curses_calls.delscreen},
	{"endwin", &curses_calls.endwin},
	{"cbreak", &curses_calls.cbreak},
	{"noecho", &curses_calls.noecho},
	{"keypad", &curses_calls.keypad},
	{"nodelay", &curses_calls.nodelay},
	{"curs_set", &curses_calls.curs_set},
	{"set_escdelay", &curses_calls.set_escdelay},
	{"use_env", &curses_calls.use_env},
	{"use_tioctl", &curses_calls.use_tioctl},
	{"has_colors", &curses_calls.has_colors},
	{"start_color", &curses_calls.start_color},
	{"use_default_colors", &curses_calls.use_default_colors},
	{"init_pair", &curses_calls.init_pair},
	{"wattr_set", &curses_calls.attr_set},
	{"mvwaddnwstr", &curses_calls.addnwstr},
	{"wget_wch", &curses_calls.get_wch},
	{"werase", &curses_calls.erase},
	{"wrefresh", &curses_calls.refresh},
	{"clearok", &curses_calls.clearok},
	{"resizeterm", &curses_calls.resizeterm},
	{"getmaxx", &curses_calls.maxx},
	{"getmaxy", &curses_calls.maxy},
	{"stdscr", &curses_calls.window},
	{"COLORS", &curses_calls.colors},
};
/* clang-format on */

const struct curses_api *curses_load(struct err *e)
{
	static bool loaded;
	void *library, *symbol;
	size_t i;

	if (loaded)
		return &curses_calls;
	library = dlopen(CURSES_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	for (i = 0; i < ARRAY_LEN(curses_symbols) && library; i++) {
		symbol = dlsym(library, curses_symbols[i].name);
		if (!symbol) {
			dlclose(library);
			library = NULL;
			break;
		}
		memcpy(curses_symbols[i].to, &symbol, sizeof(symbol));
	}
	loaded = library != NULL;
	if (loaded)
		return &curses_calls;
	err_set(e, -ENOENT,
		CURSES_LIBRARY " is not here: install it (Debian: libncursesw6, Fedora: "
			       "ncurses-libs), or take --once, which prints one frame without it");
	return NULL;
}
