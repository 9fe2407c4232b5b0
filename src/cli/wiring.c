/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/wiring.h"

#include "alert/watch.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/alerting.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define WIRING_MOVE_BYTES (16u << 20) /* a larger file is moved behind the agent's back */

static struct store_limits wiring_limits;
static struct store_options wiring_options; /* without run and host */

void wiring_limit(const struct store_limits *l)
{
	wiring_limits = *l;
}

/* ---- where live files are ------------------------------------------------------------ */

void wiring_place(const struct config *c)
{
	static const char *const names[] = {[STORE_LIVE_AUTO] = "auto",
					    [STORE_LIVE_LOCAL] = "local",
					    [STORE_LIVE_IN_PLACE] = "in-place"};
	const char *live = config_text(c, "store.live"), *dir = config_text(c, "store.local_dir");
	size_t i;

	for (i = 0; i < ARRAY_LEN(names) && strcmp(live, names[i]) != 0; i++)
		;
	if (i == ARRAY_LEN(names))
		log_warn("store.live: \"%s\" is none of auto, local, in-place; auto holds", live);
	else
		wiring_options.live = (enum store_live)i;
	wiring_options.local_dir = dir ? xstrdup(dir) : NULL;
	wiring_options.copy_every_ns = config_number(c, "store.copy_every", 0);
}

const char *wiring_local_dir(void)
{
	return wiring_options.local_dir;
}

/* A thread, since it may wait for a server; asked again while it works it begins
 * again. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t idle;
	bool running, again;
} wiring_sweeper = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false};

static int wiring_swept(void *arg, const char *dir, const char *file, const char *kept,
			const char *why)
{
	(void)arg;
	if (kept)
		log_warn("%s", why);
	else
		log_info("%s/%s: finished, and moved there", dir, file);
	return 0;
}

static void *wiring_sweep_main(void *arg)
{
	const struct store_leftovers to = {.found = wiring_swept};
	bool more = true;

	(void)arg;
	while (more) {
		store_finish_leftovers(wiring_options.local_dir, &to);
		pthread_mutex_lock(&wiring_sweeper.lock);
		more = wiring_sweeper.again;
		wiring_sweeper.again = false;
		wiring_sweeper.running = more;
		pthread_cond_signal(&wiring_sweeper.idle);
		pthread_mutex_unlock(&wiring_sweeper.lock);
	}
	return NULL;
}

static void wiring_sweep(void)
{
	sigset_t all, old;
	pthread_t thread;

	pthread_mutex_lock(&wiring_sweeper.lock);
	wiring_sweeper.again = wiring_sweeper.running;
	if (!wiring_sweeper.running) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		wiring_sweeper.running =
			pthread_create(&thread, NULL, wiring_sweep_main, NULL) == 0;
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		if (wiring_sweeper.running)
			pthread_detach(thread);
	}
	pthread_mutex_unlock(&wiring_sweeper.lock);
}

void wiring_wait(void)
{
	pthread_mutex_lock(&wiring_sweeper.lock);
	while (wiring_sweeper.running)
		pthread_cond_wait(&wiring_sweeper.idle, &wiring_sweeper.lock);
	pthread_mutex_unlock(&wiring_sweeper.lock);
}

/* ---- the store ------------------------------------------------------------------------- */

/* A run's store, and who looks at what goes into it. */
struct wiring {
	struct store *store;
	struct watch *watch;
	bool is_trimmed; /* wiring_trim() was there */
};

static int wiring_open(const struct run_start *r, void **ret_handle, struct sink **ret_sink,
		       struct err *e)
{
	struct store_options o = wiring_options;
	struct alerting alerting;
	struct wiring *h;
	struct utsname uts;
	struct store *s;
	int err;

	o.dir = r->dir;
	o.host = r->host;
	if (!r->host[0])
		o.host = uname(&uts) == 0 ? uts.nodename : "host";
	err = store_open(&o, e, &s);
	if (err)
		return err;
	h = xcalloc(1, sizeof(*h));
	h->store = s;
	h->watch = watch_new(store_sink(s), o.host, alerting_of_run(&alerting, r));
	*ret_handle = h;
	*ret_sink = watch_sink(h->watch);
	return 0;
}

static int wiring_start(void *handle, const struct run_start *r, struct err *e)
{
	struct wiring *h = handle;

	return store_start(h->store, r, e);
}

static int wiring_tend(void *handle, struct err *e)
{
	struct wiring *h = handle;
	int r;

	if (!store_is_alive(h->store))
		return err_set(e, -ESTALE, "its database was deleted or replaced");
	r = store_fold(h->store, false, e);
	return r ? r : store_retain(h->store, &wiring_limits, e);
}

static void wiring_aside(void *handle, bool is_aside)
{
	struct wiring *h = handle;

	watch_aside(h->watch, is_aside);
}

static int wiring_end(void *handle, const struct run_outcome *o, struct err *e)
{
	struct wiring *h = handle;

	watch_end(h->watch, o);
	return store_end(h->store, o, e);
}

/* At the end all becomes chunks, which the limits may not allow. */
static void wiring_trim(struct wiring *h)
{
	if (h->is_trimmed || !(wiring_limits.keep_raw_ns || wiring_limits.max_bytes))
		return;
	h->is_trimmed = true;
	store_fold(h->store, true, NULL);
	while (store_retain(h->store, &wiring_limits, NULL) > 0)
		;
}

static int wiring_settle(void *handle)
{
	struct wiring *h = handle;

	wiring_trim(h);
	return store_settle(h->store, NULL);
}

static int wiring_close(void *handle, struct err *e)
{
	struct wiring *h = handle;
	struct store *s = h->store;
	struct store_stats stats;
	int r;

	watch_free(h->watch);
	wiring_trim(h);
	free(h);
	store_stats(s, &stats);
	if (stats.file_bytes <= WIRING_MOVE_BYTES)
		return store_close(s, e);
	r = store_leave(s, e);
	wiring_sweep();
	return r;
}

static const char *wiring_why(void *handle)
{
	struct wiring *h = handle;

	return store_error(h->store)->text;
}

const struct agent_store wiring_store = {
	.open = wiring_open,
	.start = wiring_start,
	.tend = wiring_tend,
	.aside = wiring_aside,
	.end = wiring_end,
	.settle = wiring_settle,
	.close = wiring_close,
	.why = wiring_why,
	.sweep = wiring_sweep,
};
