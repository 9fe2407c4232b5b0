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
	uint8_t says; /* enum verdict_says, ored */
};
enum verdict_says {
	SAYS_KNOWN = 1, /* it was looked at */
	SAYS_TENSOR = 2,
	SAYS_PAGEABLE = 4,
	SAYS_COMPILED = 8,
	SAYS_SINGLE_PROCESS = 16,
	SAYS_DATA_PARALLEL = 32,
	SAYS_STEP = 64,
	SAYS_TO_HOST = 128
};
enum verdict_host {
	HOST_PLAIN,
	HOST_LAUNCH,
	HOST_COPY, /* a launch of a copy, which may wait for it; verdict_host_kind() says which */
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
	struct verdict_spans blocked; /* waits of any kind: what the host does not do itself */
	int64_t from, to;             /* first and last instant of all windows */
	bool has_gpu, has_host, has_python;
};

int verdict_append(struct verdict_spans *l, int64_t ts, int64_t end);

/* Append a span whose ts is not below the last one's; merges. 0, -ENOMEM. */
static inline int verdict_add(struct verdict_spans *l, int64_t ts, int64_t end)
{
	if (end <= ts)
		return 0;
	if (!l->n || ts > l->s[l->n - 1].end)
		return verdict_append(l, ts, end);
	if (end > l->s[l->n - 1].end)
		l->s[l->n - 1].end = end;
	return 0;
}
/* Length of l within [ts, end). */
int64_t verdict_within(const struct verdict_spans *l, int64_t ts, int64_t end);

#define VERDICT_CAT(name) (1u << TRACE_CAT_##name)
#define VERDICT_GPU_CATS                                                                           \
	(VERDICT_CAT(KERNEL) | VERDICT_CAT(GPU_MEMCPY) | VERDICT_CAT(GPU_MEMSET) |                 \
	 VERDICT_CAT(MTIA_CCP_EVENTS) | VERDICT_CAT(COLLECTIVE_COMM))
#define VERDICT_CALL_CATS                                                                          \
	(VERDICT_CAT(CUDA_RUNTIME) | VERDICT_CAT(CUDA_DRIVER) | VERDICT_CAT(MTIA_RUNTIME) |        \
	 VERDICT_CAT(XPU_RUNTIME) | VERDICT_CAT(XPU_DRIVER) | VERDICT_CAT(PRIVATEUSE1_RUNTIME) |   \
	 VERDICT_CAT(PRIVATEUSE1_DRIVER))
#define VERDICT_HOST_CATS (VERDICT_CAT(CPU_OP) | VERDICT_CAT(USER_ANNOTATION) | VERDICT_CALL_CATS)

_Static_assert(TRACE_CATS <= 32, "a bit each");

/* Is the row work of the GPU; a row of the host that says what it does; a call of those? */
static inline bool verdict_is_gpu(const struct view_row *row)
{
	return 1u << row->cat & VERDICT_GPU_CATS;
}

static inline bool verdict_is_host(const struct view_row *row)
{
	return 1u << row->cat & VERDICT_HOST_CATS;
}

static inline bool verdict_is_call(const struct view_row *row)
{
	return 1u << row->cat & VERDICT_CALL_CATS;
}

/* What its name says; learn: the first time. */
void verdict_learn_gpu(struct verdict_work *w, const struct view_row *row);
void verdict_learn_host(struct verdict_work *w, const struct view_row *row);
void verdict_learn_says(struct verdict_work *w, uint32_t name);

static inline enum verdict_kind verdict_gpu_kind(struct verdict_work *w, const struct view_row *row)
{
	if (!w->names[row->name].gpu)
		verdict_learn_gpu(w, row);
	return w->names[row->name].gpu - 1;
}

static inline unsigned verdict_says(struct verdict_work *w, uint32_t name)
{
	if (!w->names[name].says)
		verdict_learn_says(w, name);
	return w->names[name].says;
}

/* A copy to pageable memory of the host: the call returns when the bytes are there. */
static inline bool verdict_copy_waits(struct verdict_work *w, const struct view_row *row)
{
	const struct view_row *copy = row->pair != VIEW_NO_ROW ? &w->v->rows[row->pair] : NULL;
	const unsigned both = SAYS_TO_HOST | SAYS_PAGEABLE;

	return copy && copy->cat == TRACE_CAT_GPU_MEMCPY && copy->end <= row->end &&
	       (verdict_says(w, copy->name) & both) == both;
}

static inline enum verdict_host verdict_host_kind(struct verdict_work *w,
						  const struct view_row *row)
{
	enum verdict_host kind;

	if (!w->names[row->name].host)
		verdict_learn_host(w, row);
	kind = w->names[row->name].host - 1;
	if (kind == HOST_COPY)
		return verdict_copy_waits(w, row) ? HOST_SYNC : HOST_LAUNCH;
	return kind;
}

int verdict_windows(struct verdict_work *w);    /* r->steps */
int verdict_layers(struct verdict_work *w);     /* layer[] but for LAYER_WAIT; blocked */
int verdict_sweep(struct verdict_work *w);      /* shares of steps, idle[] */
void verdict_recording(struct verdict_work *w); /* the profiler's estimate out of them */
int verdict_evidence(struct verdict_work *w);   /* items, measures */
/* Waiting times in collectives of all ranks: LAYER_WAIT of each. 0, -ENOMEM. */
int verdict_waits(struct verdict_work *works, size_t n, struct verdict_result *res);

#endif
