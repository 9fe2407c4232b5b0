/* SPDX-License-Identifier: Apache-2.0 */
#include "report/usage.h"

#include "base/mem.h"
#include "base/number.h"
#include "report/querydata.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE_BATCH 64 /* series asked for at once: bounds the memory of the answers */

enum usage_flags {
	USAGE_P95 = 1,
	USAGE_RATE = 2, /* the highest rate too */
	USAGE_STEPS = 4 /* also of the time of the steps alone */
};

/* The metrics that a report needs. */
static const struct usage_row {
	const char *name;
	unsigned flags;
} usage_rows[] = {
	{"cpu/busy", USAGE_P95},
	{"cpu/count", 0},
	{"cpu/iowait", 0},
	{"cpu/steal", 0},
	{"load/1m", 0},
	{"pressure/cpu", 0},
	{"pressure/memory", 0},
	{"pressure/io", 0},
	{"memory/used", 0},
	{"memory/total", 0},
	{"memory/limit", 0},
	{"memory/oom_kills", 0},
	{"oom/risk", 0},
	{"swap/used", 0},
	{"swap/total", 0},
	{"swap/in", 0},
	{"cgroup/memory/working_set", 0},
	{"cgroup/memory/limit", 0},
	{"cgroup/cpu/throttled/periods", 0},
	{"disk/read", USAGE_RATE},
	{"disk/written", USAGE_RATE},
	{"disk/busy", 0},
	{"filesystem/total", 0},
	{"filesystem/used", 0},
	{"filesystem/available", 0},
	{"filesystem/inodes/total", 0},
	{"filesystem/inodes/free", 0},
	{"shm/used", 0},
	{"shm/total", 0},
	{"network/received", USAGE_RATE},
	{"network/sent", USAGE_RATE},
	{"network/tcp/segments", 0},
	{"network/tcp/retransmits", 0},
	{"kernel/hung_tasks", 0},
	{"kernel/machine_checks", 0},
	{"kernel/memory_errors/uncorrected", 0},
	{"tree/rss", 0},
	{"gpu/busy", USAGE_STEPS},
	{"gpu/memory/used", 0},
	{"gpu/memory/total", 0},
	{"gpu/power", USAGE_STEPS},
	{"gpu/energy", USAGE_STEPS},
	{"gpu/temperature", 0},
	{"gpu/throttled", 0},
	{"gpu/throttled/reason", 0},
	{"gpu/sm/active", 0},
	{"gpu/tensor/active", 0},
	{"gpu/ecc/corrected", 0},
	{"gpu/ecc/uncorrected", 0},
	{"gpu/ecc/pending", 0},
	{"gpu/ecc/failure", 0},
	{"gpu/xid", 0},
	{"process/cpu", 0},
	{"process/rss", 0},
	{"process/rss/peak", 0},
	{"process/threads", 0},
	{"process/read", 0},
	{"process/written", 0},
	{"process/read/cached", 0},
	{"process/blocked", 0},
	{"process/runqueue", 0},
	{"process/gpu/memory", 0},
	{"process/gpu/busy", 0},
	{"process/files", 0},
	{"process/files/limit", 0},
	{"lapse/agent/cpu", 0},
	{"lapse/agent/rss", 0},
	{"lapse/agent/rss/anonymous", 0},
};

static const struct usage_row *usage_row_of(const struct store_series *s)
{
	size_t i;

	/* A program may have a series of that name too. */
	if (s->count == 0 || strcmp(s->source, "record") == 0 ||
	    (s->kind != SINK_GAUGE && s->kind != SINK_COUNTER))
		return NULL;
	for (i = 0; i < ARRAY_LEN(usage_rows); i++)
		if (strcmp(usage_rows[i].name, s->name) == 0)
			return &usage_rows[i];
	return NULL;
}

static unsigned usage_flags_of(const struct usage_item *i)
{
	return usage_row_of(i->s)->flags;
}

static int usage_compare(const void *a, const void *b)
{
	const struct store_series *x = ((const struct usage_item *)a)->s;
	const struct store_series *y = ((const struct usage_item *)b)->s;
	int c = strverscmp(x->host_name, y->host_name);

	if (!c)
		c = strcmp(x->name, y->name);
	if (!c)
		c = strverscmp(x->labels, y->labels);
	if (!c)
		c = (x->id > y->id) - (x->id < y->id);
	return c;
}

