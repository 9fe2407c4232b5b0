/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/plan.h"

#include <errno.h>

#include "base/mem.h"
#include "simulate/rng.h"

#define PLAN_YEARS_NS 3150000000000000000LL /* 99.8 years: what nanoseconds can hold */
#define PLAN_KEY_STEP 0x53544550u
#define PLAN_KEY_RANK 0x52414e4bu

/* Parts of a step's base time, per mille; sync gets the rest, or backward where
 * there is only one rank. */
#define PLAN_DATA_PM 100
#define PLAN_FORWARD_PM 260
#define PLAN_BACKWARD_PM 460
#define PLAN_OPTIMIZER_PM 70
#define PLAN_COMPUTE_PM (PLAN_FORWARD_PM + PLAN_BACKWARD_PM)

/* ---- random numbers ---------------------------------------------------------- */

uint64_t plan_bits(uint64_t key, int64_t index)
{
	struct rng r;

	rng_init(&r, key, (uint64_t)index);
	return rng_u64(&r);
}

double plan_unit(uint64_t key, int64_t index)
{
	return (double)(plan_bits(key, index) >> 11) * 0x1p-53;
}

/* The sum of four numbers of 16 bits: exact, and bounded. */
double plan_bell(uint64_t key, int64_t index)
{
	uint64_t u = plan_bits(key, index);
	int sum = (int)(u & 0xffff) + (int)(u >> 16 & 0xffff) + (int)(u >> 32 & 0xffff) +
		  (int)(u >> 48);

	return (double)(sum - 131070) / 131070.0;
}

/* ---- steps and what comes after every n of them ------------------------------- */

int64_t plan_step(const struct plan *p, int64_t index)
{
	return index < p->split ? index : index - p->split + p->again;
}

bool plan_is_due(const struct plan *p, int64_t every, int64_t index)
{
	return (plan_step(p, index) + 1) % every == 0;
}

int64_t plan_count(const struct plan *p, int64_t every, int64_t index)
{
	if (index <= p->split)
		return index / every;
	return p->split / every + (index - p->split + p->again) / every - p->again / every;
}

int64_t plan_index(const struct plan *p, int64_t every, int64_t k)
{
	int64_t first = p->split / every;

	if (k < first)
		return (k + 1) * every - 1;
	return (p->again / every + k - first + 1) * every - 1 - p->again + p->split;
}

int64_t plan_epoch_first(const struct plan *p, int64_t index)
{
	int64_t first = index - p->epoch_every + 1;

	return index >= p->split && first < p->split ? p->split : first < 0 ? 0 : first;
}

/* ---- time ----------------------------------------------------------------------- */

const struct fault *plan_fault_step(const struct plan *p, enum fault_kind kind, int64_t index)
{
	return fault_at_step(p->faults, p->n_faults, kind, index);
}

const struct fault *plan_fault_ns(const struct plan *p, enum fault_kind kind, int64_t ns)
{
	return fault_at_ns(p->faults, p->n_faults, kind, ns);
}

static int64_t plan_part(const struct plan *p, double per_mille)
{
	return (int64_t)((double)p->o.period_ns * per_mille / 1000.0);
}

/* What a fault adds to each of its steps. */
static int64_t plan_extra(const struct plan *p, const struct fault *f)
{
	switch (f->kind) {
	case FAULT_STALL:
		return (int64_t)(f->strength * 1e9);
	case FAULT_SLOW_RANK:
		return plan_part(p, (f->strength - 1) * PLAN_COMPUTE_PM);
	case FAULT_THROTTLING:
		return plan_part(p, (1 / f->strength - 1) * PLAN_COMPUTE_PM);
	case FAULT_SLOW_DATA:
	case FAULT_WORKER_DEATH:
		return plan_part(p, (f->strength - 1) * PLAN_DATA_PM);
	case FAULT_IO_WAIT:
		return plan_part(p, PLAN_DATA_PM);
	default:
		return 0;
	}
}

int64_t plan_begin(const struct plan *p, int64_t index)
{
	int64_t t = index * p->o.period_ns, n;
	unsigned i;

	t += plan_count(p, p->eval_every, index) * p->eval_ns;
	t += plan_count(p, p->checkpoint_every, index) * p->checkpoint_ns;
	if (index > 0)
		t += p->warmup_ns;
	if (index >= p->split && p->split < p->total)
		t += p->gap_ns + (index > p->split ? p->warmup_ns : 0);
	for (i = 0; i < p->n_faults; i++) {
		const struct fault *f = &p->faults[i];

		n = index < f->begin ? 0 : (index < f->end ? index : f->end) - f->begin;
		t += n * plan_extra(p, f);
	}
	return t;
}

