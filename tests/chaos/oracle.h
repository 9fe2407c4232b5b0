/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle.h - holds a stored run against the page of returned calls (calls.h): is
 * every accepted record there exactly once and in order, and do the counts add
 * up?
 */
#ifndef CHAOS_ORACLE_H
#define CHAOS_ORACLE_H

#include "base/buf.h"
#include "calls.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>

/* What is known of one process of the page. */
struct oracle_process {
	bool found;                                    /* the store knows it */
	uint64_t slots;                                /* threads and handlers in use */
	uint64_t returned;                             /* calls that returned, by the page */
	uint64_t points;                               /* records found in the store */
	uint64_t in_flight;                            /* of them, whose call had not returned */
	uint64_t stored, dropped, overwritten, broken; /* as the store counts */
};

struct oracle {
	struct oracle_process process[CALLS_PROCESSES];
	uint64_t n;
	enum run_outcome_kind outcome;
	int code, signal;
	int64_t end_ns;
	char id[128];
	struct buf problems; /* sentences, one a line; "" if all holds */
	struct buf events;   /* kinds of the run's events, one a line, in order */
	struct buf warning;  /* what the reader could not read */
};

/* Read the page in the file PATH into *ret. 0 or -errno; -EBADMSG: the program
 * did not come to begin it. */
int oracle_calls(const char *path, struct calls *ret);

/* Judge the run in folder dir; may_drop: retention may have dropped the oldest points,
 * of which only their number is known. The caller calls oracle_done(). */
void oracle_judge(const char *dir, const struct calls *c, bool may_drop, struct oracle *ret);
void oracle_done(struct oracle *o);

#endif
