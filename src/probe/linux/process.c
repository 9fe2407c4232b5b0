/* SPDX-License-Identifier: Apache-2.0
 *
 * The group process: each process of the tree under its role and a number in it.
 * The group tree has read them; here they get their names, and what befell them is
 * told: ended, blocked in the kernel.
 */
#include "probe/linux/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "probe/groups.h"
#include "probe/linux/role.h"
#include "probe/linux/side.h"
#include "probe/linux/task.h"

#define PROCESS_MAX 256      /* processes with figures of their own */
#define PROCESS_NUMBERS 1024 /* numbers that are given out in a role; others may be said */
#define PROCESS_STUCK_NS 10000000000u
#define PROCESS_HINT_NS 5000000000u /* how long a role waits for a command line */
#define PROCESS_PSS_NS 60000000000u /* between readings of PSS, of one process each */

/* What a command line said. */
enum process_hint {
	HINT_NONE, /* not asked */
	HINT_ASKED,
	HINT_SPAWNED,
	HINT_OTHER
};

/* A process with a name, or waiting for one (role ""). */
struct process_place {
	bool used, seen, said; /* said: by env->who */
	long pid, ppid;
	uint64_t start;
	char role[ROLE_MAX];
	int number, said_number;
	/* What its role was guessed from. */
	char name[16];
	uint64_t stack;
	enum process_hint hint;
	uint64_t asked_ns;
	int ticket, pss_ticket; /* of side.h; -1: none */
	uint64_t first_ns, stuck_ns;
	bool stuck_told;
	unsigned exit_code; /* as wait() gives it */
	uint32_t points[PROCESS_ROWS];
};

struct process_group {
	const struct probe_env *env;
	struct probe_tree *tree;
	struct side *side;
	struct process_place *places; /* PROCESS_MAX */
	size_t top;                   /* none is used from here on */
	bool full_told;
	uint64_t read_ns; /* tree's reading that was looked at last */
	uint64_t pss_ns;  /* when PSS was asked for last; 0: never */
	size_t pss_next;
};

static int process_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
			struct err *e)
{
	struct process_group *g;

	(void)s;
	if (!env->tree)
		return err_set(e, -ENODEV, "no process of the run is known");
	g = calloc(1, sizeof(*g));
	if (g) {
		g->env = env;
		g->tree = env->tree;
		g->side = side_new(env->root);
		g->places = calloc(PROCESS_MAX, sizeof(*g->places));
	}
	if (!g || !g->side || !g->places) {
		if (g) {
			side_free(g->side);
			free(g->places);
		}
		free(g);
		return -ENOMEM;
	}
	*ret_state = g;
	return 0;
}

static void process_close(void *state)
{
	struct process_group *g = state;
	size_t i;

	/* The tree goes on with the next one who asks. */
	for (i = 0; i < g->tree->len; i++)
		g->tree->procs[i].slot = -1;
	side_free(g->side);
	free(g->places);
	free(g);
}

static struct process_place *process_of(const struct process_group *g, const struct probe_proc *p)
{
	struct process_place *place = p->slot >= 0 ? &g->places[p->slot] : NULL;

	return place && place->used && place->pid == p->pid && place->start == p->start ? place
											: NULL;
}

/* ---- names ---------------------------------------------------------------------- */

static bool process_is_taken(const struct process_group *g, const struct process_place *self,
			     const char *role, int number)
{
	size_t i;

	for (i = 0; i < g->top; i++) {
		const struct process_place *o = &g->places[i];

		if (o != self && o->used && o->number == number && strcmp(o->role, role) == 0)
			return true;
	}
	return false;
}

/* The smallest number that no other process of the role has. */
static int process_number(const struct process_group *g, const struct process_place *self,
			  const char *role)
{
	uint8_t used[PROCESS_NUMBERS] = {0};
	size_t i;
	int n = 0;

	for (i = 0; i < g->top; i++) {
		const struct process_place *o = &g->places[i];

		if (o != self && o->used && o->number >= 0 && o->number < PROCESS_NUMBERS &&
		    strcmp(o->role, role) == 0)
			used[o->number] = 1;
	}
	while (used[n]) /* there are fewer places than numbers */
		n++;
	return n;
}

