/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/live.h"

#include "base/log.h"
#include "base/mem.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIVE_COMMIT_NS 1000000000 /* commit once in each of these, as the clock counts them */
#define LIVE_PRESSED 0.25         /* a lane this full does not wait for it */
#define LIVE_RETRY_NS 1000000000  /* try a store that failed again */
/* Slots of all lanes in a commit, or samples if these are more. The last read may take
 * LIVE_BUF more: 8,192 samples at most. A megabyte or two in all, and a large commit for
 * the store. */
#define LIVE_COMMIT 16384u
#define LIVE_BUF (WIRE_REC_SLOTS_MAX * WIRE_SLOT * 4)

struct agent_stats agent_totals;

/* One agent, one thread: all runs drain through the same buffer. */
static unsigned char live_buf[LIVE_BUF] __attribute__((aligned(64)));

int64_t live_utc(const struct live *l, int64_t boot_ns)
{
	return l->start.start_ns + boot_ns - l->start.start_boot_ns;
}

/* ---- the store ---------------------------------------------------------------- */

static void live_define(struct live *l);

/* Close the store and forget what it knew; it is opened again in a second. */
static void live_drop_store(struct live *l, const char *why)
{
	struct err e = {0};
	size_t i;

	/* On a full disk each try fails: that is told once. */
	if (!l->unopened)
		log_error("run %s: %s; opening its store again", l->start.id, why);
	if (l->handle)
		l->store->close(l->handle, &e);
	l->handle = NULL;
	l->sink = NULL;
	for (i = 0; i < l->n_clients; i++)
		l->clients[i]->sink = NULL;
	readings_reset(&l->host, NULL, 0);
	readings_reset(&l->own, NULL, 0);
	l->retry_ns = clock_ns(CLOCK_MONOTONIC) + LIVE_RETRY_NS;
}

static bool live_open_store(struct live *l, int64_t now_ns)
{
	struct err e = {0};
	size_t i;
	int err;

	if (l->handle)
		return true;
	if (now_ns < l->retry_ns)
		return false;
	err = l->store->open(&l->start, &l->handle, &l->sink, &e);
	if (!err)
		err = l->store->start(l->handle, &l->start, &e);
	if (err) {
		live_drop_store(l, e.text);
		l->unopened = true;
		return false;
	}
	if (l->unopened)
		log_info("run %s: its store is open again", l->start.id);
	l->unopened = false;
	live_define(l);
	for (i = 0; i < l->n_clients; i++)
		client_reset(l->clients[i], l->sink);
	return true;
}

struct live *live_new(const struct run_start *r, bool has_file, const struct agent_store *store)
{
	struct live *l = xcalloc(1, sizeof(*l));

	l->start = *r;
	l->has_file = has_file;
	l->store = store;
	hang_init(&l->hang, r->stall_after_ms * 1000000);
	l->commit_ns = clock_ns(CLOCK_MONOTONIC);
	live_open_store(l, l->commit_ns);
	agent_totals.runs++;
	log_info("run %s: recording into %s", r->id, r->dir);
	return l;
}

void live_free(struct live *l)
{
	struct err e = {0};
	size_t i;

	if (!l)
		return;
	for (i = 0; i < l->n_clients; i++)
		client_free(l->clients[i]);
	free(l->clients);
	runner_free(l->runner);
	target_done(&l->scrape);
	if (l->has_tree)
		probe_tree_done(&l->tree);
	readings_done(&l->host);
	readings_done(&l->own);
	if (l->handle && l->store->close(l->handle, &e) < 0)
		log_error("run %s: closing its store: %s", l->start.id, e.text);
	free(l->outcome);
	free(l);
}

