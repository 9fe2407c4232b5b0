/* SPDX-License-Identifier: Apache-2.0
 *
 * topdraw_processes.c - of topdraw.h the table of processes.
 */
#include "cli/topdraw_priv.h"

#include "base/fmt.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPDRAW_HOST_W 10             /* more columns for a name with its host */
#define TOPDRAW_MOST 40u              /* rows that the table would like */
#define TOPDRAW_GONE_NS 15000000000LL /* without a figure for so long: it is no more */

struct topdraw_process {
	const char *role;
	char slot[24];
	unsigned host;
	int64_t rank, pid;              /* -1, 0: not known */
	const struct topmodel_item *of; /* NULL: nothing is measured of it */
	bool ended;
};

static bool topdraw_is_own(const char *role)
{
	return strcmp(role, "host") == 0 || strcmp(role, "command") == 0;
}

/* The process that has the role and slot now: the newest such. One without any rank has the
 * slot that says the how manieth of its role it is. */
static const struct topmodel_process *topdraw_process_of(const struct topmodel *m,
							 const struct topmodel_item *i)
{
	const struct topmodel_process *found = NULL;
	char slot[32];
	int64_t number, nth = 0;
	size_t k;

	for (k = 0; k < m->n_processes; k++) {
		const struct topmodel_process *p = &m->processes[k];

		if (p->host != i->host || strcmp(p->role, i->name) != 0 || p->pid <= 0)
			continue;
		number = p->local_rank >= 0 ? p->local_rank : p->rank >= 0 ? p->rank : nth++;
		snprintf(slot, sizeof(slot), "%lld", (long long)number);
		if (strcmp(slot, i->slot) == 0 || (!i->slot[0] && number == 0))
			found = p;
	}
	return found;
}

static void topdraw_add_item(const struct topdraw *d, struct topdraw_process *to,
			     const struct topmodel_item *i)
{
	const struct topmodel_process *p = topdraw_process_of(d->m, i);

	*to = (struct topdraw_process){.role = i->name,
				       .host = i->host,
				       .rank = p ? p->rank : -1,
				       .pid = p ? p->pid : 0,
				       .of = i,
				       .ended = topdraw_end(d) - i->time_ns > TOPDRAW_GONE_NS ||
						!d->m->run.is_running};
	snprintf(to->slot, sizeof(to->slot), "%s", i->slot);
}

/* Is a measured process in the table already? */
static bool topdraw_has(const struct topdraw_process *all, size_t n,
			const struct topmodel_process *p)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (all[i].host == p->host && all[i].pid == p->pid && p->pid > 0)
			return true;
	return false;
}

/* All there are; the caller frees them. */
static struct topdraw_process *topdraw_list(const struct topdraw *d, size_t *ret_n)
{
	const struct topmodel_items *items = &d->m->items[TOP_PROC];
	struct topdraw_process *all = xcalloc(items->n + d->m->n_processes + 1, sizeof(*all));
	size_t i, n = 0, measured;

	for (i = 0; i < items->n; i++)
		topdraw_add_item(d, &all[n++], &items->all[i]);
	measured = n;
	for (i = 0; i < d->m->n_processes; i++) {
		const struct topmodel_process *p = &d->m->processes[i];

		if (topdraw_is_own(p->role) || topdraw_has(all, measured, p))
			continue;
		all[n++] =
			(struct topdraw_process){.role = p->role,
						 .host = p->host,
						 .rank = p->rank,
						 .pid = p->pid,
						 .ended = p->end_ns > 0 || !d->m->run.is_running};
	}
	*ret_n = n;
	return all;
}

/* ---- order ------------------------------------------------------------------------------------
 */

static int topdraw_by_role(const void *a, const void *b)
{
	const struct topdraw_process *x = a, *y = b;
	int r = strcmp(x->role, y->role);

	if (r == 0 && x->rank != y->rank)
		r = (uint64_t)x->rank < (uint64_t)y->rank ? -1 : 1;
	if (r == 0 && x->host != y->host)
		r = x->host < y->host ? -1 : 1;
	return r ? r : strverscmp(x->slot, y->slot);
}

static int topdraw_by(const struct topdraw_process *x, const struct topdraw_process *y, int field)
{
	double a = topdraw_of(x->of, field), b = topdraw_of(y->of, field);

	if (x->ended != y->ended)
		return x->ended ? 1 : -1;
	a = isnan(a) ? -1 : a;
	b = isnan(b) ? -1 : b;
	return a > b ? -1 : a < b ? 1 : topdraw_by_role(x, y);
}

static int topdraw_by_cpu(const void *a, const void *b)
{
	return topdraw_by(a, b, TOP_PROC_CPU);
}

static int topdraw_by_memory(const void *a, const void *b)
{
	return topdraw_by(a, b, TOP_PROC_RSS);
}

/* ---- the table ----------------------------------------------------------------------------------
 */

enum topdraw_what {
	TOPDRAW_ROLE,
	TOPDRAW_RANK,
	TOPDRAW_PID,
	TOPDRAW_CPU,
	TOPDRAW_RSS,
	TOPDRAW_GPU,
	TOPDRAW_READ,
	TOPDRAW_THREADS,
	TOPDRAW_STATE,
	TOPDRAW_WHATS
};

/* From the left; `from`: the columns a pane must have for it. */
static const struct {
	const char *head;
	int w, from;
} topdraw_columns[TOPDRAW_WHATS] = {
	{"PROCESS", 14, 0}, {"RANK", 5, 26},    {"PID", 8, 46},
	{"CPU %", 7, 20},   {"MEMORY", 10, 34}, {"GPU MEM", 10, 64},
	{"READ/S", 12, 78}, {"THREADS", 8, 86}, {"STATE", 9, 54},
};

