/* SPDX-License-Identifier: Apache-2.0 */
#include "alert/rule.h"

#include "base/fmt.h"
#include "base/mem.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define RULE_HOLE_NS 60000000000LL /* a longer pause between values begins a hold by time anew */

/* ---- states ---------------------------------------------------------------------------- */

static enum rule_news rule_pend(const struct rule *r, struct rule_state *s, int64_t t)
{
	if (s->at == RULE_OK) {
		s->at = RULE_PENDING;
		s->since_ns = t;
		s->n = 0;
	}
	s->n++;
	if (t - s->since_ns < r->hold_ns || s->n < r->hold || t < s->cool_ns)
		return RULE_NOTHING;
	s->at = RULE_FIRING;
	s->n = 0;
	return RULE_FIRED;
}

static enum rule_news rule_fade(const struct rule *r, struct rule_state *s, int64_t t)
{
	if (s->n++ == 0)
		s->good_ns = t;
	if (s->n < r->clear_n || t - s->good_ns < r->clear_ns)
		return RULE_NOTHING;
	s->at = RULE_OK;
	s->n = 0;
	s->cool_ns = t + r->cooldown_ns;
	return RULE_RESOLVED;
}

enum rule_news rule_step(const struct rule *r, struct rule_state *s, int64_t t, enum rule_verdict v)
{
	int64_t hole = s->last_ns ? t - s->last_ns : 0;

	if (hole < 0)
		return RULE_NOTHING;
	s->last_ns = t;
	if (s->at == RULE_FIRING) {
		if (v == RULE_GOOD)
			return rule_fade(r, s, t);
		s->n = 0;
		return RULE_NOTHING;
	}
	if (v != RULE_BAD || (r->hold_ns && hole > RULE_HOLE_NS))
		s->at = RULE_OK;
	return v == RULE_BAD ? rule_pend(r, s, t) : RULE_NOTHING;
}

enum rule_verdict rule_judge(const struct rule *r, double value, double usual)
{
	double limit = r->limit, clear = r->clear;

	if (r->test == RULE_MULTIPLE) {
		limit *= usual;
		clear *= usual;
	}
	if (r->test == RULE_BELOW)
		return value < limit ? RULE_BAD : value >= clear ? RULE_GOOD : RULE_BETWEEN;
	return value >= limit ? RULE_BAD : value < clear ? RULE_GOOD : RULE_BETWEEN;
}

/* ---- names ------------------------------------------------------------------------------- */

static bool rule_is_like(const char *pattern, size_t len, const char *name, const char *labels)
{
	char one[128];

	if (len > 2 && memcmp(pattern + len - 2, "{}", 2) == 0) {
		if (labels[0])
			return false;
		len -= 2;
	}
	snprintf(one, sizeof(one), "%.*s", (int)len, pattern);
	return fnmatch(one, name, FNM_CASEFOLD) == 0;
}

bool rule_matches(const char *names, const char *name, const char *labels)
{
	const char *p = names;
	bool found = false;
	size_t len;

	while (p && *p) {
		len = strcspn(p, " ");
		if (p[0] == '!' && rule_is_like(p + 1, len - 1, name, labels))
			return false;
		found = found || (p[0] != '!' && rule_is_like(p, len, name, labels));
		p += len;
		p += strspn(p, " ");
	}
	return found;
}

/* ---- sentences ----------------------------------------------------------------------------- */

static void rule_put_bytes(double v, struct buf *out)
{
	char text[FMT_MAX];

	buf_puts(out, fmt_bytes(text, v));
}

static void rule_put_seconds(double v, struct buf *out)
{
	char text[FMT_MAX];

	buf_puts(out, fmt_seconds(text, v));
}

static void rule_put_share(double v, struct buf *out)
{
	buf_printf(out, "%.3g %%", v * 100);
}

static void rule_put_degrees(double v, struct buf *out)
{
	buf_printf(out, "%.4g °C", v);
}

static void rule_put_multiple(double v, struct buf *out)
{
	buf_printf(out, "%.3g times", v);
}

static void rule_put_plain(double v, struct buf *out)
{
	buf_printf(out, "%.4g", v);
}

void rule_value(double v, const char *unit, struct buf *out)
{
	static const struct {
		const char *unit;
		void (*put)(double v, struct buf *out);
	} rows[] = {{"By", rule_put_bytes},
		    {"s", rule_put_seconds},
		    {"1", rule_put_share},
		    {"Cel", rule_put_degrees},
		    {"x", rule_put_multiple}};
	void (*put)(double v, struct buf *out) = rule_put_plain;
	size_t i;

	if (!isfinite(v)) {
		buf_puts(out, isnan(v) ? "NaN" : v > 0 ? "infinite" : "-infinite");
		return;
	}
	for (i = 0; i < ARRAY_LEN(rows); i++)
		if (unit && strcmp(unit, rows[i].unit) == 0)
			put = rows[i].put;
	put(v, out);
}

static void rule_fill(const char *what, size_t len, const struct rule_says *w, struct buf *out)
{
	const struct {
		const char *name;
		double v;
		const char *unit;
	} rows[] = {{"value", w->value, w->unit},
		    {"limit", w->limit, w->unit},
		    {"usual", w->usual, w->unit},
		    {"for", w->for_s, "s"},
		    {"left", w->left_s, "s"}};
	size_t i;

	if (len == 6 && memcmp(what, "series", 6) == 0) {
		buf_puts(out, w->series ? w->series : "");
		return;
	}
	for (i = 0; i < ARRAY_LEN(rows); i++)
		if (strlen(rows[i].name) == len && memcmp(rows[i].name, what, len) == 0)
			rule_value(rows[i].v, rows[i].unit, out);
}

void rule_text(const char *text, const struct rule_says *w, struct buf *out)
{
	size_t len;

	while (*text) {
		len = strcspn(text, "{");
		buf_append(out, text, len);
		text += len;
		if (!*text)
			return;
		len = strcspn(text, "}");
		rule_fill(text + 1, len - 1, w, out);
		text += len + (text[len] == '}');
	}
}
