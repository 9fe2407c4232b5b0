/* SPDX-License-Identifier: Apache-2.0
 *
 * prometheus.c - a file for node_exporter's textfile collector: the last value
 * of each series. docs/export.md has the mapping.
 */
#include "export/exporter.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/now.h"
#include "export/prometheus_priv.h"

#define PROMETHEUS_MACHINE_NS 60000000000LL /* age at which machine figures go */
#define PROMETHEUS_TEXT_MAX 65536u
#define PROMETHEUS_SPAN_NAME "lapse_span_seconds"
#define PROMETHEUS_SPAN_HELP "time spent in spans; \"step\" is a training step"

struct prometheus {
	struct exporter *x; /* NULL: none counts */
	struct prometheus_entry *entries;
	size_t n, cap;
	struct map by_key;  /* name{labels} */
	struct map by_name; /* kind of a metric */
	char *labels;       /* run and project, of every line; owned */
	int64_t last_ns;    /* of what the program recorded */
	/* Points in no entry: their metric is of another type already, or retention
	 * dropped them before they were exported. */
	uint64_t left_out;
	/* The series whose points come now. */
	uint64_t series;
	uint32_t entry; /* UINT32_MAX: left out */
};

struct prometheus *prometheus_new(struct exporter *x)
{
	struct prometheus *p = xcalloc(1, sizeof(*p));

	p->x = x;
	map_init(&p->by_key);
	map_init(&p->by_name);
	return p;
}

static void prometheus_entry_done(struct prometheus_entry *e)
{
	free(e->name);
	free(e->labels);
	free(e->help);
	free(e->below);
}

void prometheus_free(struct prometheus *p)
{
	size_t i;

	for (i = 0; i < p->n; i++)
		prometheus_entry_done(&p->entries[i]);
	free(p->entries);
	free(p->labels);
	map_done(&p->by_key);
	map_done(&p->by_name);
	free(p);
}

static void prometheus_put_label(struct buf *b, const char *name, const char *value)
{
	if (!value[0])
		return;
	buf_printf(b, "%s%s=\"", b->len ? "," : "", name);
	prometheus_label(b, value);
	buf_putc(b, '"');
}

void prometheus_start(struct prometheus *p, const struct store_run *run)
{
	struct buf b;

	buf_init(&b, PROMETHEUS_TEXT_MAX);
	prometheus_put_label(&b, "run", run->id);
	prometheus_put_label(&b, "project", run->project);
	free(p->labels);
	p->labels = xstrdup(buf_str(&b));
	buf_done(&b);
}

/* ---- entries ---------------------------------------------------------------------- */

/* The entry of a metric and its labels, made if missing; UINT32_MAX: the metric
 * is of another type already, or there are too many. */
static uint32_t prometheus_entry(struct prometheus *p, const char *name, const char *labels,
				 enum prometheus_kind kind)
{
	char *key = xasprintf("%s{%s", name, labels);
	uint64_t found = UINT32_MAX, type = kind;
	struct prometheus_entry *e;

	if (!map_get(&p->by_name, name, strlen(name), &type))
		map_put(&p->by_name, name, strlen(name), kind);
	if (type == (uint64_t)kind && !map_get(&p->by_key, key, strlen(key), &found) &&
	    p->n < PROMETHEUS_ENTRIES_MAX) {
		p->entries = xgrow(p->entries, p->n, &p->cap, sizeof(*p->entries));
		e = &p->entries[p->n];
		*e = (struct prometheus_entry){
			.name = xstrdup(name), .labels = xstrdup(labels), .kind = kind, .scale = 1};
		found = p->n++;
		map_put(&p->by_key, key, strlen(key), found);
	}
	free(key);
	return (uint32_t)found;
}

static void prometheus_series_labels(const struct prometheus *p, const struct store_series *s,
				     struct buf *b)
{
	char number[32];

	buf_puts(b, p->labels);
	prometheus_put_label(b, "host", s->host_name);
	prometheus_put_label(b, "role", s->role);
	snprintf(number, sizeof(number), "%" PRId64, s->rank);
	if (s->rank >= 0)
		prometheus_put_label(b, "rank", number);
	/* Several that have no rank are told apart by their number in the run. */
	snprintf(number, sizeof(number), "%u", s->process);
	if (s->rank < 0 && strcmp(s->source, "probe") != 0)
		prometheus_put_label(b, "process", number);
	if (s->kind == SINK_SPAN)
		prometheus_put_label(b, "span", s->name);
}

