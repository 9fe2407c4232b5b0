/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/scrape/exposition.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPOSITION_NUMBER_MAX 64 /* characters of a number */

/* What has been said of the metrics that follow. */
struct exposition_family {
	struct exposition_str name, help, unit;
	enum exposition_type type;
};

struct exposition_reader {
	struct exposition_family family;
	bool openmetrics, over;
	uint64_t line;
	struct exposition_summary *out;
};

/* A line, or what is left of it. */
struct exposition_line {
	const char *p, *end;
};

/* ---- characters --------------------------------------------------------------------- */

static bool exposition_is_name(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' ||
	       (!first && c >= '0' && c <= '9');
}

static bool exposition_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static void exposition_skip_blanks(struct exposition_line *l)
{
	while (l->p < l->end && exposition_is_blank(*l->p))
		l->p++;
}

static struct exposition_str exposition_take_name(struct exposition_line *l)
{
	struct exposition_str s = {l->p, 0};

	while (l->p < l->end && exposition_is_name(*l->p, s.len == 0)) {
		l->p++;
		s.len++;
	}
	return s;
}

static struct exposition_str exposition_take_word(struct exposition_line *l)
{
	struct exposition_str s = {l->p, 0};

	while (l->p < l->end && !exposition_is_blank(*l->p))
		l->p++;
	s.len = (size_t)(l->p - s.p);
	return s;
}

static bool exposition_is(struct exposition_str s, const char *word)
{
	return strlen(word) == s.len && memcmp(s.p, word, s.len) == 0;
}

static void exposition_wrong(struct exposition_reader *r, const char *why)
{
	if (r->out->wrong++ == 0)
		snprintf(r->out->why, sizeof(r->out->why), "line %llu: %s",
			 (unsigned long long)r->line, why);
}

/* ---- numbers ------------------------------------------------------------------------ */

/* Letters that stand for a number, in any case. */
static bool exposition_word_number(const char *text, double *ret)
{
	const char *p = text + (text[0] == '+' || text[0] == '-');

	if (strcasecmp(p, "nan") == 0 && p == text)
		*ret = (double)NAN;
	else if (strcasecmp(p, "inf") == 0 || strcasecmp(p, "infinity") == 0)
		*ret = text[0] == '-' ? (double)-INFINITY : (double)INFINITY;
	else
		return false;
	return true;
}

/* Whole numbers are most of what comes: strtod() only for the others. */
static bool exposition_number(struct exposition_str s, double *ret)
{
	char text[EXPOSITION_NUMBER_MAX];
	uint64_t whole = 0;
	size_t i;
	char *end;

	for (i = 0; i < s.len && i < 15 && s.p[i] >= '0' && s.p[i] <= '9'; i++)
		whole = whole * 10 + (uint64_t)(s.p[i] - '0');
	if (i > 0 && i == s.len) {
		*ret = (double)whole;
		return true;
	}
	if (s.len == 0 || s.len >= sizeof(text))
		return false;
	memcpy(text, s.p, s.len);
	text[s.len] = '\0';
	if (strspn(text, "0123456789.eE+-") != s.len)
		return strlen(text) == s.len && exposition_word_number(text, ret);
	*ret = strtod(text, &end);
	return end == text + s.len;
}

/* ---- labels ------------------------------------------------------------------------- */

/* KEY="VALUE" with blanks between, at l; false: it is none. */
static bool exposition_take_label(struct exposition_line *l, struct exposition_str *key,
				  struct exposition_str *value)
{
	exposition_skip_blanks(l);
	*key = exposition_take_name(l);
	exposition_skip_blanks(l);
	if (key->len == 0 || memchr(key->p, ':', key->len) || l->p == l->end || *l->p != '=')
		return false;
	l->p++;
	exposition_skip_blanks(l);
	if (l->p == l->end || *l->p != '"')
		return false;
	value->p = ++l->p;
	while (l->p < l->end && *l->p != '"')
		l->p += *l->p == '\\' && l->end - l->p > 1 ? 2 : 1;
	if (l->p >= l->end)
		return false;
	value->len = (size_t)(l->p - value->p);
	l->p++;
	exposition_skip_blanks(l);
	return true;
}

bool exposition_label(struct exposition_str *rest, struct exposition_str *key,
		      struct exposition_str *value)
{
	struct exposition_line l = {rest->p, rest->p + rest->len};
	bool there = exposition_take_label(&l, key, value);

	if (there && l.p < l.end && *l.p == ',')
		l.p++;
	*rest = (struct exposition_str){l.p, (size_t)(l.end - l.p)};
	return there;
}

