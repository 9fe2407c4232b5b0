/* SPDX-License-Identifier: Apache-2.0
 *
 * tbsteps.c - roles of rows, then the steps (on the host, then moved to the device's side),
 * then each step's share of every role.
 */
#include "analyse/tbsteps.h"

#include "analyse/idmap.h"
#include "analyse/tbnames.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The plugin's ends of time: sys.maxsize and -sys.maxsize - 1. */
#define TBSTEPS_LATE 9223372036854775807.0
#define TBSTEPS_EARLY (-9223372036854775808.0)
#define TBSTEPS_TAIL 0.8 /* of the work of the step before, or the last step is cut */

const char *const tbsteps_role_names[TBSTEPS_ROLES] = {"Kernel",        "Memcpy",  "Memset",
						       "Communication", "Runtime", "DataLoader",
						       "CPU Exec",      "Other"};

/* ---- roles ------------------------------------------------------------------------- */

/* External ids of the plugin's collectives. */
static void tbsteps_comm_ids(const struct tbrows *b, struct idmap *ids)
{
	const struct tbrows_row *r;
	size_t i;

	for (i = 0; i < b->n; i++) {
		r = &b->rows[i];
		if ((r->type == TBROWS_OPERATOR || r->type == TBROWS_ANNOTATION) &&
		    (tbrows_names(b, r->name) & (TBNAMES_NCCL | TBNAMES_GLOO)))
			*idmap_at(ids, r->external) = 1;
	}
}

static bool tbsteps_is_comm(const struct tbrows *b, const struct tbrows_row *r,
			    const struct idmap *ids)
{
	uint16_t f = tbrows_names(b, r->name);

	if (b->variant == TBROWS_EXACT)
		return f & (r->type == TBROWS_KERNEL ? TBNAMES_COMM_KERNEL : TBNAMES_COMM_HOST);
	if (r->type == TBROWS_KERNEL)
		return idmap_get(ids, r->external) != IDMAP_NONE;
	return f & (TBNAMES_NCCL | TBNAMES_GLOO);
}

/* Role of a row; TBSTEPS_OTHER where it has none. */
static enum tbsteps_role tbsteps_role_of(const struct tbrows *b, const struct tbrows_row *r,
					 const struct idmap *ids)
{
	switch (r->type) {
	case TBROWS_KERNEL:
		return tbsteps_is_comm(b, r, ids) ? TBSTEPS_COMMUNICATION : TBSTEPS_KERNEL;
	case TBROWS_MEMCPY:
		return TBSTEPS_MEMCPY;
	case TBROWS_MEMSET:
		return TBSTEPS_MEMSET;
	case TBROWS_RUNTIME:
		return TBSTEPS_RUNTIME;
	case TBROWS_OPERATOR:
	case TBROWS_ANNOTATION:
		if (tbrows_names(b, r->name) & TBNAMES_LOADER)
			return TBSTEPS_LOADER;
		return tbsteps_is_comm(b, r, ids) ? TBSTEPS_COMMUNICATION : TBSTEPS_CPU;
	default:
		return TBSTEPS_OTHER;
	}
}

static void tbsteps_note(struct tbsteps *s, const struct tbrows *b, const struct tbrows_row *r)
{
	uint16_t f;

	if (r->type != TBROWS_OPERATOR && r->type != TBROWS_ANNOTATION)
		return;
	f = tbrows_names(b, r->name);
	s->uses_dp = s->uses_dp || (f & TBNAMES_DP);
	s->uses_ddp = s->uses_ddp || (f & TBNAMES_DDP);
	s->has_nccl = s->has_nccl || (f & TBNAMES_NCCL);
	s->has_gloo = s->has_gloo || (f & TBNAMES_GLOO);
}

static void tbsteps_roles(struct tbsteps *s, const struct tbrows *b)
{
	enum tbsteps_role role;
	struct idmap ids;
	size_t i;

	idmap_init(&ids);
	if (b->variant == TBROWS_PLUGIN)
		tbsteps_comm_ids(b, &ids);
	for (i = 0; i < b->n; i++) {
		role = tbsteps_role_of(b, &b->rows[i], &ids);
		if (role != TBSTEPS_OTHER)
			tbspan_add(&s->roles[role], b->rows[i].ts, b->rows[i].end);
		tbsteps_note(s, b, &b->rows[i]);
	}
	idmap_done(&ids);
	for (i = 0; i < TBSTEPS_OTHER; i++)
		tbspan_merge(&s->roles[i]);
	s->has_runtime = s->roles[TBSTEPS_RUNTIME].n;
	s->has_kernel = s->roles[TBSTEPS_KERNEL].n;
	s->has_communication = s->roles[TBSTEPS_COMMUNICATION].n;
	s->has_memory_work = s->roles[TBSTEPS_MEMCPY].n || s->roles[TBSTEPS_MEMSET].n;
}

/* ---- steps on the host ---------------------------------------------------------------- */