/* A label's name as Prometheus takes it, and none of ours. */
static void prometheus_label_name(struct buf *b, const char *name, size_t len)
{
	static const char *const ours[] = {"run",  "project", "host", "role",
					   "rank", "process", "span", "le"};
	size_t i;

	for (i = 0; i < ARRAY_LEN(ours); i++)
		if (strlen(ours[i]) == len && memcmp(ours[i], name, len) == 0)
			break;
	if (i < ARRAY_LEN(ours) || len == 0 || isdigit((unsigned char)name[0]))
		buf_puts(b, "label_");
	for (i = 0; i < len; i++)
		buf_putc(b, isalnum((unsigned char)name[i]) ? name[i] : '_');
}

/* The series' own labels, k="v",k="v", are escaped as Prometheus does already. */
static void prometheus_own_labels(const char *p, struct buf *b)
{
	const char *equals, *end;

	while ((equals = strstr(p, "=\"")) != NULL) {
		for (end = equals + 2; *end && *end != '"'; end++)
			if (*end == '\\' && end[1])
				end++;
		if (*end == '\0')
			return;
		buf_putc(b, ',');
		prometheus_label_name(b, p, (size_t)(equals - p));
		buf_append(b, equals, (size_t)(end + 1 - equals));
		p = end + 1 + (end[1] == ',');
	}
}

static char *prometheus_help(const struct store_series *s, double scale)
{
	bool unit = s->unit[0] && strcmp(s->unit, "1") != 0;

	return xasprintf("%s%s%s%s%s", s->help[0] ? s->help : s->name, unit ? " [" : "",
			 unit ? s->unit : "", unit ? "]" : "",
			 scale != 1 ? ", in the base unit" : "");
}

static uint32_t prometheus_series(struct prometheus *p, const struct store_series *s)
{
	static const enum prometheus_kind kinds[] = {[SINK_GAUGE] = PROMETHEUS_GAUGE,
						     [SINK_COUNTER] = PROMETHEUS_COUNTER,
						     [SINK_HISTOGRAM] = PROMETHEUS_HIST,
						     [SINK_SPAN] = PROMETHEUS_SPAN};
	bool span = s->kind == SINK_SPAN;
	double scale = 1e-9;
	char *name = span ? xstrdup(PROMETHEUS_SPAN_NAME) : prometheus_name(s, &scale);
	struct prometheus_entry *e;
	struct buf labels;
	uint32_t index;

	buf_init(&labels, PROMETHEUS_TEXT_MAX);
	prometheus_series_labels(p, s, &labels);
	prometheus_own_labels(s->labels, &labels);
	index = prometheus_entry(p, name, buf_str(&labels),
				 (size_t)s->kind < ARRAY_LEN(kinds) && kinds[s->kind]
					 ? kinds[s->kind]
					 : PROMETHEUS_GAUGE);
	buf_done(&labels);
	free(name);
	if (index == UINT32_MAX)
		return index;
	e = &p->entries[index];
	e->scale = scale;
	e->machine = strcmp(s->source, "probe") == 0;
	if (!e->help)
		e->help = span ? xstrdup(PROMETHEUS_SPAN_HELP) : prometheus_help(s, scale);
	return index;
}

static int prometheus_on_point(void *f, const struct store_series *s, const struct store_point *q)
{
	struct prometheus *p = f;
	uint64_t host = map_hash(s->host_name, strlen(s->host_name));
	uint64_t series = (host << 32 ^ s->id) << 1 | 1;
	struct prometheus_entry *e;

	if (p->x)
		exporter_count(p->x);
	if (series != p->series) {
		p->series = series;
		p->entry = prometheus_series(p, s);
	}
	if (p->entry == UINT32_MAX) {
		p->left_out++;
		return 0;
	}
	e = &p->entries[p->entry];
	if (!e->machine && q->time_ns > p->last_ns)
		p->last_ns = q->time_ns;
	if (e->kind == PROMETHEUS_SPAN)
		prometheus_observe(e, q->value * e->scale);
	else if (e->kind == PROMETHEUS_HIST && q->hist)
		prometheus_observe_hist(e, q->hist);
	else if (e->kind == PROMETHEUS_COUNTER)
		e->value += q->value * e->scale;
	else if (q->time_ns >= e->time_ns)
		e->value = q->value * e->scale;
	if (q->time_ns > e->time_ns)
		e->time_ns = q->time_ns;
	return 0;
}

