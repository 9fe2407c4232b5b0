/* SPDX-License-Identifier: Apache-2.0
 *
 * guard.h - mapping a file that its owner may truncate at any moment. A SIGBUS
 * on such a mapping replaces it by zero pages and marks it broken instead of
 * ending the agent.
 */
#ifndef RING_GUARD_H
#define RING_GUARD_H

#include <stddef.h>

#define GUARD_MAX 4096 /* mappings at one time */

struct guard; /* a mapping */

/* Map len bytes of fd from its start, shared, readable and writable. 0 or
 * -errno; -ENOSPC when GUARD_MAX mappings exist. Installs the SIGBUS handler,
 * at every call, in case somebody else took it; a SIGBUS elsewhere keeps its default effect. One
 * thread maps and unmaps; any may access. */
int guard_map(int fd, size_t len, struct guard **ret);

void *guard_base(const struct guard *g);

/* 1 once a page of it was gone: what was read since is worth nothing. */
int guard_is_broken(const struct guard *g);

/* Unmap; NULL is fine. */
void guard_unmap(struct guard *g);

#endif
