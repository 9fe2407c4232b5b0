/* SPDX-License-Identifier: Apache-2.0
 *
 * safemap.h - mapping a file that its owner may truncate at any moment. A SIGBUS
 * on such a mapping replaces it by zero pages and marks it broken instead of
 * ending the agent.
 */
#ifndef RING_SAFEMAP_H
#define RING_SAFEMAP_H

#include <stddef.h>

#define SAFEMAP_MAX 4096 /* mappings at one time */

struct safemap; /* a mapping */

/* Map len bytes of fd from its start, shared, readable and writable. 0 or
 * -errno; -ENOSPC when SAFEMAP_MAX mappings exist. Installs the SIGBUS handler,
 * at every call, in case somebody else took it; a SIGBUS elsewhere keeps its default effect. One
 * thread maps and unmaps; any may access. */
int safemap_new(int fd, size_t len, struct safemap **ret);

void *safemap_base(const struct safemap *g);

/* 1 once a page of it was gone: what was read since is worth nothing. */
int safemap_is_broken(const struct safemap *g);

/* Unmap; NULL is fine. */
void safemap_free(struct safemap *g);

#endif
