/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_query.c - `lapse query`: some series of a run, as small charts, CSV or JSON;
 * without a pattern, which series there are.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "report/querydata.h"
#include "report/range.h"

#define QUERY_CSV_MAX (1u << 30)
#define QUERY_POINTS 1000

static const char *query_dir, *query_axis, *query_group;
static struct range_text query_range;
static bool query_raw, query_json, query_csv;
static int64_t query_points;

/* clang-format off */
static const struct opt query_rows[] = {
	{.name = "axis", .type = OPT_STR, .value = "AXIS", .to = &query_axis,
	 .help = "time or step: what buckets divide (default: time)"},
	{.name = "points", .letter = 'n', .type = OPT_INT, .value = "N", .to = &query_points,
	 .lo = 1, .hi = STORE_BUCKETS_MAX,
	 .help = "buckets of a series; one that has no more points gives them one by one "
		 "(default: 1000; of small charts their width)"},
	{.name = "group-by", .letter = 'g', .type = OPT_STR, .value = "LABEL[,LABEL]",
	 .to = &query_group,
	 .help = "minimum, mean and maximum over the series that have these labels in common; "
		 "also host, role, rank, process"},
	{.name = "raw", .type = OPT_FLAG, .to = &query_raw,
	 .help = "every point as it is stored, as CSV"},
	{.name = "from", .type = OPT_STR, .value = "TIME", .to = &query_range.from,
	 .help = RANGE_HELP_FROM},
	{.name = "until", .type = OPT_STR, .value = "TIME", .to = &query_range.until,
	 .help = RANGE_HELP_UNTIL},
	{.name = "steps", .type = OPT_STR, .value = "A:B", .to = &query_range.steps,
	 .help = RANGE_HELP_STEPS},
	{.name = "all-attempts", .type = OPT_FLAG, .to = &query_range.all, .help = RANGE_HELP_ALL},
	{.name = "csv", .type = OPT_FLAG, .to = &query_csv, .help = "print CSV, a row a bucket"},
	{.name = "json", .type = OPT_FLAG, .to = &query_json, .help = "print one JSON document"},
	{.name = "dir", .letter = 'd', .type = OPT_STR, .value = "DIR", .to = &query_dir,
	 .help = "folder of the runs (default: $LAPSE_DIR, else ./lapse-runs)"},
	{.name = NULL},
};
/* clang-format on */

const struct opt *cmd_query_options(void)
{
	return query_rows;
}

static int query_wrong(const char *why)
{
	fprintf(stderr, "lapse query: %s\n", why);
	return 2;
}

/* Options that do not go together. 0, or the exit status. */
static int query_check(int n_patterns)
{
	if (query_axis && strcmp(query_axis, "time") != 0 && strcmp(query_axis, "step") != 0)
		return query_wrong("--axis is time or step");
	if (query_csv && query_json)
		return query_wrong("--csv and --json are two formats; one of them");
	if (query_raw && (query_json || query_group || query_points))
		return query_wrong(
			"--raw prints points as CSV: without --json, --group-by, --points");
	if (query_csv && n_patterns == 0)
		return query_wrong("--csv needs a pattern; --json also lists series");
	if (query_group && (*query_group == '\0' || *query_group == ','))
		return query_wrong("--group-by needs the name of a label");
	return 0;
}

/* ---- every point ------------------------------------------------------------------- */

struct query_raw {
	const struct querydata_series *s;
	struct buf line;
};

static int query_raw_point(void *arg, const struct store_point *p)
{
	struct query_raw *x = arg;

	buf_reset(&x->line);
	queryout_raw(&x->line, x->s, p);
	return fwrite(buf_str(&x->line), 1, x->line.len, stdout) == x->line.len ? 0 : -EIO;
}

static int query_print_raw(const struct querydata *q)
{
	struct query_raw x = {0};
	struct err e = {0};
	size_t i;
	int r = 0;

	buf_init(&x.line, 1 << 20);
	queryout_raw_head(&x.line);
	fwrite(buf_str(&x.line), 1, x.line.len, stdout);
	for (i = 0; r == 0 && i < q->n; i++) {
		x.s = &q->series[i];
		if (x.s->rate)
			r = err_set(&e, -EINVAL, "--raw: a rate is not stored; leave out rate()");
		else
			r = store_reader_points(q->v->reader, x.s->s->host, x.s->s->id,
						&q->ask.range, query_raw_point, &x, &e);
	}
	buf_done(&x.line);
	if (r < 0 && e.text[0])
		fprintf(stderr, "lapse query: %s\n", e.text);
	return runview_flush() || r < 0 ? 1 : 0;
}

