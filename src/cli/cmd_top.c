/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_top.c - `lapse top`: a run in the terminal while it lasts.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "cli/topdraw.h"
#include "cli/topread.h"
#include "cli/topscreen.h"
#include "report/runview.h"
#include "report/spark.h"
#include "report/table.h"
#include "store/folder.h"
#include "wire/clock.h"

#define TOP_WIDTH 80  /* of a frame as text where neither a terminal nor the environment */
#define TOP_HEIGHT 40 /* says what it should be */
#define TOP_TEXT_MAX (64u << 20)
#define TOP_TRIES 15              /* of a run that has just begun, and */
#define TOP_TRY_US 200000         /* the time between two */
#define TOP_OVER_NS 60000000000LL /* of a run that is over nothing new comes: draw seldom */

static const char *top_dir, *top_filter;
static bool top_once;
static int64_t top_interval = 1000000000LL;

/* clang-format off */
static const struct opt top_rows[] = {
	{.name = "once", .letter = '1', .type = OPT_FLAG, .to = &top_once,
	 .help = "print one frame as text, and end; needs no terminal and no ncurses"},
	{.name = "interval", .letter = 'i', .type = OPT_DURATION, .value = "TIME",
	 .to = &top_interval, .lo = 100000000LL, .hi = 3600000000000LL,
	 .help = "time between two frames, 100ms to 1h (default: 1s)"},
	{.name = "filter", .letter = 'f', .type = OPT_STR, .value = "TEXT", .to = &top_filter,
	 .help = "charts of series with this text, or this pattern with *, in the name"},
	{.name = "dir", .letter = 'd', .type = OPT_STR, .value = "DIR", .to = &top_dir,
	 .help = "folder of the runs (default: $LAPSE_DIR, else ./lapse-runs)"},
	{.name = NULL},
};
/* clang-format on */

const struct opt *cmd_top_options(void)
{
	return top_rows;
}

/* ---- which run ------------------------------------------------------------------------- */

static void top_join(char out[4096], const char *root, const char *name)
{
	snprintf(out, 4096, "%.3500s/%.500s", root, name);
}

/* The newest run that is written now, else the newest. */
static int top_newest(const char *root, char dir[4096], bool *ret_live, struct err *e)
{
	char **runs;
	size_t n = 0;
	int err = store_runs(root, &runs, e);

	if (err)
		return err;
	while (runs[n])
		n++;
	*ret_live = false;
	while (n > 0 && !*ret_live) {
		top_join(dir, root, runs[--n]);
		*ret_live = folder_is_written(dir);
	}
	store_runs_free(runs);
	return *ret_live ? 0 : store_find(root, "last", dir, 4096, e);
}

/* Its folder; note: what is to be said about the choice. */
static int top_find(const char *what, char dir[4096], const char **ret_note)
{
	char root[4096];
	struct err e = {0};
	bool live = true;
	int err = store_root(top_dir, root, sizeof(root));

	*ret_note = "";
	if (err)
		err_errno(&e, err, "folder of runs %s", top_dir ? top_dir : "");
	else if (what)
		err = store_find(root, what, dir, 4096, &e);
	else
		err = top_newest(root, dir, &live, &e);
	if (err)
		fprintf(stderr, "lapse top: %s\n", e.text);
	else if (!live)
		*ret_note = "no run is live: the newest";
	return err;
}

/* ---- frames -------------------------------------------------------------------------------- */

struct top {
	struct topread read;
	struct topmodel model;
	struct topview view;
	struct topgrid grid;
	const char *note;
};

static void top_init(struct top *t, const char *dir, const char *note)
{
	topread_init(&t->read, dir);
	topmodel_init(&t->model);
	topview_init(&t->view);
	t->grid = (struct topgrid){0};
	t->note = note;
	if (top_filter)
		snprintf(t->view.filter, sizeof(t->view.filter), "%s", top_filter);
}

static void top_done(struct top *t)
{
	topgrid_done(&t->grid);
	topmodel_done(&t->model);
	topread_done(&t->read);
}

/* Fill the grid. What is looked at for the first time is read from the store in between. */
static void top_draw(struct top *t, int w, int h)
{
	struct topdraw d = {.g = &t->grid,
			    .v = &t->view,
			    .m = &t->model,
			    .now_ns = clock_ns(CLOCK_REALTIME),
			    .note = t->read.warning.code ? t->read.warning.text : t->note,
			    .is_wrong = t->read.warning.code != 0,
			    .is_once = top_once};
	int64_t range = topview_range_ns(&t->view);

	if (!t->grid.cells || t->grid.w != w || t->grid.h != h) {
		topgrid_done(&t->grid);
		topgrid_init(&t->grid, w, h, spark_is_utf8());
	}
	topmodel_tick(&t->model, d.now_ns);
	topdraw_frame(&d);
	if (topread_traces(&t->read, &t->model,
			   range && t->model.newest_ns ? t->model.newest_ns - range : 0))
		topdraw_frame(&d);
	topmodel_sweep(&t->model);
}

