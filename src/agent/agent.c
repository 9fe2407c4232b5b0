/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop: find runs and rings, drain when a second is over or a lane fills,
 * probe each second, sleep on the bell.
 */
#include "agent/agent.h"

#include "agent/exports.h"
#include "agent/headroom.h"
#include "agent/live.h"
#include "agent/probing.h"
#include "agent/rolling.h"
#include "agent/runfile.h"
#include "agent/sweep.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sdnotify.h"
#include "base/text.h"
#include "ring/safemap.h"
#include "ring/reader.h"
#include "wire/bell.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#define AGENT_SECOND 1000000000
#define AGENT_SWEEP (600ll * AGENT_SECOND)
#define AGENT_SHORT (60ll * AGENT_SECOND)
#define AGENT_SHORT_S 10       /* that runs do not end because a ring may be theirs */
#define AGENT_REFUSED_MAX 1024 /* files in rings/ remembered as no rings */

struct agent {
	const struct agent_options *o;
	int dir, rings, runs, lock;
	struct live **live;
	size_t n_live, cap_live;
	struct map refused; /* names of files that are no rings */
	bool is_short;      /* the last look left something for the next one */
	unsigned short_n;   /* seconds in a row in which it did */
	int64_t short_ns;   /* CLOCK_MONOTONIC: not to be told again before */
	struct probing *probing;
	struct rolling *rolling; /* NULL: none */
	size_t told_live;        /* runs that the service manager knows of */
	struct clocks first;     /* at start, for the rates */
	int64_t second_ns;       /* CLOCK_MONOTONIC when the next second's work is due */
	int64_t probe_ns;        /* CLOCK_MONOTONIC when figures are due */
	int64_t sweep_ns;        /* CLOCK_MONOTONIC when the store may be swept */
	int64_t busy_ns;         /* CLOCK_MONOTONIC when something was last alive */
	struct safemap *bell;
	struct exports *exports;
	bool woken; /* the bell rang: something may be new */
};

static volatile sig_atomic_t agent_stop;

static void agent_on_signal(int sig)
{
	(void)sig;
	agent_stop = 1;
}

void agent_stats(struct agent_stats *out)
{
	*out = agent_totals;
}

/* ---- finding ------------------------------------------------------------------------- */

static struct live *agent_find(struct agent *a, const char *id)
{
	size_t i;

	for (i = 0; i < a->n_live; i++)
		if (strcmp(a->live[i]->start.id, id) == 0)
			return a->live[i];
	return NULL;
}

static struct live *agent_add(struct agent *a, const struct run_start *r, bool has_file)
{
	a->live = xgrow(a->live, a->n_live, &a->cap_live, sizeof(*a->live));
	a->live[a->n_live] = live_new(r, has_file, a->o->store);
	exports_begin(a->exports, r);
	return a->live[a->n_live++];
}

/* An id becomes a file name: letters, digits, '.', '_', '-', not at the front. */
static bool agent_is_id(const char *id)
{
	size_t n = strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

	return n > 0 && id[n] == '\0' && id[0] != '.' && n <= RUN_ID_MAX;
}

/* For want of descriptors, memory or space: the next look tries it again. */
static void agent_postpone(struct agent *a, const char *folder, const char *name, const char *why)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);

	a->is_short = true;
	if (now < a->short_ns)
		return;
	a->short_ns = now + AGENT_SHORT;
	log_warn("%s/%s and what else cannot be taken up now is tried again each second: %s",
		 folder, name, why);
}

/* Told once; not looked at again. */
static void agent_refuse(struct agent *a, const char *folder, const char *name, int err,
			 const char *why)
{
	if (rendezvous_is_short(err)) {
		agent_postpone(a, folder, name, why);
		return;
	}
	if (a->refused.len >= AGENT_REFUSED_MAX)
		map_done(&a->refused);
	map_put(&a->refused, name, strlen(name), 1);
	agent_totals.refused++;
	log_warn("%s/%s is left alone: %s", folder, name, why);
}

