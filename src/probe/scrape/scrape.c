/* SPDX-License-Identifier: Apache-2.0
 *
 * The group that asks other programs for their figures (docs/scrape.md): of a run, or
 * of the machine. A reading waits for answers at most half a second; those that need
 * longer come with a later one.
 */
#include "probe/groups.h"

#include "base/mem.h"
#include "probe/scrape/collect.h"
#include "probe/scrape/fetch.h"
#include "probe/scrape/preset.h"
#include "wire/sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRAPE_PERIOD_NS 500000000
#define SCRAPE_WAIT_MS 450
#define SCRAPE_WHY_MAX 600

enum {
	SCRAPE_UP,
	SCRAPE_DURATION,
	SCRAPE_SAMPLES,
	SCRAPE_LEFT_OUT,
	SCRAPE_METRICS
};

/* clang-format off */
static const struct probe_metric scrape_metrics[SCRAPE_METRICS] = {
	[SCRAPE_UP] = {"scrape/up", "1",
		"1: the target answered with metrics, 0: not; the event scrape-down says why",
		"the target", SINK_GAUGE, PROBE_COST_EACH, "target"},
	[SCRAPE_DURATION] = {"scrape/duration", "s",
		"time from asking the target to its whole answer, or until it was given up",
		"CLOCK_MONOTONIC", SINK_GAUGE, PROBE_COST_EACH, "target"},
	[SCRAPE_SAMPLES] = {"scrape/samples", "1",
		"samples in the target's answer", "the target", SINK_GAUGE, PROBE_COST_EACH,
		"target"},
	[SCRAPE_LEFT_OUT] = {"scrape/left_out", "1",
		"samples in the target's answer that were wanted and could not be kept, and lines "
		"that could not be read; the event scrape-left-out says why",
		"the target", SINK_GAUGE, PROBE_COST_EACH, "target"},
};
/* clang-format on */

struct scrape_one {
	struct collect *collect;
	int64_t due_ns; /* CLOCK_MONOTONIC */
	uint32_t points[SCRAPE_METRICS];
	enum {
		SCRAPE_NOT_YET,
		SCRAPE_IS_UP,
		SCRAPE_IS_DOWN
	} state;
	bool told; /* that something was left out */
	char why[SCRAPE_WHY_MAX];
};

struct scrape {
	struct scrape_targets targets;
	struct collect_rows rows;
	struct fetch *fetch;
	struct scrape_one *one;
	struct probe_set *set; /* during a reading */
};

static const char *scrape_idle(const struct probe_env *env)
{
	return env->n_scrape ? NULL
			     : "nobody to ask: lapse run --scrape, or run.scrape and agent.scrape";
}

static int scrape_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		       struct err *e)
{
	char labels[PROBE_LABELS_MAX];
	struct scrape *g;
	size_t i;
	int k;

	if (!env->n_scrape)
		return err_set(e, -ENODEV, "%s", scrape_idle(env));
	g = xcalloc(1, sizeof(*g));
	/* A thread that hangs may outlive the run. */
	target_copy(&g->targets, env->scrape, env->n_scrape);
	collect_rows_init(&g->rows);
	g->fetch = fetch_new(g->targets.t, g->targets.n);
	g->one = xcalloc(g->targets.n, sizeof(*g->one));
	for (i = 0; i < g->targets.n; i++) {
		g->one[i].collect = collect_new(&g->targets.t[i], &g->rows);
		labels[0] = '\0';
		probe_label(labels, sizeof(labels), "target", g->targets.t[i].name);
		for (k = 0; k < SCRAPE_METRICS; k++)
			g->one[i].points[k] = probe_point(s, &scrape_metrics[k], labels);
	}
	*ret_state = g;
	return 0;
}

static void scrape_close(void *state)
{
	struct scrape *g = state;
	size_t i;

	fetch_free(g->fetch);
	for (i = 0; i < g->targets.n; i++)
		collect_free(g->one[i].collect);
	free(g->one);
	collect_rows_done(&g->rows);
	target_done(&g->targets);
	free(g);
}

/* ---- answers ------------------------------------------------------------------------------ */

