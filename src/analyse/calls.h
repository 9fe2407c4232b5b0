/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.h - which calls of a runtime or driver give the device work, by name: one table for
 * launch statistics, queues and operator delays, with what HTA 0.6.1 knows of each.
 */
#ifndef ANALYSE_CALLS_H
#define ANALYSE_CALLS_H

#include "trace/view.h"

enum calls_use {
	CALLS_LAUNCH = 1,     /* launches a kernel or a graph */
	CALLS_MEMORY = 2,     /* copies or sets */
	CALLS_HTA_LAUNCH = 4, /* in HTA's launch statistics */
	CALLS_HTA_QUEUE = 8,  /* in HTA's queue length */
	CALLS_HTA_DELAY = 16  /* in HTA's operator delays */
};

/* Bits of a name; 0: none of these. */
unsigned calls_of(const char *name);

/* Bits of each text of a trace by its id; the caller frees it. NULL: no memory. */
uint8_t *calls_names(const struct trace *t);

#endif