int live_attach(struct live *l, int dirfd, const char *name, char why[128])
{
	struct client_epoch epoch = {l->start.start_ns, l->start.start_boot_ns};
	struct client *c;
	size_t i;
	int err;

	for (i = 0; i < l->n_clients; i++)
		if (strcmp(l->clients[i]->reader.name, name) == 0)
			return -EEXIST;
	if (!live_open_store(l, clock_ns(CLOCK_MONOTONIC))) {
		snprintf(why, 128, "its run's store cannot be opened");
		return -EAGAIN;
	}
	err = client_open(&c, dirfd, name, &epoch, l->sink, why);
	if (err)
		return err;
	c->run = &l->start;
	l->clients = xgrow(l->clients, l->n_clients, &l->cap_clients, sizeof(*l->clients));
	l->clients[l->n_clients++] = c;
	agent_totals.rings++;
	return 0;
}

/* ---- drain and commit ------------------------------------------------------------ */

/* *ret_more: a commit is full. */
static int live_collect(struct live *l, bool *ret_more)
{
	uint64_t room = LIVE_COMMIT;
	struct client *c;
	size_t i, k = 0;
	int err = 0;

	for (i = 0; i < l->n_clients && room && !err; i++) {
		k = (l->next_client + i) % l->n_clients;
		c = l->clients[k];
		if (c->ended)
			continue;
		err = client_drain(c, live_buf, sizeof(live_buf), &room);
		if (err == -EIO && !reader_is_whole(&c->reader)) {
			log_error("run %s: ring %s was cut short underneath: what it still held "
				  "is lost",
				  l->start.id, c->reader.name);
			client_end(c, -1, live_utc(l, clock_ns(CLOCK_BOOTTIME)));
			err = 0;
		}
	}
	*ret_more = room == 0;
	if (*ret_more)
		l->next_client = k + 1;
	for (i = 0; i < l->n_clients && !err; i++)
		if (l->clients[i]->pending)
			err = client_before_commit(l->clients[i]);
	return err;
}

static bool live_is_pending(const struct live *l)
{
	size_t i;

	for (i = 0; i < l->n_clients; i++)
		if (l->clients[i]->pending)
			return true;
	return l->pending;
}

/* A commit failed: nothing of it is stored, the rings still have it. */
static void live_on_failure(struct live *l, int err, int64_t now_ns)
{
	char why[512];

	snprintf(why, sizeof(why), "%s", l->store->why(l->handle));
	l->failures++;
	agent_totals.failed_commits++;
	if (!l->failing)
		log_error("run %s: cannot store: %s; records wait in the ring, full lanes drop "
			  "and count",
			  l->start.id, why);
	l->failing = true;
	l->retry_ns = now_ns + LIVE_RETRY_NS;
	if (err == -EUCLEAN || err == -ESTALE)
		live_drop_store(l, why);
}

static void live_on_success(struct live *l)
{
	char text[160];
	struct err e = {0};
	size_t i;

	agent_totals.commits++;
	for (i = 0; i < l->n_clients; i++)
		if (l->clients[i]->run_changed)
			l->clients[i]->run_changed = l->store->start(l->handle, &l->start, &e) < 0;
	if (!l->failing)
		return;
	l->failing = false;
	log_info("run %s: storing again", l->start.id);
	snprintf(text, sizeof(text),
		 "%llu commits failed; records that did not fit the ring "
		 "meanwhile are counted as dropped",
		 (unsigned long long)l->failures);
	l->failures = 0;
	live_event(l, live_utc(l, clock_ns(CLOCK_BOOTTIME)), 2, "store-recovered", text, "");
}

/* One round: everything that is there (within limits), then one commit. */
static bool live_round(struct live *l, int64_t now_ns)
{
	bool more = false;
	size_t i;
	int err;

	l->behind = false;
	err = live_collect(l, &more);
	if (err)
		l->sink->ops->rollback(l->sink);
	else if (live_is_pending(l))
		err = l->sink->ops->commit(l->sink);
	else
		return more;
	for (i = 0; i < l->n_clients; i++)
		client_after_commit(l->clients[i], err);
	l->pending = false;
	l->commit_ns = now_ns;
	if (err)
		live_on_failure(l, err, now_ns);
	else
		live_on_success(l);
	l->behind = !err && more;
	return l->behind;
}

