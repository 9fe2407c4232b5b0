/* SPDX-License-Identifier: Apache-2.0 */
#include "alert/surge.h"

#include <math.h>
#include <string.h>

/* Scatter is the largest of these. */
#define SURGE_TENTH                                                                                \
	(1 / 1.2816)     /* of the way from the median to the upper tenth: a standard deviation */
#define SURGE_TAIL 0.375 /* ... to the upper 32nd: for tails that are heavy */
#define SURGE_SHARE 0.03125 /* of the usual value itself */
#define SURGE_RANGE 0.001   /* of the way that the median has come down */
#define SURGE_FADE 4        /* if less now, it goes down by 1/e in this part of all values */

#define SURGE_LENIENT 2 /* after a new beginning */
#define SURGE_ALONE 5   /* a value alone must be so many times as far up */
#define SURGE_PEAK 2    /* ... and so many times as far as any before */
#define SURGE_RECENT 31u

static double surge_max(double a, double b)
{
	return a > b ? a : b;
}

/* First place of the sorted values that is not below x. No branch depends on them: it would be
 * guessed wrong every second time. */
static unsigned surge_place(const double *sorted, unsigned n, double x)
{
	const double *from = sorted;
	unsigned half;

	for (; n > 1; n -= half) {
		half = n / 2;
		from += half * (from[half - 1] < x);
	}
	return (unsigned)(from - sorted) + (n == 1 && *from < x);
}

/* Keep the last `cap` values, also in order. */
static void surge_keep(double *sorted, double *order, unsigned cap, unsigned *n, unsigned *next,
		       double x)
{
	unsigned to = surge_place(sorted, *n, x), from;

	if (*n < cap) {
		memmove(sorted + to + 1, sorted + to, (*n - to) * sizeof(x));
		++*n;
	} else {
		from = surge_place(sorted, cap, order[*next]);
		if (from >= to) {
			memmove(sorted + to + 1, sorted + to, (from - to) * sizeof(x));
		} else {
			to--;
			memmove(sorted + from, sorted + from + 1, (to - from) * sizeof(x));
		}
	}
	sorted[to] = x;
	order[*next] = x;
	*next = (*next + 1) % cap;
}

static void surge_learn(struct surge *s, double x, double away, bool is_high)
{
	const unsigned at = s->next_late;
	const double old = s->late[at].value, old_away = s->late[at].away;
	const bool was_high = s->late[at].is_high;

	s->late[at].value = x;
	s->late[at].away = away;
	s->late[at].is_high = is_high;
	s->next_late = (at + 1) % SURGE_DELAY;
	if (s->n_late < SURGE_DELAY) {
		s->n_late++;
		return;
	}
	s->peak = s->n_near ? surge_max(s->peak, old) : old;
	surge_keep(s->near_sorted, s->near_order, SURGE_NEAR, &s->n_near, &s->next_near, old);
	if (!isnan(old_away))
		surge_keep(s->away_sorted, s->away_order, SURGE_WINDOW, &s->n_away, &s->next_away,
			   old_away);
	s->has_stray = s->has_stray || was_high;
	s->seen += s->seen < SURGE_LONG;
	s->again -= s->again > 0;
	if (s->n_near < SURGE_LEAST)
		return;
	if (s->seen == SURGE_LEAST)
		s->level = s->top = s->near_sorted[0];
	s->level = surge_max(s->level, s->near_sorted[s->n_near / 2]);
	s->top = surge_max(s->top, s->near_sorted[s->n_near - 1 - s->n_near / 16]);
}

/* How far above what is usual is high. */
static double surge_measure(struct surge *s, double times)
{
	unsigned n = s->n_away;
	double level = s->near_sorted[s->n_near / 2], median = s->away_sorted[n / 2];
	double scatter = SURGE_TENTH * (s->away_sorted[n - 1 - n / 10] - median);

	scatter = surge_max(scatter, SURGE_TAIL * (s->away_sorted[n - 1 - n / 32] - median));
	s->scatter = surge_max(scatter, s->scatter * (1 - SURGE_FADE / (double)s->seen));
	s->usual = s->again ? surge_max(level, s->top) : level;
	scatter = surge_max(s->scatter, SURGE_SHARE * fabs(s->usual));
	scatter = surge_max(scatter, SURGE_RANGE * (s->level - level));
	s->limit = s->usual + times * scatter * (s->again ? SURGE_LENIENT : 1);
	return s->limit - s->usual;
}

static enum surge_is surge_judge(struct surge *s, int64_t time_ns, double x, double times)
{
	double far = surge_measure(s, times), up = x - s->usual;
	/* Of what was always 0 nobody knows what is far. */
	bool is_high = far > 0 && up >= far;
	bool is_alone =
		is_high && up >= SURGE_ALONE * far && up >= SURGE_PEAK * (s->peak - s->usual);

	if (is_high && !(s->high & (SURGE_RECENT >> 1))) {
		s->begin_ns = time_ns;
		s->highest = x;
	}
	s->high = s->high << 1 | is_high;
	if (!is_high)
		return up < far / 2 || up <= 0 ? SURGE_IS_USUAL : SURGE_IS_BETWEEN;
	s->highest = surge_max(s->highest, x);
	return is_alone || __builtin_popcount(s->high & SURGE_RECENT) >=
				       (s->has_stray ? 5 : SURGE_OF_FIVE)
		       ? SURGE_IS_HIGH
		       : SURGE_IS_BETWEEN;
}

enum surge_is surge_add(struct surge *s, int64_t time_ns, int64_t step, double x, double times,
			bool is_frozen)
{
	enum surge_is is = SURGE_IS_UNKNOWN;
	double away = NAN;

	if (step < s->step && step != INT64_MIN)
		surge_again(s);
	s->step = step;
	if (s->n_away >= SURGE_LEAST)
		is = surge_judge(s, time_ns, x, times);
	if (is_frozen) {
		s->n_late = s->next_late = 0;
		return is;
	}
	if (s->n_near >= SURGE_LEAST)
		away = x - s->near_sorted[s->n_near / 2];
	surge_learn(s, x, away, is >= SURGE_IS_BETWEEN && (s->high & 1));
	return is;
}

void surge_again(struct surge *s)
{
	s->again = SURGE_WINDOW;
}
