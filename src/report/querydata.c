/* SPDX-License-Identifier: Apache-2.0
 *
 * querydata.c - which series a query is about, their groups, and the store's
 * answer with rates worked out.
 */
#include "report/querydata.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void querydata_init(struct querydata *q, const struct runview *v)
{
	*q = (struct querydata){.v = v};
}

void querydata_done(struct querydata *q)
{
	size_t i;

	if (q->results)
		store_results_free(q->results, q->n);
	for (i = 0; i < q->n; i++)
		free(q->series[i].name);
	for (i = 0; i < q->n_groups; i++)
		free(q->groups[i]);
	free(q->chosen);
	free(q->series);
	free(q->results);
	free(q->groups);
	free(q->bands);
}

/* Once each, itself and as a rate. */
static void querydata_add(struct querydata *q, const struct store_series *s, bool rate)
{
	struct querydata_series *to;
	size_t at = (size_t)(s - q->v->series);

	if (!q->chosen)
		q->chosen = xcalloc(q->v->n_series, 1);
	if (q->chosen[at] & (1u << rate))
		return;
	q->chosen[at] |= (unsigned char)(1u << rate);
	q->series = xgrow(q->series, q->n, &q->cap, sizeof(*q->series));
	to = &q->series[q->n++];
	*to = (struct querydata_series){.s = s, .rate = rate};
	to->name = xasprintf("%s%s%s%s%s%s", rate ? "rate(" : "", s->name, *s->labels ? "{" : "",
			     s->labels, *s->labels ? "}" : "", rate ? ")" : "");
}

static int querydata_no_rate(const char *asked, const struct store_series *s, struct err *e)
{
	return err_set(e, -EINVAL, "%s: \"%s\" is a %s; only counters have rates", asked, s->name,
		       runview_kind(s->kind));
}

int querydata_choose(struct querydata *q, const char *pattern, struct err *e)
{
	const struct store_series *wrong = NULL;
	size_t i, found = 0;
	struct store_match *m;
	bool rate;
	int r = store_match_new(pattern, e, &m);

	if (r < 0)
		return r;
	rate = store_match_is_rate(m);
	for (i = 0; i < q->v->n_series; i++) {
		const struct store_series *s = &q->v->series[i];

		if (!store_match_is(m, s))
			continue;
		if (rate && s->kind != SINK_COUNTER) {
			wrong = s;
			continue;
		}
		querydata_add(q, s, rate);
		found++;
	}
	store_match_free(m);
	if (found)
		return 0;
	if (wrong)
		return querydata_no_rate(pattern, wrong, e);
	return err_set(e, -ENOENT, "no series matches \"%s\"; without a pattern all are listed",
		       pattern);
}

static const struct store_series *querydata_find(const struct runview *v, const char *id,
						 size_t len)
{
	char number[16];
	size_t i, n, host;

	for (i = 0; i < v->n_series; i++) {
		n = (size_t)snprintf(number, sizeof(number), "/%u", v->series[i].id);
		host = strlen(v->series[i].host_name);
		if (host + n == len && memcmp(id, v->series[i].host_name, host) == 0 &&
		    memcmp(id + host, number, n) == 0)
			return &v->series[i];
	}
	return NULL;
}

int querydata_choose_id(struct querydata *q, const char *id, struct err *e)
{
	size_t len = strlen(id);
	bool rate = strncmp(id, "rate(", 5) == 0 && id[len - 1] == ')';
	const struct store_series *s =
		rate ? querydata_find(q->v, id + 5, len - 6) : querydata_find(q->v, id, len);

	if (!s)
		return err_set(e, -ENOENT, "no series has the id \"%s\" (HOST/NUMBER)", id);
	if (rate && s->kind != SINK_COUNTER)
		return querydata_no_rate(id, s, e);
	querydata_add(q, s, rate);
	return 0;
}

/* ---- groups ------------------------------------------------------------------------ */

