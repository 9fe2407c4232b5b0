/* SPDX-License-Identifier: Apache-2.0
 *
 * What reading GPUs costs. Without arguments: a round of 64 GPUs that the tests' library
 * plays, so the cost is ours alone; and of the machine's own, if there is a driver.
 * With arguments (bench/gpu/measure.sh uses them on a machine with NVIDIA GPUs):
 *
 *   calls        each call of the driver: median and 99th percentile of 200
 *   fields       each numbered field: type, value, time
 *   rounds       a round of the fast group and one of the slow one, per card
 *   values       all figures after three rounds
 *   compare      our figures between two of nvidia-smi ($NVIDIA_SMI)
 *   loop N       read as an agent does for N seconds
 *   smi OPTIONS  as nvidia-smi: --query-gpu=..., --format=..., --help-query-gpu
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/gpuquery.h"
#include "gpu/reader.h"

/* ---- rounds ------------------------------------------------------------------------- */

static void rounds(const char *what, int n, double gap_s)
{
	double wall[2][READER_TIMES], cpu[2];
	struct reader r;
	char name[96];
	int i, slow;

	if (!reader_open(&r))
		return;
	for (i = 0; i < 20; i++)
		reader_round(&r, false);
	for (slow = 0; slow < 2; slow++) {
		cpu[slow] = bench_cpu();
		for (i = 0; i < n; i++) {
			wall[slow][i] = reader_round(&r, slow);
			if (gap_s > 0)
				reader_pause(gap_s);
		}
		cpu[slow] = (bench_cpu() - cpu[slow]) / n;
		qsort(wall[slow], (size_t)n, sizeof(double), reader_compare);
		snprintf(name, sizeof(name), "%s round of %u %s GPUs, per GPU",
			 slow ? "slow" : "fast", r.gpus, what);
		bench_print(name, wall[slow][n / 2] * 1e6 / r.gpus, "us", NULL, 0, BENCH_NONE, 0);
		snprintf(name, sizeof(name), "%s round of %u %s GPUs, 99th percentile",
			 slow ? "slow" : "fast", r.gpus, what);
		bench_print(name, wall[slow][n * 99 / 100] * 1e6, "us", NULL, 0, BENCH_NONE, 0);
		snprintf(name, sizeof(name), "%s round of %u %s GPUs, CPU", slow ? "slow" : "fast",
			 r.gpus, what);
		bench_print(name, cpu[slow] * 1e6, "us", NULL, 0, BENCH_NONE, 0);
	}
	reader_close(&r);
}

/* ---- values ---------------------------------------------------------------------------- */

static void values(void)
{
	struct probe_view v;
	struct reader r;
	uint32_t i;
	int k;

	if (!reader_open(&r))
		return;
	for (k = 0; k < 3; k++) {
		reader_round(&r, false);
		reader_round(&r, true);
		if (k < 2)
			reader_pause(1);
	}
	for (i = 0; i < probe_points(r.s); i++) {
		probe_point_at(r.s, i, &v);
		if (v.known)
			printf("%s{%s} %.6g %s\n", v.metric->name, v.labels, v.value,
			       v.metric->unit);
		else
			printf("%s{%s} - %s\n", v.metric->name, v.labels, v.why ? v.why : "");
	}
	reader_close(&r);
}

/* ---- the rest -----------------------------------------------------------------------------------
 */

static void loop(double seconds)
{
	double end = bench_now() + seconds, cpu = bench_cpu(), worst = 0, took;
	struct reader r;
	int k = 0;

	if (!reader_open(&r))
		return;
	cpu = bench_cpu();
	for (; bench_now() < end; k++) {
		took = reader_round(&r, false);
		if (k % 10 == 0)
			took += reader_round(&r, true);
		worst = took > worst ? took : worst;
		reader_pause(took < 1 ? 1 - took : 0);
	}
	bench_print("GPU thread, CPU share of a core", (bench_cpu() - cpu) / seconds * 100, "%",
		    NULL, 0, BENCH_NONE, 0);
	bench_print("GPU thread, longest round", worst * 1e3, "ms", NULL, 0, BENCH_NONE, 0);
	reader_close(&r);
}

static int smi(int argc, char **argv)
{
	const struct gpuquery_field *f;
	const char *list = "index", *format = "csv";
	static struct gpuquery q;
	struct nvml_device *d;
	struct err e = {0};
	char version[96] = "";
	unsigned count = 0, i;
	struct nvml *n;
	int k;

	for (k = 0; k < argc; k++) {
		if (strncmp(argv[k], "--query-gpu=", 12) == 0)
			list = argv[k] + 12;
		if (strncmp(argv[k], "--format=", 9) == 0)
			format = argv[k] + 9;
		for (f = gpuquery_fields; strcmp(argv[k], "--help-query-gpu") == 0; f++) {
			if (!f->name)
				return 0;
			printf("%s\n", f->name);
		}
	}
	if (gpuquery_parse(&q, list, &e) || gpuquery_format(&q, format, &e) || nvml_open(&n, &e)) {
		fprintf(stderr, "bench gpu: %s\n", e.text);
		return 1;
	}
	n->api.count(&count);
	if (n->api.driver_version)
		n->api.driver_version(version, sizeof(version));
	if (q.header)
		gpuquery_header(&q, atoi(version), stdout);
	for (i = 0; i < count; i++)
		if (n->api.by_index(i, &d) == NVML_OK)
			gpuquery_line(&q, n, d, i, count, stdout);
	nvml_close(n);
	return 0;
}

/* The figures of `make bench`. */
static void figures(void)
{
	const char *said = getenv("LAPSE_NVML");

	if (said) {
		rounds("played", READER_TIMES, 0);
		return;
	}
#ifdef FAKE_NVML
	setenv("LAPSE_NVML", FAKE_NVML, 1);
	setenv("LAPSE_FAKE_NVML", "gpus=64", 1);
	rounds("played", READER_TIMES, 0);
	unsetenv("LAPSE_NVML");
#endif
	rounds("real", 50, 0.02);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {{"calls", gpu_calls},
		     {"fields", gpu_fields},
		     {"values", values},
		     {"compare", gpu_compare}};
	size_t i;
	int k;

	if (argc < 2)
		figures();
	if (argc > 1 && strcmp(argv[1], "smi") == 0)
		return smi(argc - 2, argv + 2);
	for (k = 1; k < argc; k++) {
		for (i = 0; i < ARRAY_LEN(modes); i++)
			if (strcmp(argv[k], modes[i].name) == 0)
				modes[i].run();
		if (strcmp(argv[k], "rounds") == 0)
			rounds(getenv("LAPSE_NVML") ? "played" : "real", READER_TIMES, 0.02);
		if (strcmp(argv[k], "loop") == 0 && k + 1 < argc)
			loop(atof(argv[++k]));
	}
	return 0;
}