static void process_absent(const struct process_place *place, struct probe_set *s, const char *why)
{
	int i;

	for (i = 0; i < PROCESS_ROWS; i++)
		probe_absent(s, place->points[i], why);
}

/* Give it a role, and the number wanted or, if that is taken or < 0, a free one. */
static void process_name(struct process_group *g, struct probe_set *s, struct process_place *place,
			 const char *role, int number)
{
	char labels[PROBE_LABELS_MAX] = "", text[16];
	int i;

	if (strcmp(role, place->role) == 0 && (number < 0 || number == place->number))
		return;
	if (number < 0 || process_is_taken(g, place, role, number)) {
		if (strcmp(role, place->role) == 0)
			return; /* it keeps the one that it has */
		number = process_number(g, place, role);
	}
	if (place->role[0])
		process_absent(place, s, "the process has got another role");
	snprintf(place->role, sizeof(place->role), "%s", role);
	place->number = number;
	snprintf(text, sizeof(text), "%d", number);
	probe_label(labels, sizeof(labels), "role", place->role);
	probe_label(labels, sizeof(labels), "slot", text);
	for (i = 0; i < PROCESS_ROWS; i++)
		place->points[i] = probe_point(s, &process_rows[i], labels);
	process_absent(place, s, "not read yet: some processes are at each reading");
	if (!g->env->pss)
		probe_absent(s, place->points[PROCESS_PSS],
			     "off, as reading it holds up the process: 12 ms a GiB; "
			     "probe.pss: true switches it on");
	else
		probe_absent(s, place->points[PROCESS_PSS],
			     "not read yet: one process a minute is");
}

/* Ask for the command line of a Python process, and take what it says. */
static enum process_hint process_hint(struct process_group *g, struct process_place *place)
{
	uint64_t now = g->tree->read_ns;
	struct side_answer a;

	if (place->hint == HINT_NONE) {
		place->ticket = side_ask(g->side, place->pid, "cmdline");
		place->hint = place->ticket < 0 ? HINT_OTHER : HINT_ASKED;
		place->asked_ns = now;
	} else if (place->hint == HINT_ASKED && side_take(g->side, place->ticket, &a) == 0) {
		place->ticket = -1;
		place->hint = role_is_spawned(a.text, a.len) ? HINT_SPAWNED : HINT_OTHER;
	} else if (place->hint == HINT_ASKED && now - place->asked_ns > PROCESS_HINT_NS) {
		side_drop(g->side, place->ticket);
		place->ticket = -1;
		place->hint = HINT_OTHER;
	}
	return place->hint;
}

/* The likely role; "" not yet known. */
static const char *process_guess(struct process_group *g, struct process_place *place,
				 const struct probe_proc *p)
{
	const struct probe_proc *parent = probe_tree_find(g->tree, p->ppid);
	const struct process_place *above = parent ? process_of(g, parent) : NULL;
	enum process_hint hint;

	if (p->pid == g->env->pid)
		return "command";
	if (role_is_worker(p, parent, above ? above->role : ""))
		return "worker";
	if (!role_is_python(p))
		return "child";
	hint = process_hint(g, place);
	return hint == HINT_ASKED ? "" : hint == HINT_SPAWNED ? "worker" : "child";
}

static void process_identify(struct process_group *g, struct probe_set *s,
			     struct process_place *place, const struct probe_proc *p)
{
	char role[ROLE_MAX] = "";
	const char *guess;
	int number = -1;

