/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/scrape/collect.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "probe/scrape/preset.h"
#include "wire/sink.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLLECT_KNOWN_MAX (4 * COLLECT_SERIES_MAX) /* texts of series remembered */
#define COLLECT_KEY_MAX 64                         /* bytes of a label's name, NUL included */
#define COLLECT_HELP_MAX 512
#define COLLECT_UNIT_MAX 16
#define COLLECT_UNWANTED UINT64_MAX /* values of `known` instead of a number */
#define COLLECT_LEFT_OUT (UINT64_MAX - 1)

struct collect_series {
	uint32_t point;
	uint32_t seen; /* the reading that had it last */
	bool counter, has_last, absent;
	double last, scale;
};

struct collect {
	const struct scrape_target *target;
	struct collect_rows *rows;
	struct probe_set *set;
	struct collect_result *out;
	struct map known;  /* series as exposed -> number in series, or as above */
	struct map points; /* point -> number in series */
	struct collect_series *series;
	size_t n, cap;
	uint32_t reading;
};

struct collect_label {
	char key[COLLECT_KEY_MAX];
	char value[PROBE_LABELS_MAX];
};

struct collect_labels {
	struct collect_label one[EXPOSITION_LABELS_MAX + 2];
	size_t n;
};

/* ---- rows ------------------------------------------------------------------------------- */

void collect_rows_init(struct collect_rows *r)
{
	*r = (struct collect_rows){.n = 0};
	map_init(&r->index);
}

void collect_rows_done(struct collect_rows *r)
{
	size_t i;

	for (i = 0; i < r->n; i++) {
		free((char *)r->rows[i]->name);
		free((char *)r->rows[i]->unit);
		free((char *)r->rows[i]->help);
		free((char *)r->rows[i]->source);
		free(r->rows[i]);
	}
	free(r->rows);
	map_done(&r->index);
}

static bool collect_ends(struct exposition_str s, const char *suffix)
{
	size_t n = strlen(suffix);

	return s.len > n && memcmp(s.p + s.len - n, suffix, n) == 0;
}

static bool collect_is_counter(const struct exposition_sample *s)
{
	if (s->type == EXPOSITION_UNTYPED)
		return collect_ends(s->name, "_total");
	if (s->type == EXPOSITION_COUNTER)
		return true;
	return (s->type == EXPOSITION_HISTOGRAM || s->type == EXPOSITION_SUMMARY) &&
	       s->role != EXPOSITION_QUANTILE;
}

/* What it is called here: PRESET/REST or scrape/NAME; ':' parts as '/' does. */
static char *collect_name(const struct scrape_preset *p, struct exposition_str name)
{
	size_t n = strlen(p->from), i;
	bool ours = n && name.len > n && memcmp(name.p, p->from, n) == 0;
	char *out;

	out = ours ? xasprintf("%s%.*s", p->to, (int)(name.len - n), name.p + n)
		   : xasprintf("scrape/%.*s", (int)name.len, name.p);
	for (i = 0; out[i]; i++)
		if (out[i] == ':')
			out[i] = '/';
	return out;
}

static char *collect_unit(const struct exposition_sample *s)
{
	const char *unit = preset_unit(s->name.p, s->name.len);

	if (s->role == EXPOSITION_COUNT || s->role == EXPOSITION_BUCKET)
		unit = "1";
	if (unit[0] == '\0' && s->unit.len && s->unit.len < COLLECT_UNIT_MAX)
		return xstrndup(s->unit.p, s->unit.len);
	return xstrdup(unit);
}

static char *collect_help(struct exposition_str help)
{
	char text[COLLECT_HELP_MAX];

	exposition_unescape(help, text, sizeof(text));
	utf8_clean(text, strlen(text));
	return xstrdup(text);
}

static const struct probe_metric *collect_row(struct collect *c, const struct exposition_sample *s)
{
	int kind = collect_is_counter(s) ? SINK_COUNTER : SINK_GAUGE;
	struct collect_rows *r = c->rows;
	char key[COLLECT_NAME_MAX + 16];
	struct probe_metric *m;
	char *name, *unit;
	uint64_t at;

	name = collect_name(c->target->preset, s->name);
	snprintf(key, sizeof(key), "%d%s", kind, name);
	if (map_get(&r->index, key, strlen(key), &at)) {
		free(name);
		return r->rows[at];
	}
	unit = collect_unit(s);
	m = xcalloc(1, sizeof(*m));
	*m = (struct probe_metric){.name = name,
				   .unit = unit,
				   .help = collect_help(s->help),
				   .source = xstrndup(s->name.p, s->name.len),
				   .kind = kind,
				   .cost = PROBE_COST_EACH};
	r->rows = xgrow(r->rows, r->n, &r->cap, sizeof(*r->rows));
	r->rows[r->n] = m;
	map_put(&r->index, key, strlen(key), r->n++);
	return m;
}

