/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_ranks.c - `lapse trace ranks`: the ranks of a job beside each other, and who the
 * others wait for. Definitions are in docs/trace-numbers.md.
 */
#include "cli/trace_subs.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/ranks.h"
#include "analyse/stragglers.h"
#include "analyse/tbcomm.h"
#include "base/mem.h"
#include "cli/progress.h"
#include "cli/trace_tb.h"
#include "cli/tracegaps.h"

const struct opt *trace_ranks_options(void)
{
	static const struct opt rows[] = {
		TRACECMD_OPTIONS, TRACECMD_OUTPUT, TRACECMD_HTA, TRACECMD_PLUGIN, {0}};

	return rows;
}

#define TRACE_RANKS_THREADS 64

static const struct sheet_column trace_ranks_columns[] = {
	{"rank", "RANK", SHEET_COUNT, 0},
	{"guessed", "", SHEET_BOOL, SHEET_DATA},
	{"steps", "STEPS", SHEET_COUNT, TABLE_DROP},
	{"step_ns", "STEP", SHEET_NS, 0},
	{"compute_ns", "COMPUTE", SHEET_NS, 0},
	{"comm_ns", "COMM", SHEET_NS, 0},
	{"memory_ns", "COPIES", SHEET_NS, TABLE_DROP},
	{"idle_ns", "IDLE", SHEET_NS, 0},
	{"wait_ns", "WAITS", SHEET_NS, 0},
	{"late_ns", "LATE", SHEET_NS, 0},
	{"last", "LAST", SHEET_COUNT, 0},
	{"collectives", "COLL.", SHEET_COUNT, 0},
	{"matched", "", SHEET_COUNT, SHEET_DATA},
	{"collectives_ns", "", SHEET_NS, SHEET_DATA},
	{"clock_offset_ns", "CLOCK", SHEET_NS, TABLE_DROP},
	{"clock_drift_ns_per_s", "", SHEET_NUMBER, SHEET_DATA},
	{"clock_residual_ns", "RESIDUAL", SHEET_NS, 0},
	{"clock_residual_95_ns", "", SHEET_NS, SHEET_DATA},
	{"clock_pairs", "", SHEET_COUNT, SHEET_DATA},
};

static const struct sheet_column trace_ranks_kinds[] = {
	{"collective", "COLLECTIVE", SHEET_TEXT, TABLE_ELIDE},
	{"group", "GROUP", SHEET_TEXT, TABLE_ELIDE | TABLE_DROP},
	{"ranks", "RANKS", SHEET_COUNT, 0},
	{"instances", "CALLS", SHEET_COUNT, 0},
	{"time_ns", "TIME", SHEET_NS, 0},
	{"wait_ns", "WAITED", SHEET_NS, 0},
	{"wait_pct", "", SHEET_PERCENT, 0},
	{"least_ns", "LEAST", SHEET_NS, 0},
	{"least_rank", "ON", SHEET_COUNT, 0},
	{"most_ns", "MOST", SHEET_NS, 0},
	{"most_rank", "ON", SHEET_COUNT, 0},
};

static const struct sheet_column trace_ranks_late[] = {
	{"rank", "RANK", SHEET_COUNT, 0},
	{"straggler", "STRAGGLER", SHEET_BOOL, 0},
	{"late_ns", "LATE A STEP", SHEET_NS, 0},
	{"steps_late", "IN STEPS", SHEET_COUNT, 0},
	{"steps", "OF", SHEET_COUNT, 0},
	{"cost_ns", "COSTS", SHEET_NS, 0},
	{"cost_pct", "", SHEET_PERCENT, 0},
	{"why", "BECAUSE OF", SHEET_TEXT, 0},
	{"compute_more_ns", "", SHEET_NS, SHEET_DATA},
	{"host_more_ns", "", SHEET_NS, SHEET_DATA},
	{"idle_more_ns", "", SHEET_NS, SHEET_DATA},
	{"cause", "MORE IN", SHEET_TEXT, TABLE_ELIDE},
	{"cause_ns", "", SHEET_NS, SHEET_DATA},
};

static const struct sheet_column trace_ranks_steps[] = {
	{"rank", "RANK", SHEET_COUNT, 0},  {"step", "STEP", SHEET_COUNT, 0},
	{"step_ns", "LASTS", SHEET_NS, 0}, {"compute_ns", "COMPUTE", SHEET_NS, 0},
	{"comm_ns", "COMM", SHEET_NS, 0},  {"memory_ns", "COPIES", SHEET_NS, TABLE_DROP},
	{"idle_ns", "IDLE", SHEET_NS, 0},  {"wait_ns", "WAITS", SHEET_NS, 0},
	{"late_ns", "LATE", SHEET_NS, 0},
};

