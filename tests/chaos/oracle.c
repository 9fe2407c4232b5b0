/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ORACLE_TEXT_MAX (1u << 20)
#define ORACLE_SERIES_MAX 1024

/* What a series of the stress program holds. */
enum oracle_class {
	CLASS_SEQ,
	CLASS_F0,
	CLASS_F1,
	CLASS_F2,
	CLASS_AT,
	CLASS_HOT,
	CLASS_STEP,
	CLASSES
};

struct oracle_series {
	unsigned host;
	uint32_t id;
	unsigned process, slot; /* of the page */
	enum oracle_class class;
};

/* While one series is read: its points in order, and what is wrong with them. */
struct oracle_walk {
	const struct calls *calls;
	const struct oracle_series *series;
	uint64_t returned;
	uint64_t n, last, in_flight;
	uint64_t sum; /* of all values and their order */
	char wrong[160];
};

struct oracle_reading {
	struct store_reader *reader;
	const struct calls *calls;
	struct oracle *o;
	bool may_drop;
	struct {
		unsigned host;
		uint32_t id;
		unsigned process;
	} ids[CALLS_PROCESSES];
	size_t n_ids;
	struct oracle_series series[ORACLE_SERIES_MAX];
	size_t n_series;
};

int oracle_calls(const char *path, struct calls *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, ret, sizeof(*ret));
	close(fd);
	return n != sizeof(*ret) || ret->magic != CALLS_MAGIC ? -EBADMSG : 0;
}

/* ---- which process, which series --------------------------------------------- */

static int oracle_on_process(void *arg, const struct store_process *p)
{
	struct oracle_reading *r = arg;
	struct oracle_process *to;
	unsigned i;

	/* The command itself is there once more, for its machine figures. */
	if (strcmp(p->role, "trainer") != 0 && strcmp(p->role, "worker") != 0)
		return 0;
	for (i = 0; i < r->o->n; i++)
		if ((int64_t)r->calls->process[i].pid == p->pid)
			break;
	if (i == r->o->n) {
		buf_printf(&r->o->problems, "process %" PRId64 " is stored and never recorded\n",
			   p->pid);
		return 0;
	}
	to = &r->o->process[i];
	if (to->found)
		buf_printf(&r->o->problems, "process %" PRId64 " is stored twice\n", p->pid);
	to->found = true;
	to->stored += p->stored;
	to->dropped += p->dropped;
	to->overwritten += p->overwritten;
	to->broken += p->broken;
	if (r->n_ids < CALLS_PROCESSES) {
		r->ids[r->n_ids].host = p->host;
		r->ids[r->n_ids].id = p->id;
		r->ids[r->n_ids++].process = i;
	}
	return 0;
}

static bool oracle_class(const struct store_series *s, struct oracle_series *ret)
{
	static const char *const names[CLASSES] = {[CLASS_SEQ] = "seq",
						   [CLASS_F0] = "f0",
						   [CLASS_F1] = "f1",
						   [CLASS_F2] = "f2",
						   [CLASS_STEP] = "step"};
	int i;

	ret->slot = 0;
	for (i = 0; i < CLASSES; i++)
		if (names[i] && strcmp(s->name, names[i]) == 0)
			break;
	if (i == CLASSES && sscanf(s->name, "at/%u", &ret->slot) == 1)
		i = CLASS_AT;
	else if (i == CLASSES && sscanf(s->name, "hot/%u", &ret->slot) == 1)
		i = CLASS_HOT;
	else if (i < CLASS_AT && sscanf(s->labels, "thread=\"%u\"", &ret->slot) != 1)
		return false;
	ret->class = (enum oracle_class)i;
	return i < CLASSES && ret->slot < CALLS_SLOTS;
}

static int oracle_on_series(void *arg, const struct store_series *s)
{
	struct oracle_reading *r = arg;
	struct oracle_series *to = &r->series[r->n_series];
	size_t i;

	if (strcmp(s->source, "record") != 0 || r->n_series == ORACLE_SERIES_MAX)
		return 0;
	for (i = 0; i < r->n_ids; i++)
		if (r->ids[i].host == s->host && r->ids[i].id == s->process)
			break;
	if (i == r->n_ids)
		return 0;
	if (!oracle_class(s, to)) {
		buf_printf(&r->o->problems, "series %s{%s} was never defined\n", s->name,
			   s->labels);
		return 0;
	}
	to->host = s->host;
	to->id = s->id;
	to->process = r->ids[i].process;
	r->n_series++;
	return 0;
}

/* ---- the points of a series ---------------------------------------------------- */

static char oracle_kind(const struct calls *c, unsigned slot, uint64_t i)
{
	char kind = c->kinds[i % strlen(c->kinds)];

	return kind == CALLS_STEP && slot != 0 ? CALLS_SET : kind;
}

