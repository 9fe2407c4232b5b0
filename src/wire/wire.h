/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.h - every byte that trainer and agent share: the ring file, the control
 * page, records, the registry. docs/wire.md explains it and is the law; the
 * static asserts below pin the layout. Both sides include this file.
 *
 * All numbers are in the machine's byte order: no ring crosses a machine.
 * "Owner" is the only side that writes a word after the file has its name.
 */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_MAGIC_RING 0x31474e525350414cu /* "LAPSRNG1" */
#define WIRE_MAGIC_CTL 0x314c54435350414cu  /* "LAPSCTL1" */
#define WIRE_MAJOR 1                        /* agents read every major up to theirs */
#define WIRE_MINOR 0                        /* new record types and words taken from reserve */

#define WIRE_PAGE 4096u
#define WIRE_SLOT 32u /* bytes */
#define WIRE_LANE_BYTES 1024u
#define WIRE_LANES_MAX 256u
#define WIRE_LANE_SLOTS_MIN 1024u
#define WIRE_LANE_SLOTS_MAX (1u << 26)
#define WIRE_SPANS_OPEN 32u
#define WIRE_ANCHORS 32u
#define WIRE_REG_MAX (64u << 20) /* bytes of a registry */
#define WIRE_RING_BYTES_MAX (1ull << 34)
#define WIRE_STEP_NONE INT64_MIN

/* Which counter `ticks` are. */
enum wire_clock {
	WIRE_CLOCK_MONOTONIC = 1, /* clock_gettime(CLOCK_MONOTONIC), ns */
	WIRE_CLOCK_TSC = 2,       /* x86 rdtsc */
	WIRE_CLOCK_CNTVCT = 3     /* arm64 generic timer */
};

/* One reading of all clocks, as close together as can be. */
struct wire_anchor {
	uint64_t ticks;
	int64_t mono_ns; /* CLOCK_MONOTONIC */
	int64_t boot_ns; /* CLOCK_BOOTTIME: goes on in suspend */
	int64_t real_ns; /* CLOCK_REALTIME */
	uint64_t seq;    /* index of the anchor, written last; 0: empty or being written */
};
static_assert(sizeof(struct wire_anchor) == 40, "layout");

/* ---- control page: one file a process, PID-START-AUX.ctl ---------------- */

struct wire_ctl {
	/* 0: constant once the file has its name */
	uint64_t magic;
	uint16_t major, minor;
	uint32_t pid;
	uint64_t start_time; /* field 22 of /proc/PID/stat, clock ticks since boot */
	uint8_t boot_id[16];
	uint32_t clock; /* enum wire_clock */
	uint32_t ppid;
	uint64_t aux;    /* from AT_RANDOM: tells the images of one pid apart */
	uint64_t pid_ns; /* inode of the pid namespace in which pid holds */

	/* 64: owner: the process. Read at every record. */
	int64_t step;        /* current step, WIRE_STEP_NONE before the first */
	uint64_t step_start; /* ticks; 0 when no step is open */
	int64_t epoch;       /* current epoch; -1 none */
	uint64_t epoch_start;
	uint64_t heartbeat;  /* ticks of the last lapse_heartbeat(); 0 never */
	uint64_t steps_done; /* step records written, of the newest run */
	uint64_t reserved1[2];

	/* 128: owner: the process, atomic adds */
	uint64_t dropped_no_lane;  /* more threads than lanes */
	uint64_t dropped_closed;   /* after lapse_close() */
	uint64_t registry_refused; /* definitions that did not fit */
	int32_t rank;              /* -1 unknown */
	int32_t local_rank;
	int32_t world_size;
	uint32_t state;      /* enum wire_state */
	int32_t exit_status; /* when has_exit is 1 */
	uint32_t has_exit;
	uint64_t reserved2[2];

	/* 192: owner: the agent */
	uint64_t keep_until; /* ticks: until then a full lane drops (KEEP) */
	uint64_t keep_span;  /* ticks: keep_until is never further away than this */
	uint32_t agent_pid;
	uint32_t request; /* reserved for capture windows; 0 */
	uint64_t reserved3[5];