static void usage_choose(struct usage *u)
{
	const struct runview *v = u->v;
	size_t i;

	for (i = 0; i < v->n_series; i++) {
		if (!usage_row_of(&v->series[i]))
			continue;
		u->items = xgrow(u->items, u->n, &u->cap, sizeof(*u->items));
		u->items[u->n++] = (struct usage_item){.s = &v->series[i],
						       .sum = NAN,
						       .min = NAN,
						       .max = NAN,
						       .last = NAN,
						       .mean = NAN,
						       .p95 = NAN,
						       .in_steps = NAN,
						       .rate = NAN,
						       .rate_max = NAN,
						       .rate_steps = NAN};
	}
	if (u->n)
		qsort(u->items, u->n, sizeof(*u->items), usage_compare);
	u->hosts = xcalloc(u->n, sizeof(*u->hosts));
	for (i = 0; i < u->n; i++)
		if (i == 0 || strcmp(u->items[i].s->host_name, u->items[i - 1].s->host_name) != 0)
			u->hosts[u->n_hosts++] = u->items[i].s->host_name;
}

/* ---- what the store is asked ---------------------------------------------------- */

/* Since it is not known since when the first amount came. */
static double usage_rate(const struct store_bucket *b)
{
	double s = (double)(b->time_max - b->time_min) / 1e9;

	return b->nan == 0 && b->count > 1 && s > 0 ? (b->sum - b->first) / s : NAN;
}

static double usage_mean(const struct store_bucket *b)
{
	return b->count > b->nan ? b->sum / (double)(b->count - b->nan) : NAN;
}

static void usage_take_total(struct usage_item *i, struct store_result *r)
{
	struct store_bucket b;

	if (r->n == 0)
		return;
	b = querydata_bucket(r, 0);
	if (b.count == b.nan)
		return;
	i->count = b.count - b.nan;
	i->sum = b.sum;
	i->min = b.min;
	i->max = b.max;
	i->last = b.last;
	i->mean = usage_mean(&b);
	i->from_ns = b.time_min;
	i->to_ns = b.time_max;
	if (i->s->kind == SINK_COUNTER)
		i->rate = usage_rate(&b);
}

static void usage_take_steps(struct usage_item *i, struct store_result *r)
{
	struct store_bucket b;

	if (r->n == 0)
		return;
	b = querydata_bucket(r, 0);
	i->in_steps = usage_mean(&b);
	if (i->s->kind == SINK_COUNTER)
		i->rate_steps = usage_rate(&b);
}

static void usage_take_rates(struct usage_item *i, struct store_result *r)
{
	size_t k;

	store_rate(r, STORE_BY_TIME);
	for (k = 0; k < r->n; k++) {
		double v = querydata_bucket(r, k).max;

		if (isnan(i->rate_max) || v > i->rate_max)
			i->rate_max = v;
	}
}

struct usage_slice {
	double mean;
	uint64_t count;
};

static int usage_compare_slice(const void *a, const void *b)
{
	double x = ((const struct usage_slice *)a)->mean, y = ((const struct usage_slice *)b)->mean;

	return (x > y) - (x < y);
}

/* Each slice counts as many times as it has readings. */
static void usage_take_p95(struct usage_item *i, struct store_result *r)
{
	struct usage_slice *slices = xcalloc(r->n, sizeof(*slices));
	uint64_t all = 0, seen = 0;
	size_t k, n = 0;

	for (k = 0; k < r->n; k++) {
		struct store_bucket b = querydata_bucket(r, k);

		if (b.count == b.nan)
			continue;
		slices[n++] = (struct usage_slice){usage_mean(&b), b.count - b.nan};
		all += b.count - b.nan;
	}
	if (n)
		qsort(slices, n, sizeof(*slices), usage_compare_slice);
	for (k = 0; k < n; k++) {
		seen += slices[k].count;
		if (seen * 100 >= all * 95) {
			i->p95 = slices[k].mean;
			break;
		}
	}
	free(slices);
}

/* A question to the items whose metric wants it. */
struct usage_ask {
	unsigned flag; /* 0: all */
	struct store_query q;
	void (*take)(struct usage_item *i, struct store_result *r);
};

static int usage_ask_batch(struct usage *u, const struct usage_ask *ask, const size_t *which,
			   size_t n, struct err *e)
{
	struct store_result results[USAGE_BATCH];
	struct store_ref refs[USAGE_BATCH];
	size_t i;
	int err;

	for (i = 0; i < n; i++)
		refs[i] = (struct store_ref){u->items[which[i]].s->host, u->items[which[i]].s->id};
	err = store_reader_query(u->v->reader, &ask->q, refs, n, e, NULL, results);
	if (err)
		return err;
	for (i = 0; i < n; i++)
		ask->take(&u->items[which[i]], &results[i]);
	store_results_free(results, n);
	return 0;
}

