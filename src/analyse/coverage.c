/* SPDX-License-Identifier: Apache-2.0
 *
 * coverage.c - counts over the rows of one trace, then a sentence for each that matters.
 */
#include "analyse/coverage.h"

#include "analyse/kclass.h"
#include "analyse/room.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[COVERAGE_ITEMS] = {
	[COVERAGE_NO_ROWS] = "no-rows",
	[COVERAGE_TRUNCATED] = "truncated",
	[COVERAGE_BROKEN] = "broken",
	[COVERAGE_NO_GPU] = "no-gpu",
	[COVERAGE_NO_HOST] = "no-host",
	[COVERAGE_NO_OPS] = "no-operators",
	[COVERAGE_NO_CALLS] = "no-calls",
	[COVERAGE_NO_STEPS] = "no-steps",
	[COVERAGE_NO_RANK] = "no-rank",
	[COVERAGE_NO_CORRELATION] = "no-correlation",
	[COVERAGE_LAUNCH_NO_WORK] = "launch-without-work",
	[COVERAGE_WORK_NO_LAUNCH] = "work-without-launch",
	[COVERAGE_WORK_EARLY] = "work-before-launch",
	[COVERAGE_OVERLAP] = "overlap",
	[COVERAGE_LONG] = "too-long",
	[COVERAGE_ZERO_DUR] = "zero-duration",
	[COVERAGE_NEGATIVE_DUR] = "negative-duration",
	[COVERAGE_NO_STACKS] = "no-stacks",
	[COVERAGE_NO_SHAPES] = "no-shapes",
	[COVERAGE_NO_MEMORY] = "no-memory",
	[COVERAGE_WHOLE_US] = "whole-microseconds",
};

const char *coverage_name(enum coverage_id id)
{
	return (unsigned)id < COVERAGE_ITEMS ? names[id] : "";
}

struct last { /* of one stream: where its rows end so far */
	int64_t end;
};

struct count {
	struct view *v;
	struct coverage *c;
	struct last *last; /* as c->streams */
	size_t cap, cap_last;
	uint64_t ops, calls, linked, no_work, no_launch, early, zero, negative, fractions, stacks;
	uint64_t shapes, broken;
	bool has_texts;      /* some row has shapes or a stack */
	uint8_t *call_kinds; /* by text id: enum kclass_call + 1 */
};

