/* SPDX-License-Identifier: Apache-2.0 */
#include "server/runspark.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/now.h"
#include "store/store.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNSPARK_KEPT 8192u /* entries; then all are forgotten */
#define RUNSPARK_LIVE_NS 5000000000LL

struct runspark_entry {
	uint64_t key;
	int64_t read_ns; /* CLOCK_MONOTONIC */
	struct runspark spark;
};

struct runspark_cache {
	pthread_mutex_t lock;
	struct map at; /* "DIR\nMETRIC" */
	struct runspark_entry *v;
	size_t n, cap;
};

static void *runspark_make(struct server *s)
{
	struct runspark_cache *c = xcalloc(1, sizeof(*c));

	(void)s;
	pthread_mutex_init(&c->lock, NULL);
	map_init(&c->at);
	return c;
}

static void runspark_done(void *state)
{
	struct runspark_cache *c = state;

	pthread_mutex_destroy(&c->lock);
	map_done(&c->at);
	free(c->v);
	free(c);
}

static const struct server_part runspark_part = {.make = runspark_make, .done = runspark_done};

/* ---- reading ------------------------------------------------------------------------------- */

/* The series that stands for the metric, as in the index. */
struct runspark_pick {
	const char *name;
	bool found;
	struct store_standing standing;
	struct store_ref ref;
	enum sink_kind kind;
};

static int runspark_series(void *arg, const struct store_series *s)
{
	struct runspark_pick *p = arg;

	if (strcmp(s->name, p->name) || s->kind == SINK_HISTOGRAM)
		return 0;
	if (p->found && !store_standing_is_before(store_standing(s), p->standing))
		return 0;
	p->found = true;
	p->standing = store_standing(s);
	p->ref = (struct store_ref){s->host, s->id};
	p->kind = s->kind;
	return 0;
}

static double runspark_value(const struct store_result *r, size_t i)
{
	const struct store_bucket *b;

	if (r->raw)
		return r->points[i].value;
	b = &r->buckets[i];
	return b->count && b->observed ? b->sum / (double)b->observed : NAN;
}

static int runspark_query(struct store_reader *reader, const struct runspark_pick *p,
			  enum store_axis axis, struct runspark *ret)
{
	const struct store_query ask = {.axis = axis, .points = RUNSPARK_BUCKETS, .aligned = true};
	struct store_result got;
	struct store_grid grid;
	struct err e = {0};
	size_t i;
	int r = store_reader_query(reader, &ask, &p->ref, 1, &e, &grid, &got);

	if (r)
		return r;
	ret->n = got.n < RUNSPARK_BUCKETS ? got.n : RUNSPARK_BUCKETS;
	for (i = 0; i < ret->n; i++)
		ret->v[i] = runspark_value(&got, i);
	store_results_free(&got, 1);
	return 0;
}

static void runspark_read(const char *dir, const char *metric, struct runspark *ret)
{
	struct runspark_pick p = {.name = metric};
	struct store_reader *reader;
	struct err e = {0};

	*ret = (struct runspark){0};
	if (store_reader_open(dir, &e, &reader))
		return;
	if (!store_reader_series(reader, runspark_series, &p, &e) && p.found &&
	    !runspark_query(reader, &p, STORE_BY_STEP, ret) && !ret->n)
		runspark_query(reader, &p, STORE_BY_TIME, ret);
	store_reader_close(reader);
}

/* ---- keeping ------------------------------------------------------------------------------- */

static bool runspark_find(struct runspark_cache *c, const char *name, uint64_t key,
			  struct runspark *ret)
{
	const struct runspark_entry *entry;
	uint64_t at;
	bool is = false;

	pthread_mutex_lock(&c->lock);
	if (map_get(&c->at, name, strlen(name), &at)) {
		entry = &c->v[at];
		is = key ? entry->key == key
			 : now_read(CLOCK_MONOTONIC) - entry->read_ns < RUNSPARK_LIVE_NS;
		if (is)
			*ret = entry->spark;
	}
	pthread_mutex_unlock(&c->lock);
	return is;
}

static void runspark_keep(struct runspark_cache *c, const char *name, uint64_t key,
			  const struct runspark *spark)
{
	uint64_t at;

	pthread_mutex_lock(&c->lock);
	if (c->n >= RUNSPARK_KEPT) {
		map_done(&c->at);
		map_init(&c->at);
		c->n = 0;
	}
	if (!map_get(&c->at, name, strlen(name), &at)) {
		c->v = xgrow(c->v, c->n, &c->cap, sizeof(*c->v));
		at = c->n++;
		map_put(&c->at, name, strlen(name), at);
	}
	c->v[at] = (struct runspark_entry){key, now_read(CLOCK_MONOTONIC), *spark};
	pthread_mutex_unlock(&c->lock);
}

void runspark_get(struct server *s, const char *dir, const char *metric, uint64_t key,
		  struct runspark *ret)
{
	struct runspark_cache *c = server_part(s, &runspark_part);
	char *name = xasprintf("%s\n%s", dir, metric);

	if (!c || !runspark_find(c, name, key, ret)) {
		runspark_read(dir, metric, ret);
		if (c)
			runspark_keep(c, name, key, ret);
	}
	free(name);
}

void runspark_json(struct json *j, const struct runspark *spark)
{
	char text[32];
	size_t i;

	if (!spark->n) {
		json_null(j);
		return;
	}
	json_array(j);
	for (i = 0; i < spark->n; i++) {
		snprintf(text, sizeof(text), "%.5g", spark->v[i]);
		json_raw(j, isfinite(spark->v[i]) ? text : "null");
	}
	json_array_end(j);
}
