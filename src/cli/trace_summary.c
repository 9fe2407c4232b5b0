/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_summary.c - `lapse trace summary`: what is in the files, what bounds the training
 * and what to do about it. Definitions are in docs/trace-numbers.md.
 */
#include "cli/trace_face.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/coverage.h"
#include "analyse/nest.h"
#include "base/mem.h"
#include "cli/trace_subs.h"
#include "cli/tracegaps.h"

#define TRACE_SUMMARY_TOP 5
#define TRACE_SUMMARY_RANKS 4 /* with more people do not see each step of each */

static const struct sheet_column trace_summary_contents[] = {
	TRACEOUT_FILE,
	{"category", "CATEGORY", SHEET_TEXT, 0},
	{"rows", "ROWS", SHEET_COUNT, 0},
};

static const struct sheet_column trace_summary_devices[] = {
	TRACEOUT_FILE,
	{"device", "GPU", SHEET_COUNT, 0},
	{"name", "NAME", SHEET_TEXT, 0},
	{"memory_bytes", "MEMORY", SHEET_BYTES, 0},
	{"sms", "SMS", SHEET_COUNT, 0},
};

static const struct sheet_column trace_summary_verdict[] = {
	TRACEOUT_FILE,
	{"bound", "BOUND BY", SHEET_TEXT, 0},
	{"behind", "", SHEET_TEXT, SHEET_DATA},
	{"wall_ns", "TIME", SHEET_NS, 0},
	{"steps", "STEPS", SHEET_COUNT, 0},
	{"step_ns", "STEP", SHEET_NS, 0},
	{"own_ns", "OWN A STEP", SHEET_NS, 0},
	{"expected_ns", "UNRECORDED", SHEET_NS, 0},
	{"busy_pct", "BUSY", SHEET_PERCENT, 0},
	{"launches", "LAUNCHES", SHEET_COUNT, TABLE_DROP},
	{"syncs", "SYNCS", SHEET_COUNT, TABLE_DROP},
	{"sync_wait_ns", "", SHEET_NS, SHEET_DATA},
};

static const struct sheet_column trace_summary_shares[] = {
	TRACEOUT_FILE,
	{"kind", "KIND", SHEET_TEXT, 0},
	{"title", "", SHEET_TEXT, 0},
	{"time_ns", "TIME", SHEET_NS, 0},
	{"pct", "SHARE", SHEET_PERCENT, 0},
};

static const struct sheet_column trace_summary_evidence[] = {
	TRACEOUT_FILE,
	{"kind", "KIND", SHEET_TEXT, 0},
	{"time_ns", "TIME", SHEET_NS, 0},
	{"count", "COUNT", SHEET_COUNT, 0},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
	{"within", "WITHIN", SHEET_TEXT, TABLE_ELIDE},
	{"stack", "STACK", SHEET_TEXT, TABLE_CUT},
};

static const struct sheet_column trace_summary_findings[] = {
	TRACEOUT_FILE,
	{"rule", "RULE", SHEET_TEXT, 0},
	{"kind", "KIND", SHEET_TEXT, 0},
	{"text", "FINDING", SHEET_TEXT, TABLE_CUT},
	{"advice", "ADVICE", SHEET_TEXT, TABLE_CUT},
	{"document", "", SHEET_TEXT, SHEET_DATA},
};