static void say(struct coverage *c, enum coverage_id id, enum coverage_grade grade, uint64_t count,
		uint64_t of, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

static void say(struct coverage *c, enum coverage_id id, enum coverage_grade grade, uint64_t count,
		uint64_t of, const char *fmt, ...)
{
	struct coverage_item *i = &c->items[id];
	va_list ap;

	i->grade = grade;
	i->count = count;
	i->of = of;
	i->percent = of ? 100.0 * (double)count / (double)of : 0;
	va_start(ap, fmt);
	vsnprintf(i->text, sizeof(i->text), fmt, ap);
	va_end(ap);
}

static bool is_gpu(const struct view_row *row)
{
	return row->cat == TRACE_CAT_KERNEL || row->cat == TRACE_CAT_GPU_MEMCPY ||
	       row->cat == TRACE_CAT_GPU_MEMSET || row->cat == TRACE_CAT_MTIA_CCP_EVENTS;
}

static bool is_call(const struct view_row *row)
{
	return row->cat == TRACE_CAT_CUDA_RUNTIME || row->cat == TRACE_CAT_CUDA_DRIVER ||
	       row->cat == TRACE_CAT_MTIA_RUNTIME || row->cat == TRACE_CAT_XPU_RUNTIME ||
	       row->cat == TRACE_CAT_XPU_DRIVER || row->cat == TRACE_CAT_PRIVATEUSE1_RUNTIME ||
	       row->cat == TRACE_CAT_PRIVATEUSE1_DRIVER;
}

static int stream_of(struct count *k, const struct view_row *row, size_t *ret)
{
	struct coverage *c = k->c;
	int rc;

	for (size_t i = c->n_streams; i-- > 0;)
		if (c->streams[i].track == row->track && c->streams[i].stream == row->stream) {
			*ret = i;
			return 0;
		}
	rc = room_for(&k->last, c->n_streams, &k->cap_last, sizeof(*k->last));
	if (!rc)
		rc = room_for(&c->streams, c->n_streams, &k->cap, sizeof(*c->streams));
	if (rc)
		return rc;
	k->last[c->n_streams].end = INT64_MIN;
	c->streams[c->n_streams] =
		(struct coverage_stream){.track = row->track, .stream = row->stream};
	*ret = c->n_streams++;
	return 0;
}

static int count_stream(struct count *k, const struct view_row *row)
{
	struct coverage_stream *s;
	int64_t end, from = row->ts;
	size_t at = 0;
	int rc = stream_of(k, row, &at);

	if (rc)
		return rc;
	s = &k->c->streams[at];
	end = k->last[at].end;
	s->rows++;
	s->raw += row->end - row->ts;
	if (row->ts < end) {
		int64_t over = (row->end < end ? row->end : end) - row->ts;

		s->overlaps++;
		s->longest = over > s->longest ? over : s->longest;
		from = end;
	}
	if (row->end > from)
		s->clipped += row->end - from;
	if (row->end > end)
		k->last[at].end = row->end;
	return 0;
}

static void count_link(struct count *k, const struct view_row *row)
{
	const struct view_row *launch;

	if (row->correlation == TRACE_NONE)
		return;
	if (row->pair == VIEW_NO_ROW) {
		k->no_launch++;
		return;
	}
	k->linked++;
	launch = &k->v->rows[row->pair];
	if (row->ts < launch->ts) {
		k->early++;
		if (launch->ts - row->ts > k->c->earliest)
			k->c->earliest = launch->ts - row->ts;
	}
}

static void count_call(struct count *k, const struct view_row *row)
{
	uint8_t *kind = &k->call_kinds[row->name];

	if (!*kind)
		*kind = (uint8_t)(1 + kclass_call(trace_text(k->v->trace, row->name, NULL)));
	k->calls++;
	if (*kind - 1 != KCLASS_CALL_LAUNCH && *kind - 1 != KCLASS_CALL_GRAPH)
		return;
	k->c->launches++;
	k->no_work += row->pair == VIEW_NO_ROW;
}

static int count_row(struct count *k, const struct view_row *row)
{
	k->zero += row->end == row->ts && row->cat != TRACE_CAT_USER_ANNOTATION;
	k->negative += row->end < row->ts;
	k->fractions += row->ts % 1000 != 0 || row->end % 1000 != 0;
	k->stacks += row->cat == TRACE_CAT_PYTHON_FUNCTION;
	k->ops += row->cat == TRACE_CAT_CPU_OP;
	if (k->has_texts && row->cat == TRACE_CAT_CPU_OP && row->args) {
		const struct trace_args *a = trace_args(k->v->trace, row->args);

		k->shapes += a->dims != 0;
		k->stacks += a->stack != 0;
	}
	if (is_call(row))
		count_call(k, row);
	if (!is_gpu(row))
		return 0;
	k->c->work++;
	count_link(k, row);
	return count_stream(k, row);
}

static void say_missing(struct count *k)
{
	struct coverage *c = k->c;
	const struct trace_meta *m = trace_meta(k->v->trace);

	if (!c->work)
		say(c, COVERAGE_NO_GPU, COVERAGE_NOTE, 0, 0,
		    "No GPU rows: the host alone is judged. If a GPU was used, its rows were not "
		    "recorded (ProfilerActivity.CUDA; CUPTI or roctracer may have failed).");
	if (!k->ops && !k->calls && c->work)
		say(c, COVERAGE_NO_HOST, COVERAGE_WARN, 0, 0,
		    "No host rows: what the GPU waited for cannot be told.");
	else if (!k->ops)
		say(c, COVERAGE_NO_OPS, COVERAGE_NOTE, 0, 0,
		    "No operators: kernels cannot be told by operator.");
	else if (!k->calls && c->work)
		say(c, COVERAGE_NO_CALLS, COVERAGE_WARN, 0, 0,
		    "No runtime calls: kernels have no launches, waiting calls are not seen.");
	if (!k->v->n_steps)
		say(c, COVERAGE_NO_STEPS, COVERAGE_NOTE, 0, 0,
		    "No step marks (ProfilerStep#N): numbers are of the whole window. Call "
		    "profiler.step() once a step to have them a step.");
	if (m->rank == TRACE_NONE)
		say(c, COVERAGE_NO_RANK, COVERAGE_NOTE, 0, 0,
		    "No rank, neither in distributedInfo nor in the file's name: taken as one of a "
		    "job of its own.");
	if (!k->stacks)
		say(c, COVERAGE_NO_STACKS, COVERAGE_NOTE, 0, 0,
		    "No stacks (with_stack): evidence names operators, not lines of code.");
	if (!k->shapes)
		say(c, COVERAGE_NO_SHAPES, COVERAGE_NOTE, 0, 0,
		    "No shapes (record_shapes): no grouping by shape, no FLOPs.");
	if (!trace_memories(k->v->trace))
		say(c, COVERAGE_NO_MEMORY, COVERAGE_NOTE, 0, 0,
		    "No memory events (profile_memory): peak and growth are unknown.");
	if (k->v->n && !k->fractions)
		say(c, COVERAGE_WHOLE_US, COVERAGE_NOTE, 0, 0,
		    "Times are whole microseconds: shares of very short rows are rough.");
	if (!m->is_complete)
		say(c, COVERAGE_TRUNCATED, COVERAGE_WARN, 0, 0,
		    "The file ends early: what came behind is lost.");
}

static void say_links(struct count *k)
{
	struct coverage *c = k->c;
	uint64_t asked = k->linked + k->no_launch;

	if (c->work && !k->linked) {
		say(c, COVERAGE_NO_CORRELATION, COVERAGE_WARN, c->work, c->work,
		    "No GPU row has a launch among the host's rows: launch numbers are unknown.");
		return;
	}
	if (k->no_work && c->work)
		say(c, COVERAGE_LAUNCH_NO_WORK,
		    k->no_work * 20 > c->launches ? COVERAGE_WARN : COVERAGE_NOTE, k->no_work,
		    c->launches,
		    "%llu of %llu launches have no GPU row: kernels were dropped, or the window "
		    "closed before they ran.",
		    (unsigned long long)k->no_work, (unsigned long long)c->launches);
	if (k->no_launch)
		say(c, COVERAGE_WORK_NO_LAUNCH,
		    k->no_launch * 5 > asked ? COVERAGE_WARN : COVERAGE_NOTE, k->no_launch, asked,
		    "%llu of %llu GPU rows have no launch in the trace: they were launched before "
		    "the "
		    "window opened, or their calls were dropped.",
		    (unsigned long long)k->no_launch, (unsigned long long)asked);
	if (k->early)
		say(c, COVERAGE_WORK_EARLY,
		    k->early * 100 > k->linked ? COVERAGE_WARN : COVERAGE_NOTE, k->early, k->linked,
		    "%llu of %llu GPU rows begin before their launch, by up to %.3f us: the clocks "
		    "of "
		    "host and GPU disagree.",
		    (unsigned long long)k->early, (unsigned long long)k->linked,
		    (double)c->earliest / 1e3);
}

static void say_times(struct count *k)
{
	struct coverage *c = k->c;
	uint64_t overlaps = 0, rows = 0;
	int64_t raw = 0, clipped = 0, window = k->v->last - k->v->first;

	for (size_t i = 0; i < c->n_streams; i++) {
		overlaps += c->streams[i].overlaps;
		rows += c->streams[i].rows;
		raw += c->streams[i].raw;
		clipped += c->streams[i].clipped;
		if (c->streams[i].raw > window)
			say(c, COVERAGE_LONG, COVERAGE_FAIL, 1, 0,
			    "Stream %d has more work (%.3f ms) than the trace is long (%.3f ms): "
			    "durations are wrong.",
			    c->streams[i].stream, (double)c->streams[i].raw / 1e6,
			    (double)window / 1e6);
	}
	if (overlaps)
		say(c, COVERAGE_OVERLAP,
		    raw - clipped > clipped / 100 ? COVERAGE_WARN : COVERAGE_NOTE, overlaps, rows,
		    "%llu of %llu GPU rows begin before the one before them on their stream ends: "
		    "%.3f ms as recorded, %.3f ms with overlaps counted once.",
		    (unsigned long long)overlaps, (unsigned long long)rows, (double)raw / 1e6,
		    (double)clipped / 1e6);
	if (k->zero)
		say(c, COVERAGE_ZERO_DUR, COVERAGE_NOTE, k->zero, k->v->n,
		    "%llu of %zu rows last 0 ns.", (unsigned long long)k->zero, k->v->n);
	if (k->negative)
		say(c, COVERAGE_NEGATIVE_DUR, COVERAGE_WARN, k->negative, k->v->n,
		    "%llu of %zu rows end before they begin: they count for nothing.",
		    (unsigned long long)k->negative, k->v->n);
	if (k->broken)
		say(c, COVERAGE_BROKEN,
		    k->broken * 10 > trace_rows(k->v->trace) ? COVERAGE_FAIL : COVERAGE_WARN,
		    k->broken, trace_rows(k->v->trace),
		    "%llu of %llu rows were set aside: no time, ts 0 and dur 0, or far from all "
		    "others.",
		    (unsigned long long)k->broken, (unsigned long long)trace_rows(k->v->trace));
}

static int by_raw(const void *a, const void *b)
{
	const struct coverage_stream *x = a, *y = b;

	if (x->raw != y->raw)
		return x->raw > y->raw ? -1 : 1;
	return (x->track > y->track) - (x->track < y->track);
}

int coverage_new(struct view *v, struct coverage **ret)
{
	struct count k = {.v = v, .broken = trace_broken(v->trace)};
	int rc = 0;

	k.has_texts = trace_has_dims(v->trace) || trace_has_stacks(v->trace);
	k.c = calloc(1, sizeof(*k.c));
	k.call_kinds = calloc((size_t)trace_texts(v->trace) + 1, 1);
	if (!k.c || !k.call_kinds)
		rc = -ENOMEM;
	for (size_t i = 0; i < v->n && !rc; i++)
		rc = count_row(&k, &v->rows[i]);
	free(k.last);
	free(k.call_kinds);
	if (rc) {
		coverage_free(k.c);
		return rc;
	}
	if (!v->n)
		say(k.c, COVERAGE_NO_ROWS, COVERAGE_FAIL, 0, 0,
		    "No complete events with a time in it: nothing to analyse.");
	say_missing(&k);
	say_links(&k);
	say_times(&k);
	if (k.c->n_streams)
		qsort(k.c->streams, k.c->n_streams, sizeof(*k.c->streams), by_raw);
	*ret = k.c;
	return 0;
}

void coverage_free(struct coverage *c)
{
	if (!c)
		return;
	free(c->streams);
	free(c);
}

static const char *const grades[] = {"fine", "note", "warning", "fail"};

void coverage_text(const struct coverage *c, struct buf *out)
{
	for (int g = COVERAGE_FAIL; g > COVERAGE_FINE; g--)
		for (int i = 0; i < COVERAGE_ITEMS; i++)
			if ((int)c->items[i].grade == g)
				buf_printf(out, "%s: %s\n", grades[g], c->items[i].text);
}
