/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/topmodel.h"

#include "base/mem.h"

#include <ctype.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPMODEL_NAME_MAX 512u /* bytes of a name, and of labels, that are kept */
#define TOPMODEL_FORGET 30u    /* frames after which a trace that nobody wants is freed */

void topmodel_init(struct topmodel *m)
{
	*m = (struct topmodel){.main_step = UINT32_MAX};
	map_init(&m->by_id);
	map_init(&m->by_chart);
	map_init(&m->by_item);
	m->events = xcalloc(TOPMODEL_EVENTS, sizeof(*m->events));
	m->spans = xcalloc((size_t)STEPSPLIT_PARTS_MAX * TOPMODEL_SPANS, sizeof(*m->spans));
	m->mark.samples = m->mark.tokens = NAN;
	m->run.is_running = true;
	statusline_init(&m->line);
}

void topmodel_done(struct topmodel *m)
{
	size_t i;

	for (i = 0; i < m->n_series; i++) {
		if (m->series[i].trace)
			toptrace_done(m->series[i].trace);
		free(m->series[i].trace);
	}
	for (i = 0; i < m->n_charts; i++) {
		free(m->charts[i].name);
		free(m->charts[i].labels);
		free(m->charts[i].unit);
		free(m->charts[i].series);
	}
	for (i = 0; i < TOP_GROUPS; i++)
		free(m->items[i].all);
	free(m->series);
	free(m->charts);
	free(m->order);
	free(m->processes);
	free(m->events);
	free(m->spans);
	free(m->hosts);
	topalerts_done(&m->alerts);
	map_done(&m->by_id);
	map_done(&m->by_chart);
	map_done(&m->by_item);
}

void topmodel_host(struct topmodel *m, unsigned host, const char *name)
{
	if (host >= 4096)
		return;
	while (m->n_hosts <= host) {
		m->hosts = xrealloc(m->hosts, m->n_hosts + 1, sizeof(*m->hosts));
		m->hosts[m->n_hosts++][0] = '\0';
	}
	snprintf(m->hosts[host], sizeof(m->hosts[host]), "%s", name);
}

/* ---- groups of figures ------------------------------------------------------------------ */

static const struct topmodel_row {
	const char *name;
	int8_t group;
	uint8_t field;
	const char *label; /* that tells the items apart; NULL: there is only one a host */
} topmodel_rows[] = {
	{"cpu/busy", TOP_HOST, TOP_CPU_BUSY, NULL},
	{"cpu/user", TOP_HOST, TOP_CPU_USER, NULL},
	{"cpu/system", TOP_HOST, TOP_CPU_SYSTEM, NULL},
	{"cpu/iowait", TOP_HOST, TOP_CPU_IOWAIT, NULL},
	{"cpu/steal", TOP_HOST, TOP_CPU_STEAL, NULL},
	{"cpu/count", TOP_HOST, TOP_CPU_COUNT, NULL},
	{"cpu/quota", TOP_HOST, TOP_CPU_QUOTA, NULL},
	{"load/1m", TOP_HOST, TOP_LOAD, NULL},
	{"memory/total", TOP_HOST, TOP_MEM_TOTAL, NULL},
	{"memory/used", TOP_HOST, TOP_MEM_USED, NULL},
	{"memory/limit", TOP_HOST, TOP_MEM_LIMIT, NULL},
	{"swap/used", TOP_HOST, TOP_SWAP_USED, NULL},
	{"swap/total", TOP_HOST, TOP_SWAP_TOTAL, NULL},
	{"pressure/cpu", TOP_HOST, TOP_PSI_CPU, NULL},
	{"pressure/memory", TOP_HOST, TOP_PSI_MEMORY, NULL},
	{"pressure/io", TOP_HOST, TOP_PSI_IO, NULL},
	{"tree/cpu", TOP_HOST, TOP_TREE_CPU, NULL},
	{"tree/rss", TOP_HOST, TOP_TREE_RSS, NULL},
	{"shm/used", TOP_HOST, TOP_SHM_USED, NULL},
	{"shm/total", TOP_HOST, TOP_SHM_TOTAL, NULL},
	{"cpu/core/busy", TOP_CORE, TOP_CORE_BUSY, "cpu"},
	{"cpu/core/system", TOP_CORE, TOP_CORE_SYSTEM, "cpu"},
	{"gpu/busy", TOP_GPU, TOP_GPU_BUSY, "gpu"},
	{"gpu/memory/used", TOP_GPU, TOP_GPU_USED, "gpu"},
	{"gpu/memory/total", TOP_GPU, TOP_GPU_TOTAL, "gpu"},
	{"gpu/power", TOP_GPU, TOP_GPU_POWER, "gpu"},
	{"gpu/power/limit", TOP_GPU, TOP_GPU_POWER_LIMIT, "gpu"},
	{"gpu/temperature", TOP_GPU, TOP_GPU_TEMPERATURE, "gpu"},
	{"gpu/clock/sm", TOP_GPU, TOP_GPU_CLOCK, "gpu"},
	{"gpu/throttled", TOP_GPU, TOP_GPU_THROTTLED, "gpu"},
	{"gpu/sm/active", TOP_GPU, TOP_GPU_SM, "gpu"},
	{"disk/read", TOP_DISK, TOP_DISK_READ, "device"},
	{"disk/written", TOP_DISK, TOP_DISK_WRITTEN, "device"},
	{"disk/busy", TOP_DISK, TOP_DISK_BUSY, "device"},
	{"network/received", TOP_NET, TOP_NET_RECEIVED, "interface"},
	{"network/sent", TOP_NET, TOP_NET_SENT, "interface"},
	{"filesystem/used", TOP_FS, TOP_FS_USED, "mount"},
	{"filesystem/available", TOP_FS, TOP_FS_AVAILABLE, "mount"},
	{"filesystem/total", TOP_FS, TOP_FS_TOTAL, "mount"},
	{"process/cpu", TOP_PROC, TOP_PROC_CPU, "role"},
	{"process/rss", TOP_PROC, TOP_PROC_RSS, "role"},
	{"process/gpu/memory", TOP_PROC, TOP_PROC_GPU, "role"},
	{"process/read/all", TOP_PROC, TOP_PROC_READ, "role"},
	{"process/threads", TOP_PROC, TOP_PROC_THREADS, "role"},
	{"process/blocked", TOP_PROC, TOP_PROC_BLOCKED, "role"},
};