/* Read runs/NAME of the run `id`. 0 and *r; -ENOENT: it has just gone. */
static int agent_read_run(struct agent *a, const char *name, const char *id, struct run_start *r,
			  char why[128])
{
	struct buf text;
	int err;

	buf_init(&text, RUN_FILE_MAX);
	err = runfile_read(a->runs, name, &text);
	if (err)
		snprintf(why, 128, "%s",
			 err == -EPERM ? "not a regular file of ours" : strerror(-err));
	else
		err = run_start_parse(buf_str(&text), text.len, r, why);
	buf_done(&text);
	if (!err && (!agent_is_id(r->id) || strcmp(r->id, id) != 0)) {
		snprintf(why, 128, "its run has another or no sound id");
		err = -EBADMSG;
	}
	return err;
}

static void agent_take_run(struct agent *a, const char *name)
{
	char id[RUN_ID_MAX + 1], why[128];
	struct run_start *r;
	struct live *l;
	uint64_t one;
	int err;

	snprintf(id, sizeof(id), "%.*s", (int)(strlen(name) - strlen(".run")), name);
	l = agent_find(a, id);
	if ((l && l->start.child_pid) || map_get(&a->refused, name, strlen(name), &one))
		return;
	r = xcalloc(1, sizeof(*r));
	err = agent_read_run(a, name, id, r, why);
	/* The launcher writes it again once the command has a pid. */
	if (!err && !l)
		agent_add(a, r, true);
	else if (!err && r->child_pid)
		live_set_child(l, r->child_pid, r->child_start);
	else if (err && err != -ENOENT)
		agent_refuse(a, "runs", name, err, why);
	free(r);
}

/* An outcome whose run is finished: an agent was killed while it cleaned up. */
static void agent_take_outcome(struct agent *a, const char *name)
{
	char run[RUN_ID_MAX + 16], id[RUN_ID_MAX + 1];

	snprintf(id, sizeof(id), "%.*s", (int)(strlen(name) - strlen(".outcome")), name);
	snprintf(run, sizeof(run), "%s.run", id);
	if (!agent_find(a, id) && faccessat(a->runs, run, F_OK, 0) < 0 && errno == ENOENT)
		unlinkat(a->runs, name, 0);
}

/* A ring whose run has no file: the process made the run itself, or the
 * launcher's file is gone. */
static struct live *agent_add_own(struct agent *a, const struct wire_ring *ring)
{
	struct run_start *r = xcalloc(1, sizeof(*r));
	struct utsname uts;
	struct live *l = NULL;

	snprintf(r->id, sizeof(r->id), "%s", ring->run);
	if (agent_is_id(r->id) && ring->store_dir[0] == '/') {
		snprintf(r->dir, sizeof(r->dir), "%s/%s", ring->store_dir, r->id);
		snprintf(r->name, sizeof(r->name), "%s",
			 ring->name[0] ? ring->name : ring->program);
		snprintf(r->project, sizeof(r->project), "%s", ring->project);
		snprintf(r->command, sizeof(r->command), "%s", ring->program);
		snprintf(r->cwd, sizeof(r->cwd), "%s", ring->cwd);
		if (uname(&uts) == 0)
			snprintf(r->host, sizeof(r->host), "%s", uts.nodename);
		r->child_pid = ring->pid;
		r->child_start = ring->start_time;
		r->start_ns = ring->opened.real_ns;
		r->start_boot_ns = ring->opened.boot_ns;
		l = agent_add(a, r, false);
	}
	free(r);
	return l;
}

static bool agent_is_attached(struct agent *a, const char *name)
{
	uint64_t one;
	size_t i, k;

	if (map_get(&a->refused, name, strlen(name), &one))
		return true;
	for (i = 0; i < a->n_live; i++)
		for (k = 0; k < a->live[i]->n_clients; k++)
			if (strcmp(a->live[i]->clients[k]->reader.name, name) == 0)
				return true;
	return false;
}

