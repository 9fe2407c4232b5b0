/* SPDX-License-Identifier: Apache-2.0 */
#include "server/stepread.h"

#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPREAD_STEP "step"
#define STEPREAD_EPOCH "epoch"
#define STEPREAD_WAIT "data/wait"
#define STEPREAD_DEVICE "device/"

const struct store_series *stepread_series(const struct runview *v, const struct store_process *p)
{
	size_t i;

	for (i = 0; i < v->n_series; i++)
		if (v->series[i].host == p->host && v->series[i].process == p->id &&
		    v->series[i].kind == SINK_SPAN && v->series[i].count > 0 &&
		    strcmp(v->series[i].name, STEPREAD_STEP) == 0)
			return &v->series[i];
	return NULL;
}

/* All of a series in one bucket; count 0: nothing there. */
static int stepread_total(const struct runview *v, const struct store_series *s,
			  const struct store_range *range, struct store_bucket *ret, struct err *e)
{
	const struct store_ref ref = {s->host, s->id};
	struct store_query ask = {.points = 1, .no_raw = true};
	struct store_result got;
	int err;

	if (range)
		ask.range = *range;
	err = store_reader_query(v->reader, &ask, &ref, 1, e, NULL, &got);
	if (err)
		return err;
	*ret = got.n ? got.buckets[0] : (struct store_bucket){0};
	store_results_free(&got, 1);
	return 0;
}

static uint64_t stepread_warmup(uint64_t steps)
{
	return steps / STEPREAD_WARMUP_PART < STEPREAD_WARMUP ? steps / STEPREAD_WARMUP_PART
							      : STEPREAD_WARMUP;
}

/* When a span ends, whatever its duration is said to be. */
static int64_t stepread_end(int64_t start_ns, double ns)
{
	int64_t end;

	if (__builtin_add_overflow(start_ns, ns < 1e18 ? (int64_t)ns : INT64_C(1) << 60, &end))
		return INT64_MAX;
	return end;
}

/* ---- the steady part ----------------------------------------------------------------- */

struct stepread_whole {
	uint64_t count;
	int64_t step_min, step_max, from_ns, to_ns;
	bool has_number; /* each of them has one */
};

/* The lowest rank that has steps: as a number that is highest where it is not known. */
static uint64_t stepread_lowest(const struct runview *v)
{
	uint64_t rank = UINT64_MAX;
	size_t i;

	for (i = 0; i < v->n_processes; i++)
		if ((uint64_t)v->processes[i].rank < rank && stepread_series(v, &v->processes[i]))
			rank = (uint64_t)v->processes[i].rank;
	return rank;
}

/* The steps of all attempts of a rank as one. */
static int stepread_attempts(const struct runview *v, uint64_t rank,
			     const struct store_range *range, struct stepread_whole *ret,
			     struct err *e)
{
	struct stepread_whole w = {0, INT64_MAX, INT64_MIN, INT64_MAX, INT64_MIN, true};
	const struct store_series *s;
	struct store_bucket b;
	int64_t end;
	size_t i;
	int err;

	for (i = 0; i < v->n_processes; i++) {
		s = (uint64_t)v->processes[i].rank == rank ? stepread_series(v, &v->processes[i])
							   : NULL;
		err = s ? stepread_total(v, s, range, &b, e) : 0;
		if (err)
			return err;
		if (!s || b.count == 0)
			continue;
		end = stepread_end(b.time_max, fmax(b.last, 0));
		w.count += b.count;
		w.has_number = w.has_number && b.step_min != SINK_STEP_NONE;
		w.step_min = b.step_min < w.step_min ? b.step_min : w.step_min;
		w.step_max = b.step_max > w.step_max ? b.step_max : w.step_max;
		w.from_ns = b.time_min < w.from_ns ? b.time_min : w.from_ns;
		w.to_ns = end > w.to_ns ? end : w.to_ns;
	}
	*ret = w;
	return 0;
}

