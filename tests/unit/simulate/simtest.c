/* SPDX-License-Identifier: Apache-2.0 */
#include "simtest.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"

struct simulate_options simtest_options(void)
{
	return (struct simulate_options){.seed = 7,
					 .start_ns = SIMTEST_START,
					 .steps = 1000,
					 .period_ns = 100 * SIMTEST_MS,
					 .tick_ns = 1000 * SIMTEST_MS,
					 .ranks = 2,
					 .hosts = 1,
					 .gpus = 2,
					 .cpus = 4};
}

struct simulate *simtest_new(struct simulate_options o, const char *const *faults)
{
	struct simulate *m = NULL;
	struct err e = {0};

	for (; faults && *faults; faults++)
		if (fault_parse(*faults, &o.faults[o.n_faults++], &e) != 0)
			fail_msg("%s", e.text);
	if (simulate_new(&o, &e, &m) != 0)
		fail_msg("%s", e.text);
	return m;
}

struct simulate_series simtest_series(const struct simulate *m, const char *name, uint32_t rank,
				      uint32_t unit)
{
	struct simulate_size size;
	struct simulate_series s;
	size_t i;

	simulate_size(m, &size);
	for (i = 0; i < size.series; i++) {
		simulate_series(m, i, &s);
		if (strcmp(s.name, name) == 0 && (rank == SIMTEST_ANY || s.rank == rank) &&
		    (unit == SIMTEST_ANY || s.unit == unit))
			return s;
	}
	fail_msg("no series %s", name);
	return s;
}

double simtest_value(const struct simulate *m, const char *name, uint32_t rank, uint64_t k)
{
	struct simulate_series s = simtest_series(m, name, rank, SIMTEST_ANY);

	assert_true(k < simulate_points(m, &s));
	return simulate_value(m, &s, k);
}

double simtest_gpu(const struct simulate *m, const char *name, uint32_t gpu, uint64_t k)
{
	struct simulate_series s = simtest_series(m, name, SIMTEST_ANY, gpu);

	assert_true(k < simulate_points(m, &s));
	return simulate_value(m, &s, k);
}

/* ---- the sink ------------------------------------------------------------------ */

static int simtest_process(struct sink *sink, const struct sink_process *p, uint32_t *ret_id)
{
	struct simtest_sink *s = (struct simtest_sink *)sink;
	uint32_t i;

	assert_true(p->start_ns >= SIMTEST_START);
	assert_true(p->end_ns == 0 || p->end_ns >= p->start_ns);
	for (i = 0; i < s->n_processes; i++)
		if (memcmp(s->processes[i].uid, p->uid, 16) == 0)
			break;
	assert_true(i < ARRAY_LEN(s->processes));
	if (i == s->n_processes)
		s->n_processes++;
	memcpy(s->processes[i].uid, p->uid, 16);
	s->processes[i].end_ns = p->end_ns;
	*ret_id = i + 1;
	return 0;
}

static int simtest_define(struct sink *sink, const struct sink_series *d, uint32_t *ret_id)
{
	struct simtest_sink *s = (struct simtest_sink *)sink;
	struct simtest_kept *k = &s->series[s->n_series];
	uint32_t i;

	assert_true(s->n_series < ARRAY_LEN(s->series));
	assert_in_range(d->process, 1, s->n_processes);
	assert_in_range(d->kind, SINK_GAUGE, SINK_SPAN);
	assert_true(d->name[0] && d->unit[0] && d->help[0]);
	for (i = 0; i < s->n_series; i++)
		assert_false(s->series[i].d.process == d->process &&
			     strcmp(s->series[i].name, d->name) == 0 &&
			     strcmp(s->series[i].labels, d->labels) == 0);
	k->d = *d;
	snprintf(k->name, sizeof(k->name), "%s", d->name);
	snprintf(k->labels, sizeof(k->labels), "%s", d->labels);
	*ret_id = ++s->n_series;
	return 0;
}

static void simtest_keep(struct simtest_kept *k, const struct sink_sample *v)
{
	k->samples = xgrow(k->samples, k->n, &k->cap, sizeof(*v));
	k->samples[k->n++] = *v;
}

