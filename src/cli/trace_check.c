/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_check.c - `lapse trace validate`, `repair` and `score`: is the file in order, can
 * it be mended, and does the training meet its targets. Definitions are in
 * docs/trace-numbers.md.
 */
#include "cli/trace_subs.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/coverage.h"
#include "analyse/score.h"
#include "base/mem.h"
#include "cli/progress.h"
#include "cli/tracegaps.h"
#include "trace/repair.h"
#include "trace/validate.h"

/* ---- validate ----------------------------------------------------------------------------------
 */

static const struct sheet_column trace_validate_columns[] = {
	{"file", "FILE", SHEET_COUNT, 0},
	{"rank", "RANK", SHEET_COUNT, 0},
	{"grade", "GRADE", SHEET_TEXT, 0},
	{"finding", "FINDING", SHEET_TEXT, 0},
	{"count", "COUNT", SHEET_COUNT, 0},
	{"of", "OF", SHEET_COUNT, TABLE_DROP},
	{"offset", "AT BYTE", SHEET_COUNT, TABLE_DROP},
	{"text", "WHAT", SHEET_TEXT, TABLE_CUT},
	{"done", "", SHEET_TEXT, SHEET_DATA},
	{"example", "", SHEET_TEXT, SHEET_DATA},
};

static const struct sheet_column trace_validate_streams[] = {
	TRACEOUT_FILE,
	{"device", "DEVICE", SHEET_TEXT, TABLE_ELIDE},
	{"stream", "STREAM", SHEET_COUNT, 0},
	{"rows", "ROWS", SHEET_COUNT, 0},
	{"overlaps", "OVERLAPS", SHEET_COUNT, 0},
	{"raw_ns", "SUM", SHEET_NS, 0},
	{"clipped_ns", "ONCE", SHEET_NS, 0},
	{"longest_ns", "LONGEST", SHEET_NS, 0},
};

static const char *const trace_validate_grades[] = {
	[VALIDATE_NOTE] = "note", [VALIDATE_ERROR] = "error", [VALIDATE_LOST] = "lost"};
static const char *const trace_validate_cover[] = {[COVERAGE_FINE] = "",
						   [COVERAGE_NOTE] = "note",
						   [COVERAGE_WARN] = "warning",
						   [COVERAGE_FAIL] = "error"};

/* What people see of a finding. */
static void trace_validate_tell(const struct tracecmd_set *s, size_t i, struct buf *lines,
				const char *grade, const char *name, const char *text)
{
	if (s->n > 1)
		buf_printf(lines, "%s: ", tracecmd_label(s, i));
	buf_printf(lines, "%s, %s: %s\n", grade, name, text);
}

static void trace_validate_file(const struct tracecmd_set *s, size_t i, struct sheet *sheet,
				struct buf *lines, bool *bad)
{
	struct validate v;
	char text[1024];
	size_t k;

	validate_trace(s->trace[i], &v);
	for (k = 0; k < v.n; k++) {
		traceout_file(sheet, s, i);
		sheet_text(sheet, trace_validate_grades[v.items[k].grade]);
		sheet_text(sheet, v.items[k].name);
		sheet_int(sheet, (int64_t)v.items[k].count);
		sheet_missing(sheet);
		sheet_int(sheet, (int64_t)v.items[k].offset);
		sheet_text(sheet, v.items[k].meaning);
		sheet_text(sheet, v.items[k].done);
		sheet_text(sheet, v.items[k].text);
		snprintf(text, sizeof(text),
			 "%s %s (%" PRIu64 ", the first at byte %" PRIu64 "%s%.200s)",
			 v.items[k].meaning, v.items[k].done, v.items[k].count, v.items[k].offset,
			 *v.items[k].text ? ": " : "", v.items[k].text);
		trace_validate_tell(s, i, lines, trace_validate_grades[v.items[k].grade],
				    v.items[k].name, text);
	}
	*bad = *bad || !v.is_valid;
}

static void trace_validate_streams_of(const struct tracecmd_set *s, size_t i,
				      const struct coverage *c, struct sheet *streams)
{
	const struct trace *t = s->trace[i];
	size_t k;

	for (k = 0; k < c->n_streams; k++) {
		const struct coverage_stream *st = &c->streams[k];

		traceout_file(streams, s, i);
		sheet_text(streams, trace_text(t, trace_track(t, st->track)->pid_text, NULL));
		sheet_int(streams, st->stream);
		sheet_int(streams, (int64_t)st->rows);
		sheet_int(streams, (int64_t)st->overlaps);
		sheet_int(streams, st->raw);
		sheet_int(streams, st->clipped);
		sheet_int(streams, st->longest);
	}
}

static int trace_validate_rows(const struct tracecmd_set *s, size_t i, struct sheet *sheet,
			       struct sheet *streams, struct buf *lines, bool *bad)
{
	struct coverage *c;
	size_t k;
	int err = coverage_new(&s->view[i], &c);

