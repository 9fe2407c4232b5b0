/* SPDX-License-Identifier: Apache-2.0
 *
 * route_runs.c - routes: the table of runs, one run, and changing what people wrote of it.
 */
#include "server/routes.h"

#include "base/mem.h"
#include "base/now.h"
#include "report/pick.h"
#include "report/runprogress.h"
#include "report/tags.h"
#include "server/body.h"
#include "server/runlist.h"
#include "server/runspark.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS_LIMIT 100
#define RUNS_LIMIT_MAX 500

/* ---- the table ------------------------------------------------------------------------------ */

static void runs_metrics(struct json *j, const struct route_ask *a, struct index *x, size_t i)
{
	const char *name;
	size_t k, n;

	json_key(j, "metrics");
	json_object(j);
	for (k = 0; (name = param_nth(a, "metric", k)); k++) {
		for (n = 0; strcmp(param_nth(a, "metric", n), name); n++)
			;
		if (n == k)
			pick_json(j, x, i, name);
	}
	json_object_end(j);
}

/* A row as an object without its end: what is read of the run's own files comes behind it,
 * when the index is free again. */
static void runs_row(struct json *j, const struct route_ask *a, const struct runlist *l, size_t at)
{
	struct index *x = l->x->of[l->rows[at].root];
	size_t i = l->rows[at].run;
	const struct index_run *r = index_get(x, i);
	char *dir = xasprintf("%s/%s", l->x->roots[l->rows[at].root], r->id);
	struct store_run run = r->run;
	const struct index_metric *loss;

	json_object(j);
	if (r->error) {
		json_kstr(j, "id", r->id);
	} else {
		run.id = r->id; /* by which it is asked for, also if it is somebody's copy */
		runview_json_run_of(j, &run, dir, r->warning);
		runview_json_step(j, "last_step", r->step);
		loss = pick_loss(x, i);
		json_kstr(j, "loss_name", loss ? loss->name : NULL);
		runview_json_number(j, "loss", loss ? loss->last : NAN, loss != NULL);
		runs_metrics(j, a, x, i);
	}
	json_kstr(j, "status", runlist_status(r));
	json_kuint(j, "folder", l->rows[at].root);
	json_kstr(j, "error", r->error);
	json_kuint(j, "bytes", r->bytes);
	free(dir);
}

/* A page of the table. */
struct runs_page {
	struct buf *rows; /* objects without their ends */
	char **dirs;
	uint64_t *keys;
	size_t n;
};

static void runs_page_fill(struct runs_page *p, const struct route_ask *a, const struct runlist *l)
{
	size_t from = (size_t)param_int(a, "offset", 0), i, at;
	size_t limit = (size_t)param_int(a, "limit", RUNS_LIMIT);
	const struct index_run *r;
	struct json j;

	p->n = from >= l->n ? 0 : l->n - from < limit ? l->n - from : limit;
	p->rows = xcalloc(p->n, sizeof(*p->rows));
	p->dirs = xcalloc(p->n, sizeof(*p->dirs));
	p->keys = xcalloc(p->n, sizeof(*p->keys));
	for (i = 0; i < p->n; i++) {
		at = from + i;
		r = index_get(l->x->of[l->rows[at].root], l->rows[at].run);
		p->dirs[i] =
			r->error ? NULL : xasprintf("%s/%s", l->x->roots[l->rows[at].root], r->id);
		p->keys[i] = r->run.outcome == RUN_RUNNING ? 0 : r->key;
		buf_init(&p->rows[i], ROUTE_JSON_MAX);
		json_init(&j, &p->rows[i]);
		runs_row(&j, a, l, at);
	}
}

static void runs_page_json(struct runs_page *p, const struct route_ask *a, struct json *j)
{
	const char *metric = param_text(a, "spark");
	struct runspark spark;
	struct json row;
	size_t i;

	json_key(j, "runs");
	json_array(j);
	for (i = 0; i < p->n; i++) {
		row = (struct json){.out = &p->rows[i], .depth = 1, .has_item = {false, true}};
		if (metric) {
			spark.n = 0;
			if (p->dirs[i])
				runspark_get(a->server, p->dirs[i], metric, p->keys[i], &spark);
			json_key(&row, "spark");
			runspark_json(&row, &spark);
		}
		json_object_end(&row);
		json_raw(j, buf_str(&p->rows[i]));
		buf_done(&p->rows[i]);
		free(p->dirs[i]);
	}
	json_array_end(j);
	free(p->rows);
	free(p->dirs);
	free(p->keys);
}

