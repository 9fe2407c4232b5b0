/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/topview.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "cli/topgrid.h"

#include <stdio.h>
#include <string.h>

static const struct {
	int64_t s;
	const char *name;
} topview_ranges[] = {
	{60, "1 min"},  {300, "5 min"},   {900, "15 min"},    {3600, "1 h"},
	{21600, "6 h"}, {86400, "1 day"}, {604800, "7 days"}, {0, "whole run"},
};

static const double topview_smooths[] = {0, 0.6, 0.9, 0.99};

void topview_init(struct topview *v)
{
	*v = (struct topview){.range = ARRAY_LEN(topview_ranges) - 1};
}

int64_t topview_range_ns(const struct topview *v)
{
	return topview_ranges[v->range].s * 1000000000LL;
}

const char *topview_range_name(const struct topview *v)
{
	return topview_ranges[v->range].name;
}

double topview_smooth(const struct topview *v)
{
	return topview_smooths[v->smooth];
}

const char *topview_sort_name(const struct topview *v)
{
	static const char *const names[] = {"CPU", "memory", "role"};

	return names[v->sort];
}

const char *topview_pane_name(enum topview_pane p)
{
	static const char *const names[] = {"Training", "GPUs", "Machine", "Processes",
					    "Alerts and events"};

	return names[p];
}

const char *topview_help(size_t i, const char **ret_key)
{
	static const char *const lines[][2] = {
		{"1 to 5", "choose a pane; again: it alone, and back"},
		{"Tab, left, right", "next pane, the one before"},
		{"up, down, PgUp, PgDn", "scroll in the pane; Home, End: to its ends"},
		{"Enter", "the pane alone, and back"},
		{"+, -", "charts over a shorter, a longer time"},
		{"/", "only series with this text, or pattern with *; Esc: all"},
		{"e", "smooth lines: off, 0.6, 0.9, 0.99; values behind"},
		{"x", "charts over time, or over steps"},
		{"l", "logarithmic scales"},
		{"o", "scales without the outermost 2 % of values"},
		{"], [", "more, fewer charts in a row"},
		{"s", "order of processes: CPU, memory, role"},
		{"h", "machine of the next host"},
		{"space", "stand still, go on"},
		{"q, Ctrl-C", "leave"},
	};

	if (i >= ARRAY_LEN(lines))
		return NULL;
	*ret_key = lines[i][0];
	return lines[i][1];
}

/* ---- the filter ------------------------------------------------------------------------- */

static void topview_backspace(char *text)
{
	size_t n = strlen(text);

	while (n > 0 && ((unsigned char)text[--n] & 0xc0) == 0x80)
		;
	text[n] = '\0';
}

static void topview_type(struct topview *v, uint32_t key)
{
	char bytes[4];
	size_t n = strlen(v->filter), len;

	if (key < ' ' || key == 0x7f || key >= 0x110000)
		return;
	len = utf8_put(bytes, key);
	if (n + len >= sizeof(v->filter))
		return;
	memcpy(v->filter + n, bytes, len);
	v->filter[n + len] = '\0';
}

static enum topview_do topview_typing(struct topview *v, uint32_t key)
{
	v->scroll[TOPVIEW_TRAINING] = 0;
	if (key == TOPVIEW_ENTER) {
		v->is_typing = false;
	} else if (key == TOPVIEW_ESCAPE) {
		v->is_typing = false;
		memcpy(v->filter, v->before, sizeof(v->filter));
	} else if (key == TOPVIEW_BACKSPACE) {
		topview_backspace(v->filter);
	} else if (key == 0x15) { /* Ctrl-U */
		v->filter[0] = '\0';
	} else {
		topview_type(v, key);
	}
	return TOPVIEW_DRAW;
}

/* ---- all other keys ---------------------------------------------------------------------- */

static void topview_focus(struct topview *v, int pane)
{
	v->focus = (enum topview_pane)((pane + TOPVIEW_PANES) % TOPVIEW_PANES);
}

static void topview_scroll(struct topview *v, int by)
{
	int *at = &v->scroll[v->focus], end = v->rows[v->focus] - v->page[v->focus];

	*at = by > 0 && *at > end - by ? end : *at + by;
	*at = *at < 0 ? 0 : *at;
}

