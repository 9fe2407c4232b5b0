/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_export.c - `lapse export`: a run as CSV or JSON Lines. One walk over the
 * store; a row is formatted and written before the next one is read. Formats
 * that are kept up to date (src/export) are export_live.c's.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "report/export.h"
#include "cli/export_live.h"
#include "cli/outfile.h"
#include "report/range.h"

#define EXPORT_LINE_MAX (64u << 20) /* bytes of what one item becomes */
#define EXPORT_LOOK 4096            /* rows between two looks at the clock */

static const char *export_dir, *export_to, *export_series, *export_output, *export_what_text;
static struct range_text export_range;
static bool export_follow;

/* clang-format off */
static const struct opt export_rows[] = {
	{.name = "to", .letter = 't', .type = OPT_STR, .value = "FORMAT", .to = &export_to,
	 .help = "csv, json (JSON Lines: an object a line), tensorboard (event files) or "
		 "prometheus (a file for node_exporter)"},
	{.name = "output", .letter = 'o', .type = OPT_STR, .value = "PATH", .to = &export_output,
	 .help = "csv, json: file, whole or not at all; - is standard output, the default; "
		 "prometheus: file; tensorboard: folder (default: tensorboard/ in the run's)"},
	{.name = "follow", .letter = 'f', .type = OPT_FLAG, .to = &export_follow,
	 .help = "tensorboard, prometheus: go on until the run has ended"},
	{.name = "what", .letter = 'w', .type = OPT_STR, .value = "LIST", .to = &export_what_text,
	 .help = "some of samples,spans,histograms,events; csv writes events alone "
		 "(default: all; csv: all but events)"},
	{.name = "series", .letter = 's', .type = OPT_STR, .value = "PATTERN",
	 .to = &export_series,
	 .help = "only series whose name matches, like 'grad/*' or 'loss'"},
	{.name = "from", .type = OPT_STR, .value = "TIME", .to = &export_range.from,
	 .help = RANGE_HELP_FROM},
	{.name = "until", .type = OPT_STR, .value = "TIME", .to = &export_range.until,
	 .help = RANGE_HELP_UNTIL},
	{.name = "steps", .type = OPT_STR, .value = "A:B", .to = &export_range.steps,
	 .help = RANGE_HELP_STEPS},
	{.name = "all-attempts", .type = OPT_FLAG, .to = &export_range.all,
	 .help = RANGE_HELP_ALL},
	{.name = "dir", .letter = 'd', .type = OPT_STR, .value = "DIR", .to = &export_dir,
	 .help = "folder of the runs (default: $LAPSE_DIR, else ./lapse-runs)"},
	{.name = NULL},
};
/* clang-format on */

const struct opt *cmd_export_options(void)
{
	return export_rows;
}

struct export
{
	const struct export_ops *ops;
	unsigned what;
	struct runview v;
	struct store_range range;
	struct outfile out;
	struct buf line;
	struct err e;                      /* of writing */
	const struct store_series *series; /* the one being read */
	size_t index;
	uint64_t rows, rows_expected;
	struct timespec begun;
	double shown_s; /* when progress was shown last; 0 never */
	bool progress;
};

static double export_elapsed_s(const struct export *x)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - x->begun.tv_sec) +
	       (double)(now.tv_nsec - x->begun.tv_nsec) / 1e9;
}

/* Only a person looks at a terminal, and only after a second. */
static void export_show_progress(struct export *x)
{
	char rows[FMT_MAX], bytes[FMT_MAX];
	double s;

	if (!x->progress || x->rows % EXPORT_LOOK != 0)
		return;
	s = export_elapsed_s(x);
	if (s < 1 || s - x->shown_s < 0.2)
		return;
	x->shown_s = s;
	fprintf(stderr, "\r%s rows", fmt_count(rows, (double)x->rows));
	if (x->rows_expected >= x->rows)
		fprintf(stderr, " of %s", fmt_count(rows, (double)x->rows_expected));
	fprintf(stderr, ", %s\033[K", fmt_bytes(bytes, (double)x->out.bytes));
}