	uint8_t reserved4[768];

	/* 1024: owner: the process. [0] is the one at open; later ones go round
	 * in [1..31]: the anchor with index n is at 1 + (n - 1) % 31. */
	uint64_t anchor_count; /* indices handed out */
	uint64_t reserved5[7];
	struct wire_anchor anchors[WIRE_ANCHORS];
	uint8_t reserved6[WIRE_PAGE - 1024 - 64 - 40 * WIRE_ANCHORS];
};
static_assert(offsetof(struct wire_ctl, step) == 64, "layout");
static_assert(offsetof(struct wire_ctl, dropped_no_lane) == 128, "layout");
static_assert(offsetof(struct wire_ctl, keep_until) == 192, "layout");
static_assert(offsetof(struct wire_ctl, anchor_count) == 1024, "layout");
static_assert(sizeof(struct wire_ctl) == WIRE_PAGE, "layout");

enum wire_state {
	WIRE_STATE_OPEN = 1,
	WIRE_STATE_CLOSED = 2 /* lapse_close() or a normal exit */
};

/* ---- ring file: PID-START-AUX.N.ring ------------------------------------ */

/* Constant once the file has its name, but for `state`. */
struct wire_ring {
	uint64_t magic;
	uint16_t major, minor;
	uint32_t header_bytes; /* sizeof(struct wire_ring) of the writer */
	uint64_t file_bytes;
	uint8_t uid[16]; /* random: the ring's identity in the store */
	uint32_t pid, ppid;
	uint64_t start_time;
	uint8_t boot_id[16];
	uint32_t owner; /* effective user id */
	uint32_t clock; /* enum wire_clock */
	uint32_t lanes;
	uint32_t state;        /* enum wire_state; owner: the process */
	uint64_t lanes_offset; /* lanes x WIRE_LANE_BYTES */
	uint64_t registry_offset;
	uint64_t registry_bytes; /* with struct wire_registry in front */
	uint64_t ticks_per_s;    /* rough, 1e-3: a fallback when anchors are few */
	uint32_t forked;         /* 1: made by a child of fork() */
	uint32_t reserved0;
	struct wire_anchor opened;
	char ctl[128]; /* file name of the control page, same folder */
	char run[128]; /* run id: of `lapse run`, else made by the process */
	char role[64];
	char name[256]; /* name of the run outside `lapse run` */
	char project[256];
	char store_dir[1024]; /* absolute: folder of runs outside `lapse run` */
	char program[256];    /* file name of the executable */
	char cwd[1024];
	uint8_t reserved1[WIRE_PAGE - 3304];
};
static_assert(sizeof(struct wire_ring) == WIRE_PAGE, "layout");

/* A span that is open: what the thread is doing. */
struct wire_open_span {
	uint64_t start; /* ticks; 0: empty */
	int64_t step;
	uint32_t name;
	uint32_t reserved;
};

/* Where a flight recorder begins: everything below pos is gone. */
struct wire_floor {
	uint64_t pos; /* slots since the lane began */
	uint64_t rec; /* records since the lane began */
};

struct wire_lane {
	/* 0: owner: the lane's thread */
	uint64_t head;           /* slots committed since the lane began; the commit store */
	uint64_t dropped;        /* lane full in KEEP mode, or record too large */
	uint64_t dropped_signal; /* made by a handler inside a record (atomic add) */
	uint64_t records;        /* records committed, refreshed each quarter of the
				    lane and when the thread ends */
	uint32_t tid;            /* thread now owning the lane; 0 free */
	uint32_t depth;          /* open spans, may exceed WIRE_SPANS_OPEN */
	uint64_t reserved0[3];

	/* 64: owner: the agent */
	uint64_t tail;     /* slots stored for good */
	uint64_t tail_rec; /* records below tail, stored or overwritten */
	uint64_t reserved1[6];

	/* 128: owner: the lane's thread, rarely written */
	uint32_t floor_index; /* floor[floor_index & 1] holds */
	uint32_t reserved2;
	struct wire_floor floor[2];
	uint64_t slots_offset; /* constant */
	uint64_t slots;        /* constant; a power of two */
	uint64_t reserved3;

