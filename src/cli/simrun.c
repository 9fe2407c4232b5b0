/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simrun.h"

#include <errno.h>
#include <math.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "alert/watch.h"
#include "base/file.h"
#include "base/fmt.h"
#include "base/mem.h"
#include "store/store.h"
#include "wire/clock.h"
#include "wire/runid.h"

#define SIMRUN_COMMIT 262144 /* points; a commit takes 2,097,152 at most */
#define SIMRUN_TRIES 100     /* run ids that are taken already */
#define SIMRUN_LIVE_NS 1000000000LL

struct simrun_host {
	struct store *store;
	struct watch *watch; /* sees what the agent's would */
	struct simulate_feed *feed;
};

struct simrun {
	const struct simulate *m;
	const struct simrun_options *o;
	struct simulate_size size;
	struct simrun_host *hosts;
	uint32_t n_hosts;
	struct run_start start;
	struct simrun_result r;
	int64_t begun_ns, shown_ns; /* CLOCK_MONOTONIC */
	bool progress;
};

static volatile sig_atomic_t simrun_signal;

static void simrun_catch(int signal)
{
	simrun_signal = signal;
}

/* ---- beginning --------------------------------------------------------------------- */

static int simrun_folder(struct simrun *x, int64_t start_ns, struct err *e)
{
	char root[sizeof(x->start.dir) - 256];
	uint8_t random[3];
	int err = store_root(x->o->dir, root, sizeof(root)), i;

	if (!err)
		err = file_mkdirs(root, 0700);
	for (i = 0; !err && i < SIMRUN_TRIES; i++) {
		if (getrandom(random, sizeof(random), 0) != sizeof(random))
			return err_errno(e, -errno, "random bytes for the run's id");
		runid_make(x->start.id, start_ns, random);
		snprintf(x->start.dir, sizeof(x->start.dir), "%s/%s", root, x->start.id);
		if (mkdir(x->start.dir, 0700) == 0)
			return 0;
		if (errno != EEXIST)
			err = -errno;
	}
	return err_errno(e, err ? err : -EEXIST, "cannot make a folder for the run in %s",
			 x->o->dir ? x->o->dir : "the runs' folder");
}

static void simrun_describe(struct simrun *x, int64_t start_ns)
{
	struct run_start *s = &x->start;
	const struct passwd *user = getpwuid(getuid());

	snprintf(s->name, sizeof(s->name), "%s", x->o->name);
	snprintf(s->project, sizeof(s->project), "%s", x->o->project);
	snprintf(s->command, sizeof(s->command), "%s", x->o->command);
	snprintf(s->user, sizeof(s->user), "%s", user ? user->pw_name : "");
	snprintf(s->tags, sizeof(s->tags), "simulated");
	if (!getcwd(s->cwd, sizeof(s->cwd)))
		s->cwd[0] = '\0';
	s->start_ns = start_ns;
	s->stall_after_ms = -1;
}

static int simrun_open(struct simrun *x, uint32_t host, struct err *e)
{
	struct simrun_host *h = &x->hosts[host];
	struct store_options so = {.dir = x->start.dir, .host = x->start.host};
	int err;

	snprintf(x->start.host, sizeof(x->start.host), "node%u", host);
	err = store_open(&so, e, &h->store);
	if (!err)
		err = store_start(h->store, &x->start, e);
	if (err)
		return err;
	h->watch = watch_new(store_sink(h->store), x->start.host, NULL);
	err = simulate_feed_new(x->m, host, watch_sink(h->watch), &h->feed);
	return err ? err_set(e, err, "%s", store_error(h->store)->text) : 0;
}

/* ---- going on ------------------------------------------------------------------------ */

static uint64_t simrun_points(const struct simrun *x)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < x->n_hosts; i++)
		sum += simulate_feed_points(x->hosts[i].feed);
	return sum;
}

/* Only a person looks at a terminal, and only after a second. */
static void simrun_show(struct simrun *x)
{
	char now[FMT_MAX], all[FMT_MAX], rate[FMT_MAX];
	int64_t ns = clock_ns(CLOCK_MONOTONIC), since = ns - x->begun_ns;
	double n;

	if (!x->progress || since < 1000000000 || ns - x->shown_ns < 200000000)
		return;
	x->shown_ns = ns;
	n = (double)simrun_points(x);
	fprintf(stderr, "\r%s of %s points, %s a second\033[K", fmt_count(now, n),
		fmt_count(all, (double)x->size.points), fmt_count(rate, n * 1e9 / (double)since));
}

static int simrun_commit(struct simrun_host *h, struct err *e)
{
	struct sink *sink = watch_sink(h->watch);
	int err = sink->ops->commit(sink);

	return err ? err_set(e, err, "%s", store_error(h->store)->text) : 0;
}

/* Push and commit one host's part up to a moment. */
static int simrun_host_until(struct simrun *x, struct simrun_host *h, int64_t until_ns,
			     struct err *e)
{
	int more = 1, err = 0;

	while (more > 0 && !err && !simrun_signal) {
		more = simulate_feed_push(h->feed, until_ns, SIMRUN_COMMIT);
		if (more < 0)
			return err_set(e, more, "%s", store_error(h->store)->text);
		err = simrun_commit(h, e);
		while (!err && (err = store_fold(h->store, false, e)) > 0)
			err = 0;
		simrun_show(x);
	}
	return err;
}

static int simrun_all_until(struct simrun *x, int64_t until_ns, struct err *e)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < x->n_hosts && !err && !simrun_signal; i++)
		err = simrun_host_until(x, &x->hosts[i], until_ns, e);
	return err;
}

