/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_ls.c - `lapse ls`: the runs in a folder, newest first, from the index. A run
 * that cannot be read is a row that says why.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/servewatch.h"
#include "report/pick.h"
#include "report/runview.h"
#include "store/index.h"
#include "wire/rendezvous.h"

#define LS_METRICS_MAX 16
#define LS_FILTERS_MAX 32
#define LS_COLUMNS 8

static const char *ls_dir, *ls_order;
static bool ls_json, ls_reverse;
static int64_t ls_limit = 50;
static struct pick_key ls_metrics[LS_METRICS_MAX];
static const char *ls_metric_heads[LS_METRICS_MAX];
static struct pick_term ls_filters[LS_FILTERS_MAX];
static size_t ls_n_metrics, ls_n_filters;

static int ls_add_metric(const char *arg, void *to)
{
	(void)to;
	if (ls_n_metrics == LS_METRICS_MAX) {
		fprintf(stderr, "lapse ls: --metric: at most %d\n", LS_METRICS_MAX);
		return -EINVAL;
	}
	ls_metric_heads[ls_n_metrics] = arg;
	pick_key_set(&ls_metrics[ls_n_metrics++], arg);
	return 0;
}

static int ls_add_filter(const char *arg, void *to)
{
	char why[256];

	(void)to;
	if (ls_n_filters == LS_FILTERS_MAX) {
		fprintf(stderr, "lapse ls: --filter: at most %d\n", LS_FILTERS_MAX);
		return -EINVAL;
	}
	if (pick_term_parse(&ls_filters[ls_n_filters], arg, why) < 0) {
		fprintf(stderr, "lapse ls: --filter: %s\n", why);
		return -EINVAL;
	}
	ls_n_filters++;
	return 0;
}

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
		 .help = "show the first N; 0: all (default: 50)"},
		{.name = "metric",
		 .letter = 'm',
		 .type = OPT_CALL,
		 .value = "NAME",
		 .call = ls_add_metric,
		 .help = "a column for a metric: NAME[:last|best|min|max]; may be repeated"},
		{.name = "filter",
		 .letter = 'f',
		 .type = OPT_CALL,
		 .value = "COND",
		 .call = ls_add_filter,
		 .help = "only runs with project=ocr, tag=good, loss<0.5, ...; may be repeated"},
		{.name = "sort",
		 .letter = 's',
		 .type = OPT_STR,
		 .value = "KEY",
		 .to = &ls_order,
		 .help = "by a field or metric, the best first (default: newest first)"},
		{.name = "reverse",
		 .letter = 'r',
		 .type = OPT_FLAG,
		 .to = &ls_reverse,
		 .help = "the other way round"},
		{.name = "json",
		 .type = OPT_FLAG,
		 .to = &ls_json,
		 .help = "print a JSON array, an object a run"},
		{0},
	};

	return rows;
}

/* ---- which runs -------------------------------------------------------------------- */

static bool ls_is_wanted(struct index *x, size_t i)
{
	size_t k;

	for (k = 0; k < ls_n_filters; k++)
		if (!pick_is(x, i, &ls_filters[k]))
			return false;
	return true;
}

/* Numbers of the runs to show, in order; *ret_all: those that match. */
static size_t ls_choose(struct index *x, size_t *runs, size_t *ret_all)
{
	size_t i, n = 0, count = index_count(x), limit = ls_limit ? (size_t)ls_limit : SIZE_MAX;
	bool stop = !ls_order && !ls_reverse && !ls_n_filters;
	struct pick_key key;

	for (i = count; i-- > 0 && (!stop || n < limit);)
		if (ls_is_wanted(x, i))
			runs[n++] = i;
	if (ls_order || ls_reverse) {
		pick_key_set(&key, ls_order ? ls_order : "id");
		pick_sort(x, runs, n, &key, ls_order ? ls_reverse : false);
		pick_key_done(&key);
	}
	*ret_all = stop ? count : n;
	return n < limit ? n : limit;
}

