/* SPDX-License-Identifier: Apache-2.0
 *
 * list_json.c - the alerts of a run as JSON: docs/http.md defines it.
 */
#include "alert/list.h"

#include "base/fmt.h"
#include "base/mem.h"
#include "report/events.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Two keys: KEY_ns, a decimal string, and KEY; null for 0. */
static void json_moment(struct json *j, const char *key, int64_t ns)
{
	char name[32], text[FMT_MAX];

	snprintf(name, sizeof(name), "%s_ns", key);
	snprintf(text, sizeof(text), "%lld", (long long)ns);
	json_kstr(j, name, ns ? text : NULL);
	json_kstr(j, key, ns ? fmt_utc(text, ns) : NULL);
}

static void json_only_ns(struct json *j, const char *key, int64_t ns)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)ns);
	json_kstr(j, key, ns ? text : NULL);
}

static const struct store_series *json_find(const struct runview *v, unsigned host, uint32_t id)
{
	size_t i;

	for (i = 0; id && i < v->n_series; i++)
		if (v->series[i].host == host && v->series[i].id == id)
			return &v->series[i];
	return NULL;
}

/* The pattern that chooses this series alone, for /query. */
static void json_pattern(struct json *j, const struct store_series *s)
{
	struct buf out;

	buf_init(&out, 16384);
	buf_printf(&out, "%s{%s%shost=\"%s\"", s->name, s->labels, s->labels[0] ? "," : "",
		   s->host_name);
	if (s->rank >= 0)
		buf_printf(&out, ",rank=\"%lld\"", (long long)s->rank);
	buf_putc(&out, '}');
	json_kstr(j, "pattern", buf_str(&out));
	buf_done(&out);
}

static void json_series(struct json *j, const struct runview *v, const struct alerts_item *it)
{
	const uint32_t ids[] = {it->series, it->of};
	const struct store_series *s;
	char id[512];
	size_t i;

	json_key(j, "series");
	json_array(j);
	for (i = 0; i < ARRAY_LEN(ids); i++) {
		s = json_find(v, it->host, ids[i]);
		if (!s)
			continue;
		snprintf(id, sizeof(id), "%s/%u", s->host_name, s->id);
		json_object(j);
		json_kstr(j, "id", id);
		json_kstr(j, "name", s->name);
		json_kstr(j, "labels", s->labels);
		json_kstr(j, "unit", runview_unit(s));
		json_pattern(j, s);
		json_object_end(j);
	}
	json_array_end(j);
}

static void json_ack(struct json *j, const struct alerts_item *it)
{
	json_key(j, "acknowledged");
	if (!it->ack_ns) {
		json_null(j);
		return;
	}
	json_object(j);
	json_kstr(j, "by", it->ack_by);
	json_moment(j, "at", it->ack_ns);
	json_kstr(j, "note", it->ack_note);
	json_object_end(j);
}

static void json_value(struct json *j, const char *key, double v, bool has)
{
	json_key(j, key);
	if (has)
		json_double(j, v);
	else
		json_null(j);
}

static const char *json_host(const struct runview *v, unsigned host)
{
	size_t i;

	for (i = 0; i < v->n_series; i++)
		if (v->series[i].host == host)
			return v->series[i].host_name;
	return "";
}

static void json_item(struct json *j, const struct alerts *a, const struct alerts_item *it)
{
	char process[256] = "";

	if (it->process)
		runview_process_text(process, sizeof(process), a->v, it->host, it->process);
	json_object(j);
	json_kstr(j, "id", it->id);
	json_kstr(j, "rule", it->rule);
	json_kstr(j, "title", it->about ? it->about->title : it->rule);
	json_kstr(j, "severity", events_severity(it->severity));
	json_kstr(j, "state", alerts_state_name(it->state));
	json_moment(j, "since", it->since_ns);
	json_moment(j, "until", it->until_ns);
	json_kdouble(j, "duration_s", alerts_duration_s(a, it));
	json_kstr(j, "text", it->text);
	json_kstr(j, "do", it->about ? it->about->advice : "");
	json_kstr(j, "host", json_host(a->v, it->host));
	json_kstr(j, "process", process);
	json_value(j, "value", it->value, it->has_value);
	json_value(j, "limit", it->limit, it->has_limit);
	json_kstr(j, "unit", it->unit);
	json_only_ns(j, "from_ns", it->from_ns);
	json_only_ns(j, "to_ns", it->to_ns);
	json_series(j, a->v, it);
	json_ack(j, it);
	json_moment(j, "silenced_until", it->silenced_ns);
	json_object_end(j);
}

static void json_rule(struct json *j, const struct alerts_rule *r)
{
	struct buf test;

	buf_init(&test, RULE_TEXT_MAX);
	alerts_test(r, &test);
	json_object(j);
	json_kstr(j, "rule", r->about->name);
	json_kstr(j, "title", r->about->title);
	json_kstr(j, "severity", events_severity(r->severity));
	json_kstr(j, "looks_at", r->about->looks_at);
	json_kstr(j, "test", buf_str(&test));
	json_kstr(j, "do", r->about->advice);
	json_kint(j, "cooldown_s", 300);
	json_kstr(j, "state", alerts_look_name(r->look));
	json_kstr(j, "why", r->why);
	json_kuint(j, "fired", r->fired);
	json_only_ns(j, "last_ns", r->last_ns);
	json_moment(j, "silenced_until", r->silenced_ns);
	json_object_end(j);
	buf_done(&test);
}

static void json_counts(struct json *j, const struct alerts *a)
{
	size_t i, open, active = alerts_active(a, &open), silenced = 0, history = 0;

	for (i = 0; i < a->n; i++) {
		history += a->items[i].state != ALERTS_ACTIVE;
		silenced += a->items[i].state == ALERTS_ACTIVE && a->items[i].silenced_ns;
	}
	json_key(j, "counts");
	json_object(j);
	json_kuint(j, "active", active);
	json_kuint(j, "unacknowledged", open);
	json_kuint(j, "silenced", silenced);
	json_kuint(j, "history", history);
	json_object_end(j);
}

static bool json_is_wanted(const struct alerts_item *it, const char *which)
{
	if (strcmp(which, "all") == 0)
		return true;
	return (strcmp(which, "active") == 0) == (it->state == ALERTS_ACTIVE);
}

void alerts_json(struct json *j, const struct alerts *a, const char *which, size_t limit)
{
	size_t i, n = 0;

	json_kstr(j, "run", a->v->run.id);
	json_kbool(j, "watched", a->watched);
	json_kstr(j, "why", a->why);
	json_counts(j, a);
	json_key(j, "alerts");
	json_array(j);
	for (i = 0; i < a->n && n < limit; i++)
		if (json_is_wanted(&a->items[i], which)) {
			json_item(j, a, &a->items[i]);
			n++;
		}
	json_array_end(j);
	json_key(j, "rules");
	json_array(j);
	for (i = 0; i < a->n_rules; i++)
		json_rule(j, &a->rules[i]);
	json_array_end(j);
}
