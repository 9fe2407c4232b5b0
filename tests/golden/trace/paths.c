/* SPDX-License-Identifier: Apache-2.0
 *
 * paths.c - prints our critical paths, kernel sequences, differences and stragglers of traces
 * as JSON, for comparepaths.py to hold against HTA's tables.
 *
 *   paths RULE KEEP critical ANNOTATION INSTANCE FILE
 *   paths RULE KEEP sequences OPERATOR LEAST FILE
 *   paths RULE KEEP diff DEVICE SHORT FILE FILE
 *   paths RULE KEEP stragglers COUNT - FILE...
 *   paths RULE KEEP ranks - - FILE...
 *
 * RULE: exact, hta, hta_exact. KEEP: 1 keeps the last step.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/critical.h"
#include "analyse/ranks.h"
#include "analyse/sequences.h"
#include "analyse/stragglers.h"
#include "analyse/tracediff.h"
#include "base/buf.h"
#include "base/json.h"

#define FILES_MAX 64

struct job {
	const char *a, *b;
	struct trace *traces[FILES_MAX];
	struct view *views;
	size_t n;
	struct json *j;
	struct err e;
};

static void put_us(struct json *j, const char *key, int64_t ns)
{
	char text[40];
	int64_t whole = ns < 0 ? -ns : ns;

	snprintf(text, sizeof(text), "%s%lld.%03lld", ns < 0 ? "-" : "", (long long)(whole / 1000),
		 (long long)(whole % 1000));
	json_key(j, key);
	json_raw(j, text);
}

static int critical(struct job *job)
{
	struct critical_options o = {.annotation = job->a,
				     .first = (uint32_t)atoi(job->b),
				     .last = (uint32_t)atoi(job->b)};
	struct critical_result *c;
	int r = critical_new(job->views, &o, &c, &job->e);

	if (r < 0)
		return r;
	json_kbool(job->j, "ok", c->ok);
	json_kstr(job->j, "why", c->why);
	json_kuint(job->j, "nodes", c->nodes);
	json_kuint(job->j, "graph_nodes", c->linked_nodes);
	json_kuint(job->j, "edges", c->links);
	json_kuint(job->j, "cp_nodes", c->path_nodes);
	put_us(job->j, "cp_weight", c->ns);
	put_us(job->j, "window", c->to - c->from);
	put_us(job->j, "latest", job->views->origin + job->views->last);
	json_kuint(job->j, "sync_rows", c->sync_rows);
	json_kuint(job->j, "inferred", c->inferred);
	json_key(job->j, "bounds");
	json_object(job->j);
	for (int i = 0; i < CRITICAL_BOUNDS; i++) {
		if (!c->share[i].links)
			continue;
		json_key(job->j, critical_bound_names[i]);
		json_object(job->j);
		json_kuint(job->j, "count", c->share[i].links);
		put_us(job->j, "sum", c->share[i].ns);
		json_object_end(job->j);
	}
	json_object_end(job->j);
	critical_free(c);
	return 0;
}

static int sequences(struct job *job)
{
	struct sequences_options o = {.name = job->a, .least = (uint32_t)atoi(job->b)};
	struct sequences_result *s;
	int r = sequences_new(job->views, &o, &s);

	if (r < 0)
		return r;
	put_us(job->j, "latest", job->views->origin + job->views->last);
	json_key(job->j, "patterns");
	json_array(job->j);
	for (size_t i = 0; i < s->n; i++) {
		char *text = sequences_text(job->views, &s->items[i]);

		json_object(job->j);
		json_kstr(job->j, "pattern", text);
		json_kuint(job->j, "count", s->items[i].count);
		json_kuint(job->j, "length", s->items[i].n);
		put_us(job->j, "kernels", s->items[i].kernel_ns);
		put_us(job->j, "operators", s->items[i].operator_ns);
		json_object_end(job->j);
		free(text);
	}
	json_array_end(job->j);
	sequences_free(s);
	return 0;
}

static int diff(struct job *job)
{
	struct tracediff_options o = {.step = {-1, -1}, .short_names = atoi(job->b)};
	struct tracediff_table *t;
	int r;

	o.device = !strcmp(job->a, "cpu")   ? TRACEDIFF_HOST
		   : !strcmp(job->a, "gpu") ? TRACEDIFF_DEVICE
					    : TRACEDIFF_ALL;
	r = tracediff_new(&job->views[0], &job->views[1], &o, &t, &job->e);
	if (r < 0)
		return r;
	json_key(job->j, "rows");
	json_array(job->j);
	for (size_t i = 0; i < t->n; i++) {
		const struct tracediff_row *row = &t->rows[i];

		json_object(job->j);
		json_kstr(job->j, "name", row->name);
		json_kuint(job->j, "control_counts", row->calls[0]);
		json_kuint(job->j, "test_counts", row->calls[1]);
		put_us(job->j, "control_us", row->ns[0]);
		put_us(job->j, "test_us", row->ns[1]);
		json_kstr(job->j, "change", tracediff_change_names[row->change]);
		json_object_end(job->j);
	}
	json_array_end(job->j);
	tracediff_free(t);
	return 0;
}

static int stragglers(struct job *job)
{
	struct stragglers_result *s;
	int r = stragglers_new(job->views, job->n, (unsigned)atoi(job->a), &s, &job->e);

	if (r < 0)
		return r;
	json_key(job->j, "ranks");
	json_array(job->j);
	for (size_t i = 0; i < s->n_ranks; i++)
		json_int(job->j, s->ranks[i]);
	json_array_end(job->j);
	json_key(job->j, "rows");
	json_array(job->j);
	for (size_t i = 0; i < s->n; i++) {
		const struct stragglers_row *row = &s->rows[i];

		json_object(job->j);
		json_kint(job->j, "rank", row->rank);
		json_kint(job->j, "stream", row->stream);
		json_kint(job->j, "iteration", row->step);
		json_kstr(job->j, "name", row->name);
		json_kdouble(job->j, "ts", row->ts_us);
		json_kdouble(job->j, "dur", row->us);
		json_kdouble(job->j, "normalized_start_time", row->start);
		json_kdouble(job->j, "duration", row->length);
		json_object_end(job->j);
	}
	json_array_end(job->j);
	stragglers_free(s);
	return 0;
}

static void put_ranks(struct json *j, const struct ranks_result *r)
{
	json_kuint(j, "instances", r->instances);
	json_key(j, "ranks");
	json_array(j);
	for (size_t i = 0; i < r->n; i++) {
		const struct ranks_rank *k = &r->ranks[i];

		json_object(j);
		json_kint(j, "rank", k->rank);
		put_us(j, "step", k->mean.ns);
		put_us(j, "parts", k->mean.compute + k->mean.comm + k->mean.memory + k->mean.idle);
		put_us(j, "late", k->mean.late);
		put_us(j, "wait", k->mean.wait);
		json_kdouble(j, "offset_us", k->clock.offset / 1e3);
		json_kdouble(j, "residual_us", k->clock.residual / 1e3);
		json_kuint(j, "pairs", k->clock.pairs);
		json_object_end(j);
	}
	json_array_end(j);
	json_key(j, "late");
	json_array(j);
	for (size_t i = 0; i < r->n_late; i++) {
		const struct ranks_straggler *g = &r->late[i];

		json_object(j);
		json_kint(j, "rank", g->rank);
		json_kbool(j, "is_lag", g->is_lag);
		json_kstr(j, "why", ranks_why_names[g->why]);
		json_kdouble(j, "cost_ms", g->cost / 1e6);
		json_kdouble(j, "late_ms", g->late / 1e6);
		json_kstr(j, "cause", g->causes[0].name);
		json_object_end(j);
	}
	json_array_end(j);
}

static int ranks(struct job *job)
{
	struct ranks_result *result;
	struct ranks_set *s;
	int r = ranks_new(&s);

	for (size_t i = 0; i < job->n && r == 0; i++)
		r = ranks_add(s, &job->views[i], &job->e);
	if (r == 0)
		r = ranks_result_new(s, &result);
	if (r == 0) {
		put_ranks(job->j, result);
		ranks_result_free(result);
	}
	ranks_free(s);
	return r;
}

static const struct {
	const char *name;
	int (*fn)(struct job *job);
} modes[] = {{"critical", critical},
	     {"sequences", sequences},
	     {"diff", diff},
	     {"stragglers", stragglers},
	     {"ranks", ranks}};

static int run(struct job *job, const char *mode)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (!strcmp(mode, modes[i].name))
			return modes[i].fn(job);
	}
	return -1;
}

int main(int argc, char **argv)
{
	struct view_options vo = {0};
	struct trace_options to = {0};
	struct job job = {0};
	struct buf out;
	struct json j;
	int r = 0;

	if (argc < 7 || argc - 6 > FILES_MAX)
		return 2;
	vo.rule = !strcmp(argv[1], "hta")         ? VIEW_HTA
		  : !strcmp(argv[1], "hta_exact") ? VIEW_HTA_EXACT
						  : VIEW_EXACT;
	vo.include_last = atoi(argv[2]);
	job.a = argv[4];
	job.b = argv[5];
	job.j = &j;
	buf_init(&out, 1u << 30);
	json_init(&j, &out);
	json_object(&j);
	for (int i = 6; i < argc && r == 0; i++) {
		r = trace_read(argv[i], &to, &job.traces[job.n], &job.e);
		job.n += r == 0;
	}
	if (r == 0)
		r = view_new(job.traces, job.n, &vo, &job.views);
	if (r == 0)
		r = run(&job, argv[3]);
	json_kint(&j, "error", r);
	json_kstr(&j, "text", job.e.text);
	json_object_end(&j);
	puts(buf_str(&out));
	buf_done(&out);
	view_free(job.views, job.n);
	for (size_t i = 0; i < job.n; i++)
		trace_free(job.traces[i]);
	return 0;
}
