/* SPDX-License-Identifier: Apache-2.0 */
#include "alert/list.h"

#include "alert/builtin.h"
#include "alert/watch.h"
#include "base/map.h"
#include "base/mem.h"
#include "report/attrs.h"
#include "report/jsonwalk.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_ATTRS_MAX 65536u

const char *alerts_state_name(enum alerts_state s)
{
	static const char *const names[] = {"active", "resolved", "ended"};

	return names[s];
}

const char *alerts_look_name(enum alerts_look l)
{
	static const char *const names[] = {"ok", "firing", "cannot-look", "off"};

	return names[l];
}

/* ---- events -------------------------------------------------------------------------------- */

struct list_reading {
	struct alerts *a;
	struct buf attrs;
	struct map by_id;
};

/* A number, or the text of one that JSON has not. */
static bool list_number(const char *object, const char *key, double *ret)
{
	const char *p = jsonwalk_get(object, key);

	if (!p || (*p != '"' && *p != '-' && !(*p >= '0' && *p <= '9')))
		return false;
	*ret = strtod(p + (*p == '"'), NULL);
	return true;
}

static void list_begin(struct list_reading *r, const char *o, const struct store_event *e,
		       const char *id)
{
	struct alerts *a = r->a;
	char host[ALERTS_HOST_MAX];
	struct alerts_item *it;

	if (a->n >= ALERTS_MAX)
		return;
	a->items = xgrow(a->items, a->n, &a->cap, sizeof(*a->items));
	map_put(&r->by_id, id, strlen(id), a->n);
	it = &a->items[a->n++];
	memset(it, 0, sizeof(*it));
	snprintf(it->id, sizeof(it->id), "%s", id);
	jsonwalk_string(jsonwalk_get(o, "rule"), it->rule, sizeof(it->rule));
	jsonwalk_string(jsonwalk_get(o, "series"), it->name, sizeof(it->name));
	jsonwalk_string(jsonwalk_get(o, "unit"), it->unit, sizeof(it->unit));
	it->about = builtin_find(it->rule);
	it->severity = e->severity;
	it->host = e->host;
	it->process = e->process;
	it->series = (uint32_t)jsonwalk_int(jsonwalk_get(o, "series_id"), 0);
	it->of = (uint32_t)jsonwalk_int(jsonwalk_get(o, "of_id"), 0);
	it->has_value = list_number(o, "value", &it->value);
	it->has_limit = list_number(o, "limit", &it->limit);
	it->since_ns = attrs_ns(o, "since_ns");
	it->from_ns = attrs_ns(o, "from_ns");
	it->text = xstrdup(e->text ? e->text : "");
	it->host_name = xstrdup(jsonwalk_string(jsonwalk_get(o, "host"), host, sizeof(host)));
	it->state = ALERTS_ACTIVE;
	/* A rule of another watch: that one ended. */
	if (e->host < a->n_began && e->time_ns < a->began_ns[e->host]) {
		it->state = ALERTS_ENDED;
		it->until_ns = it->to_ns = a->began_ns[e->host];
	}
}

static int list_event(void *arg, const struct store_event *e)
{
	struct list_reading *r = arg;
	char id[ALERTS_ID_MAX], state[16];
	const char *o, *p;
	uint64_t at;

	if (!e->kind || strcmp(e->kind, WATCH_KIND) != 0 || !e->attrs)
		return 0;
	buf_reset(&r->attrs);
	if (attrs_compact(e->attrs, &r->attrs) != 0)
		return 0;
	o = buf_str(&r->attrs);
	jsonwalk_string(jsonwalk_get(o, "alert"), id, sizeof(id));
	jsonwalk_string(jsonwalk_get(o, "state"), state, sizeof(state));
	if (!id[0])
		return 0;
	if (strcmp(state, "firing") == 0) {
		list_begin(r, o, e, id);
	} else if (strcmp(state, "resolved") == 0 && map_get(&r->by_id, id, strlen(id), &at)) {
		p = jsonwalk_get(o, "ended");
		r->a->items[at].state = p && *p == 't' ? ALERTS_ENDED : ALERTS_RESOLVED;
		r->a->items[at].until_ns = r->a->items[at].to_ns = e->time_ns;
	}
	return 0;
}