/* ---- JSON ----------------------------------------------------------------------------- */

static bool ls_is_first(size_t k)
{
	size_t i;

	for (i = 0; i < k; i++)
		if (strcmp(ls_metrics[i].name, ls_metrics[k].name) == 0)
			return false;
	return true;
}

static void ls_json_row(struct json *j, struct index *x, size_t i, const char *root)
{
	const struct index_run *r = index_get(x, i);
	const struct index_metric *loss;
	char *dir = xasprintf("%s/%s", root, r->id);
	size_t k;

	json_object(j);
	if (r->error) {
		json_kstr(j, "id", r->id);
		json_kstr(j, "error", r->error);
	} else {
		runview_json_run_of(j, &r->run, dir, r->warning);
		runview_json_step(j, "last_step", r->step);
		loss = pick_loss(x, i);
		json_kstr(j, "loss_name", loss ? loss->name : NULL);
		runview_json_number(j, "loss", loss ? loss->last : NAN, loss != NULL);
		json_key(j, "metrics");
		json_object(j);
		for (k = 0; k < ls_n_metrics; k++)
			if (ls_is_first(k))
				pick_json(j, x, i, ls_metrics[k].name);
		json_object_end(j);
		json_kstr(j, "error", NULL);
	}
	json_kuint(j, "bytes", r->bytes);
	json_object_end(j);
	free(dir);
}

static int ls_print_json(struct index *x, const size_t *runs, size_t n, const char *root)
{
	struct json j;
	struct buf b;
	int status;
	size_t i;

	buf_init(&b, RUNVIEW_JSON_MAX);
	json_init(&j, &b);
	json_array(&j);
	for (i = 0; i < n; i++)
		ls_json_row(&j, x, runs[i], root);
	json_array_end(&j);
	status = runview_json_print("ls", &b);
	buf_done(&b);
	return status;
}

/* ---- text ------------------------------------------------------------------------------- */

static void ls_table_metrics(struct table *t, struct index *x, size_t i)
{
	const struct index_metric *loss;
	char text[FMT_MAX];
	struct pick_value v;
	size_t k;

	if (ls_n_metrics == 0) {
		loss = pick_loss(x, i);
		table_cell(t, TERM_PLAIN, loss ? runview_value(text, loss->last, "") : "-");
	}
	for (k = 0; k < ls_n_metrics; k++) {
		pick_get(x, i, &ls_metrics[k], &v);
		if (v.text)
			table_cell(t, TERM_PLAIN, v.text);
		else
			table_cell(t, TERM_PLAIN,
				   v.has ? runview_value(text, v.number,
							 v.metric ? v.metric->unit : "")
					 : "-");
	}
}

static void ls_table_row(struct table *t, struct index *x, size_t i)
{
	const struct index_run *r = index_get(x, i);
	size_t k, metrics = ls_n_metrics ? ls_n_metrics : 1;
	const struct store_run *run = &r->run;
	char text[FMT_MAX];
	double duration;

	table_cell(t, TERM_PLAIN, r->id);
	if (r->error) {
		for (k = 0; k < 3; k++)
			table_cell(t, TERM_PLAIN, "");
		table_cell(t, TERM_RED, "unreadable");
		for (k = 0; k < 1 + metrics; k++)
			table_cell(t, TERM_PLAIN, "");
	} else {
		duration = runview_duration_s(run);
		table_cell(t, TERM_BOLD, run->name);
		table_cell(t, TERM_PLAIN, fmt_local(text, run->start_ns));
		table_cell(t, TERM_PLAIN, isnan(duration) ? "-" : fmt_seconds(text, duration));
		table_cell(t, runview_outcome_style(run), runview_outcome(text, run));
		table_cell(t, TERM_PLAIN, runview_step(text, r->step));
		ls_table_metrics(t, x, i);
	}
	table_cell(t, TERM_PLAIN, fmt_bytes(text, (double)r->bytes));
}

