/* SPDX-License-Identifier: Apache-2.0
 *
 * export_json.c - JSON Lines: every line an object with "type", so that a
 * reader can take the types that it knows.
 */
#include "report/export.h"

#include "report/attrs.h"
#include "report/histquant.h"

static void jsonl_open(struct json *j, struct buf *out, const char *type)
{
	json_init(j, out);
	json_object(j);
	json_kstr(j, "type", type);
}

static void jsonl_close(struct json *j)
{
	json_object_end(j);
	buf_putc(j->out, '\n');
}

static void jsonl_rank(struct json *j, const char *key, int64_t rank)
{
	json_key(j, key);
	if (rank >= 0)
		json_int(j, rank);
	else
		json_null(j);
}

static void jsonl_process(struct buf *out, const struct store_process *p)
{
	struct json j;

	jsonl_open(&j, out, "process");
	json_kstr(&j, "host", p->host_name);
	json_kuint(&j, "process", p->id);
	json_kstr(&j, "role", p->role);
	json_kstr(&j, "program", p->program);
	json_kint(&j, "pid", p->pid);
	jsonl_rank(&j, "rank", p->rank);
	jsonl_rank(&j, "local_rank", p->local_rank);
	jsonl_rank(&j, "world_size", p->world_size);
	runview_json_time(&j, "start", p->start_ns);
	runview_json_time(&j, "end", p->end_ns);
	json_kuint(&j, "stored", p->stored);
	json_kuint(&j, "dropped", p->dropped);
	json_kuint(&j, "overwritten", p->overwritten);
	json_kuint(&j, "broken", p->broken);
	jsonl_close(&j);
}

static void jsonl_begin(struct buf *out, const struct runview *v, unsigned what)
{
	struct json j;
	size_t i;

	(void)what;
	jsonl_open(&j, out, "run");
	runview_json_run(&j, v);
	jsonl_close(&j);
	for (i = 0; i < v->n_processes; i++)
		jsonl_process(out, &v->processes[i]);
}

static void jsonl_series(struct buf *out, const struct store_series *s, size_t index)
{
	struct json j;

	jsonl_open(&j, out, "series");
	json_kuint(&j, "series", index);
	json_kstr(&j, "host", s->host_name);
	json_kuint(&j, "process", s->process);
	jsonl_rank(&j, "rank", s->rank);
	json_kstr(&j, "name", s->name);
	json_kstr(&j, "labels", s->labels);
	json_kstr(&j, "unit", runview_unit(s));
	json_kstr(&j, "kind", runview_kind(s->kind));
	json_kstr(&j, "help", s->help);
	json_kstr(&j, "source", s->source);
	jsonl_close(&j);
}

static void jsonl_hist(struct json *j, const struct sink_hist *h)
{
	size_t i;

	json_kuint(j, "count", h->count);
	json_kuint(j, "nan", h->nan);
	json_kdouble(j, "sum", h->sum);
	runview_json_number(j, "min", h->min, h->count > 0);
	runview_json_number(j, "max", h->max, h->count > 0);
	json_key(j, "bins");
	json_array(j);
	for (i = 0; i < h->n_bins; i++) {
		json_array(j);
		json_double(j, histquant_edge(h->bins[i].key));
		json_uint(j, h->bins[i].count);
		json_array_end(j);
	}
	json_array_end(j);
}

static void jsonl_point(struct buf *out, const struct runview *v, const struct store_series *s,
			size_t index, const struct store_point *p)
{
	struct json j;

	(void)v;
	jsonl_open(&j, out, p->hist ? "histogram" : s->kind == SINK_SPAN ? "span" : "sample");
	json_kuint(&j, "series", index);
	json_kint(&j, "time_ns", p->time_ns);
	runview_json_step(&j, "step", p->step);
	if (p->hist) {
		jsonl_hist(&j, p->hist);
	} else {
		json_kdouble(&j, s->kind == SINK_SPAN ? "duration_ns" : "value", p->value);
		json_key(&j, "thread");
		if (p->thread)
			json_uint(&j, p->thread);
		else
			json_null(&j);
	}
	json_kuint(&j, "segment", p->segment);
	jsonl_close(&j);
}

static void jsonl_event(struct buf *out, const struct runview *v, const struct store_event *e)
{
	struct event_row row = {.host = e->host,
				.process = e->process,
				.time_ns = e->time_ns,
				.step = e->step,
				.severity = e->severity,
				.kind = (char *)e->kind,
				.text = (char *)e->text,
				.attrs = (char *)e->attrs};
	struct json j;

	jsonl_open(&j, out, "event");
	events_json_row(&j, v, &row);
	jsonl_close(&j);
}

const struct export_ops export_json = {
	.name = "json",
	.what = EXPORT_SAMPLES | EXPORT_SPANS | EXPORT_HISTOGRAMS | EXPORT_EVENTS,
	.begin = jsonl_begin,
	.series = jsonl_series,
	.point = jsonl_point,
	.event = jsonl_event,
};
