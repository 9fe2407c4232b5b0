/* SPDX-License-Identifier: Apache-2.0
 *
 * critical_priv.h - the graph of the critical path while it is built: shared by the parts
 * of the module only.
 */
#ifndef ANALYSE_CRITICAL_PRIV_H
#define ANALYSE_CRITICAL_PRIV_H

#include "analyse/critical.h"

#define CRITICAL_GAP_MAX 1500000 /* ns; hta: longer gaps are no link */
#define CRITICAL_GAP_WAIT 20000  /* ns; exact: a gap from which another stream is looked at */

/* What a name means to the graph. */
enum critical_name {
	CRITICAL_NAME_SEEN = 1,
	CRITICAL_NAME_LAUNCH = 2,    /* counts in the queue's length */
	CRITICAL_NAME_BLOCKING = 4,  /* weighs nothing */
	CRITICAL_NAME_LOCK = 8,      /* takes the lock of the CUDA runtime */
	CRITICAL_NAME_FORWARD = 16,  /* contains "forward" */
	CRITICAL_NAME_AUTOGRAD = 32, /* contains "autograd" */
	CRITICAL_NAME_DATA_LOADING = 64,
	CRITICAL_NAME_WAITS = 128 /* exact: returns when the device has come so far */
};

struct critical_node {
	int64_t ts;
	uint32_t row;
	bool is_start;
};

struct critical_arc {
	uint32_t from, to;
	uint32_t row; /* attributed */
	uint8_t type;
	bool is_old; /* a later link between the same nodes took its place */
	int64_t ns;
};

struct critical_graph {
	struct view *v;
	const struct critical_options *o;
	struct critical_result *c;
	bool is_hta;
	uint8_t *names;        /* by text id */
	bool *in;              /* row is in the window */
	uint32_t *start, *end; /* row -> node; UINT32_MAX */
	struct critical_node *nodes;
	uint32_t n_nodes;
	struct critical_arc *arcs;
	size_t n_arcs, cap_arcs;
	int32_t *queue;   /* row -> length of its stream's queue there; INT32_MIN */
	uint32_t *waited; /* exact: row -> work, or cuda_sync row, that the call waited for;
			     UINT32_MAX */
};

uint8_t critical_name_of(struct critical_graph *g, uint32_t name);
/* The launch of device work, or the work of a launch; UINT32_MAX none. */
uint32_t critical_partner(const struct critical_graph *g, uint32_t row);
/* The cuda_sync row of a call, or the call of such a row; UINT32_MAX none. */
uint32_t critical_linked(const struct critical_graph *g, uint32_t row, bool to_sync);
/* args.stream. */
int32_t critical_stream(const struct critical_graph *g, uint32_t row);
/* A call of the host (and no wait of a stream, no annotation of a device). */
bool critical_on_host(const struct critical_graph *g, uint32_t row);
bool critical_has_nodes(const struct critical_graph *g, uint32_t row);
/* ns < 0 is kept. attributed: UINT32_MAX for nobody. */
int critical_add(struct critical_graph *g, uint32_t from, uint32_t to, enum critical_edge type,
		 bool weighs, uint32_t attributed);

/* A call that has the device do something (hta: by its name). */
bool critical_is_launch(struct critical_graph *g, uint32_t row);

/* The launch next to a call about an event. key: the record's correlation; the wait's row. */
struct critical_event {
	int64_t key;
	uint32_t launch; /* row; UINT32_MAX none */
};
struct critical_events {
	struct critical_event *items; /* by key */
	size_t n, cap;
};
int critical_records(struct critical_graph *g, struct critical_events *ev);
int critical_awaits(struct critical_graph *g, struct critical_events *ev);
uint32_t critical_event_launch(const struct critical_events *ev, int64_t key);

int critical_queues(struct critical_graph *g); /* g->queue */
int critical_waits(struct critical_graph *g);  /* exact: g->waited */
int critical_host(struct critical_graph *g);   /* nodes, lock and calls */
int critical_device(struct critical_graph *g); /* waits and kernels */
int critical_walk(struct critical_graph *g);   /* the longest path into g->c */

#endif
