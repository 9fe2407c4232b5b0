/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_compare.c - `lapse trace diff`: what changed from one trace to another. Definitions
 * are in docs/trace-numbers.md.
 */
#include "cli/trace_subs.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyse/tracediff.h"
#include "base/mem.h"
#include "cli/tracegaps.h"

static const char *trace_diff_device;
static bool trace_diff_short, trace_diff_all;
static int64_t trace_diff_step[2] = {-1, -1};

const struct opt *trace_diff_options(void)
{
	static const struct opt rows[] = {
		TRACECMD_OPTIONS,
		TRACECMD_OUTPUT,
		TRACECMD_STEPS,
		{.name = "all",
		 .type = OPT_FLAG,
		 .to = &trace_diff_all,
		 .help = "people see what did not change too (JSON and CSV have all)"},
		{.name = "hta",
		 .type = OPT_FLAG,
		 .to = &tracecmd_opt.hta,
		 .help = "HTA's table: calls and sums of one step of each"},
		{.name = "device",
		 .type = OPT_STR,
		 .value = "WHICH",
		 .to = &trace_diff_device,
		 .help = "with --hta: all, cpu or gpu (default: all)"},
		{.name = "short-names",
		 .type = OPT_FLAG,
		 .to = &trace_diff_short,
		 .help = "with --hta: names without arguments"},
		{.name = "step-a",
		 .type = OPT_INT,
		 .value = "N",
		 .to = &trace_diff_step[0],
		 .hi = INT32_MAX,
		 .help = "with --hta: the step of the first trace (default: its first)"},
		{.name = "step-b",
		 .type = OPT_INT,
		 .value = "N",
		 .to = &trace_diff_step[1],
		 .hi = INT32_MAX,
		 .help = "with --hta: the step of the second trace (default: its first)"},
		{0},
	};

	return rows;
}

static const struct sheet_column trace_diff_columns[] = {
	{"kind", "KIND", SHEET_TEXT, 0},
	{"verdict", "", SHEET_TEXT, 0},
	{"before_us", "BEFORE", SHEET_US, 0},
	{"after_us", "AFTER", SHEET_US, 0},
	{"delta_us", "CHANGE", SHEET_US, 0},
	{"delta_pct", "", SHEET_PERCENT, 0},
	{"calls_before", "", SHEET_COUNT, SHEET_DATA},
	{"calls_after", "", SHEET_COUNT, SHEET_DATA},
	{"", "CALLS", SHEET_TEXT, SHEET_SEEN | TABLE_RIGHT},
	{"spread_before_us", "", SHEET_US, SHEET_DATA},
	{"spread_after_us", "", SHEET_US, SHEET_DATA},
	{"p", "", SHEET_NUMBER, SHEET_DATA},
	{"p_rank", "", SHEET_NUMBER, SHEET_DATA},
	{"test", "TEST", SHEET_TEXT, 0},
	{"q", "Q", SHEET_NUMBER, 0},
	{"effect", "", SHEET_NUMBER, SHEET_DATA},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
};

static const struct sheet_column trace_diff_totals[] = {
	{"what", "", SHEET_TEXT, 0},         {"before_us", "BEFORE", SHEET_US, 0},
	{"after_us", "AFTER", SHEET_US, 0},  {"delta_us", "CHANGE", SHEET_US, 0},
	{"delta_pct", "", SHEET_PERCENT, 0},
};