static void runs_table(const struct route_ask *a, struct http_reply *reply)
{
	struct runlist l = {.x = server_take_index(a->server)};
	struct runs_page page = {0};
	struct buf facets;
	struct json j;
	size_t total, n;
	bool is = runlist_choose(&l, a, reply);

	buf_init(&facets, ROUTE_JSON_MAX);
	if (is) {
		runs_page_fill(&page, a, &l);
		json_init(&j, &facets);
		json_object(&j);
		runlist_facets(l.x, &j);
		json_object_end(&j);
	}
	total = l.total;
	n = l.n;
	runlist_done(&l);
	server_give_index(a->server);
	if (is) {
		reply_json(reply, &j);
		json_object(&j);
		json_kuint(&j, "total", total);
		json_kuint(&j, "matched", n);
		json_kint(&j, "offset", param_int(a, "offset", 0));
		runs_page_json(&page, a, &j);
		/* {"facets":...}: its only key becomes one of ours. */
		json_key(&j, "facets");
		facets.data[facets.len - 1] = '\0';
		json_raw(&j, strchr(facets.data, ':') + 1);
		json_object_end(&j);
		reply_etag(reply);
	}
	buf_done(&facets);
}

/* ---- one run -------------------------------------------------------------------------------- */

struct runs_attr {
	struct json *j;
	const struct runview *v;
};

static int runs_attr(void *arg, unsigned host, uint32_t process, const char *key, const char *value)
{
	struct runs_attr *a = arg;
	size_t n = strcspn(key, "/");
	char *group;

	if (!key[n])
		n = strcspn(key, ".");
	group = key[n] ? xstrndup(key, n) : xstrdup("config");
	json_object(a->j);
	json_kstr(a->j, "host", runview_process(a->v, host, process)->host_name);
	json_kuint(a->j, "process", process);
	json_kstr(a->j, "group", group);
	json_kstr(a->j, "key", key[n] && strcmp(group, "config") == 0 ? key + n + 1 : key);
	json_kstr(a->j, "value", value);
	json_object_end(a->j);
	free(group);
	return 0;
}

/* The keys of the run, under the id by which it is asked for. */
static void runs_run(struct json *j, const struct server_run *run)
{
	struct store_run copy = run->v.run;

	copy.id = run->id;
	json_key(j, "run");
	json_object(j);
	runview_json_run_of(j, &copy, run->v.dir, store_reader_warning(run->v.reader));
	json_object_end(j);
}

static void runs_progress(struct json *j, const struct server_run *run, const struct runprogress *p)
{
	double quiet = p->last_ns && run->is_live
			       ? ((double)now_read(CLOCK_REALTIME) - (double)p->last_ns) / 1e9
			       : NAN;

	json_key(j, "progress");
	json_object(j);
	runview_json_step(j, "step", p->step);
	runview_json_number(j, "of", (double)p->of, p->of > 0);
	runview_json_known(j, "share", p->share);
	runview_json_known(j, "steps_s", p->steps_s);
	runview_json_known(j, "samples_s", p->samples_s);
	runview_json_known(j, "tokens_s", p->tokens_s);
	runview_json_known(j, "elapsed_s", runview_duration_s(&run->v.run));
	runview_json_known(j, "eta_s", run->is_live ? p->eta_s : NAN);
	runview_json_known(j, "epoch", p->epoch);
	runview_json_number(j, "epochs", (double)p->epochs, p->epochs > 0);
	runview_json_time(j, "last_step", p->last_ns);
	runview_json_known(j, "quiet_s", isnan(quiet) ? NAN : fmax(0, quiet));
	json_object_end(j);
	json_key(j, "loss");
	if (!p->loss_name) {
		json_null(j);
		return;
	}
	json_object(j);
	json_kstr(j, "name", p->loss_name);
	json_kdouble(j, "last", p->loss);
	json_kdouble(j, "best", p->loss_min);
	json_kstr(j, "direction", "down");
	json_object_end(j);
}

