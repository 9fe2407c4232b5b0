/* SPDX-License-Identifier: Apache-2.0
 *
 * stepsplit.c - see stepsplit.h. One sweep a process over the begins and ends of spans; what
 * each step took for each part is kept, as quantiles need it.
 */
#include "analyse/stepsplit.h"

#include "base/mem.h"
#include "base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- roles --------------------------------------------------------------------------- */

static const char *const stepsplit_names[STEPSPLIT_ROLES] = {
	"data",       "forward",    "backward", "optimizer", "communication",
	"checkpoint", "evaluation", "log",      "span",      "other",
};

static const struct {
	const char *word;
	enum stepsplit_role role;
} stepsplit_words[] = {
	{"data", STEPSPLIT_DATA},
	{"dataloader", STEPSPLIT_DATA},
	{"data_wait", STEPSPLIT_DATA},
	{"data_loading", STEPSPLIT_DATA},
	{"load", STEPSPLIT_DATA},
	{"next", STEPSPLIT_DATA},
	{"fetch", STEPSPLIT_DATA},
	{"batch_wait", STEPSPLIT_DATA},
	{"forward", STEPSPLIT_FORWARD},
	{"loss", STEPSPLIT_FORWARD},
	{"model", STEPSPLIT_FORWARD},
	{"backward", STEPSPLIT_BACKWARD},
	{"grad", STEPSPLIT_BACKWARD},
	{"gradient", STEPSPLIT_BACKWARD},
	{"clip", STEPSPLIT_BACKWARD},
	{"optimizer", STEPSPLIT_OPTIMIZER},
	{"optim", STEPSPLIT_OPTIMIZER},
	{"optimizer_step", STEPSPLIT_OPTIMIZER},
	{"update", STEPSPLIT_OPTIMIZER},
	{"zero_grad", STEPSPLIT_OPTIMIZER},
	{"scheduler", STEPSPLIT_OPTIMIZER},
	{"sync", STEPSPLIT_COMMUNICATION},
	{"allreduce", STEPSPLIT_COMMUNICATION},
	{"all_reduce", STEPSPLIT_COMMUNICATION},
	{"communication", STEPSPLIT_COMMUNICATION},
	{"comm", STEPSPLIT_COMMUNICATION},
	{"nccl", STEPSPLIT_COMMUNICATION},
	{"barrier", STEPSPLIT_COMMUNICATION},
	{"collective", STEPSPLIT_COMMUNICATION},
	{"checkpoint", STEPSPLIT_CHECKPOINT},
	{"save", STEPSPLIT_CHECKPOINT},
	{"eval", STEPSPLIT_EVALUATION},
	{"evaluation", STEPSPLIT_EVALUATION},
	{"validation", STEPSPLIT_EVALUATION},
	{"val", STEPSPLIT_EVALUATION},
	{"test", STEPSPLIT_EVALUATION},
	{"sanity_check", STEPSPLIT_EVALUATION},
	{"log", STEPSPLIT_LOG},
	{"logging", STEPSPLIT_LOG},
	{"metrics", STEPSPLIT_LOG},
	{"callback", STEPSPLIT_LOG},
	{"callbacks", STEPSPLIT_LOG},
};

static enum stepsplit_role stepsplit_word(const char *at, size_t len)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(stepsplit_words); i++)
		if (strlen(stepsplit_words[i].word) == len &&
		    strncasecmp(stepsplit_words[i].word, at, len) == 0)
			return stepsplit_words[i].role;
	return STEPSPLIT_SPAN;
}

enum stepsplit_role stepsplit_role(const char *name)
{
	const char *last = strrchr(name, '/');
	enum stepsplit_role role = stepsplit_word(name, strcspn(name, "/"));

	if (role == STEPSPLIT_SPAN && last)
		role = stepsplit_word(last + 1, strlen(last + 1));
	return role;
}

const char *stepsplit_role_name(enum stepsplit_role role)
{
	return stepsplit_names[(unsigned)role < STEPSPLIT_ROLES ? role : STEPSPLIT_OTHER];
}

/* ---- cutting ------------------------------------------------------------------------- */