/* ---- what was watched ------------------------------------------------------------------------ */

static void list_take_limits(struct alerts *a, const char *limits)
{
	size_t i;

	for (i = 0; i < builtin_n_about; i++)
		list_number(limits, builtin_about[i].name, &a->limits[i]);
}

static int list_attr(void *arg, unsigned host, uint32_t process, const char *key, const char *value)
{
	struct alerts *a = arg;
	struct buf text;
	const char *o, *p;
	char name[RULE_NAME_MAX];
	size_t i;

	(void)process;
	if (strcmp(key, WATCH_ATTR) != 0)
		return 0;
	buf_init(&text, LIST_ATTRS_MAX);
	if (attrs_compact(value, &text) == 0) {
		o = buf_str(&text);
		a->watched = true;
		p = jsonwalk_get(o, "enabled");
		a->enabled = a->enabled || !p || *p == 't';
		for (; a->n_began <= host; a->n_began++) {
			a->began_ns = xrealloc(a->began_ns, a->n_began + 1, sizeof(*a->began_ns));
			a->began_ns[a->n_began] = 0;
		}
		a->began_ns[host] = attrs_ns(o, "since_ns");
		for (p = jsonwalk_first(jsonwalk_get(o, "off")); p; p = jsonwalk_next(p))
			for (i = 0; i < builtin_n_about; i++)
				if (strcmp(jsonwalk_string(p, name, sizeof(name)),
					   builtin_about[i].name) == 0)
					a->off[i] = true;
		list_take_limits(a, jsonwalk_get(o, "limits"));
	}
	buf_done(&text);
	return 0;
}

/* ---- rules --------------------------------------------------------------------------------------
 */

static bool list_has(const struct runview *v, const struct rule *r)
{
	bool has = false, has_of = r->of == NULL, is_program;
	size_t i;

	if (r->what == RULE_OF_LOSSES || r->what == RULE_OF_OUTCOME)
		return true;
	for (i = 0; i < v->n_series && !(has && has_of); i++) {
		const struct store_series *s = &v->series[i];

		if (r->what != RULE_OF_SERIES) {
			has = has || (s->kind == SINK_SPAN && strcmp(s->name, "step") == 0);
			continue;
		}
		if (s->kind != SINK_GAUGE)
			continue;
		is_program = s->source && strcmp(s->source, "record") == 0;
		has_of = has_of || strcmp(s->name, r->of) == 0;
		has = has || (is_program == (r->from == RULE_FROM_PROGRAM) &&
			      rule_matches(r->names, s->name, s->labels));
	}
	return has && has_of;
}

/* Has the run what the rule looks at? Rates are only looked at for losses. */
static bool list_can(const struct runview *v, const char *name)
{
	bool can = false;
	size_t i;

	for (i = 0; i < builtin_n_rules && !can; i++)
		can = strcmp(builtin_rules[i].name, name) == 0 &&
		      builtin_rules[i].test != RULE_RAISED && list_has(v, &builtin_rules[i]);
	return can;
}

static void list_rule(struct alerts *a, struct alerts_rule *to, size_t at)
{
	const struct rule_about *about = &builtin_about[at];
	const struct rule *first = builtin_first(about->name);
	bool can = list_can(a->v, about->name);
	size_t i;

	*to = (struct alerts_rule){.about = about,
				   .severity = first->severity,
				   .limit = a->limits[at],
				   .unit = first->what == RULE_OF_PACE ? "x" : first->unit};
	to->look = can ? ALERTS_OK : ALERTS_CANNOT;
	to->why = can ? NULL : about->missing;
	if (!a->watched || !a->enabled || a->off[at]) {
		to->look = ALERTS_OFF;
		to->why = a->off[at] ? "it is in alert.off of the configuration" : a->why;
	}
	for (i = 0; i < a->n; i++) {
		const struct alerts_item *it = &a->items[i];

		if (strcmp(it->rule, about->name) != 0)
			continue;
		to->fired++;
		to->last_ns = it->since_ns > to->last_ns ? it->since_ns : to->last_ns;
		if (it->state == ALERTS_ACTIVE)
			to->look = ALERTS_FIRING;
	}
}