static size_t ls_columns(struct table_column columns[LS_COLUMNS + LS_METRICS_MAX])
{
	static const struct table_column first[] = {
		{"RUN", 0},
		{"NAME", TABLE_ELIDE},
		{"STARTED", TABLE_DROP},
		{"TIME", TABLE_RIGHT},
		{"OUTCOME", 0},
		{"STEP", TABLE_RIGHT},
	};
	size_t n = ARRAY_LEN(first), k;

	memcpy(columns, first, sizeof(first));
	if (ls_n_metrics == 0)
		columns[n++] = (struct table_column){"LOSS", TABLE_RIGHT};
	for (k = 0; k < ls_n_metrics; k++)
		columns[n++] = (struct table_column){ls_metric_heads[k], TABLE_RIGHT};
	columns[n++] = (struct table_column){"SIZE", TABLE_RIGHT};
	return n;
}

static int ls_print_table(struct index *x, const size_t *runs, size_t n, size_t all)
{
	struct table_column columns[LS_COLUMNS + LS_METRICS_MAX];
	struct table *t = table_new(columns, ls_columns(columns));
	struct term term;
	struct buf notes;
	int status;
	size_t i;

	buf_init(&notes, 1u << 20);
	term_look(&term, stdout);
	for (i = 0; i < n; i++) {
		const struct index_run *r = index_get(x, runs[i]);

		ls_table_row(t, x, runs[i]);
		if (r->error || r->warning[0] != '\0')
			buf_printf(&notes, "%s: %s\n", r->id, r->error ? r->error : r->warning);
	}
	table_print(t, &term, stdout, 0);
	table_free(t);
	status = runview_flush();
	fputs(buf_str(&notes), stderr);
	buf_done(&notes);
	if (n < all)
		fprintf(stderr, "%zu of %zu runs; --limit 0 shows all\n", n, all);
	return status;
}

/* Where a run that goes on can be seen, if a server goes with this user's agent. */
static void ls_say_dashboard(struct index *x, const size_t *runs, size_t n)
{
	int dirfd = rendezvous_open(0);
	char url[512];
	size_t i;

	for (i = 0; i < n; i++)
		if (!index_get(x, runs[i])->error &&
		    index_get(x, runs[i])->run.outcome == RUN_RUNNING)
			break;
	if (dirfd >= 0 && i < n && servewatch_url(dirfd, url, sizeof(url)))
		fprintf(stderr, "Live runs: %s\n", url);
	if (dirfd >= 0)
		close(dirfd);
}

static int ls_print(struct index *x, const char *root)
{
	size_t *runs = xcalloc(index_count(x), sizeof(*runs)), n, all;
	int status = 0;

	n = ls_choose(x, runs, &all);
	if (ls_json)
		status = ls_print_json(x, runs, n, root);
	else if (n)
		status = ls_print_table(x, runs, n, all);
	else if (index_count(x))
		fprintf(stderr, "None of the %zu runs in %s is like that.\n", index_count(x), root);
	else
		fprintf(stderr, "No runs in %s. Record one: lapse run -- COMMAND\n", root);
	if (n && !ls_json)
		ls_say_dashboard(x, runs, n);
	free(runs);
	return status;
}

/* The usual folder is made by the first run: until then it has none. */
static int ls_print_none(const char *root)
{
	if (ls_json)
		puts("[]");
	else
		fprintf(stderr, "No runs in %s. Record one: lapse run -- COMMAND\n", root);
	return runview_flush();
}

int cmd_ls(int argc, char **argv)
{
	struct index *x = NULL;
	struct err e = {0};
	char root[4096];
	int err, status;

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
		err = index_open(root, &e, &x);
	if (err == -ENOENT && !ls_dir)
		return ls_print_none(root);
	if (err) {
		fprintf(stderr, "lapse ls: %s\n", e.text);
		return 1;
	}
	status = ls_print(x, root);
	index_close(x);
	return status;
}