static void trace_ranks_parts(struct sheet *sheet, const struct ranks_step *p)
{
	sheet_int(sheet, p->ns);
	sheet_int(sheet, p->compute);
	sheet_int(sheet, p->comm);
	sheet_int(sheet, p->memory);
	sheet_int(sheet, p->idle);
	sheet_int(sheet, p->wait);
	sheet_int(sheet, p->late);
}

static void trace_ranks_rank(const struct ranks_rank *r, int64_t reference, struct sheet *sheet)
{
	bool aligned = r->clock.pairs > 0 || r->rank == reference;

	sheet_int(sheet, r->rank);
	sheet_int(sheet, r->is_guessed);
	sheet_int(sheet, (int64_t)r->n_steps);
	trace_ranks_parts(sheet, &r->mean);
	sheet_int(sheet, (int64_t)r->last);
	sheet_int(sheet, (int64_t)r->collectives);
	sheet_int(sheet, (int64_t)r->matched);
	sheet_int(sheet, r->comm_ns);
	if (!aligned) {
		sheet_missing(sheet);
		sheet_missing(sheet);
		sheet_missing(sheet);
		sheet_missing(sheet);
	} else {
		sheet_int(sheet, llround(r->clock.offset));
		trace_number(sheet, r->clock.drift);
		sheet_int(sheet, llround(r->clock.residual));
		sheet_int(sheet, llround(r->clock.residual_95));
	}
	sheet_int(sheet, (int64_t)r->clock.pairs);
}

static void trace_ranks_kind(const struct ranks_kind *k, struct sheet *sheet)
{
	sheet_text(sheet, k->name);
	sheet_text(sheet, k->group && *k->group ? k->group : NULL);
	sheet_int(sheet, (int64_t)k->ranks);
	sheet_int(sheet, (int64_t)k->instances);
	sheet_int(sheet, k->ns);
	sheet_int(sheet, k->wait);
	trace_number(sheet, k->ns > 0 ? 100 * (double)k->wait / (double)k->ns : NAN);
	sheet_int(sheet, k->least);
	sheet_int(sheet, k->least_rank);
	sheet_int(sheet, k->most);
	sheet_int(sheet, k->most_rank);
}

static void trace_ranks_straggler(const struct ranks_straggler *r, struct sheet *sheet,
				  struct traceout *o)
{
	char a[FMT_MAX], b[FMT_MAX], c[FMT_MAX];

	sheet_int(sheet, r->rank);
	sheet_int(sheet, !r->is_lag);
	sheet_int(sheet, llround(r->late));
	sheet_int(sheet, (int64_t)r->steps);
	sheet_int(sheet, (int64_t)r->of);
	sheet_int(sheet, llround(r->cost));
	sheet_double(sheet, 100 * r->part);
	sheet_text(sheet, ranks_why_names[r->why]);
	sheet_int(sheet, llround(r->compute_more));
	sheet_int(sheet, llround(r->host_more));
	sheet_int(sheet, llround(r->idle_more));
	sheet_text(sheet, r->causes[0].name);
	if (r->causes[0].name)
		sheet_int(sheet, llround(r->causes[0].ns));
	else
		sheet_missing(sheet);
	fmt_seconds(a, r->late / 1e9);
	if (r->is_lag) {
		traceout_say(o, "lag",
			     "Rank %" PRId64
			     " comes %s later to collectives than the others, in %zu "
			     "of %zu steps, but has no more to do: that costs nothing.",
			     r->rank, a, r->steps, r->of);
		return;
	}
	traceout_say(o, "straggler",
		     "Rank %" PRId64 " is a straggler: it comes %s later to collectives than the "
		     "others, in %zu of %zu steps, and costs the job %s a step (%.1f %%)%s%s%s%s.",
		     r->rank, a, r->steps, r->of, fmt_seconds(b, r->cost / 1e9), 100 * r->part,
		     r->causes[0].name ? "; it spends " : "",
		     r->causes[0].name ? fmt_seconds(c, r->causes[0].ns / 1e9) : "",
		     r->causes[0].name ? " a step more than the others in " : "",
		     r->causes[0].name ? r->causes[0].name : "");
}