	/* 192: owner: the lane's thread */
	struct wire_open_span open[WIRE_SPANS_OPEN];
	uint8_t reserved4[64];
};
static_assert(sizeof(struct wire_open_span) == 24, "layout");
static_assert(offsetof(struct wire_lane, tail) == 64, "layout");
static_assert(offsetof(struct wire_lane, floor_index) == 128, "layout");
static_assert(offsetof(struct wire_lane, open) == 192, "layout");
static_assert(sizeof(struct wire_lane) == WIRE_LANE_BYTES, "layout");

/* ---- the bell: one file a rendezvous folder ------------------------------ */

struct wire_bell {
	/* 1: the agent sleeps in FUTEX_WAIT on this word; whoever changes it to
	 * 0 wakes it. */
	uint32_t sleeping;
	uint32_t reserved[15];
};

/* ---- records ------------------------------------------------------------ */

enum wire_type {
	WIRE_PAD = 1,     /* nothing; fills the lane up to its end */
	WIRE_OWNER = 2,   /* id tid, payload char name[32]: who records from here on;
			     like WIRE_PAD not counted as a record */
	WIRE_SET = 3,     /* id metric, value */
	WIRE_ADD = 4,     /* id metric, value */
	WIRE_OBSERVE = 5, /* id metric, value */
	WIRE_FRAME = 6,   /* id n; payload struct wire_value[n] */
	WIRE_SPAN = 7,    /* id name, time start, end */
	WIRE_STEP = 8,    /* time start, end, step; payload f64 samples, f64 tokens, 16 reserved */
	WIRE_EPOCH = 9,   /* time start, end (0: the epoch begins), id low 32 bits of the epoch */
	WIRE_EVENT = 10,  /* id severity; payload struct wire_text and bytes: kind, text, attrs */
	WIRE_ATTR = 11,   /* payload struct wire_text and bytes: key, value */
	WIRE_TYPES
};

/* Flags of a record. */
#define WIRE_F_UTC 1u   /* times are UTC ns given by the caller, not ticks */
#define WIRE_F_CUT 2u   /* a text was longer than allowed */
#define WIRE_F_OTHER 4u /* span ended in another thread than it began in */

/* The first slot of every record. */
struct wire_rec {
	uint8_t type; /* enum wire_type */
	uint8_t flags;
	uint16_t slots; /* with this one; a record never wraps */
	uint32_t id;
	uint64_t time;
	union {
		double value;
		uint64_t end;
	};
	int64_t step;
};
static_assert(sizeof(struct wire_rec) == WIRE_SLOT, "layout");

#define WIRE_REC_SLOTS_MAX 1024u

/* One value of a frame; id 0 is skipped, reserved may hold anything. */
struct wire_value {
	double value;
	uint32_t id;
	uint32_t reserved;
};
static_assert(sizeof(struct wire_value) == 16, "layout");

/* In front of the bytes of WIRE_EVENT and WIRE_ATTR. */
struct wire_text {
	uint32_t len[3]; /* kind, text, attrs; or key, value, 0 */
	uint32_t reserved;
};
static_assert(sizeof(struct wire_text) == 16, "layout");

/* ---- registry: definitions, append-only --------------------------------- */

struct wire_registry {
	uint64_t published; /* owner: the process. count << 32 | bytes used by the
			       entries; stored after the entries are complete */
	uint64_t reserved[7];
};

enum wire_kind {
	WIRE_KIND_NAME = 0, /* a span name */
	WIRE_KIND_GAUGE = 1,
	WIRE_KIND_COUNTER = 2,
	WIRE_KIND_HISTOGRAM = 3
};

/* The n-th entry, counted from 1, has id n. Strings follow without NUL: name,
 * unit, help, labels (k="v",k="v", keys sorted). */
struct wire_entry {
	uint32_t bytes; /* with strings, a multiple of 8 */
	uint8_t kind;
	uint8_t reserved[3];
	uint16_t len[4];
};
static_assert(sizeof(struct wire_entry) == 16, "layout");

#endif
