/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/topgrid.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define TOPGRID_TEXT 1024 /* of topgrid_printf() */
#define TOPGRID_CUT '~'

static int topgrid_side(int n)
{
	return n < 0 ? 0 : n > TOPGRID_SIDE_MAX ? TOPGRID_SIDE_MAX : n;
}

void topgrid_init(struct topgrid *g, int w, int h, bool utf8)
{
	*g = (struct topgrid){.w = topgrid_side(w), .h = topgrid_side(h), .utf8 = utf8};
	g->cells = xcalloc((size_t)g->w * (size_t)g->h + 1, sizeof(*g->cells));
	topgrid_clear(g);
}

void topgrid_done(struct topgrid *g)
{
	free(g->cells);
	*g = (struct topgrid){0};
}

void topgrid_clear(struct topgrid *g)
{
	size_t i, n = (size_t)g->w * (size_t)g->h;

	for (i = 0; i < n; i++)
		g->cells[i] = (struct topgrid_cell){.c = ' '};
}

struct topgrid_cell *topgrid_at(const struct topgrid *g, int x, int y)
{
	if (x < 0 || y < 0 || x >= g->w || y >= g->h)
		return NULL;
	return &g->cells[(size_t)y * (size_t)g->w + (size_t)x];
}

/* Half of a wide character that loses its other half is a blank. */
static void topgrid_set(struct topgrid *g, int x, int y, int style, uint32_t c)
{
	struct topgrid_cell *cell = topgrid_at(g, x, y), *next = topgrid_at(g, x + 1, y), *before;

	if (!cell)
		return;
	before = topgrid_at(g, x - 1, y);
	if (cell->c == 0 && before && c != 0)
		before->c = ' ';
	if (next && next->c == 0)
		next->c = ' ';
	*cell = (struct topgrid_cell){.c = c, .style = (uint8_t)style};
}

void topgrid_put(struct topgrid *g, int x, int y, int style, uint32_t c, char ascii)
{
	topgrid_set(g, x, y, style, g->utf8 ? c : (uint32_t)(unsigned char)ascii);
}

/* ---- text ---------------------------------------------------------------------------- */