static enum topview_do topview_range(struct topview *v, int by)
{
	unsigned to = v->range + (unsigned)by;

	if (to >= ARRAY_LEN(topview_ranges))
		return TOPVIEW_DRAW;
	v->range = to;
	return TOPVIEW_ASK;
}

/* Keys that move. */
static bool topview_move(struct topview *v, uint32_t key)
{
	int page = v->page[v->focus] > 1 ? v->page[v->focus] - 1 : 1;

	switch (key) {
	case TOPVIEW_UP:
		topview_scroll(v, -1);
		return true;
	case TOPVIEW_DOWN:
		topview_scroll(v, 1);
		return true;
	case TOPVIEW_PAGE_UP:
		topview_scroll(v, -page);
		return true;
	case TOPVIEW_PAGE_DOWN:
		topview_scroll(v, page);
		return true;
	case TOPVIEW_HOME:
		v->scroll[v->focus] = 0;
		return true;
	case TOPVIEW_END:
		topview_scroll(v, v->rows[v->focus]);
		return true;
	case TOPVIEW_LEFT:
	case TOPVIEW_BACK_TAB:
		topview_focus(v, (int)v->focus - 1);
		return true;
	case TOPVIEW_RIGHT:
	case '\t':
		topview_focus(v, (int)v->focus + 1);
		return true;
	default:
		return false;
	}
}

/* Keys that switch something; false: it is none. */
static bool topview_switch(struct topview *v, uint32_t key)
{
	switch (key) {
	case 'e':
		v->smooth = (v->smooth + 1) % ARRAY_LEN(topview_smooths);
		return true;
	case 'x':
		v->by_time = !v->by_time;
		return true;
	case 'l':
		v->log = !v->log;
		return true;
	case 'o':
		v->clip = !v->clip;
		return true;
	case 's':
		v->sort = (v->sort + 1) % TOPVIEW_SORTS;
		return true;
	case 'h':
		v->host = v->hosts ? (v->host + 1) % v->hosts : 0;
		return true;
	case ' ':
		v->paused = !v->paused;
		return true;
	case ']':
		v->density += v->density < 6;
		return true;
	case '[':
		v->density -= v->density > -6;
		return true;
	case '?':
		v->help = true;
		return true;
	case TOPVIEW_ENTER:
	case 'z':
		v->is_large = !v->is_large;
		return true;
	default:
		return false;
	}
}

/* A pane by its number; the one that has the keys already: alone, and back. */
static void topview_pane(struct topview *v, enum topview_pane p)
{
	if (v->focus == p)
		v->is_large = !v->is_large;
	v->focus = p;
}

static void topview_filter(struct topview *v)
{
	v->is_typing = true;
	memcpy(v->before, v->filter, sizeof(v->before));
	topview_focus(v, TOPVIEW_TRAINING);
}

static void topview_escape(struct topview *v)
{
	if (v->filter[0])
		v->filter[0] = '\0';
	else
		v->is_large = false;
}

/* Keys that several characters stand for. */
static uint32_t topview_usual(uint32_t key)
{
	static const uint32_t same[][2] = {
		{'\n', TOPVIEW_ENTER},     {'\r', TOPVIEW_ENTER},  {0x7f, TOPVIEW_BACKSPACE},
		{'\b', TOPVIEW_BACKSPACE}, {0x1b, TOPVIEW_ESCAPE},
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(same); i++)
		if (key == same[i][0])
			return same[i][1];
	return key;
}

enum topview_do topview_key(struct topview *v, uint32_t key)
{
	key = topview_usual(key);
	if (v->is_typing)
		return topview_typing(v, key);
	if (key == 'q' || key == 'Q')
		return TOPVIEW_QUIT;
	if (key == '+' || key == '=')
		return topview_range(v, -1);
	if (key == '-' || key == '_')
		return topview_range(v, 1);
	if (v->help)
		v->help = false;
	else if (key >= '1' && key < '1' + TOPVIEW_PANES)
		topview_pane(v, (enum topview_pane)(key - '1'));
	else if (key == '/')
		topview_filter(v);
	else if (key == TOPVIEW_ESCAPE)
		topview_escape(v);
	else if (!topview_move(v, key))
		topview_switch(v, key);
	return TOPVIEW_DRAW;
}