static int prometheus_on_lost(void *f, const struct store_series *s, uint64_t n)
{
	struct prometheus *p = f;

	(void)s;
	p->left_out += n;
	return 0;
}

/* Points of a gauge before its newest chunk: its value is not theirs. */
static int prometheus_on_older(void *f, const struct store_series *s, uint64_t n)
{
	struct prometheus *p = f;

	p->left_out += prometheus_series(p, s) == UINT32_MAX ? n : 0;
	return 0;
}

const struct store_newer prometheus_newer = {
	.point = prometheus_on_point, .lost = prometheus_on_lost, .older = prometheus_on_older};

/* ---- lists ---------------------------------------------------------------------------- */

void prometheus_list_done(struct prometheus_list *l)
{
	size_t i;

	for (i = 0; i < l->n_made; i++) {
		prometheus_entry_done(l->made[i]);
		free(l->made[i]);
	}
	free(l->made);
	free(l->entries);
	*l = (struct prometheus_list){0};
}

static int prometheus_compare(const void *a, const void *b)
{
	const struct prometheus_entry *x = *(const struct prometheus_entry *const *)a;
	const struct prometheus_entry *y = *(const struct prometheus_entry *const *)b;
	int order = strcmp(x->name, y->name);

	return order ? order : strcmp(x->labels, y->labels);
}

void prometheus_list_sort(struct prometheus_list *l)
{
	if (l->n)
		qsort(l->entries, l->n, sizeof(*l->entries), prometheus_compare);
}

static void prometheus_list_add(struct prometheus_list *l, const struct prometheus_entry *e)
{
	l->entries = xgrow(l->entries, l->n, &l->cap, sizeof(*l->entries));
	l->entries[l->n++] = e;
}

/* One that is made for the list. */
static void prometheus_list_make(struct prometheus_list *l, enum prometheus_kind kind,
				 const char *name, const char *labels, const char *help, double v)
{
	struct prometheus_entry *e = xcalloc(1, sizeof(*e));

	*e = (struct prometheus_entry){.name = xstrdup(name),
				       .labels = xstrdup(labels),
				       .help = xstrdup(help),
				       .kind = kind,
				       .value = v};
	l->made = xgrow(l->made, l->n_made, &l->cap_made, sizeof(struct prometheus_entry *));
	l->made[l->n_made++] = e;
	prometheus_list_add(l, e);
}

void prometheus_list_series(struct prometheus_list *l, const struct prometheus *p, bool ended)
{
	int64_t oldest = now_read(CLOCK_REALTIME) - PROMETHEUS_MACHINE_NS;
	size_t i;

	for (i = 0; i < p->n; i++) {
		const struct prometheus_entry *e = &p->entries[i];

		/* Of a gauge only older points may have been told of. */
		if (e->kind == PROMETHEUS_GAUGE && e->time_ns == 0)
			continue;
		if (!e->machine || (!ended && e->time_ns >= oldest))
			prometheus_list_add(l, e);
	}
}

static void prometheus_list_gauge(struct prometheus_list *l, const struct prometheus *p,
				  const char *name, const char *help, double v)
{
	prometheus_list_make(l, PROMETHEUS_GAUGE, name, p->labels, help, v);
}

void prometheus_list_join(struct prometheus_list *l, const struct prometheus_list *from)
{
	size_t i;

	for (i = 0; i < from->n; i++)
		prometheus_list_add(l, from->entries[i]);
}

void prometheus_list_behind(struct prometheus_list *l, const struct prometheus *p, bool is)
{
	prometheus_list_gauge(l, p, "lapse_scrape_behind",
			      "1: not all of the run has been read yet, so values are old ones",
			      is);
}