	if (err)
		return err;
	for (k = 0; k < COVERAGE_ITEMS; k++) {
		const struct coverage_item *it = &c->items[k];

		if (it->grade == COVERAGE_FINE || !trace_is_told(s, i, (enum coverage_id)k))
			continue;
		traceout_file(sheet, s, i);
		sheet_text(sheet, trace_validate_cover[it->grade]);
		sheet_text(sheet, coverage_name((enum coverage_id)k));
		sheet_int(sheet, (int64_t)it->count);
		if (it->of)
			sheet_int(sheet, (int64_t)it->of);
		else
			sheet_missing(sheet);
		sheet_missing(sheet);
		sheet_text(sheet, it->text);
		sheet_missing(sheet);
		sheet_missing(sheet);
		trace_validate_tell(s, i, lines, trace_validate_cover[it->grade],
				    coverage_name((enum coverage_id)k), it->text);
		*bad = *bad || it->grade > COVERAGE_NOTE;
	}
	trace_validate_streams_of(s, i, c, streams);
	coverage_free(c);
	return 0;
}

static int trace_validate_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *sheet = sheet_new("findings", "Findings", trace_validate_columns,
					ARRAY_LEN(trace_validate_columns)),
		     *streams =
			     sheet_new("streams", "Work of the devices, overlaps counted once",
				       trace_validate_streams, ARRAY_LEN(trace_validate_streams));
	struct buf lines;
	bool bad = false;
	size_t i;
	int err = 0;

	traceout_data(o, sheet);
	buf_init(&lines, 1 << 20);
	for (i = 0; i < s->n && !err; i++) {
		trace_validate_file(s, i, sheet, &lines, &bad);
		err = trace_validate_rows(s, i, sheet, streams, &lines, &bad);
	}
	traceout_list(o, "Findings", xstrdup(buf_str(&lines)));
	buf_done(&lines);
	traceout_sheet(o, streams);
	traceout_say(
		o, bad ? "findings" : "fine", "%s",
		bad ? "There are findings; errors and warnings give exit status 1. lapse trace "
		      "repair mends what is wrong with a file's text."
		    : "Nothing is wrong: valid JSON, whole, and rows that fit together.");
	if (bad && !s->status)
		s->status = 1;
	return err;
}

int trace_validate(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {.command = "trace validate",
						  .views = TRACECMD_ALL_ROWS,
						  .exact = true,
						  .texts = true,
						  .no_notes = true};

	return trace_run(&wish, trace_validate_fill, argc, argv);
}

/* ---- repair -------------------------------------------------------------------------------------
 */

static const char *trace_repair_file;
static bool trace_repair_json;

const struct opt *trace_repair_options(void)
{
	static const struct opt rows[] = {
		{.name = "output",
		 .letter = 'o',
		 .type = OPT_STR,
		 .value = "FILE",
		 .to = &trace_repair_file,
		 .help = "the new file; .gz and .zst compress it, - is standard output; may be the "
			 "old one"},
		{.name = "json",
		 .type = OPT_FLAG,
		 .to = &trace_repair_json,
		 .help = "print what was mended as one JSON object"},
		{.name = "quiet",
		 .letter = 'q',
		 .type = OPT_FLAG,
		 .to = &tracecmd_opt.quiet,
		 .help = "print nothing but errors"},
		{0},
	};

	return rows;
}

static const struct sheet_column trace_repair_columns[] = {
	{"kind", "KIND", SHEET_TEXT, 0},
	{"count", "COUNT", SHEET_COUNT, 0},
	{"offset", "FIRST AT BYTE", SHEET_COUNT, 0},
	{"loses", "LOSES", SHEET_BOOL, 0},
	{"meaning", "MEANING", SHEET_TEXT, TABLE_CUT},
	{"example", "", SHEET_TEXT, SHEET_DATA},
};

static struct sheet *trace_repair_sheet(const struct repair_result *r)
{
	struct sheet *sheet =
		sheet_new("mends", NULL, trace_repair_columns, ARRAY_LEN(trace_repair_columns));
	size_t k;

	for (k = 0; k < REPAIR_KINDS; k++) {
		if (!r->mends[k].count)
			continue;
		sheet_text(sheet, repair_rows[k].name);
		sheet_int(sheet, (int64_t)r->mends[k].count);
		sheet_int(sheet, (int64_t)r->mends[k].offset);
		sheet_int(sheet, repair_rows[k].loses);
		sheet_text(sheet, repair_rows[k].meaning);
		sheet_text(sheet, r->mends[k].text);
	}
	return sheet;
}

static void trace_repair_print_json(const char *in, const struct repair_result *r,
				    const struct sheet *sheet)
{
	struct buf text;
	struct json j;

	buf_init(&text, 1 << 20);
	json_init(&j, &text);
	json_object(&j);
	json_kstr(&j, "command", "trace repair");
	json_kstr(&j, "input", in);
	json_kstr(&j, "output", trace_repair_file);
	json_kuint(&j, "events", r->events);
	json_kuint(&j, "mended", r->mended);
	json_kuint(&j, "lost", r->lost);
	json_kuint(&j, "bytes_in", r->bytes_in);
	json_kuint(&j, "bytes_out", r->bytes_out);
	json_key(&j, "mends");
	sheet_json(sheet, &j);
	json_object_end(&j);
	puts(buf_str(&text));
	buf_done(&text);
}