/* A number of the environment within bounds, or what is usual. */
static int top_number(const char *name, int usual)
{
	const char *text = getenv(name);
	int64_t v;

	return text && number_int(text, &v) == 0 && v >= 1 && v <= TOPGRID_SIDE_MAX ? (int)v
										    : usual;
}

static int top_print(struct top *t)
{
	struct term term;
	struct buf out;

	term_look(&term, stdout);
	buf_init(&out, TOP_TEXT_MAX);
	top_draw(t, term.width ? term.width : top_number("COLUMNS", TOP_WIDTH),
		 top_number("LINES", TOP_HEIGHT));
	topgrid_print(&t->grid, &out, term.color);
	/* Rows at the end that nothing needed. */
	while (out.len > 1 && out.data[out.len - 1] == '\n' && out.data[out.len - 2] == '\n')
		out.len--;
	fwrite(out.data, 1, out.len, stdout);
	buf_done(&out);
	return runview_flush();
}

static void top_ask(struct top *t)
{
	size_t i;

	for (i = 0; i < t->model.n_series; i++)
		if (t->model.series[i].trace)
			t->model.series[i].trace->is_stale = true;
}

/* Show frames until a key, a signal or the end of the terminal ends it. 0, or -errno. */
static int top_loop(struct top *t)
{
	int64_t next = clock_ns(CLOCK_MONOTONIC) + top_interval, now, every;
	uint32_t key;
	int w, h, got;

	for (;;) {
		struct err e = {0};

		topscreen_size(&w, &h);
		top_draw(t, w, h);
		topscreen_show(&t->grid);
		every = t->read.is_over && top_interval < TOP_OVER_NS ? TOP_OVER_NS : top_interval;
		now = clock_ns(CLOCK_MONOTONIC);
		got = topscreen_key((next - now) / 1000000 + 1, &key);
		/* What was typed at once is drawn at once. */
		while (got == 1) {
			enum topview_do todo = key == 0x0c || key == TOPSCREEN_RESIZED
						       ? TOPVIEW_DRAW
						       : topview_key(&t->view, key);

			if (key == 0x0c)
				topscreen_redraw();
			if (todo == TOPVIEW_QUIT)
				return 0;
			if (todo == TOPVIEW_ASK)
				top_ask(t);
			got = topscreen_key(0, &key);
		}
		if (got < 0)
			return got;
		now = clock_ns(CLOCK_MONOTONIC);
		if (now < next)
			continue;
		next = now + every;
		if (!t->view.paused)
			(void)topread_next(&t->read, &t->model, &e);
	}
}

/* Could frames follow each other here? */
static bool top_is_terminal(void)
{
	const char *name = getenv("TERM");

	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && name && name[0] &&
	       strcmp(name, "dumb") != 0;
}

static int top_show(struct top *t)
{
	const char *no_color = getenv("NO_COLOR");
	struct err e = {0};
	int err = topscreen_open(!no_color || !no_color[0], &e), number;

	if (err) {
		fprintf(stderr, "lapse top: %s\n", e.text);
		return 1;
	}
	err = top_loop(t);
	topscreen_close();
	number = topscreen_signal();
	/* Ctrl-C is a way to leave; other signals end us as they would have. */
	if (err == -EINTR && number != SIGINT) {
		signal(number, SIG_DFL);
		raise(number);
	}
	return err == 0 || err == -EINTR ? 0 : 1;
}

/* Read it for the first time. A run that has just begun may not have a readable file yet. */
static int top_begin(struct top *t, const char *dir, struct err *e)
{
	int err = topread_next(&t->read, &t->model, e), i;

	for (i = 0; err && i < TOP_TRIES && folder_is_written(dir); i++) {
		usleep(TOP_TRY_US);
		err_clear(e);
		t->read.look_ns = 0;
		err = topread_next(&t->read, &t->model, e);
	}
	return err;
}

int cmd_top(int argc, char **argv)
{
	struct err e = {0};
	const char *note;
	char dir[4096];
	struct top t;
	int status = 1;

	if (argc > 1) {
		fprintf(stderr, "lapse top: only one argument is taken, a run\n"
				"Try: lapse top --help\n");
		return 2;
	}
	if (top_find(argc ? argv[0] : NULL, dir, &note) != 0)
		return 1;
	top_once = top_once || !top_is_terminal();
	top_init(&t, dir, note);
	if (top_begin(&t, dir, &e) != 0)
		fprintf(stderr, "lapse top: %s\n", e.text);
	else
		status = top_once ? top_print(&t) : top_show(&t);
	top_done(&t);
	return status;
}
