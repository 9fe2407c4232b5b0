/* SPDX-License-Identifier: Apache-2.0
 *
 * answerage.c - see answerage.h. A table of few rows, looked through from its begin.
 */
#include "server/answerage.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdlib.h>

struct answerage {
	pthread_mutex_t lock;
	size_t n;
	struct {
		uint64_t question, version;
		int64_t at_ns;
	} rows[ANSWERAGE_MAX];
};

struct answerage *answerage_new(void)
{
	struct answerage *a = xcalloc(1, sizeof(*a));

	pthread_mutex_init(&a->lock, NULL);
	return a;
}

void answerage_free(struct answerage *a)
{
	pthread_mutex_destroy(&a->lock);
	free(a);
}

/* The row of the question, else one to be filled. */
static size_t answerage_row(struct answerage *a, uint64_t question)
{
	size_t i, oldest = 0;

	for (i = 0; i < a->n; i++) {
		if (a->rows[i].question == question)
			return i;
		if (a->rows[i].at_ns < a->rows[oldest].at_ns)
			oldest = i;
	}
	i = a->n < ANSWERAGE_MAX ? a->n++ : oldest;
	a->rows[i].question = question;
	a->rows[i].at_ns = INT64_MIN;
	return i;
}

uint64_t answerage_version(struct answerage *a, uint64_t question, uint64_t version, int64_t now_ns,
			   int64_t keep_ns)
{
	size_t i;

	pthread_mutex_lock(&a->lock);
	i = answerage_row(a, question);
	if (a->rows[i].at_ns == INT64_MIN || now_ns - a->rows[i].at_ns >= keep_ns) {
		a->rows[i].version = version;
		a->rows[i].at_ns = now_ns;
	}
	version = a->rows[i].version;
	pthread_mutex_unlock(&a->lock);
	return version;
}