static const struct sheet_column trace_summary_steps[] = {
	TRACEOUT_FILE,
	{"step", "STEP", SHEET_COUNT, 0},
	{"ts_ns", "", SHEET_NS, SHEET_DATA},
	{"step_ns", "LASTS", SHEET_NS, 0},
	{"bound", "BOUND BY", SHEET_TEXT, 0},
	{"compute_ns", "COMPUTE", SHEET_NS, 0},
	{"memory_ns", "MEMORY", SHEET_NS, 0},
	{"copy_ns", "COPIES", SHEET_NS, 0},
	{"communication_ns", "COMM", SHEET_NS, 0},
	{"straggler_ns", "WAITING", SHEET_NS, 0},
	{"data_ns", "LOADER", SHEET_NS, 0},
	{"sync_ns", "SYNC", SHEET_NS, 0},
	{"launch_ns", "LAUNCH", SHEET_NS, 0},
	{"host_ns", "HOST", SHEET_NS, 0},
	{"profiler_ns", "PROFILER", SHEET_NS, 0},
	{"unknown_ns", "UNKNOWN", SHEET_NS, 0},
	{"recording_ns", "", SHEET_NS, SHEET_DATA},
};

/* The columns of kinds, in their order. */
static const char *const trace_summary_kinds[VERDICT_KINDS] = {
	"compute_ns", "memory_ns", "copy_ns", "communication_ns", "straggler_ns", "data_ns",
	"sync_ns",    "launch_ns", "host_ns", "profiler_ns",      "unknown_ns"};

static const struct sheet_column trace_summary_operators[] = {
	TRACEOUT_FILE,
	{"self_host_ns", "SELF CPU", SHEET_NS, 0},
	{"self_host_pct", "", SHEET_PERCENT, 0},
	{"calls", "CALLS", SHEET_COUNT, 0},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
};

static const struct sheet_column trace_summary_kernels[] = {
	TRACEOUT_FILE,
	{"device_ns", "GPU", SHEET_NS, 0},
	{"device_pct", "", SHEET_PERCENT, 0},
	{"calls", "CALLS", SHEET_COUNT, 0},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
};

static const struct sheet_column trace_summary_problems[] = {
	TRACEOUT_FILE,
	{"grade", "GRADE", SHEET_TEXT, 0},
	{"finding", "FINDING", SHEET_TEXT, 0},
	{"count", "COUNT", SHEET_COUNT, 0},
	{"text", "WHAT", SHEET_TEXT, TABLE_CUT},
};

struct trace_summary {
	struct tracecmd_set *set;
	struct traceout *out;
	struct trace_face face;
	struct buf about; /* lines: what is wrong with the files, or missing */
	struct verdict_result *verdict;
	struct sheet *contents, *devices, *verdicts, *shares, *evidence, *findings, *steps,
		*operators, *kernels, *problems;
	/* What people see: of several ranks the slowest one's. */
	struct sheet *seen_operators, *seen_kernels, *seen_steps;
	char titles[2][128];
};

/* ---- contents
 * ------------------------------------------------------------------------------------ */

static void trace_summary_add_contents(struct trace_summary *m, size_t i)
{
	const struct trace *t = m->set->trace[i];
	const struct trace_device *d;
	size_t n, k;
	int cat;

	for (cat = 0; cat < TRACE_CATS; cat++) {
		if (!trace_cat_count(t, (enum trace_cat)cat))
			continue;
		traceout_file(m->contents, m->set, i);
		sheet_text(m->contents, trace_cat_name((enum trace_cat)cat));
		sheet_int(m->contents, (int64_t)trace_cat_count(t, (enum trace_cat)cat));
	}
	d = trace_devices(t, &n);
	for (k = 0; k < n; k++) {
		traceout_file(m->devices, m->set, i);
		sheet_int(m->devices, d[k].id);
		trace_text_cell(m->devices, t, d[k].name);
		sheet_int(m->devices, d[k].memory);
		sheet_int(m->devices, d[k].sms);
	}
}

/* ---- verdict
 * --------------------------------------------------------------------------------------- */