static int usage_ask(struct usage *u, const struct usage_ask *ask, struct err *e)
{
	size_t which[USAGE_BATCH], i, n = 0;
	int err = 0;

	for (i = 0; i < u->n && !err; i++) {
		if (ask->flag && !(usage_flags_of(&u->items[i]) & ask->flag))
			continue;
		which[n++] = i;
		if (n == USAGE_BATCH) {
			err = usage_ask_batch(u, ask, which, n, e);
			n = 0;
		}
	}
	return err || n == 0 ? err : usage_ask_batch(u, ask, which, n, e);
}

static int usage_ask_all(struct usage *u, const struct usage_steps *steps, struct err *e)
{
	const struct store_range all = {.all_segments = true};
	struct usage_ask asks[] = {
		{0, {.range = all, .points = 1, .no_raw = true}, usage_take_total},
		{USAGE_P95, {.range = all, .points = USAGE_P95_SLICES}, usage_take_p95},
		{USAGE_RATE, {.range = all, .points = USAGE_SLICES}, usage_take_rates},
		{USAGE_STEPS, {.range = all, .points = 1, .no_raw = true}, usage_take_steps},
	};
	struct store_range *window = &asks[3].q.range;
	size_t i, n = steps->end_ns > steps->start_ns ? 4 : 3;
	int err = 0;

	window->by_time = true;
	window->time_min = steps->start_ns;
	window->time_max = steps->end_ns;
	for (i = 0; i < n && !err; i++)
		err = usage_ask(u, &asks[i], e);
	return err;
}

/* ---- facts ------------------------------------------------------------------------ */

static int usage_take_fact(void *arg, unsigned host, uint32_t process, const char *key,
			   const char *value)
{
	const struct store_process *p;
	struct usage *u = arg;

	if (strncmp(key, "gpu/", 4) != 0)
		return 0;
	p = runview_process(u->v, host, process);
	if (strcmp(p->role, "host") != 0)
		return 0;
	u->facts = xgrow(u->facts, u->n_facts, &u->cap_facts, sizeof(*u->facts));
	u->facts[u->n_facts++] = (struct usage_fact){p->host_name, xstrdup(key), term_clean(value)};
	return 0;
}

const char *usage_fact(const struct usage *u, const char *host, const char *key)
{
	size_t i;

	for (i = u->n_facts; i-- > 0;)
		if (strcmp(u->facts[i].host, host) == 0 && strcmp(u->facts[i].key, key) == 0)
			return u->facts[i].value;
	return NULL;
}

/* ---- all ---------------------------------------------------------------------------- */

int usage_read(struct usage *u, const struct runview *v, const struct usage_steps *steps,
	       struct err *e)
{
	int err;

	*u = (struct usage){.v = v};
	usage_choose(u);
	err = usage_ask_all(u, steps, e);
	if (!err)
		err = store_reader_attrs(v->reader, usage_take_fact, u, e);
	if (err)
		usage_done(u);
	return err;
}

void usage_done(struct usage *u)
{
	size_t i;

	for (i = 0; i < u->n_facts; i++) {
		free(u->facts[i].key);
		free(u->facts[i].value);
	}
	free(u->facts);
	free(u->hosts);
	free(u->items);
	*u = (struct usage){0};
}

const struct usage_item *usage_find(const struct usage *u, const char *host, const char *name,
				    const char *labels)
{
	const struct usage_item *i = NULL;

	while ((i = usage_next(u, host, name, i)))
		if (strcmp(i->s->labels, labels) == 0)
			return i;
	return NULL;
}

const struct usage_item *usage_next(const struct usage *u, const char *host, const char *name,
				    const struct usage_item *after)
{
	const struct usage_item *i = after ? after + 1 : u->items, *end = u->items + u->n;

	for (; i < end; i++)
		if (i->count && strcmp(i->s->name, name) == 0 &&
		    (!host || strcmp(i->s->host_name, host) == 0))
			return i;
	return NULL;
}

const char *usage_label(const struct usage_item *i, const char *label, char out[USAGE_LABEL_MAX])
{
	char *value = store_series_label(i->s, label), *clean = term_clean(value);

	snprintf(out, USAGE_LABEL_MAX, "%s", clean);
	free(clean);
	free(value);
	return out;
}

/* ---- GPUs and processes ------------------------------------------------------------- */

/* Hosts and labels that any of these metrics has, each once. */
struct usage_place {
	const char *host, *labels;
	const struct usage_item *item;
};

static int usage_compare_place(const void *a, const void *b)
{
	const struct usage_place *x = a, *y = b;
	int c = strverscmp(x->host, y->host);

	return c ? c : strverscmp(x->labels, y->labels);
}