static void agent_take_ring(struct agent *a, const char *name)
{
	char why[128] = "its run has no sound id or no folder";
	struct reader r;
	struct live *l;
	int err;

	if (agent_is_attached(a, name))
		return;
	err = reader_open(a->rings, name, &r, why);
	if (err == -ENOENT)
		return;
	if (err) {
		agent_refuse(a, "rings", name, err, why);
		return;
	}
	l = agent_find(a, r.ring.run);
	if (!l) {
		l = agent_add_own(a, &r.ring);
		if (l)
			l->by_child = r.ring.forked;
	} else if (l->by_child && !r.ring.forked) {
		/* Folders have no order: this is the process that began it. */
		live_set_child(l, r.ring.pid, r.ring.start_time);
		l->by_child = false;
	}
	reader_done(&r);
	err = l ? live_attach(l, a->rings, name, why) : -EINVAL;
	if (err && err != -EAGAIN && err != -EEXIST)
		agent_refuse(a, "rings", name, err, why);
}

static void agent_scan(struct agent *a, int fd, const char *suffix,
		       void (*take)(struct agent *a, const char *name))
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	if (!d) {
		agent_postpone(a, ".", suffix + 1, strerror(errno));
		if (copy >= 0)
			close(copy);
		return;
	}
	while ((e = readdir(d)))
		if (e->d_name[0] != '.' && text_ends(e->d_name, suffix))
			take(a, e->d_name);
	closedir(d);
}

/* ---- each second ----------------------------------------------------------------------- */

static void agent_heartbeat(struct agent *a, const struct clocks *now)
{
	size_t i, k;

	for (i = 0; i < a->n_live; i++)
		for (k = 0; k < a->live[i]->n_clients; k++)
			clocks_keep(&a->first, now, &a->live[i]->clients[k]->reader);
}

static void agent_forget_retired(struct agent *a)
{
	size_t i, k = 0;

	for (i = 0; i < a->n_live; i++) {
		if (a->live[i]->retired) {
			exports_end(a->exports, a->live[i]->start.id);
			live_free(a->live[i]);
		} else {
			a->live[k++] = a->live[i];
		}
	}
	a->n_live = k;
}

static void agent_export_failed(void *arg, const char *run, const char *text)
{
	struct live *l = agent_find(arg, run);

	if (l)
		live_event(l, live_utc(l, clock_ns(CLOCK_BOOTTIME)), 2, "export-failed", text, "");
}

/* Take up what is new, and hold its lanes from now on. */
static void agent_look(struct agent *a, struct clocks *now)
{
	a->is_short = false;
	agent_scan(a, a->runs, ".run", agent_take_run);
	agent_scan(a, a->rings, ".ring", agent_take_ring);
	clocks_read(now);
	agent_heartbeat(a, now);
}

static void agent_tell(struct agent *a, int64_t now_ns)
{
	sdnotify_watchdog(now_ns);
	if (a->told_live == a->n_live)
		return;
	a->told_live = a->n_live;
	if (a->n_live == 0)
		sdnotify_send("STATUS=waiting for runs");
	else
		sdnotify_send("STATUS=recording %zu run%s", a->n_live, a->n_live == 1 ? "" : "s");
}

static void agent_second(struct agent *a)
{
	struct clocks now;
	bool heard = false;
	int64_t mono_ns;
	size_t i;

	for (i = 0; i < a->n_live; i++)
		live_let_go(a->live[i], a->rings);
	agent_look(a, &now);
	for (i = 0; i < a->n_live; i++)
		heard |= live_hear(a->live[i], a->runs);
	/* A process may have come and gone between the look and the outcome. */
	if (heard)
		agent_look(a, &now);
	for (i = 0; i < a->n_live; i++)
		live_second(a->live[i], a->rings, &now);
	a->short_n = a->is_short ? a->short_n + 1 : 0;
	for (i = 0; i < a->n_live && (!a->is_short || a->short_n > AGENT_SHORT_S); i++)
		live_finish(a->live[i], a->rings, a->runs, a->o->once);
	agent_forget_retired(a);
	mono_ns = now.at[WIRE_CLOCK_MONOTONIC].mono_ns;
	if (a->rolling)
		rolling_second(a->rolling, a->rings, &now);
	exports_tick(a->exports, mono_ns, agent_export_failed, a);
	agent_tell(a, mono_ns);
	a->second_ns = (mono_ns / AGENT_SECOND + 1) * AGENT_SECOND;
	if (!a->o->once && a->o->store->sweep && mono_ns >= a->sweep_ns) {
		a->o->store->sweep();
		a->sweep_ns = mono_ns + AGENT_SWEEP;
	}
	if (a->n_live || exports_is_busy(a->exports))
		a->busy_ns = mono_ns;
}