/* ---- what people said
 * ------------------------------------------------------------------------------ */

/* The lines so far: what was said last holds. The file may have as many as it likes of both. */
struct list_saying {
	struct alerts *a;
	struct map by_id;    /* places of alerts */
	struct map silences; /* of a rule, or of some of its series: places in last */
	struct list_silence {
		int64_t until_ns; /* 0: it is over */
		size_t order;     /* from 1 on */
	} * last;
	size_t n, cap, order;
};

/* The silence of one series of a host, without one of all series of that name, without that of the
 * rule; NULL: there was none, and add is false. */
static struct list_silence *list_silence(struct list_saying *w, const struct alerts_scope *of,
					 bool add)
{
	char *key = of->host     ? xasprintf("%s\n@%u %s", of->rule, of->series_id, of->host)
		    : of->series ? xasprintf("%s\n=%s", of->rule, of->series)
				 : xstrdup(of->rule);
	uint64_t at = w->n;
	bool has = map_get(&w->silences, key, strlen(key), &at);

	if (!has && add) {
		w->last = xgrow(w->last, w->n, &w->cap, sizeof(*w->last));
		w->last[w->n++] = (struct list_silence){0};
		map_put(&w->silences, key, strlen(key), at);
	}
	free(key);
	return has || add ? &w->last[at] : NULL;
}

static void list_said(void *arg, const struct alerts_said *s)
{
	struct list_saying *w = arg;
	struct alerts_item *it;
	uint64_t at;

	if (s->is_silence) {
		*list_silence(w,
			      &(struct alerts_scope){.rule = s->rule,
						     .host = s->host[0] ? s->host : NULL,
						     .series_id = s->series_id,
						     .series = s->series[0] ? s->series : NULL},
			      true) = (struct list_silence){
			s->until_ns > w->a->now_ns ? s->until_ns : 0, ++w->order};
		return;
	}
	if (!map_get(&w->by_id, s->id, strlen(s->id), &at))
		return;
	it = &w->a->items[at];
	free(it->ack_by);
	free(it->ack_note);
	it->ack_ns = s->at_ns;
	it->ack_by = xstrdup(s->by);
	it->ack_note = xstrdup(s->note);
}

/* Until when: what was said last of the alert, its series' name or its rule. */
static int64_t list_silenced(struct list_saying *w, const struct alerts_item *it)
{
	const struct alerts_scope scopes[] = {
		{.rule = it->rule},
		{.rule = it->rule, .series = it->name},
		{.rule = it->rule, .host = it->host_name, .series_id = it->series},
	};
	const struct list_silence *last = NULL, *s;
	size_t i;

	for (i = 0; i < ARRAY_LEN(scopes); i++) {
		s = list_silence(w, &scopes[i], false);
		if (s && (!last || s->order > last->order))
			last = s;
	}
	return last ? last->until_ns : 0;
}

static void list_take_said(struct alerts *a)
{
	struct list_saying w = {.a = a};
	const struct list_silence *all;
	size_t i;

	map_init(&w.by_id);
	map_init(&w.silences);
	for (i = 0; i < a->n; i++)
		map_put(&w.by_id, a->items[i].id, strlen(a->items[i].id), i);
	alerts_said(a->v->dir, list_said, &w);
	for (i = 0; i < a->n; i++)
		a->items[i].silenced_ns = list_silenced(&w, &a->items[i]);
	for (i = 0; i < a->n_rules; i++) {
		all = list_silence(&w, &(struct alerts_scope){.rule = a->rules[i].about->name},
				   false);
		a->rules[i].silenced_ns = all ? all->until_ns : 0;
	}
	free(w.last);
	map_done(&w.by_id);
	map_done(&w.silences);
}