/* ---- labels ----------------------------------------------------------------------------- */

static bool collect_is_word(const char *const *words, const char *word)
{
	for (; words && *words; words++)
		if (strcmp(*words, word) == 0)
			return true;
	return false;
}

static void collect_add_label(struct collect_labels *l, const char *key, const char *value)
{
	struct collect_label *one = &l->one[l->n++];

	snprintf(one->key, sizeof(one->key), "%s", key);
	snprintf(one->value, sizeof(one->value), "%s", value);
}

/* Our name of a label in a row's list OURS=THEIRS,...; false: it is not kept. */
static bool collect_rename(const char *list, char key[COLLECT_KEY_MAX])
{
	const char *p, *equals;
	size_t n, ours;

	for (p = list; *p; p += n + (p[n] == ',')) {
		n = strcspn(p, ",");
		equals = memchr(p, '=', n);
		ours = (size_t)(equals - p);
		if (strlen(key) != n - ours - 1 || memcmp(key, equals + 1, n - ours - 1) != 0)
			continue;
		snprintf(key, COLLECT_KEY_MAX, "%.*s", (int)ours, p);
		return true;
	}
	return false;
}

static int collect_by_key(const void *a, const void *b)
{
	const struct collect_label *x = a, *y = b;

	return strcmp(x->key, y->key);
}

/* Those of a sample that are kept; NULL, or what is wrong. */
static const char *collect_take_labels(const struct collect *c, const struct exposition_sample *s,
				       const struct preset_row *row, struct collect_labels *out)
{
	struct exposition_str rest = s->labels, key, value;
	char name[COLLECT_KEY_MAX], text[PROBE_LABELS_MAX], number[16];
	const char *const *dropped = c->target->preset->drop_labels;

	while (exposition_label(&rest, &key, &value)) {
		if (key.len >= sizeof(name))
			return "a label's name is longer than 63 bytes";
		memcpy(name, key.p, key.len);
		name[key.len] = '\0';
		if (row ? !collect_rename(row->labels, name)
			: collect_is_word(dropped, name) ||
				    collect_is_word((const char *const *)c->target->drop_labels,
						    name))
			continue;
		if (exposition_unescape(value, text, sizeof(text)) >= sizeof(text))
			return "labels longer than 255 bytes (drop_labels)";
		utf8_clean(text, strlen(text));
		/* Without a value it is as if it were not there. */
		if (text[0])
			collect_add_label(
				out, strcmp(name, "target") == 0 ? "exported_target" : name, text);
	}
	if (row && strstr(row->labels, "@node")) {
		snprintf(number, sizeof(number), "%u", c->target->number);
		collect_add_label(out, "node", number);
	}
	collect_add_label(out, "target", c->target->name);
	return NULL;
}

static const char *collect_labels_of(const struct collect *c, const struct exposition_sample *s,
				     const struct preset_row *row, char out[PROBE_LABELS_MAX])
{
	struct collect_labels l = {.n = 0};
	const char *why = collect_take_labels(c, s, row, &l);
	size_t i;

	if (why)
		return why;
	qsort(l.one, l.n, sizeof(l.one[0]), collect_by_key);
	out[0] = '\0';
	for (i = 0; i < l.n; i++) {
		if (i && strcmp(l.one[i].key, l.one[i - 1].key) == 0)
			return "a label twice";
		if (probe_label(out, PROBE_LABELS_MAX, l.one[i].key, l.one[i].value) < 0)
			return "labels longer than 255 bytes (drop_labels)";
	}
	return NULL;
}

/* ---- series ----------------------------------------------------------------------------- */

struct collect *collect_new(const struct scrape_target *t, struct collect_rows *rows)
{
	struct collect *c = xcalloc(1, sizeof(*c));

	c->target = t;
	c->rows = rows;
	map_init(&c->known);
	map_init(&c->points);
	return c;
}

void collect_free(struct collect *c)
{
	if (!c)
		return;
	map_done(&c->known);
	map_done(&c->points);
	free(c->series);
	free(c);
}

static bool collect_matches(const char *const *patterns, const char *name)
{
	for (; patterns && *patterns; patterns++)
		if (fnmatch(*patterns, name, 0) == 0)
			return true;
	return false;
}

/* The target's own filters go before the preset's. */
static bool collect_is_wanted(const struct scrape_target *t, const char *name)
{
	const char *const *keep = (const char *const *)t->keep;
	const char *const *drop = (const char *const *)t->drop;

	if (collect_matches(drop, name))
		return false;
	if (keep && keep[0])
		return collect_matches(keep, name);
	return !collect_matches(t->preset->drop, name) &&
	       (!t->preset->keep || collect_matches(t->preset->keep, name));
}

