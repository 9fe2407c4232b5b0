/* SPDX-License-Identifier: Apache-2.0 */
#include "taken.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static void taken_add_value(void *arg, uint32_t point, const struct probe_metric *m,
			    const char *labels, int64_t boot_ns, double value)
{
	struct taken *t = arg;
	struct taken_value *v = &t->values[t->n_values++];

	(void)point;
	assert_true(t->n_values <= ARRAY_LEN(t->values));
	v->name = m->name;
	snprintf(v->labels, sizeof(v->labels), "%s", labels);
	v->boot_ns = boot_ns;
	v->value = value;
}

static void taken_fill(struct taken_event *e, int severity, const char *kind, const char *text,
		       const char *attrs)
{
	e->severity = severity;
	snprintf(e->kind, sizeof(e->kind), "%s", kind);
	snprintf(e->text, sizeof(e->text), "%s", text);
	snprintf(e->attrs, sizeof(e->attrs), "%s", attrs);
}

static void taken_add_event(void *arg, int64_t boot_ns, int severity, const char *kind,
			    const char *text, const char *attrs)
{
	struct taken *t = arg;

	(void)boot_ns;
	assert_true(t->n_events < TAKEN_MAX);
	taken_fill(&t->events[t->n_events++], severity, kind, text, attrs);
}

static void taken_add_fact(void *arg, const char *key, const char *value)
{
	struct taken *t = arg;

	assert_true(t->n_facts < TAKEN_MAX);
	taken_fill(&t->facts[t->n_facts++], 0, key, value, "");
}

void taken_take(struct taken *t, struct probe_set *s)
{
	const struct probe_taker taker = {taken_add_value, taken_add_event, taken_add_fact, t};

	t->n_events = t->n_values = t->n_facts = 0;
	probe_set_take(s, &taker);
}

size_t taken_count(const struct taken *t, const char *kind)
{
	size_t i, n = 0;

	for (i = 0; i < t->n_events; i++)
		n += strcmp(t->events[i].kind, kind) == 0;
	return n;
}

const struct taken_event *taken_event(const struct taken *t, const char *kind)
{
	size_t i;

	for (i = 0; i < t->n_events; i++)
		if (strcmp(t->events[i].kind, kind) == 0)
			return &t->events[i];
	return NULL;
}

const char *taken_fact(const struct taken *t, const char *key)
{
	size_t i;

	for (i = 0; i < t->n_facts; i++)
		if (strcmp(t->facts[i].kind, key) == 0)
			return t->facts[i].text;
	return "";
}
