/* SPDX-License-Identifier: Apache-2.0
 *
 * room.h - growing an array by doubling where memory may run out: analyses work on foreign
 * traces, so a refusal is an error to return and not an abort.
 */
#ifndef ANALYSE_ROOM_H
#define ANALYSE_ROOM_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/* Room for one more element behind the n used ones of *items (a pointer to the array). 0 or
 * -ENOMEM; the array stays as it was then. */
static inline int room_for(void *items, size_t n, size_t *cap, size_t size)
{
	void **at = items;
	size_t want = *cap ? *cap * 2 : 16;
	void *p;

	if (n < *cap)
		return 0;
	if (want > (size_t)-1 / size / 2)
		return -ENOMEM;
	p = realloc(*at, want * size);
	if (!p)
		return -ENOMEM;
	*at = p;
	*cap = want;
	return 0;
}

#endif
