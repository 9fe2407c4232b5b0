/* SPDX-License-Identifier: Apache-2.0
 *
 * now.h - what a clock of the kernel says, as nanoseconds. For the layers that do not know
 * src/wire, whose clock.h has the same for training programs and what speaks with them.
 */
#ifndef BASE_NOW_H
#define BASE_NOW_H

#include <stdint.h>
#include <time.h>

static inline int64_t now_read(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
