/* SPDX-License-Identifier: Apache-2.0
 *
 * topmodel_run.c - of topmodel.h what moves: points, events, processes, progress.
 */
#include "base/mem.h"
#include "base/number.h"
#include "cli/topmodel.h"
#include "report/runview.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPMODEL_AGAIN 64u        /* newest events among which one may come again */
#define TOPMODEL_QUIET_S 5        /* no step for so long, and for */
#define TOPMODEL_QUIET_STEPS 3    /* so many usual ones, is remarkable */
#define TOPMODEL_SPLIT_STEPS 200u /* newest steps whose time is looked at, and */
#define TOPMODEL_SPLIT_NS 60000000000LL

void topmodel_set_run(struct topmodel *m, const struct store_run *run)
{
	struct topmodel_run *r = &m->run;
	char text[FMT_MAX];

	snprintf(r->id, sizeof(r->id), "%s", run->id);
	snprintf(r->name, sizeof(r->name), "%s", run->name);
	snprintf(r->project, sizeof(r->project), "%s", run->project);
	snprintf(r->hosts, sizeof(r->hosts), "%s", run->hosts);
	snprintf(r->outcome, sizeof(r->outcome), "%s", runview_outcome(text, run));
	r->is_running = run->outcome == RUN_RUNNING;
	r->start_ns = run->start_ns;
	r->end_ns = run->end_ns;
}

/* ---- processes and events --------------------------------------------------------------- */

static struct topmodel_process *topmodel_process_of(const struct topmodel *m, unsigned host,
						    uint32_t id)
{
	size_t i;

	for (i = m->n_processes; i-- > 0;)
		if (m->processes[i].id == id && m->processes[i].host == host)
			return &m->processes[i];
	return NULL;
}

void topmodel_process(struct topmodel *m, const struct store_process *p)
{
	struct topmodel_process *to = topmodel_process_of(m, p->host, p->id);

	if (!to && m->n_processes >= TOPMODEL_PROCESSES_MAX)
		return;
	if (!to) {
		m->processes = xgrow(m->processes, m->n_processes, &m->cap_processes,
				     sizeof(*m->processes));
		to = &m->processes[m->n_processes++];
	} else if (to->rank != p->rank) {
		m->is_stale = true;
	}
	*to = (struct topmodel_process){.host = p->host,
					.id = p->id,
					.pid = p->pid,
					.rank = p->rank,
					.local_rank = p->local_rank,
					.start_ns = p->start_ns,
					.end_ns = p->end_ns,
					.lost = p->dropped + p->overwritten};
	snprintf(to->role, sizeof(to->role), "%s", p->role);
	topmodel_host(m, p->host, p->host_name);
}

const char *topmodel_process_text(const struct topmodel *m, unsigned host, uint32_t id,
				  char out[48])
{
	const struct topmodel_process *p = topmodel_process_of(m, host, id);

	if (p && p->rank >= 0)
		snprintf(out, 48, "%.24s %lld", p->role, (long long)p->rank);
	else
		snprintf(out, 48, "%s", p ? p->role : "");
	return out;
}

/* What was listed may be told once more, soon. */
static bool topmodel_is_known(const struct topmodel *m, const struct store_event *e)
{
	const struct topmodel_event *old;
	size_t i;

	for (i = 0; i < TOPMODEL_AGAIN && (old = topmodel_event(m, i)) != NULL; i++)
		if (old->host == e->host && old->seq == e->seq && old->time_ns == e->time_ns &&
		    strncmp(old->text, e->text, sizeof(old->text) - 1) == 0 &&
		    strncmp(old->kind, e->kind, sizeof(old->kind) - 1) == 0)
			return true;
	return false;
}

void topmodel_event_add(struct topmodel *m, const struct store_event *e)
{
	struct topmodel_event *to = &m->events[m->n_events % TOPMODEL_EVENTS];

	if (topmodel_is_known(m, e))
		return;
	topalerts_event(&m->alerts, e);
	*to = (struct topmodel_event){.host = e->host,
				      .seq = e->seq,
				      .time_ns = e->time_ns,
				      .step = e->step,
				      .severity = e->severity < 0   ? 0
						  : e->severity > 3 ? 3
								    : e->severity};
	topmodel_process_text(m, e->host, e->process, to->process);
	snprintf(to->kind, sizeof(to->kind), "%s", e->kind);
	snprintf(to->text, sizeof(to->text), "%s", e->text);
	m->by_severity[to->severity]++;
	m->n_events++;
}

const struct topmodel_event *topmodel_event(const struct topmodel *m, size_t i)
{
	size_t kept = m->n_events < TOPMODEL_EVENTS ? (size_t)m->n_events : TOPMODEL_EVENTS;

	return i < kept ? &m->events[(m->n_events - 1 - i) % TOPMODEL_EVENTS] : NULL;
}

