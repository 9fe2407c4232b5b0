/* SPDX-License-Identifier: Apache-2.0
 *
 * answercache.h - answers that took long, by key, in bounded memory; who asks for one that is
 * being made waits for it, if not too many wait.
 */
#ifndef SERVER_ANSWERCACHE_H
#define SERVER_ANSWERCACHE_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct answercache;

#define ANSWERCACHE_MAX 1024u /* answers, however small: keys take room, too */

/* most: bytes of all answers; an answer of more than half of it is not kept. at_once: so many
 * may be made at a time. waiting: so many calls may wait at a time. */
struct answercache *answercache_new(size_t most, unsigned at_once, unsigned waiting);
void answercache_free(struct answercache *c);

enum answercache_found {
	ANSWERCACHE_HIT,  /* *out has a copy */
	ANSWERCACHE_MAKE, /* the caller makes it, then calls answercache_put() */
	ANSWERCACHE_BUSY  /* too many wait, the wait has lasted long enough, or it is off */
};
struct answercache_wait {
	int64_t ns; /* at most so long */
	/* Asked before it is to be made, and now and then: true, nobody waits any more; NULL:
	 * never. The cache is locked: it must be quick. */
	bool (*is_off)(const void *arg);
	const void *arg;
};
enum answercache_found answercache_get(struct answercache *c, const char *key,
				       const struct answercache_wait *wait, struct buf *out);
/* Keep a copy of what was made; NULL: it could not be made. */
void answercache_put(struct answercache *c, const char *key, const struct buf *made);

/* Bytes that are kept now. */
size_t answercache_bytes(struct answercache *c);

#endif