static void prometheus_list_outcome(struct prometheus_list *l, const struct prometheus *p,
				    const struct store_run *run)
{
	struct buf b;

	buf_init(&b, PROMETHEUS_TEXT_MAX);
	buf_puts(&b, p->labels);
	prometheus_put_label(&b, "name", run->name);
	prometheus_put_label(&b, "user", run->user);
	prometheus_put_label(&b, "outcome", run_outcome_name(run->outcome));
	prometheus_list_make(l, PROMETHEUS_INFO, "lapse_run_info", buf_str(&b),
			     "the run; outcome \"running\" while it does", 1);
	buf_done(&b);
	prometheus_list_gauge(l, p, "lapse_run_start_timestamp_seconds", "when the run began",
			      (double)run->start_ns / 1e9);
	if (run->end_ns)
		prometheus_list_gauge(l, p, "lapse_run_end_timestamp_seconds", "when the run ended",
				      (double)run->end_ns / 1e9);
	if (run->end_ns && run->outcome == RUN_EXITED)
		prometheus_list_gauge(l, p, "lapse_run_exit_code", "exit status of the command",
				      run->code);
	if (p->last_ns)
		prometheus_list_gauge(l, p, "lapse_last_record_timestamp_seconds",
				      "time of the newest value that the program recorded",
				      (double)p->last_ns / 1e9);
	if (p->left_out)
		prometheus_list_gauge(l, p, "lapse_export_left_out_points",
				      "points that are in no metric here", (double)p->left_out);
}

struct prometheus_records {
	const struct prometheus *p;
	struct prometheus_list *to;
};

static int prometheus_list_records(void *arg, const struct store_process *q)
{
	struct prometheus_records *r = arg;
	const struct {
		const char *result;
		uint64_t n;
	} rows[] = {{"stored", q->stored},
		    {"dropped", q->dropped},
		    {"overwritten", q->overwritten},
		    {"broken", q->broken}};
	struct store_series s = {.host_name = q->host_name,
				 .process = q->id,
				 .rank = q->rank,
				 .role = q->role,
				 .source = "record"};
	struct buf b;
	size_t i, len;

	if (strcmp(q->role, "host") == 0 || strcmp(q->role, "command") == 0)
		return 0;
	buf_init(&b, PROMETHEUS_TEXT_MAX);
	prometheus_series_labels(r->p, &s, &b);
	/* Of a rank that was started again each process counts for itself. */
	if (q->rank >= 0)
		buf_printf(&b, ",process=\"%u\"", q->id);
	len = b.len;
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		b.len = len;
		buf_printf(&b, ",result=\"%s\"", rows[i].result);
		prometheus_list_make(r->to, PROMETHEUS_COUNTER, "lapse_records_total", buf_str(&b),
				     "records that the program made, by what became of them",
				     (double)rows[i].n);
	}
	buf_done(&b);
	return 0;
}

int prometheus_list_run(struct prometheus_list *l, const struct prometheus *p,
			struct store_reader *r, const struct store_run *run, struct err *e)
{
	struct prometheus_records records = {.p = p, .to = l};

	prometheus_list_outcome(l, p, run);
	return store_reader_processes(r, prometheus_list_records, &records, e);
}

/* ---- the file ------------------------------------------------------------------------- */

static void *prometheus_create(struct exporter *x)
{
	return prometheus_new(x);
}

static void prometheus_destroy(void *f)
{
	prometheus_free(f);
}

static void prometheus_begin(void *f, const struct store_run *run)
{
	prometheus_start(f, run);
}

static void prometheus_put_list(const struct prometheus_list *l, struct buf *out)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		prometheus_lines(out, l->entries[i],
				 i == 0 || strcmp(l->entries[i]->name, l->entries[i - 1]->name));
}

static int prometheus_flush(void *f, struct store_reader *r, const struct store_run *run,
			    bool ended, struct err *e)
{
	struct prometheus *p = f;
	struct buf *out = exporter_out(p->x, exporter_file(p->x, ""));
	struct prometheus_list series = {0}, about = {0};
	int err;

	prometheus_list_series(&series, p, ended || run->end_ns != 0);
	prometheus_list_sort(&series);
	prometheus_put_list(&series, out);
	prometheus_list_done(&series);
	err = prometheus_list_run(&about, p, r, run, e);
	prometheus_put_list(&about, out);
	prometheus_list_done(&about);
	p->series = 0;
	return err;
}

