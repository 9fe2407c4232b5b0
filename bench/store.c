/* SPDX-License-Identifier: Apache-2.0
 *
 * What the store costs: bytes a sample of the mixed set, fed as commits of one
 * second and in bulk, live and closed; samples folded a second, by one core.
 */
#include "bench.h"
#include "simulate/mixed.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEED 1
#define START 1767323045000000000
#define FLAT_SERIES 4
#define FLAT_SAMPLES (8u << 20)

static char disk[] = "/var/tmp/bench-store-XXXXXX";
static int64_t times[MIXED_POINTS];
static double *values; /* by series */

static void die(const char *what, const char *why)
{
	fprintf(stderr, "bench store: %s: %s\n", what, why);
	exit(1);
}

static double cpu_now(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static double file_bytes(const char *host)
{
	char path[300];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s.db", disk, host);
	return stat(path, &st) == 0 ? (double)st.st_size : 0;
}

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

static struct store *open_store(const char *host, unsigned n, uint32_t *ids)
{
	const struct store_options o = {.dir = disk, .host = host};
	struct sink_process p = {.uid = {1}, .role = "trainer", .program = "train.py"};
	struct sink_series d = {.unit = "1", .help = "", .labels = "", .source = "record"};
	struct store *s;
	struct err e = {0};
	struct sink *k;
	char name[32];
	unsigned i;

	if (store_open(&o, &e, &s) < 0)
		die("open", e.text);
	k = store_sink(s);
	if (k->ops->process(k, &p, &d.process) < 0)
		die("process", store_error(s)->text);
	for (i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "series/%u", i);
		d.name = name;
		d.kind = SINK_GAUGE;
		if (k->ops->series(k, &d, &ids[i]) < 0)
			die("series", store_error(s)->text);
	}
	return s;
}

/* `each` seconds of the mixed set a commit; n seconds in all. */
static void bench_mixed(const char *name, size_t each, size_t n)
{
	uint32_t ids[MIXED_SERIES];
	struct store *s = open_store(name, MIXED_SERIES, ids);
	struct sink *k = store_sink(s);
	double t = cpu_now(), w = written(), samples = (double)n * MIXED_SERIES, fold = 0, f;
	struct err e = {0};
	char text[64];
	size_t i, j;
	int r = 1;

	for (i = 0; i < n; i++) {
		struct sink_sample v = {.time_ns = times[i], .step = SINK_STEP_NONE};

		for (j = 0; j < MIXED_SERIES; j++) {
			v.series = ids[j];
			v.value = values[j * MIXED_POINTS + i];
			k->ops->samples(k, &v, 1);
		}
		if ((i + 1) % each && i + 1 < n)
			continue;
		if (k->ops->commit(k) < 0)
			die("commit", store_error(s)->text);
		f = cpu_now();
		r = store_fold(s, false, &e);
		while (r > 0)
			r = store_fold(s, false, &e);
		if (r < 0)
			die("fold", e.text);
		fold += cpu_now() - f;
	}
	f = cpu_now();
	snprintf(text, sizeof(text), "store/%s-live", name);
	bench_print(text, file_bytes(name) / samples, "B/sample", NULL, 0, BENCH_NONE, 0);
	if (store_close(s, &e) < 0)
		die("close", e.text);
	fold += cpu_now() - f;
	snprintf(text, sizeof(text), "store/%s-kept", name);
	bench_print(text, file_bytes(name) / samples, "B/sample", NULL, 0, BENCH_VALUE_MAX, 1.75);
	snprintf(text, sizeof(text), "store/%s-written", name);
	bench_print(text, (written() - w) / samples, "B/sample", NULL, 0, BENCH_NONE, 0);
	snprintf(text, sizeof(text), "store/%s-fold", name);
	bench_print(text, samples / fold, "samples/s", NULL, 0, BENCH_NONE, 0);
	snprintf(text, sizeof(text), "store/%s-all", name);
	bench_print(text, samples / (cpu_now() - t), "samples/s", NULL, 0, BENCH_NONE, 0);
}

/* Four series flat out, each with times of its own, a million samples a commit. */
static void bench_flat(void)
{
	uint32_t ids[FLAT_SERIES], seed = 1;
	struct store *s = open_store("flat", FLAT_SERIES, ids);
	struct sink *k = store_sink(s);
	int64_t time = START;
	struct err e = {0};
	double fold = 0, f;
	size_t i;
	int r;

	for (i = 0; i < FLAT_SAMPLES; i++) {
		struct sink_sample v = {.step = (int64_t)(i / 1000), .series = ids[i % 4]};

		seed = seed * 1664525u + 1013904223u;
		v.time_ns = time += 900 + (seed >> 24);
		v.value = 2.0 + (double)(i % 977) * 0.001;
		k->ops->samples(k, &v, 1);
		if ((i + 1) % (1u << 20))
			continue;
		if (k->ops->commit(k) < 0)
			die("commit", store_error(s)->text);
		f = cpu_now();
		while ((r = store_fold(s, false, &e)) > 0)
			;
		if (r < 0)
			die("fold", e.text);
		fold += cpu_now() - f;
	}
	f = cpu_now();
	if (store_close(s, &e) < 0)
		die("close", e.text);
	fold += cpu_now() - f;
	bench_print("store/flat-fold", FLAT_SAMPLES / fold, "samples/s", NULL, 0, BENCH_VALUE_MIN,
		    10e6);
	bench_print("store/flat-kept", file_bytes("flat") / FLAT_SAMPLES, "B/sample", NULL, 0,
		    BENCH_NONE, 0);
}

int main(void)
{
	char command[256];
	size_t j;

	if (!mkdtemp(disk))
		die("folder", "cannot be made");
	values = malloc(sizeof(double) * MIXED_SERIES * MIXED_POINTS);
	if (!values)
		die("memory", "none");
	mixed_times(SEED, START, times, MIXED_POINTS);
	for (j = 0; j < MIXED_SERIES; j++)
		mixed_values(SEED, (unsigned)j, values + j * MIXED_POINTS, MIXED_POINTS);
	bench_mixed("second", 1, MIXED_POINTS);
	bench_mixed("bulk", 600, MIXED_POINTS);
	bench_mixed("short", 1, 60);
	bench_flat();
	free(values);
	snprintf(command, sizeof(command), "rm -rf '%s'", getenv("BENCH_KEEP") ? "" : disk);
	return system(command) != 0;
}
