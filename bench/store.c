/* SPDX-License-Identifier: Apache-2.0
 *
 * What the store costs: bytes a sample of the mixed set, fed as commits of one
 * second and in bulk, live and closed; samples a second from the sink to the closed
 * file, all of the process's CPU time in it.
 */
#include "bench.h"
#include "filled.h"
#include "simulate/mixed.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEED 1
#define START 1767323045000000000
#define FLAT_SERIES 4
#define FLAT_SAMPLES (8u << 20)
#define FLAT_COMMIT (1u << 20)

static char disk[] = "/var/tmp/bench-store-XXXXXX";
static int64_t times[MIXED_POINTS];
static double *values; /* by series */

/* Bytes that the process gave to write(). */
static double written(void)
{
	unsigned long long n = 0;
	char line[128];
	FILE *f = fopen("/proc/self/io", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "wchar: %llu", &n) == 1)
			break;
	if (f)
		fclose(f);
	return (double)n;
}

/* Feed n samples and commit; the CPU time of that. */
static double feed(struct store *s, const struct sink_sample *v, size_t n)
{
	struct sink *k = store_sink(s);
	double t = bench_cpu();
	struct err e = {0};
	size_t i;
	int r;

	for (i = 0; i < n; i += MIXED_SERIES)
		if (k->ops->samples(k, v + i, n - i < MIXED_SERIES ? n - i : MIXED_SERIES) < 0)
			bench_die("samples", store_error(s)->text);
	if (k->ops->commit(k) < 0)
		bench_die("commit", store_error(s)->text);
	while ((r = store_fold(s, false, &e)) > 0)
		;
	if (r < 0)
		bench_die("fold", e.text);
	return bench_cpu() - t;
}

static double finish(struct store *s)
{
	double t = bench_cpu();
	struct err e = {0};

	if (store_close(s, &e) < 0)
		bench_die("close", e.text);
	return bench_cpu() - t;
}

/* `each` seconds of the mixed set a commit; n seconds in all. */
static void bench_mixed(const char *name, size_t each, size_t n, double goal)
{
	struct sink_sample *v = malloc(each * MIXED_SERIES * sizeof(*v));
	double t = 0, w = written(), samples = (double)n * MIXED_SERIES;
	uint32_t ids[MIXED_SERIES];
	struct store *s = filled_open(disk, name, MIXED_SERIES, ids);
	size_t i, j, k, m;
	char text[64];

	if (!v)
		bench_die("memory", "none");
	for (i = 0; i < n; i += m) {
		m = n - i < each ? n - i : each;
		for (k = 0; k < m; k++)
			for (j = 0; j < MIXED_SERIES; j++)
				v[k * MIXED_SERIES + j] = (struct sink_sample){
					.time_ns = times[i + k],
					.step = SINK_STEP_NONE,
					.series = ids[j],
					.value = values[j * MIXED_POINTS + i + k]};
		t += feed(s, v, m * MIXED_SERIES);
	}
	free(v);
	snprintf(text, sizeof(text), "store/%s-live", name);
	bench_print(text, filled_bytes(disk, name) / samples, "B/sample", NULL, 0, BENCH_NONE, 0);
	t += finish(s);
	snprintf(text, sizeof(text), "store/%s-kept", name);
	bench_print(text, filled_bytes(disk, name) / samples, "B/sample", NULL, 0, BENCH_VALUE_MAX,
		    1.75);
	snprintf(text, sizeof(text), "store/%s-written", name);
	bench_print(text, (written() - w) / samples, "B/sample", NULL, 0, BENCH_NONE, 0);
	snprintf(text, sizeof(text), "store/%s-all", name);
	bench_print(text, samples / t, "samples/s", NULL, 0, goal ? BENCH_VALUE_MIN : BENCH_NONE,
		    goal);
}

/* Few series flat out, each with times of its own, a million samples a commit. */
static void bench_flat(const char *name, unsigned series)
{
	struct sink_sample *v = malloc(FLAT_COMMIT * sizeof(*v));
	struct store *s;
	uint32_t ids[FLAT_SERIES], seed = 1;
	int64_t time = START;
	char text[64];
	double t = 0;
	size_t i;

	if (!v)
		bench_die("memory", "none");
	s = filled_open(disk, name, series, ids);
	for (i = 0; i < FLAT_SAMPLES; i++) {
		seed = seed * 1664525u + 1013904223u;
		time += 900 + (seed >> 24);
		v[i % FLAT_COMMIT] = (struct sink_sample){.time_ns = time,
							  .step = (int64_t)(i / 1000),
							  .series = ids[i % series],
							  .value = 2.0 + (double)(i % 977) * 0.001};
		if ((i + 1) % FLAT_COMMIT == 0)
			t += feed(s, v, FLAT_COMMIT);
	}
	free(v);
	t += finish(s);
	snprintf(text, sizeof(text), "store/%s-all", name);
	bench_print(text, FLAT_SAMPLES / t, "samples/s", NULL, 0, BENCH_VALUE_MIN, 10e6);
	snprintf(text, sizeof(text), "store/%s-kept", name);
	bench_print(text, filled_bytes(disk, name) / FLAT_SAMPLES, "B/sample", NULL, 0, BENCH_NONE,
		    0);
}

int main(void)
{
	char command[256];
	size_t j;

	if (!mkdtemp(disk))
		bench_die("folder", "cannot be made");
	values = malloc(sizeof(double) * MIXED_SERIES * MIXED_POINTS);
	if (!values)
		bench_die("memory", "none");
	mixed_times(SEED, START, times, MIXED_POINTS);
	for (j = 0; j < MIXED_SERIES; j++)
		mixed_values(SEED, (unsigned)j, values + j * MIXED_POINTS, MIXED_POINTS);
	bench_mixed("second", 1, MIXED_POINTS, 0);
	bench_mixed("bulk", 600, MIXED_POINTS, 10e6);
	bench_mixed("short", 1, 60, 0);
	bench_flat("single", 1);
	bench_flat("flat", FLAT_SERIES);
	free(values);
	snprintf(command, sizeof(command), "rm -rf '%s'", getenv("BENCH_KEEP") ? "" : disk);
	return system(command) != 0;
}
