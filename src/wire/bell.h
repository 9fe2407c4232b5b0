/* SPDX-License-Identifier: Apache-2.0
 *
 * bell.h - waking an agent that sleeps. Used inside training programs.
 */
#ifndef WIRE_BELL_H
#define WIRE_BELL_H

#include "wire/wire.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Wake the agent if it sleeps: then, and only then, one system call. May change
 * errno. */
static inline void bell_ring(struct wire_bell *bell)
{
	if (__atomic_load_n(&bell->sleeping, __ATOMIC_RELAXED) == 0)
		return;
	if (__atomic_exchange_n(&bell->sleeping, 0, __ATOMIC_RELAXED) == 1)
		syscall(SYS_futex, &bell->sleeping, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Map the bell of a rendezvous folder, made if missing; one page, unmapped by
 * the caller. NULL if it cannot be. */
struct wire_bell *bell_map(int dirfd);

#endif