static void trace_summary_add_verdict(struct trace_summary *m, size_t i)
{
	const struct verdict_rank *r = &m->verdict->ranks[i];
	int64_t steps = r->facts.steps > 0 ? r->facts.steps : 1;
	int permille[VERDICT_KINDS];
	int k;

	traceout_file(m->verdicts, m->set, i);
	sheet_text(m->verdicts, verdict_name(r->kind)->id);
	sheet_text(m->verdicts, verdict_name(r->behind)->id);
	sheet_int(m->verdicts, r->facts.shares.total);
	sheet_int(m->verdicts, r->facts.steps);
	sheet_int(m->verdicts, r->facts.shares.total / steps);
	sheet_int(m->verdicts, r->own);
	sheet_int(m->verdicts, r->expected);
	trace_number(m->verdicts, r->facts.shares.total > 0
					  ? 100 * (double)r->busy / (double)r->facts.shares.total
					  : NAN);
	sheet_int(m->verdicts, (int64_t)r->launches);
	sheet_int(m->verdicts, (int64_t)r->syncs);
	sheet_int(m->verdicts, r->sync_wait);
	verdict_permille(&r->facts.shares, permille);
	for (k = 0; k < VERDICT_KINDS; k++) {
		traceout_file(m->shares, m->set, i);
		sheet_text(m->shares, verdict_name((enum verdict_kind)k)->id);
		sheet_text(m->shares, verdict_name((enum verdict_kind)k)->title);
		sheet_int(m->shares, r->facts.shares.ns[k]);
		sheet_double(m->shares, permille[k] / 10.0);
	}
}

static void trace_summary_add_evidence(struct trace_summary *m, size_t i)
{
	const struct verdict_rank *r = &m->verdict->ranks[i];
	struct verdict_finding f[VERDICT_FINDINGS_MAX];
	const struct trace *t = m->set->trace[i];
	size_t k, n;

	for (k = 0; k < r->n_items; k++) {
		const struct verdict_item *it = &r->items[k];

		traceout_file(m->evidence, m->set, i);
		sheet_text(m->evidence, verdict_name(it->kind)->id);
		sheet_int(m->evidence, it->ns);
		sheet_int(m->evidence, (int64_t)it->count);
		trace_text_cell(m->evidence, t, it->name);
		trace_text_cell(m->evidence, t, it->within);
		trace_text_cell(m->evidence, t, it->stack);
	}
	n = verdict_findings(m->verdict, i, f, ARRAY_LEN(f));
	for (k = 0; k < n; k++) {
		traceout_file(m->findings, m->set, i);
		sheet_text(m->findings, f[k].rule->id);
		sheet_text(m->findings, verdict_name(f[k].rule->kind)->id);
		sheet_text(m->findings, f[k].text);
		sheet_text(m->findings, *f[k].rule->advice ? f[k].rule->advice : NULL);
		sheet_text(m->findings, f[k].rule->document);
	}
}

static void trace_summary_step(const struct trace_summary *m, size_t i,
			       const struct verdict_step *p, struct sheet *sheet)
{
	int kind;

	traceout_file(sheet, m->set, i);
	if (p->number >= 0)
		sheet_int(sheet, p->number);
	else
		sheet_missing(sheet);
	sheet_int(sheet, p->ts);
	sheet_int(sheet, p->shares.total);
	sheet_text(sheet, verdict_name(p->kind)->title);
	for (kind = 0; kind < VERDICT_KINDS; kind++)
		sheet_int(sheet, p->shares.ns[kind]);
	sheet_int(sheet, p->recording);
}

static void trace_summary_add_steps(struct trace_summary *m, size_t i)
{
	const struct verdict_rank *r = &m->verdict->ranks[i];
	size_t k;

	for (k = 0; k < r->n_steps; k++) {
		trace_summary_step(m, i, &r->steps[k], m->steps);
		if (r->has_marks && m->set->n <= TRACE_SUMMARY_RANKS)
			trace_summary_step(m, i, &r->steps[k], m->seen_steps);
	}
}

