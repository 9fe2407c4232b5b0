/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/topscreen.h"

#include "base/mem.h"
#include "cli/curses.h"
#include "cli/topview.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define TOPSCREEN_SLICE_MS 500
#define TOPSCREEN_ESCAPE_MS 25 /* how long bytes behind an Escape may belong to it */

static const struct curses_api *topscreen_api; /* NULL: not open */
static void *topscreen_of;                     /* ncurses' screen */
static struct termios topscreen_before;
static bool topscreen_has_before, topscreen_colors, topscreen_dirty;
static volatile sig_atomic_t topscreen_signaled, topscreen_resized;

/* ---- signals ------------------------------------------------------------------------- */

/* What killed us kills us: but the terminal is given back before. Only calls that are allowed
 * here: what these bytes do (main screen, cursor, no attributes, keypad) every terminal that
 * ncurses drives this way knows. */
static void topscreen_crash(int number)
{
	static const char bytes[] = "\033[0m\033[?1l\033>\033[?25h\033[?1049l";

	if (topscreen_has_before)
		tcsetattr(STDIN_FILENO, TCSANOW, &topscreen_before);
	(void)!write(STDOUT_FILENO, bytes, sizeof(bytes) - 1);
	signal(number, SIG_DFL);
	raise(number);
}

/* Asked a second time before the first was heard: something hangs. */
static void topscreen_end(int number)
{
	if (topscreen_signaled)
		topscreen_crash(number);
	topscreen_signaled = number;
}

static void topscreen_resize(int number)
{
	(void)number;
	topscreen_resized = 1;
}

static const int topscreen_ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static const int topscreen_crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

static void topscreen_signals(void)
{
	struct sigaction end = {.sa_handler = topscreen_end},
			 resize = {.sa_handler = topscreen_resize},
			 crash = {.sa_handler = topscreen_crash, .sa_flags = (int)SA_RESETHAND},
			 before;
	size_t i;

	for (i = 0; i < ARRAY_LEN(topscreen_ends); i++) {
		sigaction(topscreen_ends[i], NULL, &before);
		if (before.sa_handler != SIG_IGN)
			sigaction(topscreen_ends[i], &end, NULL);
	}
	for (i = 0; i < ARRAY_LEN(topscreen_crashes); i++)
		sigaction(topscreen_crashes[i], &crash, NULL);
	sigaction(SIGWINCH, &resize, NULL);
}

int topscreen_signal(void)
{
	return topscreen_signaled;
}

/* ---- colours ---------------------------------------------------------------------------- */

/* Of 256 colours and of 8; -1: the terminal's own. The lines' are told apart also by those who
 * do not see red and green apart (after Okabe and Ito). */
static const struct {
	unsigned attributes;
	short many, few;
	bool ground; /* the colour is that of the ground */
} topscreen_styles[TOPGRID_STYLES] = {
	[TOPGRID_PLAIN] = {0, -1, -1, false},
	[TOPGRID_DIM] = {CURSES_DIM, -1, -1, false},
	[TOPGRID_BOLD] = {CURSES_BOLD, -1, -1, false},
	[TOPGRID_TITLE] = {CURSES_BOLD, -1, -1, false},
	[TOPGRID_FOCUS] = {CURSES_BOLD, 39, 6, false},
	[TOPGRID_RULE] = {CURSES_DIM, -1, -1, false},
	[TOPGRID_GOOD] = {0, 36, 2, false},
	[TOPGRID_WARN] = {0, 214, 3, false},
	[TOPGRID_BAD] = {CURSES_BOLD, 203, 1, false},
	[TOPGRID_KEY] = {CURSES_BOLD, -1, -1, false},
	[TOPGRID_MARK] = {CURSES_REVERSE, -1, -1, false},
	[TOPGRID_LOW] = {0, 74, 6, false},
	[TOPGRID_MIDDLE] = {0, 214, 3, false},
	[TOPGRID_HIGH] = {0, 203, 1, false},
	[TOPGRID_COLOR] = {0, 74, 4, false},
	[TOPGRID_COLOR + 1] = {0, 214, 3, false},
	[TOPGRID_COLOR + 2] = {0, 36, 6, false},
	[TOPGRID_COLOR + 3] = {0, 175, 5, false},
	[TOPGRID_COLOR + 4] = {0, 185, 2, false},
	[TOPGRID_COLOR + 5] = {0, 209, 1, false},
	[TOPGRID_COLOR + 6] = {0, 250, 7, false},
	[TOPGRID_FILL] = {0, 74, 4, true},
	[TOPGRID_FILL + 1] = {0, 214, 3, true},
	[TOPGRID_FILL + 2] = {0, 36, 6, true},
	[TOPGRID_FILL + 3] = {0, 175, 5, true},
	[TOPGRID_FILL + 4] = {0, 185, 2, true},
	[TOPGRID_FILL + 5] = {0, 209, 1, true},
	[TOPGRID_FILL + 6] = {0, 250, 7, true},
};

static void topscreen_pairs(const struct curses_api *a)
{
	bool many;
	int i;

	a->start_color();
	a->use_default_colors();
	many = *a->colors >= 256;
	for (i = 1; i < TOPGRID_STYLES; i++) {
		short color = many ? topscreen_styles[i].many : topscreen_styles[i].few;

		if (topscreen_styles[i].ground)
			a->init_pair((short)i, 0, color);
		else
			a->init_pair((short)i, color, -1);
	}
}

/* ---- open and close ------------------------------------------------------------------------ */