void plan_common(const struct plan *p, int64_t index, struct plan_common *ret)
{
	struct plan_common c = {.index = index, .step = plan_step(p, index)};
	int64_t spread = p->o.period_ns / 25, extra;
	unsigned i;

	c.begin_ns = plan_begin(p, index);
	c.base_ns = p->o.period_ns - p->o.period_ns / 50 -
		    (int64_t)(plan_bits(p->key ^ PLAN_KEY_STEP, index) % (uint64_t)(spread + 1));
	if (index == 0 || index == p->split)
		c.forward_ns = p->warmup_ns;
	for (i = 0; i < p->n_faults; i++) {
		const struct fault *f = &p->faults[i];

		if (index < f->begin || index >= f->end)
			continue;
		extra = plan_extra(p, f);
		if (f->kind == FAULT_STALL)
			c.backward_ns += extra;
		else if (f->kind == FAULT_SLOW_RANK)
			c.last_ns += extra;
		else if (f->kind == FAULT_THROTTLING)
			c.zero_ns += extra;
		else
			c.data_ns += extra;
	}
	c.step_ns = c.base_ns + c.data_ns + c.forward_ns + c.backward_ns + c.last_ns + c.zero_ns;
	*ret = c;
}

/* ns * per_mille / 1000, more or less by up to `spread` per mille: 10 bits of
 * noise, at `shift`. */
static int64_t plan_share(int64_t ns, int64_t per_mille, int64_t spread, uint64_t noise,
			  unsigned shift)
{
	int64_t n = (int64_t)(noise >> shift & 1023) - 512;

	return ns / 1000 * per_mille + ns % 1000 * per_mille / 1000 + ns / 1000 * spread / 512 * n;
}

void plan_phases(const struct plan *p, const struct plan_common *c, uint32_t rank,
		 struct plan_phases *ret)
{
	/* A rank is always a little faster or slower than others, and a step too. */
	uint64_t own = plan_bits(p->key ^ PLAN_KEY_RANK, rank);
	uint64_t noise = plan_bits(own, c->index);
	int64_t part[PLAN_PHASES], mine = 0, sum = 0, base = c->base_ns, at = c->begin_ns;
	int i;

	part[PLAN_DATA] = plan_share(base, PLAN_DATA_PM, 15, noise, 0) + c->data_ns;
	part[PLAN_FORWARD] =
		plan_share(base, PLAN_FORWARD_PM, 10, noise, 10) + plan_share(base, 0, 10, own, 0);
	part[PLAN_BACKWARD] = plan_share(base, PLAN_BACKWARD_PM, 10, noise, 20) +
			      plan_share(base, 0, 10, own, 10);
	part[PLAN_OPTIMIZER] = plan_share(base, PLAN_OPTIMIZER_PM, 5, noise, 30);
	part[PLAN_SYNC] = 0;
	for (i = 0; i < PLAN_PHASES; i++)
		sum += part[i];
	part[p->o.ranks > 1 ? PLAN_SYNC : PLAN_BACKWARD] += base + c->data_ns - sum;
	part[PLAN_FORWARD] += c->forward_ns;
	part[PLAN_BACKWARD] += c->backward_ns;
	if (rank == p->o.ranks - 1)
		mine += c->last_ns;
	if (rank == 0)
		mine += c->zero_ns;
	part[PLAN_FORWARD] += mine / 3;
	part[PLAN_BACKWARD] += mine - mine / 3;
	part[PLAN_SYNC] += c->last_ns + c->zero_ns - mine;
	for (i = 0; i < PLAN_PHASES; i++) {
		ret->at_ns[i] = at;
		at += part[i];
	}
	ret->at_ns[PLAN_PHASES] = at;
}

/* ---- the machine --------------------------------------------------------------- */

