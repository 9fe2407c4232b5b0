/* SPDX-License-Identifier: Apache-2.0
 *
 * What a chart of 2,000 points costs over series of 10^3 to 10^8 samples of a run
 * that was resumed twice: cold (the file is not in the page cache), warm, each
 * with a reader of its own, and with one that stays open; 20 series at once. And what a
 * first scrape of these costs. The series are made once and kept:
 * bench_query [FOLDER [LARGEST EXPONENT]].
 */
#include "bench.h"
#include "export/promlive.h"
#include "store/store.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define POINTS 2000u
#define MANY 20u              /* series of one run */
#define MANY_SAMPLES 5000000u /* of each */
#define ROUNDS 9
#define COMMIT (1u << 20)
#define START 1767323045000000000

static char folder[256] = "/var/tmp/lapse-bench-query";

/* Step of sample i of n: after 40 % of the samples the run goes back by a tenth, after
 * 70 % again. */
static int64_t step_at(size_t i, size_t n)
{
	size_t back = i >= n / 10 * 7 ? n / 5 : i >= n / 10 * 4 ? n / 10 : 0;

	return (int64_t)(i - back);
}

static double value_at(size_t i, uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return 2.0 + 8.0 * exp(-(double)i * 1e-6) + (double)(*seed >> 8) * 1e-9;
}

static void fill(struct store *s, unsigned n_series, size_t n)
{
	struct sink *k = store_sink(s);
	struct sink_process p = {.uid = {1}, .role = "trainer", .program = "train.py"};
	struct sink_series d = {
		.unit = "", .help = "", .labels = "", .source = "record", .kind = SINK_GAUGE};
	struct sink_sample v;
	uint32_t ids[MANY], seed = 1;
	struct err e = {0};
	char name[32];
	size_t i, j, waiting = 0;
	int64_t time = START;

	k->ops->process(k, &p, &d.process);
	for (j = 0; j < n_series; j++) {
		snprintf(name, sizeof(name), "series/%zu", j);
		d.name = name;
		if (k->ops->series(k, &d, &ids[j]) < 0)
			bench_die("series", store_error(s)->text);
	}
	for (i = 0; i < n; i++) {
		time += 1000000 + (seed >> 20);
		for (j = 0; j < n_series; j++) {
			v = (struct sink_sample){time, step_at(i, n), value_at(i, &seed), ids[j],
						 0};
			k->ops->samples(k, &v, 1);
		}
		waiting += n_series;
		if (waiting + n_series < COMMIT && i + 1 < n)
			continue;
		waiting = 0;
		if (k->ops->commit(k) < 0)
			bench_die("commit", store_error(s)->text);
		while (store_fold(s, false, &e) > 0)
			;
		if (e.code)
			bench_die("fold", e.text);
	}
}

static void make(const char *dir, unsigned n_series, size_t n)
{
	const struct store_options o = {.dir = dir, .host = "h"};
	struct err e = {0};
	struct store *s;
	char path[320];

	snprintf(path, sizeof(path), "%s/h.db", dir);
	if (access(path, R_OK) == 0)
		return;
	if (store_open(&o, &e, &s) < 0)
		bench_die("open", e.text);
	fill(s, n_series, n);
	if (store_close(s, &e) < 0)
		bench_die("close", e.text);
	sync();
}

