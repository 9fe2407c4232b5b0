/* SPDX-License-Identifier: Apache-2.0 */
#include "server/answercache.h"

#include "base/mem.h"
#include "base/now.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ANSWERCACHE_LOOK_NS 50000000LL

struct answercache_one {
	struct answercache_one *next; /* the one used last is first */
	char *key;
	char *data;
	size_t len;
	bool is_being_made;
};

struct answercache {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct answercache_one *first;
	size_t most, bytes, n; /* n: answers */
	unsigned at_once, making, most_waiting, waiting;
};

struct answercache *answercache_new(size_t most, unsigned at_once, unsigned waiting)
{
	struct answercache *c = xcalloc(1, sizeof(*c));
	pthread_condattr_t attr;

	c->most = most;
	c->at_once = at_once;
	c->most_waiting = waiting;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->changed, &attr);
	pthread_condattr_destroy(&attr);
	return c;
}

static void answercache_free_one(struct answercache_one *one)
{
	free(one->key);
	free(one->data);
	free(one);
}

void answercache_free(struct answercache *c)
{
	struct answercache_one *one, *next;

	for (one = c->first; one; one = next) {
		next = one->next;
		answercache_free_one(one);
	}
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* Where it hangs. */
static struct answercache_one **answercache_find(struct answercache *c, const char *key)
{
	struct answercache_one **at;

	for (at = &c->first; *at; at = &(*at)->next)
		if (strcmp((*at)->key, key) == 0)
			return at;
	return NULL;
}

static void answercache_to_front(struct answercache *c, struct answercache_one **at)
{
	struct answercache_one *one = *at;

	*at = one->next;
	one->next = c->first;
	c->first = one;
}

/* Drop those not used for longest until the rest fits. */
static void answercache_trim(struct answercache *c)
{
	struct answercache_one **at, **last, *gone;

	while (c->bytes > c->most || c->n > ANSWERCACHE_MAX) {
		last = NULL;
		for (at = &c->first; *at; at = &(*at)->next)
			if (!(*at)->is_being_made)
				last = at;
		if (!last)
			return;
		gone = *last;
		*last = gone->next;
		c->bytes -= gone->len;
		c->n--;
		answercache_free_one(gone);
	}
}

/* With the lock held: what there is now. BUSY: nothing, and it is not the time to make it. */
static enum answercache_found answercache_now(struct answercache *c, const char *key,
					      struct buf *out)
{
	struct answercache_one **at = answercache_find(c, key), *one;

	if (at && !(*at)->is_being_made) {
		buf_append(out, (*at)->data, (*at)->len);
		answercache_to_front(c, at);
		return ANSWERCACHE_HIT;
	}
	if (at || c->making >= c->at_once)
		return ANSWERCACHE_BUSY;
	one = xcalloc(1, sizeof(*one));
	one->key = xstrdup(key);
	one->is_being_made = true;
	one->next = c->first;
	c->first = one;
	c->making++;
	return ANSWERCACHE_MAKE;
}

/* With the lock held, until something has changed, for a moment at most. */
static void answercache_sleep(struct answercache *c, int64_t until)
{
	int64_t ns = now_read(CLOCK_MONOTONIC) + ANSWERCACHE_LOOK_NS;
	struct timespec t;

	if (ns > until)
		ns = until;
	t = (struct timespec){ns / 1000000000, ns % 1000000000};
	pthread_cond_timedwait(&c->changed, &c->lock, &t);
}

enum answercache_found answercache_get(struct answercache *c, const char *key,
				       const struct answercache_wait *wait, struct buf *out)
{
	int64_t until = now_read(CLOCK_MONOTONIC) + wait->ns;
	enum answercache_found found = ANSWERCACHE_BUSY;
	bool waits = false;

	pthread_mutex_lock(&c->lock);
	while (!wait->is_off || !wait->is_off(wait->arg)) {
		found = answercache_now(c, key, out);
		if (found != ANSWERCACHE_BUSY || now_read(CLOCK_MONOTONIC) >= until)
			break;
		if (!waits && c->waiting >= c->most_waiting)
			break;
		c->waiting += !waits;
		waits = true;
		answercache_sleep(c, until);
	}
	c->waiting -= waits;
	pthread_mutex_unlock(&c->lock);
	return found;
}

void answercache_put(struct answercache *c, const char *key, const struct buf *made)
{
	struct answercache_one **at, *one;

	pthread_mutex_lock(&c->lock);
	at = answercache_find(c, key);
	one = *at;
	c->making--;
	one->is_being_made = false;
	if (!made || made->error || made->len > c->most / 2) {
		*at = one->next;
		answercache_free_one(one);
	} else {
		one->len = made->len;
		one->data = xcalloc(1, made->len + 1);
		if (made->len)
			memcpy(one->data, made->data, made->len);
		c->bytes += one->len;
		c->n++;
		answercache_trim(c);
	}
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

size_t answercache_bytes(struct answercache *c)
{
	size_t n;

	pthread_mutex_lock(&c->lock);
	n = c->bytes;
	pthread_mutex_unlock(&c->lock);
	return n;
}
