/* SPDX-License-Identifier: Apache-2.0
 *
 * number.h - numbers, durations and sizes as people write them, on the command
 * line and in configuration files. One number is the whole text, without blanks.
 */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdint.h>

/* What the texts want to be, for errors: "x" is not .... */
#define NUMBER_INT_WANT "a whole number"
#define NUMBER_DURATION_WANT "a duration like 90, 1.5s, 10m, 2h or 1d"
#define NUMBER_BYTES_WANT "a size like 4096, 64k, 4M or 1G"
#define NUMBER_DOUBLE_WANT "a number"

/* Each: 0, -EINVAL if text is not one, -ERANGE if it does not fit. Durations
 * and sizes are never negative. */
int number_int(const char *text, int64_t *ret);
int number_duration(const char *text, int64_t *ret_ns); /* also "250ms", "1h30m"; bare: seconds */
int number_bytes(const char *text, int64_t *ret_bytes); /* binary multiples; bare: bytes */
int number_double(const char *text, double *ret);       /* decimal, finite: "0.1", "1e-8" */

/* For qsort(): doubles, none of them NaN, and whole numbers, the smallest first. */
int number_order(const void *a, const void *b);
int number_order_int(const void *a, const void *b);

/* Add to a sum that is NaN until there is something in it. */
void number_add(double *sum, double v);

#endif