/* An outcome file that has come ends its run now, not in a second. */
static bool agent_has_outcome(struct agent *a)
{
	char name[RUN_ID_MAX + 16];
	size_t i;

	for (i = 0; i < a->n_live; i++) {
		snprintf(name, sizeof(name), "%s.outcome", a->live[i]->start.id);
		if (a->live[i]->has_file && !a->live[i]->has_outcome &&
		    faccessat(a->runs, name, F_OK, 0) == 0)
			return true;
	}
	return false;
}

/* ---- sleeping ------------------------------------------------------------------------------ */

static void agent_open_bell(struct agent *a)
{
	struct wire_bell *bell = bell_map(a->dir);
	int fd;

	/* bell_map() makes it; ours is guarded against truncation. */
	if (bell)
		munmap(bell, WIRE_PAGE);
	fd = openat(a->dir, "bell", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	if (safemap_new(fd, WIRE_PAGE, &a->bell) < 0)
		a->bell = NULL;
	close(fd);
}

/* Until the bell rings, a signal comes or `ns` are over. */
static void agent_sleep(struct agent *a, int64_t ns)
{
	struct timespec t = {ns / AGENT_SECOND, ns % AGENT_SECOND};
	struct wire_bell *bell = a->bell ? safemap_base(a->bell) : NULL;

	if (ns <= 0)
		return;
	if (!bell) {
		if (t.tv_sec > 0 || t.tv_nsec > 50000000)
			t = (struct timespec){0, 50000000};
		nanosleep(&t, NULL);
		return;
	}
	__atomic_store_n(&bell->sleeping, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &bell->sleeping, FUTEX_WAIT, 1, &t, NULL, 0);
	a->woken = __atomic_exchange_n(&bell->sleeping, 0, __ATOMIC_RELAXED) == 0;
}

/* Figures of the machine go to the runs that live, else to the rolling one. */
static int64_t agent_probe(struct agent *a)
{
	struct live *rolling = a->rolling && !a->n_live ? rolling_live(a->rolling) : NULL;

	if (rolling)
		return probing_tick(a->probing, &rolling, 1);
	return probing_tick(a->probing, a->live, a->n_live);
}

static bool agent_round(struct agent *a)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);
	struct clocks clocks;
	bool more = false;
	size_t i;

	if (now >= a->second_ns || agent_has_outcome(a))
		agent_second(a);
	else if (a->woken)
		agent_look(a, &clocks);
	a->woken = false;
	if (now >= a->probe_ns)
		a->probe_ns = agent_probe(a);
	now = clock_ns(CLOCK_MONOTONIC);
	for (i = 0; i < a->n_live; i++)
		more |= live_tick(a->live[i], now, false);
	if (a->rolling && rolling_live(a->rolling))
		more |= live_tick(rolling_live(a->rolling), now, false);
	return more;
}

/* Nothing to do for long enough. A run that came with the bell, or comes just now, would have
 * no agent: others are started only once our lock is free. */
static bool agent_is_idle(struct agent *a, int64_t now_ns)
{
	struct clocks clocks;

	if (!a->o->idle_exit_ns || a->n_live || now_ns - a->busy_ns < a->o->idle_exit_ns)
		return false;
	agent_look(a, &clocks);
	return a->n_live == 0;
}