int stepread_steady(const struct runview *v, int64_t from, int64_t to, struct stepread_steady *ret,
		    struct err *e)
{
	uint64_t rank = stepread_lowest(v);
	struct stepread_steady r = {0};
	struct store_range range = {0};
	struct stepread_whole all;
	int64_t end = v->run.end_ns ? v->run.end_ns : INT64_MAX;
	int err = stepread_attempts(v, rank, NULL, &all, e);

	if (err)
		return err;
	if (all.count == 0 || !all.has_number) {
		r.from_ns = v->run.start_ns;
		r.to_ns = end;
		if (v->run.end_ns)
			r.from_ns += (v->run.end_ns - v->run.start_ns) / 10;
		*ret = r;
		return 0;
	}
	r.has_steps = true;
	r.step_first = from >= 0 ? from : all.step_min + (int64_t)stepread_warmup(all.count);
	r.step_last = to >= 0 ? to : all.step_max;
	range = (struct store_range){
		.by_step = true, .step_min = r.step_first, .step_max = r.step_last};
	err = stepread_attempts(v, rank, &range, &all, e);
	if (err)
		return err;
	r.from_ns = all.count ? all.from_ns : 0;
	r.to_ns = all.count ? all.to_ns : -1;
	*ret = r;
	return 0;
}

/* ---- reading ------------------------------------------------------------------------- */

struct stepread_steps {
	struct stepsplit_step *list;
	size_t n, cap, most; /* most: the last so many are kept */
	bool is_cut;
	uint32_t segment;
	uint64_t in_segment, skip, skipped; /* of the segment; skip: so many of each */
	bool has_segment;
};

/* Only the last so many. */
static void stepread_cut(struct stepread_steps *s, size_t most)
{
	if (s->n <= most)
		return;
	memmove(s->list, s->list + s->n - most, most * sizeof(*s->list));
	s->n = most;
	s->is_cut = true;
}

static int stepread_step_block(void *arg, const struct store_block *b)
{
	struct stepread_steps *s = arg;
	size_t i;

	if (!s->has_segment || b->segment != s->segment)
		s->in_segment = 0;
	s->has_segment = true;
	s->segment = b->segment;
	for (i = 0; i < b->n; i++) {
		if (s->in_segment++ < s->skip) {
			s->skipped++;
			continue;
		}
		if (!(b->value[i] >= 0))
			continue;
		if (s->n >= 2 * s->most)
			stepread_cut(s, s->most);
		s->list = xgrow(s->list, s->n, &s->cap, sizeof(*s->list));
		s->list[s->n++] = (struct stepsplit_step){b->time_ns[i],
							  stepread_end(b->time_ns[i], b->value[i]),
							  b->step[i], (uint32_t)b->thread[i], 0};
	}
	return 0;
}

struct stepread_spans {
	struct stepsplit_span *list;
	size_t n, cap;
	uint32_t part;
};

static int stepread_span_block(void *arg, const struct store_block *b)
{
	struct stepread_spans *s = arg;
	size_t i;

	for (i = 0; i < b->n; i++) {
		if (!(b->value[i] >= 0))
			continue;
		if (s->n == STEPREAD_SPANS_MAX)
			return -E2BIG;
		s->list = xgrow(s->list, s->n, &s->cap, sizeof(*s->list));
		s->list[s->n++] = (struct stepsplit_span){b->time_ns[i],
							  stepread_end(b->time_ns[i], b->value[i]),
							  (uint32_t)b->thread[i], s->part};
	}
	return 0;
}

static bool stepread_is_phase(const struct store_series *s)
{
	return s->kind == SINK_SPAN && s->count > 0 && strcmp(s->name, STEPREAD_STEP) != 0 &&
	       strcmp(s->name, STEPREAD_EPOCH) != 0;
}

