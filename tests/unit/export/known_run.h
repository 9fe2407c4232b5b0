/* SPDX-License-Identifier: Apache-2.0
 *
 * known_run.h - a run whose content can be said in formulas, for the tests of
 * the exporters, here and end to end.
 *
 * Recorded step k of `steps` (k from 0) is shown as step k while k < steps * 6 / 10,
 * else as k - steps / 10: the run was resumed there. At t(k) = start + 1 s + 10 ms
 * * k. Processes: trainer of rank 0, trainer of rank 1, host.
 *
 *   loss          rank 0, each k: 1 / (1 + k); rank 1: 2 / (1 + k), not resumed
 *   val{set="a"}  rank 0, k % 10 == 0: k
 *   early         rank 0, one value 7 without a step, at start + 0.5 s
 *   tokens        rank 0, counter, each k: 128
 *   forward       rank 0, span, twice each k: 2 ms at t(k), 3 ms at t(k) + 2 ms
 *   grad          rank 0, histogram, k % 20 == 0: one observation of -1.0, three in
 *                 bin 0x3ff0 (1.0), one in bin 0x4010 (4.0); sum 6.5, min -1, max 4
 *   cpu/busy      host, each 100 k: 0.25 at t(k)
 *   attributes    config/lr = 0.001, config/name = tiny, config/amp = True, note = x|y
 *   events        "note", each k % 500 == 0: "at K", info
 */
#ifndef TESTS_KNOWN_RUN_H
#define TESTS_KNOWN_RUN_H

#include <stdint.h>

#define KNOWN_START (1767323045 * 1000000000LL) /* 2026-01-02T03:04:05Z */

/* Make the run ROOT/known; from < to: only the steps [from, to), as a writer that
 * stops and goes on; the run is ended when to == steps. Exits on errors. */
void known_run_make(const char *root, int64_t steps, int64_t from, int64_t to);

int64_t known_run_step(int64_t steps, int64_t k);

#endif
