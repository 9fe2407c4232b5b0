/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace_face.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "report/spark.h"

#define TRACE_FACE_BARS 16 /* ranks with a bar of their own */
#define TRACE_FACE_BAR_MAX 72
#define TRACE_FACE_ADVICE 6 /* findings that people see; JSON has all */

/* Solid: the GPU works. Hatched: it does not. The letter where there are no colours. */
static const struct {
	enum term_style style;
	const char *block;
	char letter;
} trace_face_looks[VERDICT_KINDS] = {
	[VERDICT_COMPUTE] = {TERM_GREEN, "\u2588", 'C'},
	[VERDICT_MEMORY] = {TERM_CYAN, "\u2588", 'M'},
	[VERDICT_COPY] = {TERM_BLUE, "\u2588", 'H'},
	[VERDICT_COMMUNICATION] = {TERM_MAGENTA, "\u2588", 'N'},
	[VERDICT_STRAGGLER] = {TERM_RED, "\u2588", 'R'},
	[VERDICT_DATA] = {TERM_YELLOW, "\u2592", 'D'},
	[VERDICT_SYNC] = {TERM_RED, "\u2592", 'S'},
	[VERDICT_LAUNCH] = {TERM_BLUE, "\u2592", 'L'},
	[VERDICT_HOST] = {TERM_MAGENTA, "\u2592", 'O'},
	[VERDICT_PROFILER] = {TERM_PLAIN, "\u2592", 'P'},
	[VERDICT_UNKNOWN] = {TERM_DIM, "\u2591", '?'},
};

/* ---- head -------------------------------------------------------------------------------------
 */

const char *trace_face_tool(const struct trace *t)
{
	const struct trace_meta *m = trace_meta(t);

	if (m->base_ns || m->schema > 0)
		return "PyTorch profiler";
	if (trace_cat_count(t, TRACE_CAT_CPU_OP) || trace_cat_count(t, TRACE_CAT_KERNEL))
		return "PyTorch profiler, old form";
	return "Chrome trace";
}

static void trace_face_part(struct buf *b, uint64_t n, const char *what)
{
	char a[FMT_MAX];

	if (n)
		buf_printf(b, "%s%s %s", b->len ? ", " : "", traceout_groups(a, n), what);
}

/* "5,123 operators, 2,553 runtime calls, ..." */
static void trace_face_rows(const struct trace *t, struct buf *b)
{
	trace_face_part(b, trace_cat_count(t, TRACE_CAT_CPU_OP), "operators");
	trace_face_part(b,
			trace_cat_count(t, TRACE_CAT_CUDA_RUNTIME) +
				trace_cat_count(t, TRACE_CAT_CUDA_DRIVER) +
				trace_cat_count(t, TRACE_CAT_MTIA_RUNTIME) +
				trace_cat_count(t, TRACE_CAT_XPU_RUNTIME),
			"runtime calls");
	trace_face_part(b,
			trace_cat_count(t, TRACE_CAT_KERNEL) +
				trace_cat_count(t, TRACE_CAT_MTIA_CCP_EVENTS),
			"kernels");
	trace_face_part(b,
			trace_cat_count(t, TRACE_CAT_GPU_MEMCPY) +
				trace_cat_count(t, TRACE_CAT_GPU_MEMSET),
			"copies and sets");
	trace_face_part(b,
			trace_cat_count(t, TRACE_CAT_USER_ANNOTATION) +
				trace_cat_count(t, TRACE_CAT_GPU_USER_ANNOTATION),
			"annotations");
	trace_face_part(b, trace_cat_count(t, TRACE_CAT_PYTHON_FUNCTION), "Python calls");
	trace_face_part(b, trace_cat_count(t, TRACE_CAT_CUDA_SYNC), "waits");
	trace_face_part(b, trace_memories(t), "memory events");
}

/* "8 x NVIDIA A100": equal names together. */
static void trace_face_devices(const struct trace *t, struct buf *b)
{
	size_t n, i, k, same;
	const struct trace_device *d = trace_devices(t, &n);
	const char *name;

	for (i = 0; i < n; i += same) {
		for (same = 1; i + same < n && d[i + same].name == d[i].name; same++)
			;
		name = trace_text(t, d[i].name, NULL);
		if (!*name)
			continue;
		k = same;
		buf_printf(b, "%s%zu x %s", b->len ? ", " : "", k, name);
	}
}