static void runs_drops(struct json *j, const struct runview *v)
{
	uint64_t sums[5] = {0};
	size_t i;

	for (i = 0; i < v->n_processes; i++) {
		sums[0] += v->processes[i].stored;
		sums[1] += v->processes[i].dropped;
		sums[2] += v->processes[i].overwritten;
		sums[3] += v->processes[i].broken;
		sums[4] += v->processes[i].refused;
	}
	json_key(j, "drops");
	json_object(j);
	json_kuint(j, "stored", sums[0]);
	json_kuint(j, "dropped", sums[1]);
	json_kuint(j, "overwritten", sums[2]);
	json_kuint(j, "broken", sums[3]);
	json_kuint(j, "refused", sums[4]);
	json_object_end(j);
}

struct runs_events {
	uint64_t all, by_severity[4];
};

static int runs_event(void *arg, const struct store_event *e)
{
	struct runs_events *counts = arg;

	counts->all++;
	if (e->severity >= 0 && e->severity < 4)
		counts->by_severity[e->severity]++;
	return 0;
}

static int runs_counts(struct json *j, const struct runview *v, struct err *e)
{
	struct runs_events events = {0};
	uint64_t points = 0;
	size_t i;
	int r = store_reader_events(v->reader, runs_event, &events, e);

	for (i = 0; i < v->n_series; i++)
		points += v->series[i].count;
	json_key(j, "counts");
	json_object(j);
	json_kuint(j, "series", v->n_series);
	json_kuint(j, "points", points);
	json_kuint(j, "events", events.all);
	json_kuint(j, "warnings", events.by_severity[2]);
	json_kuint(j, "errors", events.by_severity[3]);
	json_object_end(j);
	return r;
}

static int runs_write(struct json *j, const struct server_run *run, struct err *e)
{
	struct runs_attr attr = {j, &run->v};
	struct runprogress progress;
	char version[24];
	size_t i;
	int r = runprogress_read(&run->v, &progress, e);

	if (r)
		return r;
	snprintf(version, sizeof(version), "%llu", (unsigned long long)run->version);
	json_object(j);
	runs_run(j, run);
	json_kstr(j, "status", runlist_status_of(&run->v.run));
	json_kbool(j, "live", run->is_live);
	json_kstr(j, "version", version);
	json_key(j, "processes");
	json_array(j);
	for (i = 0; i < run->v.n_processes; i++)
		runview_json_process(j, &run->v.processes[i]);
	json_array_end(j);
	json_key(j, "attributes");
	json_array(j);
	r = store_reader_attrs(run->v.reader, runs_attr, &attr, e);
	json_array_end(j);
	runs_progress(j, run, &progress);
	runs_drops(j, &run->v);
	if (!r)
		r = runs_counts(j, &run->v, e);
	json_object_end(j);
	return r;
}

static void runs_one(const struct route_ask *a, struct http_reply *reply)
{
	struct server_run *run = server_take_run(a->server, a->args[0], reply);
	struct err e = {0};
	struct json j;

	if (!run)
		return;
	reply_json(reply, &j);
	if (runs_write(&j, run, &e))
		reply_error(reply, e.code == -EUCLEAN ? 500 : 503,
			    e.code == -EUCLEAN ? "damaged" : "folder", "%s", e.text);
	else
		reply_etag(reply);
	server_give_run(a->server, run);
}

/* ---- changing it ------------------------------------------------------------------------------
 */

enum runs_edited {
	RUNS_NAME,
	RUNS_PROJECT,
	RUNS_TAGS,
	RUNS_NOTES,
	RUNS_FIELDS
};

static void runs_take(const struct body_field *f, char *to, size_t cap, bool *has)
{
	if (!f->has)
		return;
	memset(to, 0, cap);
	snprintf(to, cap, "%s", f->text);
	*has = true;
}

/* Changes of two requests must not undo each other; both would write through one name. */
static pthread_mutex_t runs_edit_lock = PTHREAD_MUTEX_INITIALIZER;

/* 0, or an errno and the reply. */
static int runs_edit_save(const struct runview *v, struct body_field f[RUNS_FIELDS],
			  struct http_reply *reply)
{
	struct run_edit *edit = xcalloc(1, sizeof(*edit));
	char tags[sizeof(edit->tags)], why[128];
	struct err e = {0};
	int r = store_edit_load(v->dir, &e, edit);

