/* SPDX-License-Identifier: Apache-2.0
 *
 * client.h - one ring of one process, from its records to a sink: ids become
 * series, ticks become UTC, steps and spans become samples, observations are
 * binned. Knows nothing of runs' files or of the store.
 */
#ifndef AGENT_CLIENT_H
#define AGENT_CLIENT_H

#include "agent/hist.h"
#include "agent/timeline.h"
#include "base/map.h"
#include "ring/reader.h"
#include "wire/run.h"
#include "wire/sink.h"

#include <stdbool.h>

#define CLIENT_BATCH 4096 /* samples pushed at a time */
#define CLIENT_RECENT 8   /* last records of a lane kept for a crash */

/* How UTC is made in a run: UTC = real_ns + (CLOCK_BOOTTIME - boot_ns). */
struct client_epoch {
	int64_t real_ns, boot_ns;
};

struct client_def {
	uint8_t kind;      /* enum wire_kind; a later conflicting one is the first's */
	uint32_t series;   /* 0: not yet known to the sink */
	struct hist *hist; /* histograms only */
	char *name, *unit, *help, *labels;
};

struct client_lane {
	uint32_t tid; /* of the records at pos; 0 unknown */
	char thread[32];
	struct wire_rec recent[CLIENT_RECENT];
	uint64_t recent_n; /* records seen */
	bool told;         /* its quarantine has been told */
};

struct client {
	struct reader reader;
	struct timeline timeline;
	struct client_epoch epoch;
	uint8_t uid[16];         /* of the process, same for all its rings */
	uint32_t process;        /* id in the sink */
	struct client_def *defs; /* [id - 1] */
	size_t n_defs, cap_defs;
	struct map by_name; /* name NUL labels -> index + 1 of the first definition */
	struct client_lane *lanes;
	uint32_t next_lane;                                                /* to be drained first */
	uint32_t step_series, samples_series, tokens_series, epoch_series; /* 0: none yet */
	uint64_t anchors_seen; /* seq of the newest anchor taken over */
	int64_t rank, local_rank, world_size;
	uint64_t dropped, refused; /* as last told to the sink */
	int64_t start_ns;
	bool defined;            /* the process is known to the sink */
	bool ended;              /* nothing comes any more, all was drained, the end is pushed */
	bool end_stored;         /* and committed */
	int64_t end_ns;          /* of the process as told to the sink, UTC; 0: it has not ended */
	int64_t closed_ns;       /* CLOCK_MONOTONIC when the program, which goes on, was seen to
				    have closed the ring; 0: it was not */
	int64_t closed_utc;      /* and its last anchor then */
	bool pending;            /* something was pushed since the last commit */
	uint64_t progress_ticks; /* agent's ticks when its records last moved */
	struct sink *sink;       /* of the run; not owned; NULL: none, nothing is told */
	struct run_start *run;   /* attributes run.name and so on change it; not owned */
	bool run_changed;        /* they did, and it is not stored yet */
	/* Batch under construction. */
	struct sink_sample batch[CLIENT_BATCH];
	size_t n_batch;
	uint64_t flushed; /* samples pushed, ever */
};

/* Attach to a ring of dirfd. epoch: of the run. Registers the process, takes up
 * stored positions. 0, or what reader_open() says, or an error of the sink. */
int client_open(struct client **ret, int dirfd, const char *name, const struct client_epoch *epoch,
		struct sink *sink, char why[128]);
void client_free(struct client *c);

/* The store was replaced: define everything again in another sink. An end that no store
 * has is to be told again with client_end(). */
int client_reset(struct client *c, struct sink *sink);

/* Read definitions and lanes and push. *room is how many slots may be read, or samples
 * pushed if these are more (a read takes cap bytes at most, the last one
 * WIRE_REC_SLOTS_MAX slots more than there is room for); they are taken off. 0: there may
 * be more, and the next call begins with the lane behind the one where this ended. buf
 * has cap bytes, room for a record of any size. Returns 0, an error of the sink (the caller rolls
 * back), or -EIO when the file is gone or was truncated: the client is over. */
int client_drain(struct client *c, void *buf, size_t cap, uint64_t *room);

/* Push histograms and positions: right before the sink's commit. */
int client_before_commit(struct client *c);

/* After the commit: 0 moves the tails, else everything will be read again, and an end that
 * was told since the last one is to be told again. */
void client_after_commit(struct client *c, int result);

/* The fullest lane's share, 0 to 1, and slots waiting over all lanes. */
double client_fullness(struct client *c, uint64_t *ret_waiting);

/* Take an anchor of this machine's clocks (agent's own), and the client's. */
void client_anchor(struct client *c, const struct wire_anchor *now);

/* Will nothing be added? The process is dead; or it closed the ring of a run of its own and
 * goes on, a notebook or a sweep, for longer than it takes to end: then its status would say
 * more. is_own: nobody else tells how the run ends. now: of this second; now_utc: the same. */
bool client_is_over(struct client *c, int rings, bool is_own, const struct wire_anchor *now,
		    int64_t now_utc);

/* The process is dead, or client_is_over(): say so to the sink, with its evidence file, if there is
 * one in `rings`, and what it was doing if it did not close its ring. Call when
 * all lanes are empty. end_ns: UTC. */
int client_end(struct client *c, int rings, int64_t end_ns);

/* Name of the evidence file in rings/; "" if there can be none. */
void client_evidence_name(const struct client *c, char *out, size_t cap);

/* When the process closed or exited, by its own last anchor, UTC; `otherwise` if
 * it did neither. */
int64_t client_end_time(const struct client *c, int64_t otherwise);

/* Open spans of all lanes: longest open span's name ("" none), and how many. */
unsigned client_open_spans(struct client *c, char *name, size_t cap);

/* Is a span open whose name is one of those? */
bool client_is_in(struct client *c, bool (*is_one)(const char *name));

/* UTC of ticks. */
int64_t client_utc(struct client *c, uint64_t ticks);

#endif
