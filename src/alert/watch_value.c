/* SPDX-License-Identifier: Apache-2.0
 *
 * watch_value.c - a value comes: is it wrong? And what only time tells.
 */
#include "alert/watch_priv.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WATCH_COLD_NS 600000000000LL  /* without steps a run is settled after this */
#define WATCH_LOST_NS 300000000000LL  /* what fires and is not read any more is over */
#define WATCH_USED 60                 /* readings above 0 that make a GPU the run's */
#define WATCH_USED_SHARE 0.3          /* or such a mean */
#define WATCH_GREW 0.001              /* of a file system: share that was taken since the start */
#define WATCH_BEFORE_NS 60000000000LL /* evidence begins so long before */
#define WATCH_LATELY_NS 5000000000LL  /* records were lost just now */
#define WATCH_FULL 0.9                /* so full memory does not wait for the first steps */
#define WATCH_CPUS 0.25               /* fewer say nothing of whether a program works */
#define WATCH_WORKING 0.7             /* of the usual power or CPUs */
#define WATCH_COOL_MAX 6              /* a pause after an alert doubles so often at most */
#define WATCH_RATE_NS 5000000000LL    /* so long a rate may be read after what it does to losses */

/* ---- beginning and ending an alert ------------------------------------------------------------
 */

/* What a row that is no series' own looks at. */
struct watch_reading {
	uint32_t series;
	int64_t since_ns;
	double value, limit, usual;
};

/* NULL: the row has as many as it tells. */
static struct watch_alert *watch_new_alert(struct watch *w, struct watch_row *row, uint32_t series,
					   int64_t since_ns, double value)
{
	struct watch_alert *a;
	int64_t before = row->rule.hold_ns > WATCH_BEFORE_NS ? row->rule.hold_ns : WATCH_BEFORE_NS;

	if (row->told >= row->rule.most)
		return NULL;
	if (row->rule.test == RULE_FORECAST)
		before = row->rule.span_ns;
	row->told++;
	a = xcalloc(1, sizeof(*a));
	a->series_id = series;
	a->process = series ? w->slots[series].owner : w->command;
	a->since_ns = since_ns;
	a->from_ns = since_ns - before;
	a->value = value;
	a->limit = row->rule.limit;
	if (series)
		watch_name(w, series, a->series);
	return a;
}

static void watch_end_alert(struct watch *w, struct watch_row *row, struct watch_alert **at,
			    int64_t time_ns, enum watch_why why)
{
	if (!*at)
		return;
	time_ns = time_ns > (*at)->since_ns ? time_ns : (*at)->since_ns;
	watch_resolve(w, row, *at, time_ns, why);
	free(*at);
	*at = NULL;
	row->told--;
}

/* The step of a state that a whole row has. */
static void watch_row_step(struct watch *w, struct watch_row *row, enum rule_verdict v,
			   const struct watch_reading *at)
{
	enum rule_news news = rule_step(&row->rule, &row->state, w->now_ns, v);

	if (news == RULE_RESOLVED)
		watch_end_alert(w, row, &row->alert, w->now_ns, WATCH_WHY_GOOD);
	if (news != RULE_FIRED)
		return;
	row->alert = watch_new_alert(w, row, at->series, at->since_ns, at->value);
	if (!row->alert)
		return;
	row->alert->limit = at->limit;
	watch_fire(w, row, row->alert, w->now_ns, at->usual, NAN);
}

void watch_supersede(struct watch *w, struct watch_row *row)
{
	size_t i;

	row->superseded = true;
	for (i = 1; i < w->n_instances; i++) {
		struct watch_instance *in = &w->instances[i];

		if (&w->rows[in->row] == row) {
			watch_end_alert(w, row, &in->alert, w->now_ns, WATCH_WHY_BETTER);
			memset(&in->state, 0, sizeof(in->state));
		}
	}
}

/* ---- NaN
 * ------------------------------------------------------------------------------------------ */

static void watch_trip(struct watch *w, struct watch_slot *slot, struct watch_row *row,
		       const struct sink_sample *v)
{
	if (!(slot->flags & WATCH_TRIPPED)) {
		slot->flags |= WATCH_TRIPPED;
		row->tripped++;
	}
	if (row->state.at == RULE_FIRING || v->time_ns < row->state.cool_ns)
		return;
	row->state.at = RULE_FIRING;
	row->alert = watch_new_alert(w, row, v->series, v->time_ns, v->value);
	if (row->alert)
		watch_fire(w, row, row->alert, v->time_ns, NAN, NAN);
}