/* Behind the brace that opens; NULL, or what is wrong. */
static const char *exposition_take_labels(struct exposition_line *l, struct exposition_str *ret)
{
	struct exposition_str key, value;
	const char *from = l->p;
	size_t n = 0;

	exposition_skip_blanks(l);
	while (l->p < l->end && *l->p != '}') {
		if (n++ == EXPOSITION_LABELS_MAX)
			return "a sample with more than 32 labels";
		if (!exposition_take_label(l, &key, &value))
			return "a label that is not name=\"value\"";
		if (l->p < l->end && *l->p == ',')
			l->p++;
		else if (l->p == l->end || *l->p != '}')
			return "neither , nor } behind a label";
		exposition_skip_blanks(l);
	}
	if (l->p == l->end)
		return "labels that do not end";
	*ret = (struct exposition_str){from, (size_t)(l->p - from)};
	l->p++;
	return NULL;
}

size_t exposition_unescape(struct exposition_str s, char *out, size_t cap)
{
	const char *p = s.p, *end = s.p + s.len;
	size_t n = 0;

	for (; p < end; p++) {
		char c = *p;

		if (c == '\\' && end - p > 1 && (p[1] == '\\' || p[1] == '"' || p[1] == 'n')) {
			p++;
			c = *p;
			if (c == 'n')
				c = '\n';
		}
		if (n + 1 < cap)
			out[n] = c;
		n++;
	}
	if (cap)
		out[n < cap ? n : cap - 1] = '\0';
	return n;
}

/* ---- comments ----------------------------------------------------------------------- */

static const struct {
	const char *word;
	enum exposition_type type;
} exposition_types[] = {
	{"gauge", EXPOSITION_GAUGE},         {"counter", EXPOSITION_COUNTER},
	{"histogram", EXPOSITION_HISTOGRAM}, {"gaugehistogram", EXPOSITION_GAUGE_HISTOGRAM},
	{"summary", EXPOSITION_SUMMARY},     {"info", EXPOSITION_INFO},
	{"stateset", EXPOSITION_STATE_SET},  {"untyped", EXPOSITION_UNTYPED},
	{"unknown", EXPOSITION_UNTYPED},
};
#define EXPOSITION_TYPES (sizeof(exposition_types) / sizeof(exposition_types[0]))

static void exposition_set_type(struct exposition_reader *r, struct exposition_str word)
{
	size_t i;

	for (i = 0; i < EXPOSITION_TYPES && !exposition_is(word, exposition_types[i].word); i++)
		;
	if (i < EXPOSITION_TYPES)
		r->family.type = exposition_types[i].type;
	else
		exposition_wrong(r, "# TYPE names no type");
}

/* Behind the '#'. What is no HELP, TYPE, UNIT or EOF is a comment. */
static void exposition_comment(struct exposition_reader *r, struct exposition_line l)
{
	struct exposition_str word, name;

	exposition_skip_blanks(&l);
	word = exposition_take_word(&l);
	if (r->openmetrics && exposition_is(word, "EOF")) {
		r->over = true;
		return;
	}
	if (!exposition_is(word, "HELP") && !exposition_is(word, "TYPE") &&
	    !exposition_is(word, "UNIT"))
		return;
	exposition_skip_blanks(&l);
	name = exposition_take_name(&l);
	if (name.len == 0 || (l.p < l.end && !exposition_is_blank(*l.p))) {
		exposition_wrong(r, "no metric's name behind HELP, TYPE or UNIT");
		return;
	}
	exposition_skip_blanks(&l);
	if (name.len != r->family.name.len || memcmp(name.p, r->family.name.p, name.len) != 0)
		r->family = (struct exposition_family){.name = name};
	if (word.p[0] == 'T')
		exposition_set_type(r, exposition_take_word(&l));
	else if (word.p[0] == 'U')
		r->family.unit = exposition_take_word(&l);
	else
		r->family.help = (struct exposition_str){l.p, (size_t)(l.end - l.p)};
}

/* ---- samples ------------------------------------------------------------------------ */

static const struct {
	const char *suffix;
	unsigned types; /* bits of enum exposition_type that have it */
	enum exposition_role role;
} exposition_suffixes[] = {
	{"_total", 1u << EXPOSITION_COUNTER, EXPOSITION_VALUE},
	{"_sum", 1u << EXPOSITION_HISTOGRAM | 1u << EXPOSITION_SUMMARY, EXPOSITION_SUM},
	{"_count", 1u << EXPOSITION_HISTOGRAM | 1u << EXPOSITION_SUMMARY, EXPOSITION_COUNT},
	{"_bucket", 1u << EXPOSITION_HISTOGRAM | 1u << EXPOSITION_GAUGE_HISTOGRAM,
	 EXPOSITION_BUCKET},
	{"_gsum", 1u << EXPOSITION_GAUGE_HISTOGRAM, EXPOSITION_SUM},
	{"_gcount", 1u << EXPOSITION_GAUGE_HISTOGRAM, EXPOSITION_COUNT},
	{"_info", 1u << EXPOSITION_INFO, EXPOSITION_VALUE},
	{"_created",
	 1u << EXPOSITION_COUNTER | 1u << EXPOSITION_HISTOGRAM | 1u << EXPOSITION_SUMMARY,
	 EXPOSITION_CREATED},
};
#define EXPOSITION_SUFFIXES (sizeof(exposition_suffixes) / sizeof(exposition_suffixes[0]))

