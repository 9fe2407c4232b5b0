/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.h - the page in which the stress program counts the recording calls that
 * have returned. It is a file apart from everything of lapse: what is counted
 * here is what the program knows, whoever was killed since.
 */
#ifndef CHAOS_CALLS_H
#define CHAOS_CALLS_H

#include <stdint.h>

#define CALLS_MAGIC 0x314c4c41434b4c4cu
#define CALLS_PROCESSES 8 /* the program and its children */
#define CALLS_SLOTS 4     /* three threads, and a signal handler of the first */
#define CALLS_HANDLER 3   /* slot of the handler */

/* What a call records: letters of the option --kinds. Call i of a slot is of kind
 * i modulo their number, and carries i. */
#define CALLS_SET 's'   /* gauge "seq" = i */
#define CALLS_FRAME 'f' /* gauges "f0", "f1", "f2" = i */
#define CALLS_SPAN 'a'  /* span "at/SLOT" that took i ns */
#define CALLS_HOT 'h'   /* span "hot/SLOT", begun and ended; carries nothing */
#define CALLS_STEP 't'  /* step i; first slot only, elsewhere a set */

enum calls_state {
	CALLS_BEGINS = 0,
	CALLS_RUNS = 1,
	CALLS_CLOSED = 2 /* lapse_close() has returned */
};

/* One thread or handler; a cache line of its own. 64 bytes. */
struct calls_slot {
	uint64_t returned; /* calls that have returned */
	uint64_t worst_ns; /* longest batch of calls, without the pauses between */
	uint64_t used;     /* 1: something records here */
	uint64_t pad[5];
};

/* 320 bytes. */
struct calls_process {
	uint64_t pid;
	uint64_t state; /* enum calls_state */
	uint64_t pad[6];
	struct calls_slot slot[CALLS_SLOTS];
};

struct calls {
	uint64_t magic;     /* written last */
	uint64_t processes; /* in use (atomic add) */
	uint64_t stop;      /* 1: everybody ends */
	char kinds[8];
	uint64_t pad[4];
	struct calls_process process[CALLS_PROCESSES];
};

#endif