static int simtest_samples(struct sink *sink, const struct sink_sample *v, size_t n)
{
	struct simtest_sink *s = (struct simtest_sink *)sink;
	size_t i;

	for (i = 0; i < n; i++) {
		struct simtest_kept *k;

		assert_in_range(v[i].series, 1, s->n_series);
		k = &s->series[v[i].series - 1];
		assert_int_not_equal(k->d.kind, SINK_HISTOGRAM);
		assert_true(v[i].time_ns >= SIMTEST_START);
		assert_true(k->n == 0 || k->samples[k->n - 1].time_ns < v[i].time_ns);
		if (k->d.kind == SINK_SPAN || k->d.kind == SINK_COUNTER)
			assert_true(v[i].value >= 0);
		simtest_keep(k, &v[i]);
	}
	return 0;
}

static int simtest_hist(struct sink *sink, const struct sink_hist *h)
{
	struct simtest_sink *s = (struct simtest_sink *)sink;
	struct sink_sample v = {h->time_ns, h->step, h->sum, h->series, 0};
	uint64_t count = 0;
	size_t i;

	assert_in_range(h->series, 1, s->n_series);
	assert_int_equal(s->series[h->series - 1].d.kind, SINK_HISTOGRAM);
	for (i = 0; i < h->n_bins; i++) {
		assert_true(i == 0 || h->bins[i].key > h->bins[i - 1].key);
		assert_true(h->bins[i].count > 0);
		count += h->bins[i].count;
	}
	assert_int_equal(count, h->count);
	assert_int_equal(h->nan, 0);
	assert_true(h->min < 0 && h->max > 0);
	assert_true(fabs(h->sum) <= (double)h->count * fmax(-h->min, h->max));
	s->n_hists++;
	simtest_keep(&s->series[h->series - 1], &v);
	return 0;
}

static int simtest_push_event(struct sink *sink, const struct sink_event *e)
{
	struct simtest_sink *s = (struct simtest_sink *)sink;

	assert_true(s->n_events < ARRAY_LEN(s->events));
	assert_in_range(e->process, 1, s->n_processes);
	assert_in_range(e->severity, 0, 3);
	s->events[s->n_events].process = e->process;
	s->events[s->n_events].time_ns = e->time_ns;
	s->events[s->n_events].step = e->step;
	s->events[s->n_events].severity = e->severity;
	snprintf(s->events[s->n_events].kind, 32, "%s", e->kind);
	snprintf(s->events[s->n_events].text, 256, "%s", e->text);
	snprintf(s->events[s->n_events].attrs, 1024, "%s", e->attrs);
	s->n_events++;
	return 0;
}

static int simtest_attr(struct sink *sink, uint32_t process, const char *key, const char *value)
{
	struct simtest_sink *s = (struct simtest_sink *)sink;

	assert_in_range(process, 1, s->n_processes);
	assert_true(key[0] && value[0]);
	s->n_attrs++;
	return 0;
}

static int simtest_position(struct sink *sink, const struct sink_position *p)
{
	struct simtest_sink *s = (struct simtest_sink *)sink;
	size_t i;

	for (i = 0; i < s->n_lanes; i++)
		if (memcmp(s->lanes[i].ring, p->ring, 16) == 0)
			break;
	if (i == s->n_lanes)
		s->n_lanes++;
	assert_in_range(p->process, 1, s->n_processes);
	assert_memory_equal(s->processes[p->process - 1].uid, p->ring, 16);
	assert_true(p->stored >= s->lanes[i].stored && p->rec == p->stored);
	s->stored += p->stored - s->lanes[i].stored;
	memcpy(s->lanes[i].ring, p->ring, 16);
	s->lanes[i].stored = p->stored;
	return 0;
}

static const struct sink_ops simtest_ops = {
	.process = simtest_process,
	.series = simtest_define,
	.samples = simtest_samples,
	.hist = simtest_hist,
	.event = simtest_push_event,
	.attr = simtest_attr,
	.position = simtest_position,
};

void simtest_sink_init(struct simtest_sink *s)
{
	memset(s, 0, sizeof(*s));
	s->sink.ops = &simtest_ops;
}

void simtest_sink_done(struct simtest_sink *s)
{
	uint32_t i;

	for (i = 0; i < s->n_series; i++)
		free(s->series[i].samples);
}

int simtest_event(const struct simtest_sink *s, const char *kind, size_t from)
{
	size_t i;

	for (i = from; i < s->n_events; i++)
		if (strcmp(s->events[i].kind, kind) == 0)
			return (int)i;
	return -1;
}