/* People see kinds that matter: 2 % of the time of some rank. */
static void trace_summary_hide(struct trace_summary *m)
{
	size_t i, k;
	bool matters;

	for (k = 0; k < VERDICT_KINDS; k++) {
		for (matters = false, i = 0; i < m->verdict->n; i++)
			matters = matters || m->verdict->ranks[i].facts.shares.ns[k] * 50 >
						     m->verdict->ranks[i].facts.shares.total;
		if (!matters)
			sheet_hide(m->seen_steps, trace_summary_kinds[k]);
	}
}

/* ---- top operators and kernels
 * ------------------------------------------------------------------- */

struct trace_summary_name {
	uint32_t name;
	uint64_t calls;
	int64_t ns;
};

static int trace_summary_by_time(const void *a, const void *b)
{
	const struct trace_summary_name *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return (x->name > y->name) - (x->name < y->name);
}

static void trace_summary_top_row(const struct trace_summary *m, size_t i,
				  const struct trace_summary_name *name, int64_t all,
				  struct sheet *sheet)
{
	traceout_file(sheet, m->set, i);
	sheet_int(sheet, name->ns);
	trace_number(sheet, all ? 100 * (double)name->ns / (double)all : NAN);
	sheet_int(sheet, (int64_t)name->calls);
	trace_text_cell(sheet, m->set->trace[i], name->name);
}

static void trace_summary_top(struct trace_summary *m, size_t i, struct trace_summary_name *names,
			      size_t n, struct sheet *sheet, struct sheet *seen)
{
	int64_t all = 0;
	size_t k;

	for (k = 0; k < n; k++) {
		names[k].name = (uint32_t)k;
		all += names[k].ns;
	}
	qsort(names, n, sizeof(*names), trace_summary_by_time);
	for (k = 0; k < n && k < TRACE_SUMMARY_TOP && names[k].calls; k++) {
		trace_summary_top_row(m, i, &names[k], all, sheet);
		if (i == m->verdict->gating)
			trace_summary_top_row(m, i, &names[k], all, seen);
	}
}

/* Names of step marks, by text id: old traces have them among the operators. */
static bool *trace_summary_steps_of(const struct trace *t)
{
	uint32_t n = trace_texts(t), k;
	bool *ret = xcalloc(n, sizeof(*ret));

	for (k = 1; k < n; k++)
		ret[k] = view_step_number(trace_text(t, k, NULL)) >= 0;
	return ret;
}

struct trace_summary_times {
	struct trace_summary_name *kernels, *operators; /* by text id */
	const bool *steps;
};

static void trace_summary_time(void *arg, const struct view_row *r, int64_t self)
{
	struct trace_summary_times *x = arg;
	struct trace_summary_name *name = NULL;

	if (r->is_gpu)
		name = &x->kernels[r->name];
	else if (r->cat == TRACE_CAT_CPU_OP && !x->steps[r->name])
		name = &x->operators[r->name];
	if (!name)
		return;
	name->calls++;
	name->ns += self;
}

static int trace_summary_add_top(struct trace_summary *m, size_t i)
{
	size_t n = trace_texts(m->set->trace[i]);
	bool *steps = trace_summary_steps_of(m->set->trace[i]);
	struct trace_summary_times x = {
		.kernels = xcalloc(n, sizeof(*x.kernels)),
		.operators = xcalloc(n, sizeof(*x.operators)),
		.steps = steps,
	};
	int err = nest_self(&m->set->view[i], trace_summary_time, &x);

	if (!err) {
		trace_summary_top(m, i, x.kernels, n, m->kernels, m->seen_kernels);
		trace_summary_top(m, i, x.operators, n, m->operators, m->seen_operators);
	}
	free(x.kernels);
	free(x.operators);
	free(steps);
	return err;
}

/* ---- what is wrong with the file
 * ------------------------------------------------------------------- */

static void trace_summary_problem(struct trace_summary *m, size_t i, const char *grade,
				  const char *finding, uint64_t count, const char *text)
{
	traceout_file(m->problems, m->set, i);
	sheet_text(m->problems, grade);
	sheet_text(m->problems, finding);
	sheet_int(m->problems, (int64_t)count);
	sheet_text(m->problems, text);
	if (m->set->n > 1)
		buf_printf(&m->about, "%s: ", tracecmd_label(m->set, i));
	buf_printf(&m->about, "%s\n", text);
}

