/* SPDX-License-Identifier: Apache-2.0
 *
 * route_verdict.c - routes: where a step's time goes, as it was recorded.
 */
#include "server/routes.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/now.h"
#include "server/answerage.h"
#include "server/answercache.h"
#include "server/artifacts.h"
#include "server/ask.h"
#include "server/stepjudge.h"
#include "server/stepread.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VERDICT_SLOWEST 20
#define VERDICT_SLOWEST_MAX 200
#define VERDICT_BINS_MAX 1000
#define VERDICT_CLASSES 40u
#define VERDICT_CACHE (16u << 20)
#define VERDICT_AT_ONCE 8u
#define VERDICT_WAIT_NS INT64_C(10000000000)
#define VERDICT_KEEP_NS INT64_C(10000000000) /* of a live run: until it is made anew */

/* ---- between requests ---------------------------------------------------------------- */

struct verdict_state {
	struct answercache *cache;
	struct answerage *age;
};

static void *verdict_make(struct server *s)
{
	struct verdict_state *state = xcalloc(1, sizeof(*state));

	(void)s;
	state->cache = answercache_new(VERDICT_CACHE, VERDICT_AT_ONCE, UINT_MAX);
	state->age = answerage_new();
	return state;
}

static void verdict_done(void *arg)
{
	struct verdict_state *state = arg;

	answercache_free(state->cache);
	answerage_free(state->age);
	free(state);
}

static const struct server_part verdict_part = {verdict_make, NULL, verdict_done};

struct verdict_answer {
	const struct server_run *run;
	struct stepread steps;
	struct stepjudge judge;
	struct artifacts files;
	size_t slowest, bins, most;
	bool is_part; /* of what there is was asked for */
};

static void verdict_permille_json(struct json *j, const int *permille, size_t n)
{
	size_t i;

	json_key(j, "permille");
	json_array(j);
	for (i = 0; i < n; i++)
		json_int(j, permille[i]);
	json_array_end(j);
}

static void verdict_spread(struct json *j, const struct stepsplit_spread *s)
{
	runview_json_known(j, "mean_s", s->mean);
	runview_json_known(j, "p50_s", s->p50);
	runview_json_known(j, "p95_s", s->p95);
	runview_json_known(j, "p99_s", s->p99);
	runview_json_known(j, "max_s", s->max);
}

/* ---- parts --------------------------------------------------------------------------- */

/* The parts in the order in which they are shown: the largest first, "other" last. */
struct verdict_order {
	size_t part[STEPSPLIT_PARTS_MAX], n;
};

static struct verdict_order verdict_order(const struct stepsplit *s)
{
	struct verdict_order o = {.n = 0};
	size_t i, k;

	for (i = 0; i + 1 < s->n_parts; i++) {
		if (s->total[i] <= 0)
			continue;
		for (k = o.n++; k > 0 && s->total[o.part[k - 1]] < s->total[i]; k--)
			o.part[k] = o.part[k - 1];
		o.part[k] = i;
	}
	if (s->n_parts > 0)
		o.part[o.n++] = s->n_parts - 1;
	return o;
}

static void verdict_in_order(const struct verdict_order *o, int permille[STEPSPLIT_PARTS_MAX])
{
	int copy[STEPSPLIT_PARTS_MAX];
	size_t i;

	memcpy(copy, permille, sizeof(copy));
	for (i = 0; i < o->n; i++)
		permille[i] = copy[o->part[i]];
}

static void verdict_parts(struct json *j, const struct verdict_answer *a,
			  const struct verdict_order *o)
{
	const struct stepsplit *s = &a->steps.split;
	int permille[STEPSPLIT_PARTS_MAX];
	struct stepsplit_spread spread;
	size_t i, part;

	stepsplit_permille(s, permille);
	json_key(j, "parts");
	json_array(j);
	for (i = 0; i < o->n && s->n > 0; i++) {
		part = o->part[i];
		spread = stepsplit_spread(s, UINT32_MAX, part);
		spread.mean = (double)s->total[part] / 1e9 / (double)s->n;
		if (part == a->steps.waits) /* known as a sum only */
			spread.p50 = spread.p95 = spread.p99 = spread.max = NAN;
		json_object(j);
		json_kstr(j, "name", a->steps.names[part]);
		json_kstr(j, "role", stepsplit_role_name(s->role[part]));
		json_kint(j, "permille", permille[part]);
		runview_json_known(j, "share",
				   s->sum ? (double)s->total[part] / (double)s->sum : NAN);
		verdict_spread(j, &spread);
		json_object_end(j);
	}
	json_array_end(j);
}

