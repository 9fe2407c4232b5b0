/* SPDX-License-Identifier: Apache-2.0
 *
 * The groups of a run in the order of groups.c.
 */
#include "runrig.h"

#include "known.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "probe/groups.h"
#include "wire/clock.h"

static const struct probe_group *const runrig_groups[RUNRIG_GROUPS] = {
	&probe_tree_group, &probe_process, &probe_cgroup, &probe_shm};

void runrig_open(struct runrig *r, const char *root, long pid)
{
	struct err e = {0};
	int i;

	memset(r, 0, sizeof(*r));
	assert_int_equal(probe_tree_init(&r->tree, root, pid, 0), 0);
	r->env = (struct probe_env){.root = root, .pid = pid, .tree = &r->tree};
	r->set = probe_set_new();
	assert_non_null(r->set);
	for (i = 0; i < RUNRIG_GROUPS; i++)
		assert_int_equal(runrig_groups[i]->open(&r->env, r->set, &r->state[i], &e), 0);
}

void runrig_close(struct runrig *r)
{
	int i;

	for (i = RUNRIG_GROUPS - 1; i >= 0; i--)
		runrig_groups[i]->close(r->state[i]);
	probe_tree_done(&r->tree);
	probe_set_free(r->set);
	memset(r, 0, sizeof(*r));
}

static void runrig_take_value(void *arg, uint32_t point, const struct probe_metric *m,
			      const char *labels, int64_t boot_ns, double value)
{
	struct runrig *r = arg;

	(void)point;
	(void)labels;
	(void)boot_ns;
	assert_true(r->n_values < RUNRIG_VALUES);
	r->values[r->n_values++] = (struct runrig_value){m->name, value};
}

static void runrig_take_event(void *arg, int64_t boot_ns, int severity, const char *kind,
			      const char *text, const char *attrs)
{
	struct runrig *r = arg;
	struct runrig_event *e = &r->events[r->n_events++];

	(void)boot_ns;
	assert_true(r->n_events <= RUNRIG_EVENTS);
	e->severity = severity;
	snprintf(e->kind, sizeof(e->kind), "%s", kind);
	snprintf(e->text, sizeof(e->text), "%s", text);
	snprintf(e->attrs, sizeof(e->attrs), "%s", attrs);
}

static void runrig_read(struct runrig *r, const struct probe_now *now)
{
	const struct probe_taker take = {runrig_take_value, runrig_take_event, NULL, r};
	struct probe_view v;
	uint32_t k;
	int i;

	probe_set_begin(r->set, now);
	for (i = 0; i < RUNRIG_GROUPS; i++)
		runrig_groups[i]->read(r->state[i], r->set, now);
	probe_set_end(r->set);
	for (k = 0; k < probe_points(r->set); k++) {
		probe_point_at(r->set, k, &v);
		if (v.known ? v.why != NULL : !v.why || !v.why[0])
			fail_msg("%s{%s}: a value or a reason", v.metric->name, v.labels);
		if (v.known && !(v.value >= 0 && isfinite(v.value)))
			fail_msg("%s{%s}: %g", v.metric->name, v.labels, v.value);
	}
	r->n_events = r->n_values = 0;
	probe_set_take(r->set, &take);
}

void runrig_at(struct runrig *r, double mono_s)
{
	const struct probe_now now = {(int64_t)(mono_s * 1e9), (int64_t)(mono_s * 1e9)};

	runrig_read(r, &now);
}

void runrig_now(struct runrig *r)
{
	const struct probe_now now = {clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_BOOTTIME)};

	runrig_read(r, &now);
}

double runrig_value(const struct runrig *r, const char *name, const char *labels)
{
	return known_value(r->set, name, labels);
}

const char *runrig_why(const struct runrig *r, const char *name, const char *labels)
{
	return known_why(r->set, name, labels);
}

size_t runrig_count(const struct runrig *r, const char *kind)
{
	size_t i, n = 0;

	for (i = 0; i < r->n_events; i++)
		n += strcmp(r->events[i].kind, kind) == 0;
	return n;
}

const struct runrig_event *runrig_event(const struct runrig *r, const char *kind)
{
	size_t i;

	for (i = 0; i < r->n_events; i++)
		if (strcmp(r->events[i].kind, kind) == 0)
			return &r->events[i];
	return NULL;
}

double runrig_sum(const struct runrig *r, const char *name)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < r->n_values; i++)
		if (strcmp(r->values[i].name, name) == 0)
			sum += r->values[i].value;
	return sum;
}

bool runrig_knows(const struct runrig *r, const char *name, const char *labels)
{
	struct probe_view v;

	return known_find(r->set, name, labels, &v) && v.known;
}
