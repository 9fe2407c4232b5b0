/* SPDX-License-Identifier: Apache-2.0
 *
 * topview.h - how somebody wants to see a run: which pane has the keys, the range of time,
 * the filter, smoothing, order; and what each key changes of that.
 */
#ifndef CLI_TOPVIEW_H
#define CLI_TOPVIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPVIEW_FILTER_MAX 128

enum topview_pane {
	TOPVIEW_TRAINING,
	TOPVIEW_GPUS,
	TOPVIEW_MACHINE,
	TOPVIEW_PROCESSES,
	TOPVIEW_EVENTS,
	TOPVIEW_PANES
};

enum topview_sort {
	TOPVIEW_BY_CPU,
	TOPVIEW_BY_MEMORY,
	TOPVIEW_BY_ROLE,
	TOPVIEW_SORTS
};

struct topview {
	enum topview_pane focus;
	bool is_large;  /* the pane in focus has the whole screen */
	unsigned range; /* topview_range_ns() */
	unsigned smooth;
	bool log, clip, by_time, paused, help;
	bool is_typing; /* the filter */
	char filter[TOPVIEW_FILTER_MAX];
	char before[TOPVIEW_FILTER_MAX]; /* the filter when typing began */
	enum topview_sort sort;
	int density;               /* charts in a row: more (> 0) or fewer than would be chosen */
	unsigned host;             /* whose machine is shown */
	int scroll[TOPVIEW_PANES]; /* rows (of charts: rows of charts) that are above */
	/* What the last frame found: for keys that move. */
	int rows[TOPVIEW_PANES], page[TOPVIEW_PANES]; /* rows there are, that fit */
	unsigned hosts;
};

/* Keys that are no characters. */
enum topview_key {
	TOPVIEW_UP = 0x110000,
	TOPVIEW_DOWN,
	TOPVIEW_LEFT,
	TOPVIEW_RIGHT,
	TOPVIEW_PAGE_UP,
	TOPVIEW_PAGE_DOWN,
	TOPVIEW_HOME,
	TOPVIEW_END,
	TOPVIEW_BACKSPACE,
	TOPVIEW_BACK_TAB,
	TOPVIEW_ENTER,
	TOPVIEW_ESCAPE
};

/* What is to be done after a key. */
enum topview_do {
	TOPVIEW_DRAW,
	TOPVIEW_ASK, /* draw, and traces are to be read anew: another range */
	TOPVIEW_QUIT
};

void topview_init(struct topview *v);

/* A key: a character of Unicode, or enum topview_key. */
enum topview_do topview_key(struct topview *v, uint32_t key);

int64_t topview_range_ns(const struct topview *v); /* 0: all */
const char *topview_range_name(const struct topview *v);
double topview_smooth(const struct topview *v); /* 0: off */
const char *topview_sort_name(const struct topview *v);
const char *topview_pane_name(enum topview_pane p);

/* The lines of the help: a key and what it does; NULL: no more. */
const char *topview_help(size_t i, const char **ret_key);

#endif
