/* SPDX-License-Identifier: Apache-2.0
 *
 * multiply.h - a large trace from a small real one: its events over and over, with times,
 * ids and step numbers moved on, so that each copy is the next stretch of one run.
 */
#ifndef BENCH_MULTIPLY_H
#define BENCH_MULTIPLY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct multiply; /* a trace cut at the numbers that move */

/* From JSON text, kept by the caller; NULL: no array traceEvents in it. */
struct multiply *multiply_new(const char *text, size_t len);
void multiply_free(struct multiply *m);

/* Write a trace of so many copies; bytes written, 0 on failure. */
uint64_t multiply_write(const struct multiply *m, unsigned copies, FILE *out);
/* Events of one copy. */
uint64_t multiply_events(const struct multiply *m);

#endif