void stepsplit_init(struct stepsplit *s, const char *const *names, size_t n)
{
	size_t i;

	*s = (struct stepsplit){0};
	if (n > STEPSPLIT_PARTS_MAX - 1)
		n = STEPSPLIT_PARTS_MAX - 1;
	for (i = 0; i < n; i++)
		s->role[i] = stepsplit_role(names[i]);
	s->role[n] = STEPSPLIT_OTHER;
	s->n_parts = n + 1;
}

void stepsplit_done(struct stepsplit *s)
{
	free(s->steps);
	free(s->ranks);
	free(s->ns);
	*s = (struct stepsplit){0};
}

static int stepsplit_by_start(const void *a, const void *b)
{
	const struct stepsplit_step *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

/* The longer one first: it is around the other. */
static int stepsplit_by_begin(const void *a, const void *b)
{
	const struct stepsplit_span *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->end < y->end) - (x->end > y->end);
}

#define STEPSPLIT_DEPTH 64u              /* spans open at once; deeper ones count for these */
#define STEPSPLIT_FAR (INT64_C(1) << 61) /* no clock tells more; differences fit */

struct stepsplit_sweep {
	struct stepsplit *s;
	size_t first, end; /* steps of this process */
	size_t at;         /* the step that the next instant may lie in */
	int64_t now;
	int64_t *before; /* of each step: ns of those before it */
	struct stepsplit_span open[STEPSPLIT_DEPTH];
	size_t n_open;
};

static size_t stepsplit_owner(const struct stepsplit_sweep *w)
{
	size_t i;

	for (i = w->n_open; i-- > 0;)
		if (w->s->role[w->open[i].part] != STEPSPLIT_SPAN)
			return w->open[i].part;
	return w->open[0].part;
}

/* [w->now, to) is of the part, as far as it lies in steps. */
static void stepsplit_credit(struct stepsplit_sweep *w, int64_t to, size_t part)
{
	struct stepsplit *s = w->s;
	int64_t begin, end;
	size_t i;

	while (w->at < w->end && s->steps[w->at].end <= w->now)
		w->at++;
	for (i = w->at; i < w->end && s->steps[i].start < to; i++) {
		begin = s->steps[i].start > w->now ? s->steps[i].start : w->now;
		end = s->steps[i].end < to ? s->steps[i].end : to;
		if (end <= begin)
			continue;
		s->ns[i * s->n_parts + part] += (float)(end - begin);
		s->total[part] += end - begin;
	}
}

/* Go on to that time: what ends until then ends. */
static void stepsplit_until(struct stepsplit_sweep *w, int64_t to)
{
	int64_t stop;
	size_t i, k;

	while (w->n_open > 0 && w->now < to) {
		stop = to;
		for (i = 0; i < w->n_open; i++)
			if (w->open[i].end < stop)
				stop = w->open[i].end;
		if (stop > w->now) {
			stepsplit_credit(w, stop, stepsplit_owner(w));
			w->now = stop;
		}
		for (i = k = 0; i < w->n_open; i++)
			if (w->open[i].end > w->now)
				w->open[k++] = w->open[i];
		w->n_open = k;
	}
	if (w->now < to)
		w->now = to;
}