/* ---- all of it
 * ----------------------------------------------------------------------------------------- */

static int list_compare(const void *x, const void *y)
{
	const struct alerts_item *a = x, *b = y;

	if (a->since_ns != b->since_ns)
		return a->since_ns < b->since_ns ? 1 : -1;
	return strcmp(a->id, b->id);
}

static void list_end(struct alerts *a)
{
	const struct store_run *run = &a->v->run;
	size_t i;

	for (i = 0; i < a->n && run->outcome != RUN_RUNNING; i++) {
		if (a->items[i].state != ALERTS_ACTIVE)
			continue;
		a->items[i].state = ALERTS_ENDED;
		a->items[i].until_ns = a->items[i].to_ns = run->end_ns;
	}
	if (a->n)
		qsort(a->items, a->n, sizeof(*a->items), list_compare);
}

int alerts_read(struct alerts *a, const struct runview *v, int64_t now_ns, struct err *e)
{
	struct list_reading r = {.a = a};
	size_t i;
	int err;

	memset(a, 0, sizeof(*a));
	a->v = v;
	a->now_ns = now_ns;
	a->off = xcalloc(builtin_n_about, sizeof(*a->off));
	a->limits = xcalloc(builtin_n_about, sizeof(*a->limits));
	for (i = 0; i < builtin_n_about; i++)
		a->limits[i] = builtin_first(builtin_about[i].name)->limit;
	err = store_reader_attrs(v->reader, list_attr, a, e);
	a->why = !a->watched   ? "nobody watched it: it was recorded by a lapse without alerts"
		 : !a->enabled ? "alerts are off: alert.enabled of the configuration"
			       : NULL;
	a->watched = a->watched && a->enabled;
	buf_init(&r.attrs, LIST_ATTRS_MAX);
	map_init(&r.by_id);
	if (!err)
		err = store_reader_events(v->reader, list_event, &r, e);
	map_done(&r.by_id);
	buf_done(&r.attrs);
	list_end(a);
	a->n_rules = builtin_n_about;
	a->rules = xcalloc(a->n_rules, sizeof(*a->rules));
	for (i = 0; i < a->n_rules; i++)
		list_rule(a, &a->rules[i], i);
	list_take_said(a);
	if (err)
		alerts_done(a);
	return err;
}

void alerts_done(struct alerts *a)
{
	size_t i;

	for (i = 0; i < a->n; i++) {
		free(a->items[i].text);
		free(a->items[i].host_name);
		free(a->items[i].ack_by);
		free(a->items[i].ack_note);
	}
	free(a->items);
	free(a->rules);
	free(a->began_ns);
	free(a->off);
	free(a->limits);
	memset(a, 0, sizeof(*a));
}

double alerts_duration_s(const struct alerts *a, const struct alerts_item *it)
{
	int64_t end = it->until_ns ? it->until_ns : a->now_ns, ns;

	/* What is in a file need not be a time. */
	return __builtin_sub_overflow(end, it->since_ns, &ns) ? 0 : (double)ns / 1e9;
}

size_t alerts_active(const struct alerts *a, size_t *ret_unacknowledged)
{
	size_t i, n = 0, open = 0;

	for (i = 0; i < a->n; i++) {
		if (a->items[i].state != ALERTS_ACTIVE || a->items[i].silenced_ns)
			continue;
		n++;
		open += a->items[i].ack_ns == 0;
	}
	if (ret_unacknowledged)
		*ret_unacknowledged = open;
	return n;
}

const struct alerts_item *alerts_find(const struct alerts *a, const char *id)
{
	size_t i;

	for (i = 0; i < a->n; i++)
		if (strcmp(a->items[i].id, id) == 0)
			return &a->items[i];
	return NULL;
}

void alerts_test(const struct alerts_rule *r, struct buf *out)
{
	struct rule_says says = {.limit = r->limit, .unit = r->unit};

	/* "twice" rather than "2 times times". */
	if (r->unit && strcmp(r->unit, "x") == 0)
		says.unit = "";
	rule_text(r->about->test, &says, out);
}