static const struct topmodel_row *topmodel_row_of(const struct store_series *s)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(topmodel_rows); i++)
		if (strcmp(s->name, topmodel_rows[i].name) == 0)
			return &topmodel_rows[i];
	return NULL;
}

static void topmodel_label(const struct store_series *s, const char *label, char *out, size_t cap)
{
	char *value = store_series_label(s, label);

	snprintf(out, cap, "%s", value ? value : "");
	free(value);
}

/* Put the series to the item that its labels name. */
static void topmodel_place(struct topmodel *m, struct topmodel_series *to, uint32_t number,
			   const struct store_series *s)
{
	const struct topmodel_row *row = to->is_machine ? topmodel_row_of(s) : NULL;
	struct topmodel_items *items;
	struct topmodel_item *item;
	char key[TOPMODEL_NAME_MAX], mig[24];
	uint64_t at;
	int len;

	to->group = -1;
	if (!row)
		return;
	len = snprintf(key, sizeof(key), "%d %u %s", row->group, s->host,
		       row->label ? s->labels : "");
	items = &m->items[row->group];
	if (len >= (int)sizeof(key) || items->n >= TOPMODEL_ITEMS_MAX)
		return;
	if (!map_get(&m->by_item, key, (size_t)len, &at)) {
		at = items->n;
		map_put(&m->by_item, key, (size_t)len, at);
		items->all = xgrow(items->all, items->n, &items->cap, sizeof(*items->all));
		item = &items->all[items->n++];
		*item = (struct topmodel_item){.host = s->host, .busy_series = UINT32_MAX};
		for (len = 0; len < TOP_FIELDS; len++)
			item->v[len] = NAN;
		if (row->label)
			topmodel_label(s, row->label, item->name, sizeof(item->name));
		topmodel_label(s, "slot", item->slot, sizeof(item->slot));
		topmodel_label(s, "mig", mig, sizeof(mig));
		if (mig[0] && row->group == TOP_GPU)
			snprintf(item->name + strlen(item->name),
				 sizeof(item->name) - strlen(item->name), "/%s", mig);
	}
	to->group = row->group;
	to->field = row->field;
	to->item = (uint32_t)at;
	if (row->field == 0)
		items->all[at].busy_series = number;
}

const struct topmodel_item *topmodel_item(const struct topmodel *m, enum topmodel_group g,
					  unsigned host)
{
	size_t i;

	for (i = 0; i < m->items[g].n; i++)
		if (m->items[g].all[i].host == host)
			return &m->items[g].all[i];
	return NULL;
}

/* ---- charts ---------------------------------------------------------------------------- */

/* Words of names, the first that is in it counts. */
static const struct {
	const char *word;
	int score;
} topmodel_words[] = {
	{"loss", 100},       {"perplexity", 92}, {"accuracy", 90},      {"acc", 90},
	{"reward", 90},      {"f1", 88},         {"bleu", 88},          {"auc", 88},
	{"grad_norm", 84},   {"grad", 78},       {"throughput", 74},    {"tokens_per", 74},
	{"samples_per", 74}, {"mfu", 74},        {"learning_rate", 66}, {"lr", 66},
	{"epoch", 20},
};