	if (g->env->who && g->env->who(g->env->arg, p->pid, p->start, role, &number) && role[0]) {
		role[ROLE_MAX - 1] = '\0';
		if (!place->said || number != place->said_number || strcmp(role, place->role) != 0)
			process_name(g, s, place, role, number);
		place->said = true;
		place->said_number = number;
		return;
	}
	if (place->said)
		return;
	/* exec() and set_thread_name() show it in another light. */
	if (place->stack != p->stack || strcmp(place->name, p->name) != 0) {
		memcpy(place->name, p->name, sizeof(place->name));
		if (place->stack != p->stack && place->hint != HINT_ASKED)
			place->hint = HINT_NONE;
		place->stack = p->stack;
	} else if (place->role[0])
		return;
	guess = process_guess(g, place, p);
	if (guess[0])
		process_name(g, s, place, guess, -1);
}

/* ---- coming ----------------------------------------------------------------------- */

static void process_full(struct process_group *g, struct probe_set *s)
{
	char text[160];

	if (g->full_told)
		return;
	g->full_told = true;
	snprintf(text, sizeof(text),
		 "the run has more than %d processes: the others have no figures of their own and "
		 "count in those of the tree only",
		 PROCESS_MAX);
	probe_event(s, 1, "processes-many", text, "");
}

static bool process_enter(struct process_group *g, struct probe_proc *p)
{
	int i;

	for (i = 0; i < PROCESS_MAX && g->places[i].used; i++)
		continue;
	if (i == PROCESS_MAX)
		return false;
	g->places[i] = (struct process_place){
		.used = true,
		.pid = p->pid,
		.ppid = p->ppid,
		.start = p->start,
		.number = -1,
		.ticket = -1,
		.pss_ticket = -1,
		.first_ns = g->tree->read_ns,
	};
	if ((size_t)i >= g->top)
		g->top = (size_t)i + 1;
	p->slot = i;
	return true;
}

static int process_compare(const void *a, const void *b)
{
	const struct probe_proc *const *p = a, *const *q = b;

	if ((*p)->start != (*q)->start)
		return (*p)->start < (*q)->start ? -1 : 1;
	return (*p)->pid < (*q)->pid ? -1 : (*p)->pid > (*q)->pid;
}

/* New processes in the order in which they started. */
static void process_come(struct process_group *g, struct probe_set *s)
{
	struct probe_proc *fresh[PROCESS_MAX];
	size_t i, n = 0;

	for (i = 0; i < g->tree->len; i++) {
		struct probe_proc *p = &g->tree->procs[i];

		if (probe_proc_is_zombie(p) || process_of(g, p))
			continue;
		if (n < PROCESS_MAX)
			fresh[n++] = p;
		else
			process_full(g, s);
	}
	qsort(fresh, n, sizeof(fresh[0]), process_compare);
	for (i = 0; i < n; i++) {
		if (!process_enter(g, fresh[i])) {
			process_full(g, s);
			break;
		}
		process_identify(g, s, process_of(g, fresh[i]), fresh[i]);
	}
}

/* ---- going ------------------------------------------------------------------------ */

/* A worker or trainer that ends while its parent lives on may be news; whoever else
 * ends is not. */
static bool process_is_news(const struct process_group *g, const struct process_place *place)
{
	const struct probe_proc *parent = probe_tree_find(g->tree, place->ppid);

	return place->role[0] && strcmp(place->role, "command") != 0 &&
	       strcmp(place->role, "child") != 0 && place->pid != g->env->pid && parent &&
	       !probe_proc_is_zombie(parent);
}

/* Signals that nobody sends to end a worker in an orderly way. */
static int process_bad_signal(const struct process_place *place)
{
	static const int bad[] = {SIGKILL, SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGSYS};
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if ((int)(place->exit_code & 0x7f) == bad[i])
			return bad[i];
	return 0;
}

static void process_event_begin(struct buf *attrs, struct json *j, const char *role)
{
	buf_init(attrs, 1024);
	json_init(j, attrs);
	json_object(j);
	json_kstr(j, "role", role);
}