static void trace_summary_add_notes(struct trace_summary *m, size_t i)
{
	size_t n, k;
	const struct trace_note *notes = trace_notes(m->set->trace[i], &n);
	char *text;

	for (k = 0; k < n; k++) {
		const struct trace_note_row *row = &trace_note_rows[notes[k].kind];

		text = xasprintf("%s %s (%" PRIu64 ", the first at byte %" PRIu64 "%s%s)",
				 row->meaning, row->done, notes[k].count, notes[k].offset,
				 notes[k].text[0] ? ": " : "", notes[k].text);
		trace_summary_problem(m, i, "file", row->name, notes[k].count, text);
		free(text);
	}
}

/* Coverage that matters here; what was not recorded on purpose is no problem. */
static bool trace_summary_matters(enum coverage_id id, enum coverage_grade grade)
{
	switch (id) {
	case COVERAGE_NO_STACKS:
	case COVERAGE_NO_SHAPES:
	case COVERAGE_NO_MEMORY:
	case COVERAGE_ZERO_DUR:
		return false;
	case COVERAGE_NO_GPU:
	case COVERAGE_NO_STEPS:
	case COVERAGE_NO_HOST:
	case COVERAGE_NO_RANK:
		return grade != COVERAGE_FINE;
	default:
		return grade > COVERAGE_NOTE;
	}
}

static int trace_summary_add_problems(struct trace_summary *m, size_t i)
{
	static const char *const grades[] = {[COVERAGE_FINE] = "",
					     [COVERAGE_NOTE] = "note",
					     [COVERAGE_WARN] = "warning",
					     [COVERAGE_FAIL] = "error"};
	struct coverage *c;
	int err = coverage_new(&m->set->view[i], &c), k;

	if (err)
		return err;
	trace_summary_add_notes(m, i);
	for (k = 0; k < COVERAGE_ITEMS; k++)
		if (trace_summary_matters((enum coverage_id)k, c->items[k].grade) &&
		    trace_is_told(m->set, i, (enum coverage_id)k))
			trace_summary_problem(m, i, grades[c->items[k].grade],
					      coverage_name((enum coverage_id)k), c->items[k].count,
					      c->items[k].text);
	coverage_free(c);
	return 0;
}

/* ---- all of it
 * --------------------------------------------------------------------------------------- */

#define TRACE_SUMMARY_SHEET(name, title, columns)                                                  \
	sheet_new(name, title, columns, ARRAY_LEN(columns))

static void trace_summary_sheets(struct trace_summary *m)
{
	m->contents = TRACE_SUMMARY_SHEET("contents", NULL, trace_summary_contents);
	m->devices = TRACE_SUMMARY_SHEET("devices", NULL, trace_summary_devices);
	m->verdicts = TRACE_SUMMARY_SHEET("verdict", "Ranks", trace_summary_verdict);
	m->shares = TRACE_SUMMARY_SHEET("shares", NULL, trace_summary_shares);
	m->evidence = TRACE_SUMMARY_SHEET("evidence", NULL, trace_summary_evidence);
	m->findings = TRACE_SUMMARY_SHEET("findings", NULL, trace_summary_findings);
	m->steps = TRACE_SUMMARY_SHEET("steps", NULL, trace_summary_steps);
	m->seen_steps = TRACE_SUMMARY_SHEET("steps", "Steps", trace_summary_steps);
	m->operators = TRACE_SUMMARY_SHEET("operators", NULL, trace_summary_operators);
	m->kernels = TRACE_SUMMARY_SHEET("kernels", NULL, trace_summary_kernels);
	m->seen_operators = TRACE_SUMMARY_SHEET("operators", m->titles[0], trace_summary_operators);
	m->seen_kernels = TRACE_SUMMARY_SHEET("kernels", m->titles[1], trace_summary_kernels);
	m->problems = TRACE_SUMMARY_SHEET("problems", NULL, trace_summary_problems);
}