static uint64_t collect_leave_out(struct collect *c, const struct exposition_sample *s,
				  const char *why)
{
	if (c->out->left_out++ == 0)
		snprintf(c->out->why, sizeof(c->out->why), "%s, first of %.*s", why,
			 (int)(s->name.len < 64 ? s->name.len : 64), s->name.p);
	return COLLECT_LEFT_OUT;
}

/* A point that another text of this target had: the same one, written otherwise. */
static bool collect_find_point(struct collect *c, uint32_t point, uint64_t *ret)
{
	return map_get(&c->points, &point, sizeof(point), ret);
}

static uint64_t collect_add(struct collect *c, const struct exposition_sample *s,
			    const struct preset_row *row)
{
	const struct probe_metric *m = row ? &row->metric : collect_row(c, s);
	char labels[PROBE_LABELS_MAX];
	const char *why = collect_labels_of(c, s, row, labels);
	uint32_t point;
	uint64_t at;

	if (!why && c->n == COLLECT_SERIES_MAX)
		why = "more than 10,000 series of a target (keep, drop)";
	if (why)
		return collect_leave_out(c, s, why);
	point = probe_point(c->set, m, labels);
	if (point == PROBE_NONE)
		return collect_leave_out(c, s, "more than 32,768 series of all targets");
	if (collect_find_point(c, point, &at)) {
		if (c->series[at].seen != c->reading)
			return at;
		return collect_leave_out(c, s, "the same labels twice (drop_labels)");
	}
	c->series = xgrow(c->series, c->n, &c->cap, sizeof(*c->series));
	c->series[c->n] = (struct collect_series){
		.point = point, .counter = m->kind == SINK_COUNTER, .scale = row ? row->scale : 1};
	map_put(&c->points, &point, sizeof(point), c->n);
	return c->n++;
}

/* A text that is seen for the first time. */
static uint64_t collect_meet(struct collect *c, const struct exposition_sample *s)
{
	char name[COLLECT_NAME_MAX];
	uint64_t at;

	if (s->name.len >= sizeof(name))
		return collect_leave_out(c, s, "a name longer than 199 bytes");
	if (c->known.len >= COLLECT_KNOWN_MAX)
		return collect_leave_out(c, s, "more than 40,000 series have come and gone");
	memcpy(name, s->name.p, s->name.len);
	name[s->name.len] = '\0';
	at = COLLECT_UNWANTED;
	if (collect_is_wanted(c->target, name))
		at = collect_add(c, s, preset_row_of(c->target->preset, name, s->name.len));
	map_put(&c->known, s->series.p, s->series.len, at);
	return at;
}

static void collect_put(struct probe_set *set, struct collect_series *e, double value)
{
	if (!e->counter) {
		probe_put(set, e->point, value * e->scale);
		return;
	}
	if (!isfinite(value)) {
		probe_absent(set, e->point, "the target tells no number");
		return;
	}
	if (!e->has_last)
		probe_absent(set, e->point, "needs a second reading");
	else if (value < e->last)
		probe_absent(set, e->point, "the counter began anew");
	else
		probe_put(set, e->point, (value - e->last) * e->scale);
	e->last = value;
	e->has_last = true;
}

static void collect_sample(void *arg, const struct exposition_sample *s)
{
	struct collect *c = arg;
	struct collect_series *e;
	uint64_t at;

	if (s->role == EXPOSITION_CREATED || (s->role == EXPOSITION_BUCKET && !c->target->buckets))
		return;
	if (!map_get(&c->known, s->series.p, s->series.len, &at))
		at = collect_meet(c, s);
	else if (at == COLLECT_LEFT_OUT)
		c->out->left_out++;
	if (at >= COLLECT_LEFT_OUT)
		return;
	e = &c->series[at];
	if (e->seen == c->reading) { /* told twice: the first holds */
		collect_leave_out(c, s, "a series twice in one text");
		return;
	}
	e->seen = c->reading;
	e->absent = false;
	collect_put(c->set, e, s->value);
}

void collect_read(struct collect *c, struct probe_set *s, const char *text, size_t len,
		  bool openmetrics, struct collect_result *out)
{
	size_t i;

	out->left_out = 0;
	out->why[0] = '\0';
	c->set = s;
	c->out = out;
	c->reading++;
	exposition_read(text, len, openmetrics, collect_sample, c, &out->text);
	for (i = 0; i < c->n; i++) {
		if (c->series[i].seen == c->reading || c->series[i].absent)
			continue;
		c->series[i].absent = true;
		probe_absent(s, c->series[i].point, "the target tells it no longer");
	}
	c->set = NULL;
	c->out = NULL;
}

void collect_absent(struct collect *c, struct probe_set *s, const char *why)
{
	size_t i;

	for (i = 0; i < c->n; i++) {
		c->series[i].absent = true;
		probe_absent(s, c->series[i].point, why);
	}
}
