/* SPDX-License-Identifier: Apache-2.0
 *
 * fmt.h - numbers and times as people read them. Each writes into the caller's
 * buffer of FMT_MAX bytes and returns it.
 */
#ifndef BASE_FMT_H
#define BASE_FMT_H

#include <stdint.h>

#define FMT_MAX 64

/* "1.5 GiB", "12 B": binary multiples, three significant digits. */
char *fmt_bytes(char out[FMT_MAX], double bytes);

/* "350 ns", "12.3 ms", "2.50 s", "3 min 12 s", "2 h 05 min", "3 d 04 h". */
char *fmt_seconds(char out[FMT_MAX], double seconds);

/* "12.3 k", "1.20 M": decimal multiples of a plain number, three digits. */
char *fmt_count(char out[FMT_MAX], double n);

/* "2026-11-28T01:02:03.456Z" of UTC nanoseconds. */
char *fmt_utc(char out[FMT_MAX], int64_t utc_ns);

/* "2026-11-28 02:02:03" in the local time zone. */
char *fmt_local(char out[FMT_MAX], int64_t utc_ns);

#endif