static void watch_untrip(struct watch *w, struct watch_slot *slot, struct watch_row *row,
			 int64_t time_ns, enum watch_why why)
{
	slot->flags &= (uint8_t)~WATCH_TRIPPED;
	row->tripped--;
	if (row->tripped || row->state.at != RULE_FIRING)
		return;
	row->state.at = RULE_OK;
	row->state.cool_ns = time_ns + row->rule.cooldown_ns;
	watch_end_alert(w, row, &row->alert, time_ns, why);
}

static void watch_nan(struct watch *w, struct watch_slot *slot, const struct sink_sample *v)
{
	struct watch_row *row = &w->rows[slot->nan - 1];
	const struct rule *r = &row->rule;

	if (isfinite(v->value)) {
		slot->bad = 0;
		slot->good += slot->good < UINT8_MAX;
		if ((slot->flags & WATCH_TRIPPED) && slot->good >= r->clear_n)
			watch_untrip(w, slot, row, v->time_ns, WATCH_WHY_GOOD);
		return;
	}
	if (slot->bad == 0) {
		slot->flags &= (uint8_t)~WATCH_ARMED;
		slot->flags |= slot->good >= r->skip ? WATCH_ARMED : 0;
	}
	slot->good = 0;
	slot->bad += slot->bad < UINT8_MAX;
	if (((slot->flags & WATCH_ARMED) && slot->bad >= r->hold) ||
	    (r->cold && slot->bad >= r->cold))
		watch_trip(w, slot, row, v);
}

/* ---- gates
 * ------------------------------------------------------------------------------------------ */

static bool watch_is_settled(struct watch *w)
{
	return w->steps.last_ns ? steps_is_settled(&w->steps)
				: w->now_ns - w->began_ns >= WATCH_COLD_NS;
}

static bool watch_is_open(struct watch *w, const struct rule *r, const struct watch_instance *in,
			  double x)
{
	if ((r->gates & RULE_TRAINING) && !steps_is_going(&w->steps, w->now_ns))
		return false;
	if ((r->gates & RULE_STEPLESS) && w->steps.last_ns)
		return false;
	/* A forecast must not be made from what rose before. */
	if ((r->gates & RULE_SETTLED) &&
	    (!w->settled_ns || w->now_ns - w->settled_ns < r->span_ns) &&
	    !(r->test == RULE_FORECAST && x >= WATCH_FULL))
		return false;
	if ((r->gates & RULE_NOT_ASIDE) && w->is_aside)
		return false;
	return !(r->gates & RULE_IN_USE) || in->in_use;
}

/* A GPU is the run's if it worked during its steps; a file system if space was taken. */
static void watch_note_use(struct watch *w, const struct rule *r, struct watch_instance *in,
			   double x)
{
	if (in->in_use || !(r->gates & RULE_IN_USE))
		return;
	if (r->of) {
		in->in_use = x > in->first + WATCH_GREW;
		return;
	}
	if (w->steps.last_ns && !steps_is_going(&w->steps, w->now_ns))
		return;
	in->positive += x > 0;
	in->in_use = in->positive >= WATCH_USED || in->mean >= WATCH_USED_SHARE;
}

/* ---- an instance
 * --------------------------------------------------------------------------------------- */

/* False: there is nothing to look at yet. */
static bool watch_share(const struct rule *r, const struct watch_instance *in, double *x)
{
	if (!r->of)
		return true;
	if (!in->has_of || !(in->of > 0) || *x > in->of * 1.02)
		return false;
	*x /= in->of;
	if (r->rest)
		*x = 1 - *x;
	return true;
}

static double watch_smooth(const struct rule *r, struct watch_instance *in, int64_t time_ns,
			   double x)
{
	double dt = (double)(time_ns - in->mean_ns);

	if (!in->has_mean || dt < 0 || dt > 4.0 * (double)r->smooth_ns)
		in->mean = x;
	else
		in->mean += (x - in->mean) * dt / (dt + (double)r->smooth_ns);
	in->has_mean = true;
	in->mean_ns = time_ns;
	return in->mean;
}

/* False: there is no verdict on this value. */
static bool watch_forecast(const struct rule *r, struct watch_instance *in, int64_t time_ns,
			   double x, enum rule_verdict *ret, double *ret_left_s)
{
	double slope, level, left;

	if (!fit_add(in->fit, time_ns, x))
		return false;
	slope = fit_slope(in->fit);
	level = fit_level(in->fit);
	left = slope > 0 ? (r->limit - level) / slope : INFINITY;
	*ret_left_s = left > 0 ? left : 0;
	*ret = RULE_BETWEEN;
	if (left <= (double)r->horizon_ns / 1e9 && level >= r->least)
		*ret = RULE_BAD;
	else if (!(left <= 2 * (double)r->horizon_ns / 1e9) || level < r->least)
		*ret = RULE_GOOD;
	return true;
}