/* One step of everything, for a trace without steps. */
static void tbsteps_whole(struct tbsteps *s, const struct tbrows *b)
{
	bool plugin = b->variant == TBROWS_PLUGIN, wanted;
	struct tbsteps_step *step = &s->steps[0];
	const struct tbrows_row *r;
	size_t i;

	step->ts = TBSTEPS_LATE;
	step->end = TBSTEPS_EARLY;
	for (i = 0; i < b->n; i++) {
		r = &b->rows[i];
		wanted = plugin ? r->type == TBROWS_OPERATOR
				: r->type != TBROWS_TRACE && r->type != TBROWS_PYTHON &&
					  r->type != TBROWS_MODULE && r->type != TBROWS_OVERHEAD &&
					  r->type != TBROWS_SYNC;
		if (!wanted)
			continue;
		step->ts = r->ts < step->ts ? r->ts : step->ts;
		step->end = r->end > step->end ? r->end : step->end;
	}
	if (!plugin && step->ts > step->end)
		step->ts = step->end = 0;
	s->n = 1;
}

static void tbsteps_marks(struct tbsteps *s, const struct tbrows *b)
{
	const struct tbrows_row *r;
	struct tbsteps_step *last;
	int64_t number;
	size_t i;

	s->steps = xcalloc(b->count[TBROWS_STEP] + 1, sizeof(*s->steps));
	for (i = 0; i < b->n; i++) {
		r = &b->rows[i];
		if (r->type != TBROWS_STEP)
			continue;
		number = tbnames_step(trace_text(b->trace, r->name, NULL));
		last = s->n ? &s->steps[s->n - 1] : NULL;
		if (b->variant == TBROWS_EXACT && last && last->number == number &&
		    r->ts < last->end) {
			last->end = r->end > last->end ? r->end : last->end;
			continue; /* the same step as another category or thread tells it */
		}
		s->steps[s->n].number = number;
		s->steps[s->n].ts = r->ts;
		s->steps[s->n++].end = r->end;
	}
	s->has_marks = s->n;
	if (!s->n)
		tbsteps_whole(s, b);
}

/* ---- moved to the device ---------------------------------------------------------------- */

struct tbsteps_device {
	double ts, end; /* of the work launched in each step */
};

/* Work of the launches that lie fully in a step. */
static void tbsteps_match(struct tbsteps *s, const struct tbtree *t, struct tbsteps_device *dev,
			  bool *matched)
{
	const struct tbrows_row *r;
	const struct tbtree_launch *l;
	uint32_t i = 0, k;
	size_t step = 0;

	while (step < s->n && i < t->n_launches) {
		l = &t->launches[i];
		if (l->ts >= s->steps[step].end && l->ts >= s->steps[step].ts &&
		    l->end > s->steps[step].end) {
			step++;
			continue;
		}
		i++;
		if (l->ts < s->steps[step].ts || l->end > s->steps[step].end)
			continue;
		for (k = l->work; k != TBTREE_NIL; k = t->work[k].next) {
			r = &t->rows->rows[t->work[k].row];
			dev[step].ts = r->ts < dev[step].ts ? r->ts : dev[step].ts;
			dev[step].end = r->end > dev[step].end ? r->end : dev[step].end;
			matched[k] = true;
			s->steps[step].work++;
		}
	}
}

/* Where the step before the first one ended on the device. */
static double tbsteps_before(const struct tbsteps *s, const struct tbtree *t,
			     const struct tbsteps_device *first, const bool *matched)
{
	double end = s->steps[0].ts;
	const struct tbrows_row *r;
	uint32_t k;

	if (first->ts == TBSTEPS_LATE)
		return end;
	for (k = 0; k < t->n_work; k++) {
		r = &t->rows->rows[t->work[k].row];
		if (!matched[k] && r->end < first->ts && r->end > end)
			end = r->end;
	}
	return end;
}

/* Steps at the end without work, and one with much less than the one before, are left out. */
static void tbsteps_cut(struct tbsteps *s)
{
	size_t last = s->n, keep;

	while (last > 0 && !s->steps[last - 1].work)
		last--;
	if (!last || s->n < 2)
		return;
	keep = last;
	if (last > 1 &&
	    (double)s->steps[last - 2].work * TBSTEPS_TAIL > (double)s->steps[last - 1].work)
		keep--;
	s->cut = s->n - keep;
	s->n = keep;
}

static void tbsteps_move(struct tbsteps *s, const struct tbtree *t)
{
	struct tbsteps_device *dev = xcalloc(s->n, sizeof(*dev));
	bool *matched = xcalloc((size_t)t->n_work + 1, sizeof(*matched));
	struct tbsteps_step *step;
	uint64_t work = 0;
	double before, ts;
	size_t i;

	for (i = 0; i < s->n; i++)
		dev[i] = (struct tbsteps_device){TBSTEPS_LATE, TBSTEPS_EARLY};
	tbsteps_match(s, t, dev, matched);
	for (i = 0; i < s->n; i++)
		work += s->steps[i].work;
	before = work ? tbsteps_before(s, t, &dev[0], matched) : 0;
	for (i = 0; work && i < s->n; i++) {
		step = &s->steps[i];
		ts = before > step->ts ? before : step->ts;
		if (dev[i].ts != TBSTEPS_LATE && dev[i].end > step->end)
			step->end = dev[i].end;
		if (step->end < ts)
			step->end = ts;
		step->ts = ts;
		before = step->end;
	}
	if (work && t->rows->variant == TBROWS_PLUGIN)
		tbsteps_cut(s);
	free(dev);
	free(matched);
}

