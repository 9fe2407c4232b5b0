/* SPDX-License-Identifier: Apache-2.0
 *
 * slots.h - instances that a text names line by line (disks, interfaces, mounts): they
 * come and go, and mostly stand in the order of the reading before.
 */
#ifndef PROBE_LINUX_SLOTS_H
#define PROBE_LINUX_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* First member of every instance; what follows it is the owner's, zero at first. */
struct slot {
	char *name;
	bool seen; /* in this reading */
};

struct slots {
	char *items;
	size_t size, len, cap, max;
	size_t next; /* where the next name is looked for first */
};

/* size of an instance, at most max of them. Allocates nothing. */
void slots_init(struct slots *l, size_t size, size_t max);

/* Forgets all; close, which may be NULL, is called for each. */
void slots_done(struct slots *l, void (*close)(void *item));

/* A reading begins: nothing was seen yet. */
void slots_begin(struct slots *l);

/* The instance of this name, made if it is new (*ret_new), seen from now on. Valid until
 * the next call. NULL when there are max of them already, or no memory. */
void *slots_get(struct slots *l, const char *name, size_t len, bool *ret_new);

void *slots_at(const struct slots *l, size_t i);

/* The reading is over: forget what was not seen, telling gone of each before (NULL:
 * nobody). */
void slots_end(struct slots *l, void (*gone)(void *arg, void *item), void *arg);

#endif