static void process_killed(const struct process_group *g, struct probe_set *s,
			   const struct process_place *place, int sig)
{
	double lived = (double)(g->tree->read_ns - place->first_ns) / 1e9;
	struct buf attrs;
	char text[256];
	struct json j;

	process_event_begin(&attrs, &j, place->role);
	json_kint(&j, "slot", place->number);
	json_kint(&j, "pid", place->pid);
	json_kint(&j, "signal", sig);
	json_object_end(&j);
	snprintf(text, sizeof(text), "%s %d (pid %ld) was killed by signal %d (%s) after %.0f s%s",
		 place->role, place->number, place->pid, sig, strsignal(sig), lived,
		 sig == SIGBUS ? ": is /dev/shm full?" : "");
	probe_event(s, 2, "process-ended", text, buf_str(&attrs));
	buf_done(&attrs);
}

/* One event for all of a role that ended by themselves: at the end of an epoch these
 * are all workers. */
static void process_ended(struct probe_set *s, struct process_place *const *gone, size_t n,
			  const char *role)
{
	struct buf attrs, text;
	unsigned count = 0;
	struct json j;
	size_t i;

	buf_init(&text, 400);
	process_event_begin(&attrs, &j, role);
	json_key(&j, "slots");
	json_array(&j);
	for (i = 0; i < n; i++) {
		if (strcmp(gone[i]->role, role) != 0 || process_bad_signal(gone[i]))
			continue;
		buf_printf(&text, "%s%s %d (pid %ld)", count++ ? ", " : "", role, gone[i]->number,
			   gone[i]->pid);
		json_int(&j, gone[i]->number);
	}
	json_array_end(&j);
	json_object_end(&j);
	if (count > 3) {
		buf_reset(&text);
		buf_printf(&text, "%u processes of role %s", count, role);
	}
	buf_puts(&text, " ended while the run goes on");
	if (count)
		probe_event(s, 1, "process-ended", buf_str(&text),
			    attrs.error ? "" : buf_str(&attrs));
	buf_done(&text);
	buf_done(&attrs);
}

static void process_leave(struct process_group *g, struct probe_set *s, struct process_place *place)
{
	if (place->ticket >= 0)
		side_drop(g->side, place->ticket);
	if (place->pss_ticket >= 0)
		side_drop(g->side, place->pss_ticket);
	if (place->role[0])
		process_absent(place, s, "the process has ended");
	*place = (struct process_place){0};
}

static void process_go(struct process_group *g, struct probe_set *s)
{
	struct process_place *gone[PROCESS_MAX];
	size_t i, k, n = 0;
	int sig;

	for (i = 0; i < g->top; i++)
		if (g->places[i].used && !g->places[i].seen && process_is_news(g, &g->places[i]))
			gone[n++] = &g->places[i];
	for (i = 0; i < n; i++) {
		sig = process_bad_signal(gone[i]);
		if (sig)
			process_killed(g, s, gone[i], sig);
		for (k = 0; k < i && strcmp(gone[k]->role, gone[i]->role) != 0; k++)
			continue;
		if (k == i) /* the first of its role */
			process_ended(s, gone, n, gone[i]->role);
	}
	for (i = 0; i < g->top; i++)
		if (g->places[i].used && !g->places[i].seen)
			process_leave(g, s, &g->places[i]);
}

/* ---- stuck ------------------------------------------------------------------------ */

static void process_tell_stuck(const struct process_group *g, struct probe_set *s,
			       const struct process_place *place)
{
	double for_s = (double)(g->tree->read_ns - place->stuck_ns) / 1e9;
	char text[320], wait[128] = "";
	struct buf attrs;
	struct json j;
	size_t len = 0;

	if (probe_tree_text(g->tree, place->pid, "wchan", wait, sizeof(wait) - 1, &len))
		len = 0;
	wait[len] = '\0';
	if (strcmp(wait, "0") == 0)
		wait[0] = '\0'; /* hidden from us */
	process_event_begin(&attrs, &j, place->role);
	json_kint(&j, "slot", place->number);
	json_kint(&j, "pid", place->pid);
	json_kdouble(&j, "seconds", for_s);
	json_kstr(&j, "wait", wait);
	json_object_end(&j);
	snprintf(text, sizeof(text),
		 "%s %d (pid %ld) has been blocked in the kernel for %.0f s (state D, no CPU used)"
		 "%s%s: storage, a network file system or a driver does not answer",
		 place->role, place->number, place->pid, for_s, wait[0] ? ", waiting in " : "",
		 wait);
	probe_event(s, 2, "blocked", text, buf_str(&attrs));
	buf_done(&attrs);
}

