/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.h - a few threads that run numbered pieces of work. The caller's thread
 * works too, so one thread means that none is started.
 */
#ifndef CHARLM_POOL_H
#define CHARLM_POOL_H

#include <pthread.h>
#include <stddef.h>

#define POOL_THREADS_MAX 4

typedef void pool_work(void *arg, size_t piece);

struct pool {
	pthread_t thread[POOL_THREADS_MAX];
	size_t threads; /* with the caller's */
	pthread_mutex_t lock;
	pthread_cond_t wake, idle;
	/* Under lock: the work in hand. */
	pool_work *work;
	void *arg;
	size_t next, pieces, running;
	int stop;
};

/* Start threads - 1 threads, at most POOL_THREADS_MAX - 1. Fewer are used if
 * the system gives no more. The pool must not move in memory. */
void pool_init(struct pool *p, size_t threads);

/* Call work(arg, i) once for each i below pieces and return when all are done. */
void pool_run(struct pool *p, pool_work *work, void *arg, size_t pieces);

/* Stop the threads and wait for them. */
void pool_done(struct pool *p);

#endif /* CHARLM_POOL_H */
