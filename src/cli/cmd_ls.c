/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_ls.c - `lapse ls`: the runs in a folder, newest first. A run that cannot
 * be read is a row that says why.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "cli/view.h"

static const char *ls_dir;
static bool ls_json;
static int64_t ls_limit = 50;

const struct opt *cmd_ls_options(void)
{
	static const struct opt rows[] = {
		{.name = "dir",
		 .letter = 'd',
		 .type = OPT_STR,
		 .value = "DIR",
		 .to = &ls_dir,
		 .help = "folder of the runs (default: $LAPSE_DIR, else ./lapse-runs)"},
		{.name = "limit",
		 .letter = 'n',
		 .type = OPT_INT,
		 .value = "N",
		 .to = &ls_limit,
		 .lo = 0,
		 .hi = 1000000,
		 .help = "show the N newest; 0: all (default: 50)"},
		{.name = "json",
		 .type = OPT_FLAG,
		 .to = &ls_json,
		 .help = "print a JSON array, an object a run"},
		{0},
	};

	return rows;
}

/* What ls shows of a run beyond struct store_run. */
struct ls_row {
	const char *id; /* name of the folder */
	char *error;    /* why it cannot be read; NULL if it can */
	struct view v;  /* only if it can */
	int64_t last_step;
	const char *loss_name; /* NULL: no loss */
	double loss;
	int64_t bytes;
};

static int64_t ls_bytes;

static int ls_add_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)path;
	(void)ftw;
	if (type == FTW_F || type == FTW_D || type == FTW_SL)
		ls_bytes += (int64_t)st->st_blocks * 512;
	return 0;
}

/* Space taken on disk; what vanishes meanwhile is not counted. */
static int64_t ls_size(const char *dir)
{
	ls_bytes = 0;
	nftw(dir, ls_add_file, 16, FTW_PHYS | FTW_MOUNT);
	return ls_bytes;
}

static void ls_read_tails(struct ls_row *row)
{
	static const char *const losses[] = {"loss", "train/loss"};
	const struct store_series *loss = NULL;
	struct store_point p;
	size_t i, k;

	for (i = 0; i < row->v.n_series; i++) {
		const struct store_series *s = &row->v.series[i];

		for (k = 0; k < ARRAY_LEN(losses); k++)
			if (s->kind == SINK_GAUGE && strcmp(s->name, losses[k]) == 0 &&
			    (!loss || s->rank < loss->rank))
				loss = s;
		if (s->kind == SINK_SPAN && strcmp(s->name, "step") == 0 &&
		    view_tail(&row->v, s, &p, NULL) == 0 && p.step > row->last_step)
			row->last_step = p.step;
	}
	if (!loss || view_tail(&row->v, loss, &p, NULL) != 0)
		return;
	row->loss_name = loss->name;
	row->loss = p.value;
	if (row->last_step == SINK_STEP_NONE)
		row->last_step = p.step;
}

static void ls_read(struct ls_row *row, const char *root, const char *id)
{
	struct err e = {0};
	char *dir = xasprintf("%s/%s", root, id);

	*row = (struct ls_row){.id = id, .last_step = SINK_STEP_NONE, .loss = NAN};
	row->bytes = ls_size(dir);
	if (view_open_dir(&row->v, dir, &e) != 0)
		row->error = xstrdup(e.text);
	else
		ls_read_tails(row);
	free(dir);
}

static void ls_json_row(struct json *j, const struct ls_row *row)
{
	json_object(j);
	if (row->error) {
		json_kstr(j, "id", row->id);
		json_kstr(j, "error", row->error);
	} else {
		view_json_run(j, &row->v);
		view_json_step(j, "last_step", row->last_step);
		json_kstr(j, "loss_name", row->loss_name);
		view_json_number(j, "loss", row->loss, row->loss_name != NULL);
		json_kstr(j, "error", NULL);
	}
	json_kint(j, "bytes", row->bytes);
	json_object_end(j);
}

