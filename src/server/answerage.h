/* SPDX-License-Identifier: Apache-2.0
 *
 * answerage.h - which version of a live run an answer is given of, so that one that takes long
 * is made anew only now and then. Any thread.
 */
#ifndef SERVER_ANSWERAGE_H
#define SERVER_ANSWERAGE_H

#include <stddef.h>
#include <stdint.h>

#define ANSWERAGE_MAX 256u /* questions; of more the one made longest ago is forgotten */

struct answerage;

struct answerage *answerage_new(void);
void answerage_free(struct answerage *a);

/* The version that the question (a hash) was answered of, if that is less than keep_ns ago at
 * now_ns (CLOCK_MONOTONIC); else `version`, and it counts as answered of it now. keep_ns 0:
 * always that. */
uint64_t answerage_version(struct answerage *a, uint64_t question, uint64_t version, int64_t now_ns,
			   int64_t keep_ns);

#endif