static void oracle_number(struct oracle_walk *w, uint64_t i)
{
	static const char of_class[CLASSES] = {
		[CLASS_SEQ] = CALLS_SET,  [CLASS_F0] = CALLS_FRAME, [CLASS_F1] = CALLS_FRAME,
		[CLASS_F2] = CALLS_FRAME, [CLASS_AT] = CALLS_SPAN,  [CLASS_STEP] = CALLS_STEP};

	if (w->n > 0 && i <= w->last && !w->wrong[0])
		snprintf(w->wrong, sizeof(w->wrong), "%" PRIu64 " comes after %" PRIu64, i,
			 w->last);
	if (i > w->returned && !w->wrong[0])
		snprintf(w->wrong, sizeof(w->wrong),
			 "%" PRIu64 " is stored, and only %" PRIu64 " calls had returned", i,
			 w->returned);
	if (oracle_kind(w->calls, w->series->slot, i) != of_class[w->series->class] && !w->wrong[0])
		snprintf(w->wrong, sizeof(w->wrong), "%" PRIu64 " belongs to another kind of call",
			 i);
	w->in_flight += i == w->returned;
	w->last = i;
}

static int oracle_on_point(void *arg, const struct store_point *p)
{
	struct oracle_walk *w = arg;
	double value = w->series->class == CLASS_STEP ? (double)p->step : p->value;

	if (w->series->class == CLASS_HOT)
		value = (double)w->n;
	else if (!(value >= 0 && value < 9e15) || value != floor(value))
		snprintf(w->wrong, sizeof(w->wrong), "%.17g is no number of a call", value);
	else
		oracle_number(w, (uint64_t)value);
	w->n++;
	w->sum = (w->sum ^ (uint64_t)value) * 0x9e3779b97f4a7c15u;
	w->sum ^= w->sum >> 29;
	return 0;
}

/* How many calls of this slot record in series of this class. */
static uint64_t oracle_expected(const struct calls *c, unsigned slot, uint64_t returned, char kind)
{
	uint64_t n = strlen(c->kinds), i, expected = 0;

	for (i = 0; i < n; i++)
		if (oracle_kind(c, slot, i) == kind)
			expected += returned / n + (returned % n > i);
	return expected;
}

/* Points that are only in summaries count as there, if they may be. */
static void oracle_dropped(struct oracle_reading *r, const struct oracle_series *s,
			   struct oracle_walk *w)
{
	const struct store_ref ref = {s->host, s->id};
	struct store_bucket all;
	struct err e = {0};

	if (store_reader_total(r->reader, &ref, true, &e, &all) < 0) {
		snprintf(w->wrong, sizeof(w->wrong), "no total: %.120s", e.text);
		return;
	}
	if (all.count < w->n || (all.count > w->n && !r->may_drop))
		snprintf(w->wrong, sizeof(w->wrong),
			 "%" PRIu64 " points are there, the summaries say %" PRIu64, w->n,
			 all.count);
	w->n = all.count;
}

static void oracle_read_series(struct oracle_reading *r, const struct oracle_series *s,
			       struct oracle_walk *w)
{
	static const char *const names[CLASSES] = {"seq", "f0", "f1", "f2", "at", "hot", "step"};
	const struct calls_process *p = &r->calls->process[s->process];
	struct store_range range = {.all_segments = true};
	struct err e = {0};
	uint64_t expected;
	int err;

	*w = (struct oracle_walk){.calls = r->calls, .series = s};
	w->returned = p->slot[s->slot].returned;
	err = store_reader_points(r->reader, s->host, s->id, &range, oracle_on_point, w, &e);
	if (err && !w->wrong[0])
		snprintf(w->wrong, sizeof(w->wrong), "cannot be read: %.120s", e.text);
	oracle_dropped(r, s, w);
	expected = oracle_expected(r->calls, s->slot, w->returned, CALLS_HOT);
	if (s->class == CLASS_HOT && w->n > expected + 1 && !w->wrong[0])
		snprintf(w->wrong, sizeof(w->wrong), "%" PRIu64 " spans of %" PRIu64 " calls", w->n,
			 expected);
	if (w->wrong[0])
		buf_printf(&r->o->problems, "process %" PRIu64 " slot %u series %s: %s\n", p->pid,
			   s->slot, names[s->class], w->wrong);
}

/* All series; the three of a frame must hold the same. */
static void oracle_points(struct oracle_reading *r)
{
	static struct {
		uint64_t n, sum;
	} frames[CALLS_PROCESSES][CALLS_SLOTS][3];
	struct oracle_walk w;
	unsigned p, t, k;
	size_t i;

	memset(frames, 0, sizeof(frames));
	for (i = 0; i < r->n_series; i++) {
		const struct oracle_series *s = &r->series[i];

		oracle_read_series(r, s, &w);
		if (s->class >= CLASS_F0 && s->class <= CLASS_F2) {
			frames[s->process][s->slot][s->class - CLASS_F0].n = w.n;
			if (!r->may_drop)
				frames[s->process][s->slot][s->class - CLASS_F0].sum = w.sum;
		}
		if (s->class == CLASS_F1 || s->class == CLASS_F2)
			continue;
		r->o->process[s->process].points += w.n;
		r->o->process[s->process].in_flight += w.in_flight;
	}
	for (p = 0; p < r->o->n; p++)
		for (t = 0; t < CALLS_SLOTS; t++)
			for (k = 1; k < 3; k++)
				if (memcmp(&frames[p][t][0], &frames[p][t][k],
					   sizeof(frames[p][t][0])) != 0)
					buf_printf(&r->o->problems,
						   "process %" PRIu64 " slot %u: frames are not "
						   "whole: %" PRIu64 " values and %" PRIu64 "\n",
						   r->calls->process[p].pid, t, frames[p][t][0].n,
						   frames[p][t][k].n);
}