static void scrape_is_down(struct scrape *g, size_t i, const char *why)
{
	const struct scrape_target *t = &g->targets.t[i];
	struct scrape_one *o = &g->one[i];
	char text[SCRAPE_WHY_MAX + TARGET_NAME_MAX + 64];

	probe_put(g->set, o->points[SCRAPE_UP], 0);
	if (o->state == SCRAPE_IS_DOWN)
		return;
	o->state = SCRAPE_IS_DOWN;
	snprintf(o->why, sizeof(o->why), "%s", why);
	probe_absent(g->set, o->points[SCRAPE_SAMPLES], o->why);
	probe_absent(g->set, o->points[SCRAPE_LEFT_OUT], o->why);
	collect_absent(o->collect, g->set, o->why);
	snprintf(text, sizeof(text), "%s cannot be scraped: %s", t->name, o->why);
	probe_event(g->set, 2, "scrape-down", text, "");
}

static void scrape_is_up(struct scrape *g, size_t i, const struct collect_result *r)
{
	const struct scrape_target *t = &g->targets.t[i];
	uint64_t left_out = r->left_out + r->text.wrong;
	struct scrape_one *o = &g->one[i];
	char text[SCRAPE_WHY_MAX + TARGET_NAME_MAX + 64];

	probe_put(g->set, o->points[SCRAPE_UP], 1);
	probe_put(g->set, o->points[SCRAPE_SAMPLES], (double)r->text.samples);
	probe_put(g->set, o->points[SCRAPE_LEFT_OUT], (double)left_out);
	if (o->state == SCRAPE_IS_DOWN) {
		snprintf(text, sizeof(text), "%s can be scraped again", t->name);
		probe_event(g->set, 1, "scrape-up", text, "");
	}
	o->state = SCRAPE_IS_UP;
	if (!left_out || o->told)
		return;
	o->told = true;
	snprintf(text, sizeof(text), "%s: %llu of its samples are left out: %s%s%s", t->name,
		 (unsigned long long)left_out, r->why, r->why[0] && r->text.why[0] ? "; " : "",
		 r->text.why);
	probe_event(g->set, 2, "scrape-left-out", text, "");
}

static void scrape_answer(void *arg, const struct fetch_answer *a)
{
	struct scrape *g = arg;
	struct scrape_one *o = &g->one[a->target];
	struct collect_result r = {.left_out = 0};
	char why[SCRAPE_WHY_MAX];

	probe_put(g->set, o->points[SCRAPE_DURATION], (double)a->took_ns / 1e9);
	if (a->why) {
		scrape_is_down(g, a->target, a->why);
		return;
	}
	collect_read(o->collect, g->set, a->text, a->len, a->openmetrics, &r);
	if (r.text.samples || !r.text.wrong) {
		scrape_is_up(g, a->target, &r);
		return;
	}
	snprintf(why, sizeof(why), "what it answers are no metrics: %s", r.text.why);
	scrape_is_down(g, a->target, why);
}

static void scrape_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct scrape *g = state;
	size_t i;

	g->set = s;
	for (i = 0; i < g->targets.n; i++) {
		int64_t every = g->targets.t[i].interval_ns;

		if (now->mono_ns < g->one[i].due_ns)
			continue;
		/* On multiples of it, as all groups. */
		g->one[i].due_ns = (now->mono_ns / every + 1) * every;
		fetch_begin(g->fetch, i);
	}
	fetch_step(g->fetch, SCRAPE_WAIT_MS, scrape_answer, g);
	g->set = NULL;
}

/* ---- groups ------------------------------------------------------------------------------- */

const struct probe_group probe_scrape = {
	.name = "scrape",
	.metrics = scrape_metrics,
	.n_metrics = SCRAPE_METRICS,
	.place = PROBE_SLOW,
	.period_ns = SCRAPE_PERIOD_NS,
	.of_run = true,
	.idle = scrape_idle,
	.open = scrape_open,
	.read = scrape_read,
	.close = scrape_close,
};

/* The same for targets of the machine (agent.scrape). */
const struct probe_group probe_scrape_machine = {
	.name = "scrape",
	.place = PROBE_SLOW,
	.period_ns = SCRAPE_PERIOD_NS,
	.idle = scrape_idle,
	.open = scrape_open,
	.read = scrape_read,
	.close = scrape_close,
};