/* Is it of the family that was said last, and what in it? */
static void exposition_classify(const struct exposition_family *f, struct exposition_sample *s)
{
	struct exposition_str rest;
	size_t i;

	if (f->name.len == 0 || s->name.len < f->name.len ||
	    memcmp(s->name.p, f->name.p, f->name.len) != 0)
		return;
	rest = (struct exposition_str){s->name.p + f->name.len, s->name.len - f->name.len};
	for (i = 0; i < EXPOSITION_SUFFIXES && rest.len; i++)
		if ((exposition_suffixes[i].types >> f->type & 1) &&
		    exposition_is(rest, exposition_suffixes[i].suffix))
			break;
	if (rest.len && i == EXPOSITION_SUFFIXES)
		return;
	s->type = f->type;
	s->help = f->help;
	s->unit = f->unit;
	if (rest.len)
		s->role = exposition_suffixes[i].role;
	else if (f->type == EXPOSITION_SUMMARY)
		s->role = EXPOSITION_QUANTILE;
}

/* Behind the value: a time, in OpenMetrics an exemplar. */
static bool exposition_is_end(const struct exposition_reader *r, struct exposition_line l)
{
	struct exposition_str word;
	double time;

	exposition_skip_blanks(&l);
	if (l.p < l.end && *l.p != '#') {
		word = exposition_take_word(&l);
		if (!exposition_number(word, &time))
			return false;
		exposition_skip_blanks(&l);
	}
	return l.p == l.end || (r->openmetrics && *l.p == '#');
}

/* NULL, or what is wrong with it. */
static const char *exposition_sample(struct exposition_reader *r, struct exposition_line l,
				     struct exposition_sample *s)
{
	const char *from, *why = NULL;

	exposition_skip_blanks(&l);
	from = l.p;
	s->name = exposition_take_name(&l);
	if (s->name.len == 0)
		return "no metric's name";
	s->series = s->name;
	exposition_skip_blanks(&l);
	if (l.p < l.end && *l.p == '{') {
		l.p++;
		why = exposition_take_labels(&l, &s->labels);
		s->series.len = (size_t)(l.p - from);
	} else if (l.p < l.end && !exposition_is_blank(l.p[-1])) {
		why = "a character that no metric's name has";
	}
	if (why)
		return why;
	exposition_skip_blanks(&l);
	if (!exposition_number(exposition_take_word(&l), &s->value))
		return "no number behind the name";
	if (!exposition_is_end(r, l))
		return "something behind the number";
	exposition_classify(&r->family, s);
	return NULL;
}

void exposition_read(const char *text, size_t len, bool openmetrics,
		     void (*take)(void *arg, const struct exposition_sample *s), void *arg,
		     struct exposition_summary *out)
{
	struct exposition_reader r = {.openmetrics = openmetrics, .out = out};
	const char *p = text, *end = text + len, *stop, *why;

	*out = (struct exposition_summary){0};
	for (; p < end && !r.over; p = stop + 1) {
		struct exposition_sample s = {.help = {"", 0}, .unit = {"", 0}, .labels = {"", 0}};
		struct exposition_line l = {p, end};

		r.line++;
		stop = memchr(p, '\n', (size_t)(end - p));
		if (!stop) {
			/* "# EOF" may come without its end. */
			if (openmetrics && (size_t)(end - p) == 5 && memcmp(p, "# EOF", 5) == 0)
				r.over = true;
			else
				exposition_wrong(&r, "it ends within a line: cut short");
			break;
		}
		l.end = stop > p && stop[-1] == '\r' ? stop - 1 : stop;
		exposition_skip_blanks(&l);
		if (l.p == l.end)
			continue;
		if (*l.p == '#') {
			l.p++;
			exposition_comment(&r, l);
			continue;
		}
		why = exposition_sample(&r, l, &s);
		if (why) {
			exposition_wrong(&r, why);
		} else {
			out->samples++;
			take(arg, &s);
		}
	}
	if (openmetrics && !r.over) {
		r.line++;
		exposition_wrong(&r, "no \"# EOF\" at the end: cut short");
	}
}
