/* SPDX-License-Identifier: Apache-2.0
 *
 * How a run ends. The launcher's outcome file says it; without a launcher the
 * run ends when all recording processes are dead, or have closed it and go on. It is
 * retired when its last record is stored: then its files go.
 */
#include "agent/live.h"

#include "agent/runfile.h"
#include "agent/sweep.h"
#include "base/log.h"
#include "base/mem.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define END_GRACE_NS 500000000   /* a dead launcher's outcome file may still appear */
#define END_SETTLE_NS 3000000000 /* that readers are waited for before the store is closed */

static void end_name(const struct live *l, const char *suffix, char out[RUN_ID_MAX + 16])
{
	snprintf(out, RUN_ID_MAX + 16, "%s%s", l->start.id, suffix);
}

static void end_read_outcome(struct live *l, int runs)
{
	char name[RUN_ID_MAX + 16], why[128];
	struct run_outcome *o;
	struct buf text;
	int err;

	end_name(l, ".outcome", name);
	buf_init(&text, RUN_FILE_MAX);
	if (runfile_read(runs, name, &text) < 0) {
		buf_done(&text);
		return;
	}
	o = xcalloc(1, sizeof(*o));
	err = run_outcome_parse(buf_str(&text), text.len, o, why);
	buf_done(&text);
	if (err) {
		log_error("run %s: its outcome file is damaged (%s): taken as lost", l->start.id,
			  why);
		*o = (struct run_outcome){.kind = RUN_LOST, .code = -1};
		o->end_ns = live_utc(l, clock_ns(CLOCK_BOOTTIME));
	}
	l->outcome = o;
	l->has_outcome = true;
}

/* Nobody will tell us: the launcher is dead (or there was none) and so is all
 * that it started. */
static bool end_is_orphan(const struct live *l, int runs)
{
	char name[RUN_ID_MAX + 16];
	size_t i;

	end_name(l, ".run", name);
	if (l->has_file && rendezvous_is_locked(runs, name))
		return false;
	if (l->has_file && l->start.child_pid > 0 && l->start.child_start &&
	    rendezvous_start_time((long)l->start.child_pid) == l->start.child_start)
		return false;
	for (i = 0; i < l->n_clients; i++)
		if (!l->clients[i]->ended)
			return false;
	return true;
}

/* The outcome that the run's first process tells: by its status at exit, or by
 * having closed a ring. */
static void end_guess_outcome(struct live *l)
{
	struct run_outcome *o = xcalloc(1, sizeof(*o));
	const struct wire_ctl *ctl = NULL;
	bool closed = false;
	size_t i;

	o->end_ns = live_utc(l, clock_ns(CLOCK_BOOTTIME));
	for (i = 0; i < l->n_clients; i++) {
		const struct reader *r = &l->clients[i]->reader;

		if (r->ring.pid != (uint32_t)l->start.child_pid)
			continue;
		closed = closed || reader_is_closed(r);
		o->end_ns = client_end_time(l->clients[i], o->end_ns);
		if (r->ctl && r->ctl->has_exit)
			ctl = r->ctl;
	}
	o->kind = RUN_LOST;
	o->code = -1;
	o->user_s = o->system_s = NAN; /* nobody reaped it */
	if ((ctl || closed) && !l->has_file) {
		o->kind = RUN_EXITED;
		o->code = ctl ? ctl->exit_status & 0xff : -1;
	}
	snprintf(o->id, sizeof(o->id), "%s", l->start.id);
	l->outcome = o;
	l->has_outcome = true;
}

/* What it was hung in, and what ended that, behind what is there of evidence. */
static void end_explain_hang(struct live *l)
{
	struct run_outcome *o = l->outcome;
	size_t len = strlen(o->evidence);
	const char *name = o->signal > 0 ? sigabbrev_np(o->signal) : NULL;
	char quiet[512], how[64];

	live_describe_hang(l, clock_ns(CLOCK_MONOTONIC), quiet, sizeof(quiet));
	if (o->kind == RUN_EXITED)
		snprintf(how, sizeof(how), "then it exited with status %d", o->code);
	else if (o->kind == RUN_LOST)
		snprintf(how, sizeof(how), "nobody saw its end");
	else if (name)
		snprintf(how, sizeof(how), "then it was killed by SIG%s", name);
	else
		snprintf(how, sizeof(how), "then it was killed by signal %d", o->signal);
	snprintf(o->evidence + len, sizeof(o->evidence) - len, "%s%s; %s", len ? "; " : "", quiet,
		 how);
}

/* A run that ended well was only slow, however quiet it was; one that was killed, or whose
 * end nobody saw, is called so, with the hang as evidence. */
static void end_judge_hang(struct live *l)
{
	struct run_outcome *o = l->outcome;
	/* Without a status it closed its ring, or nobody can know. */
	bool clean = o->kind == RUN_EXITED && o->code <= 0;

	if (!l->hang.hung || o->kind == RUN_HUNG)
		return;
	live_last_look(l, clean);
	if (!l->hang.hung || clean ||
	    (o->kind != RUN_EXITED && o->kind != RUN_SIGNALED && o->kind != RUN_LOST))
		return;
	end_explain_hang(l);
	if (o->kind == RUN_EXITED)
		o->kind = RUN_HUNG;
}

/* Once: drain what is there, then the outcome. */
static void end_store(struct live *l)
{
	struct err e = {0};

	end_judge_hang(l);
	while (live_tick(l, clock_ns(CLOCK_MONOTONIC), true))
		;
	if (!l->handle || l->failing)
		return;
	if (l->store->end(l->handle, l->outcome, &e) < 0) {
		log_error("run %s: storing its end: %s", l->start.id, e.text);
		return;
	}
	l->end_stored = true;
	log_info("run %s: %s", l->start.id, run_outcome_name(l->outcome->kind));
}