/* Of what lapse measures: shown where a program records nothing itself. */
static const char *const topmodel_machine[] = {"tree/rss", "memory/used",     "tree/cpu",
					       "cpu/busy", "gpu/memory/used", "gpu/busy"};

int topmodel_score(const struct topmodel_series *s, const char *name)
{
	static const int by_kind[] = {[SINK_COUNTER] = 30, [SINK_HISTOGRAM] = 15, [SINK_SPAN] = 35};
	size_t i;

	if (s->is_machine) {
		for (i = 0; i < ARRAY_LEN(topmodel_machine); i++)
			if (strcmp(name, topmodel_machine[i]) == 0)
				return (int)i + 1;
		return 0;
	}
	if (s->kind == SINK_SPAN && strcmp(name, "step") == 0)
		return 72;
	if (strncmp(name, "lapse/step/", 11) == 0)
		return 45;
	if (strncmp(name, "lapse/", 6) == 0)
		return 12;
	if (s->kind != SINK_GAUGE)
		return by_kind[s->kind];
	for (i = 0; i < ARRAY_LEN(topmodel_words); i++)
		if (strcasestr(name, topmodel_words[i].word))
			return topmodel_words[i].score -
			       (strcasestr(name, "val") || strcasestr(name, "test") ? 3 : 0);
	return 50;
}

static uint32_t topmodel_chart_of(struct topmodel *m, const struct topmodel_series *s,
				  const struct store_series *def)
{
	char key[2 * TOPMODEL_NAME_MAX + 48];
	struct topmodel_chart *c;
	uint64_t at;
	int len;

	len = snprintf(key, sizeof(key), "%d %.512s{%.400s", (int)s->kind, def->name, def->labels);
	if (strlen(def->name) > TOPMODEL_NAME_MAX || strlen(def->labels) > 400)
		len += snprintf(key + len, sizeof(key) - (size_t)len, "%016llx%016llx",
				(unsigned long long)map_hash(def->name, strlen(def->name)),
				(unsigned long long)map_hash(def->labels, strlen(def->labels)));
	if (map_get(&m->by_chart, key, (size_t)len, &at))
		return (uint32_t)at;
	at = m->n_charts;
	map_put(&m->by_chart, key, (size_t)len, at);
	m->charts = xgrow(m->charts, m->n_charts, &m->cap_charts, sizeof(*m->charts));
	c = &m->charts[m->n_charts++];
	*c = (struct topmodel_chart){
		.name = xstrndup(def->name, strnlen(def->name, TOPMODEL_NAME_MAX)),
		.labels = xstrndup(def->labels, strnlen(def->labels, TOPMODEL_NAME_MAX)),
		.kind = s->kind,
		.score = topmodel_score(s, def->name)};
	c->unit = s->kind == SINK_SPAN ? xstrdup("ns")
		  : s->kind == SINK_COUNTER
			  ? xasprintf("%.40s/s", strcmp(def->unit, "1") == 0 ? "" : def->unit)
			  : xstrndup(def->unit, strnlen(def->unit, 40));
	return (uint32_t)at;
}

/* Keep the lowest rank first; without a rank last. */
static void topmodel_chart_add(struct topmodel *m, uint32_t number)
{
	struct topmodel_chart *c = &m->charts[m->series[number].chart];
	uint64_t rank = (uint64_t)m->series[number].rank;
	size_t at = c->n;

	c->series = xgrow(c->series, c->n, &c->cap, sizeof(*c->series));
	while (at > 0 && (uint64_t)m->series[c->series[at - 1]].rank > rank)
		at--;
	memmove(&c->series[at + 1], &c->series[at], (c->n - at) * sizeof(*c->series));
	c->series[at] = number;
	c->n++;
}

static int topmodel_by_score(const void *a, const void *b, void *arg)
{
	const struct topmodel *m = arg;
	const struct topmodel_chart *x = &m->charts[*(const uint32_t *)a],
				    *y = &m->charts[*(const uint32_t *)b];
	int r;

	if (x->score != y->score)
		return x->score > y->score ? -1 : 1;
	r = strverscmp(x->name, y->name);
	return r ? r : strverscmp(x->labels, y->labels);
}

void topmodel_sort(struct topmodel *m)
{
	if (m->n_order == m->n_charts)
		return;
	m->order = xrealloc(m->order, m->n_charts, sizeof(*m->order));
	for (m->n_order = 0; m->n_order < m->n_charts; m->n_order++)
		m->order[m->n_order] = (uint32_t)m->n_order;
	qsort_r(m->order, m->n_order, sizeof(*m->order), topmodel_by_score, m);
}