static void verdict_beside(struct json *j, const struct verdict_answer *a)
{
	const struct stepsplit *s = &a->steps.split;
	int64_t between = s->span - s->sum;
	size_t i;

	json_key(j, "beside");
	json_array(j);
	for (i = 0; i + 1 < s->n_parts; i++) {
		if (s->beside[i] <= 0)
			continue;
		json_object(j);
		json_kstr(j, "name", a->steps.names[i]);
		json_kstr(j, "role", stepsplit_role_name(s->role[i]));
		runview_json_known(j, "share", s->beside[i] / (double)s->sum);
		json_object_end(j);
	}
	json_array_end(j);
	json_key(j, "between");
	json_object(j);
	runview_json_known(j, "share", s->span > 0 ? (double)between / (double)s->span : NAN);
	json_key(j, "parts");
	json_array(j);
	for (i = 0; i + 1 < s->n_parts; i++) {
		if (s->n_outside[i] == 0)
			continue;
		json_object(j);
		json_kstr(j, "name", a->steps.names[i]);
		json_kstr(j, "role", stepsplit_role_name(s->role[i]));
		runview_json_known(j, "seconds", s->outside[i] / 1e9);
		json_kuint(j, "count", s->n_outside[i]);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

/* ---- the verdict --------------------------------------------------------------------- */

static void verdict_bound(struct json *j, const struct verdict_answer *a)
{
	const struct stepbound *b = &a->judge.bound;
	const struct stepjudge_evidence *one;
	char text[1024];
	size_t i;

	json_key(j, "bound");
	json_object(j);
	json_kstr(j, "kind", b->id);
	json_kstr(j, "title", b->title);
	runview_json_known(j, "share", b->share);
	json_kstr(j, "sentence", b->sentence);
	json_kstr(j, "why", b->why);
	json_kstr(j, "advice", b->advice);
	json_object_end(j);
	json_key(j, "evidence");
	json_array(j);
	for (i = 0; i < a->judge.n; i++) {
		one = &a->judge.list[i];
		json_object(j);
		json_kstr(j, "id", one->id);
		json_kstr(j, "text", one->text);
		json_kstr(j, "host", one->series->host_name);
		json_kstr(j, "labels", one->series->labels);
		runview_json_known(j, "value", one->value);
		json_kstr(j, "unit", one->unit);
		snprintf(text, sizeof(text), "%s{%s%shost=\"%s\"}", one->series->name,
			 one->series->labels, *one->series->labels ? "," : "",
			 one->series->host_name);
		json_kstr(j, "series", text);
		json_object_end(j);
	}
	json_array_end(j);
}

static void verdict_ranks(struct json *j, const struct verdict_answer *a,
			  const struct verdict_order *o)
{
	const struct stepsplit *s = &a->steps.split;
	int permille[STEPSPLIT_PARTS_MAX];
	size_t i, k, rank;

	json_key(j, "ranks");
	json_array(j);
	for (rank = 0; rank < a->steps.n_ranks; rank++) {
		const struct stepsplit_range of = stepsplit_range(s, (uint32_t)rank);
		const struct store_process *p = a->steps.ranks[rank].process;
		struct stepsplit one = {.n_parts = s->n_parts};

		for (i = of.first; i < of.end; i++)
			for (k = 0; k < s->n_parts; k++)
				one.total[k] += (int64_t)s->ns[i * s->n_parts + k];
		stepsplit_permille(&one, permille);
		verdict_in_order(o, permille);
		json_object(j);
		runview_json_step(j, "rank", p->rank);
		json_kstr(j, "host", p->host_name);
		json_kuint(j, "process", p->id);
		json_kuint(j, "steps", a->steps.ranks[rank].steps);
		runview_json_known(j, "p50_s", stepsplit_spread(s, (uint32_t)rank, s->n_parts).p50);
		runview_json_known(j, "own_s",
				   stepsplit_spread(s, (uint32_t)rank, s->n_parts + 1).p50);
		verdict_permille_json(j, permille, o->n);
		json_object_end(j);
	}
	json_array_end(j);
}

static void verdict_covering(struct json *j, const struct verdict_answer *a, int64_t step,
			     int64_t rank)
{
	size_t i;

	json_key(j, "artifacts");
	json_array(j);
	for (i = 0; i < a->files.n; i++) {
		const struct artifacts_one *f = &a->files.list[i];

		if (f->step_first < 0 || f->step_first > step || f->step_last < step ||
		    (f->rank >= 0 && rank >= 0 && f->rank != rank))
			continue;
		json_object(j);
		json_kstr(j, "name", f->name);
		json_kstr(j, "kind", artifacts_kind_name(f->kind));
		json_object_end(j);
	}
	json_array_end(j);
}

static void verdict_slow(struct json *j, const struct verdict_answer *a,
			 const struct verdict_order *o, const double *typical, size_t step)
{
	const struct stepsplit *s = &a->steps.split;
	const struct stepsplit_step *at = &s->steps[step];
	int64_t rank = a->steps.ranks[at->rank].process->rank;
	int permille[STEPSPLIT_PARTS_MAX];
	double over, most = 0;
	size_t i, worst = s->n_parts - 1;

	for (i = 0; i < s->n_parts; i++) {
		over = (double)s->ns[step * s->n_parts + i] / 1e9 - typical[i];
		if (over > most) {
			most = over;
			worst = i;
		}
	}
	stepsplit_permille_of(s, step, permille);
	verdict_in_order(o, permille);
	json_object(j);
	runview_json_step(j, "rank", rank);
	runview_json_step(j, "step", at->number);
	runview_json_time(j, "start", at->start);
	runview_json_known(j, "seconds", (double)(at->end - at->start) / 1e9);
	runview_json_known(j, "over_s", (double)(at->end - at->start) / 1e9 - typical[s->n_parts]);
	json_kstr(j, "most", a->steps.names[worst]);
	verdict_permille_json(j, permille, o->n);
	verdict_covering(j, a, at->number, rank);
	json_object_end(j);
}

static void verdict_slowest(struct json *j, const struct verdict_answer *a,
			    const struct verdict_order *o)
{
	const struct stepsplit *s = &a->steps.split;
	size_t *slow = xcalloc(a->slowest + 1, sizeof(*slow)), n, i;
	double typical[STEPSPLIT_PARTS_MAX + 1];

	for (i = 0; i <= s->n_parts; i++)
		typical[i] = stepsplit_spread(s, UINT32_MAX, i).p50;
	n = stepsplit_slowest(s, slow, a->slowest);
	json_key(j, "slowest");
	json_array(j);
	for (i = 0; i < n; i++)
		verdict_slow(j, a, o, typical, slow[i]);
	json_array_end(j);
	free(slow);
}

/* ---- charts -------------------------------------------------------------------------- */

static void verdict_histogram(struct json *j, const struct stepsplit *s)
{
	double edges[VERDICT_CLASSES + 1];
	uint64_t counts[VERDICT_CLASSES];
	size_t i;

	json_key(j, "histogram");
	if (!stepsplit_histogram(s, edges, counts, VERDICT_CLASSES)) {
		json_null(j);
		return;
	}
	json_object(j);
	json_key(j, "edges_s");
	json_array(j);
	for (i = 0; i <= VERDICT_CLASSES; i++)
		json_double(j, edges[i]);
	json_array_end(j);
	json_key(j, "counts");
	json_array(j);
	for (i = 0; i < VERDICT_CLASSES; i++)
		json_uint(j, counts[i]);
	json_array_end(j);
	json_object_end(j);
}

static void verdict_bins(struct json *j, const struct verdict_answer *a,
			 const struct verdict_order *o)
{
	static const char *const keys[] = {"first", "last", "count", "mean_s", "max_s"};
	struct stepsplit_bin *bins = xcalloc(a->bins + 1, sizeof(*bins));
	size_t n = stepsplit_bins(&a->steps.split, bins, a->bins), i, k;

	json_key(j, "bins");
	if (n == 0) {
		json_null(j);
		free(bins);
		return;
	}
	json_object(j);
	for (k = 0; k < ARRAY_LEN(keys); k++) {
		json_key(j, keys[k]);
		json_array(j);
		for (i = 0; i < n; i++) {
			const double values[] = {(double)bins[i].first, (double)bins[i].last,
						 (double)bins[i].count, bins[i].mean, bins[i].max};

			json_double(j, values[k]);
		}
		json_array_end(j);
	}
	json_key(j, "parts");
	json_array(j);
	for (k = 0; k < o->n; k++) {
		json_array(j);
		for (i = 0; i < n; i++)
			json_double(j, bins[i].parts[o->part[k]]);
		json_array_end(j);
	}
	json_array_end(j);
	json_object_end(j);
	free(bins);
}

/* ---- the document -------------------------------------------------------------------- */

static void verdict_steps(struct json *j, const struct verdict_answer *a)
{
	const struct stepread *r = &a->steps;
	struct stepsplit_spread all = stepsplit_spread(&r->split, UINT32_MAX, r->split.n_parts);

	json_key(j, "steps");
	if (r->split.n == 0) {
		json_null(j);
		json_key(j, "step");
		json_null(j);
		return;
	}
	json_object(j);
	runview_json_step(j, "first", r->first);
	runview_json_step(j, "last", r->last);
	json_kuint(j, "count", r->split.n);
	json_kuint(j, "of", r->of);
	json_kuint(j, "warmup", r->warmup);
	json_kbool(j, "is_cut", r->is_cut);
	json_kuint(j, "most", a->most);
	json_kuint(j, "ranks", r->n_ranks);
	runview_json_time(j, "from", r->from_ns);
	runview_json_time(j, "to", r->to_ns);
	json_object_end(j);
	json_key(j, "step");
	json_object(j);
	verdict_spread(j, &all);
	json_object_end(j);
}

static void verdict_document(struct http_reply *reply, const struct verdict_answer *a)
{
	const struct stepsplit *s = &a->steps.split;
	struct verdict_order o = verdict_order(s);
	bool has_spans = s->n > 0 && o.n > 1;
	struct json j;

	reply_json(reply, &j);
	json_object(&j);
	json_kstr(&j, "run", a->run->id);
	json_kuint(&j, "version", a->run->version);
	json_kbool(&j, "is_live", a->run->is_live);
	json_kstr(
		&j, "why_not",
		s->n == 0
			? (a->steps.of > 0 || a->is_part
				   ? "None of the recorded steps is in what was asked for."
				   : "No steps are recorded: `with lapse.step():` around each, or "
				     "a callback of your framework.")
		: has_spans ? NULL
			    : "No spans are recorded inside the steps: `with lapse.torch.phase("
			      "\"forward\"):` and the like say what they are made of.");
	verdict_steps(&j, a);
	verdict_parts(&j, a, &o);
	verdict_beside(&j, a);
	verdict_bound(&j, a);
	verdict_ranks(&j, a, &o);
	verdict_slowest(&j, a, &o);
	verdict_histogram(&j, s);
	verdict_bins(&j, a, &o);
	json_object_end(&j);
}

static void verdict_run(const struct route_ask *a, struct server_run *run, struct http_reply *reply)
{
	const char *steps = param_text(a, "steps");
	const struct stepread_wish wish = {.from = param_int(a, "from", -1),
					   .to = param_int(a, "to", -1),
					   .rank = param_int(a, "rank", -1),
					   .most = steps && strcmp(steps, "all") == 0
							   ? STEPREAD_STEPS_MAX
							   : STEPREAD_STEPS_NEWEST};
	struct verdict_answer answer = {
		.run = run,
		.slowest = (size_t)param_int(a, "slowest", VERDICT_SLOWEST),
		.bins = (size_t)param_int(a, "bins", 0),
		.most = wish.most,
		.is_part = wish.from >= 0 || wish.to >= 0 || wish.rank >= 0,
	};
	struct err e = {0};

	if (stepread(&run->v, &wish, &answer.steps, &e) != 0) {
		ask_failed(reply, &e);
		return;
	}
	if (stepjudge(&run->v, &answer.steps, &answer.judge, &e) != 0 ||
	    artifacts_read(&answer.files, &run->v, &e) != 0)
		ask_failed(reply, &e);
	else
		verdict_document(reply, &answer);
	artifacts_done(&answer.files);
	stepread_done(&answer.steps);
}

/* Make it, and keep it unless something went wrong. */
static void verdict_new(const struct route_ask *a, struct server_run *run,
			struct answercache *cache, const char *key, struct http_reply *reply)
{
	if (server_heavy_begin(a->server, reply)) {
		verdict_run(a, run, reply);
		server_heavy_end(a->server);
	}
	answercache_put(cache, key, reply->status ? NULL : &reply->body);
}

/* What was made once is given as long as the run is as it was, and of a live run for some time
 * longer. false: that is gone, and cannot be made any more of this run as it is now. */
static bool verdict_of(const struct route_ask *a, struct server_run *run, bool is_new,
		       struct http_reply *reply)
{
	struct verdict_state *state = server_part(a->server, &verdict_part);
	bool may_be_old = run->is_live && !is_new && !param_text(a, "from") && !param_text(a, "to");
	uint64_t question = ask_question(a) ^ map_hash(run->id, strlen(run->id)), version;
	const struct answercache_wait wait = {.ns = VERDICT_WAIT_NS};
	enum answercache_found found;
	char key[320];

	version = answerage_version(state->age, question, run->version, now_read(CLOCK_MONOTONIC),
				    may_be_old ? VERDICT_KEEP_NS : 0);
	if (ask_is_known_of(a, version, reply))
		return true;
	snprintf(key, sizeof(key), "%s %llx %llx %d", run->id, (unsigned long long)question,
		 (unsigned long long)version, run->is_live);
	found = answercache_get(state->cache, key, &wait, &reply->body);
	if (found == ANSWERCACHE_MAKE && version != run->version) {
		answercache_put(state->cache, key, NULL);
		return false;
	}
	if (found == ANSWERCACHE_HIT)
		reply->type = "application/json";
	else if (found == ANSWERCACHE_MAKE)
		verdict_new(a, run, state->cache, key, reply);
	else
		reply_error(reply, 503, "busy", "Other verdicts are being made; ask again.");
	return true;
}

static void verdict_answer(const struct route_ask *a, struct http_reply *reply)
{
	struct server_run *run = server_take_run(a->server, a->args[0], reply);

	if (!run)
		return;
	if (!verdict_of(a, run, false, reply))
		verdict_of(a, run, true, reply);
	server_give_run(a->server, run);
}

static const struct param verdict_params[] = {
	{.name = "from",
	 .type = PARAM_INT,
	 .hi = INT64_MAX / 2,
	 .help = "First step; default: the first 10 steps of each attempt are left out."},
	{.name = "to", .type = PARAM_INT, .hi = INT64_MAX / 2, .help = "Last step."},
	{.name = "rank", .type = PARAM_INT, .hi = INT32_MAX, .help = "Only of this rank."},
	{.name = "steps",
	 .type = PARAM_CHOICE,
	 .choices = "newest|all",
	 .help = "newest (default): the last 40000 at most; all: the last 400000."},
	{.name = "slowest",
	 .type = PARAM_INT,
	 .hi = VERDICT_SLOWEST_MAX,
	 .help = "So many of the slowest steps, of several ranks the one that the others waited "
		 "for; default 20."},
	{.name = "bins",
	 .type = PARAM_INT,
	 .hi = VERDICT_BINS_MAX,
	 .help = "Composition of the steps in so many bins; default 0: none."},
	{0},
};

const struct route route_verdict[] = {
	{"GET", "/api/v1/runs/{run}/verdict", "Where a step's time goes, and what it is bound by",
	 verdict_params, verdict_answer},
	{0},
};
