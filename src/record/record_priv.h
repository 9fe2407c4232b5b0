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
#include <sys/types.h>

#define REC_LIKELY(x) __builtin_expect(!!(x), 1)
#define REC_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* In front of the writers of a set, in the wiped mapping. */
struct rec_set {
	uint32_t alive; /* 1 in the process that made it, 0 in its children */
	uint32_t taken; /* in a child: 1 once a thread makes its own set (atomic) */
	uint32_t lanes;
	pid_t pid;             /* of the process that made it */
	uint64_t swept;        /* ticks when dead threads' lanes were last looked for
				  (atomic) */
	uint64_t lost;         /* attempts dropped where no other counter could be
				  reached (atomic); rec_anchor() moves them */
	struct rec_set *older; /* of an earlier lapse_open(), or its parent's: wiped */
	struct ring_map ring;
	struct wire_ctl *ctl; /* control page */
	struct ring_writer writers[];
};

/* The process's state. Plain memory: children of fork() inherit it. */
struct rec_state {
	struct rec_set *set;    /* current; NULL before the first open (atomic) */
	bool closed;            /* by lapse_close() (atomic) */
	struct wire_bell *bell; /* NULL if there is none */
	uint32_t clock;         /* enum wire_clock */
	uint64_t ticks_per_s;   /* rough */
	uint64_t anchor_ticks;  /* of the last anchor */
	int64_t utc_minus_boot; /* CLOCK_REALTIME - CLOCK_BOOTTIME at open (atomic) */
	pthread_key_t key;      /* its destructor gives a lane back */
	bool has_key;
	struct rec_page { /* the control page, for the next lapse_open() */
		struct wire_ctl *ctl;
		pid_t pid;
		int fd; /* holds the lock */
		dev_t dev;
		ino_t ino;
	} page;
	struct rec_options { /* as opened */
		char name[256], project[256], role[64], store_dir[1024];
		uint64_t ring_bytes;
		uint32_t lanes;
		int has_rank, rank, local_rank, world_size;
	} opt;
	char run[128]; /* id of the run; given, or made at the first open */
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

/* A lock that a child of fork() may find held by its parent, or by one of its
 * parent's threads: the word is the holder's pid, and another process's pid
 * means that nobody here has it. */
void rec_lock(pid_t *word);
void rec_unlock(pid_t *word);

/* Length of s (or NULL) cut to max bytes, not inside a UTF-8 character. */
size_t rec_cut(const char *s, size_t max);

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

/* page.c: find or make the control page NAME under `rings`, map it into
 * rec.page and lock it. The descriptor stays open: it carries the lock that
 * tells the agent that we live. 0 or -errno. */
int rec_page_open(int rings, const char *name, uint64_t start_time, uint64_t aux);

/* Write an anchor to the set's control page. */
void rec_anchor(struct rec_set *set);

/* define.c: the registry is kept in private memory, so that definitions may
 * come before lapse_open() and outlive it; this copies what is there into a new
 * ring and keeps it up to date from then on. Refusals that no control page
 * knows yet go to ctl. -ENOSPC if they do not fit into `bytes`. */
int rec_registry_attach(struct wire_registry *shared, uint64_t bytes, struct wire_ctl *ctl);

/* Bytes of all entries so far: a new ring must have room for them. */
uint64_t rec_registry_bytes(void);

/* Definitions so far and those refused. */
void rec_registry_count(uint64_t *ret_defined, uint64_t *ret_refused);

/* lane.c: give the calling thread's lane back; then nobody owns it. */
void rec_thread_end(void *writer);

/* exit.c: close at exit, and keep the status. 0 or -1. */
int rec_at_exit(void);

/* A rank from lapse_set_rank() or the environment. */
void rec_rank_from_environment(struct wire_ctl *ctl);

#endif
