/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict_priv.h - what the files of the trace verdict share: layers of merged spans by
 * priority, and one rank in the making.
 */
#ifndef ANALYSE_VERDICT_PRIV_H
#define ANALYSE_VERDICT_PRIV_H

#include "analyse/kclass.h"
#include "analyse/verdict_trace.h"

struct verdict_spans {
	struct view_span *s; /* merged, by ts */
	size_t n, cap;
};

/* Where several run at once the first counts. */
enum verdict_layer {
	LAYER_COMPUTE,
	LAYER_MEMORY,
	LAYER_COPY,
	LAYER_WAIT, /* of collectives: until the last rank comes */
	LAYER_COMM,
	LAYER_OVERHEAD,
	LAYER_DATA,
	LAYER_SYNC,
	LAYER_COLLECTIVE, /* host operators of collectives; only without a GPU */
	LAYER_WORK,       /* operators and calls */
	LAYER_HOST,       /* nothing of the host's layers, for VERDICT_HOST_NS or more */
	LAYERS
};

/* What one text means as a name, found once per text. */
struct verdict_name_class {
	uint8_t gpu;  /* enum verdict_kind + 1; 0 not looked at */
	uint8_t host; /* enum verdict_host + 1 */
};
enum verdict_host {
	HOST_PLAIN,
	HOST_LAUNCH,
	HOST_GRAPH,
	HOST_SYNC,
	HOST_ITEM,
	HOST_LOADER,
	HOST_COLLECTIVE,
	HOST_MARK /* an annotation, whatever its category */
};

struct verdict_work {
	struct verdict_rank *r;
	const struct view *v;
	struct trace *t;
	struct verdict_name_class *names; /* by text id */
	struct verdict_spans layer[LAYERS];
	/* Idle time by what the host did, found by the sweep: for evidence. */
	struct verdict_spans idle[VERDICT_KINDS];
	int64_t from, to; /* first and last instant of all windows */
	bool has_gpu, has_host, has_python;
};

/* Append a span whose ts is not below the last one's; merges. 0, -ENOMEM. */
int verdict_add(struct verdict_spans *l, int64_t ts, int64_t end);
/* Length of l within [ts, end). */
int64_t verdict_within(const struct verdict_spans *l, int64_t ts, int64_t end);

enum verdict_kind verdict_gpu_kind(struct verdict_work *w, const struct view_row *row);
enum verdict_host verdict_host_kind(struct verdict_work *w, const struct view_row *row);
/* Is the row work of the GPU; a row of the host that says what it does? */
bool verdict_is_gpu(const struct view_row *row);
bool verdict_is_host(const struct view_row *row);

int verdict_windows(struct verdict_work *w);    /* r->steps */
int verdict_layers(struct verdict_work *w);     /* layer[] but for LAYER_WAIT */
int verdict_sweep(struct verdict_work *w);      /* shares of steps, idle[] */
void verdict_recording(struct verdict_work *w); /* the profiler's estimate out of them */
int verdict_evidence(struct verdict_work *w);   /* items, measures */
/* Waiting times in collectives of all ranks: LAYER_WAIT of each. 0, -ENOMEM. */
int verdict_waits(struct verdict_work *works, size_t n, struct verdict_result *res);

#endif
