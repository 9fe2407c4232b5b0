/* SPDX-License-Identifier: Apache-2.0
 *
 * round.h - one round of the kill test: a program that records under `lapse
 * run`, somebody dies by SIGKILL, the run is brought to its end and held against
 * what the program had counted. A round has its own folders and its own agent.
 */
#ifndef CHAOS_ROUND_H
#define CHAOS_ROUND_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

enum round_victim {
	VICTIM_TRAINER,
	VICTIM_LAUNCHER,
	VICTIM_AGENT,
	VICTIM_AGENT_TWICE,
	VICTIM_LAUNCHER_AGENT,
	VICTIM_ALL,
	VICTIMS
};

/* What the agents are told of the store. */
enum round_store {
	ROUND_IN_PLACE,
	ROUND_LOCAL,    /* live in a private folder, moved at the end */
	ROUND_FOLDED,   /* so much is recorded that it is folded meanwhile */
	ROUND_RETAINED, /* only the last points may stay */
	ROUND_STORES
};

/* Everything that is left to chance, drawn before the round begins. */
struct round_plan {
	enum round_victim victim;
	bool early;           /* strike without waiting for the program to begin */
	bool end_by_kill;     /* the program, where it lives on: SIGKILL, else SIGTERM */
	bool end_agent;       /* end a living agent and recover, rather than wait for it */
	bool zombies;         /* nobody reaps orphans until the run is finished */
	unsigned finisher_ms; /* kill the agent once more so long after the program's
				 end, while it finishes the run; 0: no */
	unsigned recover_ms;  /* kill the first `lapse recover` after so long; 0: no */
	bool handler, leave;
	unsigned delay_ms, linger_ms, apart_us, order;
	unsigned threads, children, rate; /* rate 0: full speed */
	char kinds[8];
	enum round_store store;
	unsigned copy_ms; /* ROUND_LOCAL: between copies */
};

/* What a round adds to the totals. */
struct round_figures {
	uint64_t returned, stored, dropped, overwritten, in_flight;
	bool began; /* the program recorded something */
};

void round_draw(uint64_t seed, unsigned number, struct round_plan *ret);

/* The plan in one line. */
void round_describe(const struct round_plan *p, struct buf *out);

/* Play it in new folders below shm and tmp, whose names end in `name`. What is
 * wrong goes to *problems, a sentence a line; nothing if all is well: then the
 * folders are deleted. The calling process must have no other children; it
 * becomes the reaper of its descendants. */
void round_play(const struct round_plan *p, const char *lapse, const char *stress, const char *name,
		struct round_figures *ret, struct buf *problems);

#endif
