/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "probe/groups.h"
#include "wire/clock.h"

static struct reader *to_count;

static void count_fact(void *arg, const char *key, const char *value)
{
	(void)arg;
	(void)value;
	to_count->gpus += strlen(key) > 5 && strcmp(key + strlen(key) - 5, "/uuid") == 0;
}

static void reader_take(struct reader *r)
{
	struct probe_taker t = {NULL, NULL, count_fact, NULL};

	to_count = r;
	probe_set_take(r->s, &t);
}

bool reader_open(struct reader *r)
{
	struct probe_env env = {.root = ""};
	struct err e = {0};

	memset(r, 0, sizeof(*r));
	r->s = probe_set_new();
	if (!r->s || probe_nvidia.open(&env, r->s, &r->fast, &e) ||
	    probe_nvidia_slow.open(&env, r->s, &r->slow, &e)) {
		fprintf(stderr, "bench gpu: %s\n", e.text);
		return false;
	}
	return true;
}

void reader_close(struct reader *r)
{
	if (r->fast)
		probe_nvidia.close(r->fast);
	if (r->slow)
		probe_nvidia_slow.close(r->slow);
	probe_set_free(r->s);
}

static void reader_now(struct probe_now *now)
{
	now->mono_ns = clock_ns(CLOCK_MONOTONIC);
	now->boot_ns = clock_ns(CLOCK_BOOTTIME);
}

double reader_round(struct reader *r, bool slow)
{
	struct probe_now now;
	double begin;

	reader_now(&now);
	probe_set_begin(r->s, &now);
	begin = bench_now();
	if (slow)
		probe_nvidia_slow.read(r->slow, r->s, &now);
	else
		probe_nvidia.read(r->fast, r->s, &now);
	begin = bench_now() - begin;
	probe_set_end(r->s);
	reader_take(r);
	return begin;
}

void reader_pause(double s)
{
	struct timespec t = {(time_t)s, (long)((s - floor(s)) * 1e9)};

	nanosleep(&t, NULL);
}

int reader_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}
