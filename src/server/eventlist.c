/* SPDX-License-Identifier: Apache-2.0
 *
 * eventlist.c - see eventlist.h.
 */
#include "server/eventlist.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"

void eventlist_init(struct eventlist *l, const struct eventlist_wish *wish)
{
	*l = (struct eventlist){.wish = *wish};
	map_init(&l->kinds);
	l->rows = xcalloc(2 * wish->limit, sizeof(*l->rows));
}

void eventlist_done(struct eventlist *l)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		event_row_done(&l->rows[i].row);
	for (i = 0; i < l->n_kinds; i++)
		free(l->kind[i].name);
	free(l->rows);
	free(l->numbers);
	map_done(&l->kinds);
}

/* Less than 0: a is newer. */
static int eventlist_order(const struct eventlist_at *a, const struct eventlist_at *b)
{
	if (a->time_ns != b->time_ns)
		return a->time_ns > b->time_ns ? -1 : 1;
	if (a->host != b->host)
		return a->host > b->host ? -1 : 1;
	return a->number > b->number ? -1 : a->number < b->number;
}

static int eventlist_compare(const void *a, const void *b)
{
	const struct eventlist_row *x = a, *y = b;

	return eventlist_order(&x->at, &y->at);
}

/* Keep a page of what there is. */
static void eventlist_cut(struct eventlist *l)
{
	if (l->n)
		qsort(l->rows, l->n, sizeof(*l->rows), eventlist_compare);
	while (l->n > l->wish.limit)
		event_row_done(&l->rows[--l->n].row);
}

static void eventlist_count(struct eventlist *l, const struct store_event *e, int severity)
{
	size_t len = strlen(e->kind);
	uint64_t i;

	l->by_severity[severity]++;
	if (map_get(&l->kinds, e->kind, len, &i)) {
		l->kind[i].n++;
	} else if (l->n_kinds < EVENTLIST_KINDS_MAX) {
		map_put(&l->kinds, e->kind, len, l->n_kinds);
		l->kind[l->n_kinds].name = xstrdup(e->kind);
		l->kind[l->n_kinds++].n = 1;
	}
}

static bool eventlist_has_kind(const struct eventlist_wish *w, const char *kind)
{
	size_t i;

	for (i = 0; i < w->n_kinds; i++)
		if (strcmp(w->kinds[i], kind) == 0)
			return true;
	return w->n_kinds == 0;
}

static bool eventlist_is_wanted(const struct eventlist_wish *w, const struct store_event *e)
{
	if (e->severity < w->severity || !eventlist_has_kind(w, e->kind))
		return false;
	if (w->by_time && (e->time_ns < w->time_min || e->time_ns > w->time_max))
		return false;
	return !w->text || strcasestr(e->kind, w->text) ||
	       (e->text && strcasestr(e->text, w->text)) ||
	       (e->attrs && strcasestr(e->attrs, w->text));
}

static uint64_t eventlist_number(struct eventlist *l, unsigned host)
{
	if (host >= l->n_hosts) {
		l->numbers = xrealloc(l->numbers, host + 1u, sizeof(*l->numbers));
		while (l->n_hosts <= host)
			l->numbers[l->n_hosts++] = 0;
	}
	return ++l->numbers[host];
}

void eventlist_add(struct eventlist *l, const struct store_event *e)
{
	int severity = e->severity < 0 ? 0 : e->severity > 3 ? 3 : e->severity;
	const struct eventlist_at at = {e->time_ns, e->host, eventlist_number(l, e->host)};

	eventlist_count(l, e, severity);
	if (!eventlist_is_wanted(&l->wish, e))
		return;
	l->total++;
	if (l->wish.has_after && eventlist_order(&at, &l->wish.after) <= 0)
		return;
	l->older++;
	if (l->n == 2 * l->wish.limit)
		eventlist_cut(l);
	l->rows[l->n].at = at;
	event_row_init(&l->rows[l->n++].row, e);
}

void eventlist_end(struct eventlist *l)
{
	eventlist_cut(l);
}

static int eventlist_one(void *arg, const struct store_event *e)
{
	eventlist_add(arg, e);
	return 0;
}

int eventlist_read(struct eventlist *l, const struct runview *v, struct err *e)
{
	int err = store_reader_events(v->reader, eventlist_one, l, e);

	eventlist_end(l);
	return err;
}

bool eventlist_has_more(const struct eventlist *l)
{
	return l->older > l->n;
}

bool eventlist_parse_at(const char *text, struct eventlist_at *ret)
{
	struct eventlist_at at;
	int n = 0;

	/* Only what eventlist_put_at() writes: sscanf() alone would take spaces and signs. */
	if (text[strspn(text, "-.0123456789")] ||
	    sscanf(text, "%" SCNd64 ".%u.%" SCNu64 "%n", &at.time_ns, &at.host, &at.number, &n) !=
		    3 ||
	    text[n])
		return false;
	*ret = at;
	return true;
}

void eventlist_put_at(char out[64], const struct eventlist_at *at)
{
	snprintf(out, 64, "%" PRId64 ".%u.%" PRIu64, at->time_ns, at->host, at->number);
}