static int export_flush(struct export *x)
{
	int err;

	if (x->line.error)
		return err_set(&x->e, x->line.error, "one item is larger than %u MiB",
			       EXPORT_LINE_MAX >> 20);
	err = outfile_write(&x->out, buf_str(&x->line), x->line.len, &x->e);
	buf_reset(&x->line);
	return err;
}

static int export_point(void *arg, const struct store_point *p)
{
	struct export *x = arg;

	x->ops->point(&x->line, &x->v, x->series, x->index, p);
	x->rows++;
	export_show_progress(x);
	return export_flush(x);
}

static int export_event(void *arg, const struct store_event *e)
{
	struct export *x = arg;
	const struct store_range *r = &x->range;

	if (r->by_time && (e->time_ns < r->time_min || e->time_ns > r->time_max))
		return 0;
	if (r->by_step &&
	    (e->step == SINK_STEP_NONE || e->step < r->step_min || e->step > r->step_max))
		return 0;
	x->ops->event(&x->line, &x->v, e);
	x->rows++;
	export_show_progress(x);
	return export_flush(x);
}

static bool export_wants(const struct export *x, const struct store_series *s)
{
	unsigned bit = s->kind == SINK_SPAN        ? EXPORT_SPANS
		       : s->kind == SINK_HISTOGRAM ? EXPORT_HISTOGRAMS
						   : EXPORT_SAMPLES;

	return x->what & bit && runview_match(export_series, s->name);
}

/* Returns an error of writing, which ends the export. What cannot be read is
 * told, counted in *unread, and the rest goes on. */
static int export_walk(struct export *x, size_t *unread)
{
	struct err e = {0};
	size_t i;
	int err;

	for (i = 0; i < x->v.n_series; i++) {
		x->series = &x->v.series[i];
		x->index = i;
		if (!export_wants(x, x->series))
			continue;
		if (x->ops->series)
			x->ops->series(&x->line, x->series, i);
		err_clear(&e);
		err = export_flush(x);
		if (!err)
			err = store_reader_points(x->v.reader, x->series->host, x->series->id,
						  &x->range, export_point, x, &e);
		if (x->e.code)
			return x->e.code;
		if (err) {
			fprintf(stderr, "lapse export: series %s: %s\n", x->series->name, e.text);
			(*unread)++;
		}
	}
	if (!(x->what & EXPORT_EVENTS))
		return 0;
	err_clear(&e);
	err = store_reader_events(x->v.reader, export_event, x, &e);
	if (err && !x->e.code) {
		fprintf(stderr, "lapse export: events: %s\n", e.text);
		(*unread)++;
	}
	return x->e.code;
}

static int export_parse_what(struct export *x)
{
	static const struct {
		const char *name;
		unsigned bit;
	} rows[] = {{"samples", EXPORT_SAMPLES},
		    {"spans", EXPORT_SPANS},
		    {"histograms", EXPORT_HISTOGRAMS},
		    {"events", EXPORT_EVENTS}};
	const char *p = export_what_text;
	size_t n, i;

	x->what = p ? 0 : x->ops->what;
	while (p && *p) {
		n = strcspn(p, ",");
		for (i = 0; i < ARRAY_LEN(rows); i++)
			if (strlen(rows[i].name) == n && memcmp(rows[i].name, p, n) == 0)
				break;
		if (i == ARRAY_LEN(rows)) {
			fprintf(stderr,
				"lapse export: --what: \"%.*s\" is none of samples, spans, "
				"histograms, events\n",
				(int)n, p);
			return -EINVAL;
		}
		x->what |= rows[i].bit;
		p += n + (p[n] == ',');
	}
	if (x->what == 0) {
		fprintf(stderr, "lapse export: --what is empty\n");
		return -EINVAL;
	}
	if (x->ops->events_alone && x->what & EXPORT_EVENTS && x->what != EXPORT_EVENTS) {
		fprintf(stderr,
			"lapse export: %s events have columns of their own: use --what "
			"events alone, into a second file\n",
			x->ops->name);
		return -EINVAL;
	}
	return 0;
}