/* ---- costs ------------------------------------------------------------------------------ */

/* What of each role nothing before it has taken, over all steps. */
static void tbsteps_costs(struct tbsteps *s, struct tbspans costs[TBSTEPS_ROLES])
{
	struct tbspans left = {0}, rest;
	size_t role, i;

	for (role = 0; role < TBSTEPS_OTHER; role++) {
		if (left.n) {
			tbspan_common(&left, &s->roles[role], &costs[role]);
		} else {
			/* The first one is not cut to the steps; nor, as the reference has it,
			 * one that comes when all time is taken: it begins anew. */
			for (i = 0; i < s->roles[role].n; i++)
				tbspan_add(&costs[role], s->roles[role].v[i].ts,
					   s->roles[role].v[i].end);
			for (i = 0; i < s->n; i++)
				tbspan_add(&left, s->steps[i].ts, s->steps[i].end);
			tbspan_merge(&left);
		}
		rest = (struct tbspans){0};
		tbspan_without(&left, &costs[role], &rest);
		tbspan_done(&left);
		left = rest;
	}
	costs[TBSTEPS_OTHER] = left;
}

/* The exact variant: the same priorities, every role cut to the steps. */
static void tbsteps_costs_exact(struct tbsteps *s, struct tbspans costs[TBSTEPS_ROLES])
{
	struct tbspans left = {0}, rest;
	size_t role, i;

	for (i = 0; i < s->n; i++)
		tbspan_add(&left, s->steps[i].ts, s->steps[i].end);
	tbspan_merge(&left);
	for (role = 0; role < TBSTEPS_OTHER; role++) {
		tbspan_common(&left, &s->roles[role], &costs[role]);
		rest = (struct tbspans){0};
		tbspan_without(&left, &costs[role], &rest);
		tbspan_done(&left);
		left = rest;
	}
	costs[TBSTEPS_OTHER] = left;
}

static void tbsteps_step_costs(struct tbsteps *s, struct tbsteps_step *step,
			       const struct tbspans costs[TBSTEPS_ROLES],
			       const struct tbspans *both)
{
	const struct tbspans *compute =
		&s->roles[s->roles[TBSTEPS_KERNEL].n ? TBSTEPS_KERNEL : TBSTEPS_CPU];
	size_t role;

	for (role = 0; role < TBSTEPS_ROLES; role++) {
		step->cost[role] = tbspan_within(&costs[role], step->ts, step->end);
		s->average[role] += step->cost[role];
	}
	step->total = step->end - step->ts;
	s->average_total += step->total;
	step->overlap = tbspan_within(both, step->ts, step->end);
	step->computation = tbspan_within(compute, step->ts, step->end);
	step->communication = tbspan_within(&s->roles[TBSTEPS_COMMUNICATION], step->ts, step->end);
	step->other = step->total + step->overlap - step->computation - step->communication;
}

static void tbsteps_all_costs(struct tbsteps *s, enum tbrows_variant variant)
{
	struct tbspans costs[TBSTEPS_ROLES] = {0}, both = {0};
	size_t i;

	if (variant == TBROWS_PLUGIN)
		tbsteps_costs(s, costs);
	else
		tbsteps_costs_exact(s, costs);
	tbspan_common(&s->roles[s->roles[TBSTEPS_KERNEL].n ? TBSTEPS_KERNEL : TBSTEPS_CPU],
		      &s->roles[TBSTEPS_COMMUNICATION], &both);
	for (i = 0; i < s->n; i++)
		tbsteps_step_costs(s, &s->steps[i], costs, &both);
	for (i = 0; i < TBSTEPS_ROLES; i++) {
		s->average[i] /= (double)s->n;
		tbspan_done(&costs[i]);
	}
	s->average_total /= (double)s->n;
	tbspan_done(&both);
}

int tbsteps_new(const struct tbrows *b, const struct tbtree *t, struct tbsteps **ret)
{
	struct tbsteps *s = xcalloc(1, sizeof(*s));

	tbsteps_roles(s, b);
	tbsteps_marks(s, b);
	tbsteps_move(s, t);
	tbsteps_all_costs(s, b->variant);
	s->ts = s->steps[0].ts;
	s->end = s->steps[s->n - 1].end;
	*ret = s;
	return 0;
}

void tbsteps_free(struct tbsteps *s)
{
	size_t i;

	if (!s)
		return;
	for (i = 0; i < TBSTEPS_OTHER; i++)
		tbspan_done(&s->roles[i]);
	free(s->steps);
	free(s);
}
