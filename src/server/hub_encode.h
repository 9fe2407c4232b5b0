/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_encode.h - what happens in a run as server-sent events (docs/http.md, "Live"): the
 * bytes that all clients get. Nothing here knows of clients or time.
 */
#ifndef SERVER_HUB_ENCODE_H
#define SERVER_HUB_ENCODE_H

#include "base/buf.h"
#include "base/json.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HUB_POINTS 200u            /* points or buckets of a series in an event */
#define HUB_EVENT_MAX (256u << 10) /* bytes of an event with points, about */
#define HUB_BATCH_MAX (768u << 10) /* bytes of points at once */
#define HUB_ID_MAX 32u

/* One event's head, up to its data, which is an open object; run NULL: it has none. */
void hub_frame(struct buf *out, struct json *j, const char *id, const char *event, const char *run);
void hub_frame_end(struct buf *out, struct json *j);

/* "k7f3q2-1041". */
char *hub_id(char out[HUB_ID_MAX], const char *boot, uint64_t seq);
/* The number in it, if it is of this boot. */
bool hub_id_parse(const char *text, const char *boot, uint64_t *ret);

/* Events one after the other, numbered. */
struct hub_batch {
	const char *boot, *run; /* the caller's */
	uint64_t seq;           /* of the last event */
	struct buf bytes;
	struct hub_mark {
		uint64_t seq;
		size_t at, len;
	} * marks; /* where each is */
	size_t n, cap;
	struct json json; /* of the one that is open */
};
void hub_batch_init(struct hub_batch *b, const char *boot);
void hub_batch_done(struct hub_batch *b);
/* Empty it; numbers go on. */
void hub_batch_reset(struct hub_batch *b, const char *run);
struct json *hub_batch_begin(struct hub_batch *b, const char *event);
void hub_batch_end(struct hub_batch *b);

/* Keys of a series and of an event, into an open object. */
void hub_put_series(struct json *j, const struct store_series *s, int64_t pid);
void hub_put_event(struct json *j, const struct store_event *e, const char *host);

/* Points of one step: many become buckets of equally many, so that memory and answers stay
 * small whatever came. */
struct hub_bin {
	int64_t from_ns, to_ns, step;
	uint64_t count, nan;
	double min, max, sum, last;
};
struct hub_points {
	struct hub_batch *batch;
	size_t most; /* of a series; even, 2 to HUB_POINTS */
	/* the series that is open */
	unsigned host;
	uint32_t series; /* 0: none */
	bool is_hist;
	char *host_name;
	struct hub_bin bins[HUB_POINTS];
	size_t n;
	uint64_t width; /* points in a full bin */
	/* the event that is open */
	struct buf raw, buckets;
	struct json raw_json, bucket_json;
	bool is_open;
	size_t room;    /* of the series that is open: bins */
	size_t shown;   /* points and buckets in all */
	size_t begun;   /* the batch's bytes at the beginning */
	bool is_cut;    /* there were more than HUB_BATCH_MAX: the rest is left out */
	uint64_t count; /* points */
	int64_t step;   /* the highest; SINK_STEP_NONE: none */
};
void hub_points_init(struct hub_points *p, struct hub_batch *batch, size_t most);
void hub_points_add(struct hub_points *p, const struct store_series *s,
		    const struct store_point *point);
/* The last event; frees what p has. */
void hub_points_done(struct hub_points *p);

#endif