bool topmodel_match(const struct topmodel_chart *c, const char *filter)
{
	char text[2 * TOPMODEL_NAME_MAX + 8];

	if (!filter[0])
		return c->score > 0;
	snprintf(text, sizeof(text), c->labels[0] ? "%s{%s}" : "%s%s", c->name, c->labels);
	if (strpbrk(filter, "*?["))
		return fnmatch(filter, c->name, FNM_CASEFOLD) == 0 ||
		       fnmatch(filter, text, FNM_CASEFOLD) == 0;
	return strcasestr(text, filter) != NULL;
}

/* ---- series ------------------------------------------------------------------------------ */

uint32_t topmodel_find(const struct topmodel *m, unsigned host, uint32_t id)
{
	uint32_t key[2] = {host, id};
	uint64_t at;

	return map_get(&m->by_id, key, sizeof(key), &at) ? (uint32_t)at : UINT32_MAX;
}

/* Parts of the step are spans of the process whose steps are looked at. */
static void topmodel_part(struct topmodel *m, struct topmodel_series *s)
{
	const struct topmodel_series *step =
		m->main_step == UINT32_MAX ? NULL : &m->series[m->main_step];

	s->part = UINT32_MAX;
	if (!step || s == step || s->kind != SINK_SPAN || s->is_machine || s->host != step->host ||
	    s->process != step->process || m->n_parts >= STEPSPLIT_PARTS_MAX - 1)
		return;
	s->part = (uint32_t)m->n_parts;
	m->parts[m->n_parts++] = m->charts[s->chart].name;
}

/* Are these the steps to look at, of a lower rank than any so far? */
static void topmodel_main(struct topmodel *m, uint32_t number)
{
	struct topmodel_series *s = &m->series[number];
	size_t i;

	if (s->is_machine || s->kind != SINK_SPAN ||
	    strcmp(m->charts[s->chart].name, "step") != 0 ||
	    (m->main_step != UINT32_MAX &&
	     (uint64_t)m->series[m->main_step].rank <= (uint64_t)s->rank)) {
		topmodel_part(m, s);
		return;
	}
	m->main_step = number;
	m->n_parts = 0;
	memset(m->n_spans, 0, sizeof(m->n_spans));
	m->mark.steps = 0;
	m->speed.n = 0;
	for (i = 0; i < m->n_series; i++)
		topmodel_part(m, &m->series[i]);
}

uint32_t topmodel_add_series(struct topmodel *m, const struct store_series *s)
{
	uint32_t key[2] = {s->host, s->id}, number = topmodel_find(m, s->host, s->id);
	struct topmodel_series *to;

	if (number != UINT32_MAX)
		return number;
	if (m->n_series >= TOPMODEL_SERIES_MAX) {
		m->left_out++;
		return UINT32_MAX;
	}
	number = (uint32_t)m->n_series;
	map_put(&m->by_id, key, sizeof(key), number);
	m->series = xgrow(m->series, m->n_series, &m->cap_series, sizeof(*m->series));
	to = &m->series[m->n_series++];
	*to = (struct topmodel_series){.host = s->host,
				       .id = s->id,
				       .process = s->process,
				       .rank = s->rank,
				       .kind = s->kind,
				       .part = UINT32_MAX,
				       .is_machine = strcmp(s->role, "host") == 0 ||
						     strcmp(s->role, "command") == 0};
	topmodel_host(m, s->host, s->host_name);
	topmodel_place(m, to, number, s);
	to->chart = topmodel_chart_of(m, to, s);
	topmodel_chart_add(m, number);
	topmodel_main(m, number);
	return number;
}

/* ---- traces ---------------------------------------------------------------------------- */

struct toptrace *topmodel_trace(struct topmodel *m, uint32_t series)
{
	struct topmodel_series *s = &m->series[series];

	s->wanted = m->frame;
	if (s->trace)
		return s->trace;
	if (m->n_traces >= TOPMODEL_TRACES_MAX)
		return NULL;
	m->n_traces++;
	s->trace = xcalloc(1, sizeof(*s->trace));
	toptrace_init(s->trace, s->kind == SINK_COUNTER);
	s->trace->is_stale = true;
	return s->trace;
}

void topmodel_sweep(struct topmodel *m)
{
	bool full = m->n_traces >= TOPMODEL_TRACES_MAX;
	size_t i;

	for (i = 0; i < m->n_series && m->n_traces; i++) {
		struct topmodel_series *s = &m->series[i];

		if (!s->trace || s->wanted + (full ? 0 : TOPMODEL_FORGET) >= m->frame)
			continue;
		toptrace_done(s->trace);
		free(s->trace);
		s->trace = NULL;
		m->n_traces--;
	}
}
