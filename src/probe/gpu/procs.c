/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/gpu/procs.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t procs_lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static struct gpu_proc *procs_table;
static size_t procs_n;
static bool procs_known;

static int procs_compare(const void *a, const void *b)
{
	long x = ((const struct gpu_proc *)a)->pid, y = ((const struct gpu_proc *)b)->pid;

	return (x > y) - (x < y);
}

/* A sum that is known as soon as one part is. */
static double procs_add(double a, double b)
{
	return isnan(a) ? b : isnan(b) ? a : a + b;
}

void gpu_procs_set(struct gpu_proc *p, size_t n)
{
	struct gpu_proc *copy;
	size_t i, len = 0;

	if (n > 0)
		qsort(p, n, sizeof(*p), procs_compare);
	for (i = 0; i < n; i++) {
		if (len > 0 && p[len - 1].pid == p[i].pid) {
			p[len - 1].bytes = procs_add(p[len - 1].bytes, p[i].bytes);
			p[len - 1].busy = procs_add(p[len - 1].busy, p[i].busy);
		} else {
			p[len++] = p[i];
		}
	}
	if (len > GPU_PROCS_MAX)
		len = GPU_PROCS_MAX;
	copy = len > 0 ? malloc(len * sizeof(*copy)) : NULL;
	if (len > 0 && !copy)
		return;
	if (len > 0)
		memcpy(copy, p, len * sizeof(*copy));
	pthread_mutex_lock(&procs_lock);
	free(procs_table);
	procs_table = copy;
	procs_n = len;
	procs_known = true;
	pthread_mutex_unlock(&procs_lock);
}

void gpu_procs_forget(void)
{
	pthread_mutex_lock(&procs_lock);
	free(procs_table);
	procs_table = NULL;
	procs_n = 0;
	procs_known = false;
	pthread_mutex_unlock(&procs_lock);
}

static int procs_find(long pid, struct gpu_proc *ret)
{
	struct gpu_proc key = {.pid = pid}, *p = NULL;
	int err = -ENODATA;

	pthread_mutex_lock(&procs_lock);
	if (procs_known) {
		if (procs_n > 0)
			p = bsearch(&key, procs_table, procs_n, sizeof(key), procs_compare);
		err = p ? 0 : -ENOENT;
		if (p)
			*ret = *p;
	}
	pthread_mutex_unlock(&procs_lock);
	return err;
}

int gpu_procs_get(long pid, double *ret_bytes)
{
	struct gpu_proc p;
	int err = procs_find(pid, &p);

	if (!err && isnan(p.bytes))
		err = -ENODATA;
	if (!err)
		*ret_bytes = p.bytes;
	return err;
}

int gpu_procs_busy(long pid, double *ret_gpus)
{
	struct gpu_proc p;
	int err = procs_find(pid, &p);

	if (!err && isnan(p.busy))
		err = -ENODATA;
	if (!err)
		*ret_gpus = p.busy;
	return err;
}
