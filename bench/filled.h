/* SPDX-License-Identifier: Apache-2.0
 *
 * filled.h - the file of one host that the benchmarks of the store fill: made with its series,
 * and how long it has become.
 */
#ifndef BENCH_FILLED_H
#define BENCH_FILLED_H

#include "store/store.h"

#include <stdint.h>

/* DIR/HOST.db with n gauges, series/0 on, of one process. Ends the program on failure. */
struct store *filled_open(const char *dir, const char *host, unsigned n, uint32_t *ids);

/* Bytes of DIR/NAME.db; NaN: it is not there. */
double filled_bytes(const char *dir, const char *name);

#endif