static int export_parse_format(struct export *x)
{
	static const struct export_ops *const formats[] = {&export_csv, &export_json};
	size_t i;

	for (i = 0; export_to && i < ARRAY_LEN(formats); i++)
		if (strcmp(formats[i]->name, export_to) == 0)
			x->ops = formats[i];
	if (x->ops)
		return export_parse_what(x);
	if (export_to)
		fprintf(stderr,
			"lapse export: --to: \"%s\" is no format; use csv, json, tensorboard or "
			"prometheus\n",
			export_to);
	else
		fprintf(stderr, "lapse export: a format is needed: --to csv, json, tensorboard or "
				"prometheus\n");
	return -EINVAL;
}

static int export_write(struct export *x)
{
	size_t unread = 0, i;
	struct err close_error = {0};
	int err;

	for (i = 0; i < x->v.n_series; i++)
		if (export_wants(x, &x->v.series[i]))
			x->rows_expected += x->v.series[i].count;
	clock_gettime(CLOCK_MONOTONIC, &x->begun);
	x->progress = isatty(STDERR_FILENO) && (x->out.to != stdout || !isatty(STDOUT_FILENO));
	x->ops->begin(&x->line, &x->v, x->what);
	err = export_flush(x);
	if (!err)
		err = export_walk(x, &unread);
	err = outfile_close(&x->out, !err, &close_error) ? close_error.code : err;
	if (x->shown_s > 0)
		fprintf(stderr, "\r\033[K");
	/* A reader that has seen enough is no error to talk about. */
	if (err && err != -EPIPE)
		fprintf(stderr, "lapse export: %s\n", x->e.code ? x->e.text : close_error.text);
	return err || unread ? 1 : 0;
}

/* Formats of src/export: the whole run, kept up to date. */
static int export_to_live(const struct exporter_ops *ops, const char *what)
{
	static const char *const *const others[] = {&export_series, &export_range.from,
						    &export_range.until, &export_range.steps,
						    &export_what_text};
	struct runview v;
	size_t i;
	int status;

	for (i = 0; i < ARRAY_LEN(others); i++)
		if (*others[i])
			break;
	if (i < ARRAY_LEN(others) || export_range.all) {
		fprintf(stderr,
			"lapse export: %s takes all of a run: --what, --series, --from, --until, "
			"--steps and --all-attempts are for csv and json\n",
			ops->name);
		return 2;
	}
	if (runview_open(&v, "export", export_dir, what) != 0)
		return 1;
	store_reader_close(v.reader);
	v.reader = NULL;
	status = export_live(ops, v.dir, export_output, export_follow);
	runview_close(&v);
	return status;
}

int cmd_export(int argc, char **argv)
{
	const char *what = cmd_one_arg("export", argc, argv, "RUN", "last");
	struct export x = {0};
	const struct exporter_ops *live = export_to ? exporter_find(export_to) : NULL;
	int status = 0;

	if (what && live)
		return export_to_live(live, what);
	if (!what || export_parse_format(&x) != 0)
		return 2;
	if (export_follow) {
		fprintf(stderr, "lapse export: --follow is for tensorboard and prometheus\n");
		return 2;
	}
	if (runview_open(&x.v, "export", export_dir, what) != 0)
		return 1;
	if (range_parse(&export_range, "export", &x.v.run, &x.range) != 0) {
		runview_close(&x.v);
		return 2;
	}
	buf_init(&x.line, EXPORT_LINE_MAX);
	if (outfile_open(&x.out, export_output, &x.e) != 0) {
		fprintf(stderr, "lapse export: %s\n", x.e.text);
		status = 1;
	} else {
		status = export_write(&x);
	}
	buf_done(&x.line);
	runview_close(&x.v);
	return status;
}
