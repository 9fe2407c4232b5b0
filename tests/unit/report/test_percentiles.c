/* SPDX-License-Identifier: Apache-2.0
 *
 * test_percentiles.c - percentiles of many values, against sorting them.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "report/percentiles.h"

#define SOME 300000u
#define MANY (PERCENTILES_KEPT + 100000u)
#define CHUNK 5000u

static const unsigned percents[] = {1, 50, 95, 99};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* By the definition: the numbers in order, the one at rank ceil(percent / 100 x n). */
static void sorted(const double *v, size_t n, double ret[ARRAY_LEN(percents)])
{
	double *copy = xcalloc(n, sizeof(*copy));
	size_t i, numbers = 0, rank;

	for (i = 0; i < n; i++)
		if (!isnan(v[i]))
			copy[numbers++] = v[i];
	qsort(copy, numbers, sizeof(*copy), compare);
	for (i = 0; i < ARRAY_LEN(percents); i++) {
		rank = (numbers * percents[i] + 99) / 100;
		ret[i] = numbers ? copy[rank ? rank - 1 : 0] : NAN;
	}
	free(copy);
}

/* One pass, of chunks whose limits are known; those that may be are passed over. */
static void pass(struct percentiles *p, const double *v, size_t n, bool skip)
{
	size_t i, k, some, numbers;
	double min, max;

	for (i = 0; i < n; i += some) {
		some = n - i < CHUNK ? n - i : CHUNK;
		min = INFINITY;
		max = -INFINITY;
		numbers = 0;
		for (k = i; k < i + some; k++) {
			min = v[k] < min ? v[k] : min;
			max = v[k] > max ? v[k] : max;
			numbers += !isnan(v[k]);
		}
		if (!skip)
			percentiles_add(p, v + i, some, -INFINITY, INFINITY);
		else if (numbers && !percentiles_skip(p, min, max, numbers))
			percentiles_add(p, v + i, some, min, max);
	}
}

/* With every `every`-th value as a sample (0: none); passes that it took. */
static unsigned check(const double *v, size_t n, uint64_t about, size_t every, bool skip)
{
	struct percentiles *p = percentiles_new(percents, ARRAY_LEN(percents), about);
	double expected[ARRAY_LEN(percents)], *sample = xcalloc(n + 1, sizeof(*sample));
	size_t i, n_sample = 0;
	unsigned passes = 0;
	int r;

	for (i = 0; every && i < n; i += every)
		sample[n_sample++] = v[i];
	percentiles_guess(p, sample, n_sample);
	do {
		pass(p, v, n, skip);
		r = percentiles_next(p);
		passes++;
	} while (r > 0);
	assert_int_equal(r, 0);
	assert_true(passes <= 6);
	sorted(v, n, expected);
	for (i = 0; i < ARRAY_LEN(percents); i++)
		if (isnan(expected[i]) ? !isnan(percentiles_get(p, i))
				       : percentiles_get(p, i) != expected[i])
			fail_msg("percentile %u is %.17g, not %.17g", percents[i],
				 percentiles_get(p, i), expected[i]);
	percentiles_free(p);
	free(sample);
	return passes;
}

static void test_few(void **state)
{
	static const double values[] = {3, NAN, -1, 2, 5, NAN, 4, -0.0, 0.0, INFINITY, -INFINITY};
	size_t n;

	(void)state;
	for (n = 0; n <= ARRAY_LEN(values); n++)
		assert_int_equal(check(values, n, n, 0, true), 1);
}

/* A value at a known place, of a fixed order that looks like none. */
static double noise(size_t i)
{
	return (double)(i * 2654435761u % 1000003) / 1000003;
}

/* Number i of a kind of data. */
static double value(unsigned kind, size_t i)
{
	switch (kind) {
	case 0: /* a loss */
		return 2 + 8 * exp(-(double)i * 1e-6) + 0.02 * noise(i);
	case 1: /* few different values */
		return floor(noise(i) * 10) - 5;
	case 2: /* of all sizes */
		return tan(3 * noise(i)) * exp(200 * noise(i * 3) - 100);
	case 3: /* one value */
		return 42;
	case 4: /* not numbers, not finite ones */
		return i % 7 == 0 ? NAN : i % 7 == 1 ? INFINITY : i % 7 == 2 ? -INFINITY : 0;
	case 5: /* next to each other */
		return 1 + (double)(i % 100003) * 0x1p-52;
	default: /* a sample of every 16th says nothing of the others */
		return i % 16 ? noise(i) : 1000 + noise(i);
	}
}

/* As if there were too many to be kept. */
static void test_many(void **state)
{
	double *values = xcalloc(SOME, sizeof(*values));
	unsigned kind, passes;
	size_t i;

	(void)state;
	for (kind = 0; kind <= 6; kind++) {
		for (i = 0; i < SOME; i++)
			values[i] = value(kind, i);
		check(values, SOME, UINT64_MAX, 0, false);
		passes = check(values, SOME, UINT64_MAX, 16, true);
		/* A good guess needs no other pass. */
		if (kind < 6 && passes != 1)
			fail_msg("kind %u took %u passes", kind, passes);
	}
	free(values);
}

/* More than were told of: they are too many to be kept. */
static void test_too_many(void **state)
{
	double *values = xcalloc(MANY, sizeof(*values));
	size_t i;

	(void)state;
	for (i = 0; i < MANY; i++)
		values[i] = noise(i);
	assert_true(check(values, MANY, 1, 0, false) > 1);
	free(values);
}

/* Values change between two passes. */
static void test_stale(void **state)
{
	double *values = xcalloc(SOME, sizeof(*values));
	struct percentiles *p = percentiles_new(percents, ARRAY_LEN(percents), UINT64_MAX);
	size_t i;

	(void)state;
	for (i = 0; i < SOME; i++)
		values[i] = noise(i);
	pass(p, values, SOME, false);
	assert_int_equal(percentiles_next(p), 1);
	pass(p, values, SOME - 1, false);
	assert_int_equal(percentiles_next(p), -ESTALE);
	percentiles_free(p);
	free(values);
}

struct part {
	struct percentiles *p;
	const double *values;
	size_t n;
};

static void *add_part(void *arg)
{
	const struct part *part = arg;

	pass(part->p, part->values, part->n, true);
	return NULL;
}

static void test_threads(void **state)
{
	const size_t n = 1000000;
	double *values = xcalloc(n, sizeof(*values)), expected[ARRAY_LEN(percents)];
	struct percentiles *p = percentiles_new(percents, ARRAY_LEN(percents), n);
	struct part parts[4];
	pthread_t threads[4];
	size_t i;

	(void)state;
	for (i = 0; i < n; i++)
		values[i] = value(0, i * 5);
	for (i = 0; i < 4; i++) {
		parts[i] = (struct part){p, values + i * (n / 4), n / 4};
		assert_int_equal(pthread_create(&threads[i], NULL, add_part, &parts[i]), 0);
	}
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(percentiles_next(p), 0);
	sorted(values, n, expected);
	for (i = 0; i < ARRAY_LEN(percents); i++)
		assert_true(percentiles_get(p, i) == expected[i]);
	percentiles_free(p);
	free(values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_few),      cmocka_unit_test(test_many),
		cmocka_unit_test(test_too_many), cmocka_unit_test(test_stale),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
