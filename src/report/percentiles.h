/* SPDX-License-Identifier: Apache-2.0
 *
 * percentiles.h - exact percentiles of any number of values that can be walked over
 * several times, in bounded memory. A guess from some of the values says where the
 * percentiles lie about; a pass counts what lies below and keeps what lies there. If it
 * was right one pass is enough, whatever the number of values; if not, there are at
 * most five more.
 */
#ifndef REPORT_PERCENTILES_H
#define REPORT_PERCENTILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERCENTILES_MAX 4u           /* at a time */
#define PERCENTILES_KEPT (4u << 20)  /* values kept in a pass: 32 MiB */
#define PERCENTILES_SAMPLE_MIN 1000u /* of fewer values nothing is guessed */

/* For n percents (1 to 100), ascending, of about so many values. */
struct percentiles;
struct percentiles *percentiles_new(const unsigned *percents, size_t n, uint64_t about);
void percentiles_free(struct percentiles *p);

/* Before the first pass: values taken evenly from all of them, which are moved about.
 * Wrong ones only cost more passes. */
void percentiles_guess(struct percentiles *p, double *sample, size_t n);

/* In a pass, by several threads at once. Of n values, none of them NaN, that lie in
 * [min, max]: true: they have been counted, and need not be looked at; false: they are
 * to be added. */
bool percentiles_skip(struct percentiles *p, double min, double max, uint64_t n);
/* Values, NaN left out, that lie in [min, max] (infinite: not known). */
void percentiles_add(struct percentiles *p, const double *values, size_t n, double min, double max);

/* After a pass. 0: it was the last; 1: another one over the same values; -ESTALE: they
 * were not the same. */
int percentiles_next(struct percentiles *p);

/* Then: number i, the value at rank ceil(percent / 100 x n); NaN: there are none. */
double percentiles_get(const struct percentiles *p, size_t i);

#endif