	if (r == -ENOENT || r == -EBADMSG) {
		err_clear(&e);
		r = 0;
	}
	if (!r && f[RUNS_TAGS].has) {
		r = tags_change(v->run.tags, f[RUNS_TAGS].text, tags, sizeof(tags), why);
		if (r)
			reply_error(reply, 400, "bad-body", "The body's \"tags\": %s.", why);
		free(f[RUNS_TAGS].text);
		f[RUNS_TAGS].text = xstrdup(r ? "" : tags);
	}
	if (!r) {
		runs_take(&f[RUNS_NAME], edit->name, sizeof(edit->name), &edit->has_name);
		runs_take(&f[RUNS_PROJECT], edit->project, sizeof(edit->project),
			  &edit->has_project);
		runs_take(&f[RUNS_TAGS], edit->tags, sizeof(edit->tags), &edit->has_tags);
		runs_take(&f[RUNS_NOTES], edit->notes, sizeof(edit->notes), &edit->has_notes);
		r = store_edit_save(v->dir, edit, &e);
	}
	if (e.code)
		reply_error(reply, 503, "folder", "%s", e.text);
	free(edit);
	return r;
}

static void runs_edit(const struct route_ask *a, struct http_reply *reply)
{
	struct body_field fields[RUNS_FIELDS] = {
		[RUNS_NAME] = {.name = "name", .max = 255},
		[RUNS_PROJECT] = {.name = "project", .max = 255},
		[RUNS_TAGS] = {.name = "tags", .max = 1023},
		[RUNS_NOTES] = {.name = "notes", .max = 4095},
	};
	struct server_run *run = NULL;
	struct json j;
	int r = -1;

	if (body_read(a->request, fields, RUNS_FIELDS, reply)) {
		pthread_mutex_lock(&runs_edit_lock);
		run = server_take_run(a->server, a->args[0], reply);
		if (run)
			r = runs_edit_save(&run->v, fields, reply);
		pthread_mutex_unlock(&runs_edit_lock);
	}
	server_give_run(a->server, run);
	run = r ? NULL : server_take_run(a->server, a->args[0], reply);
	if (run) {
		reply_json(reply, &j);
		json_object(&j);
		runs_run(&j, run);
		json_object_end(&j);
		server_give_run(a->server, run);
	}
	body_done(fields, RUNS_FIELDS);
}

/* ---- the rows ----------------------------------------------------------------------------------
 */

static const struct param runs_params[] = {
	{.name = "q",
	 .help = "Words; each must be in id, name, project, tags, command, user, hosts or notes."},
	{.name = "filter",
	 .is_many = true,
	 .help = "A condition like project=ocr, tag=good*, duration>1h, val/acc>0.9."},
	{.name = "status",
	 .type = PARAM_CHOICE,
	 .choices = "running|finished|failed|lost|unreadable",
	 .is_many = true,
	 .help = "One of these; default: all."},
	{.name = "tag", .is_many = true, .help = "All of these."},
	{.name = "project", .help = "Of this project only."},
	{.name = "sort",
	 .help = "start, id, name, project, user, status, duration, step, size or metric:NAME; "
		 "with "
		 "- in front descending; default: -start."},
	{.name = "limit",
	 .type = PARAM_INT,
	 .lo = 1,
	 .hi = RUNS_LIMIT_MAX,
	 .help = "Rows; default: 100."},
	{.name = "offset",
	 .type = PARAM_INT,
	 .hi = 1000000000,
	 .help = "Rows before the first; default: 0."},
	{.name = "metric", .is_many = true, .help = "A column for this metric, 16 at most."},
	{.name = "spark", .help = "A small chart of this metric."},
	{0},
};

static void runs_answer(const struct route_ask *a, struct http_reply *reply)
{
	if (param_nth(a, "metric", RUNLIST_METRICS_MAX))
		reply_error(reply, 400, "bad-parameter", "metric may be there %u times.",
			    RUNLIST_METRICS_MAX);
	else
		runs_table(a, reply);
}

const struct route route_runs[] = {
	{.method = "GET",
	 .path = "/api/v1/runs",
	 .summary = "The table of runs",
	 .params = runs_params,
	 .answer = runs_answer},
	{.method = "GET",
	 .path = "/api/v1/runs/{run}",
	 .summary = "One run: what it is, its processes and attributes, how far it is",
	 .answer = runs_one},
	{.method = "POST",
	 .path = "/api/v1/runs/{run}/edit",
	 .summary = "Change name, project, tags or notes of a run",
	 .answer = runs_edit},
	{0},
};
