/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_simdjson.h - the peer of the trace benchmark, behind a C interface.
 */
#ifndef BENCH_TRACE_SIMDJSON_H
#define BENCH_TRACE_SIMDJSON_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Read the file and go over its traceEvents, taking ts, dur and name of each: by the On-Demand
 * interface, and by the document tree. Returns the number of events; 0: it cannot. */
uint64_t simdjson_on_demand(const char *path);
uint64_t simdjson_dom(const char *path);

#ifdef __cplusplus
}
#endif

#endif