bool live_is_pressed(struct live *l)
{
	uint64_t waiting;
	size_t i;

	for (i = 0; i < l->n_clients; i++)
		if (client_fullness(l->clients[i], &waiting) >= LIVE_PRESSED)
			return true;
	return false;
}

/* One slice of the store's housekeeping; true if there is more. */
static bool live_tend(struct live *l)
{
	struct err e = {0};
	int err;

	if (!l->handle || l->failing)
		return false;
	err = l->store->tend(l->handle, &e);
	if (err == -EUCLEAN || err == -ESTALE)
		live_drop_store(l, e.text);
	else if (err < 0)
		log_warn("run %s: %s", l->start.id, e.text);
	return err > 0;
}

bool live_tick(struct live *l, int64_t now_ns, bool force)
{
	bool more = false;

	if (!live_open_store(l, now_ns))
		return false;
	if (l->failing && now_ns < l->retry_ns)
		return false;
	if (force || l->behind || now_ns / LIVE_COMMIT_NS != l->commit_ns / LIVE_COMMIT_NS ||
	    live_is_pressed(l))
		more = live_round(l, now_ns);
	/* Housekeeping never keeps a lane waiting for longer than a slice. */
	if (!force && l->tending && !more && !live_is_pressed(l))
		l->tending = live_tend(l);
	return more || (!force && l->tending);
}

/* ---- machine figures --------------------------------------------------------------- */

static uint32_t live_define_process(struct live *l, const char *role, int64_t pid)
{
	struct sink_process p = {.role = role,
				 .program = "",
				 .pid = pid,
				 .rank = -1,
				 .local_rank = -1,
				 .world_size = -1,
				 .start_ns = l->start.start_ns};
	uint32_t id = 0;

	snprintf((char *)p.uid, sizeof(p.uid), "%s", role);
	l->sink->ops->process(l->sink, &p, &id);
	return id;
}

/* Processes that carry machine figures. Their series come with the first value:
 * what cannot be read here has none. */
static void live_define(struct live *l)
{
	l->host_process = live_define_process(l, "host", 0);
	l->tree_process = live_define_process(l, "command", l->start.child_pid);
	l->wants_facts = true;
	readings_reset(&l->host, l->sink, l->host_process);
	readings_reset(&l->own, l->sink, l->tree_process);
}

void live_set_child(struct live *l, int64_t pid, uint64_t start)
{
	l->start.child_pid = pid;
	l->start.child_start = start;
	if (l->sink)
		live_define_process(l, "command", pid);
}

void live_figure(struct live *l, uint32_t point, const struct probe_metric *m, const char *labels,
		 int64_t boot_ns, double value)
{
	if (l->handle && !l->end_stored)
		readings_value(&l->host, point, m, labels, live_utc(l, boot_ns), value);
}

static void live_own_figure(void *arg, uint32_t point, const struct probe_metric *m,
			    const char *labels, int64_t boot_ns, double value)
{
	struct live *l = arg;

	if (l->handle && !l->end_stored)
		readings_value(&l->own, point, m, labels, live_utc(l, boot_ns), value);
}

void live_fact(struct live *l, const char *key, const char *value)
{
	if (l->sink && l->sink->ops->attr(l->sink, l->host_process, key, value) == 0)
		l->pending = true;
}

static void live_own_fact(void *arg, const char *key, const char *value)
{
	struct live *l = arg;

	if (l->sink && l->sink->ops->attr(l->sink, l->tree_process, key, value) == 0)
		l->pending = true;
}

static void live_own_event(void *arg, int64_t boot_ns, int severity, const char *kind,
			   const char *text, const char *attrs)
{
	struct live *l = arg;

	live_event(l, live_utc(l, boot_ns), severity, kind, text, attrs);
}