struct trace_ranks_sheets {
	struct sheet *ranks, *kinds, *late, *steps;
};

static void trace_ranks_result(const struct ranks_result *r, struct traceout *o,
			       const struct trace_ranks_sheets *to)
{
	char a[FMT_MAX];
	size_t i, k;

	for (i = 0; i < r->n; i++) {
		trace_ranks_rank(&r->ranks[i], r->reference, to->ranks);
		for (k = 0; k < r->ranks[i].n_steps; k++) {
			const struct ranks_step *p = &r->ranks[i].steps[k];

			sheet_int(to->steps, r->ranks[i].rank);
			if (p->number >= 0)
				sheet_int(to->steps, p->number);
			else
				sheet_missing(to->steps);
			trace_ranks_parts(to->steps, p);
		}
	}
	for (i = 0; i < r->n_kinds; i++)
		trace_ranks_kind(&r->kinds[i], to->kinds);
	for (i = 0; i < r->n_late; i++)
		trace_ranks_straggler(&r->late[i], to->late, o);
	if (r->n_stragglers == 0 && r->instances)
		traceout_say(o, "no-straggler",
			     "No rank is a straggler: none comes late to collectives by %s a step "
			     "or more because it has more to do.",
			     fmt_seconds(a, r->least_late / 1e9));
	if (r->instances)
		traceout_say(
			o, "clocks",
			"Clocks were aligned on %" PRIu64 " collectives to that of rank %" PRId64
			"; residual is the median of what remains. Waits: in collectives until "
			"the last rank came. Late: after the others came. Last: so often by more "
			"than the clocks are sure of.",
			r->instances, r->reference);
	if (r->unmatched)
		traceout_say(o, "unmatched",
			     "%" PRIu64
			     " collectives could not be matched: the ranks disagree on how "
			     "many there are in a step.",
			     r->unmatched);
}

/* Each thread makes the view of one trace at a time, so that views of all ranks need not
 * be in memory together, and adds it to a set of its own. */
struct trace_ranks_job {
	struct tracecmd_set *set;
	_Atomic size_t next;
};

struct trace_ranks_thread {
	struct trace_ranks_job *job;
	struct ranks_set *set;
	struct err e;
	int err;
	pthread_t id;
};

static void *trace_ranks_main(void *arg)
{
	struct view_options o = {.rule = VIEW_EXACT};
	struct trace_ranks_thread *t = arg;
	const struct tracecmd_set *s = t->job->set;
	struct view *v;
	size_t i;

	t->err = ranks_new(&t->set);
	while (!t->err && (i = atomic_fetch_add(&t->job->next, 1)) < s->n) {
		o.from = s->fit[i].from;
		o.to = s->fit[i].to;
		t->err = view_new(&s->trace[i], 1, &o, &v);
		if (t->err)
			break;
		t->err = ranks_add(t->set, v, &t->e);
		view_free(v, 1);
	}
	return NULL;
}

static int trace_ranks_add(struct tracecmd_set *s, struct ranks_set *set)
{
	struct trace_ranks_job job = {.set = s};
	struct trace_ranks_thread threads[TRACE_RANKS_THREADS] = {0};
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t want = cpus < 1 ? 1 : (size_t)cpus, n = 0, i;
	struct err e = {0};
	int err = 0;

	want = want > s->n ? s->n : want > TRACE_RANKS_THREADS ? TRACE_RANKS_THREADS : want;
	/* Ranks that their files do not tell get free numbers: in the order of the files. */
	if (!s->has_ranks)
		want = 1;
	for (i = 0; i < want; i++)
		threads[i].job = &job;
	while (n + 1 < want &&
	       pthread_create(&threads[n].id, NULL, trace_ranks_main, &threads[n]) == 0)
		n++;
	trace_ranks_main(&threads[n]);
	for (i = 0; i < n; i++)
		pthread_join(threads[i].id, NULL);
	for (i = 0; i <= n; i++) {
		if (!err && threads[i].err) {
			err = threads[i].err;
			e = threads[i].e;
		}
		if (!err)
			err = ranks_merge(set, threads[i].set, &e);
		ranks_free(threads[i].set);
	}
	if (!err)
		return 0;
	tracecmd_fail(s, err, &e);
	return 1;
}