static void trace_repair_print(const char *in, const struct repair_result *r,
			       const struct sheet *sheet)
{
	char a[FMT_MAX], b[FMT_MAX];
	struct term term;

	term_look(&term, stdout);
	printf("%s: %s events as they were, %" PRIu64 " mended, %" PRIu64 " lost; %s written.\n",
	       tracecmd_name(in), traceout_groups(a, r->events), r->mended, r->lost,
	       fmt_bytes(b, (double)r->bytes_out));
	if (sheet_rows(sheet) == 0)
		puts("Nothing had to be mended.");
	else
		sheet_print(sheet, &term, stdout, 0);
}

int trace_repair(int argc, char **argv)
{
	struct repair_result r = {0};
	struct sheet *sheet;
	struct err e = {0};
	int err;

	if (argc != 1 || !trace_repair_file) {
		fprintf(stderr, "lapse trace repair: %s\nTry: lapse trace repair --help\n",
			argc != 1 ? "this takes one file"
				  : "--output FILE says where to (- is standard output)");
		return 2;
	}
	progress_begin(tracecmd_opt.quiet);
	progress_phase("Mending", NULL, 0);
	tracecmd_signals();
	tracecmd_writes(trace_repair_file);
	err = repair_file(argv[0], trace_repair_file, &r, &e);
	tracecmd_writes(NULL);
	progress_end();
	if (err) {
		fprintf(stderr, "lapse trace repair: %s\n", e.text);
		return 1;
	}
	sheet = trace_repair_sheet(&r);
	if (strcmp(trace_repair_file, "-") == 0)
		;
	else if (trace_repair_json)
		trace_repair_print_json(argv[0], &r, sheet);
	else if (!tracecmd_opt.quiet)
		trace_repair_print(argv[0], &r, sheet);
	sheet_free(sheet);
	return 0;
}

/* ---- score
 * ---------------------------------------------------------------------------------------- */

static const struct sheet_column trace_score_columns[] = {
	TRACEOUT_FILE,
	{"target", "", SHEET_TEXT, SHEET_DATA},
	{"state", "", SHEET_TEXT, 0},
	{"title", "TARGET", SHEET_TEXT, 0},
	{"value_pct", "IS", SHEET_PERCENT, 0},
	{"unrecorded_pct", "", SHEET_PERCENT, SHEET_DATA},
	{"low_pct", "", SHEET_PERCENT, SHEET_DATA},
	{"high_pct", "", SHEET_PERCENT, SHEET_DATA},
	{"text", "", SHEET_TEXT, SHEET_DATA},
};

static void trace_score_row(struct sheet *sheet, enum score_target target,
			    const struct score_row *r)
{
	sheet_text(sheet, score_name(target));
	sheet_text(sheet, score_state(r->state));
	sheet_text(sheet, score_title(target));
	trace_number(sheet, 100 * r->value);
	trace_number(sheet, 100 * r->unrecorded);
	trace_number(sheet, isfinite(r->low) ? 100 * r->low : NAN);
	trace_number(sheet, isfinite(r->high) ? 100 * r->high : NAN);
	sheet_text(sheet, r->text);
}

static int trace_score_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *sheet =
		sheet_new("score", "Targets", trace_score_columns, ARRAY_LEN(trace_score_columns));
	struct verdict_result *v = NULL;
	struct score score;
	struct buf lines;
	int passed = 0, failed = 0, unknown = 0, k;
	size_t i;
	int err = verdict_new(s->view, s->n, &v);

	traceout_sheet(o, sheet);
	buf_init(&lines, 1 << 20);
	for (i = 0; !err && i < v->n; i++) {
		score_of(&v->ranks[i], &score);
		for (k = 0; k < SCORE_TARGETS; k++) {
			traceout_file(sheet, s, i);
			trace_score_row(sheet, (enum score_target)k, &score.rows[k]);
			if (s->n > 1)
				buf_printf(&lines, "%s: ", tracecmd_label(s, i));
			buf_printf(&lines, "%s\n", score.rows[k].text);
		}
		passed += score.passed;
		failed += score.failed;
		unknown += SCORE_TARGETS - score.passed - score.failed;
	}
	verdict_free(v);
	traceout_list(o, "Why", xstrdup(buf_str(&lines)));
	buf_done(&lines);
	if (err)
		return err;
	traceout_say(o, "score", "%d passed, %d failed, %d unknown.", passed, failed, unknown);
	tracegaps_say(o, s, TRACEGAPS_GPU | TRACEGAPS_STEPS);
	return 0;
}

int trace_score(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {.command = "trace score",
						  .views = TRACECMD_ALL_ROWS};

	return trace_run(&wish, trace_score_fill, argc, argv);
}
