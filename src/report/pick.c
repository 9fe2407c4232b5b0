/* SPDX-License-Identifier: Apache-2.0
 *
 * pick.c - see pick.h.
 */
#include "report/pick.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "report/runview.h"

/* ---- better --------------------------------------------------------------------- */

static const struct {
	const char *word;
	int direction;
} pick_words[] = {
	{"loss", -1},    {"error", -1},   {"err", -1},       {"perplexity", -1},
	{"ppl", -1},     {"wer", -1},     {"cer", -1},       {"mae", -1},
	{"mse", -1},     {"rmse", -1},    {"mape", -1},      {"nll", -1},
	{"bpb", -1},     {"bpc", -1},     {"fid", -1},       {"kid", -1},
	{"regret", -1},  {"latency", -1}, {"time", -1},      {"divergence", -1},
	{"entropy", -1}, {"acc", 1},      {"accuracy", 1},   {"precision", 1},
	{"recall", 1},   {"f", 1},        {"auc", 1},        {"auroc", 1},
	{"auprc", 1},    {"ap", 1},       {"map", 1},        {"iou", 1},
	{"miou", 1},     {"dice", 1},     {"bleu", 1},       {"rouge", 1},
	{"meteor", 1},   {"psnr", 1},     {"ssim", 1},       {"reward", 1},
	{"return", 1},   {"score", 1},    {"throughput", 1}, {"mfu", 1},
	{"top", 1},      {"r", 1},        {"ndcg", 1},       {"mrr", 1},
	{"hits", 1},     {"win", 1},      {"likelihood", 1},
};

static int pick_word(const char *word, size_t len)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(pick_words); i++)
		if (strlen(pick_words[i].word) == len &&
		    strncasecmp(pick_words[i].word, word, len) == 0)
			return pick_words[i].direction;
	return 0;
}

int pick_direction(const char *metric)
{
	int direction = 0, one;
	const char *p = metric;
	size_t n;

	while (*p) {
		for (n = 0; isalpha((unsigned char)p[n]);)
			n++;
		one = n ? pick_word(p, n) : 0;
		direction = one ? one : direction;
		p += n ? n : 1;
	}
	return direction;
}

/* ---- fields ---------------------------------------------------------------------- */

struct pick_field {
	const char *name;
	/* Text of a run, or NULL: a number. */
	const char *(*text)(const struct index_run *r, char room[FMT_MAX]);
	double (*number)(const struct index_run *r); /* NaN: there is none */
	int (*parse)(const char *text, int64_t *ret);
	double unit; /* of what parse gives */
	bool words;  /* text is words with commas between: each is looked at */
};

#define PICK_TEXT(member)                                                                          \
	static const char *pick_##member(const struct index_run *r, char room[FMT_MAX])            \
	{                                                                                          \
		(void)room;                                                                        \
		return r->run.member;                                                              \
	}
PICK_TEXT(name)
PICK_TEXT(project)
PICK_TEXT(user)
PICK_TEXT(command)
PICK_TEXT(notes)
PICK_TEXT(tags)
PICK_TEXT(hosts)

static const char *pick_id(const struct index_run *r, char room[FMT_MAX])
{
	(void)room;
	return r->id;
}

static const char *pick_outcome(const struct index_run *r, char room[FMT_MAX])
{
	(void)room;
	return run_outcome_name(r->run.outcome);
}

static double pick_duration(const struct index_run *r)
{
	return runview_duration_s(&r->run);
}

static double pick_size(const struct index_run *r)
{
	return (double)r->bytes;
}

static double pick_step(const struct index_run *r)
{
	return r->step == SINK_STEP_NONE ? NAN : (double)r->step;
}

static double pick_exit_code(const struct index_run *r)
{
	return r->run.outcome == RUN_EXITED ? r->run.code : NAN;
}

static double pick_started(const struct index_run *r)
{
	return (double)r->run.start_ns / 1e9;
}

static const struct pick_field pick_fields[] = {
	{.name = "id", .text = pick_id},
	{.name = "name", .text = pick_name},
	{.name = "project", .text = pick_project},
	{.name = "user", .text = pick_user},
	{.name = "command", .text = pick_command},
	{.name = "notes", .text = pick_notes},
	{.name = "outcome", .text = pick_outcome},
	{.name = "tag", .text = pick_tags, .words = true},
	{.name = "tags", .text = pick_tags, .words = true},
	{.name = "host", .text = pick_hosts, .words = true},
	{.name = "step", .number = pick_step, .parse = number_int, .unit = 1},
	{.name = "exit_code", .number = pick_exit_code, .parse = number_int, .unit = 1},
	{.name = "duration", .number = pick_duration, .parse = number_duration, .unit = 1e9},
	{.name = "size", .number = pick_size, .parse = number_bytes, .unit = 1},
	{.name = "started", .number = pick_started, .parse = number_int, .unit = 1},
};

