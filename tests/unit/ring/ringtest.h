/* SPDX-License-Identifier: Apache-2.0
 *
 * ringtest.h - what the ring's tests share: a ring in a folder of its own with both of its
 * ends, records that carry a number, and what is drained of them.
 */
#ifndef RINGTEST_H
#define RINGTEST_H

#include "ring/reader.h"
#include "ring/ring.h"
#include "ring/writer.h"

#include <stddef.h>
#include <stdint.h>

struct ringtest {
	char dir[64];
	int dirfd;
	struct ring_map map;
	struct wire_ctl *ctl;
	struct ring_writer *w;
	struct reader r;
};

/* Room to drain into. */
extern unsigned char ringtest_buf[WIRE_REC_SLOTS_MAX * WIRE_SLOT * 2];

void ringtest_make(struct ringtest *f, uint64_t bytes, uint32_t lanes);
void ringtest_attach(struct ringtest *f); /* the reader */
void ringtest_done(struct ringtest *f);

/* Write one record of n slots carrying the number i; 0 or the reason not. */
int ringtest_put(struct ring_writer *w, uint32_t n, uint64_t i);

/* The agent's heartbeat, for ten seconds. */
void ringtest_keep(struct ringtest *f);

/* Drain once; numbers go to out; returns how many. */
size_t ringtest_take(struct ringtest *f, uint64_t *out, size_t cap);

#endif
