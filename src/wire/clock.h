/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h - the tick counter that records carry, and anchors that tie it to the
 * kernel's clocks. Used inside training programs: no allocation, no output.
 */
#ifndef WIRE_CLOCK_H
#define WIRE_CLOCK_H

#include "wire/wire.h"

#include <time.h>

/* Nanoseconds of a kernel clock. */
static inline int64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Now, in ticks of the counter `kind`. TSC and CNTVCT are read without a fence:
 * neighbouring records may differ from program order by tens of cycles. */
static inline uint64_t clock_ticks(uint32_t kind)
{
#if defined(__x86_64__)
	if (__builtin_expect(kind == WIRE_CLOCK_TSC, 1))
		return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	if (__builtin_expect(kind == WIRE_CLOCK_CNTVCT, 1)) {
		uint64_t v;
		__asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
		return v;
	}
#else
	(void)kind;
#endif
	return (uint64_t)clock_ns(CLOCK_MONOTONIC);
}

/* The counter to use here: TSC only where the kernel itself trusts it as its
 * clock source, CNTVCT on arm64, else CLOCK_MONOTONIC. */
uint32_t clock_kind(void);

/* Read all clocks; of three tries the tightest. seq is left 0. */
void clock_anchor(uint32_t kind, struct wire_anchor *out);

/* The machine's boot id; zeros if it cannot be read. */
void clock_boot_id(uint8_t out[16]);

#endif
