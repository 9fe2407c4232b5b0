/* SPDX-License-Identifier: Apache-2.0
 *
 * What the built-in alerts cost: ns a sample that goes through a watch into a sink that
 * does nothing, less the same without it. The same samples in turn: of a simulated run
 * (steps, spans, gauges, machine readings), and of plain gauges of a trainer, each of which
 * is looked at for NaN.
 */
#include "alert/watch.h"
#include "bench.h"
#include "simulate/simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_MAX (4u << 20)
#define COMMIT 4096
#define PROCESSES_MAX 64

static struct sink_sample *samples;
static size_t n_samples;
static struct sink_series series[20000];
static struct sink_process processes[PROCESSES_MAX];
static uint32_t n_series, n_processes;

/* ---- a sink that keeps what it is given, once, and one that does not --------------------- */

static int put_process(struct sink *s, const struct sink_process *p, uint32_t *ret_id)
{
	(void)s;
	*ret_id = ++n_processes;
	if (n_processes < PROCESSES_MAX)
		processes[n_processes] = *p;
	return 0;
}

static int put_series(struct sink *s, const struct sink_series *d, uint32_t *ret_id)
{
	(void)s;
	*ret_id = ++n_series;
	series[n_series] = *d;
	series[n_series].name = strdup(d->name);
	series[n_series].labels = strdup(d->labels);
	return 0;
}

static int put_samples(struct sink *s, const struct sink_sample *v, size_t n)
{
	(void)s;
	if (n > SAMPLES_MAX - n_samples)
		n = SAMPLES_MAX - n_samples;
	memcpy(samples + n_samples, v, n * sizeof(*v));
	n_samples += n;
	return 0;
}

static int same_process(struct sink *s, const struct sink_process *p, uint32_t *ret_id)
{
	(void)s;
	*ret_id = (uint32_t)(p - processes);
	return 0;
}

static int same_series(struct sink *s, const struct sink_series *d, uint32_t *ret_id)
{
	(void)s;
	*ret_id = (uint32_t)(d - series);
	return 0;
}

static int no_samples(struct sink *s, const struct sink_sample *v, size_t n)
{
	(void)s;
	__asm__ volatile("" : : "r"(v), "r"(n) : "memory");
	return 0;
}

static int no_hist(struct sink *s, const struct sink_hist *h)
{
	(void)s;
	(void)h;
	return 0;
}

static int no_event(struct sink *s, const struct sink_event *e)
{
	(void)s;
	(void)e;
	return 0;
}

static int no_attr(struct sink *s, uint32_t process, const char *key, const char *value)
{
	(void)s;
	(void)process;
	(void)key;
	(void)value;
	return 0;
}

static int no_position(struct sink *s, const struct sink_position *p)
{
	(void)s;
	(void)p;
	return 0;
}

static int no_commit(struct sink *s)
{
	(void)s;
	return 0;
}

static const struct sink_ops keep_ops = {.process = put_process,
					 .series = put_series,
					 .samples = put_samples,
					 .hist = no_hist,
					 .event = no_event,
					 .attr = no_attr,
					 .position = no_position,
					 .commit = no_commit};
static const struct sink_ops null_ops = {.process = same_process,
					 .series = same_series,
					 .samples = no_samples,
					 .hist = no_hist,
					 .event = no_event,
					 .attr = no_attr,
					 .position = no_position,
					 .commit = no_commit};

/* ---- samples --------------------------------------------------------------------------------- */

static void make(uint32_t plain, int64_t steps)
{
	const struct simulate_options o = {.seed = 1,
					   .start_ns = 1767323045000000000,
					   .steps = steps,
					   .period_ns = 100000000,
					   .tick_ns = 1000000000,
					   .ranks = 4,
					   .hosts = 1,
					   .gpus = 4,
					   .cpus = 16,
					   .series = plain};
	struct sink keep = {&keep_ops};
	struct simulate_feed *f;
	struct simulate *m;
	struct err e = {0};

	n_samples = n_series = n_processes = 0;
	if (simulate_new(&o, &e, &m) != 0 || simulate_feed_new(m, 0, &keep, &f) != 0) {
		fprintf(stderr, "bench alert: %s\n", e.text);
		exit(1);
	}
	while (n_samples < SAMPLES_MAX && simulate_feed_push(f, INT64_MAX - 1, 100000) > 0)
		;
	simulate_feed_free(f);
	simulate_free(m);
}

/* ns of CPU a sample. */
static double pass(struct sink *to)
{
	double begin = bench_cpu();
	size_t i, n;

	for (i = 0; i < n_samples; i += n) {
		n = n_samples - i < COMMIT ? n_samples - i : COMMIT;
		to->ops->samples(to, samples + i, n);
		to->ops->commit(to);
	}
	return (bench_cpu() - begin) * 1e9 / (double)n_samples;
}

static void measure(const char *name)
{
	double with[BENCH_ROUNDS], without[BENCH_ROUNDS], a, b;
	struct sink null = {&null_ops};
	struct watch *w;
	uint32_t id, k;
	int i;

	for (i = 0; i < BENCH_ROUNDS; i++) {
		w = watch_new(&null, "bench", NULL);
		for (k = 1; k <= n_processes && k < PROCESSES_MAX; k++)
			watch_sink(w)->ops->process(watch_sink(w), &processes[k], &id);
		for (k = 1; k <= n_series; k++)
			watch_sink(w)->ops->series(watch_sink(w), &series[k], &id);
		without[i] = pass(&null);
		with[i] = pass(watch_sink(w));
		watch_free(w);
	}
	a = bench_median(with, BENCH_ROUNDS);
	b = bench_median(without, BENCH_ROUNDS);
	bench_print(name, a - b, "ns/sample", NULL, 0, BENCH_VALUE_MAX, 30);
}

int main(void)
{
	samples = calloc(SAMPLES_MAX, sizeof(*samples));
	if (!samples)
		return 1;
	make(0, 60000);
	measure("alert-simulated");
	make(10000, 1000);
	measure("alert-plain-gauges");
	free(samples);
	return 0;
}