/* Given to the output in the order in which people read. */
static void trace_summary_arrange(struct trace_summary *m)
{
	struct traceout *o = m->out;

	traceout_plain(o);
	traceout_data(o, m->contents);
	traceout_data(o, m->devices);
	traceout_draw(o, trace_face_head, &m->face);
	traceout_draw(o, trace_face_verdict, &m->face);
	if (m->set->n > 1)
		traceout_sheet(o, m->verdicts);
	else
		traceout_data(o, m->verdicts);
	traceout_data(o, m->shares);
	traceout_data(o, m->evidence);
	traceout_data(o, m->findings);
	traceout_data(o, m->steps);
	traceout_people(o, m->seen_steps);
	traceout_data(o, m->operators);
	traceout_data(o, m->kernels);
	traceout_people(o, m->seen_operators);
	traceout_people(o, m->seen_kernels);
	traceout_draw(o, trace_face_advice, &m->face);
	traceout_data(o, m->problems);
}

/* Of several ranks people see the one that the others wait for. */
static void trace_summary_title(struct trace_summary *m)
{
	const char *of = m->set->n > 1 ? tracecmd_label(m->set, m->verdict->gating) : "";
	const char *comma = m->set->n > 1 ? ", " : "";

	snprintf(m->titles[0], sizeof(m->titles[0]), "Operators by their own time on the host%s%s",
		 comma, of);
	snprintf(m->titles[1], sizeof(m->titles[1]), "Kernels and copies by time on the device%s%s",
		 comma, of);
	if (m->set->n == 1 || m->set->has_ranks)
		sheet_hide(m->seen_steps, "file");
	if (m->set->n == 1 || !m->set->has_ranks)
		sheet_hide(m->seen_steps, "rank");
	sheet_hide(m->seen_operators, "file");
	sheet_hide(m->seen_operators, "rank");
	sheet_hide(m->seen_kernels, "file");
	sheet_hide(m->seen_kernels, "rank");
}

static int trace_summary_fill(struct trace_summary *m)
{
	int err = verdict_new(m->set->view, m->set->n, &m->verdict);
	size_t i;

	for (i = 0; i < m->set->n && !err; i++) {
		trace_summary_add_contents(m, i);
		trace_summary_add_verdict(m, i);
		trace_summary_add_evidence(m, i);
		trace_summary_add_steps(m, i);
		err = trace_summary_add_top(m, i);
		if (!err)
			err = trace_summary_add_problems(m, i);
	}
	if (err)
		return err;
	traceout_list(m->out, "About this recording", xstrdup(buf_str(&m->about)));
	trace_summary_hide(m);
	trace_summary_title(m);
	m->face.set = m->set;
	m->face.verdict = m->verdict;
	m->face.n_findings = verdict_findings(m->verdict, m->verdict->gating, m->face.findings,
					      ARRAY_LEN(m->face.findings));
	return 0;
}

int trace_summary(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {
		.command = "trace summary", .views = TRACECMD_ALL_ROWS, .exact = true};
	struct trace_summary m = {0};
	struct tracecmd_set s;
	int status = tracecmd_load(&wish, argc, argv, &s), err;

	if (!status) {
		m.set = &s;
		m.out = traceout_begin(&s);
		buf_init(&m.about, 1 << 20);
		trace_summary_sheets(&m);
		trace_summary_arrange(&m);
		err = trace_summary_fill(&m);
		if (err)
			traceout_drop(m.out);
		status = err ? tracecmd_fail(&s, err, NULL) : traceout_end(m.out);
		buf_done(&m.about);
		verdict_free(m.verdict);
	}
	tracecmd_done(&s);
	return status;
}
