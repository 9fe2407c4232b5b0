/* SPDX-License-Identifier: Apache-2.0 */
#include "alert/steps.h"

#include <math.h>
#include <string.h>

#define STEPS_BIN_NS 1000000000LL
#define STEPS_LEAST 10 /* fewer steps in the last minute say nothing */
#define STEPS_USUAL_NS 60000000000LL
#define STEPS_BESIDE 10 /* who is so near to the last leader's step number goes along with it */

double steps_period_s(struct steps *s)
{
	double amount = s->by && s->amount > 0 ? s->amount : 1;

	return spread_median(&s->usual) * amount;
}

static bool steps_has_usual(const struct steps *s)
{
	return s->usual.count >= STEPS_USUAL && s->warm_ns &&
	       s->leader_ns - s->warm_ns >= STEPS_USUAL_NS;
}

/* ---- the last minute -------------------------------------------------------------------- */

static void steps_clear_bins(struct steps *s)
{
	memset(s->bins, 0, sizeof(s->bins));
	s->all = s->slow_n = 0;
	s->bin = 0;
}

static void steps_count(struct steps *s, int64_t end_ns, bool slow)
{
	uint64_t bin = (uint64_t)end_ns / (uint64_t)s->bin_ns, i;

	if (bin < s->bin || bin - s->bin >= STEPS_BINS) {
		steps_clear_bins(s);
		s->bin = bin;
	}
	for (i = s->bin + 1; i <= bin; i++) {
		s->all -= s->bins[i % STEPS_BINS].all;
		s->slow_n -= s->bins[i % STEPS_BINS].slow;
		memset(&s->bins[i % STEPS_BINS], 0, sizeof(*s->bins));
	}
	s->bin = bin;
	s->bins[bin % STEPS_BINS].all++;
	s->bins[bin % STEPS_BINS].slow += slow;
	s->all++;
	s->slow_n += slow;
}

double steps_slow_share(struct steps *s)
{
	return s->all < STEPS_LEAST ? NAN : (double)s->slow_n / s->all;
}

/* ---- a step -------------------------------------------------------------------------------- */

/* By what steps are measured; another measure makes another usual step. */
static double steps_take_amount(struct steps *s)
{
	unsigned by = s->tokens > 0 ? 2 : s->samples > 0 ? 1 : 0;
	double amount = by == 2 ? s->tokens : by == 1 ? s->samples : 1;

	if (by != s->by) {
		s->by = by;
		s->amount = amount;
		memset(&s->usual, 0, sizeof(s->usual));
		steps_clear_bins(s);
	}
	s->amount += (amount - s->amount) / 16;
	s->samples = s->tokens = 0;
	return amount;
}

/* The step before is complete. */
static void steps_settle(struct steps *s)
{
	double slow = s->slow > 0 ? s->slow : STEPS_SLOW, cost, median;
	int64_t width;

	if (!s->has_period)
		return;
	s->has_period = false;
	cost = s->period_s / steps_take_amount(s);
	if (!steps_has_usual(s)) {
		spread_add(&s->usual, cost);
		return;
	}
	median = spread_median(&s->usual);
	width = (int64_t)(steps_period_s(s) * 1e9);
	width = width > STEPS_BIN_NS ? width : STEPS_BIN_NS;
	if (width > s->bin_ns + s->bin_ns / 4 || width < s->bin_ns - s->bin_ns / 4) {
		s->bin_ns = width;
		steps_clear_bins(s);
	}
	steps_count(s, s->leader_ns, cost > slow * median);
	if (!s->frozen && 2 * s->slow_n <= s->all)
		spread_add(&s->usual, cost);
}

static void steps_pace(struct steps *s, int64_t end_ns, int64_t step)
{
	double period_s = (double)(end_ns - s->leader_ns) / 1e9;
	bool again = step <= s->step; /* a resume inside the process */

	steps_settle(s);
	s->n++;
	if (s->n > STEPS_WARM_UP && !again) {
		if (!s->warm_ns)
			s->warm_ns = s->leader_ns;
		s->period_s = period_s;
		s->has_period = true;
		s->recent_s += (period_s - s->recent_s) / (s->recent_s > 0 ? 8 : 1);
	}
	s->leader_ns = end_ns;
}