/* The first step that ends after a time, or (by_start) that does not begin before it. */
static size_t stepsplit_first(const struct stepsplit_sweep *w, int64_t at, bool by_start)
{
	size_t lo = w->first, hi = w->end, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (by_start ? w->s->steps[mid].start < at : w->s->steps[mid].end <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* How much of the span lies in steps, whatever their thread. */
static double stepsplit_inside(const struct stepsplit_sweep *w, const struct stepsplit_span *span)
{
	size_t lo = stepsplit_first(w, span->start, false);
	size_t hi = stepsplit_first(w, span->end, true);
	const struct stepsplit_step *a = &w->s->steps[lo], *b;
	int64_t ns;

	if (lo >= hi)
		return 0;
	b = &w->s->steps[hi - 1];
	ns = w->before[hi - 1 - w->first] - w->before[lo - w->first] + b->end - b->start;
	if (a->start < span->start)
		ns -= span->start - a->start;
	if (b->end > span->end)
		ns -= b->end - span->end;
	return (double)ns;
}

static int64_t stepsplit_near(int64_t ns)
{
	return ns < -STEPSPLIT_FAR ? -STEPSPLIT_FAR : ns > STEPSPLIT_FAR ? STEPSPLIT_FAR : ns;
}

/* Room for the steps; where one begins before the one before it ends it is cut. */
static void stepsplit_take(struct stepsplit *s, uint32_t rank, const struct stepsplit_step *steps,
			   size_t n)
{
	int64_t last = INT64_MIN, sum;
	size_t i;

	if (s->n + n > s->cap) {
		s->cap = s->n + n;
		s->steps = xrealloc(s->steps, s->cap, sizeof(*s->steps));
		s->ns = xrealloc(s->ns, s->cap * s->n_parts, sizeof(*s->ns));
	}
	for (i = 0; i < n; i++) {
		struct stepsplit_step *to = &s->steps[s->n];

		*to = steps[i];
		to->rank = rank;
		to->start = stepsplit_near(to->start);
		to->end = stepsplit_near(to->end);
		if (to->start < last)
			to->start = last;
		if (to->end < to->start ||
		    __builtin_add_overflow(s->sum, to->end - to->start, &sum))
			to->end = to->start;
		last = to->end;
		s->sum += to->end - to->start;
		memset(s->ns + s->n * s->n_parts, 0, s->n_parts * sizeof(*s->ns));
		s->n++;
	}
}

/* What of a span lies between the steps. */
static void stepsplit_between(const struct stepsplit_sweep *w, const struct stepsplit_span *span)
{
	struct stepsplit_span cut = *span;
	struct stepsplit *s = w->s;
	double ns;

	if (cut.start < s->steps[w->first].start)
		cut.start = s->steps[w->first].start;
	if (cut.end > s->steps[w->end - 1].end)
		cut.end = s->steps[w->end - 1].end;
	if (cut.end <= cut.start)
		return;
	ns = (double)(cut.end - cut.start) - stepsplit_inside(w, &cut);
	s->outside[span->part] += ns;
	s->n_outside[span->part] += 2 * ns > (double)(cut.end - cut.start);
}

/* The spans in the order of their begins: what is of the steps' thread is swept. */
static void stepsplit_spans(struct stepsplit_sweep *w, struct stepsplit_span *spans, size_t n,
			    uint32_t thread)
{
	struct stepsplit *s = w->s;
	size_t i;

	for (i = 0; i < n; i++) {
		spans[i].start = stepsplit_near(spans[i].start);
		spans[i].end = stepsplit_near(spans[i].end);
	}
	if (n > 0)
		qsort(spans, n, sizeof(*spans), stepsplit_by_begin);
	for (i = 0; i < n; i++) {
		if (spans[i].end <= spans[i].start || spans[i].part >= s->n_parts - 1)
			continue;
		if (spans[i].thread != thread) {
			s->beside[spans[i].part] += stepsplit_inside(w, &spans[i]);
			continue;
		}
		stepsplit_between(w, &spans[i]);
		stepsplit_until(w, spans[i].start);
		if (w->n_open < STEPSPLIT_DEPTH)
			w->open[w->n_open++] = spans[i];
	}
	stepsplit_until(w, INT64_MAX);
}

/* What no span has. */
static void stepsplit_rest(struct stepsplit *s, size_t first)
{
	size_t i, k, other = s->n_parts - 1;
	double used;

	s->total[other] = s->sum;
	for (k = 0; k < other; k++)
		s->total[other] -= s->total[k];
	for (i = first; i < s->n; i++) {
		used = 0;
		for (k = 0; k < other; k++)
			used += (double)s->ns[i * s->n_parts + k];
		used = (double)(s->steps[i].end - s->steps[i].start) - used;
		s->ns[i * s->n_parts + other] = used > 0 ? (float)used : 0;
	}
}

static void stepsplit_place(struct stepsplit *s, uint32_t rank, size_t first, size_t end)
{
	size_t n = (size_t)rank + 1;

	if (n > s->n_ranks) {
		s->ranks = xrealloc(s->ranks, n, sizeof(*s->ranks));
		memset(s->ranks + s->n_ranks, 0, (n - s->n_ranks) * sizeof(*s->ranks));
		s->n_ranks = n;
	}
	s->ranks[rank] = (struct stepsplit_range){first, end};
}

void stepsplit_add(struct stepsplit *s, uint32_t rank, struct stepsplit_step *steps, size_t n_steps,
		   struct stepsplit_span *spans, size_t n_spans)
{
	struct stepsplit_sweep w = {.s = s, .first = s->n, .at = s->n, .now = INT64_MIN};
	size_t i;

	if (n_steps == 0)
		return;
	qsort(steps, n_steps, sizeof(*steps), stepsplit_by_start);
	stepsplit_take(s, rank, steps, n_steps);
	w.end = s->n;
	stepsplit_place(s, rank, w.first, w.end);
	if (__builtin_add_overflow(s->span, s->steps[w.end - 1].end - s->steps[w.first].start,
				   &s->span))
		s->span = INT64_MAX;
	w.before = xcalloc(n_steps, sizeof(*w.before));
	for (i = 1; i < n_steps; i++)
		w.before[i] = w.before[i - 1] + s->steps[w.first + i - 1].end -
			      s->steps[w.first + i - 1].start;
	stepsplit_spans(&w, spans, n_spans, steps[0].thread);
	free(w.before);
	stepsplit_rest(s, w.first);
}

void stepsplit_move(struct stepsplit *s, size_t part, double ns)
{
	size_t other = s->n_parts - 1;
	int64_t n = ns < (double)s->total[other] ? (int64_t)ns : s->total[other];

	if (part >= other || !(ns > 0))
		return;
	s->total[part] += n;
	s->total[other] -= n;
}

/* ---- figures ------------------------------------------------------------------------- */

/* Whole thousandths that add up to 1,000: the largest remainders are rounded up. */
static void stepsplit_share(const double *v, size_t n, int *ret)
{
	double rest[STEPSPLIT_PARTS_MAX], sum = 0;
	int left = 1000;
	size_t i, best;

	for (i = 0; i < n; i++)
		sum += v[i];
	for (i = 0; i < n; i++) {
		rest[i] = sum > 0 ? 1000 * v[i] / sum : 0;
		ret[i] = (int)rest[i];
		rest[i] -= ret[i];
		left -= ret[i];
	}
	for (; sum > 0 && left > 0; left--) {
		for (best = i = 0; i < n; i++)
			if (rest[i] > rest[best])
				best = i;
		ret[best]++;
		rest[best] = -1;
	}
}

void stepsplit_permille(const struct stepsplit *s, int ret[STEPSPLIT_PARTS_MAX])
{
	double v[STEPSPLIT_PARTS_MAX];
	size_t i;

	for (i = 0; i < s->n_parts; i++)
		v[i] = (double)s->total[i];
	stepsplit_share(v, s->n_parts, ret);
}

void stepsplit_permille_of(const struct stepsplit *s, size_t step, int ret[STEPSPLIT_PARTS_MAX])
{
	double v[STEPSPLIT_PARTS_MAX];
	size_t i;

	for (i = 0; i < s->n_parts; i++)
		v[i] = (double)s->ns[step * s->n_parts + i];
	stepsplit_share(v, s->n_parts, ret);
}

static double stepsplit_rank(const double *sorted, size_t n, double q)
{
	size_t at = (size_t)ceil(q * (double)n);

	return sorted[at > 0 ? at - 1 : 0];
}

static double stepsplit_value(const struct stepsplit *s, size_t step, size_t part)
{
	double ns = (double)(s->steps[step].end - s->steps[step].start);
	size_t k;

	if (part < s->n_parts)
		return (double)s->ns[step * s->n_parts + part];
	for (k = 0; part > s->n_parts && k < s->n_parts; k++)
		if (s->role[k] == STEPSPLIT_COMMUNICATION)
			ns -= (double)s->ns[step * s->n_parts + k];
	return ns;
}

struct stepsplit_range stepsplit_range(const struct stepsplit *s, uint32_t rank)
{
	if (rank == UINT32_MAX)
		return (struct stepsplit_range){0, s->n};
	return rank < s->n_ranks ? s->ranks[rank] : (struct stepsplit_range){0, 0};
}

struct stepsplit_spread stepsplit_spread(const struct stepsplit *s, uint32_t rank, size_t part)
{
	struct stepsplit_range of = stepsplit_range(s, rank);
	struct stepsplit_spread r = {NAN, NAN, NAN, NAN, NAN};
	double *v = xcalloc(of.end - of.first + 1, sizeof(*v)), sum = 0;
	size_t i, n = 0;

	for (i = of.first; i < of.end; i++) {
		v[n] = stepsplit_value(s, i, part) / 1e9;
		sum += v[n++];
	}
	if (n > 0) {
		qsort(v, n, sizeof(*v), number_order);
		r.mean = sum / (double)n;
		r.p50 = stepsplit_rank(v, n, 0.50);
		r.p95 = stepsplit_rank(v, n, 0.95);
		r.p99 = stepsplit_rank(v, n, 0.99);
		r.max = v[n - 1];
	}
	free(v);
	return r;
}

static void stepsplit_bin_add(const struct stepsplit *s, struct stepsplit_bin *b, size_t step)
{
	double v = stepsplit_value(s, step, s->n_parts) / 1e9;
	int64_t number = s->steps[step].number;
	size_t k;

	if (b->count == 0 || number < b->first)
		b->first = number;
	if (b->count == 0 || number > b->last)
		b->last = number;
	b->count++;
	b->mean += v;
	b->max = v > b->max ? v : b->max;
	for (k = 0; k < s->n_parts; k++)
		b->parts[k] += stepsplit_value(s, step, k) / 1e9;
}

size_t stepsplit_bins(const struct stepsplit *s, struct stepsplit_bin *ret, size_t n)
{
	int64_t lo = INT64_MAX, hi = INT64_MIN;
	size_t i, k, at, used = 0;
	uint64_t width;

	for (i = 0; i < s->n; i++) {
		lo = s->steps[i].number < lo ? s->steps[i].number : lo;
		hi = s->steps[i].number > hi ? s->steps[i].number : hi;
	}
	if (s->n == 0 || n == 0)
		return 0;
	/* Steps without a number have the lowest one: a distance needs all 64 bits. */
	width = ((uint64_t)hi - (uint64_t)lo) / n + 1;
	memset(ret, 0, n * sizeof(*ret));
	for (i = 0; i < s->n; i++) {
		at = width ? ((uint64_t)s->steps[i].number - (uint64_t)lo) / width : 0;
		stepsplit_bin_add(s, &ret[at], i);
	}
	for (i = 0; i < n; i++) {
		if (ret[i].count == 0)
			continue;
		ret[used] = ret[i];
		ret[used].mean /= (double)ret[used].count;
		for (k = 0; k < s->n_parts; k++)
			ret[used].parts[k] /= (double)ret[used].count;
		used++;
	}
	return used;
}

bool stepsplit_histogram(const struct stepsplit *s, double *edges, uint64_t *counts, size_t n)
{
	double *v, low, high, place;
	size_t i;

	if (s->n == 0 || n == 0)
		return false;
	v = xcalloc(s->n, sizeof(*v));
	for (i = 0; i < s->n; i++)
		v[i] = stepsplit_value(s, i, s->n_parts) / 1e9;
	qsort(v, s->n, sizeof(*v), number_order);
	low = v[0];
	high = stepsplit_rank(v, s->n, 0.995);
	if (!(high > low))
		high = low > 0 ? low * 1.01 : 1e-9;
	for (i = 0; i <= n; i++)
		edges[i] = low + (high - low) * (double)i / (double)n;
	memset(counts, 0, n * sizeof(*counts));
	for (i = 0; i < s->n; i++) {
		place = (v[i] - low) / (high - low) * (double)n;
		counts[place < (double)n ? (size_t)place : n - 1]++;
	}
	free(v);
	return true;
}