/* ---- state -------------------------------------------------------------------------- */

static void prometheus_put(struct buf *b, const char *s)
{
	buf_uvarint(b, strlen(s));
	buf_puts(b, s);
}

static char *prometheus_get(struct cur *c)
{
	uint64_t len = cur_uvarint(c);
	const char *p = len <= PROMETHEUS_TEXT_MAX ? cur_bytes(c, (size_t)len) : NULL;

	if (!p || memchr(p, '\0', (size_t)len))
		c->error = -EBADMSG;
	return p && !c->error ? xstrndup(p, (size_t)len) : xstrdup("");
}

static void prometheus_save(const void *f, struct buf *b)
{
	const struct prometheus *p = f;
	size_t i, k;

	buf_svarint(b, p->last_ns);
	buf_uvarint(b, p->left_out);
	buf_uvarint(b, p->n);
	for (i = 0; i < p->n; i++) {
		const struct prometheus_entry *e = &p->entries[i];
		const double numbers[] = {e->scale, e->value};

		prometheus_put(b, e->name);
		prometheus_put(b, e->labels);
		prometheus_put(b, e->help);
		buf_uvarint(b, e->kind);
		buf_putc(b, (char)(e->machine | e->negative << 1 | (e->below != NULL) << 2));
		buf_svarint(b, e->time_ns);
		buf_append(b, numbers, sizeof(numbers));
		buf_uvarint(b, e->count);
		for (k = 0; e->below && k <= PROMETHEUS_LE_MAX; k++)
			buf_uvarint(b, e->below[k]);
	}
}

static int prometheus_load_rest(struct prometheus_entry *e, struct cur *c)
{
	const unsigned char *flags = cur_bytes(c, 1);
	const void *bytes;
	double numbers[2];
	size_t k;

	e->time_ns = cur_svarint(c);
	bytes = cur_bytes(c, sizeof(numbers));
	e->count = cur_uvarint(c);
	if (!flags || !bytes || c->error)
		return -EUCLEAN;
	memcpy(numbers, bytes, sizeof(numbers));
	e->scale = numbers[0];
	e->value = numbers[1];
	e->machine = *flags & 1;
	e->negative = *flags >> 1 & 1;
	if (*flags >> 2 & 1) {
		e->below = xcalloc(PROMETHEUS_LE_MAX + 1, sizeof(*e->below));
		for (k = 0; k <= PROMETHEUS_LE_MAX; k++)
			e->below[k] = cur_uvarint(c);
	}
	return c->error ? -EUCLEAN : 0;
}

static int prometheus_load_one(struct prometheus *p, struct cur *c)
{
	char *name = prometheus_get(c), *labels = prometheus_get(c), *help = prometheus_get(c);
	uint64_t kind = cur_uvarint(c);
	uint32_t index = UINT32_MAX;

	if (!c->error && kind >= PROMETHEUS_GAUGE && kind <= PROMETHEUS_HIST)
		index = prometheus_entry(p, name, labels, (enum prometheus_kind)kind);
	free(name);
	free(labels);
	/* Each once. */
	if (index == UINT32_MAX || index + 1 != p->n || p->entries[index].help) {
		free(help);
		return -EUCLEAN;
	}
	p->entries[index].help = help;
	return prometheus_load_rest(&p->entries[index], c);
}

static int prometheus_load(void *f, struct cur *c)
{
	struct prometheus *p = f;
	uint64_t n, i;

	p->last_ns = cur_svarint(c);
	p->left_out = cur_uvarint(c);
	n = cur_uvarint(c);
	if (n > PROMETHEUS_ENTRIES_MAX)
		return -EUCLEAN;
	for (i = 0; i < n; i++)
		if (c->error || prometheus_load_one(p, c) < 0)
			return -EUCLEAN;
	return c->error ? -EUCLEAN : 0;
}

const struct exporter_ops prometheus_ops = {
	.name = "prometheus",
	.begin = prometheus_begin,
	.newer = {.point = prometheus_on_point, .lost = prometheus_on_lost},
	.create = prometheus_create,
	.destroy = prometheus_destroy,
	.save = prometheus_save,
	.load = prometheus_load,
	.flush = prometheus_flush,
};