static size_t stepread_part(const struct stepread *r, size_t n, const char *name)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (strcmp(r->names[i], name) == 0)
			return i;
	return SIZE_MAX;
}

static bool stepread_has_process(const struct stepread *r, const struct store_series *s)
{
	size_t i;

	for (i = 0; i < r->n_ranks; i++)
		if (r->ranks[i].process->host == s->host && r->ranks[i].process->id == s->process)
			return true;
	return false;
}

/* Names of spans, those with a role first as there is room for so many only. */
static void stepread_names(struct stepread *r, const struct runview *v)
{
	size_t n = 0, i, most = STEPSPLIT_PARTS_MAX - 2;
	bool has_data = false;
	int pass;

	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < v->n_series; i++) {
			const struct store_series *s = &v->series[i];
			enum stepsplit_role role = stepsplit_role(s->name);

			if (!stepread_is_phase(s) || (role == STEPSPLIT_SPAN) != (pass == 1) ||
			    !stepread_has_process(r, s) || n >= most ||
			    stepread_part(r, n, s->name) != SIZE_MAX)
				continue;
			has_data |= role == STEPSPLIT_DATA;
			r->names[n++] = s->name;
		}
	r->waits = SIZE_MAX;
	for (i = 0; i < v->n_series && !has_data; i++)
		if (v->series[i].kind == SINK_HISTOGRAM && v->series[i].count > 0 &&
		    strcmp(v->series[i].name, STEPREAD_WAIT) == 0 &&
		    stepread_has_process(r, &v->series[i])) {
			r->waits = n;
			r->names[n++] = v->series[i].name;
			break;
		}
	stepsplit_init(&r->split, r->names, n);
	r->names[n] = stepsplit_role_name(STEPSPLIT_OTHER);
}

static int stepread_compare(const void *a, const void *b)
{
	return runview_process_order(((const struct stepread_rank *)a)->process,
				     ((const struct stepread_rank *)b)->process);
}

/* Of a rank that began again the newest attempt alone: they are no ranks beside each other. */
static void stepread_newest(struct stepread *r)
{
	size_t i, n = 0;

	for (i = 0; i < r->n_ranks; i++) {
		const struct store_process *p = r->ranks[i].process;

		if (n == 0 || p->rank < 0 || r->ranks[n - 1].process->rank != p->rank)
			r->ranks[n++].process = p;
		else if (p->start_ns > r->ranks[n - 1].process->start_ns)
			r->ranks[n - 1].process = p;
	}
	r->n_ranks = n;
}

static void stepread_ranks(struct stepread *r, const struct runview *v, int64_t rank)
{
	size_t i;

	r->ranks = xcalloc(v->n_processes + 1, sizeof(*r->ranks));
	for (i = 0; i < v->n_processes; i++)
		if (stepread_series(v, &v->processes[i]) &&
		    (rank < 0 || v->processes[i].rank == rank))
			r->ranks[r->n_ranks++].process = &v->processes[i];
	if (r->n_ranks > 0)
		qsort(r->ranks, r->n_ranks, sizeof(*r->ranks), stepread_compare);
	stepread_newest(r);
}

/* Which steps of a process: asked for, steady, and no more than there is room for. */
static int stepread_range(struct stepread *r, const struct runview *v, const struct store_series *s,
			  const struct stepread_wish *wish, struct store_range *range,
			  struct stepread_steps *steps, struct err *e)
{
	uint64_t most = r->n_ranks < wish->most ? wish->most / r->n_ranks : 1;
	int64_t first;
	struct store_bucket all;
	int err = stepread_total(v, s, NULL, &all, e);

