/* SPDX-License-Identifier: Apache-2.0
 *
 * feed_encode.h - what happens in a run as server-sent events (docs/http.md, "Live"): the
 * bytes that all clients get. Nothing here knows of clients or time.
 */
#ifndef SERVER_FEED_ENCODE_H
#define SERVER_FEED_ENCODE_H

#include "base/buf.h"
#include "base/json.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FEED_POINTS 200u            /* points or buckets of a series in an event */
#define FEED_POINTS_ALL 8000u       /* about, of all series at once */
#define FEED_EVENT_MAX (256u << 10) /* bytes of an event with points, about */
#define FEED_BATCH_MAX (768u << 10) /* bytes of points at once */
#define FEED_ID_MAX 32u

/* One event's head, up to its data, which is an open object; run NULL: it has none. */
void feed_frame(struct buf *out, struct json *j, const char *id, const char *event,
		const char *run);
void feed_frame_end(struct buf *out, struct json *j);

/* "k7f3q2-1041". */
char *feed_id(char out[FEED_ID_MAX], const char *boot, uint64_t seq);
/* The number in it, if it is of this boot. */
bool feed_id_parse(const char *text, const char *boot, uint64_t *ret);

/* Events one after the other, numbered. */
struct feed_batch {
	const char *boot, *run; /* the caller's */
	uint64_t seq;           /* of the last event */
	struct buf bytes;
	struct feed_mark {
		uint64_t seq;
		size_t at, len;
	} * marks; /* where each is */
	size_t n, cap;
	struct json json; /* of the one that is open */
};
void feed_batch_init(struct feed_batch *b, const char *boot);
void feed_batch_done(struct feed_batch *b);
/* Empty it; numbers go on. */
void feed_batch_reset(struct feed_batch *b, const char *run);
struct json *feed_batch_begin(struct feed_batch *b, const char *event);
void feed_batch_end(struct feed_batch *b);

/* Keys of a series and of an event, into an open object. */
void feed_put_series(struct json *j, const struct store_series *s, int64_t pid);
void feed_put_event(struct json *j, const struct store_event *e, const char *host);

/* Points of one step: many become buckets of equally many, so that memory and answers stay
 * small whatever came. */
struct feed_bin {
	int64_t from_ns, to_ns, step;
	uint64_t count, nan;
	double min, max, sum, last;
};
struct feed_points {
	struct feed_batch *batch;
	size_t most; /* of a series; even, 2 to FEED_POINTS */
	/* the series that is open */
	unsigned host;
	uint32_t series; /* 0: none */
	bool is_hist;
	char *host_name;
	struct feed_bin bins[FEED_POINTS];
	size_t n;
	uint64_t width; /* points in a full bin */
	/* the event that is open */
	struct buf raw, buckets;
	struct json raw_json, bucket_json;
	bool is_open;
	size_t n_series; /* that had points */
	size_t begun;    /* the batch's bytes at the beginning */
	bool is_cut;     /* there were more than FEED_BATCH_MAX: the rest is left out */
	uint64_t count;  /* points */
	int64_t step;    /* the highest; SINK_STEP_NONE: none */
};
void feed_points_init(struct feed_points *p, struct feed_batch *batch, size_t most);
void feed_points_add(struct feed_points *p, const struct store_series *s,
		     const struct store_point *point);
/* The last event; frees what p has. */
void feed_points_done(struct feed_points *p);

#endif
