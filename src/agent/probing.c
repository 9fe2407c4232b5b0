/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/probing.h"

#include "base/log.h"
#include "base/mem.h"
#include "wire/clock.h"

#include <stdlib.h>
#include <string.h>

#define PROBING_SECOND 1000000000

struct probing_fact {
	char *key, *value;
};

struct probing {
	const struct agent_options *o;
	struct runner *runner; /* NULL while no run is live */
	bool failed;           /* it could not be started: told once */
	struct probing_fact *facts;
	size_t n_facts, cap_facts;
	struct live **live; /* during a tick */
	size_t n_live;
};

struct probing *probing_new(const struct agent_options *o)
{
	struct probing *p = xcalloc(1, sizeof(*p));

	p->o = o;
	return p;
}

static void probing_stop(struct probing *p)
{
	size_t i;

	runner_free(p->runner);
	p->runner = NULL;
	p->failed = false;
	for (i = 0; i < p->n_facts; i++) {
		free(p->facts[i].key);
		free(p->facts[i].value);
	}
	p->n_facts = 0;
}

void probing_free(struct probing *p)
{
	if (!p)
		return;
	probing_stop(p);
	free(p->facts);
	free(p);
}

static void probing_value(void *arg, uint32_t point, const struct probe_metric *m,
			  const char *labels, int64_t boot_ns, double value)
{
	struct probing *p = arg;
	size_t i;

	for (i = 0; i < p->n_live; i++)
		live_figure(p->live[i], point, m, labels, boot_ns, value);
}

static void probing_event(void *arg, int64_t boot_ns, int severity, const char *kind,
			  const char *text, const char *attrs)
{
	struct probing *p = arg;
	size_t i;

	log_info("%s: %s", kind, text);
	for (i = 0; i < p->n_live; i++)
		live_machine_event(p->live[i], boot_ns, severity, kind, text, attrs);
}

static void probing_fact(void *arg, const char *key, const char *value)
{
	struct probing *p = arg;
	size_t i;

	for (i = 0; i < p->n_facts && strcmp(p->facts[i].key, key) != 0; i++)
		;
	if (i == p->n_facts) {
		p->facts = xgrow(p->facts, p->n_facts, &p->cap_facts, sizeof(*p->facts));
		p->facts[p->n_facts++] = (struct probing_fact){xstrdup(key), xstrdup(value)};
	} else {
		free(p->facts[i].value);
		p->facts[i].value = xstrdup(value);
	}
	for (i = 0; i < p->n_live; i++)
		live_fact(p->live[i], key, value);
}

/* The period of what is read each second otherwise, for a run. */
static int64_t probing_period(const struct probing *p, const struct live *l)
{
	int64_t said = l->period_ns ? l->period_ns : p->o->phase_ns[phase_of(l)];

	if (!said)
		said = p->o->pace.period_ns;
	return said ? said : PROBING_SECOND;
}

/* A run whose store is new is told the facts that are known already. */
static void probing_tell_facts(const struct probing *p, struct live *l)
{
	size_t i;

	if (!l->wants_facts || !l->sink)
		return;
	l->wants_facts = false;
	for (i = 0; i < p->n_facts; i++)
		live_fact(l, p->facts[i].key, p->facts[i].value);
}

static void probing_start(struct probing *p)
{
	int err;

	err = runner_new(&p->o->probe, &p->o->pace, &p->runner);
	if (err && !p->failed)
		log_error("figures of the machine cannot be read: %s", strerror(-err));
	p->failed = err != 0;
}

int64_t probing_tick(struct probing *p, struct live **live, size_t n)
{
	struct probe_taker t = {probing_value, probing_event, probing_fact, p};
	struct probe_now now = {clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_BOOTTIME)};
	int64_t next = (now.mono_ns / PROBING_SECOND + 1) * PROBING_SECOND, due;
	int64_t period = INT64_MAX, own;
	size_t i;

	if (n == 0) {
		probing_stop(p);
		return next;
	}
	if (!p->runner && p->o->probe.root)
		probing_start(p);
	p->live = live;
	p->n_live = n;
	/* The machine is read as often as the run that wants it most. */
	for (i = 0; i < n; i++) {
		probing_tell_facts(p, live[i]);
		own = probing_period(p, live[i]);
		period = own < period ? own : period;
	}
	if (p->runner) {
		runner_set_period(p->runner, period);
		next = runner_tick(p->runner, &now);
		runner_take(p->runner, &t);
	}
	for (i = 0; i < n; i++) {
		due = live_probe(live[i], p->o, probing_period(p, live[i]), &now);
		if (due < next)
			next = due;
	}
	p->live = NULL;
	p->n_live = 0;
	return next;
}