	if (err || all.count == 0)
		return err;
	r->of += all.count;
	steps->most = (size_t)most;
	*range = (struct store_range){.by_step = all.step_min != SINK_STEP_NONE};
	range->step_min = wish->from >= 0 ? wish->from : INT64_MIN;
	range->step_max = wish->to >= 0 ? wish->to : INT64_MAX;
	if (wish->from < 0)
		steps->skip = stepread_warmup(all.count);
	if (!range->by_step || all.count <= most)
		return 0;
	if (range->step_max > all.step_max)
		range->step_max = all.step_max;
	/* As many numbers; where several have one there are more. */
	if (range->step_max > INT64_MIN + (int64_t)most &&
	    range->step_min < range->step_max - (int64_t)most + 1) {
		range->step_min = range->step_max - (int64_t)most + 1;
		if (!__builtin_add_overflow(all.step_min, (int64_t)steps->skip, &first) &&
		    range->step_min < first)
			range->step_min = first; /* the warm-up is not among them */
		r->is_cut = true;
		steps->skip = 0;
	}
	return 0;
}

/* From when to when steps are, and how long the longest is. */
struct stepread_extent {
	int64_t from, to, longest;
};

static struct stepread_extent stepread_extent(const struct stepread_steps *steps)
{
	struct stepread_extent x = {INT64_MAX, INT64_MIN, 0};
	int64_t ns;
	size_t i;

	for (i = 0; i < steps->n; i++) {
		const struct stepsplit_step *s = &steps->list[i];

		x.from = s->start < x.from ? s->start : x.from;
		x.to = s->end > x.to ? s->end : x.to;
		if (!__builtin_sub_overflow(s->end, s->start, &ns) && ns > x.longest)
			x.longest = ns;
	}
	return x;
}

static int stepread_spans_of(const struct stepread *r, const struct runview *v,
			     const struct store_process *p, const struct stepread_extent *x,
			     struct stepread_spans *spans, struct err *e)
{
	struct store_range range = {.by_time = true, .time_max = x->to};
	size_t i, part;
	int err = 0;

	/* Those that begin before the first step may reach into it: as far back as a step. */
	if (__builtin_sub_overflow(x->from, x->longest, &range.time_min))
		range.time_min = INT64_MIN;
	spans->n = 0;
	for (i = 0; i < v->n_series && !err; i++) {
		const struct store_series *s = &v->series[i];

		if (s->host != p->host || s->process != p->id || !stepread_is_phase(s))
			continue;
		part = stepread_part(r, r->split.n_parts - 1, s->name);
		if (part == SIZE_MAX)
			continue;
		spans->part = (uint32_t)part;
		err = store_reader_blocks(v->reader, s->host, s->id, &range, stepread_span_block,
					  spans, e);
	}
	return err;
}

/* The spans in the steps; of steps with too many only the last half, again and again. */
static int stepread_fit(const struct stepread *r, const struct runview *v,
			const struct store_process *p, struct stepread_steps *steps,
			struct stepread_spans *spans, struct err *e)
{
	struct stepread_extent x;
	int err;

	for (;;) {
		x = stepread_extent(steps);
		err = stepread_spans_of(r, v, p, &x, spans, e);
		if (err != -E2BIG)
			return err;
		if (steps->n < 2)
			return err_set(e, -EINVAL, "a step has more than %u spans",
				       STEPREAD_SPANS_MAX);
		stepread_cut(steps, steps->n / 2);
	}
}

/* Numbers and times of the steps that are looked at. */
static void stepread_note(struct stepread *r, const struct stepread_steps *steps)
{
	struct stepread_extent x = stepread_extent(steps);
	size_t i;

	for (i = 0; i < steps->n; i++) {
		r->first = steps->list[i].number < r->first ? steps->list[i].number : r->first;
		r->last = steps->list[i].number > r->last ? steps->list[i].number : r->last;
	}
	r->warmup += steps->skipped;
	r->is_cut |= steps->is_cut;
	r->from_ns = x.from < r->from_ns ? x.from : r->from_ns;
	r->to_ns = x.to > r->to_ns ? x.to : r->to_ns;
}

