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
#include <unistd.h>

#include "base/mem.h"
#include "report/exportwalk.h"
#include "cli/export_live.h"
#include "cli/outfile.h"
#include "report/range.h"
#include "wire/clock.h"

#define EXPORT_LOOK 4096 /* rows between two looks at the clock */

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
	struct exportwalk walk;
	struct runview v;
	struct outfile out;
	struct err e; /* of writing */
	size_t unread;
	uint64_t rows_expected;
	int64_t begun_ns; /* CLOCK_MONOTONIC */
	double shown_s;   /* when progress was shown last; 0 never */
	bool progress;
};

/* Only a person looks at a terminal, and only after a second. */
static void export_show_progress(struct export *x)
{
	char rows[FMT_MAX], bytes[FMT_MAX];
	double s;

	if (!x->progress || x->walk.rows % EXPORT_LOOK != 0)
		return;
	s = (double)(clock_ns(CLOCK_MONOTONIC) - x->begun_ns) / 1e9;
	if (s < 1 || s - x->shown_s < 0.2)
		return;
	x->shown_s = s;
	fprintf(stderr, "\r%s rows", fmt_count(rows, (double)x->walk.rows));
	if (x->rows_expected >= x->walk.rows)
		fprintf(stderr, " of %s", fmt_count(rows, (double)x->rows_expected));
	fprintf(stderr, ", %s\033[K", fmt_bytes(bytes, (double)x->out.bytes));
}

static int export_put(void *arg, const char *data, size_t len)
{
	struct export *x = arg;

	export_show_progress(x);
	return outfile_write(&x->out, data, len, &x->e);
}

/* What cannot be read is told and counted, and the rest goes on. */
static int export_unread(void *arg, const char *what, const struct err *e)
{
	struct export *x = arg;
	bool events = strcmp(what, "events") == 0;

	fprintf(stderr, "lapse export: %s%s: %s\n", events ? "" : "series ", what, e->text);
	x->unread++;
	return 0;
}

static bool export_is_wanted(void *arg, const struct store_series *s)
{
	(void)arg;
	return runview_match(export_series, s->name);
}

static int export_parse_what(struct exportwalk *x)
{
	const char *p = export_what_text;
	unsigned bit;
	size_t n;

	x->what = p ? 0 : x->ops->what;
	while (p && *p) {
		n = strcspn(p, ",");
		bit = exportwalk_what(p, n);
		if (!bit) {
			fprintf(stderr,
				"lapse export: --what: \"%.*s\" is none of samples, spans, "
				"histograms, events\n",
				(int)n, p);
			return -EINVAL;
		}
		x->what |= bit;
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

static int export_parse_format(struct exportwalk *x)
{
	x->ops = export_to ? exportwalk_format(export_to) : NULL;
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
	struct err walk_error = {0}, close_error = {0};
	size_t i;
	int err;

	for (i = 0; i < x->v.n_series; i++)
		if (exportwalk_wants(&x->walk, &x->v.series[i]))
			x->rows_expected += x->v.series[i].count;
	x->begun_ns = clock_ns(CLOCK_MONOTONIC);
	x->progress = isatty(STDERR_FILENO) && (x->out.to != stdout || !isatty(STDOUT_FILENO));
	err = exportwalk_run(&x->walk, &walk_error);
	err = outfile_close(&x->out, !err, &close_error) ? close_error.code : err;
	if (x->shown_s > 0)
		fprintf(stderr, "\r\033[K");
	/* A reader that has seen enough is no error to talk about. */
	if (err && err != -EPIPE)
		fprintf(stderr, "lapse export: %s\n",
			x->e.code         ? x->e.text
			: walk_error.code ? walk_error.text
					  : close_error.text);
	return err || x->unread ? 1 : 0;
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
	struct export x = {
		.walk = {.wants = export_is_wanted, .put = export_put, .unread = export_unread}};
	const struct exporter_ops *live = export_to ? exporter_find(export_to) : NULL;
	int status = 0;

	if (what && live)
		return export_to_live(live, what);
	if (!what || export_parse_format(&x.walk) != 0)
		return 2;
	if (export_follow) {
		fprintf(stderr, "lapse export: --follow is for tensorboard and prometheus\n");
		return 2;
	}
	if (runview_open(&x.v, "export", export_dir, what) != 0)
		return 1;
	if (range_parse(&export_range, "export", &x.v.run, &x.walk.range) != 0) {
		runview_close(&x.v);
		return 2;
	}
	x.walk.v = &x.v;
	x.walk.arg = &x;
	if (outfile_open(&x.out, export_output, &x.e) != 0) {
		fprintf(stderr, "lapse export: %s\n", x.e.text);
		status = 1;
	} else {
		status = export_write(&x);
	}
	runview_close(&x.v);
	return status;
}