/* Who is a process of the tree? Its ring says. */
static bool live_who(void *arg, long pid, uint64_t start, char role[32], int *slot)
{
	const struct live *l = arg;
	size_t i;

	for (i = 0; i < l->n_clients; i++) {
		const struct wire_ring *ring = &l->clients[i]->reader.ring;

		if (ring->pid != pid || ring->start_time != start)
			continue;
		snprintf(role, 32, "%.31s", ring->role);
		*slot = (int)(l->clients[i]->local_rank >= 0 ? l->clients[i]->local_rank
							     : l->clients[i]->rank);
		return true;
	}
	return false;
}

static void live_begin_probing(struct live *l, const struct agent_options *o)
{
	const struct probe_env *machine = &o->probe;
	int err;

	if (!machine->root || l->start.child_pid <= 0 || l->has_outcome)
		return;
	if (!l->has_tree)
		l->has_tree = probe_tree_init(&l->tree, machine->root, (long)l->start.child_pid,
					      l->start.child_start) == 0;
	if (!l->has_tree)
		return;
	l->env = *machine;
	l->env.pid = (long)l->start.child_pid;
	l->env.tree = &l->tree;
	if (!l->scrape.n)
		target_add_all(&l->scrape, l->start.scrape);
	l->env.scrape = l->scrape.t;
	l->env.n_scrape = l->scrape.n;
	l->env.who = live_who;
	l->env.arg = l;
	err = runner_new(&l->env, &o->pace, &l->runner);
	if (err)
		log_error("run %s: figures of its processes cannot be read: %s", l->start.id,
			  strerror(-err));
}

int64_t live_probe(struct live *l, const struct agent_options *o, int64_t period_ns,
		   const struct probe_now *now)
{
	struct probe_taker t = {live_own_figure, live_own_event, live_own_fact, l};
	int64_t next = now->mono_ns + LIVE_RETRY_NS;

	if (!l->runner)
		live_begin_probing(l, o);
	if (l->runner && l->handle && !l->end_stored) {
		runner_set_period(l->runner, period_ns);
		next = runner_tick(l->runner, now);
		runner_take(l->runner, &t);
	}
	l->pending |= readings_flush(&l->host);
	l->pending |= readings_flush(&l->own);
	return next;
}

static void live_push_event(struct live *l, uint32_t process, int64_t utc_ns, int severity,
			    const char *kind, const char *text, const char *attrs)
{
	struct sink_event e = {process, utc_ns, SINK_STEP_NONE, severity, kind, text, attrs};

	if (l->sink && l->sink->ops->event(l->sink, &e) == 0)
		l->pending = true;
}

void live_machine_event(struct live *l, int64_t boot_ns, int severity, const char *kind,
			const char *text, const char *attrs)
{
	live_push_event(l, l->host_process, live_utc(l, boot_ns), severity, kind, text, attrs);
}

void live_event(struct live *l, int64_t utc_ns, int severity, const char *kind, const char *text,
		const char *attrs)
{
	live_push_event(l, l->tree_process, utc_ns, severity, kind, text, attrs);
}

/* ---- each second ---------------------------------------------------------------------- */

/* What moves while a run goes on, and what it is in. */
struct live_signs {
	uint64_t records, beats, steps;
	unsigned open; /* spans */
	char span[256];
};

static void live_read_signs(struct live *l, struct live_signs *s)
{
	uint64_t waiting;
	size_t i;
	uint32_t k;

	*s = (struct live_signs){
		.records = l->gone.records, .beats = l->gone.beats, .steps = l->gone.steps};
	for (i = 0; i < l->n_clients; i++) {
		struct client *c = l->clients[i];

		for (k = 0; k < c->reader.ring.lanes; k++)
			s->records += c->reader.lane[k].pos;
		client_fullness(c, &waiting);
		s->records += waiting;
		if (c->reader.ctl) {
			s->beats += c->reader.ctl->heartbeat;
			s->steps += c->reader.ctl->steps_done;
		}
		if (!s->open)
			s->open = client_open_spans(c, s->span, sizeof(s->span));
	}
}