static int trace_ranks_fill(struct tracecmd_set *s, struct traceout *o)
{
	struct trace_ranks_sheets to = {
		.ranks = sheet_new("ranks", "Ranks, mean step", trace_ranks_columns,
				   ARRAY_LEN(trace_ranks_columns)),
		.kinds = sheet_new("collectives", "Collectives", trace_ranks_kinds,
				   ARRAY_LEN(trace_ranks_kinds)),
		.late = sheet_new("late", "Who comes late", trace_ranks_late,
				  ARRAY_LEN(trace_ranks_late)),
		.steps = sheet_new("steps", NULL, trace_ranks_steps, ARRAY_LEN(trace_ranks_steps)),
	};
	struct ranks_result *r = NULL;
	struct ranks_set *set = NULL;
	uint64_t instances = 0;
	bool no_steps = false;
	size_t i;
	int err = ranks_new(&set);

	traceout_sheet_as(o, to.ranks);
	traceout_sheet_as(o, to.kinds);
	traceout_sheet_as(o, to.late);
	traceout_data(o, to.steps);
	if (!err)
		err = trace_ranks_add(s, set);
	if (!err)
		err = ranks_result_new(set, &r);
	if (!err) {
		trace_ranks_result(r, o, &to);
		instances = r->instances;
		for (i = 0; i < r->n; i++)
			no_steps =
				no_steps || !r->ranks[i].n_steps || r->ranks[i].steps[0].number < 0;
	}
	ranks_result_free(r);
	ranks_free(set);
	if (!err && s->n < 2)
		traceout_missing(
			o, "one-rank",
			"This is one rank: give the traces of all, or their folder, to see "
			"who waits for whom.");
	else if (!err && !instances)
		traceout_missing(
			o, "no-collectives",
			"No collectives that all these ranks take part in: nothing tells how "
			"their clocks and waits belong together.");
	if (!err && no_steps)
		tracegaps_no_steps_said(o);
	if (!err)
		tracegaps_say(o, s, TRACEGAPS_GPU | TRACEGAPS_RANK);
	return err;
}

/* ---- HTA's
 * ----------------------------------------------------------------------------------------- */

static const struct sheet_column trace_ranks_hta_columns[] = {
	{"rank", "RANK", SHEET_COUNT, 0},          {"step", "STEP", SHEET_COUNT, 0},
	{"stream", "STREAM", SHEET_COUNT, 0},      {"ts_us", "AT", SHEET_US, 0},
	{"dur_us", "LASTS", SHEET_US, 0},          {"start", "START", SHEET_NUMBER, 0},
	{"length", "LENGTH", SHEET_NUMBER, 0},     {"late", "LATE", SHEET_BOOL, 0},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
};

static int trace_ranks_hta(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *sheet =
		sheet_new("hta_stragglers", "Last long NCCL kernel of each step",
			  trace_ranks_hta_columns, ARRAY_LEN(trace_ranks_hta_columns));
	struct stragglers_result *r;
	struct err e = {0};
	char list[256] = "";
	size_t i, used = 0;
	int err;

	traceout_sheet_as(o, sheet);
	err = stragglers_new(s->view, s->n, 0, &r, &e);
	if (err == -ENODATA) {
		traceout_missing(o, "no-stragglers", "HTA's rule finds nothing here: %s.", e.text);
		return 0;
	}
	if (err)
		return err;
	for (i = 0; i < r->n; i++) {
		sheet_int(sheet, r->rows[i].rank);
		sheet_int(sheet, r->rows[i].step);
		sheet_int(sheet, r->rows[i].stream);
		sheet_double(sheet, r->rows[i].ts_us);
		sheet_double(sheet, r->rows[i].us);
		sheet_double(sheet, r->rows[i].start);
		sheet_double(sheet, r->rows[i].length);
		sheet_int(sheet, r->rows[i].is_late);
		sheet_text(sheet, r->rows[i].name);
	}
	for (i = 0; i < r->n_ranks && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%" PRId64,
					 i ? ", " : "", r->ranks[i]);
	traceout_say(o, "stragglers", "Potential stragglers by HTA's rule: %s.", list);
	stragglers_free(r);
	return 0;
}

/* ---- the plugin's
 * ----------------------------------------------------------------------------------- */

static const struct sheet_column trace_ranks_plugin_ops[] = {
	TRACEOUT_FILE,
	{"calls", "CALLS", SHEET_COUNT, 0},
	{"bytes", "BYTES", SHEET_BYTES, 0},
	{"total_us", "LATENCY", SHEET_US, 0},
	{"transfer_us", "TRANSFER", SHEET_US, 0},
	{"name", "NAME", SHEET_TEXT, TABLE_ELIDE},
};

