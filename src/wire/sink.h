/* SPDX-License-Identifier: Apache-2.0
 *
 * sink.h - where the agent pushes what it has drained and probed: values in
 * their final units, UTC nanoseconds, series instead of metrics. The store is a
 * sink; tests use one that keeps everything in memory. Agent and store meet
 * only here.
 *
 * A sink collects until commit() and then stores all of it or nothing. All
 * calls come from one thread. Arguments stay the caller's.
 */
#ifndef WIRE_SINK_H
#define WIRE_SINK_H

#include <stddef.h>
#include <stdint.h>

#define SINK_STEP_NONE INT64_MIN

enum sink_kind {
	SINK_GAUGE = 1,
	SINK_COUNTER = 2,   /* value is the amount added */
	SINK_HISTOGRAM = 3, /* points are struct sink_hist */
	SINK_SPAN = 4       /* time is the start, value the duration in ns */
};

/* A process of the run. Found again by uid; a later call updates the rest. */
struct sink_process {
	uint8_t uid[16]; /* the same for all its rings; for figures of the machine
			    their role as text */
	int64_t pid, ppid;
	uint64_t start_time; /* clock ticks since boot */
	const char *role;    /* "trainer", "worker", "host" (machine figures), "command" */
	const char *program;
	int64_t rank, local_rank, world_size; /* -1 unknown */
	int64_t start_ns;                     /* UTC */
	int64_t end_ns;                       /* UTC; 0 while it lives */
	uint64_t dropped; /* records of it that no lane took (no lane, closed) */
	uint64_t refused; /* definitions refused */
};

/* A series is found again by (process, name, labels, kind is span or not). */
struct sink_series {
	uint32_t process; /* as process() gave it */
	const char *name;
	const char *labels; /* k="v",k="v", keys sorted; "" none */
	const char *unit;   /* "" none */
	const char *help;   /* "" none */
	enum sink_kind kind;
	const char *source; /* "record", "probe" or "agent" */
};

/* One sample of a gauge or counter, or one closed span. */
struct sink_sample {
	int64_t time_ns; /* UTC */
	int64_t step;    /* SINK_STEP_NONE if it has none */
	double value;
	uint32_t series;
	uint32_t thread; /* tid; 0 unknown */
};

/* Observations of one histogram since its last point. A bin's key is the upper
 * 16 bits of the observed double: sign, exponent, 4 bits of mantissa (16 bins
 * an octave); its edge nearer to zero is the double with these upper bits and
 * zeros below. */
struct sink_bin {
	uint16_t key;
	uint64_t count;
};
struct sink_hist {
	uint32_t series;
	int64_t time_ns; /* of the last observation */
	int64_t step;    /* of the last observation */
	uint64_t count;  /* without NaN */
	uint64_t nan;    /* NaN observations */
	double sum;
	double min, max;             /* NaN when count is 0 */
	const struct sink_bin *bins; /* ascending keys */
	size_t n_bins;
};

struct sink_event {
	uint32_t process;
	int64_t time_ns;
	int64_t step;
	int severity; /* 0 debug, 1 info, 2 warning, 3 error */
	const char *kind;
	const char *text;
	const char *attrs; /* JSON object or "" */
};

/* How far a lane has been consumed. All counts since the lane began. */
struct sink_position {
	uint8_t ring[16];
	uint32_t lane;
	uint32_t process; /* whose ring it is, as process() gave it */
	uint64_t pos;     /* slots */
	uint64_t rec;     /* records below pos: stored + overwritten + broken */
	uint64_t stored;
	uint64_t overwritten;
	uint64_t broken;  /* records that could not be understood */
	uint64_t dropped; /* counted by the writer, both kinds */
};

struct sink;

struct sink_ops {
	/* Define or update; the id is valid until the sink is closed. -ENOSPC
	 * when a stated maximum is reached. */
	int (*process)(struct sink *s, const struct sink_process *p, uint32_t *ret_id);
	int (*series)(struct sink *s, const struct sink_series *d, uint32_t *ret_id);

	int (*samples)(struct sink *s, const struct sink_sample *v, size_t n);
	int (*hist)(struct sink *s, const struct sink_hist *h);
	int (*event)(struct sink *s, const struct sink_event *e);
	int (*attr)(struct sink *s, uint32_t process, const char *key, const char *value);
	int (*position)(struct sink *s, const struct sink_position *p);

	/* The last position committed for a lane: 0, or -ENOENT if there is none. */
	int (*resume)(struct sink *s, const uint8_t ring[16], uint32_t lane,
		      struct sink_position *ret);

	/* Store all since the last commit, atomically and so that kill -9 does
	 * not lose it. On error nothing of it is stored and all of it is
	 * forgotten (as after rollback), but for definitions of processes and
	 * series, which stay pending. */
	int (*commit)(struct sink *s);
	void (*rollback)(struct sink *s);
};

/* First member of every sink. */
struct sink {
	const struct sink_ops *ops;
};

#endif