static void process_watch(const struct process_group *g, struct probe_set *s,
			  struct process_place *place, const struct probe_proc *p)
{
	char text[160];

	if (place->stuck_told && p->stuck_ns != place->stuck_ns) {
		place->stuck_told = false;
		snprintf(text, sizeof(text), "%s %d (pid %ld) runs again after %.0f s", place->role,
			 place->number, place->pid,
			 (double)(g->tree->read_ns - place->stuck_ns) / 1e9);
		probe_event(s, 1, "blocked-over", text, "");
	}
	place->stuck_ns = p->stuck_ns;
	if (!p->stuck_ns || place->stuck_told || g->tree->read_ns - p->stuck_ns < PROCESS_STUCK_NS)
		return;
	place->stuck_told = true;
	process_tell_stuck(g, s, place);
}

/* ---- PSS -------------------------------------------------------------------------- */

static void process_take_pss(struct process_group *g, struct probe_set *s,
			     struct process_place *place)
{
	struct side_answer a;
	uint64_t pss;

	if (place->pss_ticket < 0 || side_take(g->side, place->pss_ticket, &a) != 0)
		return;
	place->pss_ticket = -1;
	if (a.err == 0 && task_parse_pss(a.text, a.len, &pss) == 0)
		probe_put(s, place->points[PROCESS_PSS], (double)pss);
	else
		probe_absent(s, place->points[PROCESS_PSS],
			     a.err == -EACCES   ? "its smaps_rollup is not ours to read"
			     : a.err == -ENOENT ? "needs Linux 4.14"
						: "it could not be read");
}

static void process_ask_pss(struct process_group *g)
{
	size_t i;

	if (!g->env->pss || (g->pss_ns && g->tree->read_ns - g->pss_ns < PROCESS_PSS_NS))
		return;
	for (i = 0; i < g->top; i++) {
		struct process_place *place = &g->places[(g->pss_next + i) % g->top];

		if (!place->used || !place->role[0] || place->pss_ticket >= 0)
			continue;
		place->pss_ticket = side_ask(g->side, place->pid, "smaps_rollup");
		g->pss_next = (g->pss_next + i + 1) % g->top;
		g->pss_ns = g->tree->read_ns;
		return;
	}
}

/* ---- reading ---------------------------------------------------------------------- */

static void process_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct process_group *g = state;
	struct process_place *place;
	size_t i;

	(void)now; /* values are of the tree's reading */
	if (g->tree->read_ns == g->read_ns)
		return; /* which there was none of since */
	g->read_ns = g->tree->read_ns;
	for (i = 0; i < g->top; i++)
		g->places[i].seen = false;
	for (i = 0; i < g->tree->len; i++) {
		const struct probe_proc *p = &g->tree->procs[i];

		place = process_of(g, p);
		if (!place)
			continue;
		place->seen = !probe_proc_is_zombie(p);
		place->ppid = p->ppid;
		place->exit_code = place->seen ? 0 : p->exit_code;
	}
	process_go(g, s);
	process_come(g, s);
	for (i = 0; i < g->tree->len; i++) {
		struct probe_proc *p = &g->tree->procs[i];

		place = probe_proc_is_zombie(p) ? NULL : process_of(g, p);
		if (!place)
			continue;
		process_identify(g, s, place, p);
		if (!place->role[0])
			continue;
		process_put(p, s, place->points);
		process_watch(g, s, place, p);
		process_take_pss(g, s, place);
	}
	process_ask_pss(g);
}

const struct probe_group probe_process = {
	.name = "process",
	.metrics = process_rows,
	.n_metrics = PROCESS_ROWS,
	.place = PROBE_INLINE,
	.period_ns = 1000000000,
	.of_run = true,
	.open = process_open,
	.read = process_read,
	.close = process_close,
};