/* Values of a series that was fine make up what is usual. */
static bool watch_multiple(const struct rule *r, struct watch_instance *in, double x,
			   enum rule_verdict *ret, double *ret_usual)
{
	double usual = spread_median(in->spread);

	*ret_usual = usual;
	*ret = in->spread->count < r->skip ? RULE_BETWEEN : rule_judge(r, x, usual);
	if (*ret != RULE_BAD && in->state.at == RULE_OK)
		spread_add(in->spread, x);
	return true;
}

/* A rate that more than doubles is a new beginning for the losses of its process, and of those
 * that tell none: mostly one rank does so for all. */
static void watch_rate(struct watch *w, struct watch_instance *in, int64_t time_ns, double x)
{
	size_t i;

	w->processes[in->process] |= WATCH_RATED;
	for (i = 1; in->has_mean && x > 2 * in->mean && i < w->n_instances; i++) {
		const struct watch_instance *of = &w->instances[i];

		if (of->surge &&
		    (of->process == in->process || !(w->processes[of->process] & WATCH_RATED)))
			surge_again(of->surge);
	}
	in->has_mean = true;
	in->mean = x;
	in->state.last_ns = time_ns;
	w->rate_ns = time_ns > w->rate_ns ? time_ns : w->rate_ns;
}

/* Another process tells the rate, and what it told when the loss rose is not read yet. */
static bool watch_awaits_rate(const struct watch *w, const struct watch_instance *in,
			      int64_t since_ns, int64_t time_ns)
{
	return w->rate_ns && !(w->processes[in->process] & WATCH_RATED) && since_ns > w->rate_ns &&
	       time_ns - w->rate_ns < WATCH_RATE_NS;
}

static enum rule_verdict watch_surge(const struct rule *r, struct watch_instance *in,
				     const struct sink_sample *v, struct watch_reading *at)
{
	static const enum rule_verdict verdicts[] = {[SURGE_IS_UNKNOWN] = RULE_BETWEEN,
						     [SURGE_IS_USUAL] = RULE_GOOD,
						     [SURGE_IS_BETWEEN] = RULE_BETWEEN,
						     [SURGE_IS_HIGH] = RULE_BAD};
	struct surge *s = in->surge;
	enum surge_is is =
		surge_add(s, v->time_ns, v->step, v->value, r->limit, in->state.at == RULE_FIRING);

	at->usual = s->usual;
	at->limit = s->limit;
	at->value = s->highest;
	at->since_ns = s->begin_ns;
	return verdicts[is];
}

/* Losses rise together, and again and again: all of them are waited for, longer and longer. */
static void watch_rest(struct watch_row *row, int64_t time_ns)
{
	row->rest_ns = time_ns + (row->rule.cooldown_ns << row->over);
	row->over += row->over < WATCH_COOL_MAX;
}

static void watch_judged(struct watch *w, struct watch_row *row, struct watch_instance *in,
			 int64_t time_ns, enum rule_verdict verdict, struct watch_reading *at,
			 double left_s)
{
	enum rule_news news;

	if (in->state.cool_ns < row->rest_ns)
		in->state.cool_ns = row->rest_ns;
	news = rule_step(&row->rule, &in->state, time_ns, verdict);
	if (news == RULE_RESOLVED) {
		if (in->surge && in->alert)
			watch_rest(row, time_ns);
		watch_end_alert(w, row, &in->alert, time_ns, WATCH_WHY_GOOD);
	}
	if (news != RULE_FIRED)
		return;
	in->alert = watch_new_alert(w, row, in->series,
				    in->surge ? at->since_ns : in->state.since_ns, at->value);
	if (!in->alert)
		return;
	in->alert->of_id = in->of_series;
	in->alert->limit = at->limit;
	watch_fire(w, row, in->alert, time_ns, at->usual, left_s);
}