static int simrun_live(struct simrun *x, struct err *e)
{
	int64_t next = x->begun_ns, until, now;
	struct timespec at;
	int err = 0;

	while (!err && !simrun_signal) {
		now = clock_ns(CLOCK_MONOTONIC);
		until = (int64_t)((double)(now - x->begun_ns) * x->o->speed);
		err = simrun_all_until(x, until, e);
		if (until >= x->size.end_ns)
			break;
		next += SIMRUN_LIVE_NS;
		if ((double)(next - x->begun_ns) * x->o->speed > (double)x->size.end_ns)
			next = x->begun_ns + (int64_t)ceil((double)x->size.end_ns / x->o->speed) +
			       1;
		at = (struct timespec){next / 1000000000, next % 1000000000};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	}
	x->r.behind_s = (double)(clock_ns(CLOCK_MONOTONIC) - x->begun_ns) / 1e9 -
			(double)x->size.end_ns / 1e9 / x->o->speed;
	return err;
}

/* ---- the end --------------------------------------------------------------------------- */

static void simrun_outcome(const struct simrun *x, int64_t end_ns, struct run_outcome *o)
{
	const struct simrun_options *want = x->o;

	*o = (struct run_outcome){.kind = RUN_EXITED,
				  .end_ns = x->start.start_ns + end_ns,
				  .user_s = (double)end_ns / 1e9 * x->n_hosts,
				  .system_s = (double)end_ns / 1e10 * x->n_hosts,
				  .max_rss = 24LL << 30};
	snprintf(o->id, sizeof(o->id), "%s", x->start.id);
	if (simrun_signal) {
		o->kind = RUN_SIGNALED;
		o->code = -1;
		o->signal = simrun_signal;
	} else if (want->has_outcome) {
		o->kind = want->outcome;
		o->code = want->code;
		o->signal = want->signal;
	} else if (x->size.oom) {
		o->kind = RUN_OOM;
		o->code = -1;
		o->signal = SIGKILL;
	}
	if (o->kind == RUN_OOM)
		snprintf(o->evidence, sizeof(o->evidence), "simulated: memory/limit was reached");
}

static int simrun_end(struct simrun *x, struct simrun_host *h, struct err *e)
{
	int64_t end_ns = simrun_signal ? simulate_feed_ns(h->feed) : x->size.end_ns;
	struct run_outcome *o;
	int err;

	if (!simrun_signal && x->o->has_outcome && x->o->outcome == RUN_RUNNING)
		return 0;
	err = simulate_feed_end(h->feed, end_ns);
	if (err)
		return err_set(e, err, "%s", store_error(h->store)->text);
	err = simrun_commit(h, e);
	if (err)
		return err;
	o = xcalloc(1, sizeof(*o));
	simrun_outcome(x, end_ns, o);
	watch_end(h->watch, o);
	err = store_end(h->store, o, e);
	free(o);
	return err;
}

static int simrun_go(struct simrun *x, struct err *e)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < x->n_hosts && !err; i++)
		err = simrun_open(x, i, e);
	if (!err && x->o->begun)
		x->o->begun(x->o->arg, x->start.dir, x->start.start_ns);
	if (!err)
		err = x->o->speed > 0 ? simrun_live(x, e) : simrun_all_until(x, INT64_MAX - 1, e);
	for (i = 0; i < x->n_hosts && !err; i++)
		err = simrun_end(x, &x->hosts[i], e);
	for (i = 0; i < x->n_hosts && x->hosts[i].feed; i++)
		x->r.points += simulate_feed_points(x->hosts[i].feed);
	for (i = 0; i < x->n_hosts; i++) {
		struct err closing = {0};
		int r = store_close(x->hosts[i].store, &closing);

		if (r && !err)
			err = err_set(e, r, "%s", closing.text);
		watch_free(x->hosts[i].watch);
		simulate_feed_free(x->hosts[i].feed);
	}
	return err;
}

int simrun_write(const struct simulate *m, const struct simrun_options *o, int64_t start_ns,
		 uint32_t hosts, struct simrun_result *ret, struct err *e)
{
	struct sigaction act = {.sa_handler = simrun_catch}, old_int, old_term;
	struct simrun *x = xcalloc(1, sizeof(*x));
	int err;

	x->m = m;
	x->o = o;
	x->n_hosts = hosts;
	x->begun_ns = clock_ns(CLOCK_MONOTONIC);
	x->progress = !o->quiet && isatty(STDERR_FILENO);
	simulate_size(m, &x->size);
	err = simrun_folder(x, start_ns, e);
	if (!err) {
		simrun_describe(x, start_ns);
		x->hosts = xcalloc(hosts, sizeof(*x->hosts));
		simrun_signal = 0;
		sigaction(SIGINT, &act, &old_int);
		sigaction(SIGTERM, &act, &old_term);
		err = simrun_go(x, e);
		sigaction(SIGINT, &old_int, NULL);
		sigaction(SIGTERM, &old_term, NULL);
		if (x->shown_ns)
			fprintf(stderr, "\r\033[K");
		snprintf(x->r.id, sizeof(x->r.id), "%s", x->start.id);
		snprintf(x->r.dir, sizeof(x->r.dir), "%s", x->start.dir);
		x->r.signal = simrun_signal;
		x->r.seconds = (double)(clock_ns(CLOCK_MONOTONIC) - x->begun_ns) / 1e9;
		*ret = x->r;
		free(x->hosts);
	}
	free(x);
	return err;
}