void pick_key_set(struct pick_key *k, const char *text)
{
	static const char *const whiches[] = {[PICK_LAST] = ":last",
					      [PICK_BEST] = ":best",
					      [PICK_MIN] = ":min",
					      [PICK_MAX] = ":max"};
	size_t i, n = strlen(text), len;

	*k = (struct pick_key){.which = PICK_LAST};
	for (i = 0; i < ARRAY_LEN(pick_fields); i++)
		if (strcmp(pick_fields[i].name, text) == 0)
			k->field = &pick_fields[i];
	for (i = 0; i < ARRAY_LEN(whiches); i++) {
		len = strlen(whiches[i]);
		if (n > len && strcmp(text + n - len, whiches[i]) == 0) {
			k->which = (enum pick_which)i;
			n -= len;
			break;
		}
	}
	k->name = xstrndup(text, n);
}

void pick_key_done(struct pick_key *k)
{
	free(k->name);
	*k = (struct pick_key){0};
}

static double pick_metric(const struct index_metric *m, const char *name, enum pick_which which)
{
	int direction;

	switch (which) {
	case PICK_MIN:
		return m->min;
	case PICK_MAX:
		return m->max;
	case PICK_BEST:
		direction = pick_direction(name);
		return direction > 0 ? m->max : direction < 0 ? m->min : NAN;
	default:
		return m->kind == SINK_COUNTER ? m->sum : m->last;
	}
}

void pick_get(struct index *x, size_t i, const struct pick_key *k, struct pick_value *ret)
{
	const struct index_run *r = index_get(x, i);
	const struct pick_field *f = k->field;

	ret->has = false;
	ret->text = NULL;
	ret->metric = NULL;
	ret->number = NAN;
	if (r->error && !(f && f->text == pick_id))
		return;
	if (f && f->text) {
		ret->text = f->text(r, ret->room);
		ret->has = true;
	} else if (f) {
		ret->number = f->number(r);
		ret->has = !isnan(ret->number);
	} else {
		ret->metric = index_metric(x, i, k->name);
		ret->has = ret->metric && ret->metric->count > 0;
		if (ret->has)
			ret->number = pick_metric(ret->metric, k->name, k->which);
		if (k->which != PICK_LAST && isnan(ret->number))
			ret->has = false;
	}
}

/* ---- conditions --------------------------------------------------------------------- */

/* Where the operator of a condition stands; its length. */
static size_t pick_operator(const char *text, const char **at, enum pick_op *ret)
{
	static const struct {
		const char *text;
		enum pick_op op;
	} ops[] = {{"==", PICK_EQ}, {"!=", PICK_NE}, {"<=", PICK_LE}, {">=", PICK_GE},
		   {"=", PICK_EQ},  {"<", PICK_LT},  {">", PICK_GT}};
	size_t i;

	*at = strpbrk(text, "=!<>");
	for (i = 0; *at && i < ARRAY_LEN(ops); i++)
		if (strncmp(*at, ops[i].text, strlen(ops[i].text)) == 0) {
			*ret = ops[i].op;
			return strlen(ops[i].text);
		}
	return 0;
}

static int pick_parse_number(struct pick_term *t, const char *text, char why[256])
{
	const struct pick_field *f = t->key.field;
	int64_t v = 0;

	if (f && f->parse(text, &v) == 0) {
		t->number = (double)v / f->unit;
		return 0;
	}
	if (!f && strcasecmp(text, "nan") == 0) {
		t->number = NAN;
		return 0;
	}
	if (!f && number_double(text, &t->number) == 0)
		return 0;
	if (f)
		snprintf(why, 256, "\"%.60s\" is no value of %s", text, f->name);
	else
		snprintf(why, 256,
			 "\"%.60s\" is no number, and \"%.60s\" none of id, name, project, user, "
			 "command, notes, outcome, tag, host, step, exit_code, duration, size",
			 text, t->key.name);
	return -EINVAL;
}

int pick_term_parse(struct pick_term *t, const char *text, char why[256])
{
	const struct pick_field *f;
	const char *at, *value;
	size_t n = pick_operator(text, &at, &t->op);
	char *name;
	int r = 0;

	*t = (struct pick_term){.op = t->op};
	if (n == 0 || at == text) {
		snprintf(why, 256, "\"%.60s\" is not like project=ocr or loss<0.5", text);
		return -EINVAL;
	}
	value = at + n;
	while (at > text && at[-1] == ' ')
		at--;
	value += strspn(value, " ");
	name = xstrndup(text, (size_t)(at - text));
	pick_key_set(&t->key, name);
	free(name);
	f = t->key.field;
	if (!f || !f->text) {
		r = pick_parse_number(t, value, why);
	} else if (t->op != PICK_EQ && t->op != PICK_NE) {
		snprintf(why, 256, "%s is text: only = and != can be asked", f->name);
		r = -EINVAL;
	}
	if (r < 0)
		pick_term_done(t);
	else
		t->text = xstrdup(value);
	return r;
}