static void ls_table_row(struct table *t, const struct ls_row *row)
{
	const struct store_run *run = &row->v.run;
	char text[FMT_MAX];
	double duration;

	table_cell(t, TERM_PLAIN, row->id);
	if (row->error) {
		table_cell(t, TERM_PLAIN, "");
		table_cell(t, TERM_PLAIN, "");
		table_cell(t, TERM_PLAIN, "");
		table_cell(t, TERM_RED, "unreadable");
		table_cell(t, TERM_PLAIN, "");
		table_cell(t, TERM_PLAIN, "");
	} else {
		duration = view_duration_s(run);
		table_cell(t, TERM_BOLD, run->name);
		table_cell(t, TERM_PLAIN, fmt_local(text, run->start_ns));
		table_cell(t, TERM_PLAIN, isnan(duration) ? "-" : fmt_seconds(text, duration));
		table_cell(t, view_outcome_style(run), view_outcome(text, run));
		table_cell(t, TERM_PLAIN, view_step(text, row->last_step));
		table_cell(t, TERM_PLAIN, row->loss_name ? view_value(text, row->loss, "") : "-");
	}
	table_cell(t, TERM_PLAIN, fmt_bytes(text, (double)row->bytes));
}

static int ls_print_table(char **runs, size_t n, size_t shown, const char *root)
{
	static const struct table_column columns[] = {
		{"RUN", 0},
		{"NAME", TABLE_ELIDE},
		{"STARTED", TABLE_DROP},
		{"TIME", TABLE_RIGHT},
		{"OUTCOME", 0},
		{"STEP", TABLE_RIGHT},
		{"LOSS", TABLE_RIGHT},
		{"SIZE", TABLE_RIGHT},
	};
	struct table *t = table_new(columns, ARRAY_LEN(columns));
	struct ls_row row;
	struct term term;
	struct buf notes;
	int status;
	size_t i;

	buf_init(&notes, 1u << 20);
	term_look(&term, stdout);
	for (i = 0; i < shown; i++) {
		ls_read(&row, root, runs[n - 1 - i]);
		ls_table_row(t, &row);
		if (row.error)
			buf_printf(&notes, "%s: %s\n", row.id, row.error);
		else if (store_reader_warning(row.v.reader)[0] != '\0')
			buf_printf(&notes, "%s: %s\n", row.id, store_reader_warning(row.v.reader));
		free(row.error);
		view_close(&row.v);
	}
	table_print(t, &term, stdout, 0);
	table_free(t);
	status = view_flush();
	fputs(buf_str(&notes), stderr);
	buf_done(&notes);
	if (shown < n)
		fprintf(stderr, "%zu of %zu runs; --limit 0 shows all\n", shown, n);
	return status;
}

static int ls_print_json(char **runs, size_t n, size_t shown, const char *root)
{
	struct ls_row row;
	struct json j;
	struct buf b;
	int status;
	size_t i;

	buf_init(&b, VIEW_JSON_MAX);
	json_init(&j, &b);
	json_array(&j);
	for (i = 0; i < shown; i++) {
		ls_read(&row, root, runs[n - 1 - i]);
		ls_json_row(&j, &row);
		free(row.error);
		view_close(&row.v);
	}
	json_array_end(&j);
	status = view_json_print("ls", &b);
	buf_done(&b);
	return status;
}

int cmd_ls(int argc, char **argv)
{
	char **runs = NULL;
	struct err e = {0};
	char root[4096];
	size_t n = 0, shown;
	int err, status = 0;

	if (argc > 0) {
		fprintf(stderr,
			"lapse ls: unexpected argument \"%s\"; a folder is given with "
			"--dir\n",
			argv[0]);
		return 2;
	}
	err = store_root(ls_dir, root, sizeof(root));
	if (err)
		err_errno(&e, err, "folder of runs %s", ls_dir ? ls_dir : "");
	else
		err = store_runs(root, &runs, &e);
	/* The usual folder is made by the first run; one that was named must be there. */
	if (err && (err != -ENOENT || ls_dir)) {
		fprintf(stderr, "lapse ls: %s\n", e.text);
		return 1;
	}
	while (runs && runs[n])
		n++;
	shown = ls_limit > 0 && (size_t)ls_limit < n ? (size_t)ls_limit : n;
	if (ls_json)
		status = ls_print_json(runs, n, shown, root);
	else if (n == 0)
		fprintf(stderr, "No runs in %s. Record one: lapse run -- COMMAND\n", root);
	else
		status = ls_print_table(runs, n, shown, root);
	if (runs)
		store_runs_free(runs);
	return status;
}
