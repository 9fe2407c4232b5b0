/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread, and tickets under one lock, which is never held while a file is read.
 */
#include "probe/linux/side.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/probe.h"

#define SIDE_STACK (128u << 10)

enum side_state {
	SIDE_FREE,
	SIDE_ASKED,
	SIDE_READING,
	SIDE_ANSWERED
};

struct side_ticket {
	enum side_state state;
	bool dropped;
	long pid;
	const char *file;
	uint64_t order;
	struct side_answer *answer;
};

struct side {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	bool started, stop, reading;
	bool orphan; /* nobody waits for the thread: it frees all this */
	uint64_t asked;
	struct side_ticket tickets[SIDE_TICKETS];
	char root[PROBE_ROOT_MAX];
};

struct side *side_new(const char *root)
{
	struct side *s;

	if (strlen(root) >= PROBE_ROOT_MAX)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
	snprintf(s->root, sizeof(s->root), "%s", root);
	return s;
}

static void side_destroy(struct side *s)
{
	int i;

	for (i = 0; i < SIDE_TICKETS; i++)
		free(s->tickets[i].answer);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static void side_read(const struct side *s, long pid, const char *file, struct side_answer *a)
{
	char path[PROBE_ROOT_MAX + 64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/proc/%ld/%s", s->root, pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	n = fd < 0 ? -1 : read(fd, a->text, sizeof(a->text));
	a->err = n < 0 ? -errno : 0;
	a->len = n < 0 ? 0 : (size_t)n;
	if (fd >= 0)
		close(fd);
}

/* The question asked first; NULL none. With the lock. */
static struct side_ticket *side_next(struct side *s)
{
	struct side_ticket *next = NULL;
	int i;

	for (i = 0; i < SIDE_TICKETS; i++) {
		struct side_ticket *t = &s->tickets[i];

		if (t->state == SIDE_ASKED && (!next || t->order < next->order))
			next = t;
	}
	return next;
}

static void side_forget(struct side_ticket *t)
{
	free(t->answer);
	*t = (struct side_ticket){0};
}

static void *side_thread(void *arg)
{
	struct side *s = arg;
	struct side_ticket *t;
	bool orphan;

	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		t = side_next(s);
		if (!t) {
			pthread_cond_wait(&s->wake, &s->lock);
			continue;
		}
		t->state = SIDE_READING;
		s->reading = true;
		pthread_mutex_unlock(&s->lock);
		side_read(s, t->pid, t->file, t->answer);
		pthread_mutex_lock(&s->lock);
		s->reading = false;
		t->state = SIDE_ANSWERED;
		if (t->dropped)
			side_forget(t);
	}
	orphan = s->orphan;
	pthread_mutex_unlock(&s->lock);
	if (orphan)
		side_destroy(s);
	return NULL;
}

static bool side_start(struct side *s)
{
	pthread_attr_t attr;
	int err;

	if (s->started)
		return true;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, SIDE_STACK);
	err = pthread_create(&s->thread, &attr, side_thread, s);
	pthread_attr_destroy(&attr);
	s->started = err == 0;
	return s->started;
}

int side_ask(struct side *s, long pid, const char *file)
{
	int i, ticket = -EBUSY;

	pthread_mutex_lock(&s->lock);
	for (i = 0; i < SIDE_TICKETS && ticket < 0; i++)
		if (s->tickets[i].state == SIDE_FREE)
			ticket = i;
	if (ticket >= 0) {
		struct side_answer *a = calloc(1, sizeof(*a));

		if (!a || !side_start(s)) {
			free(a);
			ticket = -EAGAIN;
		} else
			s->tickets[ticket] = (struct side_ticket){
				.state = SIDE_ASKED,
				.pid = pid,
				.file = file,
				.order = s->asked++,
				.answer = a,
			};
		pthread_cond_signal(&s->wake);
	}
	pthread_mutex_unlock(&s->lock);
	return ticket;
}

int side_take(struct side *s, int ticket, struct side_answer *out)
{
	struct side_ticket *t = &s->tickets[ticket];
	int err = -EAGAIN;

	pthread_mutex_lock(&s->lock);
	if (t->state == SIDE_ANSWERED) {
		*out = *t->answer;
		side_forget(t);
		err = 0;
	}
	pthread_mutex_unlock(&s->lock);
	return err;
}

void side_drop(struct side *s, int ticket)
{
	struct side_ticket *t = &s->tickets[ticket];

	pthread_mutex_lock(&s->lock);
	if (t->state == SIDE_READING)
		t->dropped = true;
	else
		side_forget(t);
	pthread_mutex_unlock(&s->lock);
}

void side_free(struct side *s)
{
	bool started, orphan;

	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	started = s->started;
	orphan = s->orphan = s->reading;
	if (orphan)
		pthread_detach(s->thread);
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	if (orphan)
		return; /* s may be gone already */
	if (started)
		pthread_join(s->thread, NULL);
	side_destroy(s);
}
