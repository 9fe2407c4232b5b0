/* SPDX-License-Identifier: Apache-2.0
 *
 * keyavg_priv.h - what keyavg.c and keyavg_more.c (memory, stacks, sort keys) share.
 */
#ifndef ANALYSE_KEYAVG_PRIV_H
#define ANALYSE_KEYAVG_PRIV_H

#include "analyse/idmap.h"
#include "analyse/keyavg.h"
#include "base/buf.h"
#include "base/map.h"

#include <errno.h>

#define KEYAVG_NIL UINT32_MAX

/* Times of an event, ns since the trace's first row. */
#define KEYAVG_TS(w, e) ((w)->b->rows[(e)->row].ts)
#define KEYAVG_END(w, e) ((w)->b->rows[(e)->row].end)

enum keyavg_trait {
	KEYAVG_KNOWN = 1,
	KEYAVG_HIDDEN = 2,
	KEYAVG_FLOPS = 4 /* there is a formula */
};

struct keyavg_event {
	int64_t self_host, device, self_device;
	uint32_t row;      /* in tbrows.rows */
	uint32_t parent;   /* event; of one that is_gone the one that it became one with */
	uint32_t children; /* how many */
	int32_t lane : 31;
	bool is_gone : 1;
};

struct keyavg_bytes {
	int64_t all[2], self[2]; /* CPU, devices */
};

struct keyavg_parts;

struct keyavg_build {
	struct keyavg_parts *parts; /* the window is one of these; NULL */
	const struct tbrows *b;
	struct keyavg_options o;
	struct keyavg *k;
	struct keyavg_event *events; /* by thread and time */
	struct keyavg_bytes *bytes;  /* by event; NULL: no memory events */
	size_t n, cap;
	uint32_t *event_of;  /* by row */
	uint32_t *python_of; /* by row: the Python call around it (row), KEYAVG_NIL */
	uint8_t *traits;     /* by name: enum keyavg_trait */
	struct idmap ids;    /* external id -> operator's row */
	struct idmap names;  /* name and kind -> row of the result, where only those count */
	int32_t main_lane;   /* of the steps; -1 */
	struct map keys, stack_ids;
	struct buf stacks; /* texts, each ended by NUL; the first is empty */
};

/* Of a window: what is known from those before it, and whether its ids are all new; its launches
 * likewise; a row of the device is given to an operator. */
void keyavg_parts_begin(struct keyavg_build *w);
void keyavg_parts_launches(struct keyavg_build *w);
void keyavg_parts_give(struct keyavg_build *w, const struct tbrows_row *r);

/* keyavg.c: the sums of rows, of a window if parts is not NULL. */
void keyavg_make(struct keyavg_build *w);
bool keyavg_is_hidden(struct keyavg_build *w, uint32_t name);

/* Memory events into bytes[].all. */
void keyavg_memory(struct keyavg_build *w);

/* Prepare for, and give, the place in w->stacks of the stack around a row. */
void keyavg_stacks(struct keyavg_build *w);
uint32_t keyavg_stack(struct keyavg_build *w, size_t row);

#endif