/* ---- buckets ------------------------------------------------------------------------ */

static int query_print_csv(const struct querydata *q)
{
	struct buf b;
	int status = 0;

	buf_init(&b, QUERY_CSV_MAX);
	queryout_csv(&b, q);
	if (b.error)
		status = query_wrong("the answer is larger than 1 GiB; ask for fewer points") - 1;
	else
		fwrite(buf_str(&b), 1, b.len, stdout);
	buf_done(&b);
	return runview_flush() || status ? 1 : 0;
}

static int query_print_json(const struct querydata *q)
{
	struct buf b;
	int status;

	buf_init(&b, RUNVIEW_JSON_MAX);
	queryout_json(&b, q);
	status = runview_json_print("query", &b);
	buf_done(&b);
	return status;
}

/* Columns of small charts: no more than the longest series has points. */
static unsigned query_columns(const struct querydata *q)
{
	unsigned columns = querytext_chart();
	uint64_t n = 1;
	size_t i;

	for (i = 0; i < q->n; i++)
		n = q->series[i].s->count > n ? q->series[i].s->count : n;
	return n < columns ? (unsigned)n : columns;
}

static int query_print(struct querydata *q)
{
	bool text = !query_csv && !query_json;
	struct err e = {0};

	q->ask.points = query_points ? (unsigned)query_points
			: text       ? query_columns(q)
				     : QUERY_POINTS;
	if (text)
		q->ask.aligned = q->ask.no_raw = true;
	if (querydata_ask(q, text, &e) < 0) {
		fprintf(stderr, "lapse query: %s\n", e.text);
		return 1;
	}
	if (query_csv)
		return query_print_csv(q);
	if (query_json)
		return query_print_json(q);
	querytext_print(q);
	return runview_flush();
}

static int query_list(const struct runview *v)
{
	struct buf b;
	int status;

	if (!query_json) {
		querytext_list(v);
		return runview_flush();
	}
	buf_init(&b, RUNVIEW_JSON_MAX);
	queryout_list_json(&b, v);
	status = runview_json_print("query", &b);
	buf_done(&b);
	return status;
}

/* Choose the series; *missed: a pattern has none. 0, -ENOENT: none has, -EINVAL. */
static int query_choose(struct querydata *q, int argc, char **argv, bool *missed)
{
	struct err e;
	int i, r = 0;

	for (i = 0; i < argc && r != -EINVAL; i++) {
		err_clear(&e);
		r = querydata_choose(q, argv[i], &e);
		if (r < 0)
			fprintf(stderr, "lapse query: %s\n", e.text);
		*missed = *missed || r == -ENOENT;
	}
	if (r == -EINVAL)
		return r;
	return q->n ? 0 : -ENOENT;
}

static int query_patterns(struct runview *v, int argc, char **argv)
{
	struct querydata q;
	bool missed = false;
	int status, r = 0;

	querydata_init(&q, v);
	q.ask.axis = query_axis && strcmp(query_axis, "step") == 0 ? STORE_BY_STEP : STORE_BY_TIME;
	if (range_parse(&query_range, "query", &v->run, &q.ask.range) != 0)
		r = -EINVAL;
	if (r == 0)
		r = query_choose(&q, argc, argv, &missed);
	if (r == 0 && query_group)
		querydata_group(&q, query_group);
	if (r < 0)
		status = r == -EINVAL ? 2 : 1;
	else
		status = (query_raw ? query_print_raw(&q) : query_print(&q)) || missed;
	querydata_done(&q);
	return status;
}

/* Is the first argument a run? What finds none is a pattern, for the newest run. */
static bool query_is_run(const char *text)
{
	char root[4096], dir[4096];
	struct err e = {0};

	return store_root(query_dir, root, sizeof(root)) == 0 &&
	       store_find(root, text, dir, sizeof(dir), &e) != -ENOENT;
}

int cmd_query(int argc, char **argv)
{
	const char *what = "last";
	struct runview v;
	int status;

	if (argc > 0 && query_is_run(argv[0])) {
		what = argv[0];
		argc--;
		argv++;
	}
	status = query_check(argc);
	if (status)
		return status;
	if (runview_open(&v, "query", query_dir, what) != 0)
		return 1;
	status = argc ? query_patterns(&v, argc, argv) : query_list(&v);
	runview_close(&v);
	return status;
}