static void watch_look(struct watch *w, struct watch_instance *in, const struct sink_sample *v)
{
	struct watch_row *row = &w->rows[in->row];
	const struct rule *r = &row->rule;
	struct watch_reading at = {.value = v->value, .limit = r->limit, .usual = NAN};
	/* What is read again after a commit that failed was seen. */
	const bool is_again = v->time_ns < in->state.last_ns;
	enum rule_verdict verdict;
	double left_s = NAN;

	if (row->superseded || !isfinite(at.value) || !watch_share(r, in, &at.value))
		return;
	if (!in->has_first) {
		in->has_first = true;
		in->first = at.value;
	}
	if (r->smooth_ns)
		at.value = watch_smooth(r, in, v->time_ns, at.value);
	watch_note_use(w, r, in, r->of ? at.value : v->value);
	switch (r->test) {
	case RULE_FORECAST:
		if (!watch_forecast(r, in, v->time_ns, at.value, &verdict, &left_s))
			return;
		break;
	case RULE_MULTIPLE:
		watch_multiple(r, in, at.value, &verdict, &at.usual);
		at.limit = r->limit * at.usual;
		break;
	case RULE_RAISED:
		if (!is_again)
			watch_rate(w, in, v->time_ns, at.value);
		return;
	case RULE_SURGE:
		if (is_again)
			return;
		verdict = watch_surge(r, in, v, &at);
		if (verdict == RULE_BAD && watch_awaits_rate(w, in, at.since_ns, v->time_ns))
			verdict = RULE_BETWEEN;
		break;
	default:
		verdict = rule_judge(r, at.value, NAN);
	}
	if (verdict == RULE_BAD && !watch_is_open(w, r, in, at.value))
		verdict = RULE_BETWEEN;
	watch_judged(w, row, in, v->time_ns, verdict, &at, left_s);
}

static void watch_gone_instance(struct watch *w, struct watch_instance *in, int64_t time_ns)
{
	struct watch_row *row = &w->rows[in->row];

	if (row->rule.from != RULE_FROM_PROGRAM || in->state.at == RULE_OK)
		return;
	/* Its end may be known less exactly than its values. */
	time_ns = time_ns > in->state.last_ns ? time_ns : in->state.last_ns;
	if (in->state.at == RULE_FIRING)
		in->state.cool_ns = time_ns + row->rule.cooldown_ns;
	in->state.at = RULE_OK;
	in->state.n = 0;
	if (in->surge && in->alert)
		watch_rest(row, time_ns);
	watch_end_alert(w, row, &in->alert, time_ns, WATCH_WHY_PROCESS);
}

void watch_gone(struct watch *w, uint32_t process, int64_t time_ns)
{
	bool any = false;
	size_t i;

	/* What a program says of itself need not be a time. */
	if (time_ns > w->wall_ns + WATCH_AHEAD_NS)
		time_ns = w->now_ns;
	for (i = 0; i < builtin_n_rules; i++)
		any = any || w->rows[i].tripped;
	for (i = 0; any && i < w->n_slots; i++)
		if (w->slots[i].owner == process && (w->slots[i].flags & WATCH_TRIPPED))
			watch_untrip(w, &w->slots[i], &w->rows[w->slots[i].nan - 1], time_ns,
				     WATCH_WHY_PROCESS);
	for (i = 1; i < w->n_instances; i++)
		if (w->instances[i].process == process)
			watch_gone_instance(w, &w->instances[i], time_ns);
}

/* ---- a sample
 * ---------------------------------------------------------------------------------------------- */

/* A mean over the last `over` seconds, exponential; before them of all there was. */
static void watch_mean(double *mean, double *mean_s, double value, double dt, double over)
{
	*mean_s = *mean_s + dt < over ? *mean_s + dt : over;
	*mean += (value - *mean) * dt / (dt < *mean_s ? *mean_s : dt);
}

static void watch_load(struct watch *w, struct watch_slot *slot, const struct sink_sample *v)
{
	struct watch_load *l = &w->loads[slot->good];
	double dt = (double)(v->time_ns - l->last_ns) / 1e9;

	if (!isfinite(v->value) || dt <= 0)
		return;
	dt = dt > 10 ? 10 : dt;
	l->last_ns = v->time_ns;
	watch_mean(&l->now, &l->now_s, v->value, dt, 15);
	if (steps_is_going(&w->steps, w->now_ns))
		watch_mean(&l->usual, &l->usual_s, v->value, dt, 120);
}

void watch_sample(struct watch *w, struct watch_slot *slot, const struct sink_sample *v)
{
	uint16_t i;

	if (slot->nan)
		watch_nan(w, slot, v);
	if (slot->flags & WATCH_FED) {
		if (slot->flags & WATCH_STEP)
			watch_step(w, slot, v);
		else if (slot->flags & WATCH_SAMPLES)
			steps_samples(&w->steps, slot->owner, v->value);
		else if (slot->flags & WATCH_TOKENS)
			steps_tokens(&w->steps, slot->owner, v->value);
		else
			watch_load(w, slot, v);
	}
	for (i = slot->of; i; i = w->instances[i].of_next) {
		w->instances[i].of = v->value;
		w->instances[i].has_of = true;
	}
	for (i = slot->instance; i; i = w->instances[i].next)
		watch_look(w, &w->instances[i], v);
}

