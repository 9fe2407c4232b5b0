/* SPDX-License-Identifier: Apache-2.0
 *
 * record_priv.h - what the files of the client library share. Nothing outside
 * src/record may include it.
 *
 * Life of a set of lanes: lapse_open() makes a ring and a private mapping with
 * one struct ring_writer a lane, MADV_WIPEONFORK. The set is never unmapped:
 * threads may hold a pointer to their writer for as long as they live. In a
 * child of fork() the set reads as zeros; the first recording call there makes a
 * set of its own.
 */
#ifndef RECORD_RECORD_PRIV_H
#define RECORD_RECORD_PRIV_H

#include "ring/ring.h"
#include "ring/writer.h"
#include "wire/bell.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"
#include "wire/runid.h"
#include "wire/wire.h"

#include <lapse/lapse.h>

#include <pthread.h>
#include <stdbool.h>

#define REC_LIKELY(x) __builtin_expect(!!(x), 1)
#define REC_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* In front of the writers of a set, in the wiped mapping. */
struct rec_set {
	uint32_t alive;     /* 1 in the process that made it, 0 in its children */
	uint32_t closed;    /* 1 after lapse_close() (atomic) */
	uint32_t lanes;
	uint32_t reserved;  /* a child's lock while it makes its own set */
	uint64_t map_bytes;
	struct ring_writer writers[];
};

/* The process's state. Plain memory: children of fork() inherit it. */
struct rec_state {
	struct rec_set *set;        /* current; NULL before the first open (atomic) */
	struct ring_map ring;       /* of the current set */
	struct wire_ctl *ctl;       /* its control page */
	struct wire_bell *bell;     /* NULL if there is none */
	uint32_t clock;             /* enum wire_clock */
	uint64_t ticks_per_s;       /* rough */
	uint64_t anchor_ticks;      /* of the last anchor */
	int64_t open_real_ns, open_boot_ns;
	pthread_key_t key;          /* its destructor gives a lane back */
	bool has_key;
	uint64_t lost;              /* attempts dropped where no counter could be
	                               reached (atomic); rec_anchor() moves them */
	struct rec_options {        /* as opened */
		char name[256], project[256], role[64], store_dir[1024];
		uint64_t ring_bytes;
		uint32_t lanes;
		int has_rank, rank, local_rank, world_size;
	} opt;
	char run[128];              /* id of the run; given, or made at the first open */
	char error[256];
};

extern struct rec_state rec;

/* The calling thread's writer: NULL before its first record. */
extern __thread struct ring_writer *rec_writer __attribute__((tls_model("initial-exec")));

/* Ticks now. */
static inline uint64_t rec_ticks(void)
{
	return clock_ticks(rec.clock);
}

/* Slow path of every recording call: claims a lane, makes a child's ring, makes
 * room for n slots. Returns the thread's writer with room, or NULL and the
 * attempt is counted as dropped where it can be. Keeps errno. */
struct ring_writer *rec_make_room(uint32_t n);

/* The control page of this very process, or NULL if nothing is open. Makes a
 * child's ring if need be. Keeps errno. */
struct wire_ctl *rec_ctl(void);

/* open.c: make ring, control page and set as `rec.opt` says. 0 or -errno and
 * rec.error. forked: in a child. */
int rec_open_ring(bool forked);

/* Write an anchor to the control page. */
void rec_anchor(struct wire_ctl *ctl);

/* define.c: the registry is kept in private memory, so that definitions may
 * come before lapse_open() and outlive it; this copies what is there into a new
 * ring and keeps it up to date from then on. */
void rec_registry_attach(struct wire_registry *shared, uint64_t bytes);

/* Bytes of all entries so far: a new ring must have room for them. */
uint64_t rec_registry_bytes(void);

/* Definitions so far and those refused. */
void rec_registry_count(uint64_t *ret_defined, uint64_t *ret_refused);

/* lane.c: give the calling thread's lane back; then nobody owns it. */
void rec_thread_end(void *writer);

/* A rank from lapse_set_rank() or the environment. */
void rec_rank_from_environment(struct wire_ctl *ctl);

#endif