/* NAME{LABEL="VALUE",...} with the labels of the group alone. */
static char *querydata_group_name(const struct querydata_series *s, const char *labels)
{
	const char *p;
	struct buf b;
	size_t n;
	char *out;

	buf_init(&b, 1 << 20);
	buf_printf(&b, "%s%s%s", s->rate ? "rate(" : "", s->s->name, *labels ? "{" : "");
	for (p = labels; *p; p += n + (p[n] == ',')) {
		char *label, *value;

		n = strcspn(p, ",");
		label = xstrndup(p, n);
		value = store_series_label(s->s, label);
		buf_printf(&b, "%s%s=\"%s\"", buf_str(&b)[b.len - 1] == '{' ? "" : ",", label,
			   value ? value : "");
		free(label);
		free(value);
	}
	buf_printf(&b, "%s%s", *labels ? "}" : "", s->rate ? ")" : "");
	out = xstrdup(buf_str(&b));
	buf_done(&b);
	return out;
}

void querydata_group(struct querydata *q, const char *labels)
{
	size_t i, k;

	q->ask.aligned = true;
	q->ask.no_raw = true;
	for (i = 0; i < q->n; i++) {
		char *name = querydata_group_name(&q->series[i], labels);

		for (k = 0; k < q->n_groups && strcmp(q->groups[k], name) != 0; k++)
			;
		q->series[i].group = (unsigned)k;
		if (k < q->n_groups) {
			free(name);
			continue;
		}
		q->groups = xgrow(q->groups, q->n_groups, &q->cap_groups, sizeof(*q->groups));
		q->groups[q->n_groups++] = name;
	}
}

/* ---- the answer ---------------------------------------------------------------------- */

static void querydata_join(struct querydata *q)
{
	unsigned *which = xcalloc(q->n, sizeof(*which));
	size_t i;

	for (i = 0; i < q->n; i++)
		which[i] = q->series[i].group;
	q->bands = xcalloc(q->n_groups * q->grid.n, sizeof(*q->bands));
	store_group(q->results, which, q->n, q->n_groups, q->grid.n, q->bands);
	free(which);
}

static int querydata_totals(struct querydata *q, const struct store_ref *refs, struct err *e)
{
	struct store_result *one = xcalloc(q->n, sizeof(*one));
	struct store_query ask = q->ask;
	size_t i;
	int r;

	ask.points = 1;
	ask.aligned = false;
	ask.no_raw = true;
	r = store_reader_query(q->v->reader, &ask, refs, q->n, e, NULL, one);
	for (i = 0; r == 0 && i < q->n; i++) {
		if (q->series[i].rate)
			store_rate(&one[i], ask.axis);
		if (one[i].n)
			q->series[i].total = one[i].buckets[0];
	}
	if (r == 0)
		store_results_free(one, q->n);
	free(one);
	return r;
}

int querydata_ask(struct querydata *q, bool total, struct err *e)
{
	struct store_ref *refs = xcalloc(q->n, sizeof(*refs));
	struct store_result *results = xcalloc(q->n, sizeof(*results));
	size_t i;
	int r;

	for (i = 0; i < q->n; i++)
		refs[i] = (struct store_ref){q->series[i].s->host, q->series[i].s->id};
	r = store_reader_query(q->v->reader, &q->ask, refs, q->n, e, &q->grid, results);
	if (r == 0) {
		q->results = results;
		for (i = 0; i < q->n; i++)
			if (q->series[i].rate)
				store_rate(&results[i], q->ask.axis);
	} else {
		free(results);
	}
	if (r == 0 && total)
		r = querydata_totals(q, refs, e);
	if (r == 0 && q->n_groups)
		querydata_join(q);
	free(refs);
	return r;
}

struct store_bucket querydata_bucket(const struct store_result *r, size_t i)
{
	const struct store_point *p;
	bool nan;

	if (!r->raw)
		return r->buckets[i];
	p = &r->points[i];
	nan = p->value != p->value;
	return (struct store_bucket){.count = 1,
				     .nan = nan,
				     .observed = !nan,
				     .sum = nan ? 0 : p->value,
				     .min = p->value,
				     .max = p->value,
				     .first = p->value,
				     .last = p->value,
				     .min_at = UINT64_MAX,
				     .max_at = UINT64_MAX,
				     .time_min = p->time_ns,
				     .time_max = p->time_ns,
				     .step_min = p->step,
				     .step_max = p->step,
				     .segment = p->segment};
}