/* The last step that has begun at this moment. */
static int64_t plan_index_at(const struct plan *p, int64_t ns)
{
	int64_t lo = 0, hi = p->total - 1, mid;

	while (lo < hi) {
		mid = lo + (hi - lo + 1) / 2;
		if (plan_begin(p, mid) <= ns)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

void plan_moment(const struct plan *p, int64_t ns, struct plan_moment *ret)
{
	const struct fault *stall;
	struct plan_common c;
	struct plan_phases f;
	double data;

	ret->ns = ns;
	ret->index = plan_index_at(p, ns);
	plan_common(p, ret->index, &c);
	plan_phases(p, &c, 0, &f);
	data = (double)(f.at_ns[PLAN_FORWARD] - f.at_ns[PLAN_DATA]) / (double)c.step_ns;
	stall = plan_fault_step(p, FAULT_STALL, ret->index);
	ret->activity = 1 - data;
	if (stall && ns >= f.at_ns[PLAN_BACKWARD] &&
	    ns < f.at_ns[PLAN_BACKWARD] + (int64_t)(stall->strength * 1e9))
		ret->activity = 0;
	else if (stall)
		ret->activity = 1 - PLAN_DATA_PM / 1000.0;
	/* Between two attempts nothing runs. */
	if (ret->index == p->split - 1 && p->split < p->total &&
	    ns >= f.at_ns[PLAN_PHASES] + p->eval_ns + p->checkpoint_ns)
		ret->activity = 0;
}

/* ---- making one ------------------------------------------------------------------ */

static int64_t plan_every(int64_t steps, int64_t times)
{
	return steps < times ? 1 : steps / times;
}

static void plan_attempts(struct plan *p, bool resume)
{
	int64_t steps = p->o.steps;

	p->split = p->total = steps;
	p->again = 0;
	if (!resume)
		return;
	p->split = steps * 65 / 100 + (steps * 65 % 100 != 0);
	p->again = (p->split - 1) / p->checkpoint_every * p->checkpoint_every;
	p->total = p->split + steps - p->again;
}

static int plan_faults(struct plan *p, const struct simulate_options *o, struct err *e)
{
	unsigned i;
	int err;

	for (i = 0; i < o->n_faults; i++) {
		const struct fault_row *row = &fault_rows[o->faults[i].kind];

		if (o->faults[i].kind == FAULT_SLOW_RANK && o->ranks < 2)
			return err_set(e, -EINVAL, "%s: there must be 2 ranks or more", row->name);
		if (row->place == FAULT_IN_GPU && o->gpus == 0)
			return err_set(e, -EINVAL, "%s: there must be a GPU", row->name);
		err = fault_place(&o->faults[i], p->total, &p->faults[i], e);
		if (err)
			return err;
	}
	p->n_faults = o->n_faults;
	return 0;
}

/* As plan_begin(p, total), in numbers that cannot overflow. */
static double plan_length(const struct plan *p)
{
	double ns = (double)p->total * (double)p->o.period_ns;
	unsigned i;

	for (i = 0; i < p->n_faults; i++) {
		const struct fault *f = &p->faults[i];

		ns += (double)(f->end - f->begin) * (double)plan_extra(p, f);
	}
	return ns + (double)p->o.period_ns * 1000;
}

/* When does a leak reach the limit? */
static void plan_memory(struct plan *p)
{
	unsigned i;

	p->oom_ns = -1;
	for (i = 0; i < p->n_faults; i++) {
		struct fault *f = &p->faults[i];
		int64_t at;

		if (f->kind != FAULT_MEMORY_LEAK || f->strength < 1)
			continue;
		at = f->begin_ns + (int64_t)((double)(f->end_ns - f->begin_ns) / f->strength);
		if (p->oom_ns < 0 || at < p->oom_ns)
			p->oom_ns = at;
	}
	if (p->oom_ns < 0)
		return;
	p->end_ns = p->oom_ns;
	p->done = plan_begin(p, p->total) <= p->oom_ns ? p->total : plan_index_at(p, p->oom_ns);
}

static int plan_check(const struct simulate_options *o, struct err *e)
{
	const struct {
		int64_t v, lo, hi;
		const char *wanted;
	} rows[] = {
		{o->steps, 1, SIMULATE_STEPS_MAX, "steps must be 1 to 1000000000000"},
		{o->period_ns, SIMULATE_PERIOD_MIN_NS, SIMULATE_PERIOD_MAX_NS,
		 "the rate must be 0.01 to 1000000 steps a second"},
		{o->tick_ns, SIMULATE_TICK_MIN_NS, SIMULATE_TICK_MAX_NS,
		 "the machine is read 0.001 to 10000 times a second"},
		{o->ranks, 1, SIMULATE_RANKS_MAX, "ranks must be 1 to 4096"},
		{o->hosts, 1, SIMULATE_HOSTS_MAX, "hosts must be 1 to 64"},
		{o->gpus, 0, SIMULATE_GPUS_MAX, "a host has at most 64 GPUs"},
		{o->cpus, 1, SIMULATE_CPUS_MAX, "a host has 1 to 1024 CPUs"},
		{o->series, 0, SIMULATE_SERIES_MAX, "at most 1000000 series"},
		{o->n_faults, 0, SIMULATE_FAULTS_MAX, "at most 32 faults"},
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].v < rows[i].lo || rows[i].v > rows[i].hi)
			return err_set(e, -ERANGE, "%s", rows[i].wanted);
	if (o->hosts > o->ranks)
		return err_set(e, -ERANGE, "more hosts (%u) than ranks (%u)", o->hosts, o->ranks);
	return 0;
}

int plan_init(struct plan *p, const struct simulate_options *o, struct err *e)
{
	int64_t period = o->period_ns;
	int err = plan_check(o, e);
	unsigned i;

	if (err)
		return err;
	*p = (struct plan){.o = *o,
			   .key = plan_bits(o->seed, 0),
			   .eval_every = plan_every(o->steps, 20),
			   .checkpoint_every = plan_every(o->steps, 10),
			   .epoch_every = plan_every(o->steps, 5),
			   .histogram_every = plan_every(o->steps, 200),
			   .gap_ns = 20 * period,
			   .eval_ns = 4 * period,
			   .checkpoint_ns = 2 * period,
			   .warmup_ns = 5 * period};
	plan_attempts(p, o->resume);
	err = plan_faults(p, o, e);
	if (err)
		return err;
	if (plan_length(p) > (double)PLAN_YEARS_NS)
		return err_set(e, -ERANGE, "the run would last for more than 99 years");
	for (i = 0; i < p->n_faults; i++) {
		p->faults[i].begin_ns = plan_begin(p, p->faults[i].begin);
		p->faults[i].end_ns = plan_begin(p, p->faults[i].end);
	}
	p->done = p->total;
	p->end_ns = plan_begin(p, p->total);
	plan_memory(p);
	p->ticks = p->end_ns / p->o.tick_ns + 1;
	return 0;
}