static const struct sheet_column trace_diff_hta_columns[] = {
	{"change", "CHANGE", SHEET_TEXT, 0},       {"calls_before", "BEFORE", SHEET_COUNT, 0},
	{"calls_after", "AFTER", SHEET_COUNT, 0},  {"calls_delta", "+/-", SHEET_COUNT, 0},
	{"before_ns", "TIME BEFORE", SHEET_NS, 0}, {"after_ns", "AFTER", SHEET_NS, 0},
	{"delta_ns", "+/-", SHEET_NS, 0},          {"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
};

static const char *const trace_diff_kinds[TRACEDIFF_KINDS] = {
	[TRACEDIFF_KERNEL] = "kernel",
	[TRACEDIFF_OPERATOR] = "operator",
};

static void trace_diff_change(struct sheet *sheet, double before, double after)
{
	trace_number(sheet, before / 1e3);
	trace_number(sheet, after / 1e3);
	trace_number(sheet, (after - before) / 1e3);
	trace_number(sheet, before > 0 ? 100 * (after - before) / before : NAN);
}

static void trace_diff_item(struct sheet *sheet, const struct tracediff_item *it)
{
	const struct tracediff_side *a = &it->side[0], *b = &it->side[1];
	char calls[64];

	sheet_text(sheet, trace_diff_kinds[it->kind]);
	sheet_text(sheet, tracediff_verdict_names[it->verdict]);
	sheet_double(sheet, a->per_step / 1e3);
	sheet_double(sheet, b->per_step / 1e3);
	sheet_double(sheet, it->delta / 1e3);
	trace_number(sheet, a->per_step > 0 ? 100 * it->delta / a->per_step : NAN);
	sheet_int(sheet, (int64_t)a->calls);
	sheet_int(sheet, (int64_t)b->calls);
	if (a->calls == b->calls)
		snprintf(calls, sizeof(calls), "%llu", (unsigned long long)a->calls);
	else
		snprintf(calls, sizeof(calls), "%llu to %llu", (unsigned long long)a->calls,
			 (unsigned long long)b->calls);
	sheet_text(sheet, calls);
	trace_number(sheet, a->spread / 1e3);
	trace_number(sheet, b->spread / 1e3);
	trace_number(sheet, it->p);
	trace_number(sheet, it->p_rank);
	isnan(it->q) ? sheet_missing(sheet) : sheet_text(sheet, tracediff_test_names[it->test]);
	trace_number(sheet, it->q);
	trace_number(sheet, it->effect);
	sheet_text(sheet, it->name);
}

static void trace_diff_total(const struct tracediff_result *r, struct sheet *sheet)
{
	if (r->has_steps[0] && r->has_steps[1]) {
		sheet_text(sheet, "step");
		trace_diff_change(sheet, r->step_ns[0], r->step_ns[1]);
	}
	sheet_text(sheet, "kernels");
	trace_diff_change(sheet, r->total[0][TRACEDIFF_KERNEL], r->total[1][TRACEDIFF_KERNEL]);
	sheet_text(sheet, "operators");
	trace_diff_change(sheet, r->total[0][TRACEDIFF_OPERATOR], r->total[1][TRACEDIFF_OPERATOR]);
}

static void trace_diff_sentence(const struct tracediff_result *r, struct traceout *o)
{
	static const struct {
		enum tracediff_verdict verdict;
		const char *text;
	} words[] = {{TRACEDIFF_SLOWER, "slower"},
		     {TRACEDIFF_FASTER, "faster"},
		     {TRACEDIFF_NEW, "added"},
		     {TRACEDIFF_GONE, "removed"},
		     {TRACEDIFF_SAME, "the same"},
		     {TRACEDIFF_UNSURE, "changed, but steps scatter too much to be sure"},
		     {TRACEDIFF_UNTESTED, "not tested: that needs two steps of each"}};
	size_t n[TRACEDIFF_UNTESTED + 1] = {0}, i;
	struct buf text;

	for (i = 0; i < r->n; i++)
		n[r->items[i].verdict]++;
	buf_init(&text, 1024);
	for (i = 0; i < ARRAY_LEN(words); i++)
		if (n[words[i].verdict])
			buf_printf(&text, "%s%zu %s", text.len ? "; " : "", n[words[i].verdict],
				   words[i].text);
	if (text.len)
		traceout_say(o, "verdict", "Of %zu operators and kernels: %s.", r->n,
			     buf_str(&text));
	buf_done(&text);
}

static int trace_diff_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *totals = sheet_new("totals", "A step", trace_diff_totals,
					 ARRAY_LEN(trace_diff_totals)),
		     *all = sheet_new("changes", "Operators (own time) and kernels, time a step",
				      trace_diff_columns, ARRAY_LEN(trace_diff_columns)),
		     *shown = sheet_new("shown", "Operators (own time) and kernels, time a step",
					trace_diff_columns, ARRAY_LEN(trace_diff_columns));
	struct tracediff_result *r;
	size_t i;
	int err = tracediff_steps_new(&s->view[0], &s->view[1], NULL, &r);

	traceout_sheet(o, totals);
	traceout_people(o, shown);
	traceout_data(o, all);
	if (err)
		return err;
	trace_diff_total(r, totals);
	for (i = 0; i < r->n; i++) {
		trace_diff_item(all, &r->items[i]);
		if (r->items[i].verdict != TRACEDIFF_SAME || trace_diff_all)
			trace_diff_item(shown, &r->items[i]);
	}
	trace_diff_sentence(r, o);
	traceout_say(
		o, "inputs",
		"Before: %s, %zu %s; after: %s, %zu %s. Slower and faster: Welch's test over "
		"the steps, where they are skewed that of Mann and Whitney (ranks), q (adjusted "
		"for all names) below 0.05 and a change of 1 %% or more.%s",
		trace_path(s->trace[0]), r->steps[0], r->steps[0] == 1 ? "step" : "steps",
		trace_path(s->trace[1]), r->steps[1], r->steps[1] == 1 ? "step" : "steps",
		r->is_few ? " Steps this few are judged as if they scattered like a normal "
			    "distribution: record four of each or more to be sure."
			  : "");
	tracediff_steps_free(r);
	tracegaps_say(o, s, TRACEGAPS_GPU | TRACEGAPS_STEPS);
	return 0;
}