void topmodel_attr(struct topmodel *m, unsigned host, uint32_t process, const char *key,
		   const char *value)
{
	static const char *const totals[] = {"total_steps", "max_steps", "num_training_steps",
					     "simulate.steps"};
	struct topmodel_items *gpus = &m->items[TOP_GPU];
	char name[128];
	int64_t v;
	size_t i;

	(void)process;
	for (i = 0; i < ARRAY_LEN(totals); i++)
		if (strcmp(key, totals[i]) == 0 && number_int(value, &v) == 0 && v > 0)
			m->line.total = v;
	for (i = 0; i < gpus->n; i++) {
		snprintf(name, sizeof(name), "gpu/%s/name", gpus->all[i].name);
		if (gpus->all[i].host == host && strcmp(key, name) == 0)
			snprintf(gpus->all[i].full, sizeof(gpus->all[i].full), "%s", value);
	}
}

/* ---- points -------------------------------------------------------------------------------- */

/* The sum that a counter adds to; NULL: none. */
static double *topmodel_sum(struct topmodel *m, const struct topmodel_series *s)
{
	const char *name = m->charts[s->chart].name;

	if (s->kind != SINK_COUNTER || s->is_machine)
		return NULL;
	if (strcmp(name, "lapse/step/samples") == 0)
		return &m->mark.samples;
	return strcmp(name, "lapse/step/tokens") == 0 ? &m->mark.tokens : NULL;
}

bool topmodel_wants_total(const struct topmodel *m, uint32_t series)
{
	return series == m->main_step ||
	       topmodel_sum((struct topmodel *)m, &m->series[series]) != NULL;
}

void topmodel_seed_total(struct topmodel *m, uint32_t series, const struct store_bucket *b)
{
	struct topmodel_series *s = &m->series[series];
	double *sum = topmodel_sum(m, s);

	if (b->count == 0)
		return;
	s->seen = b->last_at + 1;
	if (sum)
		number_add(sum, b->sum);
	if (series != m->main_step)
		return;
	m->mark.steps = b->count;
	m->mark.end_ns = b->time_max + (isfinite(b->last) ? (int64_t)b->last : 0);
	m->first_ns = b->time_min;
	m->first_step = b->step_min;
	m->line.step = b->step_max;
	m->newest_ns = m->mark.end_ns > m->newest_ns ? m->mark.end_ns : m->newest_ns;
}

void topmodel_seed_last(struct topmodel *m, uint32_t series, double value, int64_t time_ns)
{
	struct topmodel_series *s = &m->series[series];
	struct topmodel_item *item;

	s->last_ns = time_ns > s->last_ns ? time_ns : s->last_ns;
	m->newest_ns = time_ns > m->newest_ns ? time_ns : m->newest_ns;
	if (s->group < 0)
		return;
	item = &m->items[s->group].all[s->item];
	item->v[s->field] = value;
	item->time_ns = time_ns > item->time_ns ? time_ns : item->time_ns;
}

static void topmodel_step(struct topmodel *m, const struct store_point *p)
{
	m->mark.end_ns = p->time_ns + (isfinite(p->value) ? (int64_t)p->value : 0);
	if (m->mark.steps++ == 0) {
		m->first_ns = p->time_ns;
		m->first_step = p->step;
	}
	m->line.step = p->step == SINK_STEP_NONE ? m->line.step : p->step;
}

void topmodel_span(struct topmodel *m, uint32_t series, const struct store_point *p)
{
	uint32_t part = m->series[series].part, slot;

	if ((part == UINT32_MAX && series != m->main_step) || !(p->value >= 0 && p->value < 9e18))
		return;
	slot = part == UINT32_MAX ? STEPSPLIT_PARTS_MAX - 1 : part;
	m->spans[slot * TOPMODEL_SPANS + m->n_spans[slot]++ % TOPMODEL_SPANS] =
		(struct topmodel_span){.start = p->time_ns,
				       .end = p->time_ns + (int64_t)p->value,
				       .step = p->step,
				       .thread = p->thread,
				       .part = part};
}

void topmodel_point(struct topmodel *m, uint32_t series, uint64_t at, const struct store_point *p)
{
	struct topmodel_series *s = &m->series[series];
	double *sum, v = p->value;

	if (s->trace && !s->trace->is_stale)
		toptrace_add(s->trace, at, p);
	if (at < s->seen)
		return;
	s->seen = at + 1;
	if (s->group >= 0) {
		if (s->kind == SINK_COUNTER)
			v = s->last_ns && p->time_ns > s->last_ns
				    ? v / ((double)(p->time_ns - s->last_ns) / 1e9)
				    : NAN;
		topmodel_seed_last(m, series, v, p->time_ns);
		return;
	}
	s->last_ns = p->time_ns;
	m->newest_ns = p->time_ns > m->newest_ns ? p->time_ns : m->newest_ns;
	if (series == m->main_step)
		topmodel_step(m, p);
	else if ((sum = topmodel_sum(m, s)) != NULL)
		number_add(sum, p->value);
	if (s->kind == SINK_SPAN)
		topmodel_span(m, series, p);
}