static struct usage_place *usage_places(const struct usage *u, const char *const *names,
					size_t n_names, size_t *ret_n)
{
	struct usage_place *places = NULL;
	size_t n = 0, cap = 0, i, k;

	for (i = 0; i < n_names; i++) {
		const struct usage_item *item = NULL;

		while ((item = usage_next(u, NULL, names[i], item))) {
			places = xgrow(places, n, &cap, sizeof(*places));
			places[n++] =
				(struct usage_place){item->s->host_name, item->s->labels, item};
		}
	}
	if (n)
		qsort(places, n, sizeof(*places), usage_compare_place);
	for (i = 0, k = 0; i < n; i++)
		if (k == 0 || usage_compare_place(&places[i], &places[k - 1]) != 0)
			places[k++] = places[i];
	*ret_n = k;
	return places;
}

static void usage_throttle(const struct usage *u, struct usage_gpu *g, const char *gpu)
{
	const struct usage_item *i = NULL;
	char label[USAGE_LABEL_MAX];

	while ((i = usage_next(u, g->host, "gpu/throttled/reason", i))) {
		if (strcmp(usage_label(i, "gpu", label), gpu) != 0 || !(i->mean > g->reason_share))
			continue;
		usage_label(i, "reason", g->reason);
		g->reason_share = i->mean;
	}
}

struct usage_gpu *usage_gpus(const struct usage *u, size_t *ret_n)
{
	static const char *const names[] = {"gpu/busy",   "gpu/memory/used", "gpu/memory/total",
					    "gpu/energy", "gpu/power",       "gpu/temperature"};
	struct usage_place *places = usage_places(u, names, ARRAY_LEN(names), ret_n);
	struct usage_gpu *gpus = xcalloc(*ret_n, sizeof(*gpus));
	char gpu[USAGE_LABEL_MAX], mig[USAGE_LABEL_MAX], key[2 * USAGE_LABEL_MAX + 32];
	size_t i;

	for (i = 0; i < *ret_n; i++) {
		struct usage_gpu *g = &gpus[i];

		g->host = places[i].host;
		g->labels = places[i].labels;
		usage_label(places[i].item, "gpu", gpu);
		usage_label(places[i].item, "mig", mig);
		snprintf(key, sizeof(key), "%s%s%s", gpu, mig[0] ? "/" : "", mig);
		snprintf(g->number, sizeof(g->number), "%.*s", USAGE_LABEL_MAX - 1, key);
		snprintf(key, sizeof(key), "gpu/%s%s%s/name", gpu, mig[0] ? "/mig/" : "", mig);
		g->name = usage_fact(u, g->host, key);
		if (!mig[0])
			usage_throttle(u, g, gpu);
	}
	free(places);
	return gpus;
}

struct usage_process *usage_processes(const struct usage *u, size_t *ret_n)
{
	static const char *const names[] = {"process/rss", "process/cpu"};
	struct usage_place *places = usage_places(u, names, ARRAY_LEN(names), ret_n);
	struct usage_process *all = xcalloc(*ret_n, sizeof(*all));
	size_t i;

	for (i = 0; i < *ret_n; i++) {
		all[i].host = places[i].host;
		all[i].labels = places[i].labels;
		usage_label(places[i].item, "role", all[i].role);
		usage_label(places[i].item, "slot", all[i].slot);
	}
	free(places);
	return all;
}

/* ---- energy --------------------------------------------------------------------------- */

static double usage_per(double joules, bool known, double n)
{
	return known && n > 0 ? joules / n : NAN;
}

struct usage_energy usage_energy(const struct usage *u, const struct usage_steps *steps)
{
	struct usage_energy en = {.total = NAN, .watts = NAN};
	const struct usage_item *i = NULL, *power;
	double joules;

	while ((i = usage_next(u, NULL, "gpu/energy", i))) {
		en.by_energy++;
		number_add(&en.total, i->sum);
		power = usage_find(u, i->s->host_name, "gpu/power", i->s->labels);
		number_add(&en.watts,
			   isnan(i->rate_steps) && power ? power->in_steps : i->rate_steps);
	}
	while ((i = usage_next(u, NULL, "gpu/power", i))) {
		if (usage_find(u, i->s->host_name, "gpu/energy", i->s->labels))
			continue;
		en.by_power++;
		number_add(&en.total, i->mean * (double)(i->to_ns - i->from_ns) / 1e9);
		number_add(&en.watts, i->in_steps);
	}
	joules = en.watts * (double)(steps->end_ns - steps->start_ns) / 1e9;
	en.per_step = usage_per(joules, true, (double)steps->steps);
	en.per_sample = usage_per(joules, steps->has_samples, steps->samples);
	en.per_token = usage_per(joules, steps->has_tokens, steps->tokens);
	return en;
}