static int trace_diff_hta(struct tracecmd_set *s, struct traceout *o)
{
	struct tracediff_options opt = {
		.short_names = trace_diff_short,
		.step = {(int32_t)trace_diff_step[0], (int32_t)trace_diff_step[1]},
		.device = !trace_diff_device || !strcmp(trace_diff_device, "all") ? TRACEDIFF_ALL
			  : !strcmp(trace_diff_device, "cpu")                     ? TRACEDIFF_HOST
							      : TRACEDIFF_DEVICE};
	struct sheet *sheet = sheet_new("hta_diff", "Calls and time", trace_diff_hta_columns,
					ARRAY_LEN(trace_diff_hta_columns));
	struct tracediff_table *t;
	struct err e = {0};
	size_t i;
	int err;

	traceout_sheet(o, sheet);
	err = tracediff_new(&s->view[0], &s->view[1], &opt, &t, &e);
	if (err) {
		tracecmd_fail(s, err, &e);
		return 1;
	}
	for (i = 0; i < t->n; i++) {
		const struct tracediff_row *r = &t->rows[i];

		sheet_text(sheet, tracediff_change_names[r->change]);
		sheet_int(sheet, (int64_t)r->calls[0]);
		sheet_int(sheet, (int64_t)r->calls[1]);
		sheet_int(sheet, (int64_t)r->calls[1] - (int64_t)r->calls[0]);
		sheet_int(sheet, r->ns[0]);
		sheet_int(sheet, r->ns[1]);
		sheet_int(sheet, r->ns[1] - r->ns[0]);
		sheet_text(sheet, r->name);
	}
	traceout_say(o, "inputs", "Step %d of the first and step %d of the second trace.",
		     (int)t->step[0], (int)t->step[1]);
	tracediff_free(t);
	return 0;
}

int trace_diff(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {.command = "trace diff",
						  .views = TRACECMD_ALL_ROWS,
						  .keep_order = true,
						  .least = 2,
						  .most = 2};

	if (trace_diff_device && strcmp(trace_diff_device, "all") != 0 &&
	    strcmp(trace_diff_device, "cpu") != 0 && strcmp(trace_diff_device, "gpu") != 0) {
		fprintf(stderr, "lapse trace diff: --device: \"%s\" is none of all, cpu, gpu\n",
			trace_diff_device);
		return 2;
	}
	/* HTA compares before it drops anything. */
	tracecmd_opt.include_last = tracecmd_opt.hta;
	return trace_run(&wish, tracecmd_opt.hta ? trace_diff_hta : trace_diff_fill, argc, argv);
}