static const char *topdraw_state(const struct topdraw_process *p)
{
	if (p->ended)
		return "ended";
	if (!p->of)
		return "runs";
	if (p->of->v[TOP_PROC_BLOCKED] >= 0.5)
		return "blocked";
	return p->of->v[TOP_PROC_CPU] >= 0.02 ? "runs" : "sleeps";
}

/* What is measured; "-": it is not, or of a process that is no more. */
static void topdraw_measured(char out[2 * FMT_MAX], const struct topdraw_process *p,
			     enum topdraw_what what)
{
	static const int field[TOPDRAW_WHATS] = {[TOPDRAW_CPU] = TOP_PROC_CPU,
						 [TOPDRAW_RSS] = TOP_PROC_RSS,
						 [TOPDRAW_GPU] = TOP_PROC_GPU,
						 [TOPDRAW_READ] = TOP_PROC_READ,
						 [TOPDRAW_THREADS] = TOP_PROC_THREADS};
	double v = topdraw_of(p->of, field[what]);

	if (isnan(v) || p->ended)
		snprintf(out, FMT_MAX, "-");
	else if (what == TOPDRAW_CPU)
		snprintf(out, FMT_MAX, "%.1f", v * 100);
	else if (what == TOPDRAW_THREADS)
		snprintf(out, FMT_MAX, "%.0f", v);
	else
		fmt_bytes(out, v);
	if (what == TOPDRAW_READ && out[0] != '-')
		snprintf(out + strlen(out), 3, "/s");
}

static void topdraw_number(char out[2 * FMT_MAX], int64_t n, bool known)
{
	if (known)
		snprintf(out, FMT_MAX, "%lld", (long long)n);
	else
		snprintf(out, FMT_MAX, "-");
}

static void topdraw_cell(char out[2 * FMT_MAX], const struct topdraw *d,
			 const struct topdraw_process *p, enum topdraw_what what)
{
	bool several = d->m->n_hosts > 1;

	if (what == TOPDRAW_ROLE)
		snprintf(out, 2 * FMT_MAX, "%.24s%s%s%s%.30s", p->role, p->slot[0] ? " " : "",
			 p->slot, several ? " @" : "", several ? d->m->hosts[p->host] : "");
	else if (what == TOPDRAW_RANK)
		topdraw_number(out, p->rank, p->rank >= 0);
	else if (what == TOPDRAW_PID)
		topdraw_number(out, p->pid, p->pid > 0);
	else if (what == TOPDRAW_STATE)
		snprintf(out, FMT_MAX, "%s", topdraw_state(p));
	else
		topdraw_measured(out, p, what);
}

/* One row; p NULL: the heads. */
static void topdraw_row(struct topdraw *d, const struct topgrid_rect *r, int y,
			const struct topdraw_process *p)
{
	char text[2 * FMT_MAX];
	int x = r->x, what, w, style, more = d->m->n_hosts > 1 && r->w >= 60 ? TOPDRAW_HOST_W : 0;

	for (what = 0; what < TOPDRAW_WHATS; what++) {
		if (r->w - more < topdraw_columns[what].from)
			continue;
		w = topdraw_columns[what].w + (what == TOPDRAW_ROLE ? more : 0);
		if (what == TOPDRAW_ROLE && r->w < 20)
			w = r->w;
		if (p)
			topdraw_cell(text, d, p, (enum topdraw_what)what);
		else
			snprintf(text, sizeof(text), "%s", topdraw_columns[what].head);
		style = !p || p->ended                                          ? TOPGRID_DIM
			: what == TOPDRAW_STATE && strcmp(text, "blocked") == 0 ? TOPGRID_BAD
										: TOPGRID_PLAIN;
		if (what == TOPDRAW_ROLE)
			topgrid_text(d->g, x, y, w - 1, style, text);
		else if (what == TOPDRAW_STATE)
			topgrid_text(d->g, x + 2, y, w - 2, style, text);
		else
			topgrid_right(d->g, x, y, w, style, text);
		x += w;
	}
}

int topdraw_processes_want(const struct topdraw *d)
{
	size_t n;

	free(topdraw_list(d, &n));
	return n ? 2 + (int)(n < TOPDRAW_MOST ? n : TOPDRAW_MOST) : 0;
}

void topdraw_processes(struct topdraw *d, struct topgrid_rect r)
{
	static int (*const orders[])(const void *, const void *) = {
		topdraw_by_cpu, topdraw_by_memory, topdraw_by_role};
	struct topdraw_process *all;
	size_t n, i, alive = 0;
	char text[96];
	int first, y;

	all = topdraw_list(d, &n);
	qsort(all, n, sizeof(*all), orders[d->v->sort]);
	for (i = 0; i < n; i++)
		alive += !all[i].ended;
	snprintf(text, sizeof(text), "%zu, %zu ended, by %s", alive, n - alive,
		 topview_sort_name(d->v));
	topdraw_title(d, &r, TOPVIEW_PROCESSES, text);
	first = topdraw_scroll(d, TOPVIEW_PROCESSES, (int)n, r.h - 1);
	if (r.h > 1)
		topdraw_row(d, &r, r.y, NULL);
	for (y = 1; y < r.h && first + y - 1 < (int)n; y++)
		topdraw_row(d, &r, r.y + y, &all[first + y - 1]);
	free(all);
}
