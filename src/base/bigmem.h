/* SPDX-License-Identifier: Apache-2.0
 *
 * bigmem.h - large arrays on large pages where the kernel has them: a page fault of 4 KiB costs
 * more than filling it.
 */
#ifndef BASE_BIGMEM_H
#define BASE_BIGMEM_H

#include <stddef.h>

/* BYTES as malloc() gives them, for free(); NULL without memory. Pages become resident as they are
 * touched, of large arrays some 2 MiB at a time; none behind the end. */
void *bigmem_alloc(size_t bytes) __attribute__((malloc));
/* The same with all bytes 0; what is not touched takes no memory. */
void *bigmem_zeroed(size_t bytes) __attribute__((malloc));

#endif