/* ---- what time tells
 * -------------------------------------------------------------------------------------------- */

/* Power of the GPU that works most, else CPUs: nearly as much as during steps? A program
 * that waits for others draws far less. */
static bool watch_is_working(const struct watch *w)
{
	const struct watch_load *most = &w->loads[0];
	unsigned i;

	for (i = 1; i <= w->n_loads; i++)
		if (i == 1 || w->loads[i].usual > most->usual)
			most = &w->loads[i];
	return most->usual > (w->n_loads ? 0 : WATCH_CPUS) &&
	       most->now >= WATCH_WORKING * most->usual;
}

static void watch_quiet(struct watch *w, struct watch_row *row)
{
	struct watch_reading at = {.series = w->step_series,
				   .since_ns = w->steps.last_ns > w->steps.life_ns
						       ? w->steps.last_ns
						       : w->steps.life_ns,
				   .usual = steps_period_s(&w->steps)};
	bool busy = w->is_aside || watch_is_working(w), is_known;
	enum rule_verdict v;

	is_known = w->stepping &&
		   steps_quiet(&w->steps, w->now_ns, row->rule.limit, busy, &at.value, &at.limit);
	v = is_known && at.value >= at.limit ? RULE_BAD : RULE_GOOD;
	/* What was a stall stays one until a step ends, also if its process is killed. */
	if (v == RULE_GOOD && row->alert && w->step_ns <= row->alert->since_ns)
		v = RULE_BETWEEN;
	watch_row_step(w, row, v, &at);
}

static void watch_pace(struct watch *w, struct watch_row *row)
{
	double share = steps_slow_share(&w->steps);
	enum rule_verdict v = share > 0.5 ? RULE_BAD : share < 0.25 ? RULE_GOOD : RULE_BETWEEN;
	struct watch_reading at = {.series = w->step_series,
				   .since_ns = w->now_ns - WATCH_BEFORE_NS,
				   .value = w->steps.recent_s,
				   .usual = steps_period_s(&w->steps)};

	at.limit = row->rule.limit * at.usual;
	if (!w->stepping)
		v = RULE_GOOD;
	else if (!steps_is_going(&w->steps, w->now_ns))
		v = RULE_BETWEEN;
	watch_row_step(w, row, v, &at);
}

static void watch_losses(struct watch *w, struct watch_row *row)
{
	bool lately = w->lost && w->now_ns - w->loss_ns < WATCH_LATELY_NS;
	const struct watch_reading at = {.since_ns = w->loss_ns,
					 .value = (double)w->lost,
					 .limit = row->rule.limit,
					 .usual = NAN};

	watch_row_step(w, row, lately ? RULE_BAD : RULE_GOOD, &at);
}

static void watch_look_for_lost(struct watch *w)
{
	size_t i;

	for (i = 1; i < w->n_instances; i++) {
		struct watch_instance *in = &w->instances[i];

		if (!in->alert || w->now_ns - in->state.last_ns < WATCH_LOST_NS ||
		    w->rows[in->row].rule.from != RULE_FROM_MACHINE)
			continue;
		watch_end_alert(w, &w->rows[in->row], &in->alert, w->now_ns, WATCH_WHY_UNREAD);
		memset(&in->state, 0, sizeof(in->state));
	}
}

void watch_tick(struct watch *w)
{
	static void (*const looks[])(struct watch * w, struct watch_row * row) = {
		[RULE_OF_QUIET] = watch_quiet,
		[RULE_OF_PACE] = watch_pace,
		[RULE_OF_LOSSES] = watch_losses,
		[RULE_OF_OUTCOME] = NULL,
	};
	bool frozen = false, any = false;
	size_t i;

	if (!watch_is_settled(w))
		w->settled_ns = 0;
	else if (!w->settled_ns)
		w->settled_ns = w->now_ns;

	for (i = 0; i < builtin_n_rules; i++) {
		struct watch_row *row = &w->rows[i];

		any = any || row->told;
		if (row->off || row->rule.what == RULE_OF_SERIES || !looks[row->rule.what])
			continue;
		looks[row->rule.what](w, row);
		frozen = frozen ||
			 (row->rule.what != RULE_OF_LOSSES && row->state.at == RULE_FIRING);
	}
	w->steps.frozen = frozen;
	if (any)
		watch_look_for_lost(w);
}