int topscreen_open(bool color, struct err *e)
{
	const struct curses_api *a = curses_load(e);
	const char *name = getenv("TERM");

	if (!a)
		return -ENOENT;
	topscreen_has_before = tcgetattr(STDIN_FILENO, &topscreen_before) == 0;
	topscreen_signals();
	/* $LINES and $COLUMNS would hide that the window gets another size. */
	a->use_env(false);
	a->use_tioctl(true);
	topscreen_of = a->newterm(NULL, stdout, stdin);
	if (!topscreen_of)
		return err_set(
			e, -ENOTTY,
			"ncurses does not know the terminal \"%.60s\": install its "
			"description (Debian: ncurses-term), set TERM to one it knows, or take "
			"--once",
			name ? name : "");
	a->set_term(topscreen_of);
	a->cbreak();
	a->noecho();
	a->keypad(*a->window, true);
	a->nodelay(*a->window, true);
	a->curs_set(0);
	a->set_escdelay(TOPSCREEN_ESCAPE_MS);
	topscreen_colors = color && a->has_colors();
	if (topscreen_colors)
		topscreen_pairs(a);
	topscreen_api = a;
	return 0;
}

void topscreen_close(void)
{
	if (!topscreen_api)
		return;
	topscreen_api->endwin();
	topscreen_api->delscreen(topscreen_of);
	topscreen_api = NULL;
}

void topscreen_size(int *ret_w, int *ret_h)
{
	*ret_w = topscreen_api->maxx(*topscreen_api->window);
	*ret_h = topscreen_api->maxy(*topscreen_api->window);
}

/* ---- cells ------------------------------------------------------------------------------- */

static void topscreen_style(int style)
{
	unsigned attributes = topscreen_styles[style].attributes;

	/* Without colours what would have a ground of its own is reversed. */
	if (!topscreen_colors && topscreen_styles[style].ground)
		attributes |= CURSES_REVERSE;
	topscreen_api->attr_set(*topscreen_api->window, attributes,
				topscreen_colors ? (short)style : 0, NULL);
}

static void topscreen_row(const struct topgrid *g, int y)
{
	wchar_t run[TOPGRID_SIDE_MAX + 1];
	int x = 0, from, n;

	while (x < g->w) {
		const struct topgrid_cell *first = topgrid_at(g, x, y);

		from = x;
		n = 0;
		for (; x < g->w && topgrid_at(g, x, y)->style == first->style; x++)
			if (topgrid_at(g, x, y)->c)
				run[n++] = (wchar_t)topgrid_at(g, x, y)->c;
		topscreen_style(first->style);
		topscreen_api->addnwstr(*topscreen_api->window, y, from, run, n);
	}
}

void topscreen_show(const struct topgrid *g)
{
	void *window = *topscreen_api->window;
	int y;

	topscreen_api->erase(window);
	for (y = 0; y < g->h; y++)
		topscreen_row(g, y);
	topscreen_api->attr_set(window, 0, 0, NULL);
	if (topscreen_dirty)
		topscreen_api->clearok(window, true);
	topscreen_dirty = false;
	topscreen_api->refresh(window);
}

void topscreen_redraw(void)
{
	topscreen_dirty = true;
}

/* ---- keys ----------------------------------------------------------------------------------- */

static uint32_t topscreen_translate(wint_t key)
{
	static const struct {
		wint_t from;
		uint32_t to;
	} keys[] = {
		{CURSES_KEY_DOWN, TOPVIEW_DOWN},           {CURSES_KEY_UP, TOPVIEW_UP},
		{CURSES_KEY_LEFT, TOPVIEW_LEFT},           {CURSES_KEY_RIGHT, TOPVIEW_RIGHT},
		{CURSES_KEY_HOME, TOPVIEW_HOME},           {CURSES_KEY_END, TOPVIEW_END},
		{CURSES_KEY_NPAGE, TOPVIEW_PAGE_DOWN},     {CURSES_KEY_PPAGE, TOPVIEW_PAGE_UP},
		{CURSES_KEY_BACKSPACE, TOPVIEW_BACKSPACE}, {CURSES_KEY_ENTER, TOPVIEW_ENTER},
		{CURSES_KEY_BTAB, TOPVIEW_BACK_TAB},       {CURSES_KEY_RESIZE, TOPSCREEN_RESIZED},
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(keys); i++)
		if (keys[i].from == key)
			return keys[i].to;
	return UINT32_MAX;
}

/* What ncurses has: 1, or 0. */
static int topscreen_get(uint32_t *ret)
{
	wint_t key;
	int got = topscreen_api->get_wch(*topscreen_api->window, &key);

	if (got == CURSES_ERR)
		return 0;
	*ret = got == CURSES_KEY ? topscreen_translate(key) : (uint32_t)key;
	return *ret != UINT32_MAX;
}

/* The window has another size. */
static void topscreen_take_size(void)
{
	struct winsize size;

	topscreen_resized = 0;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
		topscreen_api->resizeterm(size.ws_row, size.ws_col);
}

/* What has happened: 1 and a key, 0: nothing, -EINTR. */
static int topscreen_look(uint32_t *ret)
{
	if (topscreen_signaled)
		return -EINTR;
	if (topscreen_get(ret))
		return 1;
	if (!topscreen_resized)
		return 0;
	topscreen_take_size();
	*ret = TOPSCREEN_RESIZED;
	return 1;
}

int topscreen_key(int64_t ms, uint32_t *ret)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	int got = topscreen_look(ret), n;

	/* In slices: a signal may come just before the waiting begins. */
	while (got == 0 && ms > 0) {
		n = poll(&p, 1, ms < TOPSCREEN_SLICE_MS ? (int)ms : TOPSCREEN_SLICE_MS);
		got = topscreen_look(ret);
		if (got == 0 && n > 0 && (p.revents & (POLLHUP | POLLERR | POLLNVAL)))
			return -EIO;
		ms -= TOPSCREEN_SLICE_MS;
	}
	return got;
}