static const struct sheet_column trace_ranks_plugin_steps[] = {
	TRACEOUT_FILE,
	{"step", "STEP", SHEET_COUNT, 0},
	{"total_us", "LATENCY", SHEET_US, 0},
	{"transfer_us", "TRANSFER", SHEET_US, 0},
	{"wait_us", "WAIT", SHEET_US, 0},
};

static void trace_ranks_plugin_rank(const struct tracecmd_set *s, size_t i,
				    const struct trace_tb *tb, const struct tbcomm_rank *r,
				    struct sheet *ops, struct sheet *steps)
{
	size_t k;

	for (k = 0; k < r->n_ops; k++) {
		traceout_file(ops, s, i);
		sheet_int(ops, (int64_t)r->ops[k].calls);
		sheet_int(ops, r->ops[k].bytes);
		sheet_double(ops, trace_tb_us(tb, r->ops[k].total));
		sheet_double(ops, trace_tb_us(tb, r->ops[k].transfer));
		trace_text_cell(ops, s->trace[i], r->ops[k].name);
	}
	for (k = 0; k < r->n_steps; k++) {
		traceout_file(steps, s, i);
		if (r->steps[k].step == INT64_MIN)
			sheet_missing(steps);
		else
			sheet_int(steps, r->steps[k].step);
		sheet_double(steps, trace_tb_us(tb, r->steps[k].total));
		sheet_double(steps, trace_tb_us(tb, r->steps[k].transfer));
		sheet_double(steps, trace_tb_us(tb, r->steps[k].total - r->steps[k].transfer));
	}
}

static int trace_ranks_plugin(struct tracecmd_set *s, struct traceout *o)
{
	struct sheet *ops = sheet_new("plugin_collectives", "Collectives", trace_ranks_plugin_ops,
				      ARRAY_LEN(trace_ranks_plugin_ops)),
		     *steps = sheet_new("plugin_steps", "Steps", trace_ranks_plugin_steps,
					ARRAY_LEN(trace_ranks_plugin_steps));
	struct trace_tb *tb = xcalloc(s->n, sizeof(*tb));
	struct tbrows **rows = xcalloc(s->n, sizeof(*rows));
	struct tbsteps **of = xcalloc(s->n, sizeof(*of));
	struct tbcomm *c = NULL;
	size_t i, made = 0;
	int err = 0;

	traceout_sheet(o, ops);
	traceout_sheet(o, steps);
	for (i = 0; i < s->n && !err; i++) {
		err = trace_tb_new(s, i, &tb[i]);
		made += !err;
		rows[i] = tb[i].rows;
		of[i] = tb[i].steps;
	}
	if (!err)
		err = tbcomm_new(rows, of, s->n, &c);
	if (!err && !c->is_known)
		traceout_missing(o, "no-collectives", "The plugin's rule finds nothing here: %s.",
				 c->why);
	for (i = 0; !err && c->is_known && i < c->n; i++)
		trace_ranks_plugin_rank(s, i, &tb[i], &c->ranks[i], ops, steps);
	tbcomm_free(c);
	for (i = 0; i < made; i++)
		trace_tb_done(&tb[i]);
	free(tb);
	free(rows);
	free(of);
	return err;
}

int trace_ranks(int argc, char **argv)
{
	static const struct tracecmd_wish views = {.command = "trace ranks",
						   .views = TRACECMD_ALL_ROWS},
					  rows = {.command = "trace ranks",
						  .texts = true,
						  .fits = TRACECMD_TOGETHER,
						  .need = {.work = TRACEFIT_STEPS}},
					  each = {.command = "trace ranks",
						  .fits = TRACECMD_PARTS,
						  .need = {.work = TRACEFIT_VIEW}};

	if (tracecmd_opt.hta && tracecmd_opt.plugin) {
		fputs("lapse trace ranks: --hta and --plugin do not go together\n", stderr);
		return 2;
	}
	if (tracecmd_opt.plugin)
		return trace_run(&rows, trace_ranks_plugin, argc, argv);
	if (tracecmd_opt.hta)
		return trace_run(&views, trace_ranks_hta, argc, argv);
	return trace_run(&each, trace_ranks_fill, argc, argv);
}