/* ---- progress ------------------------------------------------------------------------------ */

/* Of a run that is over, or of which only one moment is known: over all of it. */
static void topmodel_mean(struct topmodel *m, int64_t now_ns, struct statusline *l)
{
	double t = (double)(m->mark.end_ns - m->first_ns) / 1e9, quiet, left;
	int64_t begun_at = m->first_step > 1 ? m->first_step : 0;

	m->is_mean = isnan(l->steps_s) && t > 0 && m->mark.steps > 0;
	if (!m->is_mean)
		return;
	l->steps_s = (double)m->mark.steps / t;
	l->samples_s = m->mark.samples / t;
	l->tokens_s = m->mark.tokens / t;
	if (!m->run.is_running)
		return;
	quiet = (double)(now_ns - m->mark.end_ns) / 1e9;
	if (quiet > TOPMODEL_QUIET_S && quiet > TOPMODEL_QUIET_STEPS / l->steps_s)
		l->quiet_s = quiet;
	left = (double)(l->total - begun_at - (l->step - m->first_step + 1));
	if (l->total > 0 && isnan(l->quiet_s))
		l->eta_s = fmax(0, left) / l->steps_s;
}

void topmodel_tick(struct topmodel *m, int64_t now_ns)
{
	struct statusline l;
	size_t i;

	statusline_init(&l);
	l.step = m->line.step;
	l.total = m->line.total;
	if (m->run.start_ns)
		l.elapsed_s =
			(double)((m->run.is_running ? now_ns : m->run.end_ns) - m->run.start_ns) /
			1e9;
	for (i = 0; i < m->n_processes; i++)
		l.lost += m->processes[i].lost;
	if (l.step != SINK_STEP_NONE && m->run.is_running)
		statusline_add(&m->speed, &m->mark, m->first_step, now_ns, &l);
	if (m->mark.steps)
		topmodel_mean(m, now_ns, &l);
	m->line = l;
	m->frame++;
}

/* ---- where the time goes ------------------------------------------------------------------ */

static size_t topmodel_kept(const struct topmodel *m, size_t slot)
{
	return m->n_spans[slot] < TOPMODEL_SPANS ? (size_t)m->n_spans[slot] : TOPMODEL_SPANS;
}

/* The i-th newest. */
static const struct topmodel_span *topmodel_newest(const struct topmodel *m, size_t slot, size_t i)
{
	return &m->spans[slot * TOPMODEL_SPANS + (m->n_spans[slot] - 1 - i) % TOPMODEL_SPANS];
}

/* Steps that began before this have lost spans. */
static int64_t topmodel_whole_from(const struct topmodel *m)
{
	int64_t from = m->mark.end_ns - TOPMODEL_SPLIT_NS, start;
	size_t slot;

	for (slot = 0; slot < m->n_parts; slot++) {
		if (m->n_spans[slot] <= TOPMODEL_SPANS)
			continue;
		start = topmodel_newest(m, slot, TOPMODEL_SPANS - 1)->start;
		from = start > from ? start : from;
	}
	return from;
}

bool topmodel_split(const struct topmodel *m, struct stepsplit *s)
{
	size_t own = STEPSPLIT_PARTS_MAX - 1, n_steps = 0, n = 0, slot, i;
	struct stepsplit_step steps[TOPMODEL_SPLIT_STEPS];
	int64_t from = topmodel_whole_from(m);
	struct stepsplit_span *spans;
	const struct topmodel_span *p;

	for (i = 0; i < topmodel_kept(m, own) && n_steps < TOPMODEL_SPLIT_STEPS; i++) {
		p = topmodel_newest(m, own, i);
		if (p->start >= from)
			steps[n_steps++] = (struct stepsplit_step){.start = p->start,
								   .end = p->end,
								   .number = p->step,
								   .thread = p->thread};
	}
	if (n_steps == 0)
		return false;
	spans = xcalloc(m->n_parts * TOPMODEL_SPANS + 1, sizeof(*spans));
	for (slot = 0; slot < m->n_parts; slot++)
		for (i = 0; i < topmodel_kept(m, slot); i++) {
			p = topmodel_newest(m, slot, i);
			spans[n++] = (struct stepsplit_span){.start = p->start,
							     .end = p->end,
							     .thread = p->thread,
							     .part = p->part};
		}
	stepsplit_init(s, m->parts, m->n_parts);
	stepsplit_add(s, 0, steps, n_steps, spans, n);
	free(spans);
	return true;
}