static void live_say_quiet(const struct live *l, const struct live_signs *s, int64_t mono_ns,
			   char *out, size_t cap)
{
	snprintf(out, cap, "no step, no record, no heartbeat and no CPU use for %.0f s%s%s%s",
		 (double)(mono_ns - l->hang.progress_ns) / 1e9, s->open ? ", in span \"" : "",
		 s->open ? s->span : "", s->open ? "\"" : "");
}

void live_describe_hang(struct live *l, int64_t mono_ns, char *out, size_t cap)
{
	struct live_signs s;

	live_read_signs(l, &s);
	live_say_quiet(l, &s, mono_ns, out, cap);
}

static void live_hang_over(struct live *l)
{
	live_event(l, live_utc(l, clock_ns(CLOCK_BOOTTIME)), 1, "hang-over", "it goes on", "");
}

static void live_check_hang(struct live *l, const struct wire_anchor *now)
{
	bool has_rings = l->n_clients || l->gone.rings;
	struct live_signs s;
	char text[512];
	enum hang_news news;

	/* A command that records nothing may wait for something elsewhere (ssh, docker run):
	 * without a time-out of its own there is nothing to learn one from. */
	if (l->hang.after_ns == 0 && !has_rings)
		return;
	live_read_signs(l, &s);
	if (!l->hang.hung)
		l->hang.steps = s.steps;
	news = hang_check(&l->hang, now->mono_ns, s.records, s.beats,
			  l->has_tree ? probe_tree_cpu_total_ns(&l->tree) : 0,
			  s.open || (has_rings && !s.steps));
	if (news == HANG_BEGAN) {
		live_say_quiet(l, &s, now->mono_ns, text, sizeof(text));
		live_event(l, live_utc(l, now->boot_ns), 3, "hung", text, "");
		log_warn("run %s: %s", l->start.id, text);
	} else if (news == HANG_OVER) {
		live_hang_over(l);
	}
}

void live_last_look(struct live *l, bool is_clean)
{
	struct live_signs s;

	if (!l->hang.hung)
		return;
	live_read_signs(l, &s);
	if (s.steps == l->hang.steps && (!is_clean || s.records == l->hang.records))
		return;
	l->hang.hung = false;
	live_hang_over(l);
}

static void live_check_clients(struct live *l, int rings, const struct clocks *now)
{
	int64_t utc = live_utc(l, now->at[WIRE_CLOCK_MONOTONIC].boot_ns);
	uint64_t waiting;
	size_t i;

	for (i = 0; i < l->n_clients; i++) {
		struct client *c = l->clients[i];

		if (c->ended)
			continue;
		client_anchor(c, memcmp(c->reader.ring.boot_id, (uint8_t[16]){0}, 16)
					 ? &now->at[c->reader.ring.clock]
					 : NULL);
		client_fullness(c, &waiting);
		/* Over first, then empty: after that nothing is added. */
		if (!client_is_over(c, rings, !l->has_file, &now->at[WIRE_CLOCK_MONOTONIC], utc) ||
		    !l->handle || l->failing)
			continue;
		while (live_round(l, clock_ns(CLOCK_MONOTONIC)))
			;
		client_fullness(c, &waiting);
		if (waiting == 0 && l->handle && !l->failing && client_end(c, rings, utc) == 0)
			l->pending = true;
	}
}

void live_second(struct live *l, int rings, const struct clocks *now)
{
	live_check_clients(l, rings, now);
	if (!l->has_outcome)
		live_check_hang(l, &now->at[WIRE_CLOCK_MONOTONIC]);
	if (l->handle && l->store->aside)
		l->store->aside(l->handle, phase_is_aside(l));
	l->tending = true;
}