static void steps_forget(struct steps *s)
{
	struct steps kept = {.slow = s->slow,
			     .total = s->total,
			     .last_ns = s->last_ns,
			     .life_ns = s->life_ns,
			     .frozen = s->frozen};

	*s = kept;
}

/* A process of the same training, in step with the one that is gone, knows its pace. Another
 * training, or a beginning from a checkpoint, has its own. */
static void steps_lead(struct steps *s, uint32_t process, int64_t end_ns, int64_t step, bool is_new)
{
	int64_t apart;

	if (is_new || __builtin_sub_overflow(step, s->step, &apart) || apart > STEPS_BESIDE ||
	    apart < -STEPS_BESIDE) {
		steps_forget(s);
		step = INT64_MIN;
	}
	s->leader = process;
	s->leader_ns = end_ns;
	s->step = step;
}

void steps_add(struct steps *s, uint32_t process, int64_t end_ns, int64_t step, bool is_new)
{
	double pause_s = s->last_ns ? (double)(end_ns - s->last_ns) / 1e9 : 0;

	if (!s->leader)
		steps_lead(s, process, end_ns, step, is_new);
	if (process == s->leader && (end_ns > s->leader_ns || !s->n)) {
		steps_pace(s, end_ns, step);
		s->step = step;
	}
	if (end_ns <= s->last_ns)
		return;
	if (s->n > STEPS_WARM_UP && !s->frozen && pause_s > s->longest_s &&
	    pause_s <= STEPS_PAUSE_MAX_S)
		s->longest_s = pause_s;
	s->last_ns = end_ns;
}

void steps_samples(struct steps *s, uint32_t process, double samples)
{
	if (process == s->leader)
		s->samples = samples;
}

void steps_tokens(struct steps *s, uint32_t process, double tokens)
{
	if (process == s->leader)
		s->tokens = tokens;
}

void steps_leave(struct steps *s, uint32_t process)
{
	if (process != s->leader)
		return;
	s->leader = 0;
	s->has_period = false;
	s->samples = s->tokens = 0;
}

void steps_end(struct steps *s)
{
	steps_forget(s);
	s->last_ns = s->life_ns = 0;
}

void steps_skip(struct steps *s, int64_t now_ns)
{
	if (s->last_ns)
		s->last_ns = s->leader_ns = now_ns;
	s->has_period = false;
}

void steps_live(struct steps *s, int64_t now_ns)
{
	s->life_ns = now_ns;
}

/* ---- what is asked -----------------------------------------------------------------------------
 */

static double steps_max(double a, double b)
{
	return a > b ? a : b;
}

bool steps_quiet(struct steps *s, int64_t now_ns, double least_s, bool busy, double *ret_s,
		 double *ret_limit_s)
{
	double period_s = steps_period_s(s), limit_s = least_s;
	int64_t since_ns = s->life_ns > s->last_ns ? s->life_ns : s->last_ns;

	if (!s->last_ns || (s->total > 0 && s->step + 1 >= s->total))
		return false;
	if (period_s > 0)
		limit_s = steps_max(limit_s, 10 * period_s);
	if (s->n > STEPS_WARM_UP)
		limit_s = steps_max(limit_s, 2 * s->longest_s);
	if (s->n <= STEPS_WARM_UP || busy)
		limit_s = steps_max(limit_s, least_s / 60 * STEPS_COLD_S);
	*ret_s = (double)(now_ns - since_ns) / 1e9;
	*ret_limit_s = limit_s;
	return true;
}

bool steps_is_going(struct steps *s, int64_t now_ns)
{
	double period_s = steps_period_s(s);

	return s->last_ns && (double)(now_ns - s->last_ns) / 1e9 <=
				     steps_max(10, period_s > 0 ? 3 * period_s : 0);
}

bool steps_is_settled(const struct steps *s)
{
	return s->n > STEPS_WARM_UP;
}