static void trace_face_steps(const struct view *v, struct buf *b)
{
	char a[FMT_MAX];

	if (v->n_steps == 1)
		buf_printf(b, "%sstep %" PRId64, b->len ? ", " : "", v->steps[0].number);
	else if (v->n_steps)
		buf_printf(b, "%s%zu steps (%" PRId64 " to %" PRId64 ")", b->len ? ", " : "",
			   v->n_steps, v->steps[0].number, v->steps[v->n_steps - 1].number);
	if (v->last > v->first)
		buf_printf(b, "%s%s", b->len ? ", " : "",
			   fmt_seconds(a, (double)(v->last - v->first) / 1e9));
}

static void trace_face_recorded(const struct trace *t, struct buf *b)
{
	const struct trace_meta *m = trace_meta(t);
	const struct {
		bool is;
		const char *what;
	} with[] = {{m->record_shapes, "shapes"},
		    {m->with_stack, "stacks"},
		    {m->profile_memory, "memory"},
		    {m->with_flops, "FLOPs"},
		    {m->with_modules, "modules"}};
	size_t i;
	bool any = false;

	for (i = 0; i < ARRAY_LEN(with); i++) {
		if (!with[i].is)
			continue;
		buf_printf(b, "%s%s", any ? ", " : b->len ? ", with " : "with ", with[i].what);
		any = true;
	}
}

static void trace_face_line(const struct term *term, FILE *to, const char *label, struct buf *b)
{
	if (b->len) {
		fputs("  ", to);
		term_put(term, to, TERM_DIM, label);
		fprintf(to, "%*s", 9 - (int)strlen(label), "");
		traceout_wrap(term, to, 11, 11, buf_str(b));
	}
	buf_reset(b);
}

static void trace_face_one(const struct trace_face *f, const struct term *term, FILE *to)
{
	const struct trace *t = f->set->trace[0];
	const struct view *v = f->set->view;
	const struct trace_meta *m = trace_meta(t);
	uint64_t json, resident, spilled;
	char *name = term_clean(tracecmd_name(trace_path(t)));
	char a[FMT_MAX];
	struct buf b;

	buf_init(&b, 65536);
	term_put(term, to, TERM_BOLD, name);
	fputc('\n', to);
	free(name);
	trace_sizes(t, &json, &resident, &spilled);
	buf_printf(&b, "%s of JSON, %s", fmt_bytes(a, (double)json), trace_face_tool(t));
	trace_face_recorded(t, &b);
	trace_face_line(term, to, "file", &b);
	trace_face_steps(v, &b);
	if (m->rank >= 0)
		buf_printf(&b, "%srank %" PRId64, b.len ? ", " : "", m->rank);
	if (m->rank >= 0 && m->world_size > 0)
		buf_printf(&b, " of %" PRId64, m->world_size);
	trace_face_line(term, to, "run", &b);
	trace_face_devices(t, &b);
	trace_face_line(term, to, "GPUs", &b);
	trace_face_rows(t, &b);
	trace_face_line(term, to, "rows", &b);
	buf_done(&b);
}

static void trace_face_many(const struct trace_face *f, const struct term *term, FILE *to)
{
	uint64_t json = 0, rows = 0, one, resident, spilled;
	const struct trace_meta *m = trace_meta(f->set->trace[0]);
	char a[FMT_MAX], c[FMT_MAX];
	struct buf b;
	size_t i;

	for (i = 0; i < f->set->n; i++) {
		trace_sizes(f->set->trace[i], &one, &resident, &spilled);
		json += one;
		rows += trace_rows(f->set->trace[i]);
	}
	buf_init(&b, 65536);
	buf_printf(&b, "%zu traces", f->set->n);
	if (f->set->has_ranks && m->world_size > 0)
		buf_printf(&b, " of a job of %" PRId64 " ranks", m->world_size);
	term_put(term, to, TERM_BOLD, buf_str(&b));
	fputc('\n', to);
	buf_reset(&b);
	buf_printf(&b, "%s rows, %s of JSON, %s", traceout_groups(c, rows),
		   fmt_bytes(a, (double)json), trace_face_tool(f->set->trace[0]));
	trace_face_line(term, to, "files", &b);
	trace_face_steps(&f->set->view[0], &b);
	trace_face_line(term, to, "run", &b);
	trace_face_devices(f->set->trace[0], &b);
	trace_face_line(term, to, "GPUs", &b);
	trace_face_rows(f->set->trace[0], &b);
	trace_face_line(term, to, f->set->has_ranks ? "rank 0" : "file 0", &b);
	buf_done(&b);
}