/* Controls, directions of writing, isolates, joiners, marks of bytes, tags: never shown. */
static const uint32_t topgrid_hidden[][2] = {
	{0, 0x1f},        {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},
	{0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
	{0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xfff0, 0xfffb}, {0xe0000, UINT32_MAX},
};

static bool topgrid_is_hidden(uint32_t c)
{
	size_t i = 0;

	while (c > topgrid_hidden[i][1])
		i++;
	return c >= topgrid_hidden[i][0];
}

/* The next character of the text and its columns. Returns its bytes. */
static size_t topgrid_next(const struct topgrid *g, const char *p, size_t len, uint32_t *ret,
			   int *ret_width)
{
	const unsigned char *u = (const unsigned char *)p;
	size_t n = utf8_valid(u, len), i;
	uint32_t c = '?';

	*ret_width = 1;
	if (n == 1) {
		c = u[0];
		*ret = c == '\n' || c == '\t' || c == '\r' ? ' ' : topgrid_is_hidden(c) ? '?' : c;
		return 1;
	}
	*ret = '?';
	if (n == 0)
		return 1;
	c = u[0] & (0x7fu >> n);
	for (i = 1; i < n; i++)
		c = c << 6 | (u[i] & 0x3fu);
	if (!g->utf8 || topgrid_is_hidden(c))
		return n;
	*ret = c;
	*ret_width = wcwidth((wchar_t)c);
	if (*ret_width < 0 || *ret_width > 2) {
		*ret = '?';
		*ret_width = 1;
	}
	return n;
}

int topgrid_width(const struct topgrid *g, const char *text)
{
	size_t at = 0, len = strlen(text);
	int width, sum = 0;
	uint32_t c;

	while (at < len && sum < TOPGRID_SIDE_MAX * 2) {
		at += topgrid_next(g, text + at, len - at, &c, &width);
		sum += width;
	}
	return sum;
}

int topgrid_text(struct topgrid *g, int x, int y, int max, int style, const char *text)
{
	/* What cannot fit is not looked at: a name may be long. */
	size_t at = 0, len = strnlen(text, (size_t)TOPGRID_SIDE_MAX * 8);
	int width, sum = 0;
	uint32_t c;

	while (at < len) {
		at += topgrid_next(g, text + at, len - at, &c, &width);
		if (width == 0)
			continue;
		if (sum + width > max || x + sum + width > g->w) {
			if (sum > 0)
				topgrid_set(g, x + sum - 1, y, style, TOPGRID_CUT);
			break;
		}
		if (width == 2) {
			topgrid_set(g, x + sum + 1, y, style, ' ');
			topgrid_set(g, x + sum, y, style, c);
			topgrid_set(g, x + sum + 1, y, style, 0);
		} else {
			topgrid_set(g, x + sum, y, style, c);
		}
		sum += width;
	}
	return sum;
}

int topgrid_printf(struct topgrid *g, int x, int y, int max, int style, const char *fmt, ...)
{
	char text[TOPGRID_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return topgrid_text(g, x, y, max, style, text);
}

int topgrid_right(struct topgrid *g, int x, int y, int max, int style, const char *text)
{
	int width = topgrid_width(g, text);

	if (width < max)
		x += max - width;
	return topgrid_text(g, x, y, width < max ? width : max, style, text);
}

/* ---- bars ------------------------------------------------------------------------------ */

int topgrid_load(double share)
{
	return share >= 0.9 ? TOPGRID_HIGH : share >= 0.7 ? TOPGRID_MIDDLE : TOPGRID_LOW;
}

void topgrid_bar(struct topgrid *g, int x, int y, int w, double share, int style)
{
	double fill = isnan(share) || share < 0 ? 0 : share > 1 ? w : share * w;
	int i, eighths = (int)lround(fill * 8);

	if (style == TOPGRID_PLAIN)
		style = topgrid_load(share);
	for (i = 0; i < w; i++) {
		int part = eighths - i * 8;

		/* Eighths of a block, from the left: U+258F (1) to U+2588 (8). */
		if (part >= 8)
			topgrid_put(g, x + i, y, style, 0x2588, '|');
		else if (part > 0)
			topgrid_put(g, x + i, y, style, 0x2590 - (uint32_t)part,
				    part >= 4 ? '|' : '.');
		else
			topgrid_put(g, x + i, y, TOPGRID_RULE, 0xb7, '.');
	}
}

/* ---- as text ------------------------------------------------------------------------------ */

/* Codes of eight colours, which every terminal has its own shades of. */
static const char *const topgrid_codes[TOPGRID_STYLES] = {
	[TOPGRID_DIM] = "2",         [TOPGRID_BOLD] = "1",        [TOPGRID_TITLE] = "1",
	[TOPGRID_FOCUS] = "1;36",    [TOPGRID_RULE] = "2",        [TOPGRID_GOOD] = "32",
	[TOPGRID_WARN] = "33",       [TOPGRID_BAD] = "1;31",      [TOPGRID_KEY] = "1",
	[TOPGRID_MARK] = "7",        [TOPGRID_LOW] = "36",        [TOPGRID_MIDDLE] = "33",
	[TOPGRID_HIGH] = "31",       [TOPGRID_COLOR] = "34",      [TOPGRID_COLOR + 1] = "33",
	[TOPGRID_COLOR + 2] = "36",  [TOPGRID_COLOR + 3] = "35",  [TOPGRID_COLOR + 4] = "32",
	[TOPGRID_COLOR + 5] = "31",  [TOPGRID_COLOR + 6] = "37",  [TOPGRID_FILL] = "34;7",
	[TOPGRID_FILL + 1] = "33;7", [TOPGRID_FILL + 2] = "36;7", [TOPGRID_FILL + 3] = "35;7",
	[TOPGRID_FILL + 4] = "32;7", [TOPGRID_FILL + 5] = "31;7", [TOPGRID_FILL + 6] = "37;7",
};

static int topgrid_row_end(const struct topgrid *g, int y)
{
	int x = g->w;

	while (x > 0 && topgrid_at(g, x - 1, y)->c == ' ' &&
	       topgrid_at(g, x - 1, y)->style != TOPGRID_MARK &&
	       topgrid_at(g, x - 1, y)->style < TOPGRID_FILL)
		x--;
	return x;
}

void topgrid_print(const struct topgrid *g, struct buf *out, bool color)
{
	char bytes[4];
	int x, y, end, style;

	for (y = 0; y < g->h; y++) {
		end = color ? topgrid_row_end(g, y) : g->w;
		while (!color && end > 0 && topgrid_at(g, end - 1, y)->c == ' ')
			end--;
		style = TOPGRID_PLAIN;
		for (x = 0; x < end; x++) {
			const struct topgrid_cell *c = topgrid_at(g, x, y);

			if (color && c->style != style) {
				const char *code = topgrid_codes[c->style];

				buf_printf(out, "\033[0%s%sm", code ? ";" : "", code ? code : "");
				style = c->style;
			}
			if (c->c)
				buf_append(out, bytes, utf8_put(bytes, c->c));
		}
		if (style != TOPGRID_PLAIN)
			buf_puts(out, "\033[0m");
		buf_putc(out, '\n');
	}
}
