/* SPDX-License-Identifier: Apache-2.0
 *
 * eventlist.h - a page of a run's events, the newest first, and how many there are of each
 * kind. Events are given in any order; no more than two pages are in memory.
 */
#ifndef SERVER_EVENTLIST_H
#define SERVER_EVENTLIST_H

#include "base/err.h"
#include "base/map.h"
#include "report/events.h"
#include "report/runview.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVENTLIST_KINDS_MAX 256u

/* Where an event stands in the order of time; the host and its number among the host's
 * events tell those of one moment apart. */
struct eventlist_at {
	int64_t time_ns;
	unsigned host;
	uint64_t number; /* from 1 */
};

/* Which events. Zero-initialise, then set what you need. */
struct eventlist_wish {
	const char *const *kinds; /* any of them; n 0: all */
	size_t n_kinds;
	int severity; /* at least */
	bool by_time;
	int64_t time_min, time_max;
	const char *text; /* part of kind, text or attributes, in any case; NULL: any */
	bool has_after;
	struct eventlist_at after; /* only older ones */
	size_t limit;              /* 1 or more */
};

struct eventlist_row {
	struct eventlist_at at;
	struct event_row row; /* strings owned */
};

struct eventlist {
	struct eventlist_wish wish;
	struct eventlist_row *rows; /* the newest first, once it was read */
	size_t n;
	uint64_t total; /* that match, whatever after and limit are */
	uint64_t older; /* of them, behind `after` */
	uint64_t by_severity[4];
	uint64_t *numbers; /* events so far of each host */
	size_t n_hosts;
	struct map kinds; /* index in kind */
	struct {
		char *name;
		uint64_t n;
	} kind[EVENTLIST_KINDS_MAX];
	size_t n_kinds;
};

void eventlist_init(struct eventlist *l, const struct eventlist_wish *wish);
void eventlist_done(struct eventlist *l);
/* Those of a host in the order in which it stored them. */
void eventlist_add(struct eventlist *l, const struct store_event *e);
/* After the last one was added: put the page in order. */
void eventlist_end(struct eventlist *l);
/* All of a run. 0 or -errno. */
int eventlist_read(struct eventlist *l, const struct runview *v, struct err *e);
/* Are there older ones than those of the page? */
bool eventlist_has_more(const struct eventlist *l);

/* "TIME.HOST.NUMBER". false: it is none. */
bool eventlist_parse_at(const char *text, struct eventlist_at *ret);
void eventlist_put_at(char out[64], const struct eventlist_at *at);

#endif