void trace_face_head(const struct term *term, FILE *to, const void *data)
{
	const struct trace_face *f = data;

	if (f->set->n == 1)
		trace_face_one(f, term, to);
	else
		trace_face_many(f, term, to);
}

/* ---- bars
 * ---------------------------------------------------------------------------------------- */

/* Cells of each kind: they add up to the width (largest remainders). */
static void trace_face_cells(const struct verdict_shares *s, int width, int cells[VERDICT_KINDS])
{
	int64_t rest[VERDICT_KINDS];
	int k, best, sum = 0;

	for (k = 0; k < VERDICT_KINDS; k++) {
		double exact =
			s->total > 0 ? (double)s->ns[k] / (double)s->total * (double)width : 0;

		cells[k] = (int)exact;
		rest[k] = (int64_t)((exact - cells[k]) * 1e9);
		sum += cells[k];
	}
	for (; s->total > 0 && sum < width; sum++) {
		for (best = 0, k = 1; k < VERDICT_KINDS; k++)
			if (rest[k] > rest[best])
				best = k;
		cells[best]++;
		rest[best] = -1;
	}
}

static void trace_face_cell(const struct term *term, FILE *to, int kind, int n)
{
	bool blocks = term->color && spark_is_utf8();
	char letter[2] = {trace_face_looks[kind].letter, '\0'};
	struct buf b;

	if (n <= 0)
		return;
	buf_init(&b, 4096);
	while (n-- > 0)
		buf_puts(&b, blocks ? trace_face_looks[kind].block : letter);
	term_put(term, to, trace_face_looks[kind].style, buf_str(&b));
	buf_done(&b);
}

static void trace_face_bar(const struct term *term, FILE *to, const struct verdict_shares *s,
			   int width)
{
	int cells[VERDICT_KINDS], k;

	trace_face_cells(s, width, cells);
	for (k = 0; k < VERDICT_KINDS; k++)
		trace_face_cell(term, to, k, cells[k]);
	fputc('\n', to);
}

static void trace_face_bars(const struct trace_face *f, const struct term *term, FILE *to)
{
	const struct verdict_result *v = f->verdict;
	int room = term->width ? term->width - 4 : TRACE_FACE_BAR_MAX, label = 0;
	char text[64];
	size_t i;

	if (v->n > 1)
		label = 12;
	room -= label;
	room = room > TRACE_FACE_BAR_MAX ? TRACE_FACE_BAR_MAX : room < 10 ? 10 : room;
	for (i = 0; i < v->n && i < TRACE_FACE_BARS; i++) {
		fputs("  ", to);
		if (v->n > 1) {
			if (v->ranks[i].rank >= 0 && f->set->has_ranks)
				snprintf(text, sizeof(text), "rank %" PRId64, v->ranks[i].rank);
			else
				snprintf(text, sizeof(text), "file %zu", i);
			fprintf(to, "%-*s", label, text);
		}
		trace_face_bar(term, to, &v->ranks[i].facts.shares, room);
	}
	if (i < v->n)
		fprintf(to, "  and %zu more\n", v->n - i);
}

/* Shares of all ranks together. */
static void trace_face_sum(const struct verdict_result *v, struct verdict_shares *ret,
			   int64_t *ret_steps)
{
	size_t i, k;

	*ret = (struct verdict_shares){.total = 0};
	*ret_steps = 0;
	for (i = 0; i < v->n; i++) {
		for (k = 0; k < VERDICT_KINDS; k++)
			ret->ns[k] += v->ranks[i].facts.shares.ns[k];
		ret->total += v->ranks[i].facts.shares.total;
		*ret_steps += v->ranks[i].facts.steps > 0 ? v->ranks[i].facts.steps : 1;
	}
}

/* The rank in which the kind is largest tells what it is made of. */
static const struct verdict_rank *trace_face_witness(const struct verdict_result *v, size_t kind)
{
	const struct verdict_rank *best = &v->ranks[0];
	size_t i;

	for (i = 1; i < v->n; i++)
		if (v->ranks[i].facts.shares.ns[kind] > best->facts.shares.ns[kind])
			best = &v->ranks[i];
	return best;
}