/* Names in rings/ of what a client leaves. */
struct end_files {
	char ring[sizeof(((struct reader *)NULL)->name)];
	char ctl[sizeof(((struct wire_ring *)NULL)->ctl)];
	char evidence[256];
};

static void end_name_files(const struct client *c, struct end_files *f)
{
	snprintf(f->ring, sizeof(f->ring), "%s", c->reader.name);
	snprintf(f->ctl, sizeof(f->ctl), "%s",
		 strchr(c->reader.ring.ctl, '/') ? "" : c->reader.ring.ctl);
	client_evidence_name(c, f->evidence, sizeof(f->evidence));
}

/* The control page and the evidence, which all rings of a process share. */
static void end_delete_shared(const struct end_files *f, int rings)
{
	if (f->ctl[0])
		unlinkat(rings, f->ctl, 0);
	if (f->evidence[0])
		unlinkat(rings, f->evidence, 0);
}

/* Does the process live, or has it another ring? */
static bool end_is_shared(const struct end_files *f, int rings)
{
	return !f->ctl[0] || sweep_has_ring(rings, f->ctl) || rendezvous_is_locked(rings, f->ctl);
}

/* Delete a ring, and with the last one of its process the control page and the evidence. To
 * look for others takes a descriptor: that of the ring is free before. */
static void end_free_and_delete(struct client *c, int rings)
{
	struct end_files f;

	end_name_files(c, &f);
	client_free(c);
	unlinkat(rings, f.ring, 0);
	if (!end_is_shared(&f, rings))
		end_delete_shared(&f, rings);
}

static void end_count(struct live_gone *gone, const struct client *c)
{
	const struct wire_ctl *ctl = c->reader.ctl;
	uint32_t i;

	gone->rings++;
	for (i = 0; i < c->reader.ring.lanes; i++)
		gone->records += c->reader.lane[i].pos;
	if (!ctl)
		return;
	gone->beats += ctl->heartbeat;
	gone->steps += ctl->steps_done;
	if (gone->steps_most < ctl->steps_done)
		gone->steps_most = ctl->steps_done;
}

/* One that was cut short may be of a process that lives. */
static bool end_is_over(const struct live *l, const struct client *c)
{
	return c->end_stored && !c->pending && !c->run_changed &&
	       c->reader.ring.pid != (uint32_t)l->start.child_pid && reader_is_whole(&c->reader);
}

void live_let_go(struct live *l, int rings)
{
	size_t i, k = 0;

	for (i = 0; i < l->n_clients; i++) {
		struct client *c = l->clients[i];

		if (end_is_over(l, c)) {
			end_count(&l->gone, c);
			end_free_and_delete(c, rings);
		} else {
			l->clients[k++] = c;
		}
	}
	l->n_clients = k;
}

static bool end_all_ended(const struct live *l)
{
	size_t i;

	for (i = 0; i < l->n_clients; i++)
		if (!l->clients[i]->ended)
			return false;
	return true;
}

/* Close the store, then delete what is no longer needed: the rings first, so
 * that a kill in between leaves a run file and no unstored record. */
static void end_retire(struct live *l, int rings, int runs)
{
	char name[RUN_ID_MAX + 16];
	struct end_files f;
	struct err e = {0};
	size_t i;
	int err = l->store->close(l->handle, &e);

	l->handle = NULL;
	l->sink = NULL;
	if (err)
		log_error("run %s: closing its store: %s", l->start.id, e.text);
	for (i = 0; i < l->n_clients; i++) {
		end_name_files(l->clients[i], &f);
		unlinkat(rings, f.ring, 0);
		if (!l->clients[i]->closed_ns || !end_is_shared(&f, rings))
			end_delete_shared(&f, rings);
	}
	if (l->has_file) {
		/* An outcome alone is only litter; a run file alone would be a
		 * run whose end is lost. */
		end_name(l, ".run", name);
		unlinkat(runs, name, 0);
		end_name(l, ".outcome", name);
		unlinkat(runs, name, 0);
	}
	l->retired = true;
	agent_totals.finished++;
}

bool live_hear(struct live *l, int runs)
{
	if (l->has_outcome || !l->has_file)
		return false;
	end_read_outcome(l, runs);
	return l->has_outcome;
}

/* Is there an outcome, from the launcher or by our own reasoning? */
static bool end_has_outcome(struct live *l, int runs, bool once)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);

	if (l->has_outcome)
		return true;
	if (!end_is_orphan(l, runs)) {
		l->orphan_ns = 0;
		return false;
	}
	if (l->orphan_ns == 0)
		l->orphan_ns = now;
	if (!once && now - l->orphan_ns < END_GRACE_NS)
		return false;
	/* Again, now that the launcher is known to be dead: it may have written
	 * it between our two looks. */
	if (l->has_file)
		end_read_outcome(l, runs);
	if (!l->has_outcome)
		end_guess_outcome(l);
	return true;
}

/* A dashboard that shows the run has its files open, and lets go of them soon. */
static bool end_is_settled(struct live *l, bool once)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);

	if (!l->settle_ns)
		l->settle_ns = now;
	return !l->store->settle || l->store->settle(l->handle) <= 0 || once ||
	       now - l->settle_ns >= END_SETTLE_NS;
}

void live_finish(struct live *l, int rings, int runs, bool once)
{
	if (l->retired || !end_has_outcome(l, runs, once))
		return;
	if (!l->end_stored)
		end_store(l);
	if (!l->end_stored || !end_all_ended(l))
		return;
	while (live_tick(l, clock_ns(CLOCK_MONOTONIC), true))
		;
	if (l->handle && !l->failing && !live_is_pressed(l) && end_is_settled(l, once))
		end_retire(l, rings, runs);
}