static int stepread_rank(struct stepread *r, const struct runview *v, size_t which,
			 const struct stepread_wish *wish, struct err *e)
{
	const struct store_process *p = r->ranks[which].process;
	const struct store_series *s = stepread_series(v, p);
	struct stepread_steps steps = {.most = wish->most};
	struct stepread_spans spans = {0};
	struct store_range range = {0};
	int err = stepread_range(r, v, s, wish, &range, &steps, e);

	if (!err)
		err = store_reader_blocks(v->reader, s->host, s->id, &range, stepread_step_block,
					  &steps, e);
	stepread_cut(&steps, steps.most);
	if (!err && steps.n > 0)
		err = stepread_fit(r, v, p, &steps, &spans, e);
	stepread_note(r, &steps);
	if (!err && steps.n > 0)
		stepsplit_add(&r->split, (uint32_t)which, steps.list, steps.n, spans.list, spans.n);
	r->ranks[which].steps = steps.n;
	free(steps.list);
	free(spans.list);
	return err;
}

/* Is it a histogram of seconds of one of these processes: device time of a phase, or (waits)
 * what stands for one? */
static bool stepread_is_sum(const struct stepread *r, const struct store_series *s, bool waits)
{
	size_t n = strlen(STEPREAD_DEVICE);

	if (s->kind != SINK_HISTOGRAM || s->count == 0 || strcmp(s->unit, "s") != 0 ||
	    !stepread_has_process(r, s))
		return false;
	if (waits)
		return r->waits != SIZE_MAX && strcmp(s->name, STEPREAD_WAIT) == 0;
	return strncmp(s->name, STEPREAD_DEVICE, n) == 0 &&
	       stepsplit_role(s->name + n) != STEPSPLIT_SPAN;
}

/* Their sum over the time of the steps; NaN: there are none. */
static int stepread_sum(const struct stepread *r, const struct runview *v, bool waits, double *ret,
			struct err *e)
{
	struct store_range range = {.by_time = true, .time_min = r->from_ns, .time_max = r->to_ns};
	struct store_bucket b;
	size_t i;
	int err;

	*ret = NAN;
	for (i = 0; i < v->n_series; i++) {
		if (!stepread_is_sum(r, &v->series[i], waits))
			continue;
		err = stepread_total(v, &v->series[i], &range, &b, e);
		if (err)
			return err;
		if (b.count > 0 && isfinite(b.sum))
			*ret = b.sum + (isnan(*ret) ? 0 : *ret);
	}
	return 0;
}

static int stepread_sums(struct stepread *r, const struct runview *v, struct err *e)
{
	double device, waits;
	int err = stepread_sum(r, v, false, &device, e);

	if (!err)
		err = stepread_sum(r, v, true, &waits, e);
	if (err)
		return err;
	if (waits > 0)
		stepsplit_move(&r->split, r->waits, waits * 1e9);
	if (r->split.sum > 0 && !isnan(device))
		r->device = fmin(device * 1e9 / (double)r->split.sum, 1);
	return 0;
}

int stepread(const struct runview *v, const struct stepread_wish *wish, struct stepread *ret,
	     struct err *e)
{
	size_t i;
	int err = 0;

	*ret = (struct stepread){.first = INT64_MAX,
				 .last = INT64_MIN,
				 .from_ns = INT64_MAX,
				 .to_ns = INT64_MIN,
				 .waits = SIZE_MAX,
				 .device = NAN};
	stepread_ranks(ret, v, wish->rank);
	stepread_names(ret, v);
	for (i = 0; i < ret->n_ranks && !err; i++)
		err = stepread_rank(ret, v, i, wish, e);
	if (!err && ret->split.n > 0)
		err = stepread_sums(ret, v, e);
	if (err)
		stepread_done(ret);
	return err;
}

void stepread_done(struct stepread *r)
{
	stepsplit_done(&r->split);
	free(r->ranks);
	*r = (struct stepread){0};
}