static void trace_face_legend(const struct trace_face *f, const struct term *term, FILE *to)
{
	static const struct table_column columns[] = {
		{"", 0}, {"", 0}, {"", TABLE_RIGHT}, {"", TABLE_RIGHT}, {"", TABLE_CUT}};
	struct table *t = table_new(columns, ARRAY_LEN(columns));
	bool blocks = term->color && spark_is_utf8();
	int permille[VERDICT_KINDS], best;
	bool told[VERDICT_KINDS] = {false};
	struct verdict_shares sum;
	char a[FMT_MAX], mark[8];
	int64_t steps;
	struct buf top;
	size_t k, n;

	trace_face_sum(f->verdict, &sum, &steps);
	verdict_permille(&sum, permille);
	buf_init(&top, 65536);
	for (n = 0; n < VERDICT_KINDS; n++) {
		for (best = -1, k = 0; k < VERDICT_KINDS; k++)
			if (!told[k] && (best < 0 || permille[k] > permille[best]))
				best = (int)k;
		told[best] = true;
		if (!permille[best])
			continue;
		snprintf(mark, sizeof(mark), "%.3s%c", blocks ? trace_face_looks[best].block : "",
			 blocks ? '\0' : trace_face_looks[best].letter);
		table_cell(t, trace_face_looks[best].style, mark);
		table_cell(t, TERM_PLAIN, verdict_name((enum verdict_kind)best)->title);
		table_cellf(t, permille[best] >= 200 ? TERM_BOLD : TERM_PLAIN, "%d.%d %%",
			    permille[best] / 10, permille[best] % 10);
		table_cell(t, TERM_PLAIN,
			   fmt_seconds(a, (double)sum.ns[best] / (double)steps / 1e9));
		buf_reset(&top);
		verdict_top(trace_face_witness(f->verdict, (size_t)best), (enum verdict_kind)best,
			    &top);
		table_cell(t, TERM_DIM, buf_str(&top));
	}
	buf_done(&top);
	table_print(t, term, to, 2);
	table_free(t);
}

/* ---- verdict -----------------------------------------------------------------------------------
 */

static void trace_face_title(const struct trace_face *f, const struct term *term, FILE *to)
{
	const struct verdict_result *v = f->verdict;
	bool marks = v->ranks[0].has_marks;
	struct verdict_shares sum;
	char a[FMT_MAX];
	int64_t steps;

	trace_face_sum(v, &sum, &steps);
	fputc('\n', to);
	term_put(term, to, TERM_BOLD, "Bound by: ");
	term_put(term, to,
		 v->kind == VERDICT_COMPUTE   ? TERM_GREEN
		 : v->kind == VERDICT_UNKNOWN ? TERM_DIM
					      : TERM_YELLOW,
		 v->kind == VERDICT_STRAGGLER ? "a straggling rank" : verdict_name(v->kind)->title);
	if (v->kind == VERDICT_PROFILER && v->behind != v->kind)
		fprintf(to, ", and behind it: %s", verdict_name(v->behind)->title);
	fputc('\n', to);
	if (f->n_findings)
		fputs("  ", to), traceout_wrap(term, to, 2, 2, f->findings[0].text);
	fputc('\n', to);
	term_put(term, to, TERM_BOLD, "Where the time goes");
	if (marks && steps > 0)
		fprintf(to, ", a mean step of %s\n",
			fmt_seconds(a, (double)sum.total / (double)steps / 1e9));
	else
		fprintf(to, ", %s in all\n",
			fmt_seconds(a, (double)sum.total / (double)v->n / 1e9));
}

void trace_face_verdict(const struct term *term, FILE *to, const void *data)
{
	const struct trace_face *f = data;

	trace_face_title(f, term, to);
	trace_face_bars(f, term, to);
	trace_face_legend(f, term, to);
}

void trace_face_advice(const struct term *term, FILE *to, const void *data)
{
	const struct trace_face *f = data;
	const char *dot = spark_is_utf8() ? "\u2022" : "*";
	size_t i;

	if (!f->n_findings)
		return;
	fputc('\n', to);
	term_put(term, to, TERM_BOLD, "What to do\n");
	for (i = 0; i < f->n_findings && i < TRACE_FACE_ADVICE; i++) {
		const struct verdict_rule *r = f->findings[i].rule;
		/* The first sentence stands at the top already. */
		bool told = i == 0 && *r->advice;
		char *text = xasprintf("%s%s%s", r->document ? r->document : "",
				       r->document ? ". " : "", told ? "" : f->findings[i].text);

		fprintf(to, "  %s ", dot);
		if (*text)
			traceout_wrap(term, to, 4, 4, text);
		if (*text && *r->advice)
			fputs("    ", to);
		if (*r->advice)
			traceout_wrap(term, to, 4, 4, r->advice);
		free(text);
	}
	if (i < f->n_findings)
		fprintf(to, "  %zu more with --json\n", f->n_findings - i);
}