/* ---- the counts ------------------------------------------------------------------- */

static void oracle_counts(struct oracle *o, const struct calls *c, unsigned i)
{
	const struct calls_process *page = &c->process[i];
	struct oracle_process *p = &o->process[i];
	uint64_t known = p->stored + p->dropped + p->overwritten + p->broken;
	uint64_t open = page->state == CALLS_CLOSED ? 0 : p->slots, gone, lost;

	if (!p->found && p->returned > 0)
		buf_printf(&o->problems,
			   "process %" PRIu64 ": not stored; %" PRIu64 " calls had returned\n",
			   page->pid, p->returned);
	if (!p->found)
		return;
	if (p->broken)
		buf_printf(&o->problems, "process %" PRIu64 ": %" PRIu64 " records are broken\n",
			   page->pid, p->broken);
	if (p->stored != p->points)
		buf_printf(&o->problems,
			   "process %" PRIu64 ": %" PRIu64 " records count as stored "
			   "and %" PRIu64 " are there\n",
			   page->pid, p->stored, p->points);
	if (known < p->returned + p->in_flight || known > p->returned + open)
		buf_printf(&o->problems,
			   "process %" PRIu64 ": %" PRIu64 " calls returned, in %" PRIu64
			   " threads; "
			   "stored %" PRIu64 " + dropped %" PRIu64 " + overwritten %" PRIu64
			   " + broken %" PRIu64 " = %" PRIu64 "\n",
			   page->pid, p->returned, p->slots, p->stored, p->dropped, p->overwritten,
			   p->broken, known);
	/* What the sequences lack against what the counts admit. */
	gone = p->dropped + p->overwritten;
	lost = p->returned + p->in_flight - p->points;
	if (p->returned + p->in_flight < p->points)
		lost = 0;
	if (gone < lost || gone > lost + open)
		buf_printf(&o->problems,
			   "process %" PRIu64 ": the sequences lack %" PRIu64
			   ", the counts say %" PRIu64 "\n",
			   page->pid, lost, gone);
}

static int oracle_on_event(void *arg, const struct store_event *e)
{
	static const char *const bad[] = {"lane-damaged", "registry-damaged",
					  "definition-conflict"};
	struct oracle *o = arg;
	size_t i;

	buf_printf(&o->events, "%s\n", e->kind);
	for (i = 0; i < ARRAY_LEN(bad); i++)
		if (strcmp(e->kind, bad[i]) == 0)
			buf_printf(&o->problems, "event %s: %s\n", e->kind, e->text);
	return 0;
}

static void oracle_read(struct oracle_reading *r, struct err *e)
{
	struct store_run run;
	struct oracle *o = r->o;
	unsigned i;

	if (store_reader_run(r->reader, &run, e) < 0 ||
	    store_reader_processes(r->reader, oracle_on_process, r, e) < 0 ||
	    store_reader_series(r->reader, oracle_on_series, r, e) < 0 ||
	    store_reader_events(r->reader, oracle_on_event, o, e) < 0) {
		buf_printf(&o->problems, "%s\n", e->text);
		return;
	}
	o->outcome = run.outcome;
	o->code = run.code;
	o->signal = run.signal;
	o->end_ns = run.end_ns;
	snprintf(o->id, sizeof(o->id), "%s", run.id);
	oracle_points(r);
	for (i = 0; i < o->n; i++)
		oracle_counts(o, r->calls, i);
}

void oracle_judge(const char *dir, const struct calls *c, bool may_drop, struct oracle *ret)
{
	struct oracle_reading *r = xcalloc(1, sizeof(*r));
	struct err e = {0};
	unsigned i, k;

	memset(ret, 0, sizeof(*ret));
	buf_init(&ret->problems, ORACLE_TEXT_MAX);
	buf_init(&ret->events, ORACLE_TEXT_MAX);
	buf_init(&ret->warning, ORACLE_TEXT_MAX);
	ret->n = c->processes < CALLS_PROCESSES ? c->processes : CALLS_PROCESSES;
	for (i = 0; i < ret->n; i++)
		for (k = 0; k < CALLS_SLOTS; k++) {
			ret->process[i].slots += c->process[i].slot[k].used;
			ret->process[i].returned += c->process[i].slot[k].returned;
		}
	r->calls = c;
	r->o = ret;
	r->may_drop = may_drop;
	if (store_reader_open(dir, &e, &r->reader) < 0) {
		buf_printf(&ret->problems, "%s\n", e.text);
	} else {
		oracle_read(r, &e);
		buf_puts(&ret->warning, store_reader_warning(r->reader));
		store_reader_close(r->reader);
	}
	free(r);
}

void oracle_done(struct oracle *o)
{
	buf_done(&o->problems);
	buf_done(&o->events);
	buf_done(&o->warning);
}
