/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint.c - a thread that moves the WAL into the database, so that no
 * commit ever waits for the disk. It has a connection of its own.
 */
#include "store/store_priv.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* Passive: never in a writer's way. Under a load without a pause the WAL would
 * then never begin anew; past CHECKPOINT_RESTART_BYTES writers wait for the few
 * pages that the passive pass left. An error here is met again, and told, by the
 * next commit or fold. */
static int checkpoint_once(struct checkpoint *c)
{
	int all = 0, done = 0;

	if (sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &all, &done))
		return 0;
	if ((int64_t)all * c->page_size > CHECKPOINT_RESTART_BYTES)
		sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_RESTART, &all, &done);
	return done > 0 ? done : 0;
}

static void *checkpoint_main(void *arg)
{
	struct checkpoint *c = arg;
	struct timespec until;

	pthread_mutex_lock(&c->lock);
	while (!c->stop) {
		int rc, done;

		if (!c->asked) {
			clock_gettime(CLOCK_MONOTONIC, &until);
			until.tv_sec += CHECKPOINT_SECONDS;
			rc = pthread_cond_timedwait(&c->wake, &c->lock, &until);
			if (c->stop || (rc != ETIMEDOUT && !c->asked))
				continue;
		}
		c->asked = false;
		pthread_mutex_unlock(&c->lock);
		done = checkpoint_once(c);
		pthread_mutex_lock(&c->lock);
		c->done = done;
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* Called by SQLite behind each commit with the pages now in the WAL. */
static int checkpoint_hook(void *arg, sqlite3 *db, const char *name, int pages)
{
	struct checkpoint *c = arg;

	(void)db;
	(void)name;
	pthread_mutex_lock(&c->lock);
	if (pages < c->pages)
		c->done = 0; /* the WAL began anew */
	c->pages = pages;
	if ((int64_t)(pages - c->done) * c->page_size > CHECKPOINT_BYTES && !c->asked) {
		c->asked = true;
		pthread_cond_signal(&c->wake);
	}
	pthread_mutex_unlock(&c->lock);
	return SQLITE_OK;
}

static int checkpoint_connect(struct store *s, struct err *e)
{
	struct checkpoint *c = &s->checkpoint;
	int64_t page_size = 4096;
	int rc, r;

	rc = sqlite3_open_v2(s->path, &c->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	r = rc == SQLITE_OK ? 0 : db_fail(c->db, rc, "cannot open again", e);
	if (r == 0)
		r = db_exec(c->db,
			    "PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0;"
			    "PRAGMA cache_size=-64; PRAGMA mmap_size=0",
			    e);
	if (r == 0)
		r = db_int(c->db, "PRAGMA page_size", e, &page_size);
	if (r == 0)
		sqlite3_busy_timeout(c->db, CHECKPOINT_BUSY_MS);
	c->page_size = (int)page_size;
	return r;
}

static int checkpoint_thread(struct checkpoint *c)
{
	pthread_condattr_t attr;
	sigset_t all, old;
	int r;

	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->wake, &attr);
	pthread_condattr_destroy(&attr);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&c->thread, NULL, checkpoint_main, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r) {
		pthread_cond_destroy(&c->wake);
		pthread_mutex_destroy(&c->lock);
	}
	return -r;
}

int checkpoint_start(struct store *s, struct err *e)
{
	struct checkpoint *c = &s->checkpoint;
	char keep[64];
	int r = checkpoint_connect(s, e);

	sqlite3_snprintf(sizeof(keep), keep, "PRAGMA journal_size_limit=%d", CHECKPOINT_KEEP_BYTES);
	if (r == 0)
		r = db_exec(s->db, keep, e);
	if (r == 0) {
		r = checkpoint_thread(c);
		if (r < 0)
			err_errno(e, r, "%s: cannot start the checkpoint thread", s->path);
	}
	if (r < 0) {
		sqlite3_close(c->db);
		c->db = NULL;
		return r;
	}
	c->running = true;
	sqlite3_wal_hook(s->db, checkpoint_hook, c);
	return 0;
}

void checkpoint_stop(struct store *s)
{
	struct checkpoint *c = &s->checkpoint;

	if (!c->running)
		return;
	sqlite3_wal_hook(s->db, NULL, NULL);
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_signal(&c->wake);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	pthread_cond_destroy(&c->wake);
	pthread_mutex_destroy(&c->lock);
	sqlite3_close(c->db);
	c->db = NULL;
	c->running = false;
}