/* The file's pages leave the cache. */
static void cool(const char *dir)
{
	char path[320];
	int fd;

	snprintf(path, sizeof(path), "%s/h.db", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
		bench_die("page cache", "cannot be dropped");
	close(fd);
}

static double ask(struct store_reader *r, const struct store_query *q, unsigned n)
{
	struct store_ref refs[MANY];
	struct store_result results[MANY];
	struct err e = {0};
	double t = bench_now();
	unsigned i;

	for (i = 0; i < n; i++)
		refs[i] = (struct store_ref){0, i + 1};
	if (store_reader_query(r, q, refs, n, &e, NULL, results) < 0)
		bench_die("query", e.text);
	t = bench_now() - t;
	store_results_free(results, n);
	return t * 1e3;
}

/* Milliseconds, with opening if no reader is given. */
static double ask_anew(const char *dir, const struct store_query *q, unsigned n)
{
	struct store_reader *r;
	struct err e = {0};
	double t = bench_now();

	if (store_reader_open(dir, &e, &r) < 0)
		bench_die("reader", e.text);
	t = (bench_now() - t) * 1e3 + ask(r, q, n);
	store_reader_close(r);
	return t;
}

static void measure(const char *dir, const char *name, const struct store_query *q, unsigned n,
		    double cold_goal, double warm_goal)
{
	double cold[ROUNDS], warm[ROUNDS], open[ROUNDS];
	struct store_reader *r;
	struct err e = {0};
	char text[128];
	int i;

	for (i = 0; i < ROUNDS; i++) {
		cool(dir);
		cold[i] = ask_anew(dir, q, n);
	}
	for (i = 0; i < ROUNDS; i++)
		warm[i] = ask_anew(dir, q, n);
	if (store_reader_open(dir, &e, &r) < 0)
		bench_die("reader", e.text);
	ask(r, q, n);
	for (i = 0; i < ROUNDS; i++)
		open[i] = ask(r, q, n);
	store_reader_close(r);
	snprintf(text, sizeof(text), "query/%s-cold", name);
	bench_print(text, bench_median(cold, ROUNDS), "ms", NULL, 0,
		    cold_goal > 0 ? BENCH_VALUE_MAX : BENCH_NONE, cold_goal);
	snprintf(text, sizeof(text), "query/%s-warm", name);
	bench_print(text, bench_median(warm, ROUNDS), "ms", NULL, 0,
		    warm_goal > 0 ? BENCH_VALUE_MAX : BENCH_NONE, warm_goal);
	snprintf(text, sizeof(text), "query/%s-open", name);
	bench_print(text, bench_median(open, ROUNDS), "ms", NULL, 0, BENCH_NONE, 0);
}

static void measure_all(const char *dir, const char *name, unsigned n, double cold, double warm)
{
	struct store_query q = {.points = POINTS};
	char text[64];

	snprintf(text, sizeof(text), "%s-time", name);
	measure(dir, text, &q, n, cold, warm);
	q.aligned = true;
	snprintf(text, sizeof(text), "%s-time-aligned", name);
	measure(dir, text, &q, n, 0, 0);
	q.aligned = false;
	q.axis = STORE_BY_STEP;
	snprintf(text, sizeof(text), "%s-step", name);
	measure(dir, text, &q, n, cold, warm);
}

/* What the first scrape of a run costs that nobody has asked for before. */
static void measure_scrape(const char *dir, const char *name)
{
	struct promlive *live;
	struct store_reader *r;
	struct store_run run;
	struct err e = {0};
	double times[ROUNDS];
	char text[64];
	int i;

	for (i = 0; i < ROUNDS; i++) {
		double t = bench_now();

		live = promlive_new();
		if (store_reader_open(dir, &e, &r) < 0 || store_reader_run(r, &run, &e) < 0 ||
		    promlive_read(live, r, &run, INT64_MAX, &e) != 0)
			bench_die("scrape", e.text);
		store_reader_close(r);
		promlive_free(live);
		times[i] = (bench_now() - t) * 1e3;
	}
	snprintf(text, sizeof(text), "query/%s-first-scrape", name);
	bench_print(text, bench_median(times, ROUNDS), "ms", NULL, 0, BENCH_NONE, 0);
}

int main(int argc, char **argv)
{
	char dir[300], name[32];
	int exponent, largest = argc > 2 ? atoi(argv[2]) : 8;
	size_t n = 1000;

	if (argc > 1)
		snprintf(folder, sizeof(folder), "%s", argv[1]);
	mkdir(folder, 0700);
	for (exponent = 3; exponent <= largest && exponent <= 9; exponent++, n *= 10) {
		snprintf(name, sizeof(name), "1e%d", exponent);
		snprintf(dir, sizeof(dir), "%s/%s", folder, name);
		make(dir, 1, n);
		measure_all(dir, name, 1, 20, 3);
	}
	snprintf(dir, sizeof(dir), "%s/many", folder);
	make(dir, MANY, largest >= 8 ? MANY_SAMPLES : n / MANY);
	measure_all(dir, "20-series", MANY, 100, 0);
	measure_scrape(dir, "20-series");
	return 0;
}
