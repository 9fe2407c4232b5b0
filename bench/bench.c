/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int bench_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

double bench_median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), bench_compare);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

void bench_die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s%s%s\n", program_invocation_short_name, what, why ? ": " : "",
		why ? why : "");
	exit(1);
}

void bench_print(const char *name, double value, const char *unit, const char *peer,
		 double peer_value, enum bench_goal kind, double goal)
{
	static const char *const signs[] = {"", "<= ", ">= ", "ratio <= ", "ratio >= "};
	double ratio = peer ? value / peer_value : 0;
	double seen = kind == BENCH_RATIO_MAX || kind == BENCH_RATIO_MIN ? ratio : value;
	bool max = kind == BENCH_VALUE_MAX || kind == BENCH_RATIO_MAX;

	printf("{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"", name, value, unit);
	if (peer)
		printf(",\"peer\":\"%s\",\"peer_value\":%.6g,\"ratio\":%.4g", peer, peer_value,
		       ratio);
	else
		printf(",\"peer\":null,\"peer_value\":null,\"ratio\":null");
	if (kind == BENCH_NONE)
		printf(",\"goal\":null,\"met\":null}\n");
	else
		printf(",\"goal\":\"%s%g\",\"met\":%s}\n", signs[kind], goal,
		       (max ? seen <= goal : seen >= goal) ? "true" : "false");
	fflush(stdout);
}
