/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/topalerts.h"

#include "alert/watch.h"
#include "base/buf.h"
#include "base/mem.h"
#include "report/attrs.h"
#include "report/jsonwalk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPALERTS_ATTRS_MAX 65536u

void topalerts_done(struct topalerts *a)
{
	free(a->all);
	*a = (struct topalerts){0};
}

static size_t topalerts_find(const struct topalerts *a, const char *id)
{
	size_t i;

	for (i = 0; i < a->n && strcmp(a->all[i].id, id) != 0; i++)
		;
	return i;
}

static void topalerts_begin(struct topalerts *a, const struct store_event *e, const char *o,
			    const char *id)
{
	struct topalert *to;

	if (topalerts_find(a, id) < a->n)
		return;
	if (a->n >= TOPALERTS_MAX) {
		a->left_out++;
		return;
	}
	a->all = xgrow(a->all, a->n, &a->cap, sizeof(*a->all));
	to = &a->all[a->n++];
	*to = (struct topalert){.severity = e->severity,
				.host = e->host,
				.process = e->process,
				.since_ns = e->time_ns};
	snprintf(to->id, sizeof(to->id), "%s", id);
	snprintf(to->text, sizeof(to->text), "%s", e->text);
	jsonwalk_string(jsonwalk_get(o, "rule"), to->rule, sizeof(to->rule));
	jsonwalk_string(jsonwalk_get(o, "series"), to->series, sizeof(to->series));
	jsonwalk_string(jsonwalk_get(o, "host"), to->host_name, sizeof(to->host_name));
	to->series_id = (uint32_t)jsonwalk_int(jsonwalk_get(o, "series_id"), 0);
}

static void topalerts_end(struct topalerts *a, const char *id)
{
	size_t at = topalerts_find(a, id);

	if (at == a->n)
		return;
	a->n--;
	memmove(&a->all[at], &a->all[at + 1], (a->n - at) * sizeof(*a->all));
}

void topalerts_event(struct topalerts *a, const struct store_event *e)
{
	char id[ALERTS_ID_MAX], state[16];
	struct buf attrs;
	const char *o;

	if (!e->attrs || strcmp(e->kind, WATCH_KIND) != 0)
		return;
	buf_init(&attrs, TOPALERTS_ATTRS_MAX);
	if (attrs_compact(e->attrs, &attrs) == 0) {
		o = buf_str(&attrs);
		jsonwalk_string(jsonwalk_get(o, "alert"), id, sizeof(id));
		jsonwalk_string(jsonwalk_get(o, "state"), state, sizeof(state));
		if (id[0] && strcmp(state, "firing") == 0)
			topalerts_begin(a, e, o, id);
		else if (strcmp(state, "resolved") == 0)
			topalerts_end(a, id);
	}
	buf_done(&attrs);
}

void topalerts_unsaid(struct topalerts *a)
{
	size_t i;

	for (i = 0; i < a->n; i++) {
		a->all[i].acknowledged = false;
		a->all[i].silenced_ns = 0;
	}
}

void topalerts_said(struct topalerts *a, const struct alerts_said *s)
{
	size_t i;

	for (i = 0; i < a->n; i++) {
		struct topalert *to = &a->all[i];
		const struct alerts_scope scope = {.rule = to->rule,
						   .host = to->host_name,
						   .series_id = to->series_id,
						   .series = to->series};

		if (!s->is_silence && strcmp(s->id, to->id) == 0)
			to->acknowledged = true;
		if (alerts_said_of(s, &scope))
			to->silenced_ns = s->until_ns;
	}
}

size_t topalerts_loud(const struct topalerts *a, int64_t now_ns)
{
	size_t i, n = 0;

	for (i = 0; i < a->n; i++)
		n += a->all[i].silenced_ns <= now_ns;
	return n;
}
