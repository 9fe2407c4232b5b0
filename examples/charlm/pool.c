/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.c - workers that sleep until there is work. Every piece is taken under
 * one lock: pieces here last a millisecond, so that costs nothing.
 */
#include "pool.h"

/* Take and run pieces until none is left. The lock is held before and after. */
static void pool_help(struct pool *p)
{
	while (p->next < p->pieces) {
		size_t piece = p->next++;

		p->running++;
		pthread_mutex_unlock(&p->lock);
		p->work(p->arg, piece);
		pthread_mutex_lock(&p->lock);
		if (--p->running == 0 && p->next == p->pieces)
			pthread_cond_signal(&p->idle);
	}
}

static void *pool_thread(void *arg)
{
	struct pool *p = arg;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		pool_help(p);
		if (!p->stop)
			pthread_cond_wait(&p->wake, &p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

void pool_init(struct pool *p, size_t threads)
{
	*p = (struct pool){.threads = 1};
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	pthread_cond_init(&p->idle, NULL);
	while (p->threads < threads && p->threads < POOL_THREADS_MAX) {
		if (pthread_create(&p->thread[p->threads], NULL, pool_thread, p))
			break;
		p->threads++;
	}
}

void pool_run(struct pool *p, pool_work *work, void *arg, size_t pieces)
{
	pthread_mutex_lock(&p->lock);
	p->work = work;
	p->arg = arg;
	p->next = 0;
	p->pieces = pieces;
	pthread_cond_broadcast(&p->wake);
	pool_help(p);
	while (p->running)
		pthread_cond_wait(&p->idle, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

void pool_done(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->stop = 1;
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
	for (size_t i = 1; i < p->threads; i++)
		pthread_join(p->thread[i], NULL);
	pthread_cond_destroy(&p->idle);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
}