static void agent_loop(struct agent *a)
{
	int64_t now, due;
	size_t i;
	bool more;

	a->busy_ns = clock_ns(CLOCK_MONOTONIC);
	a->rolling = rolling_new(a->o);
	sdnotify_send("READY=1\nSTATUS=waiting for runs");
	while (!agent_stop) {
		more = agent_round(a);
		now = clock_ns(CLOCK_MONOTONIC);
		if (agent_is_idle(a, now))
			break;
		due = a->second_ns;
		if ((a->n_live || a->rolling) && a->probe_ns < due)
			due = a->probe_ns;
		if (!more)
			agent_sleep(a, due - now);
	}
	sdnotify_send("STOPPING=1");
	for (i = 0; i < a->n_live; i++)
		while (live_tick(a->live[i], clock_ns(CLOCK_MONOTONIC), true))
			;
}

/* Recover: attach everything; a second look finds what died since. */
static void agent_once(struct agent *a)
{
	size_t i;

	for (i = 0; i < 2 && !agent_stop; i++)
		agent_second(a);
	for (i = 0; i < a->n_live; i++)
		while (live_tick(a->live[i], clock_ns(CLOCK_MONOTONIC), true))
			;
	agent_second(a);
}

/* ---- start and stop -------------------------------------------------------------------------- */

static int agent_open(struct agent *a, struct err *e)
{
	char pid[32];
	int n;

	if (a->o->rendezvous && setenv("LAPSE_RENDEZVOUS", a->o->rendezvous, 1) < 0)
		return err_errno(e, -errno, "rendezvous folder %s", a->o->rendezvous);
	a->dir = rendezvous_open(1);
	if (a->dir < 0)
		return err_errno(e, a->dir, "rendezvous folder (it must be ours, mode 0700)");
	a->lock = rendezvous_lock(a->dir, "agent.lock");
	if (a->lock < 0)
		return err_errno(e, a->lock, "agent.lock: another agent serves this folder");
	n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (ftruncate(a->lock, 0) < 0 || pwrite(a->lock, pid, (size_t)n, 0) < 0)
		log_warn("agent.lock: the pid cannot be written: %s", strerror(errno));
	a->rings = openat(a->dir, "rings", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	a->runs = openat(a->dir, "runs", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (a->rings < 0 || a->runs < 0)
		return err_errno(e, -errno, "rings/ and runs/ in the rendezvous folder");
	agent_open_bell(a);
	agent_scan(a, a->runs, ".outcome", agent_take_outcome);
	sweep_rings(a->rings);
	clocks_read(&a->first);
	return 0;
}

static void agent_close(struct agent *a)
{
	size_t i;

	for (i = 0; i < a->n_live; i++)
		live_free(a->live[i]);
	rolling_free(a->rolling);
	free(a->live);
	exports_free(a->exports);
	map_done(&a->refused);
	probing_free(a->probing);
	safemap_free(a->bell);
	if (a->rings >= 0)
		close(a->rings);
	if (a->runs >= 0)
		close(a->runs);
	if (a->lock >= 0)
		close(a->lock);
	if (a->dir >= 0)
		close(a->dir);
}

static void agent_signals(void)
{
	struct sigaction sa = {.sa_handler = agent_on_signal};

	/* Without SA_RESTART: a signal ends the sleep. */
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
}

int agent_run(const struct agent_options *o, struct err *e)
{
	struct agent *a = xcalloc(1, sizeof(*a));
	int err;

	headroom_bound_memory();
	headroom_take();
	a->o = o;
	a->dir = a->rings = a->runs = a->lock = -1;
	a->probing = probing_new(o);
	a->exports = exports_new(o->once ? NULL : o->exporter);
	map_init(&a->refused);
	agent_totals = (struct agent_stats){0};
	agent_stop = 0;
	agent_signals();
	err = agent_open(a, e);
	if (!err && o->once)
		agent_once(a);
	else if (!err)
		agent_loop(a);
	agent_close(a);
	free(a);
	return err;
}