void pick_term_done(struct pick_term *t)
{
	pick_key_done(&t->key);
	free(t->text);
	*t = (struct pick_term){0};
}

/* Does the text, or with words one of its words, match? */
static bool pick_matches(const char *pattern, const char *text, bool words)
{
	char *copy, *word, *save = NULL;
	bool is = false;

	if (!words || !*text)
		return fnmatch(pattern, text, 0) == 0;
	copy = xstrdup(text);
	for (word = strtok_r(copy, ",", &save); word && !is; word = strtok_r(NULL, ",", &save)) {
		while (*word == ' ')
			word++;
		is = fnmatch(pattern, word, 0) == 0;
	}
	free(copy);
	return is;
}

static bool pick_compares(double a, enum pick_op op, double b)
{
	bool equal = (isnan(a) && isnan(b)) || (a >= b && a <= b);

	switch (op) {
	case PICK_EQ:
		return equal;
	case PICK_NE:
		return !equal;
	case PICK_LT:
		return a < b;
	case PICK_LE:
		return a <= b;
	case PICK_GT:
		return a > b;
	default:
		return a >= b;
	}
}

bool pick_is(struct index *x, size_t i, const struct pick_term *t)
{
	const struct pick_field *f = t->key.field;
	struct pick_value v;

	pick_get(x, i, &t->key, &v);
	if (!v.has)
		return false;
	if (v.text)
		return pick_matches(t->text, v.text, f->words) == (t->op == PICK_EQ);
	return pick_compares(v.number, t->op, t->number);
}

/* ---- order ---------------------------------------------------------------------------- */

struct pick_row {
	struct pick_place place; /* first */
	size_t run;
};

void pick_place_set(struct pick_place *p, const struct pick_value *v, size_t at, int sign)
{
	*p = (struct pick_place){.at = at,
				 .has = v->has && (v->text || !isnan(v->number)),
				 .text = v->text,
				 .number = v->number,
				 .sign = sign};
}

int pick_place_compare(const void *a, const void *b)
{
	const struct pick_place *x = a, *y = b;
	int order = 0;

	if (x->has != y->has)
		return x->has ? -1 : 1;
	if (x->has && x->text)
		order = strcmp(x->text, y->text);
	else if (x->has)
		order = x->number < y->number ? -1 : x->number > y->number;
	if (order)
		return (order < 0) == (x->sign > 0) ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

void pick_sort(struct index *x, size_t *runs, size_t n, const struct pick_key *k, bool reverse)
{
	const struct pick_field *f = k->field;
	struct pick_row *rows = xcalloc(n, sizeof(*rows));
	struct pick_value v;
	int sign = f && f->text ? 1 : -1;
	size_t i;

	if (!f && pick_direction(k->name) < 0)
		sign = 1;
	if (reverse)
		sign = -sign;
	for (i = 0; i < n; i++) {
		pick_get(x, runs[i], k, &v);
		rows[i].run = runs[i];
		pick_place_set(&rows[i].place, &v, i, sign);
	}
	if (n)
		qsort(rows, n, sizeof(*rows), pick_place_compare);
	for (i = 0; i < n; i++)
		runs[i] = rows[i].run;
	free(rows);
}

/* ---- figures --------------------------------------------------------------------------- */

const char *const pick_losses[PICK_LOSSES] = {"loss", "train/loss", "train_loss"};

const struct index_metric *pick_loss(struct index *x, size_t i)
{
	const struct index_metric *m;
	size_t k;

	for (k = 0; k < ARRAY_LEN(pick_losses); k++) {
		m = index_metric(x, i, pick_losses[k]);
		if (m && m->kind == SINK_GAUGE && m->count)
			return m;
	}
	return NULL;
}

void pick_json(struct json *j, struct index *x, size_t i, const char *name)
{
	const struct index_metric *m = index_metric(x, i, name);
	int direction = pick_direction(name);
	double best;

	json_key(j, name);
	if (!m) {
		json_null(j);
		return;
	}
	best = direction > 0 ? m->max : direction < 0 ? m->min : NAN;
	json_object(j);
	json_kstr(j, "kind", runview_kind(m->kind));
	json_kstr(j, "unit", m->unit);
	json_kuint(j, "count", m->count);
	runview_json_number(j, "last", m->last, m->count > 0);
	runview_json_number(j, "best", best, !isnan(best));
	runview_json_number(j, "min", m->min, !isnan(m->min));
	runview_json_number(j, "max", m->max, !isnan(m->max));
	runview_json_number(j, "sum", m->sum, m->count > 0);
	runview_json_step(j, "step", m->step);
	json_object_end(j);
}
